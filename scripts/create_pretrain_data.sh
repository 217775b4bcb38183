#!/usr/bin/env bash
# Raw text into TFRecords with albert_zh's settings (length 512, whole words).
# The shipped sample takes seconds; your own text: INPUT_FILE='dir/*.txt'.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_environment requirements.txt

INPUT_FILE="${INPUT_FILE:-$ROOT/data/sample_corpus.txt}"
OUTPUT_FILE="${OUTPUT_FILE:-$ROOT/output/pretrain/train.tfrecord}"
VOCAB_FILE="${VOCAB_FILE:-$ROOT/albert_config/vocab.txt}"
MAX_SEQ_LENGTH="${MAX_SEQ_LENGTH:-512}"
MAX_PREDICTIONS="${MAX_PREDICTIONS:-51}"
MASKED_LM_PROB="${MASKED_LM_PROB:-0.10}"

mkdir -p "$(dirname "$OUTPUT_FILE")"
"$PYTHON" "$ROOT/create_pretraining_data.py" \
  --do_whole_word_mask=True \
  --input_file="$INPUT_FILE" \
  --output_file="$OUTPUT_FILE" \
  --vocab_file="$VOCAB_FILE" \
  --do_lower_case=True \
  --max_seq_length="$MAX_SEQ_LENGTH" \
  --max_predictions_per_seq="$MAX_PREDICTIONS" \
  --masked_lm_prob="$MASKED_LM_PROB" \
  "$@"
