#!/usr/bin/env bash
# The tests of create_pretraining_data_beam.py, in an environment of its own
# (.venv-beam): Beam and TensorFlow need not agree on versions. About two
# minutes, half of it the installation.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
VENV="${VENV:-$ROOT/.venv-beam}"
use_environment requirements-beam.txt
cd "$ROOT"
exec "$PYTHON" -m pytest -q tests/test_create_pretraining_data_beam.py "$@"
