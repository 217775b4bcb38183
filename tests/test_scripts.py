"""The shell scripts: what they say where they cannot work, and the report."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import zipfile

import pytest

import classifier_tasks
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


def fake_environment(folder, python):
  """A virtual environment that the launchers take as it is.

  Args:
    folder: pathlib.Path.
    python: string, what its python does.

  Returns:
    string for VENV.
  """
  (folder / "bin").mkdir(parents=True)
  tiny.write(folder / "bin" / "python", "#!/bin/sh\n" + python)
  (folder / "bin" / "python").chmod(0o755)
  tiny.write(folder / "complete", "")
  requirements = subprocess.run(
      "cat %s/requirements*.txt | cksum" % tiny.ROOT, shell=True,
      stdout=subprocess.PIPE, universal_newlines=True).stdout
  tiny.write(folder / "installed-requirements", requirements)
  return str(folder)


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


@pytest.mark.parametrize("environment,words", [
    ({}, ["WORKER_HOSTS and TASK_INDEX", "NUM_WORKERS"]),
    ({"NUM_WORKERS": "1"}, ["NUM_WORKERS (2 or"]),
    ({"WORKER_HOSTS": "a:1,b:1"}, ["TASK_INDEX", "from 0"]),
    ({"WORKER_HOSTS": "a:1,b:1", "TASK_INDEX": "x"}, ["TASK_INDEX is x"]),
    ({"WORKER_HOSTS": "a:1,b:1", "TASK_INDEX": "2"},
     ["TASK_INDEX is 2, but WORKER_HOSTS has 2"])])
def test_workers_that_cannot_be(environment, words):
  result = run("run_pretraining_multi_worker.sh", **environment)
  assert result.returncode != 0
  for word in words:
    assert word in result.stderr


@pytest.mark.parametrize("hosts,index,expected", [
    ("a:1,b:2,c:3", "0", '{"cluster": {"chief": ["a:1"], "worker": ["b:2",'
     ' "c:3"]}, "task": {"type": "chief", "index": 0}}'),
    ("a:1,b:2,c:3", "2", '{"cluster": {"chief": ["a:1"], "worker": ["b:2",'
     ' "c:3"]}, "task": {"type": "worker", "index": 1}}'),
    ("a:1", "0", '{"cluster": {"chief": ["a:1"]}, "task": {"type": "chief",'
     ' "index": 0}}')])
def test_tf_config_of_a_list_of_hosts(tmp_path, hosts, index, expected):
  # An environment whose python says what it was called with.
  venv = fake_environment(tmp_path / "venv", """
case "$*" in *run_pretraining.py*) echo "$TF_CONFIG $*" ;; esac
""")
  result = run("run_pretraining_multi_worker.sh", "--log_steps=7",
               VENV=venv, WORKER_HOSTS=hosts, TASK_INDEX=index,
               PRECISION="bfloat16", ACCUMULATION="4", NUM_GPUS="2")
  assert result.returncode == 0, result.stderr
  assert result.stdout.startswith(expected + " ")
  json.loads(expected)
  for flag in ("--precision=bfloat16", "--gradient_accumulation_steps=4",
               "--num_gpus=2", "--log_steps=7"):
    assert flag in result.stdout.split()


PAIR = '{"sentence1": "甲", "sentence2": "乙", "label": "%s"}\n'
AFQMC = PAIR % 0 + PAIR % 1
TNEWS = '{"sentence": "甲", "label": "%d"}\n'
COPA = ('{"premise": "甲", "choice0": "乙", "choice1": "丙", "question": "cause",'
        ' "label": 0}\n')
CLUE_TASKS = ["afqmc", "tnews", "iflytek", "cmnli", "ocnli", "wsc", "csl", "copa"]
# Does what run_classifier.py is called for, but for the training.
STUB = """
import json, os, signal, sys, time
sys.path.insert(0, %r)
import classifier_report
import classifier_utils
flags = dict(item[2:].split("=", 1) for item in sys.argv[2:])
with open(os.environ["CALLS"], "a") as calls:
  calls.write(json.dumps(flags) + "\\n")
task, folder = flags["task_name"], flags["output_dir"]
if task == os.environ.get("HANGS"):
  told = []
  for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _: told.append(number))
  open(os.environ["CALLS"] + ".hangs", "w").close()
  while not told:
    time.sleep(0.05)
  time.sleep(0.5)  # A second signal would end a training unsaved.
  sys.exit("saved after %%d signal" %% len(told))
