"""Tests of the reports: figures, what is said of them, the confusion matrix."""

import collections
import contextlib
import io
import json
import logging
import os
import subprocess
import sys
import types
import zipfile

import numpy as np
import pytest

import classifier_report as cr
import classifier_tasks as ct
import classifier_utils as cu
import tiny


def metrics_of(labels, true, predicted, metric="accuracy"):
  metrics = cu.compute_metrics(true, predicted, labels)
  return dict(metrics, metric=metric, score=metrics[metric])


def make_results(task_name="tnews", labels=("a", "b"), **changes):
  """Results of two seeds: 3 of 4 right on dev, 1 of 2 on test."""
  labels = list(labels)
  dev = metrics_of(labels, [0, 0, 1, 1], [0, 0, 1, 0])
  results = dict(
      task=task_name, variant=None, task_type="single", metric="accuracy",
      labels=labels,
      runs=[dict(learning_rate=1e-4, seed=seed, folder="lr1e-04_seed%d" % seed,
                 step=10 * seed, score=score, loss=0.5,
                 checkpoint="model.ckpt-%d" % (10 * seed))
            for seed, score in ((1, 0.75), (2, 0.5))],
      selected=dict(learning_rate=1e-4, num_seeds=2, mean=0.625,
                    deviation=0.17677, best=0.75),
      dev=dev, test=metrics_of(labels, [0, 1], [1, 1]),
      test_runs=dict(mean=0.4, deviation=0.1, best=0.5), submission=None,
      checkpoint=dict(path="best/model.ckpt-10", sha256="ab12"),
      num_parameters=4175152,
      flags=dict(init_checkpoint="tiny/albert_model.ckpt", max_seq_length=128),
      versions=dict(python="3.11.7", tensorflow="2.15.1", numpy="1.26.4"),
      sizes=dict(train=53360, dev=10000, test=10000))
  return dict(results, **changes)


def read(folder, name):
  with io.open(os.path.join(str(folder), name), encoding="utf-8") as reader:
    return reader.read()


def report(folder, results):
  """Writes the report of results; returns results.md."""
  cr.write_report(str(folder), results, ct.get_task(results["task"]))
  return read(folder, cr.TABLE_NAME)


@pytest.fixture
def without_matplotlib(monkeypatch):
  for name in list(sys.modules):
    if name.split(".")[0] == "matplotlib":
      monkeypatch.delitem(sys.modules, name)
  monkeypatch.setitem(sys.modules, "matplotlib", None)


# -------------------------------------------------------------- results.json


def test_results_json_has_all_and_the_published_figures(tmp_path):
  results = make_results()
  results["dev"]["confusion_matrix"] = np.array([[2, 0], [1, 1]])
  report(tmp_path, results)
  stored = json.loads(read(tmp_path, cr.RESULTS_NAME))
  assert {"model": "ALBERT-tiny", "dev": 53.55, "test": 53.35,
          "source": "CLUE README"} in stored["published"]
  assert stored["dev"].pop("confusion_matrix") == [[2, 0], [1, 1]]
  del results["dev"]["confusion_matrix"], stored["published"]
  assert stored == results


def test_what_is_written(tmp_path, without_matplotlib, caplog):
  tiny.write(tmp_path / "confusion_matrix.png", "of an earlier run")
  with caplog.at_level(logging.INFO, logger="absl"):
    written = cr.write_report(str(tmp_path), make_results(),
                              ct.get_task("tnews"))
  names = ["results.md", "confusion_matrix.txt", "results.json"]
  assert written == [str(tmp_path / name) for name in names]
  assert sorted(os.listdir(str(tmp_path))) == sorted(names)
  assert [record.getMessage() for record in caplog.records] == [
      "confusion_matrix.png is not drawn: matplotlib is not there (pip install"
      " matplotlib); confusion_matrix.txt has the same"]


@pytest.mark.parametrize("task_type,metric", [("multi", "micro_f1"),
                                              ("regression", "spearman")])
def test_no_matrix_of_other_types(tmp_path, task_type, metric):
  if task_type == "multi":
    dev = cu.compute_multi_label_metrics([[1, 0], [1, 1]], [[1, 0], [0, 1]],
                                         ["a", "b"])
  else:
    dev = cu.compute_regression_metrics([1.0, 2.0, 3.0], [1.5, 2.5, 2.0])
  results = dict(
      make_results("tsv", test=None, test_runs=None), task_type=task_type,
      metric=metric, dev=dict(dev, metric=metric, score=dev[metric]),
      labels=["a", "b"] if task_type == "multi" else [])
  text = report(tmp_path, results)
  assert sorted(os.listdir(str(tmp_path))) == ["results.json", "results.md"]
  if task_type == "multi":
    assert "| micro f1 | 80.00 |" in text and "any of 2 labels" in text
  else:
    assert "| spearman | 50.00 |" in text and "correlation times 100" in text
    # An error is no share of anything.
    assert "| mean absolute error | 0.6667 |" in text


