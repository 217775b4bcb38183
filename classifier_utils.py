"""Classification tasks (one table), their readers, features and metrics.

    processor = get_processor("lcqmc")      # or processors["lcqmc"]()
    examples = processor.get_train_examples("data/lcqmc")
    features = convert_single_example(
        0, examples[0], processor.get_labels(), 128, tokenizer)

    processor = get_processor("tsv", text_a_column="1", label_column="0")

A new task is one entry of `TASKS`. TensorFlow is imported only for a path that
the local file system does not have, such as gs://bucket/file.
"""

import collections
import difflib
import functools
import hashlib
import io
import itertools
import json
import os
import re
import unicodedata

from absl import logging
import numpy as np

SPLITS = ("train", "dev", "test")

# Part of the cache's name: raise it when `convert_single_example` changes.
_FEATURES_VERSION = 1
_MAX_LABELS_IN_MESSAGE = 20
_MAX_CLASSES_IN_MATRIX = 20
_NUM_WORST_CONFUSIONS = 10


class DataError(ValueError):
  """An input that cannot be used; the message says where and what is right."""


# ---------------------------------------------------------------------- tasks

# What the first line of a tab-separated file is.
NAMES = "names"  # the names of the columns
SKIPPED = "skipped"  # a header that nothing is taken from
DETECTED = "detected"  # a header or the first row: its label field tells
NO_HEADER = "no header"  # the first row

# name: string, as in --task_name.
# format: "tsv" or "jsonl" (a key of `_READERS`).
# files: dict from split to file name.
# text_a, text_b: field names; text_b None where a row has a single text.
# labels: tuple of strings, in the order of their ids; None: found in the
#   training data, and the fields' names are the user's.
# make: function(task, row, label) -> list of (text_a, text_b, label).
# columns: field names in the order of a file without (useful) header. A test
#   file may leave the label out.
# header: one of the four above; for tsv only.
# label: field name.
# dropped_label: rows that nobody could label carry it instead of a label.
# submission: what a line of the submission has besides id and label.
Task = collections.namedtuple(
    "Task", ["name", "format", "files", "text_a", "text_b", "labels", "make",
             "columns", "header", "label", "dropped_label", "submission"],
    defaults=(None, NAMES, "label", None, ()))


def _files(pattern):
  return {split: pattern % split for split in SPLITS}


def _plain(task, row, label):
  text_b = row.text(task.text_b) if task.text_b else None
  return [(row.text(task.text_a), text_b, label)]


def _csl(task, row, label):
  """Keywords and an abstract: do they belong together?"""
  keywords = row.get(task.text_a)
  if not (isinstance(keywords, list) and
          all(isinstance(word, str) for word in keywords)):
    raise row.error("%s is %r, expected a list of strings" %
                    (task.text_a, keywords))
  return [(" ".join(keywords), row.text(task.text_b), label)]


def _wsc(task, row, label):
  """One text in which a name is marked `_so_` and a pronoun `[so]`."""
  text, target = row.text(task.text_a), row.get("target")
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


def _copa(task, row, label):
  """Two examples a row, one for each choice, in the order of cause, effect."""
  premise, question = row.text("premise"), row.text("question")
  if question not in ("effect", "cause"):
    raise row.error("question is %r, expected effect or cause" % question)
  examples = []
  for number, key in enumerate((task.text_a, task.text_b)):
    choice = row.text(key)
    pair = (premise, choice) if question == "effect" else (choice, premise)
    is_answer = label and str(int(label == str(number)))
    examples.append(pair + (is_answer,))
  return examples


_BINARY = ("0", "1")
_NLI = ("contradiction", "entailment", "neutral")
_CLUE = functools.partial(Task, format="jsonl", files=_files("%s.json"),
                          text_b=None, make=_plain)
_LCQMC = Task("lcqmc", "tsv", _files("%s.txt"), "text_a", "text_b", _BINARY,
              _plain, ("text_a", "text_b", "label"), DETECTED)

