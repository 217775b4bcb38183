"""Several runs of a task: training, selection on dev, test, reports."""

import hashlib
import json
import logging
import os
import shutil
import signal
import types
import zipfile

from absl import flags
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import checkpoint_utils
import estimator_utils
import run_classifier
from test_run_classifier import model  # noqa: F401  pylint: disable=unused-import
from test_run_classifier import run
from test_run_classifier import TRAIN
from test_run_classifier import write_lcqmc
from test_training_hooks import assert_same_checkpoints
from test_training_hooks import signal_at
import tiny

STAGES = ("--do_train", "--do_eval", "--do_predict")
LABELLED = "text_a\ttext_b\tlabel\n" + "".join(
    "\t".join(row) + "\n" for row in TRAIN[:3])


def read(path):
  return json.loads(path.read_text(encoding="utf-8"))


def default_options():
  """All flags of the runner with their defaults; none stays defined."""
  before = set(flags.FLAGS)
  run_classifier.define_flags()
  names = set(flags.FLAGS) - before
  values = {name: flags.FLAGS[name].default for name in names}
  for name in names:
    delattr(flags.FLAGS, name)
  return values


DEFAULTS = default_options()


def command(model, data_dir, output_dir, *switches, **values):  # noqa: F811
  """What `main` does with such flags, within this process."""
  options = dict(
      DEFAULTS, task_name="lcqmc", data_dir=str(data_dir),
      output_dir=str(output_dir), vocab_file=str(model / "vocab.txt"),
      bert_config_file=str(model / "config.json"), max_seq_length=16,
      train_batch_size=2, num_train_epochs=2, save_checkpoints_steps=2,
      log_steps=1, num_workers=1)
  options.update(values, **{switch[2:]: True for switch in switches})
  options["learning_rate"] = estimator_utils.RateListParser().parse(
      str(options["learning_rate"]).strip("[]"))
  found = run_classifier.ClassifierRun(types.SimpleNamespace(**options))
  found.write_output_dir()
  if found.options.do_train:
    run_classifier.train(found)
  run_classifier.conclude(found)
  return found


def refused(*arguments, **values):
  """The one sentence of a command that fails."""
  with pytest.raises(ValueError) as raised:
    command(*arguments, **values)
  return str(raised.value)


def has(text, *parts):
  for part in parts:
    assert part in text, text


@pytest.fixture(scope="module")
def grid(model, tmp_path_factory):  # noqa: F811
  """Two rates, two seeds, a labelled test set: (output, data, process)."""
  data_dir = tmp_path_factory.mktemp("data")
  output_dir = tmp_path_factory.mktemp("output")
  write_lcqmc(data_dir)
  tiny.write(data_dir / "test.txt", LABELLED)
  result = run(model, data_dir, output_dir, *STAGES, num_seeds=2,
               learning_rate="1e-3,2e-2")
  assert result.returncode == 0, result.stderr[-3000:]
  return output_dir, data_dir, result


# ---------------------------------------------------------------- several runs


def test_each_run_of_a_grid_has_its_folder(grid):
  output_dir, _, _ = grid
  runs = read(output_dir / "results.json")["runs"]
  assert [(row["learning_rate"], row["seed"], os.path.basename(row["folder"]))
          for row in runs] == [
              (1e-3, 12345, "lr1e-03_seed12345"),
              (1e-3, 12346, "lr1e-03_seed12346"),
              (2e-2, 12345, "lr2e-02_seed12345"),
              (2e-2, 12346, "lr2e-02_seed12346")]
  for row in runs:
    assert checkpoint_utils.latest_step(row["folder"])[0] == 4
    assert row["checkpoint"] == os.path.join(row["folder"],
                                             "model.ckpt-%d" % row["step"])
  assert tf.train.latest_checkpoint(str(output_dir)) is None


def test_a_run_of_a_grid_is_as_it_would_be_alone(grid, model, tmp_path):  # noqa: F811
  output_dir, data_dir, _ = grid
  command(model, data_dir, tmp_path, "--do_train", learning_rate=2e-2,
          seed=12346)
  assert_same_checkpoints(
      str(tmp_path / "model.ckpt-4"),
      str(output_dir / "lr2e-02_seed12346" / "model.ckpt-4"))


