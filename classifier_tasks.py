"""The Chinese classification sets, one table, and how their files are read.

    task = get_task("lcqmc")
    path, layout = find_file(task, "data/lcqmc", "dev")
    for row in read_rows(task, layout, path, "dev", collections.Counter()):
      row.text(layout.text_a)

A new task is one entry of `TASKS`. Whoever fine-tunes takes all of this from
`classifier_utils.py`, which makes examples and features of the rows and scores
what a model says of them; the table and its readers stand here because they
change with the data sets only, and know nothing of tokens, label ids or scores.
TensorFlow is imported only for a path that the local file system does not
have, such as gs://bucket/file.
"""

import collections
import contextlib
import csv
import difflib
import functools
import hashlib
import io
import itertools
import json
import os
import re
import zipfile

from absl import logging

SPLITS = ("train", "dev", "test")
# In all others, a row without label is as good as any.
LABELLED_SPLITS = ("train", "dev")
# What a label is: one of a list, any number of them, a number.
TASK_TYPES = ("single", "multi", "regression")

_MAX_WORDS_IN_MESSAGE = 20


class DataError(ValueError):
  """An input that cannot be used; the message says where and what is right."""


class MissingDataError(DataError):
  """A folder or file of a task is not there."""


def join_words(words):
  """`0`, `0 and 1`, `0, 1 and 2`; long lists are cut."""
  words = [str(word) for word in words]
  if not words:
    return "none"
  if len(words) > _MAX_WORDS_IN_MESSAGE:
    return "%s ... (%d in all)" % (
        ", ".join(words[:_MAX_WORDS_IN_MESSAGE]), len(words))
  return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


# ----------------------------------------------------- what a task consists of

# What the first line of a delimited file is.
NAMES = "names"  # the names of the columns
SKIPPED = "skipped"  # a header that nothing is taken from
DETECTED = "detected"  # a header or the first row: its fields tell
NO_HEADER = "no header"  # the first row

# One form in which the files of a task are around.
# format: a key of `_READERS`.
# files: dict from split to the file's names, the first that exists is read;
#   {variant} in a name stands for one of the task's variants.
# text_a, text_b, label: names of columns or keys; text_b None: a single text.
# columns: names of the columns, in their order in a file without names. A test
#   file may leave out the label, any file those in `optional`.
# header: one of the four above; for delimited files.
# aliases: dict from other names that files have for a field to the one here.
# where: (field, value) that a row must have; others are of another set.
# delimiter: string between the columns.
Layout = collections.namedtuple(
    "Layout", ["format", "files", "text_a", "text_b", "label", "columns",
               "optional", "header", "aliases", "where", "delimiter"],
    defaults=(None, "label", None, (), NAMES, {}, None, "\t"))

# A figure that others report, in percent; None: they report none.
Published = collections.namedtuple("Published",
                                   ["model", "dev", "test", "source"])

# name: string, as in --task_name.
# layouts: tuple of Layout; the first whose file is there is read.
# labels: tuple of strings, in the order of their ids; None: those found in the
#   training data. A regression task has none.
# make: function(layout, row, label) -> list of (text_a, text_b, label).
# task_type: one of `TASK_TYPES`.
# metric: the benchmark's; a key of what `classifier_utils` computes.
# variants: tuple of strings, the first is the default: parts or sizes of the
#   set that have files of their own.
# label_aliases: dict from other words that files have for a label.
# dropped_label: rows that nobody could label carry it instead of a label.
# is_grouped: whether a row makes two examples, one for each choice, of which
#   one has the label "1", so that the row and not the example is scored.
# published: tuple of Published.
# sizes: dict from split to the number of rows of the set as published.
# submission: file name that the benchmark wants; None: it wants none.
# submission_extra: pairs that a line of it has besides id and label.
# homepage: where the set, or the way to it, is described.
# is_free: whether names of columns, labels and the like are the user's.
# note: a sentence on the published figures that whoever compares has to know.
Task = collections.namedtuple(
    "Task", ["name", "layouts", "labels", "make", "task_type", "metric",
             "variants", "label_aliases", "dropped_label", "is_grouped",
             "published", "sizes", "submission", "submission_extra",
             "homepage", "is_free", "note"],
    defaults=("single", "accuracy", (), {}, None, False, (), {}, None, (), None,
              False, None))


def is_pair(task):
  """Whether the model sees two texts of the task, or one."""
  return task.layouts[0].text_b is not None


def submission_name(task):
  """Name of the file that the benchmark wants to have predictions in."""
  return task.submission or task.name + "_predict.json"


def _plain(layout, row, label):
  text_b = row.text(layout.text_b) if layout.text_b else None
  return [(row.text(layout.text_a), text_b, label)]


