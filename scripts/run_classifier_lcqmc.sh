#!/usr/bin/env bash
# Fine-tunes on LCQMC with albert_zh's settings (length 128, batch 64, learning
# rate 1e-4, 5 epochs). The data set is not shipped: DATA_DIR has train.txt,
# dev.txt and test.txt; INIT_CHECKPOINT is a checkpoint of the config's size.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

DATA_DIR="${DATA_DIR:?the folder with train.txt, dev.txt and test.txt of LCQMC}"
INIT_CHECKPOINT="${INIT_CHECKPOINT:?a checkpoint, such as albert_tiny_489k/albert_model.ckpt}"
CONFIG_FILE="${CONFIG_FILE:-$ROOT/albert_config/albert_config_tiny.json}"
VOCAB_FILE="${VOCAB_FILE:-$ROOT/albert_config/vocab.txt}"
OUTPUT_DIR="${OUTPUT_DIR:-$ROOT/output/lcqmc}"
use_environment requirements.txt

exec "$PYTHON" "$ROOT/run_classifier.py" \
  --task_name=lcqmc_pair \
  --do_train=True \
  --do_eval=True \
  --do_predict=True \
  --data_dir="$DATA_DIR" \
  --vocab_file="$VOCAB_FILE" \
  --bert_config_file="$CONFIG_FILE" \
  --init_checkpoint="$INIT_CHECKPOINT" \
  --output_dir="$OUTPUT_DIR" \
  --max_seq_length=128 \
  --train_batch_size=64 \
  --learning_rate=1e-4 \
  --num_train_epochs=5 \
  "$@"