def test_the_best_on_dev_of_all_is_kept(grid):
  output_dir, _, _ = grid
  evaluated = read(output_dir / "eval_results.json")
  rows = evaluated["checkpoints"]
  assert len(rows) == 8
  best = min(rows, key=lambda row: (-row["eval_score"], row["eval_loss"]))
  assert evaluated["best_checkpoint"] == best["checkpoint"]
  kept = str(output_dir / "best" / os.path.basename(best["checkpoint"]))
  assert tf.train.latest_checkpoint(str(output_dir / "best")) == kept
  assert_same_checkpoints(kept, best["checkpoint"])
  results = read(output_dir / "results.json")
  content = b""
  for ending in (".data-00000-of-00001", ".index"):
    with open(kept + ending, "rb") as reader:
      content += reader.read()
  assert results["checkpoint"] == {
      "path": kept, "sha256": hashlib.sha256(content).hexdigest()}
  selected = results["selected"]
  assert selected["learning_rate"] == best["learning_rate"]
  assert selected["best"] == best["eval_score"] == results["dev"]["score"]
  scores = [row["score"] for row in results["runs"]
            if row["learning_rate"] == best["learning_rate"]]
  assert selected["num_seeds"] == len(scores) == 2
  assert selected["mean"] == pytest.approx(np.mean(scores))
  assert selected["deviation"] == pytest.approx(np.std(scores, ddof=1))


def test_what_a_report_holds(grid):
  output_dir, _, result = grid
  results = read(output_dir / "results.json")
  assert [results[key] for key in ("task", "variant", "task_type", "metric",
                                   "labels", "submission")] == [
      "lcqmc", None, "single", "accuracy", ["0", "1"], None]
  assert results["sizes"] == {"train": 4, "dev": 4, "test": 3}
  flags = results["flags"]
  assert flags["learning_rate"] == [1e-3, 2e-2]
  assert (flags["num_seeds"], flags["max_seq_length"]) == (2, 16)
  assert not {"alsologtostderr", "delta_threshold"} & set(flags)
  assert sorted(results["versions"]) == ["numpy", "python", "tensorflow"]
  line = [line for line in result.stderr.splitlines() if "parameters: " in line]
  assert int(line[0].split(":")[1].replace(",", "")) == (
      results["num_parameters"])
  assert "| 0.02 | 12346 |" in (output_dir / "results.md").read_text(
      encoding="utf-8")


def test_test_scores_of_all_seeds(grid):
  output_dir, _, _ = grid
  results = read(output_dir / "results.json")
  rows = np.loadtxt(str(output_dir / "test_results.tsv"))
  right = rows.argmax(axis=1) == [int(row[2]) for row in TRAIN[:3]]
  assert results["test"]["score"] == pytest.approx(right.mean())
  assert read(output_dir / "test_results.json")["accuracy"] == (
      results["test"]["score"])
  # With the checkpoint that is the best on dev, whatever the others are.
  assert results["test_runs"]["best"] == results["test"]["score"]
  assert 0 <= results["test_runs"]["mean"] <= 1
  assert results["test_runs"]["deviation"] is not None


def test_a_later_prediction_is_added_to_the_report(grid, model, tmp_path,  # noqa: F811
                                                   caplog):
  output_dir, data_dir, _ = grid
  before = read(output_dir / "results.json")
  data_copy = tmp_path / "data"
  shutil.copytree(str(data_dir), str(data_copy))
  tiny.write(data_copy / "test.txt", LABELLED + "\t".join(TRAIN[3]) + "\n")
  command(model, data_copy, output_dir, "--do_predict")
  after = read(output_dir / "results.json")
  assert after["test"]["num_examples"] == 4
  assert after["sizes"] == {"train": 4, "dev": 4, "test": 4}
  for key in ("runs", "selected", "dev", "checkpoint", "flags"):
    assert after[key] == before[key]
  assert after["test_runs"]["best"] == after["test"]["score"]
  # Elsewhere, the runs of the report are not there.
  moved = tmp_path / "moved"
  shutil.copytree(str(output_dir), str(moved),
                  ignore=shutil.ignore_patterns("lr*"))
  stored = (moved / "results.json").read_text(encoding="utf-8").replace(
      str(output_dir), str(moved))
  tiny.write(moved / "results.json", stored)
  command(model, data_dir, moved, "--do_predict")
  assert "is of another task, model or folder" in caplog.text
  assert (moved / "results.json").read_text(encoding="utf-8") == stored