def _csl(layout, row, label):
  """Keywords and an abstract: do they belong together?"""
  keywords = row.get(layout.text_a)
  if not (isinstance(keywords, list) and
          all(isinstance(word, str) for word in keywords)):
    raise row.error("%s is %r, expected a list of strings" %
                    (layout.text_a, keywords))
  return [(" ".join(keywords), row.text(layout.text_b), label)]


def _wsc(layout, row, label):
  """One text in which a name is marked `_so_` and a pronoun `[so]`."""
  text, target = row.text(layout.text_a), row.get("target")
  marks = []
  for span, (before, after) in (("span1", "__"), ("span2", "[]")):
    index_key, text_key = span + "_index", span + "_text"
    if not isinstance(target, dict) or not (
        isinstance(target.get(index_key), int) and
        isinstance(target.get(text_key), str)):
      raise row.error("target is %r, expected an object with the number %s and"
                      " the string %s" % (target, index_key, text_key))
    start, words = target[index_key], target[text_key]
    end = start + len(words)
    if start < 0 or text[start:end] != words:
      raise row.error("%s is %r, but the text has %r at %s %d" % (
          text_key, words, text[max(start, 0):max(end, 0)], index_key, start))
    marks += [(start, 1, before), (end, 0, after)]
  # From the last to the first, so that the positions before stay right; where
  # one span ends and the other begins, the closing mark comes out first.
  for position, _, mark in sorted(marks, reverse=True):
    text = text[:position] + mark + text[position:]
  return [(text, None, label)]


def _copa(layout, row, label):
  """Two examples a row, one for each choice, in the order of cause, effect."""
  premise, question = row.text("premise"), row.text("question")
  if question not in ("effect", "cause"):
    raise row.error("question is %r, expected effect or cause" % question)
  examples = []
  for number, key in enumerate((layout.text_a, layout.text_b)):
    choice = row.text(key)
    pair = (premise, choice) if question == "effect" else (choice, premise)
    is_answer = label and str(int(label == str(number)))
    examples.append(pair + (is_answer,))
  return examples


# ---------------------------------------------------------- published figures


def _figures(source, *rows):
  return tuple(Published(*(row + (source,))) for row in rows)


_ALBERT_ZH = "albert_zh README"
_LCQMC_FIGURES = _figures(
    _ALBERT_ZH, ("BERT-base", 89.4, 86.9), ("ERNIE", 89.8, 87.2),
    ("BERT-wwm", 89.4, 87.0), ("RoBERTa-zh-base", 88.7, 87.0),
    ("RoBERTa-zh-large", 89.9, 87.2), ("ALBERT-tiny", None, 85.4),
    ("ALBERT-small", None, 86.0), ("ALBERT-base", 87.2, 86.3),
    ("ALBERT-large", 88.7, 87.1), ("ALBERT-xlarge", 87.3, 87.7))
_XNLI_FIGURES = _figures(
    _ALBERT_ZH, ("BERT-base", 77.8, 77.8), ("ERNIE", 79.7, 78.6),
    ("BERT-wwm", 79.0, 78.2), ("RoBERTa-zh-base", 79.8, 78.8),
    ("RoBERTa-zh-large", 80.2, 79.9), ("ALBERT-base", 77.0, 77.1),
    ("ALBERT-large", 78.0, 77.5))
_INEWS_FIGURES = _figures(
    "ChineseGLUE README", ("BERT-base", None, 82.7),
    ("ALBERT-tiny", None, 81.4), ("ALBERT-xlarge", None, 81.9))

_FILTERED = ("Those who made the set kept what ALBERT-tiny got wrong, so that it"
             " looks worse here than elsewhere.")
_CLUE_COLUMNS = ("afqmc", "tnews", "iflytek", "cmnli", "wsc", "csl")
_CLUE_TEST = (
    ("BERT-base", 73.70, 56.58, 60.29, 79.69, 62.0, 80.36),
    ("RoBERTa-wwm-ext", 74.04, 56.94, 60.31, 80.51, 67.8, 81.0),
    ("RoBERTa-wwm-large", 76.55, 58.61, 62.98, 82.12, 74.6, 82.13),
    ("ALBERT-tiny", 69.92, 53.35, 48.71, 70.61, 58.5, 74.56),
    ("ALBERT-base", 72.55, 55.06, 56.58, 77.58, 64.34, 78.5),
    ("ALBERT-large", 74, 55.16, 57.00, 78.77, 62.24, 80.30),
    ("ALBERT-xlarge", 69.96, 57.36, 59.50, 81.13, 64.34, 81.20),
    ("ALBERT-xxlarge", 75.6, 59.46, 62.89, 83.14, 61.54, 83.63))
_CLUE_TINY_DEV = (69.13, 53.55, 48.76, 70.26, 57.7, 74.36)


