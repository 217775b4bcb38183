#!/usr/bin/env bash
# Fine-tunes on all classification tasks of CLUE, or some, and makes one table
# and one zip of submissions of them:
#   bash scripts/run_clue.sh --data_dir=CLUEdataset \
#     --init_checkpoint=albert_tiny_489k/albert_model.ckpt
#   --data_dir         (DATA_DIR) has a folder, or the zip as it comes, for each
#                      task; nothing is downloaded, nothing in it is changed
#   --init_checkpoint  (INIT_CHECKPOINT) of CONFIG_FILE's size, or none
#   --tasks            (TASKS) comma list of tasks, clue (default), fewclue
#   --variant          (VARIANT) for FewCLUE 0 to 4 or few_all, for ocnli 50k,
#                      30k, 10k or 3k; what is written has it in its name
#   --output_dir       (OUTPUT_DIR) a folder for each task, logs/,
#                      clue_results.md, clue_submission.zip; default output/clue
#   --check_only       reads the data files and stops
# Other flags go to run_classifier.py, such as --num_seeds=3. All files are
# checked before the first training. The same command again goes on where it
# was; other tasks that are finished in output_dir stay in the table.
# Exit code: 0 all tasks are done; 3 some have no data; 4 some have wrong data or
# ended with an error; 1 nothing was begun; 129 and more: told to stop.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
source "$ROOT/scripts/classifier_env.sh"
MISSING=3
FAILED=4

OWN_FLAGS="tasks variant check_only"
parse_arguments "$@"
VARIANT="${VARIANT:-}"
OUTPUT_DIR="${OUTPUT_DIR:-$ROOT/output/clue}"

# The tasks asked for, each once.
tasks=" "
for task in $(echo "${TASKS:-clue}" | tr ',' ' '); do
  case "$task" in
    clue) added="$CLUE_TASKS" ;;
    fewclue) added="$FEWCLUE_TASKS" ;;
    *) added="$task" ;;
  esac
  for task in $added; do
    case " $CLUE_TASKS $FEWCLUE_TASKS " in *" $task "*) ;; *)
      die "--tasks has $task, expected a comma list of clue, fewclue," \
        "$CLUE_TASKS $FEWCLUE_TASKS" ;;
    esac
    case "$VARIANT,$task" in
      ,*|0,fewclue_*|[1-4],fewclue_*|few_all,fewclue_*) ;;
      50k,ocnli|30k,ocnli|10k,ocnli|3k,ocnli) ;;
      *) die "--variant is $VARIANT, which $task does not have; FewCLUE's tasks" \
           "have 0 to 4 and few_all, ocnli 50k, 30k, 10k and 3k" ;;
    esac
    case "$tasks" in *" $task "*) ;; *) tasks="$tasks$task " ;; esac
  done
done

[ -n "${DATA_DIR:-}" ] || {
  die "give the folder that has a folder or zip for each task as --data_dir or" \
    "DATA_DIR; they come from$(for task in $tasks; do
      printf '\n  %s' "$(download_of "$task")"; done)"
}
[ -d "$DATA_DIR" ] || die "there is no folder $DATA_DIR (--data_dir)"
[ -n "${CHECK_ONLY:-}" ] || check_checkpoint

# With FewCLUE's splits each task has several runs.
named() {
  echo "$1${VARIANT:+:$VARIANT}"
}
folder_of() {
  echo "$OUTPUT_DIR/$1${VARIANT:+_$VARIANT}"
}

# note STATE TASK WHY: for the table, and said at once.
states=() found="" any_missing="" any_failed=""
note() {
  states+=("--$1" "$(named "$2")=$3")
  echo "$2: $1: $3" >&2
  case "$1" in missing) any_missing=yes ;; failed) any_failed=yes ;; esac
}

for task in $tasks; do
  if find_data "$task" "$DATA_DIR"; then
    found="$found$task "
  else
    note missing "$task" "$(missing_data "$task" "$DATA_DIR")"
  fi
done
[ -n "$found" ] || exit "$MISSING"

use_environment requirements.txt
ready=""
for task in $found; do
  find_data "$task" "$DATA_DIR"
  status=0
  said="$("$PYTHON" "$ROOT/classifier_report.py" check --data_dir="$DATA" \
    ${VARIANT:+--variant="$VARIANT"} "$task" 2>&1)" || status=$?
  said="$(echo "${said#classifier_report.py: error: }" | tail -n 1)"
  case "$status" in
    0) echo "$said"; ready="$ready$task " ;;
    "$MISSING") note missing "$task" "$said" ;;
    *) note failed "$task" "$said" ;;
  esac
done
[ -z "${CHECK_ONLY:-}" ] || ready=""

# The runner saves a checkpoint at the first signal and ends at the second. In a
# process group of its own (set -m) it does not get the terminal's Ctrl-C, but
# what this process is told, once each time.
child="" stopped=""
stop() {
  stopped="$1"
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null || true
}
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 143' TERM

train() {
  local task="$1" log="$2" status=0
  find_data "$task" "$DATA_DIR"
  classifier_command "$task" "$DATA" "$(folder_of "$task")" \
    ${VARIANT:+--variant="$VARIANT"} ${ARGUMENTS[@]+"${ARGUMENTS[@]}"}
  set -m
  "${COMMAND[@]}" >> "$log" 2>&1 < /dev/null &
  child=$!
  set +m
  wait "$child" || status=$?
  while kill -0 "$child" 2>/dev/null; do
    status=0
    wait "$child" || status=$?
  done
  child=""
  return "$status"
}

finished=()
[ -n "${CHECK_ONLY:-}" ] || mkdir -p "$OUTPUT_DIR/logs"
for task in $ready; do
  log="$OUTPUT_DIR/logs/$(basename "$(folder_of "$task")").log"
  echo "== $task: log in $log"
  start=$SECONDS status=0
  [ -n "$stopped" ] || train "$task" "$log" || status=$?
  if [ -n "$stopped" ]; then
    echo "stopped; the same command goes on where $task was" >&2
    exit "$stopped"
  elif [ "$status" -ne 0 ]; then
    note failed "$task" "$(tail -n 1 "$log") (exit code $status, $log)"
  else
    echo "== $task: $((SECONDS - start)) s"
    finished+=("$(folder_of "$task")")
  fi
done

# What earlier commands have finished stands in the table, too.
for task in $CLUE_TASKS $FEWCLUE_TASKS; do
  case "$tasks" in *" $task "*) continue ;; esac
  [ ! -e "$(folder_of "$task")/results.json" ] ||
    finished+=("$(folder_of "$task")")
done
if [ -z "${CHECK_ONLY:-}" ]; then
  "$PYTHON" "$ROOT/classifier_report.py" table \
    --output="$OUTPUT_DIR/clue_results${VARIANT:+_$VARIANT}.md" \
    --submissions="$OUTPUT_DIR/clue_submission${VARIANT:+_$VARIANT}.zip" \
    ${states[@]+"${states[@]}"} ${finished[@]+"${finished[@]}"} ||
    die "no table could be made; each task's is in its own folder"
fi
[ -z "$any_failed" ] || exit "$FAILED"
[ -z "$any_missing" ] || exit "$MISSING"