if task == os.environ.get("FAILS"):
  sys.exit("noise\\nrun_classifier.py: error: no more memory")
os.makedirs(folder, exist_ok=True)
processor = classifier_utils.get_processor(task, variant=flags.get("variant"))
examples = {split: processor.get_examples(flags["data_dir"], split)
            for split in ("train", "dev", "test")}
outputs = [[1.0] + [0.0] * (processor.num_outputs - 1)]
submission = processor.write_submission(
    folder, examples["test"], outputs * len(examples["test"]), zipped=True)
dev = processor.score(examples["dev"], outputs * len(examples["dev"]))
run = dict(learning_rate=1e-4, seed=1, folder=folder, step=3, loss=0.5,
           score=dev["score"], checkpoint="model.ckpt-3")
classifier_report.write_report(folder, dict(
    task=task, variant=processor.variant, task_type="single",
    metric="accuracy", labels=processor.get_labels(), runs=[run],
    selected=dict(learning_rate=1e-4, num_seeds=1, mean=dev["score"],
                  deviation=None, best=dev["score"]),
    dev=dev, test=None, test_runs=None, submission=submission,
    checkpoint=dict(path="model.ckpt-3", sha256="0"), num_parameters=1,
    flags=flags, versions={}, rows=processor.num_rows,
    sizes={split: len(examples[split]) for split in examples}),
    processor.task)
""" % tiny.ROOT


@pytest.fixture
def clue(tmp_path):
  """Runs run_clue.sh with a runner that trains nothing.

  Returns:
    function(*arguments, **environment) -> (finished process, the flags of each
    call of the runner).
  """
  tiny.write(tmp_path / "stub.py", STUB)
  venv = fake_environment(tmp_path / "venv", """
case "$1" in
  *run_classifier.py) exec %s %s "$@" ;;
  *) exec %s "$@" ;;
