"""The shell scripts: what they say where they cannot work, and the report."""

import json
import os
import stat
import subprocess

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
@pytest.mark.parametrize("version", ["3.8.1", "3.13.0"])
def test_a_python_that_does_not_fit(tmp_path, script, version):
  result = run(script, PYTHON=fake_python(tmp_path, version, False),
               VENV=str(tmp_path / "venv"))
  assert result.returncode != 0
  assert result.stderr == (
      "%s: error: PYTHON is Python %s; TensorFlow 2.15 needs Python 3.9, 3.10"
      " or 3.11\n" % (script, version))
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