# ---------------------------------------------------------------- results.md


def test_figures_stand_beside_the_published_ones(tmp_path):
  text = report(tmp_path, make_results())
  rows = [line for line in text.splitlines() if line.startswith("|")]
  assert rows[:4] == [
      "|  | dev | test | source |", "| --- | --- | --- | --- |",
      "| **mean ± deviation of 2 seeds** | 62.50 ± 17.68 | 40.00 ± 10.00 | "
      "this run |",
      "| **best on dev** | 75.00 | 50.00 | this run |"]
  assert "| ALBERT-tiny | 53.55 | 53.35 | CLUE README |" in rows
  assert "| BERT-base | – | 56.58 | CLUE README |" in rows
  assert "| majority class accuracy | 50.00 | 50.00 |" in rows
  assert "| 0.0001 | 2 | 20 | 50.00 | 0.5000 | lr1e-04_seed2 |" in rows
  assert "| its sha256 | `ab12` |" in rows
  assert "| init_checkpoint | `tiny/albert_model.ckpt` |" in rows


def test_settings_that_are_off_are_not_listed(tmp_path):
  flags = dict(init_checkpoint=None, use_pooled_output=False, fgm_epsilon=0.0,
               rdrop_alpha=4.0, long_text="head", log_steps=7)
  text = report(tmp_path, make_results(flags=flags))
  assert text.split("## Settings")[1].splitlines()[4:8] == [
      "| init_checkpoint | `none` |", "| use_pooled_output | `False` |",
      "| rdrop_alpha | `4.0` |", "| parameters | 4175152 |"]


def test_one_seed_has_no_deviation(tmp_path):
  text = report(tmp_path, make_results(
      selected=dict(learning_rate=1e-4, num_seeds=1, mean=0.75, deviation=None,
                    best=0.75), test_runs=None))
  assert "±" not in text
  assert "- One seed was run: by how much seeds differ is not known" in text


def test_nothing_to_say_of_a_whole_run():
  results = make_results("afqmc", sizes=dict(train=34334, dev=4316, test=3861))
  assert cr.notes(results, ct.get_task("afqmc")) == []


@pytest.mark.parametrize("changes,sentence", [
    (dict(sizes=dict(train=53360, dev=20, test=10000)),
     "The dev set has 20 examples here, as published it has 10000: its figures"
     " are not those of the benchmark."),
    (dict(sizes=dict(train=60000, dev=10000, test=10000)),
     "The training set has 60000 examples here, as published it has 53360: the"
     " model was trained on other data."),
    # Rows count where they are known: two examples may be one row.
    (dict(rows=dict(train=53360, dev=10000, test=9999)),
     "The test set has 9999 rows here, as published it has 10000: its figures"
     " are not those of the benchmark."),
    (dict(test=None, submission="output/tnews11_predict.zip"),
     "The test set has no labels here, so only dev can be compared; the"
     " benchmark scores tnews11_predict.zip."),
    (dict(test=None, sizes=dict(train=53360, dev=10000)),
     "The test set was not predicted: only dev can be compared."),
    (dict(flags=dict(init_checkpoint="")),
     "This run began from random weights (no init_checkpoint), the published"
     " models were pre-trained.")])
def test_what_makes_figures_incomparable(tmp_path, changes, sentence):
  results = make_results(**changes)
  found = cr.notes(results, ct.get_task("tnews"))
  assert found[0] == sentence
  # The other one is that the set was made with ALBERT-tiny.
  assert len(found) == 2 and "ALBERT-tiny" in found[1]
  assert "- " + sentence in report(tmp_path, results)


def test_rows_that_are_left_out_are_counted(tmp_path):
  """CMNLI's published size counts the rows that nobody could label."""
  row = '{"sentence1": "甲", "sentence2": "乙", "label": "%s"}\n'
  tiny.write(tmp_path / "dev.json", row % "neutral" + row % "-")
  processor = cu.get_processor("cmnli")
  assert len(processor.get_dev_examples(str(tmp_path))) == 1
  assert processor.num_rows == {"dev": 2}


def test_a_set_of_unknown_size():
  notes = cr.notes(make_results("xnli"), ct.get_task("xnli"))
  assert notes == [
      "How large the published set is, is not in the table of tasks: whether "
      "these files are all of it was not checked."]
  # Nothing is published of the user's own.
  assert cr.notes(make_results("tsv", flags={}), ct.get_task("tsv")) == []


