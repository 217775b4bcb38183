#!/usr/bin/env bash
# Pre-trains on the GPUs of one machine (or, slowly, the CPU) on what
# create_pretrain_data.sh made. The learning rate is LAMB's
# 0.00176 * sqrt(batch / 4096) for batch 64. For example, two GPUs
# in half precision, each with a quarter of its share at a time:
#   NUM_GPUS=2 PRECISION=float16 ACCUMULATION=4 bash scripts/run_pretraining_gpu.sh
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
NUM_GPUS="${NUM_GPUS:-0}"          # 0: one device, a GPU if there is any
PRECISION="${PRECISION:-float32}"  # or float16, bfloat16
ACCUMULATION="${ACCUMULATION:-1}"  # parts of a batch, one after the other

# exec: a signal for this script is one for the training.
exec "$PYTHON" "$ROOT/run_pretraining.py" \
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
  --num_gpus="$NUM_GPUS" \
  --precision="$PRECISION" \
  --gradient_accumulation_steps="$ACCUMULATION" \
  --save_checkpoints_steps=2000 \
  "$@"