TASKS = collections.OrderedDict((entry.name, entry) for entry in (
    _LCQMC,
    _LCQMC._replace(name="lcqmc_pair"),
    _LCQMC._replace(name="sentence_pair", files=_files("%s_0827.tsv"),
                    columns=("label", "text_a", "text_b")),
    _CLUE("afqmc", text_a="sentence1", text_b="sentence2", labels=_BINARY),
    _CLUE("tnews", text_a="sentence", submission=(("label_desc", ""),),
          labels=tuple(str(label) for label in range(100, 117)
                       if label not in (105, 111))),
    _CLUE("iflytek", text_a="sentence",
          labels=tuple(str(label) for label in range(119))),
    _CLUE("cmnli", text_a="sentence1", text_b="sentence2", labels=_NLI,
          dropped_label="-"),
    _CLUE("csl", text_a="keyword", text_b="abst", labels=_BINARY, make=_csl),
    _CLUE("wsc", text_a="text", labels=("true", "false"), make=_wsc),
    _CLUE("copa", text_a="choice0", text_b="choice1", labels=_BINARY,
          make=_copa),
    _CLUE("xnli", text_a="premise", text_b="hypo", labels=_NLI),
    Task("tsv", "tsv", _files("%s.tsv"), "text", None, None, _plain),
    Task("jsonl", "jsonl", _files("%s.jsonl"), "text", None, None, _plain),
))


def get_task(task_name):
  """Returns the table's entry; an unknown name is a DataError."""
  name = task_name.lower()
  if name not in TASKS:
    near = difflib.get_close_matches(name, TASKS, 1)
    raise DataError("there is no task %s%s; the tasks are %s" % (
        task_name, ", did you mean %s?" % near[0] if near else "",
        _enumerate(TASKS)))
  return TASKS[name]


def _enumerate(words):
  """`0`, `0 and 1`, `0, 1 and 2`; long lists are cut."""
  words = [str(word) for word in words]
  if not words:
    return "none"
  if len(words) > _MAX_LABELS_IN_MESSAGE:
    return "%s ... (%d in all)" % (
        ", ".join(words[:_MAX_LABELS_IN_MESSAGE]), len(words))
  return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


# ------------------------------------------------------- examples and features


class InputExample(object):
  """One text or pair of texts for sequence classification."""

  def __init__(self, guid, text_a, text_b=None, label=None, example_id=None):
    """Constructs an InputExample.

    Args:
      guid: string, the split and the row's id or number: "train-7".
      text_a: string, the untokenized first text.
      text_b: string or None, the second text of a pair.
      label: string, or None where it is not known (test files).
      example_id: the `id` that the input has for the row, of its own type, or
        None. The two examples of a COPA row have the same.
    """
    self.guid = guid
    self.text_a = text_a
    self.text_b = text_b
    self.label = label
    self.example_id = example_id


class PaddingInputExample(object):
  """Fills the last batch where batches have to be full, as on TPUs.

  A class and not `None`, because a list with a None in it looks like a fault.
  """


class InputFeatures(object):
  """What the model sees of one example: three lists [S] of ints and a label."""

  def __init__(self, input_ids, input_mask, segment_ids, label_id,
               is_real_example=True):
    self.input_ids = input_ids
    self.input_mask = input_mask
    self.segment_ids = segment_ids
    self.label_id = label_id
    self.is_real_example = is_real_example