def test_without_dev(tmp_path):
  text = report(tmp_path, make_results(dev=None, selected=None, runs=[],
                                       test_runs=None))
  assert "| **best on dev** | – | 50.00 | this run |" in text
  assert "## Figures of the best checkpoint\n\n|  | test |" in text
  assert "## Runs" not in text


def test_a_bar_in_a_name(tmp_path):
  results = make_results(flags=dict(init_checkpoint="a|b"))
  assert "| init_checkpoint | `a\\|b` |" in report(tmp_path, results)


# ---------------------------------------------------------- confusion matrix


def test_matrix_as_text(tmp_path):
  labels = ["体育", "财经"]
  report(tmp_path, make_results(labels=labels))
  text = read(tmp_path, "confusion_matrix.txt")
  assert text == """\
id  label
0    体育
1    财经

test, counts; rows are the true labels, columns the predicted

true \\ predicted  体育  财经
体育                 0     1
财经                 0     1

test, percent of the row; rows are the true labels, columns the predicted

true \\ predicted  体育   财经
体育               0.0  100.0
财经               0.0  100.0

dev, counts; rows are the true labels, columns the predicted

true \\ predicted  体育  财经
体育                 2     0
财经                 1     1

dev, percent of the row; rows are the true labels, columns the predicted

true \\ predicted   体育  财经
体育              100.0   0.0
财经               50.0  50.0
"""


def test_matrix_of_many_classes_as_text():
  labels = ["l%d" % index for index in range(41)]
  text = cr.format_matrices(collections.OrderedDict(
      dev=metrics_of(labels, [0, 0, 0, 2], [40, 0, 40, 2])))
  assert "\nl0: l40 2 (66.7%), l0 1 (33.3%)\n" in text
  assert "\nl1: no examples\n" in text
  assert "\nl2: l2 1 (100.0%)\n" in text


def plot(labels, counts):
  figure = pytest.importorskip("matplotlib.figure")
  image = figure.Figure()
  cr._plot_matrix(image, "tnews", "dev", {"labels": labels,
                                          "confusion_matrix": counts})
  return image.axes[0]


def tick_labels(axis):
  return [text.get_text() for text in axis.get_ticklabels()]


def test_matrix_with_numbers():
  axes = plot(["a", "$b$"], [[3, 1], [0, 0]])
  for axis in (axes.xaxis, axes.yaxis):
    assert tick_labels(axis) == ["a", "\\$b\\$"]
  assert [(text.get_position(), text.get_text()) for text in axes.texts] == [
      ((0, 0), "75.0%\n3"), ((1, 0), "25.0%\n1")]
  assert axes.get_title() == "tnews, dev: 4 examples"
  # Rows are the true labels.
  assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "true")
  assert axes.images[0].get_array().tolist() == [[75.0, 25.0], [0.0, 0.0]]


def test_matrix_of_many_classes():
  labels = ["l%d" % index for index in range(41)]
  axes = plot(labels, np.eye(41, dtype=int))
  assert tick_labels(axes.xaxis) == [str(tick) for tick in range(0, 41, 5)]
  assert not axes.texts
  assert axes.get_title().endswith("; ids as in confusion_matrix.txt")
  # It does not grow without end.
  axes = plot(["l%d" % index for index in range(900)], np.eye(900, dtype=int))
  assert axes.figure.get_size_inches().tolist() == [21.0, 20.0]
  assert tick_labels(axes.yaxis)[:3] == ["0", "30", "60"]


@pytest.mark.parametrize("has_font", [True, False])
def test_labels_that_no_font_has(monkeypatch, has_font):
  font_manager = pytest.importorskip("matplotlib.font_manager")
  font = font_manager.FontProperties() if has_font else None
  monkeypatch.setattr(cr, "_font_for", lambda *_: font)
  axes = plot(["体育", "财经"], [[1, 0], [0, 1]])
  assert tick_labels(axes.yaxis) == (["体育", "财经"] if has_font else
                                     ["0", "1"])
  assert ("ids as in" in axes.get_title()) is not has_font


def test_the_picture(tmp_path):
  pytest.importorskip("matplotlib")
  had_pyplot = "matplotlib.pyplot" in sys.modules
  report(tmp_path, make_results())
  with open(str(tmp_path / "confusion_matrix.png"), "rb") as reader:
    content = reader.read()
  assert content.startswith(b"\x89PNG\r\n\x1a\n")
  # No display is needed, and the user's own figures are left alone.
  assert ("matplotlib.pyplot" in sys.modules) is had_pyplot


