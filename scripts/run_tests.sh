#!/usr/bin/env bash
# All the tests: style, suite, and the quickstart from a clean state.
#   bash scripts/run_tests.sh                       five to twenty minutes, two cores
#   bash scripts/run_tests.sh tests/test_modeling.py -k adapter    only these
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
use_environment requirements-test.txt
cd "$ROOT"

if [ $# -gt 0 ]; then
  exec "$PYTHON" -m pytest -q "$@"
fi
echo "== style"
"$PYTHON" -m ruff check .
"$PYTHON" -m pycodestyle --indent-size=2 --max-line-length=100 \
  --select=E101,E11,E5,W1,W2,W3 ./*.py scripts tests
for script in scripts/*.sh .ci/run; do bash -n "$script"; done
echo "== suite"
# Most of the time goes into starting TensorFlow: two at once, a file each.
"$PYTHON" -m pytest -q -n "${TEST_WORKERS:-2}" --dist loadfile --durations=5 tests
echo "== quickstart"
OUTPUT_DIR="$ROOT/output/quickstart_test" bash scripts/quickstart.sh
