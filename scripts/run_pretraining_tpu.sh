#!/usr/bin/env bash
# Pre-trains on a TPU with albert_zh's recipe: LAMB, batch 4096, length 512,
# 125000 steps, learning rate 0.00176, on 256 cores of a pod (a single TPU has
# NUM_TPU_CORES=8). Paths are on Google Cloud Storage:
#   TPU_NAME=my-tpu BUCKET=gs://my-bucket bash scripts/run_pretraining_tpu.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

TPU_NAME="${TPU_NAME:?the name of the TPU}"
BUCKET="${BUCKET:?the bucket, gs://..., with the records}"
INPUT_FILE="${INPUT_FILE:-$BUCKET/pretrain/*.tfrecord}"
CONFIG_FILE="${CONFIG_FILE:-$ROOT/albert_config/albert_config_base.json}"
OUTPUT_DIR="${OUTPUT_DIR:-$BUCKET/albert_base_zh}"
EVAL_INPUT_FILE="${EVAL_INPUT_FILE:-}"
NUM_TPU_CORES="${NUM_TPU_CORES:-256}"
PRECISION="${PRECISION:-float32}"  # or bfloat16
ACCUMULATION="${ACCUMULATION:-1}"   # parts of a core's batch
TPU_ZONE="${TPU_ZONE:-}"
VOCAB_FILE="${VOCAB_FILE:-$ROOT/albert_config/vocab.txt}"
use_environment requirements.txt

exec "$PYTHON" "$ROOT/run_pretraining.py" \
  --do_train=True \
  --do_eval=True \
  --input_file="$INPUT_FILE" \
  --eval_input_file="$EVAL_INPUT_FILE" \
  --output_dir="$OUTPUT_DIR" \
  --vocab_file="$VOCAB_FILE" \
  --bert_config_file="$CONFIG_FILE" \
  --optimizer=lamb \
  --train_batch_size=4096 \
  --eval_batch_size=4096 \
  --max_seq_length=512 \
  --max_predictions_per_seq=51 \
  --num_train_steps=125000 \
  --num_warmup_steps=12500 \
  --learning_rate=0.00176 \
  --save_checkpoints_steps=2000 \
  --use_tpu=True \
  --tpu_name="$TPU_NAME" \
  --tpu_zone="$TPU_ZONE" \
  --num_tpu_cores="$NUM_TPU_CORES" \
  --precision="$PRECISION" \
  --gradient_accumulation_steps="$ACCUMULATION" \
  "$@"