def fake_font_manager(fonts):
  """A font manager with fonts of these (file name, characters, style).

  The first is the default; of one without characters the file is gone.
  """
  entry = collections.namedtuple("entry", "fname style weight")
  characters = {name: text for name, text, _ in fonts}

  def get_font(path):
    if characters[path] is None:
      raise OSError(path)
    return types.SimpleNamespace(
        get_charmap=lambda: {ord(char): 1 for char in characters[path]})

  return types.SimpleNamespace(
      findfont=lambda _: fonts[0][0], get_font=get_font,
      FontProperties=lambda fname: fname,
      fontManager=types.SimpleNamespace(ttflist=[
          entry(name, style, 400) for name, _, style in fonts]))


@pytest.mark.parametrize("text,expected", [
    ("abc", "default.ttf"), ("体 育", "z_upright.ttf"), ("a育体", None)])
def test_the_font_that_is_taken(text, expected):
  manager = fake_font_manager([
      ("default.ttf", "abc", "normal"), ("gone.ttf", None, "normal"),
      ("a_slanted.ttf", "体育", "italic"), ("z_upright.ttf", "体育", "normal"),
      # It claims to have all, as boxes.
      ("LastResortHE-Regular.ttf", "abc体育", "normal")])
  assert cr._font_for(text, manager) == expected


# ------------------------------------------------------------- many runs' table


def write_run(folder, **changes):
  folder.mkdir()
  results = make_results(**changes)
  report(folder, results)
  return str(folder)


def command(*arguments):
  """Runs the command in this process: its exit code, output and errors."""
  out, error = io.StringIO(), io.StringIO()
  with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
    try:
      code = cr.main(list(arguments))
    except SystemExit as end:  # argparse's
      code = end.code
  return types.SimpleNamespace(returncode=code, stdout=out.getvalue(),
                               stderr=error.getvalue())


def test_table_of_many_runs(tmp_path):
  one_seed = dict(learning_rate=1e-4, num_seeds=1, mean=0.7, deviation=None,
                  best=0.7)
  folders = [
      write_run(tmp_path / "iflytek", task_name="iflytek", selected=one_seed,
                test=None, test_runs=None),
      write_run(tmp_path / "ocnli", task_name="ocnli", variant="30k",
                selected=one_seed, test_runs=None),
      write_run(tmp_path / "tnews")]
  result = command("table", "--output=%s" % (tmp_path / "all.md"),
                   "--missing=afqmc=not in data", "--failed=ocnli:3k=it broke.",
                   "--missing=copa", *folders)
  assert result.returncode == 0, result.stderr
  table = read(tmp_path, "all.md")
  assert result.stdout == table
  assert table.splitlines()[:9] == [
      "| task | metric | seeds | dev | best dev | test | ALBERT-tiny dev / test"
      " | ALBERT-base dev / test |",
      "| --- | --- | --- | --- | --- | --- | --- | --- |",
      "| afqmc | accuracy | – | **missing** | – | – | 69.13 / 69.92 | – / 72.55"
      " |",
      "| tnews | accuracy | 2 | 62.50 ± 17.68 | 75.00 | 40.00 ± 10.00 | 53.55 /"
      " 53.35 | – / 55.06 |",
      "| iflytek | accuracy | 1 | 70.00 | 70.00 | – | 48.76 / 48.71 | – / 56.58"
      " |",
      "| ocnli (30k) | accuracy | 1 | 70.00 | 70.00 | 50.00 | – | – |",
      "| ocnli (3k) | accuracy | – | **failed** | – | – | – | – |",
      "| copa | accuracy | – | **missing** | – | – | – | – |", ""]
  assert "**afqmc**\n\n- Missing: not in data.\n" in table
  assert "**ocnli (3k)**\n\n- Failed: it broke.\n" in table
  assert "**copa**\n\n- Missing.\n" in table
  assert "**iflytek**\n\n- The training set has 53360 examples here" in table


def test_two_runs_of_one_task(tmp_path):
  folders = [write_run(tmp_path / name) for name in ("tiny", "base")]
  table = cr.format_table([cr.entry_of(folder) for folder in folders])
  for folder in folders:
    assert "| tnews, %s | accuracy | 2 |" % folder in table