def test_more_seeds_later_and_evaluation_alone(grid, model, tmp_path,  # noqa: F811
                                               caplog):
  caplog.set_level(logging.INFO, "tensorflow")
  output_dir, data_dir, _ = grid
  copy = tmp_path / "output"
  shutil.copytree(str(output_dir), str(copy))
  command(model, data_dir, copy, *STAGES, num_seeds=3,
          learning_rate="1e-3,2e-2")
  assert caplog.text.count(" is finished") == 4
  assert caplog.text.count("***** Training *****") == 2
  results = read(copy / "results.json")
  assert len(results["runs"]) == 6
  assert results["selected"]["num_seeds"] == 3
  old = {(row["learning_rate"], row["seed"]): row["score"]
         for row in read(output_dir / "results.json")["runs"]}
  for row in results["runs"]:
    assert old.get((row["learning_rate"], row["seed"]), row["score"]) == (
        row["score"])
  has(refused(model, data_dir, copy, "--do_train", num_seeds=3,
              learning_rate="1e-3,2e-2"),
      "nothing to train: all 6 runs in", "4 steps")
  # Without training, the runs are found, with what they were trained with.
  result = run(model, data_dir, copy, "--do_eval")
  assert result.returncode == 0, result.stderr
  again = read(copy / "results.json")
  assert again["runs"] == results["runs"]
  assert again["flags"]["learning_rate"] == [1e-3, 2e-2]
  assert again["test"] is None


def test_a_grid_that_is_ended_goes_on(grid, model, tmp_path):  # noqa: F811
  output_dir, data_dir, _ = grid
  values = dict(
      task_name="lcqmc", data_dir=data_dir, output_dir=tmp_path,
      vocab_file=model / "vocab.txt", bert_config_file=model / "config.json",
      max_seq_length=16, train_batch_size=2, num_train_epochs=100,
      save_checkpoints_steps=70, log_steps=1, num_seeds=3, do_train=True)
  code, log = signal_at(100, signal.SIGTERM, "run_classifier.py", values)
  assert code == 143
  assert "Traceback" not in log
  assert log.count("***** Training *****") == 1
  step, latest = checkpoint_utils.latest_step(
      str(tmp_path / "lr5e-05_seed12345"))
  assert 100 <= step < 200
  assert "the latest checkpoint is %s;" % latest in log
  has(refused(model, data_dir, tmp_path, "--do_predict"), "3 runs", "--do_eval")
  result = tiny.run_script("run_classifier.py", do_eval=True, **values)
  assert result.returncode == 0, result.stderr
  assert "step %d, to step 200" % step in result.stderr
  assert result.stderr.count("***** Training *****") == 3
  single = tmp_path / "single"
  command(model, data_dir, single, "--do_train", num_train_epochs=100,
          save_checkpoints_steps=70)
  assert_same_checkpoints(
      str(single / "model.ckpt-200"),
      str(tmp_path / "lr5e-05_seed12345" / "model.ckpt-200"))


# ------------------------------------------------- other settings in one folder


def test_two_runs_in_one_folder_are_both_right(model, tmp_path, caplog):  # noqa: F811
  data_dir, both, alone = (tmp_path / name for name in ("data", "both", "alone"))
  data_dir.mkdir()
  write_lcqmc(data_dir)
  rates = dict(learning_rate=2e-2)
  command(model, data_dir, both, *STAGES, **rates)
  first = (both / "test_results.tsv").read_text()
  other = dict(rates, num_train_epochs=5)
  command(model, data_dir, both, *STAGES, **other)
  has(caplog.text, "%s has another run, with num_train_epochs 2, not 5" % both)
  command(model, data_dir, alone, *STAGES, **other)
  for name in ("test_results.tsv", "lcqmc_predict.json"):
    assert (both / name).read_text() == (alone / name).read_text()
  assert read(both / "results.json")["dev"] == (
      read(alone / "results.json")["dev"])
  assert (both / "test_results.tsv").read_text() != first
  # The first again: found, and the best is its own.
  caplog.clear()
  command(model, data_dir, both, "--do_train", "--do_predict", **rates)
  has(caplog.text, "nothing to train", "no checkpoint was chosen on dev"
      " (--do_eval): the latest, %s, predicts" % (both / "model.ckpt-4"))
  command(model, data_dir, both, *STAGES, **rates)
  assert (both / "test_results.tsv").read_text() == first


def test_a_task_with_the_same_labels_does_not_mix(grid, model, tmp_path):  # noqa: F811
  output_dir, data_dir, _ = grid
  for switch in ("--do_train", "--do_eval"):
    has(refused(model, data_dir, output_dir, switch, task_name="bq"),
        "checkpoints of task lcqmc with the labels 0, 1", "of task bq",
        "another --output_dir")