def convert_single_example(ex_index, example, label_list, max_seq_length,
                           tokenizer):
  """Converts an example: [CLS] a [SEP] or [CLS] a [SEP] b [SEP], then zeros.

  Args:
    ex_index: int, the example's number, for messages.
    example: InputExample or PaddingInputExample.
    label_list: list of strings; a label's id is its index.
    max_seq_length: int, S.
    tokenizer: FullTokenizer.

  Returns:
    InputFeatures. Without a label the label_id is 0; of padding all is 0.

  Raises:
    DataError: a label that is not in the list, a length that leaves no room
      for a token of each text.
  """
  if isinstance(example, PaddingInputExample):
    zeros = [0] * max_seq_length
    return InputFeatures(zeros, zeros[:], zeros[:], 0, is_real_example=False)
  tokens_a = tokenizer.tokenize(example.text_a)
  tokens_b = tokenizer.tokenize(example.text_b) if example.text_b else []
  num_special = 3 if tokens_b else 2
  least = 5 if tokens_b else 3
  if max_seq_length < least:
    raise DataError(
        "max_seq_length is %d, but example %d (%s) needs at least %d for its "
        "special tokens and one token of each text" %
        (max_seq_length, ex_index, example.guid, least))
  truncate_seq_pair(tokens_a, tokens_b, max_seq_length - num_special)

  tokens = ["[CLS]"] + tokens_a + ["[SEP]"]
  segment_ids = [0] * len(tokens)
  if tokens_b:
    tokens += tokens_b + ["[SEP]"]
    segment_ids += [1] * (len(tokens_b) + 1)
  input_ids = tokenizer.convert_tokens_to_ids(tokens)
  padding = [0] * (max_seq_length - len(input_ids))
  return InputFeatures(
      input_ids + padding, [1] * len(input_ids) + padding,
      segment_ids + padding, _label_id(ex_index, example, label_list))


def _label_id(ex_index, example, label_list):
  if example.label is None:
    return 0
  if example.label not in label_list:
    raise DataError("example %d (%s) has the label %s, allowed are %s" % (
        ex_index, example.guid, example.label, _enumerate(label_list)))
  return label_list.index(example.label)


def truncate_seq_pair(tokens_a, tokens_b, max_length):
  """Shortens two lists in place, the longer first, one token at a time."""
  while len(tokens_a) + len(tokens_b) > max_length:
    (tokens_a if len(tokens_a) > len(tokens_b) else tokens_b).pop()


def features_cache_name(task_name, split, examples, label_list, max_seq_length,
                        vocab_hash, do_lower_case):
  """File name for the features of these examples, and of no others.

  Everything that the features depend on goes into it, so that a file of that
  name can be used whatever the run before had for data or settings.

  Args:
    task_name: string.
    split: "train", "dev" or "test".
    examples: list of InputExample or PaddingInputExample.
    label_list: list of strings.
    max_seq_length: int.
    vocab_hash: string, a digest of the vocabulary.
    do_lower_case: bool.

  Returns:
    string, such as "lcqmc.train.128.0123456789abcdef.tf_record".
  """
  digest = hashlib.sha256(json.dumps([
      _FEATURES_VERSION, list(label_list), max_seq_length, vocab_hash,
      bool(do_lower_case)]).encode("ascii"))
  for example in examples:
    content = None
    if not isinstance(example, PaddingInputExample):
      content = [example.text_a, example.text_b, example.label]
    digest.update(json.dumps(content).encode("ascii") + b"\n")
  return "%s.%s.%d.%s.tf_record" % (
      task_name.lower(), split, max_seq_length, digest.hexdigest()[:16])


# ----------------------------------------------------------------- processors


class DataProcessor(object):
  """What a classification data set has to offer; see `TaskProcessor`."""

  def get_train_examples(self, data_dir):
    """Returns the list of InputExample to train on."""
    raise NotImplementedError()

  def get_dev_examples(self, data_dir):
    """Returns the list of InputExample to select on."""
    raise NotImplementedError()

  def get_test_examples(self, data_dir):
    """Returns the list of InputExample to predict; labels may be None."""
    raise NotImplementedError()

  def get_labels(self):
    """Returns the list of labels, in the order of their ids."""
    raise NotImplementedError()

  @classmethod
  def _read_tsv(cls, input_file, delimiter="\t"):
    """Rows of a delimited file as lists of strings; quotes are plain."""
    return [line.split(delimiter)
            for _, line in _read_lines(input_file, collections.Counter())]