def test_submissions_in_one_zip(tmp_path):
  folders = []
  for name in ("tnews", "csl"):
    # A zip beside the file, under the path that it had on another machine.
    folders.append(write_run(tmp_path / name, task_name=name,
                             submission="/elsewhere/%s_predict.zip" % name))
    tiny.write(tmp_path / name / ("%s_predict.json" % name), name)
  target = tmp_path / "all.zip"
  result = command("table", "--submissions=%s" % target, *folders)
  assert result.returncode == 0, result.stderr
  with zipfile.ZipFile(str(target)) as bundle:
    assert {name: bundle.read(name) for name in bundle.namelist()} == {
        "tnews_predict.json": b"tnews", "csl_predict.json": b"csl"}
  # Where there is none, an empty file would only look like one.
  none = write_run(tmp_path / "afqmc", task_name="afqmc")
  command("table", "--submissions=%s" % (tmp_path / "none.zip"), none)
  assert not (tmp_path / "none.zip").exists()


@pytest.mark.parametrize("content,sentence", [
    (None, "it is not the output folder of a run_classifier.py that came to its"
     " end"),
    ("{", "results.json is not JSON ("),
    ('{"task": "mnli"}', "results.json is not of a task of the table")])
def test_results_that_cannot_be_read(tmp_path, content, sentence):
  if content:
    tiny.write(tmp_path / "results.json", content)
  result = command("table", str(tmp_path))
  assert result.returncode == (cr.FAILED if content else cr.MISSING)
  assert result.stderr.startswith("classifier_report.py: error: ")
  assert sentence in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments,sentence", [
    (["table", "--missing=tnew"], "there is no task tnew, did you mean tnews?"),
    (["table"], "there is nothing to make a table of"),
    (["tables"], "invalid choice: 'tables'"),
    (["check", "tnews"], "--data_dir")])
def test_commands_that_cannot_be(arguments, sentence):
  result = command(*arguments)
  assert result.returncode != 0 and sentence in result.stderr
  assert "Traceback" not in result.stderr


def test_check(tmp_path):
  row = '{"sentence": "%s", "label": "100"}\n'
  for split, number in (("train", 3), ("dev", 2)):
    tiny.write(tmp_path / (split + ".json"), row % "甲" * number)
  arguments = ("check", "tnews", "--data_dir=%s" % tmp_path)
  result = command(*arguments)
  assert result.returncode == cr.MISSING
  assert "there is no test file of task tnews in" in result.stderr
  tiny.write(tmp_path / "test.json", '{"sentence": "甲"}\n')
  result = command(*arguments)
  assert (result.returncode, result.stdout) == (
      0, "tnews: train 3, dev 2, test 1 rows\n")
  tiny.write(tmp_path / "dev.json", row % "甲" + '{"text": "甲"}\n')
  result = command(*arguments)
  assert result.returncode == cr.FAILED
  assert result.stderr == (
      "classifier_report.py: error: %s: line 2: there is no label among the "
      "fields, which are text\n" % (tmp_path / "dev.json"))
  assert command(*(arguments + ("--variant=0",))).returncode == cr.FAILED
  # What could be trained on, but not handed in.
  tiny.write(tmp_path / "dev.json", row % "甲")
  tiny.write(tmp_path / "test.json", '{"id": 1, "sentence": "甲"}\n' * 2)
  result = command(*arguments)
  assert result.returncode == cr.FAILED
  assert "the id 1 is that of 2 examples" in result.stderr


def test_check_of_ones_own_columns(tmp_path):
  for split in ("train", "dev", "test"):
    tiny.write(tmp_path / (split + ".tsv"), "甲\t体育,财经\n乙\t\n")
  arguments = ["check", "tsv", "--data_dir=%s" % tmp_path, "--text_a_column=0",
               "--label_column=1"]
  result = command(*(arguments + ["--task_type=multi"]))
  assert (result.returncode, result.stdout) == (
      0, "tsv: train 2, dev 2, test 2 rows\n")
  result = command(*arguments)
  assert result.returncode == cr.FAILED
  assert "train.tsv: line 2: 1 is empty, expected a label" in result.stderr


def test_as_a_script_without_tensorflow(tmp_path):
  """In a terminal that knows ASCII only, in an environment without TensorFlow."""
  (tmp_path / "tensorflow").mkdir()
  tiny.write(tmp_path / "tensorflow" / "__init__.py", "raise ImportError()\n")
  folder = write_run(tmp_path / "tnews")
  result = subprocess.run(
      [sys.executable, os.path.join(tiny.ROOT, "classifier_report.py"), "table",
       folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
      universal_newlines=True, env=dict(
          os.environ, PYTHONPATH=str(tmp_path), PYTHONIOENCODING="ascii"))
  assert (result.returncode, result.stderr) == (0, "")
  assert "| tnews | accuracy | 2 | 62.50 \\xb1 17.68 |" in result.stdout
