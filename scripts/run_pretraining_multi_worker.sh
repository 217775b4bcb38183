#!/usr/bin/env bash
# Pre-trains with several processes that share each batch, the same command on
# every machine; settings and flags as of run_pretraining_gpu.sh. One of
#   WORKER_HOSTS=host0:2222,host1:2222 TASK_INDEX=0 bash scripts/run_pretraining_multi_worker.sh
#   TF_CONFIG='{"cluster": ...}' bash scripts/run_pretraining_multi_worker.sh
#   NUM_WORKERS=2 bash scripts/run_pretraining_multi_worker.sh   # all of them here, to try it out
# OUTPUT_DIR must be a folder that all of them see. More: docs/distributed.md.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

OUTPUT_DIR="${OUTPUT_DIR:-$ROOT/output/pretraining}"
export OUTPUT_DIR

# TF_CONFIG of the worker number $1 among the addresses that follow.
tf_config() {
  local index="$1" type=worker workers=
  shift
  [ $# = 1 ] || workers="$(printf '"%s", ' "${@:2}")"
  if [ "$index" = 0 ]; then
    type=chief
  else
    index=$((index - 1))
  fi
  printf '{"cluster": {"chief": ["%s"]%s}, "task": {"type": "%s", "index": %s}}' \
    "$1" "${workers:+, \"worker\": [${workers%, }]}" "$type" "$index"
}

if [ -n "${TF_CONFIG:-}" ]; then
  exec bash "$ROOT/scripts/run_pretraining_gpu.sh" "$@"
fi

if [ -n "${WORKER_HOSTS:-}" ]; then
  IFS=, read -r -a addresses <<< "$WORKER_HOSTS"
  index="${TASK_INDEX:?the place of this machine in WORKER_HOSTS, from 0}"
  case "$index" in
    *[!0-9]*) die "TASK_INDEX is $index; it must be a number from 0" ;;
  esac
  [ "$index" -lt "${#addresses[@]}" ] ||
    die "TASK_INDEX is $index, but WORKER_HOSTS has ${#addresses[@]} addresses," \
      "which count from 0"
  TF_CONFIG="$(tf_config "$index" "${addresses[@]}")"
  export TF_CONFIG
  exec bash "$ROOT/scripts/run_pretraining_gpu.sh" "$@"
fi

case "${NUM_WORKERS:-}" in
  '' | *[!0-9]* | 0 | 1)
    die "give WORKER_HOSTS and TASK_INDEX, or TF_CONFIG, or NUM_WORKERS (2 or" \
      "more, all on this machine)" ;;
esac
use_environment requirements.txt
export PYTHON
read -r -a addresses <<< "$("$PYTHON" - "$NUM_WORKERS" <<'FREE_PORTS'
import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for each in sockets:
  each.bind(("127.0.0.1", 0))
print(*("127.0.0.1:%d" % each.getsockname()[1] for each in sockets))
FREE_PORTS
)"
mkdir -p "$OUTPUT_DIR"
workers=()
stopped=
stop() {
  # Once: a second signal would end them before they have saved.
  [ -n "$stopped" ] || kill "${workers[@]}" 2>/dev/null || true
  stopped=1
}
trap stop EXIT
# They write a checkpoint and end, which is waited for.
trap stop TERM INT
for ((index = 1; index < NUM_WORKERS; index++)); do
  TF_CONFIG="$(tf_config "$index" "${addresses[@]}")" \
    bash "$ROOT/scripts/run_pretraining_gpu.sh" "$@" \
    > "$OUTPUT_DIR/worker_$index.log" 2>&1 &
  workers+=("$!")
  echo "worker $index: process $!, log in $OUTPUT_DIR/worker_$index.log"
done
TF_CONFIG="$(tf_config 0 "${addresses[@]}")" \
  bash "$ROOT/scripts/run_pretraining_gpu.sh" "$@" &
workers+=("$!")
# The first that fails ends all: the others would wait for it.
status=0
for _ in "${workers[@]}"; do
  wait -n || status=$?
  [ "$status" = 0 ] || break
done
[ "$status" = 0 ] || stop
for worker in "${workers[@]}"; do
  wait "$worker" || true
done
case "$status" in
  0) ;;
  130 | 143) exit "$status" ;;  # told to end, and saved
  *) die "a worker failed; its last lines are above or in" \
       "$OUTPUT_DIR/worker_*.log" ;;
esac