class TaskProcessor(DataProcessor):
  """A task of the table. Errors are DataErrors that name file and line."""

  def __init__(self, task_name, text_a_column=None, text_b_column=None,
               label_column=None, has_header=None):
    """Constructs a processor. All but the name is for `tsv` and `jsonl` only.

    Args:
      task_name: string, a name of `TASKS`.
      text_a_column: string or int, default "text". A name is a key of the JSON
        objects or stands in the tsv file's first line; a number is a position
        (from 0) in a tsv file, which then has no header. All columns are given
        by name or all by position.
      text_b_column: the same for the second text of a pair, default none.
      label_column: the same for the label, default "label". Test files may
        leave it out; positions still count as in the training file.
      has_header: bool, for a tsv file by position only: True skips the first
        line.

    Raises:
      DataError: an unknown task, an option that the task does not have, or
        options that contradict each other.
    """
    task = get_task(task_name)
    columns = {"text_a": text_a_column, "text_b": text_b_column,
               "label": label_column}
    columns = {field: str(column) for field, column in columns.items()
               if column not in (None, "")}
    if task.labels is not None:
      if columns or has_header is not None:
        raise DataError("task %s has its own columns and header; give them for"
                        " the tasks tsv and jsonl only" % task.name)
    elif task.format == "tsv":
      task = _with_header(task._replace(**columns), has_header)
    elif has_header is not None:
      raise DataError("has_header is for the task tsv, not for %s" % task.name)
    else:
      task = task._replace(**columns)
    self.task = task
    self._labels = list(task.labels) if task.labels else None
    self._labels_file = None

  def get_train_examples(self, data_dir):
    return self.get_examples(data_dir, "train")

  def get_dev_examples(self, data_dir):
    return self.get_examples(data_dir, "dev")

  def get_test_examples(self, data_dir):
    return self.get_examples(data_dir, "test")

  def get_labels(self, data_dir=None):
    """Returns the list of labels.

    Those of `tsv` and `jsonl` are found in the training file: sorted, by value
    where all are integers. Where it was not read yet, `data_dir` is its folder.
    """
    if self._labels is None:
      if data_dir is None:
        raise DataError(
            "the labels of task %s are found in its training file: read the "
            "training examples first, or give the data folder or the labels" %
            self.task.name)
      self._find_labels(data_dir, self._read(data_dir, "train")[0])
    return list(self._labels)

  def set_labels(self, labels):
    """Sets the labels, in the order of their ids, to those of a trained model.

    Then no training file is needed to read others. The labels of a task that
    has its own cannot be others.
    """
    labels = [str(label) for label in labels]
    if self.task.labels and labels != list(self.task.labels):
      raise DataError("task %s has the labels %s, not %s" % (
          self.task.name, _enumerate(self.task.labels), _enumerate(labels)))
    self._labels, self._labels_file = labels, None

  def get_examples(self, data_dir, split):
    """Reads a split: "train", "dev" or "test".

    Returns:
      List of InputExample in the order of the file.
    """
    rows, counts = self._read(data_dir, split)
    if self._labels is None and split == "train":
      self._find_labels(data_dir, rows)
    allowed = set(self.get_labels(data_dir))
    examples = []
    for number, (row, label) in enumerate(rows):
      if label is not None and label not in allowed:
        raise row.error("label %s, allowed %s%s" % (
            label, _enumerate(self._labels),
            " (the labels in %s)" % self._labels_file
            if self._labels_file else ""))
      examples += self._make_examples(split, number, row, label)
    logging.info("%s: %d examples from %d rows, %d blank lines skipped, %d "
                 "rows without a valid label dropped",
                 self._path(data_dir, split), len(examples), len(rows),
                 counts["blank"], counts["dropped"])
    return examples

  def _make_examples(self, split, number, row, label):
    """The row's examples; where there are two, their guids end in -0 and -1."""
    example_id = row.values.get("id")
    guid = "%s-%s" % (split, number if example_id is None else example_id)
    made = self.task.make(self.task, row, label)
    return [
        InputExample("%s-%d" % (guid, part) if len(made) > 1 else guid,
                     text_a, text_b, example_label, example_id)
        for part, (text_a, text_b, example_label) in enumerate(made)]

  def _path(self, data_dir, split):
    return os.path.join(data_dir, self.task.files[split])

  def _read(self, data_dir, split):
    """Returns the list of (Row, label or None) and a Counter of the rest."""
    path = self._path(data_dir, split)
    if not _exists(path):
      raise DataError("there is no file %s; task %s reads %s from its data "
                      "folder" % (path, self.task.name, _enumerate(
                          self.task.files[split] for split in SPLITS)))
    counts = collections.Counter()
    rows = []
    for row in _READERS[self.task.format](self.task, path, split, counts):
      label = _row_label(self.task, row, split)
      if label is None and split != "test":
        counts["dropped"] += 1
      else:
        rows.append((row, label))
    if not rows:
      raise DataError(
          "%s has no examples, expected at least one row (%d blank lines, %d "
          "rows without a valid label)" %
          (path, counts["blank"], counts["dropped"]))
    return rows, counts

  def _find_labels(self, data_dir, rows):
    path = self._path(data_dir, "train")
    labels = set(label for _, label in rows)
    if len(labels) < 2:
      raise DataError("%s has the label %s only, expected two or more in the "
                      "column %s" % (path, labels.pop(), self.task.label))
    are_integers = all(re.fullmatch(r"-?[0-9]+", label) for label in labels)
    key = (lambda label: (int(label), label)) if are_integers else None
    self._labels = sorted(labels, key=key)
    self._labels_file = path