def _clue_figures(name):
  column = _CLUE_COLUMNS.index(name)
  return _figures("CLUE README", *[
      (row[0], _CLUE_TINY_DEV[column] if row[0] == "ALBERT-tiny" else None,
       row[1 + column]) for row in _CLUE_TEST])


# ------------------------------------------------------------------- the table


def _files(*patterns):
  """Names from patterns such as "%s.txt" with the split in them."""
  return {split: tuple(pattern % split for pattern in patterns)
          for split in SPLITS}


def _sizes(*sizes):
  return dict(zip(SPLITS, sizes))


_BINARY = ("0", "1")
_NLI = ("contradiction", "entailment", "neutral")
_TNEWS = tuple(str(label) for label in range(100, 117)
               if label not in (105, 111))
_IFLYTEK = tuple(str(label) for label in range(119))

_TEXT_NAMES = {"text_a": "text", "sentence": "text", "review": "text",
               "qid": "id"}
_PAIR_NAMES = {"sentence1": "text_a", "sentence2": "text_b",
               "question1": "text_a", "question2": "text_b", "qid": "id"}
_PAIR_TSV = Layout(
    "delimited", _files("%s.txt", "%s.tsv"), "text_a", "text_b",
    columns=("text_a", "text_b", "label"), header=DETECTED,
    aliases=_PAIR_NAMES)
_LCQMC = Task("lcqmc", (_PAIR_TSV,), _BINARY, _plain,
              published=_LCQMC_FIGURES, sizes=_sizes(238766, 8802, 12500),
              homepage="http://icrc.hitsz.edu.cn/info/1037/1146.htm")
_PAWSX = {"train": ("translated_train.tsv",), "dev": ("dev_2k.tsv",),
          "test": ("test_2k.tsv",)}
_CNEWS = {"train": ("cnews.train.txt",), "dev": ("cnews.val.txt",),
          "test": ("cnews.test.txt",)}
_TITLE_BODY = functools.partial(Layout, "delimited", text_a="title",
                                text_b="body")


def _json(text_a, text_b=None, files=None, **settings):
  """The layout of CLUE's files: a JSON object a line."""
  files = files or _files("%s.json")
  return (Layout("jsonl", files, text_a, text_b, **settings),)


_CLUE = functools.partial(Task, make=_plain,
                          homepage="https://github.com/CLUEbenchmark/CLUE")
_TNEWS_TASK = _CLUE(
    "tnews", _json("sentence", files=dict(
        _files("%s.json"), test=("test1.1.json", "test.json"))), _TNEWS,
    submission_extra=(("label_desc", ""),), published=_clue_figures("tnews"),
    sizes=_sizes(53360, 10000, 10000), submission="tnews11_predict.json",
    note=_FILTERED)
# A row's number is its `id`, or its `idx` where there is no such field.
_WSC_TASK = _CLUE(
    "wsc", _json("text", aliases={"idx": "id"}, files=dict(
        _files("%s.json"), test=("test1.1.json", "test.json"))),
    ("true", "false"), make=_wsc, published=_clue_figures("wsc"),
    sizes=_sizes(1244, 304), submission="cluewsc11_predict.json")
_FIRST_TEST = dict(_files("%s.json"), test=("test1.0.json", "test.json"))


def _first_version(task, name, submission):
  """The set with the test file that CLUE began with."""
  return task._replace(
      name=name, submission=submission,
      layouts=(task.layouts[0]._replace(files=_FIRST_TEST),))


_FEWCLUE_FILES = {
    "train": ("train_{variant}.json",), "dev": ("dev_{variant}.json",),
    "test": ("test.json",), "test_public": ("test_public.json",)}
_FEWCLUE_JSON = functools.partial(_json, files=_FEWCLUE_FILES)
_FEWCLUE = functools.partial(
    Task, make=_plain, variants=("0", "1", "2", "3", "4", "few_all"),
    homepage="https://github.com/CLUEbenchmark/FewCLUE")

_FREE = functools.partial(Task, labels=None, make=_plain, is_free=True)

