#!/usr/bin/env bash
# Fine-tunes on one task of CLUE or FewCLUE:
#   bash scripts/run_classifier_clue.sh tnews --data_dir=CLUEdataset \
#     --init_checkpoint=albert_tiny_489k/albert_model.ckpt
# DATA_DIR (or --data_dir) has a folder, or the zip as it comes, for each task,
# or is the one of this task. The data are not shipped. INIT_CHECKPOINT
# (--init_checkpoint) is of CONFIG_FILE's size. More flags go to
# run_classifier.py. scripts/run_clue.sh runs all tasks.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
source "$ROOT/scripts/classifier_env.sh"

TASK_NAME="${1:-}"
case " $CLUE_TASKS $FEWCLUE_TASKS tnews10 wsc10 cluewsc2020 " in
  *" ${TASK_NAME:-none} "*) shift ;;
  *) die "name a task: $CLUE_TASKS tnews10 wsc10 $FEWCLUE_TASKS; found" \
       "'$TASK_NAME'" ;;
esac
parse_arguments "$@"
locate_data "$TASK_NAME"
check_checkpoint
use_environment requirements.txt
classifier_command "$TASK_NAME" "$DATA" \
  "${OUTPUT_DIR:-$ROOT/output/$TASK_NAME}" ${ARGUMENTS[@]+"${ARGUMENTS[@]}"}
exec "${COMMAND[@]}"