def _with_header(task, has_header):
  """Settles what the first line of the user's tsv files is."""
  columns = [column for column in (task.text_a, task.text_b, task.label)
             if column]
  by_position = [re.fullmatch(r"[0-9]+", column) is not None
                 for column in columns]
  if any(by_position) and not all(by_position):
    raise DataError("the columns %s are in part names, in part positions; "
                    "give text and label columns all in one way" %
                    _enumerate(columns))
  if not any(by_position):
    if has_header is False:
      raise DataError("the columns %s are names, which a file without header "
                      "does not have; give positions from 0" %
                      _enumerate(columns))
    return task._replace(header=NAMES)
  return task._replace(header=SKIPPED if has_header else NO_HEADER)


def get_processor(task_name, **options):
  """Returns a task's TaskProcessor; options as its constructor has them."""
  return TaskProcessor(task_name, **options)


processors = collections.OrderedDict(
    (name, functools.partial(get_processor, name)) for name in TASKS)


# The peers' names for them.
LCQMCPairClassificationProcessor = processors["lcqmc_pair"]
SentencePairClassificationProcessor = processors["sentence_pair"]
AFQMCProcessor = processors["afqmc"]
TnewsProcessor = processors["tnews"]
iFLYTEKDataProcessor = processors["iflytek"]
CMNLIProcessor = processors["cmnli"]
CslProcessor = processors["csl"]
WSCProcessor = processors["wsc"]
COPAProcessor = processors["copa"]
XnliProcessor = processors["xnli"]


# -------------------------------------------------------------------- readers


class Row(collections.namedtuple("Row", ["path", "line", "values"])):
  """A row's place and its fields: a dict from column or key to value."""
  __slots__ = ()

  def error(self, problem):
    """Returns the DataError that says where the problem is."""
    return DataError("%s: line %d: %s" % (self.path, self.line, problem))

  def get(self, key):
    if key not in self.values:
      raise self.error("there is no %s among the fields, which are %s" % (
          key, _enumerate(self.values)))
    return self.values[key]

  def text(self, key):
    text = _as_text(self.get(key))
    if text is None:
      raise self.error("%s is %r, expected a text" % (key, self.get(key)))
    return text


