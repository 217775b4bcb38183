# Sourced by the other scripts, from any folder: `use_environment FILE` makes
# a virtual environment in the checkout with what the requirements FILE lists,
# unless it is there already, and puts its python into $PYTHON.
#   PYTHON  a Python to make it with; default: the first of 3.9-3.11 found
#   VENV    where it goes; default .venv in the checkout

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# TensorFlow's C++ start-up lines are no news to anybody.
export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-3}"

die() {
  echo "$(basename "$0"): error: $*" >&2
  exit 1
}

# True for a Python that TensorFlow 2.15 exists for.
python_fits() {
  "$1" -c 'import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 11))' \
    2>/dev/null
}

find_python() {
  local candidate
  if [ -n "${PYTHON:-}" ]; then
    command -v "$PYTHON" >/dev/null || die "PYTHON is $PYTHON, which is not there"
    python_fits "$PYTHON" || die "PYTHON is $("$PYTHON" --version 2>&1);" \
      "TensorFlow 2.15 needs Python 3.9, 3.10 or 3.11"
    return
  fi
  for candidate in python3 python3.11 python3.10 python3.9 python; do
    if command -v "$candidate" >/dev/null && python_fits "$candidate"; then
      PYTHON="$candidate"
      return
    fi
  done
  die "found $(python3 --version 2>/dev/null || echo "no python3");" \
    "TensorFlow 2.15 needs Python 3.9, 3.10 or 3.11: install one, or name it" \
    "by PYTHON=/path/to/python3.11"
}

use_environment() {
  local requirements="$1" venv="${VENV:-$ROOT/.venv}" stamp wanted
  local fetched="TensorFlow: about 500 MB to fetch"
  grep -q apache-beam "$ROOT/$requirements" && fetched="Apache Beam"
  stamp="$venv/installed-$(basename "$requirements" .txt)"
  wanted="$(cat "$ROOT"/requirements*.txt | cksum)"
  if [ -x "$venv/bin/python" ] && python_fits "$venv/bin/python" &&
      [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    PYTHON="$venv/bin/python"
    return
  fi
  find_python
  "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null ||
    die "$("$PYTHON" --version) comes without venv or pip; on Debian and" \
      "Ubuntu: sudo apt install python3-venv python3-pip"
  echo "Installing $(basename "$requirements") into $venv with" \
    "$("$PYTHON" --version) ($fetched) ..."
  # --clear: what an interrupted run left is not trusted.
  if [ ! -e "$venv/complete" ] || ! python_fits "$venv/bin/python"; then
    "$PYTHON" -m venv --clear "$venv" || die "could not make $venv"
    touch "$venv/complete"
  fi
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    -r "$ROOT/$requirements" ||
    die "pip could not install $requirements; is the network there?"
  echo "$wanted" > "$stamp"
  if grep -q '^-r requirements.txt' "$ROOT/$requirements"; then
    echo "$wanted" > "$venv/installed-requirements"
  fi
  PYTHON="$venv/bin/python"
}