TASKS = collections.OrderedDict((entry.name, entry) for entry in (
    _LCQMC,
    _LCQMC._replace(name="lcqmc_pair"),
    Task("sentence_pair", (_PAIR_TSV._replace(
        files=_files("%s_0827.tsv"), columns=("label", "text_a", "text_b")),),
         _BINARY, _plain),
    Task("bq", (_PAIR_TSV,), _BINARY, _plain,
         homepage="http://icrc.hitsz.edu.cn/info/1037/1162.htm"),
    Task("pawsx", (
        Layout("delimited", {
            split: names + ("zh/" + names[0], "x-final/zh/" + names[0])
            for split, names in _PAWSX.items()}, "sentence1", "sentence2"),
        _PAIR_TSV), _BINARY, _plain,
         homepage="https://github.com/google-research-datasets/paws"),
    Task("xnli", (
        _json("premise", "hypo")[0],
        Layout("delimited",
               {"train": ("multinli/multinli.train.zh.tsv",
                          "multinli.train.zh.tsv")}, "premise", "hypo"),
        Layout("delimited", {"dev": ("xnli.dev.tsv",),
                             "test": ("xnli.test.tsv",)},
               "sentence1", "sentence2", "gold_label",
               where=("language", "zh")),
        _PAIR_TSV), _NLI, _plain, label_aliases={
            "contradictory": "contradiction"}, dropped_label="-",
         published=_XNLI_FIGURES,
         homepage="https://github.com/facebookresearch/XNLI"),
    Task("chnsenticorp", (
        Layout("delimited", _files("%s.tsv", "%s.txt"), "text",
               columns=("label", "text"), header=DETECTED,
               aliases=_TEXT_NAMES),), _BINARY, _plain),
    Task("thucnews", (
        Layout("delimited", _files("%s.tsv"), "text", aliases=_TEXT_NAMES),
        Layout("delimited", _files("%s.txt"), "text",
               columns=("text", "label"), header=DETECTED,
               aliases=_TEXT_NAMES),
        Layout("delimited", _CNEWS, "text", columns=("label", "text"),
               header=NO_HEADER),
        Layout("folders", {split: ("<label>/<number>.txt",)
                           for split in SPLITS}, "text")),
         None, _plain, homepage="http://thuctc.thunlp.org"),
    Task("inews", (
        _TITLE_BODY(_files("%s.tsv")),
        _TITLE_BODY(_files("%s.txt"), header=DETECTED, delimiter="_!_",
                    columns=("label", "id", "title", "body"),
                    optional=("id",))),
         ("0", "1", "2"), _plain, published=_INEWS_FIGURES,
         homepage="https://github.com/ChineseGLUE/ChineseGLUE"),
    _CLUE("afqmc", _json("sentence1", "sentence2"), _BINARY,
          published=_clue_figures("afqmc"), sizes=_sizes(34334, 4316, 3861),
          submission="afqmc_predict.json"),
    _TNEWS_TASK,
    _first_version(_TNEWS_TASK, "tnews10", "tnews10_predict.json"),
    _CLUE("iflytek", _json("sentence"), _IFLYTEK,
          published=_clue_figures("iflytek"), sizes=_sizes(12133, 2599, 2600),
          submission="iflytek_predict.json", note=_FILTERED),
    _CLUE("cmnli", _json("sentence1", "sentence2"), _NLI, dropped_label="-",
          published=_clue_figures("cmnli"),
          sizes=_sizes(391782, 12426, 13880),
          submission="cmnli_predict.json"),
    _CLUE("ocnli", _json("sentence1", "sentence2", files={
        split: (name, "data/ocnli/" + name) for split, name in (
            ("train", "train.{variant}.json"), ("dev", "dev.json"),
            ("test", "test.json"))}), _NLI, dropped_label="-",
          variants=("50k", "30k", "10k", "3k"),
          submission="ocnli_50k_predict.json",
          homepage="https://github.com/CLUEbenchmark/OCNLI"),
    _CLUE("csl", _json("keyword", "abst"), _BINARY, make=_csl,
          published=_clue_figures("csl"), sizes=_sizes(20000, 3000, 3000),
          submission="csl_predict.json"),
    _WSC_TASK,
    _WSC_TASK._replace(name="cluewsc2020"),
    _first_version(_WSC_TASK, "wsc10", "cluewsc10_predict.json"),
    _CLUE("copa", _json("choice0", "choice1"), _BINARY, make=_copa,
          is_grouped=True, submission="copa_predict.json"),
    _FEWCLUE("fewclue_eprstmt", _FEWCLUE_JSON("sentence"),
             ("Negative", "Positive"), submission="eprstmt_predict.json"),
    _FEWCLUE("fewclue_csldcp", _FEWCLUE_JSON("content"), None,
             submission="csldcp_predict.json"),
    _FEWCLUE("fewclue_tnews", _FEWCLUE_JSON("sentence"), _TNEWS,
             submission="tnewsf_predict.json"),
    _FEWCLUE("fewclue_iflytek", _FEWCLUE_JSON("sentence"), _IFLYTEK,
             submission="iflytekf_predict.json"),
    _FEWCLUE("fewclue_ocnli", _FEWCLUE_JSON("sentence1", "sentence2"), _NLI,
             dropped_label="-", submission="ocnlif_predict.json"),
    _FEWCLUE("fewclue_bustm", _FEWCLUE_JSON("sentence1", "sentence2"), _BINARY,
             submission="bustm_predict.json"),
    _FEWCLUE("fewclue_csl", _FEWCLUE_JSON("keyword", "abst"), _BINARY,
             make=_csl, submission="cslf_predict.json"),
    _FEWCLUE("fewclue_cluewsc", _FEWCLUE_JSON("text"), ("true", "false"),
             make=_wsc, submission="cluewscf_predict.json"),
    _FREE("tsv", (Layout("delimited", _files("%s.tsv"), "text"),)),
    _FREE("csv", (Layout("csv", _files("%s.csv"), "text", delimiter=","),)),
    _FREE("jsonl", (Layout("jsonl", _files("%s.jsonl"), "text"),)),
))