def _as_text(value):
  """Strings as they are, 1 as "1", true as "true"; else None."""
  if isinstance(value, bool):
    return str(value).lower()
  return str(value) if isinstance(value, (str, int, float)) else None


def _row_label(task, row, split):
  """The label of a row as a string; None where the row has none to count.

  In a test file a row without label is as good as any; elsewhere only the
  task's `dropped_label` may stand for one.
  """
  value = row.values.get(task.label) if split == "test" else row.get(task.label)
  label = "" if value is None else _as_text(value)
  if label is None:
    raise row.error("%s is %r, expected a string or a number" %
                    (task.label, value))
  label = label.strip()
  if label == task.dropped_label or (not label and split == "test"):
    return None
  if not label:
    raise row.error("%s is empty, expected a label" % task.label)
  return label


def _read_lines(path, counts):
  """Yields (line number from 1, text); only LF or CR LF ends a line.

  A byte order mark is left out; blank lines are, too, and are counted in
  counts["blank"]. A line with tabs is a row of empty fields, not blank.
  """
  with _open(path, "rb") as reader:
    for number, raw in enumerate(iter(reader.readline, b""), 1):
      if number == 1 and raw.startswith(b"\xef\xbb\xbf"):
        raw = raw[3:]
      try:
        line = raw.decode("utf-8")
      except UnicodeDecodeError as error:
        raise DataError(
            "%s: line %d: byte 0x%02x at %d is not UTF-8; convert the file to "
            "UTF-8" % (path, number, raw[error.start], error.start)) from error
      line = line[:-1] if line.endswith("\n") else line
      line = line[:-1] if line.endswith("\r") else line
      if line.strip(" "):
        yield number, line
      else:
        counts["blank"] += 1


def _read_jsonl(task, path, split, counts):
  """Yields a Row for every line, each one JSON object."""
  del task, split  # JSON says itself what its fields are.
  for number, line in _read_lines(path, counts):
    row = Row(path, number, {})
    try:
      values = json.loads(line)
    except json.JSONDecodeError as error:
      raise row.error("not JSON at character %d (%s), expected one object a "
                      "line" % (error.colno, error.msg)) from error
    if not isinstance(values, dict):
      raise row.error("found a JSON %s, expected one object a line" %
                      type(values).__name__)
    yield row._replace(values=values)


def _read_tsv(task, path, split, counts):
  """Yields a Row for every line but the header."""
  rows = ((number, line.split("\t"))
          for number, line in _read_lines(path, counts))
  first = next(rows, None)
  if first is None:
    return
  names = None
  if task.header == NAMES:
    names = _names_of_header(task, split, Row(path, first[0], first[1]))
  elif task.header == SKIPPED or (
      task.header == DETECTED and _is_header(task, split, first[1])):
    logging.info("%s: line %d is taken as the header and skipped: %s",
                 path, first[0], " | ".join(first[1]))
  else:
    rows = itertools.chain([first], rows)
    if task.header == DETECTED:
      logging.info("%s: the first line is an example, not a header", path)
  for number, fields in rows:
    if names is None:
      names = _names_by_position(task, split, len(fields))
    if len(fields) != len(names):
      raise DataError("%s: line %d: found %d tab-separated columns, expected "
                      "%d (%s)" % (path, number, len(fields), len(names),
                                   _enumerate(names)))
    yield Row(path, number, dict(zip(names, fields)))


def _names_of_header(task, split, row):
  """Names of the columns, checked: each once, and those wanted are there."""
  names = [name.strip() for name in row.values]
  twice = [name for name in names if names.count(name) > 1]
  if twice:
    raise row.error("the column %r is there more than once, expected different"
                    " names in the header" % twice[0])
  wanted = [task.text_a, task.text_b, None if split == "test" else task.label]
  for name in wanted:
    if name and name not in names:
      raise row.error("the header has no column %s, only %s" %
                      (name, _enumerate(names)))
  return names


