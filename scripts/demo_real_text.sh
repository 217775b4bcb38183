#!/usr/bin/env bash
# Real Chinese text: pre-trains the tiny model on news and statutes, fine-tunes
# it on 10 000 headlines of ten topics, from that checkpoint and from scratch,
# and prints both beside naive Bayes. The text comes from pinned packages.
# README.md, "On real text", has its time and figures.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_environment requirements.txt

OUTPUT_DIR="${OUTPUT_DIR:-$ROOT/output/real_text}"
DATA_DIR="${DATA_DIR:-$ROOT/demo_data}"
CONFIG_FILE="${CONFIG_FILE:-$ROOT/albert_config/albert_config_tiny_preln.json}"
VOCAB_FILE="${VOCAB_FILE:-$ROOT/albert_config/vocab.txt}"
MAX_CHARACTERS="${MAX_CHARACTERS:-2000000}"
NUM_TRAIN_STEPS="${NUM_TRAIN_STEPS:-500}"

mkdir -p "$OUTPUT_DIR"
# timed NAME COMMAND...: runs it, its log into NAME.log, and says how long.
timed() {
  local name="$1" start=$SECONDS
  shift
  if ! "$@" 2> "$OUTPUT_DIR/$name.log"; then
    tail -n 15 "$OUTPUT_DIR/$name.log" >&2
    die "$name failed; its log is $OUTPUT_DIR/$name.log"
  fi
  echo "== $name: $((SECONDS - start)) s"
}

timed corpus "$PYTHON" "$ROOT/scripts/prepare_demo_data.py" corpus \
  --sources=news,statutes --max_characters="$MAX_CHARACTERS" \
  --output_dir="$DATA_DIR"
timed headlines "$PYTHON" "$ROOT/scripts/prepare_demo_data.py" thucnews \
  --output_dir="$DATA_DIR"
timed records "$PYTHON" "$ROOT/create_pretraining_data.py" \
  --input_file="$DATA_DIR/corpus/news.txt,$DATA_DIR/corpus/statutes.txt" \
  --output_file="$OUTPUT_DIR/train.tfrecord" --vocab_file="$VOCAB_FILE" \
  --do_whole_word_mask=True --max_seq_length=128 \
  --max_predictions_per_seq=20 --masked_lm_prob=0.15 --dupe_factor=3
timed pretraining "$PYTHON" "$ROOT/run_pretraining.py" --do_train \
  --input_file="$OUTPUT_DIR/train.tfrecord" \
  --bert_config_file="$CONFIG_FILE" --output_dir="$OUTPUT_DIR/pretraining" \
  --max_seq_length=128 --max_predictions_per_seq=20 --train_batch_size=32 \
  --optimizer=adamw --learning_rate=5e-4 --num_warmup_steps=50 \
  --num_train_steps="$NUM_TRAIN_STEPS" --log_steps=50 \
  --save_checkpoints_steps=250

finetune() {
  "$PYTHON" "$ROOT/run_classifier.py" --task_name=tsv --do_train --do_eval \
    --do_predict --data_dir="$DATA_DIR/thucnews" --vocab_file="$VOCAB_FILE" \
    --bert_config_file="$CONFIG_FILE" --init_checkpoint="$2" \
    --output_dir="$OUTPUT_DIR/$1" --max_seq_length=32 --train_batch_size=32 \
    --eval_batch_size=128 --predict_batch_size=128 --learning_rate=2e-4 \
    --num_train_epochs=3 --save_checkpoints_steps=250 --log_steps=50
}
timed from_checkpoint finetune from_checkpoint "$OUTPUT_DIR/pretraining"
timed from_scratch finetune from_scratch ""

grep -h 'masked_lm_loss' "$OUTPUT_DIR/pretraining.log" |
  sed -n 's/.*step \([0-9]*\).*masked_lm_loss \([0-9.]*\).*/step \1: masked-LM loss \2/p'
for run in from_checkpoint from_scratch; do
  echo "$run: test $(grep '^accuracy' "$OUTPUT_DIR/$run/test_results.txt")"
done