def get_task(task_name):
  """Returns the table's entry; an unknown name is a DataError."""
  name = task_name.lower()
  if name not in TASKS:
    near = difflib.get_close_matches(name, TASKS, 1)
    raise DataError("there is no task %s%s; the tasks are %s" % (
        task_name, ", did you mean %s?" % near[0] if near else "",
        ", ".join(TASKS)))
  return TASKS[name]


# ------------------------------------------------- files, in folders and zips


def remote_files(path):
  """TensorFlow's file functions for gs:// and the like, else None."""
  if "://" not in path:
    return None
  import tensorflow.compat.v1 as tf
  return tf.gfile


def _split_zip(path):
  """(archive, member) of a path that leads into a zip file, else None."""
  match = re.match(r"(.*?\.zip)(?:/(.*))?$", path, re.IGNORECASE | re.DOTALL)
  if match and os.path.isfile(match.group(1)):
    return match.group(1), match.group(2) or ""
  return None


@contextlib.contextmanager
def _open_zip(archive):
  try:
    with zipfile.ZipFile(archive) as bundle:
      yield bundle
  except zipfile.BadZipFile as error:
    raise DataError("%s cannot be read as a zip file (%s); was it downloaded "
                    "completely?" % (archive, error)) from error


@contextlib.contextmanager
def open_binary(path):
  """Opens a file for reading: a local one, a remote one, or one in a zip."""
  files, inside = remote_files(path), _split_zip(path)
  if inside:
    with _open_zip(inside[0]) as bundle, bundle.open(inside[1]) as reader:
      yield reader
  else:
    with (files.GFile(path, "rb") if files else io.open(path, "rb")) as reader:
      yield reader


def list_folder(path):
  """Returns sorted names (of folders, of files); None if it is no folder.

  A zip file is a folder, too. What begins with a dot is left out, and so is
  __MACOSX, which zips have from there.
  """
  files, inside = remote_files(path), _split_zip(path)
  if inside:
    prefix = inside[1].rstrip("/") + "/" if inside[1] else ""
    with _open_zip(inside[0]) as bundle:
      members = [name[len(prefix):] for name in bundle.namelist()
                 if name.startswith(prefix)]
    folders = {name.split("/")[0] for name in members if "/" in name}
    names = {name for name in members if "/" not in name}
  elif files:
    if not files.IsDirectory(path):
      return None
    entries = [name.rstrip("/") for name in files.ListDirectory(path)]
    folders = {name for name in entries
               if files.IsDirectory(os.path.join(path, name))}
    names = set(entries) - folders
  else:
    if not os.path.isdir(path):
      return None
    with os.scandir(path) as entries:
      are_folders = {entry.name: entry.is_dir() for entry in entries}
    folders = {name for name in are_folders if are_folders[name]}
    names = set(are_folders) - folders
  return tuple(sorted(name for name in group if name and
                      not name.startswith(".") and name != "__MACOSX")
               for group in (folders, names))


def _is_file(path):
  files, inside = remote_files(path), _split_zip(path)
  if files:
    return files.Exists(path) and not files.IsDirectory(path)
  if inside:
    with _open_zip(inside[0]) as bundle:
      return inside[1] in bundle.namelist()
  return os.path.isfile(path)


def find_file(task, data_dir, split, variant=None):
  """Finds the file of a split, in the folder or in one inside it.

  Args:
    task: Task.
    data_dir: path of a folder or of a zip file. If it has no file of the task,
      the folders in it are looked into.
    split: string, a key of the layouts' files.
    variant: string, one of the task's, or None where it has none.

  Returns:
    (path, Layout). Of several names that are there, the table's first.

  Raises:
    DataError: no such split, folder, or file, or several folders have one; it
      says what was found instead.
  """
  choices = _choices(task, split, variant)
  if not choices:
    raise DataError("task %s has no split %s, only %s" % (
        task.name, split, join_words(task.layouts[0].files)))
  expected = " or ".join(collections.OrderedDict.fromkeys(
      name for _, name in choices))
  listed = list_folder(data_dir)
  if listed is None:
    raise MissingDataError(
        "there is no folder %s, expected one with %s, the %s file of task %s%s"
        % (data_dir, expected, split, task.name, _origin(task)))
  found = _existing(data_dir, choices)
  if found:
    return _first_of(found)
  # Where the folder is the task's own, those inside it are of something else.
  is_own = any(_existing(data_dir, _choices(task, other, variant))
               for other in SPLITS)
  inner = [_existing(os.path.join(data_dir, name), choices)
           for name in ([] if is_own else listed[0])]
  inner = [found for found in inner if found]
  if len(inner) > 1:
    raise DataError("%s has more than one %s file of task %s, %s; give the "
                    "folder of one of them" % (
                        data_dir, split, task.name,
                        join_words(found[0][0] for found in inner)))
  if inner:
    return _first_of(inner[0])
  raise MissingDataError(
      "there is no %s file of task %s in %s: expected %s, found %s%s" % (
          split, task.name, data_dir, expected,
          join_words([name + "/" for name in listed[0]] + listed[1]),
          _hint(listed) or _origin(task)))