def _is_header(task, split, fields):
  """Whether a first line is a header: what a label never is tells.

  A number that is not an allowed label is a wrong label, not a header. Without
  the label column nothing tells, and it is one, as the peers have it.
  """
  if len(fields) == len(task.columns):
    label = fields[task.columns.index(task.label)].strip()
    return label not in task.labels and not re.fullmatch(
        r"(-?[0-9.]+)?", label)
  return split == "test" and len(fields) == len(task.columns) - 1


def _names_by_position(task, split, num_fields):
  """Names of the columns of a file that has no names, from its first row."""
  if task.columns:
    names = list(task.columns)
    lacks_label = num_fields == len(names) - 1
  else:
    last = max(int(column) for column in (task.text_a, task.text_b, task.label)
               if column)
    lacks_label = split == "test" and num_fields <= last
    names = [str(index) for index in range(num_fields + int(lacks_label))]
  if split == "test" and lacks_label:
    names = [name for name in names if name != task.label]
  return names


_READERS = {"tsv": _read_tsv, "jsonl": _read_jsonl}


# ---------------------------------------------------------------- predictions


def write_probabilities(path, probabilities):
  """Writes a line of tab-separated probabilities for every example.

  Args:
    path: string; the file is there when it is complete.
    probabilities: float array [N, number of labels], or rows of floats.
  """
  _write_lines(path, ("\t".join(str(value) for value in row)
                      for row in probabilities))


def write_predictions(path, examples, predicted_labels, task_name):
  """Writes the submission: lines `{"id": 7, "label": "1"}` in input order.

  The id is the one that the input has, or else the example's number from 0.

  Args:
    path: string; the file is there when it is complete.
    examples: list of InputExample.
    predicted_labels: list of strings, as many.
    task_name: string, a name of `TASKS`.

  Raises:
    DataError: another number of labels than of examples.
  """
  if len(examples) != len(predicted_labels):
    raise DataError("there are %d predictions for %s, expected %d, one for "
                    "every example" % (len(predicted_labels), path,
                                       len(examples)))
  submission = get_task(task_name).submission
  lines = []
  for number, (example, label) in enumerate(zip(examples, predicted_labels)):
    has_id = example.example_id is not None
    line = [("id", example.example_id if has_id else number), ("label", label)]
    lines.append(json.dumps(collections.OrderedDict(line + list(submission)),
                            ensure_ascii=False))
  _write_lines(path, lines)


def _write_lines(path, lines):
  """Writes to another name first, so that no half-written file is trusted."""
  content = "".join(line + "\n" for line in lines).encode("utf-8")
  temporary = path + ".tmp"
  with _open(temporary, "wb") as writer:
    writer.write(content)
  files = _remote_files(path)
  if files:
    files.Rename(temporary, path, overwrite=True)
  else:
    os.replace(temporary, path)


def _remote_files(path):
  """TensorFlow's file functions for gs:// and the like, else None."""
  if "://" not in path:
    return None
  import tensorflow.compat.v1 as tf
  return tf.gfile


def _open(path, mode):
  files = _remote_files(path)
  return files.GFile(path, mode) if files else io.open(path, mode)


def _exists(path):
  files = _remote_files(path)
  return files.Exists(path) if files else os.path.isfile(path)


# -------------------------------------------------------------------- metrics


