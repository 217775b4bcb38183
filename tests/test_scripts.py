"""The shell scripts: what they say where they cannot work, and the report."""

import json
import os
import shutil
import stat
import subprocess
import sys

import pytest

import quickstart_report
import tiny

SCRIPTS = os.path.join(tiny.ROOT, "scripts")


def run(name, *arguments, **environment):
  return subprocess.run(
      ["bash", os.path.join(SCRIPTS, name)] + list(arguments),
      stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
      env=dict(os.environ, **environment))


def fake_python(folder, version, fits, has_venv=True):
  """A `python3` that says what it is told to say."""
  path = folder / "python3"
  tiny.write(path, """#!/bin/sh
case "$*" in
  *--version*) echo "Python %s" ;;
  *version_info*) exit %d ;;
  *ensurepip*) exit %d ;;
esac
""" % (version, not fits, not has_venv))
  path.chmod(path.stat().st_mode | stat.S_IXUSR)
  return str(path)


@pytest.mark.parametrize("script", ["quickstart.sh", "run_tests.sh"])
@pytest.mark.parametrize("version", ["3.6.15", "3.14.0"])
def test_a_python_that_does_not_fit(tmp_path, script, version):
  result = run(script, PYTHON=fake_python(tmp_path, version, False),
               VENV=str(tmp_path / "venv"))
  assert result.returncode != 0
  assert result.stderr == (
      "%s: error: PYTHON is Python %s; TensorFlow needs Python 3.7 to 3.13"
      " here\n" % (script, version))
  assert not (tmp_path / "venv").exists()


def test_a_python_without_venv(tmp_path):
  result = run("quickstart.sh", VENV=str(tmp_path / "venv"),
               PYTHON=fake_python(tmp_path, "3.11.7", True, has_venv=False))
  assert result.returncode != 0
  assert "comes without venv or pip" in result.stderr
  assert "python3-venv" in result.stderr


def test_a_python_that_is_not_there(tmp_path):
  result = run("quickstart.sh", PYTHON="no-such-python",
               VENV=str(tmp_path / "venv"))
  assert result.returncode != 0
  assert "PYTHON is no-such-python, which is not there" in result.stderr


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path):
  tiny.write(tmp_path / "thesis.txt", "all of it")
  result = run("quickstart.sh", PYTHON=sys.executable, VENV=str(tmp_path))
  assert result.returncode != 0
  assert "VENV %s exists and is no virtual environment" % tmp_path in (
      result.stderr)
  assert os.listdir(str(tmp_path)) == ["thesis.txt"]


def python_found(folder, *versions, **environment):
  """What env.sh takes where only these Pythons are in PATH.

  Args:
    folder: pathlib.Path, for the programs.
    *versions: (name, version) of each, such as ("python3", "3.13").
    **environment: variables.

  Returns:
    (string, string): the output, and the error's sentence.
  """
  for name, version in versions:
    tiny.write(folder / name, """#!/bin/sh
case "$*" in
  *--version*) echo "Python %s.1" ;;
  *sys.exit*) exec "%s" -c 'import sys; sys.exit(not (3, 7) <= (%s) <= (3, 13))' ;;
  *) printf %s ;;
esac
""" % (version, sys.executable, version.replace(".", ","), version))
    (folder / name).chmod(stat.S_IRWXU)
  for tool in ("bash", "dirname", "basename", "head"):
    (folder / tool).symlink_to(shutil.which(tool))
  result = subprocess.run(
      ["bash", "-c", "source %s; find_python; echo $PYTHON" %
       os.path.join(SCRIPTS, "env.sh")], stdout=subprocess.PIPE,
      stderr=subprocess.PIPE, universal_newlines=True,
      env=dict(environment, PATH=str(folder)))
  return result.stdout.strip(), result.stderr


@pytest.mark.parametrize("versions,taken", [
    ([("python3", "3.10"), ("python3.11", "3.11")], "python3"),
    # The Estimator of TensorFlow's own is preferred to the newest Python.
    ([("python3", "3.13"), ("python3.11", "3.11")], "python3.11"),
    ([("python3", "3.13"), ("python3.7", "3.7")], "python3"),
    ([("python3", "3.14"), ("python3.12", "3.12")], "python3.12"),
    ([("python3", "3.6"), ("python3.7", "3.7")], "python3.7"),
    ([("python", "3.9")], "python")])
def test_the_python_that_is_taken(tmp_path, versions, taken):
  assert python_found(tmp_path, *versions) == (taken, "")


def test_no_python_that_fits(tmp_path):
  out, error = python_found(tmp_path, ("python3", "3.14"))
  assert out == ""
  assert error == (
      "bash: error: found Python 3.14.1; TensorFlow needs Python 3.7 to 3.13"
      " here: install one, or name it by PYTHON=/path/to/python3.11\n")


def test_the_matrix_says_what_it_does_not_know():
  result = run("test_matrix.sh", "--fast", "3.5")
  assert result.returncode != 0
  assert "what is 3.5? Pythons are named as in 3.9; known here: 3.7 3.8" in (
      result.stderr)


def test_launchers_say_what_they_need():
  environment = {"DATA_DIR": "", "INIT_CHECKPOINT": "", "TPU_NAME": ""}
  result = run("run_classifier_clue.sh", "tnew", **environment)
  assert result.returncode != 0 and "'tnew'" in result.stderr
  assert "tnews" in result.stderr
  for arguments, word in ((["run_classifier_clue.sh", "tnews"], "DATA_DIR"),
                          (["run_classifier_lcqmc.sh"], "LCQMC"),
                          (["run_pretraining_tpu.sh"], "TPU")):
    result = run(*arguments, **environment)
    assert result.returncode != 0
    assert word in result.stderr


def write_run(folder, last_loss, accuracy):
  """The files of a quickstart, with the figures that the report looks at."""
  for name in ("records", "pretraining", "classifier"):
    (folder / name).mkdir()
  tiny.write(folder / "records" / "metadata.json", json.dumps({
      "files": ["eval.tfrecord"], "other_data_sets": [
          {"files": ["train.tfrecord"], "instances": 7, "documents": 3,
           "predictions": 20}]}))
  tiny.write(folder / "pretraining.log", "".join(
      "I step %d/20 epoch 1.0 | loss 9, masked_lm_loss %s, x\n" % line
      for line in ((10, 8.5), (20, last_loss))))
  tiny.write(folder / "pretraining" / "eval_results.json", json.dumps(
      {"masked_lm_loss": 6.0, "masked_lm_accuracy": 0.1}))
  tiny.write(folder / "classifier" / "test_results.json", json.dumps(
      {"num_examples": 80, "accuracy": accuracy, "macro_f1": 0.6,
       "majority_class_accuracy": 0.25}))
  tiny.write(folder / "predictions.log", "noise\n" + "体育\t0.9\t进球\n" * 4)


@pytest.mark.parametrize("last_loss,accuracy,passed", [
    (6.0, 0.8, True), (8.4, 0.8, False), (6.0, 0.4, False)])
def test_report_of_the_quickstart(tmp_path, last_loss, accuracy, passed):
  write_run(tmp_path, last_loss, accuracy)
  lines, found = quickstart_report.report(str(tmp_path))
  assert found is passed
  text = "\n".join(lines)
  assert "7 instances of 3 documents" in text
  assert "10: 8.50, 20: %.2f" % last_loss in text
  assert "accuracy %.3f" % accuracy in text
  assert text.count("体育 (0.9)  进球") == 4
