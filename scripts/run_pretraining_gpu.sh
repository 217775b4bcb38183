#!/usr/bin/env bash
# Pre-trains on one GPU (or, slowly, the CPU) on what create_pretrain_data.sh
# made. The learning rate is LAMB's 0.00176 * sqrt(batch / 4096) for batch 64.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_environment requirements.txt

INPUT_FILE="${INPUT_FILE:-$ROOT/output/pretrain/train.tfrecord}"
EVAL_INPUT_FILE="${EVAL_INPUT_FILE:-}"
CONFIG_FILE="${CONFIG_FILE:-$ROOT/albert_config/albert_config_base.json}"
OUTPUT_DIR="${OUTPUT_DIR:-$ROOT/output/pretraining}"
INIT_CHECKPOINT="${INIT_CHECKPOINT:-}"
TRAIN_BATCH_SIZE="${TRAIN_BATCH_SIZE:-64}"
LEARNING_RATE="${LEARNING_RATE:-0.00022}"
NUM_TRAIN_STEPS="${NUM_TRAIN_STEPS:-125000}"
NUM_WARMUP_STEPS="${NUM_WARMUP_STEPS:-12500}"
MAX_SEQ_LENGTH="${MAX_SEQ_LENGTH:-512}"
MAX_PREDICTIONS="${MAX_PREDICTIONS:-51}"

"$PYTHON" "$ROOT/run_pretraining.py" \
  --do_train=True \
  --do_eval=True \
  --input_file="$INPUT_FILE" \
  --eval_input_file="$EVAL_INPUT_FILE" \
  --output_dir="$OUTPUT_DIR" \
  --init_checkpoint="$INIT_CHECKPOINT" \
  --bert_config_file="$CONFIG_FILE" \
  --train_batch_size="$TRAIN_BATCH_SIZE" \
  --max_seq_length="$MAX_SEQ_LENGTH" \
  --max_predictions_per_seq="$MAX_PREDICTIONS" \
  --num_train_steps="$NUM_TRAIN_STEPS" \
  --num_warmup_steps="$NUM_WARMUP_STEPS" \
  --learning_rate="$LEARNING_RATE" \
  --save_checkpoints_steps=2000 \
  "$@"
