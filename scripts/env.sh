# Sourced by the other scripts, from any folder: `use_environment FILE` makes
# a virtual environment in the checkout with what the requirements FILE lists,
# unless it is there already, and puts its python into $PYTHON.
#   PYTHON  a Python to make it with; default: the first of 3.9-3.11 found
#           (TensorFlow 2.15 with its own Estimator), else of 3.12, 3.13 and
#           3.7, 3.8 (docs/versions.md: which TensorFlow each gets)
#   VENV    where it goes; default .venv in the checkout

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# TensorFlow's C++ start-up lines are no news to anybody.
export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-3}"

die() {
  echo "$(basename "$0"): error: $*" >&2
  exit 1
}

# True for a Python that requirements.txt has a TensorFlow for.
python_fits() {
  "$1" -c 'import sys; sys.exit(not (3, 7) <= sys.version_info[:2] <= (3, 13))' \
    2>/dev/null
}

# "3.11" of a Python.
python_version() {
  "$1" -c 'import sys; sys.stdout.write("%d.%d" % sys.version_info[:2])' \
    2>/dev/null
}

find_python() {
  local candidate preferred
  if [ -n "${PYTHON:-}" ]; then
    command -v "$PYTHON" >/dev/null || die "PYTHON is $PYTHON, which is not there"
    python_fits "$PYTHON" || die "PYTHON is $("$PYTHON" --version 2>&1 | head -n 1);" \
      "TensorFlow needs Python 3.7 to 3.13 here"
    return
  fi
  for preferred in 3.9,3.10,3.11 3.12,3.13,3.7,3.8; do
    for candidate in python3 python3.11 python3.10 python3.9 python3.13 \
        python3.12 python3.7 python3.8 python; do
      case ",$preferred," in
        *,"$(python_version "$candidate" || echo none)",*)
          PYTHON="$candidate"
          return ;;
      esac
    done
  done
  die "found $(python3 --version 2>/dev/null || echo "no python3");" \
    "TensorFlow needs Python 3.7 to 3.13 here: install one, or name it by" \
    "PYTHON=/path/to/python3.11"
}

# True where the environment in folder $1 is one that these scripts made, of the
# Python that is asked for (any that fits, if none is).
environment_fits() {
  [ -e "$1/complete" ] && python_fits "$1/bin/python" || return 1
  [ -z "${PYTHON:-}" ] ||
    [ "$(python_version "$PYTHON")" = "$(python_version "$1/bin/python")" ]
}

# use_environment FILE [PIN...]: pins are pip's, such as tensorflow==2.12.1.
use_environment() {
  local requirements="$1" venv="${VENV:-$ROOT/.venv}" stamp wanted
  local fetched="TensorFlow: about 500 MB to fetch"
  shift
  grep -q apache-beam "$ROOT/$requirements" && fetched="Apache Beam"
  stamp="$venv/installed-$(basename "$requirements" .txt)"
  wanted="$(cat "$ROOT"/requirements*.txt | cksum)"
  if environment_fits "$venv" && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]
  then
    PYTHON="$venv/bin/python"
    return
  fi
  find_python
  "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null ||
    die "$("$PYTHON" --version) comes without venv or pip; on Debian and" \
      "Ubuntu: sudo apt install python3-venv python3-pip"
  if [ -e "$venv" ] && [ ! -e "$venv/pyvenv.cfg" ] &&
      [ -n "$(ls -A "$venv")" ]; then
    die "VENV $venv exists and is no virtual environment"
  fi
  echo "Installing $(basename "$requirements") into $venv with" \
    "$("$PYTHON" --version) ($fetched) ..."
  # --clear: what an interrupted run left is not trusted.
  if ! environment_fits "$venv"; then
    "$PYTHON" -m venv --clear "$venv" || die "could not make $venv"
    touch "$venv/complete"
  fi
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    -r "$ROOT/$requirements" "$@" ||
    die "pip could not install $requirements; is the network there?"
  echo "$wanted" > "$stamp"
  if grep -q '^-r requirements.txt' "$ROOT/$requirements"; then
    echo "$wanted" > "$venv/installed-requirements"
  fi
  PYTHON="$venv/bin/python"
}