def compute_metrics(label_ids, predicted_ids, label_list):
  """Accuracy, F1 and what they are made of.

  Undefined ratios (a class that is never predicted, or never there) count as
  0, and macro-F1 is the mean over all labels of the list, as scikit-learn has
  it with `labels` given and `zero_division=0`.

  Args:
    label_ids: int array [N], the true labels.
    predicted_ids: int array [N].
    label_list: list of strings.

  Returns:
    dict of plain Python values: num_examples, accuracy, macro_f1,
    majority_class_accuracy (the share of the largest class among the true
    labels), labels, per_class {label: {precision, recall, f1, support}},
    confusion_matrix (list of rows; rows true, columns predicted).

  Raises:
    DataError: no examples, arrays of different lengths, ids out of range.
  """
  true = np.asarray(label_ids, dtype=np.int64).reshape(-1)
  predicted = np.asarray(predicted_ids, dtype=np.int64).reshape(-1)
  num_labels = len(label_list)
  _check_ids(true, predicted, num_labels)
  matrix = np.bincount(true * num_labels + predicted,
                       minlength=num_labels**2).reshape(num_labels, num_labels)
  hits = np.diag(matrix)
  support, guesses = matrix.sum(axis=1), matrix.sum(axis=0)
  # 2 hits / (support + guesses) is the harmonic mean of the two ratios.
  scores = {"precision": hits / np.maximum(guesses, 1),
            "recall": hits / np.maximum(support, 1),
            "f1": 2 * hits / np.maximum(support + guesses, 1),
            "support": support}
  return {
      "num_examples": len(true),
      "accuracy": float(hits.sum() / len(true)),
      "macro_f1": float(scores["f1"].mean()),
      "majority_class_accuracy": float(support.max() / len(true)),
      "labels": list(label_list),
      "per_class": collections.OrderedDict(
          (label, {name: values[index].item()
                   for name, values in scores.items()})
          for index, label in enumerate(label_list)),
      "confusion_matrix": matrix.tolist(),
  }


def _check_ids(true, predicted, num_labels):
  if not len(true) or len(true) != len(predicted):
    raise DataError("got %d true and %d predicted labels, expected as many of "
                    "both and at least one" % (len(true), len(predicted)))
  ids = np.concatenate([true, predicted])
  if ids.min() < 0 or ids.max() >= num_labels:
    raise DataError("label ids run from %d to %d, expected 0 to %d" %
                    (ids.min(), ids.max(), num_labels - 1))


def format_metrics(metrics):
  """Returns the result of `compute_metrics` as a text for people."""
  rows = [["label", "precision", "recall", "f1", "support"]]
  for label in metrics["labels"]:
    scores = metrics["per_class"][label]
    rows.append([label] + ["%.4f" % scores[name] for name in rows[0][1:4]] +
                [str(scores["support"])])
  return "%s\n\n%s\n\n%s\n" % (
      "accuracy %.4f (majority class %.4f), macro-F1 %.4f, %d examples" % (
          metrics["accuracy"], metrics["majority_class_accuracy"],
          metrics["macro_f1"], metrics["num_examples"]),
      _format_table(rows), _format_confusions(metrics))


def _format_confusions(metrics):
  """The whole matrix, or of many classes the pairs most often confused."""
  labels, matrix = metrics["labels"], metrics["confusion_matrix"]
  if len(labels) <= _MAX_CLASSES_IN_MATRIX:
    rows = [["true \\ predicted"] + labels]
    rows += [[label] + [str(count) for count in counts]
             for label, counts in zip(labels, matrix)]
    return _format_table(rows)
  confused = [(count, labels[true], labels[predicted])
              for true, counts in enumerate(matrix)
              for predicted, count in enumerate(counts)
              if count and true != predicted]
  confused.sort(key=lambda entry: -entry[0])
  return _format_table([["true", "predicted", "count"]] + [
      [true, predicted, str(count)]
      for count, true, predicted in confused[:_NUM_WORST_CONFUSIONS]])


def _format_table(rows):
  """Aligns columns of strings: the first to the left, the others right."""
  widths = [max(_display_width(cell) for cell in column)
            for column in zip(*rows)]
  lines = []
  for row in rows:
    padding = [" " * (width - _display_width(cell))
               for cell, width in zip(row, widths)]
    cells = [row[0] + padding[0]] + [
        space + cell for cell, space in zip(row[1:], padding[1:])]
    lines.append("  ".join(cells))
  return "\n".join(lines)


def _display_width(text):
  """Columns that a text takes up in a terminal: two for a Chinese character."""
  return sum(0 if unicodedata.combining(char) else
             2 if unicodedata.east_asian_width(char) in "WF" else 1
             for char in text)