def _choices(task, split, variant):
  """The (layout, file name) pairs of a split, in the order of the table."""
  return [(layout, name.format(variant=variant)) for layout in task.layouts
          for name in layout.files.get(split, ())]


def _origin(task):
  return "; the set is described at %s" % task.homepage if task.homepage else ""


def _hint(listed):
  zips = [name for name in listed[1] if name.lower().endswith(".zip")]
  return "; %s itself can be given as the folder" % zips[0] if zips else ""


def _existing(folder, choices):
  """The (path, layout) of each of the choices that is there."""
  return [
      (folder if layout.format == "folders" else os.path.join(folder, name),
       layout) for layout, name in choices
      if (len(_class_folders(folder)) > 1 if layout.format == "folders" else
          _is_file(os.path.join(folder, name)))]


def _first_of(found):
  for path, _ in found[1:]:
    logging.info("%s is read, %s is not", found[0][0], path)
  return found[0]


# -------------------------------------------------------------------- readers


class Row(collections.namedtuple("Row", ["path", "line", "values"])):
  """A row's place and its fields: a dict from column or key to value.

  The line is None where the file as a whole is the row.
  """
  __slots__ = ()

  def error(self, problem):
    """Returns the DataError that says where the problem is."""
    place = "" if self.line is None else "line %d: " % self.line
    return DataError("%s: %s%s" % (self.path, place, problem))

  def get(self, key):
    if key not in self.values:
      raise self.error("there is no %s among the fields, which are %s" % (
          key, join_words(self.values)))
    return self.values[key]

  def text(self, key):
    text = as_text(self.get(key))
    if text is None:
      raise self.error("%s is %r, expected a text" % (key, self.get(key)))
    return text


def as_text(value):
  """Strings as they are, 1 as "1", true as "true"; else None."""
  if isinstance(value, bool):
    return str(value).lower()
  return str(value) if isinstance(value, (str, int, float)) else None


def row_label(task, layout, row, split):
  """The label of a row; None where the row has none to count.

  In a test file a row without label is as good as any; elsewhere only the
  task's `dropped_label` may stand for one.

  Returns:
    A string; of a multi-label task a tuple of different strings, maybe empty;
    of a regression task a float.
  """
  is_needed = split in LABELLED_SPLITS
  value = (row.get(layout.label) if is_needed else
           row.values.get(layout.label))
  if task.task_type == "multi":
    is_there = layout.label in row.values
    return _many_labels(task, layout, row, value) if is_there else None
  label = "" if value is None else as_text(value)
  if label is None:
    raise row.error("%s is %r, expected a string or a number" %
                    (layout.label, value))
  label = label.strip()
  label = task.label_aliases.get(label, label)
  if label == task.dropped_label or (not label and not is_needed):
    return None
  if not label:
    raise row.error("%s is empty, expected a label" % layout.label)
  return _number(layout, row, label) if task.task_type == "regression" else label


def _many_labels(task, layout, row, value):
  """Labels between commas or in a JSON list; each once, in their order."""
  parts = value if isinstance(value, list) else as_text(value)
  if isinstance(parts, str):
    parts = parts.split(",") if parts.strip() else []
  labels = [as_text(part) for part in parts or []]
  if (parts is None and value is not None) or None in labels:
    raise row.error("%s is %r, expected labels between commas or a list of "
                    "strings" % (layout.label, value))
  labels = [label.strip() for label in labels]
  if "" in labels:
    raise row.error("%s is %r, which has an empty label between commas" %
                    (layout.label, value))
  return tuple(collections.OrderedDict.fromkeys(
      task.label_aliases.get(label, label) for label in labels))


def _number(layout, row, label):
  try:
    number = float(label)
  except ValueError:
    number = float("nan")
  if number - number != 0:  # not a number, or infinite
    raise row.error("%s is %r, expected a number" % (layout.label, label))
  return number


