#!/usr/bin/env bash
# The tests on every Python that is found (in PATH and by pyenv), each with its
# TensorFlow in an environment of its own, .venv-matrix/<python>-<tensorflow>.
#   bash scripts/test_matrix.sh                     all: a quarter of an hour each
#   bash scripts/test_matrix.sh 3.9 3.12            these Pythons only
#   bash scripts/test_matrix.sh --fast [3.9 ...]    a subset; of the Pythons that
#                 scripts/run_tests.sh does not take, the oldest and the newest
# First every version writes records, checkpoints and a SavedModel into one
# folder; then each runs the tests, and reads what all the others wrote.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$ROOT"

# Python and TensorFlow: together they cover 1.15, 2.12 to 2.15, and the newest.
PAIRS="3.7-1.15.5 3.8-2.13.1 3.9-2.12.1 3.10-2.14.1 3.11-2.15.1 3.12-2.21.0
3.13-2.21.0"
# The seam, the exchange (for which each runner runs), the golden numbers of model
# and optimizers, and a whole fine-tuning.
FAST="tests/test_versions.py
tests/test_modeling.py::test_equals_the_peers
tests/test_modeling.py::test_sharing_equals_albert_zh
tests/test_modeling.py::test_variables_equal_the_peers
tests/test_optimization.py::test_bare_optimizer_makes_the_golden_steps
tests/test_optimization.py::test_create_optimizer_makes_the_golden_steps
tests/test_run_classifier.py::test_results_of_a_run"
OUT="$ROOT/output/test_matrix"

# The interpreter of version $1, such as 3.9: the first that runs.
interpreter() {
  local candidate
  for candidate in "python$1" python3 python \
      "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python \
      "$HOME"/.pyenv/versions/"$1".*/bin/python; do
    if [ "$(python_version "$candidate")" = "$1" ]; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

# in_environment PAIR COMMAND...: runs it with $PYTHON, installing if need be.
in_environment() {
  local pair="$1"
  shift
  (
    PYTHON="$(interpreter "${pair%%-*}")"
    VENV="$ROOT/.venv-matrix/$pair"
    export VENV
    use_environment requirements-test.txt "tensorflow==${pair#*-}"
    "$@"
  )
}

write_exchange() {
  "$PYTHON" -W ignore tests/exchange.py "$OUT/exchange"
}

run_tests() {
  EXCHANGE_FOLDER="$OUT/exchange" "$PYTHON" -m pytest -q -n "${TEST_WORKERS:-2}" \
    --dist loadfile $TESTS
}

run_quickstart() {
  [ -n "$fast" ] || OUTPUT_DIR="$OUT/quickstart" bash scripts/quickstart.sh
}

# The last line of pytest, as columns: passed, failed (with errors), skipped.
counts() {
  local word
  for word in passed 'failed\|error[s]*' skipped; do
    grep -o "[0-9][0-9]* \($word\)" <<<"$(tail -n 1 "$1")" |
      awk '{ sum += $1 } END { printf "%s ", sum + 0 }'
  done
}

row() {
  printf '%-8s %-11s %7s %7s %8s %8s  %s\n' "$@"
}

fast=""
[ "${1:-}" != --fast ] || { fast=1; shift; }
for version in "$@"; do
  case " $(echo $PAIRS) " in
    *" $version-"*) ;;
    *) die "what is $version? Pythons are named as in 3.9; known here:" \
      "$(echo $PAIRS | sed 's/-[^ ]*//g')" ;;
  esac
done
found=""
for pair in $PAIRS; do
  version="${pair%%-*}"
  if [ $# -gt 0 ] && [[ " $* " != *" $version "* ]]; then
    continue
  elif interpreter "$version" >/dev/null; then
    found="$found $pair"
  else
    echo "Python $version is not here: TensorFlow ${pair#*-} is left out"
    [ $# -eq 0 ] || die "Python $version was asked for and is not here"
  fi
done
[ -n "$found" ] || die "found none of the Pythons" \
  "$(echo $PAIRS | sed 's/-[^ ]*//g'), in PATH or by pyenv"
TESTS="tests"
if [ -n "$fast" ]; then
  TESTS="$(echo $FAST)"
fi
if [ -n "$fast" ] && [ $# -eq 0 ]; then
  default="$(find_python; python_version "$PYTHON")"
  found="$(echo $found | tr ' ' '\n' | grep -v "^$default-" |
    awk 'NR == 1; { last = $0 } END { if (NR > 1) print last }' || true)"
  if [ -z "$found" ]; then
    echo "Python $default is the only one here, and scripts/run_tests.sh's"
    exit 0
  fi
fi
echo "Tests on" $found

rm -rf "$OUT"
mkdir -p "$OUT/exchange"
ready=""
for pair in $found; do
  start=$SECONDS
  echo "== $pair: environment, and files for the others"
  if ! in_environment "$pair" true > "$OUT/$pair.install.log" 2>&1; then
    echo "could not be installed; the end of $OUT/$pair.install.log:"
    tail -n 5 "$OUT/$pair.install.log"
  elif ! in_environment "$pair" write_exchange > "$OUT/$pair.write.log" 2>&1
  then
    echo "could not write; the end of $OUT/$pair.write.log:"
    tail -n 15 "$OUT/$pair.write.log"
    ready="$ready $pair"
  else
    echo "$((SECONDS - start)) s"
    ready="$ready $pair"
  fi
done

failed=0
table="$(row Python TensorFlow passed failed skipped seconds "")"
for pair in $found; do
  start=$SECONDS
  log="$OUT/$pair.log"
  if [[ " $ready " != *" $pair "* ]]; then
    table="$table
$(row "${pair%%-*}" "${pair#*-}" - - - - "NOT RUN: not installed, see $pair.install.log")"
    continue
  fi
  echo "== $pair: tests"
  remark=""
  if ! in_environment "$pair" run_tests > "$log" 2>&1; then
    remark="FAILED, see $pair.log"
    tail -n 30 "$log"
  elif ! in_environment "$pair" run_quickstart > "$OUT/$pair.quickstart.log" 2>&1
  then
    remark="quickstart FAILED, see $pair.quickstart.log"
    tail -n 30 "$OUT/$pair.quickstart.log"
  fi
  if [ ! -e "$OUT/exchange/$pair/expected.json" ]; then
    remark="FAILED to write, see $pair.write.log"
  fi
  [ -z "$remark" ] || failed=1
  tail -n 1 "$log"
  table="$table
$(row "${pair%%-*}" "${pair#*-}" $(counts "$log") $((SECONDS - start)) "$remark")"
done
echo
echo "$table"
echo "logs: $OUT"
[ -n "$ready" ] || die "no environment could be installed"
exit $failed