def test_the_head_is_that_of_the_training(model, tmp_path, caplog):  # noqa: F811
  write_lcqmc(tmp_path)
  output_dir = tmp_path / "output"
  command(model, tmp_path, output_dir, "--do_train", use_pooled_output=False,
          num_train_epochs=0.5)
  assert read(output_dir / "classifier.json")["use_pooled_output"] is False
  has(refused(model, tmp_path, output_dir, "--do_predict"),
      "--use_pooled_output is true", "trained with false",
      "give --use_pooled_output=false")
  command(model, tmp_path, output_dir, "--do_predict", use_pooled_output=False)
  # What an older version has trained is scored, but what is not known of it,
  # such as its seed, is not made up.
  for name in ("run.json", "runs.json"):
    (output_dir / name).unlink()
  command(model, tmp_path, output_dir, "--do_eval", use_pooled_output=False)
  has(caplog.text, "no results.json is written")
  assert (output_dir / "eval_results.json").exists()
  assert not (output_dir / "results.json").exists()


# ------------------------------------------------------------- types of tasks


def test_many_labels(model, tmp_path):  # noqa: F811
  rows = [("公园", "玩"), ("", "看书"), ("公园,书", "去玩"), ("书", "写信")]
  for name in ("train", "dev", "test"):
    tiny.write(tmp_path / (name + ".tsv"), "label\ttext\n" + "".join(
        "%s\t%s\n" % row for row in rows))
  output_dir = tmp_path / "output"
  command(model, tmp_path, output_dir, *STAGES, task_name="tsv",
          task_type="multi", metric="macro_f1", class_weights=["balanced"])
  results = read(output_dir / "results.json")
  assert (results["task_type"], results["metric"]) == ("multi", "macro_f1")
  assert results["dev"]["score"] == results["dev"]["macro_f1"]
  assert read(output_dir / "classifier.json")["task_type"] == "multi"
  probabilities = np.loadtxt(str(output_dir / "test_results.tsv"))
  lines = [json.loads(line) for line in (
      output_dir / "tsv_predict.json").read_text(encoding="utf-8").splitlines()]
  assert [line["label"] for line in lines] == [
      [label for label, value in zip(["书", "公园"], row) if value >= 0.5]
      for row in probabilities]
  evaluated = read(output_dir / "eval_results.json")
  assert "eval_accuracy" not in evaluated
  assert evaluated["metric"] == "macro_f1"
  # Type and metric are those of the training; the old scores do not stay.
  assert (output_dir / "test_results.json").exists()
  tiny.write(tmp_path / "test.tsv", "text\n玩\n")
  command(model, tmp_path, output_dir, "--do_predict", task_name="tsv")
  assert read(output_dir / "results.json")["test"] is None
  assert not (output_dir / "test_results.json").exists()
  has(refused(model, tmp_path, output_dir, "--do_predict", task_name="tsv",
              task_type="single"),
      "the labels 书, 公园 (any number of them), but")


def test_numbers(model, tmp_path):  # noqa: F811
  rows = [("0.5", "今天", "好吗"), ("3", "你", "我们去玩"), ("-1", "书", "写信")]
  for name in ("train", "dev", "test"):
    tiny.write(tmp_path / (name + ".tsv"), "label\ta\tb\n" + "".join(
        "\t".join(row) + "\n" for row in rows))
  output_dir = tmp_path / "output"
  columns = dict(task_name="tsv", task_type="regression", text_a_column="a",
                 text_b_column="b", label_column="label")
  command(model, tmp_path, output_dir, *STAGES, num_train_epochs=4, **columns)
  results = read(output_dir / "results.json")
  assert results["labels"] == []
  assert results["dev"]["score"] == results["dev"]["spearman"]
  values = np.loadtxt(str(output_dir / "test_results.tsv"))
  assert values.shape == (3,)
  best = read(output_dir / "eval_results.json")
  assert best["eval_loss"] == pytest.approx(
      best["mean_squared_error"], rel=1e-5)
  assert results["test"]["mean_squared_error"] == pytest.approx(
      np.square(values - [0.5, 3, -1]).mean(), rel=1e-4)
  has(refused(model, tmp_path, output_dir, "--do_train", **dict(
      columns, task_type="single")), "with numbers to predict, but")


