#!/usr/bin/env bash
# Fine-tunes on one CLUE classification task with albert_zh's settings:
#   DATA_DIR=CLUEdataset INIT_CHECKPOINT=... bash scripts/run_classifier_clue.sh tnews
# The data sets are not shipped: DATA_DIR/<task> has train.json, dev.json and
# test.json.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

TASK_NAME="${1:-}"
# length, batch size, learning rate, epochs, steps between checkpoints
case "$TASK_NAME" in
  afqmc)   settings=(128 16 2e-5 3 300) ;;
  cmnli)   settings=(128 64 3e-5 2 300) ;;
  csl)     settings=(128 16 1e-5 5 100) ;;
  iflytek) settings=(128 32 2e-5 3 300) ;;
  tnews)   settings=(128 16 2e-5 3 300) ;;
  wsc)     settings=(128 16 1e-5 10 10) ;;
  *) die "name a task: afqmc, cmnli, csl, iflytek, tnews or wsc; found" \
       "'$TASK_NAME'" ;;
esac
shift

DATA_DIR="${DATA_DIR:?the folder that has a folder for each CLUE task}"
INIT_CHECKPOINT="${INIT_CHECKPOINT:?a checkpoint, such as albert_tiny_489k/albert_model.ckpt}"
CONFIG_FILE="${CONFIG_FILE:-$ROOT/albert_config/albert_config_tiny.json}"
VOCAB_FILE="${VOCAB_FILE:-$ROOT/albert_config/vocab.txt}"
OUTPUT_DIR="${OUTPUT_DIR:-$ROOT/output/$TASK_NAME}"
use_environment requirements.txt

exec "$PYTHON" "$ROOT/run_classifier.py" \
  --task_name="$TASK_NAME" \
  --do_train=True \
  --do_eval=True \
  --do_predict=True \
  --data_dir="$DATA_DIR/$TASK_NAME" \
  --vocab_file="$VOCAB_FILE" \
  --bert_config_file="$CONFIG_FILE" \
  --init_checkpoint="$INIT_CHECKPOINT" \
  --output_dir="$OUTPUT_DIR" \
  --keep_checkpoint_max=0 \
  --max_seq_length="${settings[0]}" \
  --train_batch_size="${settings[1]}" \
  --learning_rate="${settings[2]}" \
  --num_train_epochs="${settings[3]}" \
  --save_checkpoints_steps="${settings[4]}" \
  "$@"