esac
""" % (sys.executable, tmp_path / "stub.py", sys.executable))
  calls = tmp_path / "calls"
  environment = dict(
      VENV=venv, PYTHON="", CALLS=str(calls), TASKS="", VARIANT="", DATA_DIR="",
      INIT_CHECKPOINT="", OUTPUT_DIR=str(tmp_path / "output"))

  def function(*arguments, **more):
    if calls.exists():
      calls.unlink()
    result = run("run_clue.sh", *arguments, **dict(environment, **more))
    lines = calls.read_text().splitlines() if calls.exists() else []
    return result, [json.loads(line) for line in lines]

  function.environment = environment
  return function


def write_splits(folder, content, names=("train", "dev", "test")):
  folder.mkdir(parents=True, exist_ok=True)
  for name in names:
    tiny.write(folder / (name + ".json"), content)
  return folder


def write_zip(path, content, folder=""):
  """A zip as CLUE has it; some have a folder in it."""
  with zipfile.ZipFile(str(path), "w") as bundle:
    for name in ("train", "dev", "test"):
      bundle.writestr(folder + name + ".json", content)


def test_clue_some_missing_one_wrong(tmp_path, clue):
  data, output = tmp_path / "data", tmp_path / "output"
  write_splits(data / "afqmc", AFQMC)
  write_zip(data / "tnews_public.zip", TNEWS % 100 + TNEWS % 101, "tnews/")
  write_splits(data / "cmnli", PAIR % "neutral" + PAIR % "maybe")
  write_splits(data / "copa", COPA, names=("train",))
  before = sorted(str(path) for path in data.rglob("*"))
  result, calls = clue("--data_dir=%s" % data, "--init_checkpoint=none",
                       "--num_seeds=1")
  assert result.returncode == 4, result.stderr
  assert [call["task_name"] for call in calls] == ["afqmc", "tnews"]
  assert calls[1]["data_dir"] == str(data / "tnews_public.zip")
  # The settings that the published figures are from, and what the user adds.
  assert [calls[0][name] for name in (
      "max_seq_length", "train_batch_size", "learning_rate",
      "num_train_epochs", "init_checkpoint", "num_seeds")] == [
          "128", "16", "2e-5", "3", "", "1"]
  # Said before the first training.
  assert "cmnli: failed: %s: line 2: label maybe, allowed" % (
      data / "cmnli" / "train.json") in result.stderr
  assert result.stdout.startswith(
      "afqmc: train 2, dev 2, test 2 rows\ntnews: train 2, dev 2, test 2 rows\n"
      "== afqmc: log in ")
  assert "wsc: missing: there is no wsc, cluewsc2020, cluewsc2020_public in" in (
      result.stderr)
  assert "tasks/cluewsc2020_public.zip" in result.stderr
  table = (output / "clue_results.md").read_text(encoding="utf-8")
  assert table in result.stdout
  rows = [line.split(" | ") for line in table.splitlines()[2:10]]
  assert [row[0][2:] for row in rows] == [
      "afqmc", "tnews", "iflytek", "cmnli", "ocnli", "csl", "wsc", "copa"]
  assert rows[0][2:5] == ["1", "50.00", "50.00"]
  assert rows[0][6:] == ["69.13 / 69.92", "– / 72.55 |"]
  assert [row[3] for row in rows[2:]] == [
      "**missing**", "**failed**"] + ["**missing**"] * 4
  assert "- Failed: %s" % (data / "cmnli" / "train.json") in table
  assert "- Missing: there is no dev file of task copa in" in table
  with zipfile.ZipFile(str(output / "clue_submission.zip")) as bundle:
    assert bundle.namelist() == ["afqmc_predict.json", "tnews11_predict.json"]
    assert json.loads(bundle.read("afqmc_predict.json").decode().split("\n")[
        0]) == {"id": 0, "label": "0"}
  assert before == sorted(str(path) for path in data.rglob("*"))


def test_clue_all_there(tmp_path, clue):
  write_splits(tmp_path / "data" / "afqmc", AFQMC)
  arguments = ("--tasks", "afqmc", "--data_dir", str(tmp_path / "data"),
               "--output_dir=%s" % (tmp_path / "other"))
  tiny.write(tmp_path / "model.ckpt.index", "")
  result, calls = clue(*arguments, INIT_CHECKPOINT=str(tmp_path / "model.ckpt"))
  assert result.returncode == 0, result.stderr
  assert result.stderr == ""
  assert calls[0]["init_checkpoint"] == str(tmp_path / "model.ckpt")
  assert (tmp_path / "other" / "afqmc" / "results.md").exists()
  assert not (tmp_path / "output").exists()
  # The runner itself sees what is finished.
  result, again = clue(*arguments, INIT_CHECKPOINT=str(tmp_path / "model.ckpt"))
  assert result.returncode == 0 and again == calls


def test_clue_only_missing(tmp_path, clue):
  (tmp_path / "data").mkdir()
  write_splits(tmp_path / "data" / "afqmc", AFQMC)
  arguments = ("--data_dir=%s" % (tmp_path / "data"), "--init_checkpoint=")
  result, calls = clue("--tasks=afqmc,csl", *arguments)
  assert result.returncode == 3 and len(calls) == 1
  # When its data are there, what was finished is not asked for again, but stays.
  write_splits(tmp_path / "data" / "tnews", TNEWS % 100)
  result, calls = clue("--tasks=tnews", *arguments)
  assert result.returncode == 0 and len(calls) == 1
  table = tmp_path / "output" / "clue_results.md"
  assert [line.split()[1] for line in
          table.read_text(encoding="utf-8").splitlines()[2:4]] == [
              "afqmc", "tnews"]
  # Without any data there is not even an environment made.
  result, calls = clue("--tasks=csl", *arguments, VENV=str(tmp_path / "new"))
  assert result.returncode == 3 and not calls
  assert not (tmp_path / "new").exists()
  assert result.stderr == (
      "csl: missing: there is no csl, csl_public in %s, as a folder or .zip; put"
      " it there as it comes from https://storage.googleapis.com/cluebenchmark/"
      "tasks/csl_public.zip\n" % (tmp_path / "data"))


def test_clue_a_run_that_fails(tmp_path, clue):
  write_splits(tmp_path / "data" / "afqmc", AFQMC)
  write_splits(tmp_path / "data" / "tnews", TNEWS % 100)
  result, calls = clue("--data_dir=%s" % (tmp_path / "data"), FAILS="afqmc",
                       TASKS="tnews,afqmc,tnews", INIT_CHECKPOINT="none")
  assert result.returncode == 4
  assert [call["task_name"] for call in calls] == ["tnews", "afqmc"]
  log = tmp_path / "output" / "logs" / "afqmc.log"
  sentence = "run_classifier.py: error: no more memory (exit code 1, %s)" % log
  assert "afqmc: failed: " + sentence in result.stderr
  assert "- Failed: " + sentence in result.stdout


def test_clue_reads_only(tmp_path, clue):
  write_splits(tmp_path / "data" / "afqmc", AFQMC)
  # No checkpoint is needed to read.
  result, calls = clue("--check_only", "--data_dir=%s" % (tmp_path / "data"),
                       "--tasks=afqmc")
  assert (result.returncode, result.stdout, calls) == (
      0, "afqmc: train 2, dev 2, test 2 rows\n", [])
  assert not (tmp_path / "output").exists()


def test_fewclue(tmp_path, clue):
  folder = tmp_path / "data" / "FewCLUE" / "datasets" / "bustm"
  write_splits(folder, AFQMC, names=("train_few_all", "dev_few_all", "test"))
  result, calls = clue("--data_dir=%s" % (tmp_path / "data"),
                       "--tasks=fewclue_bustm", "--variant=few_all",
                       "--init_checkpoint=none")
  assert result.returncode == 0, result.stderr
  assert calls[0]["data_dir"] == str(folder)
  assert calls[0]["variant"] == "few_all"
  assert calls[0]["output_dir"] == str(
      tmp_path / "output" / "fewclue_bustm_few_all")
  table = tmp_path / "output" / "clue_results_few_all.md"
  assert table.read_text(encoding="utf-8") in result.stdout
  assert "| fewclue_bustm (few_all) | accuracy | 1 |" in result.stdout
  result, calls = clue("--data_dir=%s" % (tmp_path / "data"),
                       "--tasks=fewclue", "--variant=0", "--check_only")
  assert result.returncode == 3
  assert "fewclue_bustm: missing: there is no train file" in result.stderr
  assert result.stderr.count(": missing: ") == 8


@pytest.mark.parametrize("number,send", [
    (signal.SIGTERM, os.kill), (signal.SIGINT, os.killpg)])
def test_clue_is_told_to_stop(tmp_path, clue, number, send):
  """What runs is told once, alone or by Ctrl-C; nothing is begun after it."""
  write_splits(tmp_path / "data" / "afqmc", AFQMC)
  write_splits(tmp_path / "data" / "tnews", TNEWS % 100)
  environment = dict(os.environ, HANGS="afqmc", **clue.environment)
  process = subprocess.Popen(
      ["bash", os.path.join(SCRIPTS, "run_clue.sh"), "--tasks=afqmc,tnews",
       "--data_dir=%s" % (tmp_path / "data"), "--init_checkpoint=none"],
      stderr=subprocess.PIPE, universal_newlines=True, env=environment,
      start_new_session=True,
      # A test command in the background ignores it, and so would its children.
      preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
  while not (tmp_path / "calls.hangs").exists():
    assert process.poll() is None
    time.sleep(0.05)
  send(process.pid, number)
  _, error = process.communicate()
  assert process.returncode == 128 + number
  assert error == "stopped; the same command goes on where afqmc was\n"
  log = tmp_path / "output" / "logs" / "afqmc.log"
  assert log.read_text() == "saved after 1 signal\n"
  assert len((tmp_path / "calls").read_text().splitlines()) == 1


@pytest.mark.parametrize("arguments,parts", [
    ([], ["--data_dir", "tasks/afqmc_public.zip", "tasks/copa_public.zip"]),
    (["--data_dir=/no/such"], ["there is no folder /no/such"]),
    (["--data_dir=."], ["--init_checkpoint", "albert_tiny_489k", "brightmart"]),
    (["--data_dir=.", "--init_checkpoint=/no/model.ckpt"],
     ["there is no checkpoint /no/model.ckpt (/no/model.ckpt.index"]),
    (["--tasks=tnew"], ["--tasks has tnew", "tnews"]),
    (["--tasks=ocnli,afqmc", "--variant=30k"],
     ["--variant is 30k, which afqmc does not have"]),
    (["--tasks"], ["--tasks has no value"])])
def test_clue_that_cannot_begin(tmp_path, clue, arguments, parts):
  result, calls = clue(*arguments, VENV=str(tmp_path / "new"))
  assert result.returncode == 1 and not calls
  assert result.stderr.startswith("run_clue.sh: error: ")
  for part in parts:
    assert part in result.stderr
  assert not (tmp_path / "new").exists()


SAYS = 'case "$*" in *run_classifier.py*) echo "$@" ;; esac\n'


@pytest.mark.parametrize("script,arguments,data", [
    ("run_classifier_clue.sh", ["tnews"], "tnews_public.zip"),
    ("run_classifier_clue.sh", ["wsc"], "cluewsc2020_public"),
    ("run_classifier_clue.sh", ["fewclue_csl"], "datasets/csl"),
    ("run_classifier_clue.sh", ["csl"], ""),
    ("run_classifier_lcqmc.sh", [], ""),
    ("run_classifier_lcqmc.sh", [], "LCQMC.zip")])
def test_launchers_find_the_data(tmp_path, script, arguments, data):
  path = tmp_path / "data" / data
  if data.endswith(".zip"):
    (tmp_path / "data").mkdir()
    write_zip(path, TNEWS)
  else:
    write_splits(path, TNEWS)
  venv = fake_environment(tmp_path / "venv", SAYS)
  for data_dir in (tmp_path / "data", path):
    result = run(script, *(arguments + ["--data_dir=%s" % data_dir,
                                        "--init_checkpoint", "none", "--seed=3"]),
                 VENV=venv, PYTHON="", DATA_DIR="/other", OUTPUT_DIR="")
    assert result.returncode == 0, result.stderr
    flags = result.stdout.split()
    assert "--data_dir=%s" % str(path) in flags
    assert "--init_checkpoint=" in flags and flags[-1] == "--seed=3"


@pytest.mark.parametrize("script,arguments,parts", [
    ("run_classifier_lcqmc.sh", [],
     ["--data_dir", "train.txt", "http://icrc.hitsz.edu.cn/info/1037/1146.htm"]),
    ("run_classifier_lcqmc.sh", ["--data_dir=/no/such"],
     ["there is no /no/such", "1146.htm"]),
    ("run_classifier_lcqmc.sh", ["--data_dir=%s" % SCRIPTS],
     ["there is no lcqmc, LCQMC in %s" % SCRIPTS, "1146.htm"]),
    ("run_classifier_clue.sh", ["wsc", "--data_dir=%s" % SCRIPTS],
     ["cluewsc2020_public in %s" % SCRIPTS, "tasks/cluewsc2020_public.zip"]),
    ("run_classifier_clue.sh", ["fewclue_tnews"],
     ["https://github.com/CLUEbenchmark/FewCLUE", "datasets/tnews"]),
    ("run_classifier_lcqmc.sh", ["--data_dir"], ["--data_dir has no value"])])
def test_launchers_say_what_to_download(tmp_path, script, arguments, parts):
  result = run(script, *arguments, VENV=str(tmp_path / "venv"), PYTHON="",
               DATA_DIR="", INIT_CHECKPOINT="")
  assert result.returncode == 1
  assert result.stderr.count("\n") == 1
  for part in parts:
    assert part in result.stderr
  assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize("checkpoint", ["", "none.ckpt"])
def test_launchers_want_a_checkpoint(tmp_path, checkpoint):
  tiny.write(tmp_path / "train.txt", "甲\t乙\t1\n")
  result = run("run_classifier_lcqmc.sh", VENV=str(tmp_path / "venv"),
               DATA_DIR=str(tmp_path), INIT_CHECKPOINT=checkpoint)
  assert result.returncode == 1
  assert "albert_tiny_489k/albert_model.ckpt" in result.stderr
  assert not (tmp_path / "venv").exists()


def test_every_task_has_settings():
  script = """
source {0}/env.sh; source {0}/classifier_env.sh
for task in $CLUE_TASKS $FEWCLUE_TASKS tnews10 wsc10 cluewsc2020 lcqmc_pair; do
  task_settings $task; echo $task ${{SETTINGS[@]}}; SETTINGS=()
done""".format(SCRIPTS)
  lines = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE,
                         universal_newlines=True).stdout.splitlines()
  found = {line.split()[0]: line.split()[1:] for line in lines}
  assert all(len(settings) == 5 for settings in found.values())
  assert set(CLUE_TASKS) <= set(found)
  fewclue = {name for name in classifier_tasks.TASKS if "fewclue" in name}
  assert fewclue == {name for name in found if "fewclue" in name}
  assert set(found) <= set(classifier_tasks.TASKS)


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
