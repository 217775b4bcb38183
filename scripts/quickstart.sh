#!/usr/bin/env bash
# From the shipped sample to a working classifier, in one to three minutes on
# two cores: records, pre-training, evaluation, fine-tuning, predictions.
#   OUTPUT_DIR  where everything goes; default output/quickstart, made anew
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_environment requirements.txt
OUTPUT_DIR="${OUTPUT_DIR:-$ROOT/output/quickstart}"
VOCAB="$ROOT/albert_config/vocab.txt"
CONFIG="$ROOT/albert_config/albert_config_sample.json"

# step NAME COMMAND...: runs it, its output into NAME.log, and says how it went.
step() {
  local name="$1" start=$SECONDS
  shift
  printf '%-12s ' "$name"
  if ! "$@" > "$OUTPUT_DIR/$name.log" 2>&1; then
    echo "failed; the end of $OUTPUT_DIR/$name.log:"
    tail -n 15 "$OUTPUT_DIR/$name.log"
    exit 1
  fi
  echo "$((SECONDS - start)) s"
}

# Only what an earlier quickstart made is removed.
if [ -e "$OUTPUT_DIR" ] && [ ! -e "$OUTPUT_DIR/.quickstart" ]; then
  die "OUTPUT_DIR $OUTPUT_DIR exists and is not of an earlier quickstart"
fi
rm -rf "$OUTPUT_DIR"
mkdir -p "$OUTPUT_DIR/records"
touch "$OUTPUT_DIR/.quickstart"

# The last tenth of the documents is kept for evaluation.
split_corpus() {
  "$PYTHON" - "$ROOT/data/sample_corpus.txt" "$OUTPUT_DIR/records" <<'PYTHON'
import io, sys
source, folder = sys.argv[1:]
documents = io.open(source, encoding="utf-8").read().strip().split("\n\n")
cut = len(documents) * 9 // 10
for name, part in (("train", documents[:cut]), ("eval", documents[cut:])):
  with io.open("%s/%s.txt" % (folder, name), "w", encoding="utf-8") as writer:
    writer.write("\n\n".join(part) + "\n")
PYTHON
}

create_records() {
  "$PYTHON" "$ROOT/create_pretraining_data.py" \
    --input_file="$OUTPUT_DIR/records/$1.txt" \
    --output_file="$OUTPUT_DIR/records/$1.tfrecord" --vocab_file="$VOCAB" \
    --do_whole_word_mask=True --max_seq_length=64 \
    --max_predictions_per_seq=10 --masked_lm_prob=0.15 --dupe_factor="$2"
}

step split split_corpus
step records create_records train 40
step eval_records create_records eval 2
step pretraining "$PYTHON" "$ROOT/run_pretraining.py" --do_train --do_eval \
  --input_file="$OUTPUT_DIR/records/train.tfrecord" \
  --eval_input_file="$OUTPUT_DIR/records/eval.tfrecord" \
  --bert_config_file="$CONFIG" --output_dir="$OUTPUT_DIR/pretraining" \
  --max_seq_length=64 --max_predictions_per_seq=10 --train_batch_size=32 \
  --eval_batch_size=32 --optimizer=adamw --learning_rate=3e-4 \
  --num_train_steps=200 --num_warmup_steps=20 --log_steps=50 \
  --save_checkpoints_steps=200
# So few texts are better mixed than sorted by length.
step finetuning "$PYTHON" "$ROOT/run_classifier.py" --task_name=tsv \
  --data_dir="$ROOT/data/sample_classification" --do_train --do_eval \
  --do_predict --vocab_file="$VOCAB" --bert_config_file="$CONFIG" \
  --init_checkpoint="$OUTPUT_DIR/pretraining" \
  --output_dir="$OUTPUT_DIR/classifier" --max_seq_length=32 \
  --train_batch_size=16 --eval_batch_size=64 --predict_batch_size=64 \
  --learning_rate=5e-4 --num_train_epochs=12 --save_checkpoints_steps=60 \
  --log_steps=20 --bucket_by_length=false
step predictions "$PYTHON" "$ROOT/similarity.py" \
  --model_dir="$OUTPUT_DIR/classifier" \
  "主队在加时赛打进一球赢得冠军" "央行下调利率后股市上涨" \
  "新款手机的芯片运算速度提高一倍" "锅里倒油放入葱姜小火慢炒"
echo
"$PYTHON" "$ROOT/scripts/quickstart_report.py" "$OUTPUT_DIR"
