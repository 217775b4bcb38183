#!/usr/bin/env bash
# Fine-tunes on LCQMC with albert_zh's settings (length 128, batch 64, learning
# rate 1e-4, 5 epochs):
#   bash scripts/run_classifier_lcqmc.sh --data_dir=LCQMC.zip \
#     --init_checkpoint=albert_tiny_489k/albert_model.ckpt
# DATA_DIR (or --data_dir) has train.txt, dev.txt and test.txt, which are not
# shipped; it is their folder, the folder around it, or a zip. INIT_CHECKPOINT
# (--init_checkpoint) is of CONFIG_FILE's size. More flags go to
# run_classifier.py.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
source "$ROOT/scripts/classifier_env.sh"

parse_arguments "$@"
locate_data lcqmc_pair
check_checkpoint
use_environment requirements.txt
classifier_command lcqmc_pair "$DATA" "${OUTPUT_DIR:-$ROOT/output/lcqmc}" \
  ${ARGUMENTS[@]+"${ARGUMENTS[@]}"}
exec "${COMMAND[@]}"