def read_rows(task, layout, path, split, counts):
  """Yields a file's Rows.

  Args:
    task: Task.
    layout: Layout that the file has.
    path: as `find_file` returns it.
    split: string.
    counts: Counter; "blank" is raised for every blank line, "other" for every
      row that is not of this set.

  Raises:
    DataError: what cannot be read, with file and line.
  """
  for row in _READERS[layout.format](task, layout, path, split, counts):
    if layout.where and row.text(layout.where[0]) != layout.where[1]:
      counts["other"] += 1
    else:
      yield row


def _decoded_lines(path):
  """Yields (number from 1, text, whether a line end follows) of all lines.

  Only LF or CR LF ends a line. A byte order mark is left out.
  """
  with open_binary(path) as reader:
    for number, raw in enumerate(iter(reader.readline, b""), 1):
      if number == 1 and raw.startswith(b"\xef\xbb\xbf"):
        raw = raw[3:]
      try:
        line = raw.decode("utf-8")
      except UnicodeDecodeError as error:
        raise DataError(
            "%s: line %d: byte 0x%02x at %d is not UTF-8; convert the file to "
            "UTF-8" % (path, number, raw[error.start], error.start)) from error
      ends = line.endswith("\n")
      line = line[:-1] if ends else line
      line = line[:-1] if line.endswith("\r") else line
      yield number, line, ends


def read_lines(path, counts):
  """Yields (line number from 1, text) of the lines that are not blank.

  Blank lines are counted in counts["blank"]. A line with tabs is a row of
  empty fields, not blank.
  """
  for number, line, _ in _decoded_lines(path):
    if line.strip(" "):
      yield number, line
    else:
      counts["blank"] += 1


def _read_jsonl(task, layout, path, split, counts):
  """Yields a Row for every line, each one JSON object."""
  del task, split  # JSON says itself what its fields are.
  for number, line in read_lines(path, counts):
    row = Row(path, number, {})
    try:
      values = json.loads(line)
    except json.JSONDecodeError as error:
      raise row.error("not JSON at character %d (%s), expected one object a "
                      "line" % (error.colno, error.msg)) from error
    except RecursionError as error:
      raise row.error("JSON nested too deep, expected one object a line of "
                      "texts and labels") from error
    if not isinstance(values, dict):
      raise row.error("found a JSON %s, expected one object a line" %
                      type(values).__name__)
    for name, own_name in layout.aliases.items():
      if name in values and own_name not in values:
        values[own_name] = values.pop(name)
    yield row._replace(values=values)


def _read_delimited(task, layout, path, split, counts):
  """Yields a Row for every line but the header; a quote is like any other."""
  rows = ((number, line.split(layout.delimiter))
          for number, line in read_lines(path, counts))
  return _rows_of_fields(task, layout, path, split, rows)


def _read_csv(task, layout, path, split, counts):
  """Yields a Row for every record but the header; quotes as in RFC 4180."""
  return _rows_of_fields(task, layout, path, split,
                         _csv_records(layout, path, counts))


def _csv_records(layout, path, counts):
  """Yields (number of the first line, fields); a record may have more."""
  reader = csv.reader((line + "\n" * ends
                       for _, line, ends in _decoded_lines(path)),
                      delimiter=layout.delimiter, strict=True)
  while True:
    number = reader.line_num + 1
    try:
      fields = next(reader)
    except StopIteration:
      return
    except csv.Error as error:
      raise DataError(
          "%s: line %d: the record that begins here is not CSV (%s); a quote "
          "inside a quoted field is written twice" %
          (path, number, error)) from error
    if any(field.strip(" ") for field in fields) or len(fields) > 1:
      yield number, fields
    else:
      counts["blank"] += 1


def _rows_of_fields(task, layout, path, split, rows):
  """Settles what the first row is, and gives the fields their names."""
  first = next(rows, None)
  if first is None:
    return
  row = Row(path, first[0], first[1])
  names, is_header = _read_header(task, layout, split, row)
  if is_header and layout.header != NAMES:
    logging.info("%s: line %d is taken as the header: %s", path, row.line,
                 " | ".join(row.values))
  if not is_header:
    rows = itertools.chain([first], rows)
    if layout.header == DETECTED:
      logging.info("%s: the first line is an example, not a header", path)
  for index, (number, fields) in enumerate(rows):
    if names is None:
      names = _names_by_position(task, layout, split, fields)
    elif index == 0 and layout.header == DETECTED and (
        split not in LABELLED_SPLITS and len(fields) == len(names) - 1):
      # The header of the training file over rows without a label.
      names = [name for name in names if name != layout.label]
    if len(fields) != len(names):
      kind = {"\t": "tab", ",": "comma"}.get(layout.delimiter, layout.delimiter)
      raise DataError("%s: line %d: found %d %s-separated columns, expected "
                      "%d (%s)" % (path, number, len(fields), kind, len(names),
                                   join_words(names)))
    yield Row(path, number, dict(zip(names, fields)))