def test_questions_are_what_copa_counts(model, tmp_path):  # noqa: F811
  def row(number, **more):
    return dict({"id": number, "premise": "今天天气很好", "choice0": "我们去公园",
                 "choice1": "他在写信", "question": "effect"}, **more)

  for name, rows in (
      ("train", [row(0, label=0), row(1, label=1, question="cause")]),
      ("dev", [row(0, label=0), row(1, label=1), row(2, label=0)]),
      ("test", [row(7), row(3, question="cause")])):
    tiny.write(tmp_path / (name + ".json"), "".join(
        json.dumps(each) + "\n" for each in rows))
  output_dir = tmp_path / "output"
  command(model, tmp_path, output_dir, *STAGES, task_name="copa")
  results = read(output_dir / "results.json")
  assert results["dev"]["num_examples"] == 3
  assert results["test"] is None
  rows = np.loadtxt(str(output_dir / "test_results.tsv"))
  assert rows.shape == (4, 2)
  expected = [{"id": number, "label": str(int(pair[1, 1] > pair[0, 1]))}
              for number, pair in zip((7, 3), rows.reshape(2, 2, 2))]
  content = (output_dir / "copa_predict.json").read_text()
  assert [json.loads(line) for line in content.splitlines()] == expected
  assert results["submission"] == str(output_dir / "copa_predict.zip")
  with zipfile.ZipFile(results["submission"]) as bundle:
    assert bundle.read("copa_predict.json").decode("utf-8") == content
  # Wrong ids are told before anything is trained.
  tiny.write(tmp_path / "test.json", "".join(
      json.dumps(each) + "\n" for each in [row(7), row(7)]))
  has(refused(model, tmp_path, tmp_path / "new", *STAGES, task_name="copa"),
      "the id 7 is that of 2 examples")
  assert not (tmp_path / "new").exists()


def test_windows_of_long_texts_are_one_answer(model, tmp_path, caplog):  # noqa: F811
  caplog.set_level(logging.INFO, "tensorflow")
  rows = [("0", "今天天气很好" * 4), ("1", "我们去公园玩"), ("0", "他在写信" * 5)]
  for name in ("train", "dev", "test"):
    tiny.write(tmp_path / (name + ".tsv"), "label\ttext\n" + "".join(
        "%s\t%s\n" % row for row in rows))
  output_dir = tmp_path / "output"
  command(model, tmp_path, output_dir, *STAGES, task_name="tsv",
          long_text="sliding", long_text_stride=7)
  # 24, 6 and 20 tokens, of which 14 at a time: 3, 1 and 2 windows.
  has(caplog.text, "records: 6, 3.0 steps an epoch")
  assert checkpoint_utils.latest_step(str(output_dir))[0] == 6
  results = read(output_dir / "results.json")
  assert results["dev"]["num_examples"] == results["sizes"]["train"] == 3
  rows = np.loadtxt(str(output_dir / "test_results.tsv"))
  np.testing.assert_allclose(rows.sum(axis=1), [1, 1, 1], rtol=1e-5)
  settings = read(output_dir / "best" / "classifier.json")
  assert (settings["long_text"], settings["long_text_stride"]) == ("sliding", 7)


# ------------------------------------------------------------------- messages


@pytest.mark.parametrize("switches,values,parts", [
    (["--do_eval"], {"num_seeds": 3},
     ["--num_seeds 3 is for --do_train", "leave it out"]),
    (["--do_predict"], {"learning_rate": "1e-4,1e-5"},
     ["--learning_rate with 2 rates is for --do_train"]),
    (["--do_train", "--do_predict"], {"num_seeds": 2},
     ["--num_seeds 2 makes several runs", "give --do_eval"]),
    (["--do_train"], {"learning_rate": "1e-4,1e-4"}, ["there once"]),
    (["--do_train"], {"learning_rate": "1e-4,-1"}, ["a number from 0 on"]),
    (["--do_train"], {"task_type": "multi"},
     ["task lcqmc is of the type single"]),
    (["--do_train"], {"metric": "spearman"}, ["metric is spearman", "accuracy"]),
    (["--do_train"], {"variant": "30k"}, ["no variant 30k"]),
    (["--do_train"], {"class_weights": ["1", "2", "3"]}, ["--class_weights"])])
def test_flags_that_do_not_go_together(model, tmp_path, switches, values, parts):  # noqa: F811
  write_lcqmc(tmp_path)
  has(refused(model, tmp_path, tmp_path / "output", *switches, **values), *parts)
  assert not (tmp_path / "output").exists()


def test_several_runs_on_several_machines(model, tmp_path, monkeypatch):  # noqa: F811
  write_lcqmc(tmp_path)
  monkeypatch.setenv("TF_CONFIG", json.dumps({
      "cluster": {"chief": ["localhost:1"], "worker": ["localhost:2"]},
      "task": {"type": "chief", "index": 0}}))
  has(refused(model, tmp_path, tmp_path / "output", "--do_train", num_seeds=2),
      "--num_seeds 2 makes several runs", "TF_CONFIG")