def _read_header(task, layout, split, row):
  """Returns (names of the columns or None, whether the row is a header)."""
  if layout.header == NAMES:
    return _names_of_header(layout, split, row), True
  if layout.header == DETECTED:
    names = _own_names(layout, row.values)
    if not _missing_names(layout, split, names):
      return _names_of_header(layout, split, row), True
    return None, _is_header(task, layout, split, row.values)
  return None, layout.header == SKIPPED


def _own_names(layout, fields):
  """Names as the layout has them; others stay as they are."""
  names = [name.strip() for name in fields]
  return [layout.aliases[name]
          if name in layout.aliases and layout.aliases[name] not in names
          else name for name in names]


def _missing_names(layout, split, names):
  wanted = [layout.text_a, layout.text_b,
            layout.label if split in LABELLED_SPLITS else None]
  return [name for name in wanted if name and name not in names]


def _names_of_header(layout, split, row):
  """Names of the columns, checked: each once, and those wanted are there."""
  names = _own_names(layout, row.values)
  twice = [name for name in names if names.count(name) > 1]
  if twice:
    raise row.error("the column %r is there more than once, expected different"
                    " names in the header" % twice[0])
  for name in _missing_names(layout, split, names):
    raise row.error("the header has no column %s, only %s" %
                    (name, join_words(names)))
  return names


def _is_header(task, layout, split, fields):
  """Whether a first line is a header of names that nobody knows.

  What a label never is tells, but a number that is not an allowed label is a
  wrong label, not a header. Where no field is the label, a header is what
  consists of English names only: an example must not be lost.
  """
  names = _names_by_position(task, layout, split, fields)
  if len(names) != len(fields):
    return False
  if layout.label not in names:
    return all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_ ]*", field.strip())
               for field in fields)
  label = fields[names.index(layout.label)].strip()
  return task.labels is not None and not _is_label(task, label) and (
      not re.fullmatch(r"(-?[0-9.]+)?", label))


def _is_label(task, label):
  return (task.labels is None or label in task.labels or
          label in task.label_aliases or label == task.dropped_label)


def _names_by_position(task, layout, split, fields):
  """Names of the columns of a file that has no names, from its first row."""
  if layout.columns is None:
    return _names_of_positions(layout, split, len(fields))
  can_lack = [()] if split in LABELLED_SPLITS else [(), (layout.label,)]
  choices = [tuple(name for name in layout.columns
                   if name not in lacking + also_lacking)
             for lacking in can_lack
             for also_lacking in ((), layout.optional)]
  choices = [names for names in choices if len(names) == len(fields)]
  for names in choices:
    if layout.label not in names or _is_label(
        task, fields[names.index(layout.label)].strip()):
      return list(names)
  return list(choices[0] if choices else layout.columns)


def _names_of_positions(layout, split, num_fields):
  """"0", "1" and so on, where the user gave positions."""
  last = max(int(column) for column in
             (layout.text_a, layout.text_b, layout.label) if column)
  lacks_label = split not in LABELLED_SPLITS and num_fields <= last
  names = [str(index) for index in range(num_fields + int(lacks_label))]
  return [name for name in names if not lacks_label or name != layout.label]


def _class_folders(folder):
  """Names of the folders that have texts with a number for a name."""
  if _split_zip(folder):
    return []  # Opening a zip for each of so many texts would take for ever.
  listed = list_folder(folder)
  return [name for name in listed[0]
          if any(_is_text_name(text)
                 for text in list_folder(os.path.join(folder, name))[1])]


def _is_text_name(name):
  return re.fullmatch(r"[0-9]+\.txt", name) is not None


def split_of_text(text):
  """The split that a text belongs to, by its MD5: 10 % test, 10 % dev."""
  number = int(hashlib.md5(text.encode("utf-8")).hexdigest(), 16) % 100
  return "test" if number < 10 else "dev" if number < 20 else "train"


def _read_folders(task, layout, path, split, counts):
  """Yields a Row for every file of a folder for each label.

  Nobody has split such a set, so the text does: the same one always goes to
  the same split, wherever it lies.
  """
  del task, counts
  for label in _class_folders(path):
    folder = os.path.join(path, label)
    names = [name for name in list_folder(folder)[1] if _is_text_name(name)]
    for name in sorted(names, key=lambda name: (int(name[:-4]), name)):
      file_name = os.path.join(folder, name)
      text = " ".join(" ".join(
          line for _, line, _ in _decoded_lines(file_name)).split())
      if text and split_of_text(text) == split:
        yield Row(file_name, None, {layout.text_a: text, layout.label: label})


_READERS = {"delimited": _read_delimited, "csv": _read_csv,
            "jsonl": _read_jsonl, "folders": _read_folders}
