"""Classification examples, their features, predictions and metrics.

    processor = get_processor("lcqmc")      # or processors["lcqmc"]()
    examples = processor.get_train_examples("data/lcqmc")
    features = convert_single_example(
        0, examples[0], processor.get_labels(), 128, tokenizer)
    ...
    metrics = processor.score(examples, probabilities)
    processor.write_submission("output", examples, probabilities)

    processor = get_processor("tsv", text_a_column="1", label_column="0")

The tasks are the table in `classifier_tasks.py`; a new one is one entry there.
TensorFlow is imported only for a path that the local file system does not
have, such as gs://bucket/file.
"""

import collections
import functools
import hashlib
import io
import itertools
import json
import os
import re
import unicodedata
import zipfile

from absl import logging
import numpy as np

import classifier_tasks
# Whoever works on tasks finds them here, as in the peers' module.
from classifier_tasks import DataError
from classifier_tasks import get_task
from classifier_tasks import is_pair  # noqa: F401
from classifier_tasks import join_words
from classifier_tasks import Layout  # noqa: F401
from classifier_tasks import Published  # noqa: F401
from classifier_tasks import remote_files
from classifier_tasks import SPLITS  # noqa: F401
from classifier_tasks import submission_name
from classifier_tasks import Task  # noqa: F401
from classifier_tasks import TASK_TYPES
from classifier_tasks import TASKS

# What selects the best model of a task of the user's own: the first, or what
# the user says.
METRICS = {"single": ("accuracy", "macro_f1"),
           "multi": ("micro_f1", "macro_f1", "exact_match"),
           "regression": ("spearman", "pearson")}

# What becomes of a text that is too long: its head; head and tail; or windows
# that slide over all of it. See `convert_example`.
LONG_TEXT_MODES = ("head", "head_tail", "sliding")

# Part of the cache's name: raise it when `convert_example` changes.
_FEATURES_VERSION = 1
_MAX_CLASSES_IN_MATRIX = 20
_NUM_WORST_CONFUSIONS = 10
# So many labels, and more than one for two rows: that is no label column.
_MANY_LABELS = 1000


# ------------------------------------------------------- examples and features


class InputExample(object):
  """One text or pair of texts for sequence classification."""

  def __init__(self, guid, text_a, text_b=None, label=None, example_id=None,
               group=None):
    """Constructs an InputExample.

    Args:
      guid: string, the split and the row's id or number: "train-7".
      text_a: string, the untokenized first text.
      text_b: string or None, the second text of a pair.
      label: string, or None where it is not known (test files); of a
        multi-label task a tuple of strings, of a regression task a float.
      example_id: the `id` that the input has for the row, of its own type, or
        None. The two examples of a COPA row have the same.
      group: int, the number of the row, where several examples are made of one
        and it is the row that is scored; else None.
    """
    self.guid = guid
    self.text_a = text_a
    self.text_b = text_b
    self.label = label
    self.example_id = example_id
    self.group = group


class PaddingInputExample(object):
  """Fills the last batch where batches have to be full, as on TPUs.

  A class and not `None`, because a list with a None in it looks like a fault.
  """


class InputFeatures(object):
  """What the model sees of one example: three lists [S] of ints and a label.

  The label is an int, of a multi-label task a list of 0 and 1 for each label,
  of a regression task a float.
  """

  def __init__(self, input_ids, input_mask, segment_ids, label_id,
               is_real_example=True):
    self.input_ids = input_ids
    self.input_mask = input_mask
    self.segment_ids = segment_ids
    self.label_id = label_id
    self.is_real_example = is_real_example


def convert_single_example(ex_index, example, label_list, max_seq_length,
                           tokenizer, task_type="single"):
  """Converts an example: [CLS] a [SEP] or [CLS] a [SEP] b [SEP], then zeros.

  Args:
    ex_index: int, the example's number, for messages.
    example: InputExample or PaddingInputExample.
    label_list: list of strings; a label's id is its index.
    max_seq_length: int, S.
    tokenizer: FullTokenizer.
    task_type: string, one of `TASK_TYPES`.

  Returns:
    InputFeatures. Without a label the label_id is 0, or all of it is; of
    padding all is 0.

  Raises:
    DataError: a label that is not in the list, a length that leaves no room
      for a token of each text.
  """
  return convert_example(ex_index, example, label_list, max_seq_length,
                         tokenizer, task_type)[0]


def convert_example(ex_index, example, label_list, max_seq_length, tokenizer,
                    task_type="single", long_text="head", stride=None):
  """Converts an example, in one of three ways where its text is too long.

  The room is what the special tokens leave of max_seq_length.

  "head": the end is cut off, of a pair one token at a time of the longer text.
  "head_tail": a text that is cut keeps its first quarter and its last three
    quarters, counted in what it keeps: of 510 the first 128 and the last 382
    (Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?",
    arXiv:1905.05583). How much each text of a pair keeps is the same as with
    "head".
  "sliding": a window for every `stride` tokens, the last one full and at the
    end. Of a pair the longer text slides (of two of the same length, the
    first); the other is cut to half of the room, and is in every window.

  Args:
    ex_index: int, the example's number, for messages.
    example: InputExample or PaddingInputExample.
    label_list: list of strings; a label's id is its index.
    max_seq_length: int, S.
    tokenizer: FullTokenizer.
    task_type: string, one of `TASK_TYPES`.
    long_text: string, one of `LONG_TEXT_MODES`.
    stride: int, tokens from one window to the next; None is half a window.
      More than a window would leave tokens out, and counts as a window.

  Returns:
    List of InputFeatures: one, or one for each window, all with the label.

  Raises:
    DataError: as `convert_single_example` says.
  """
  if isinstance(example, PaddingInputExample):
    zeros = [0] * max_seq_length
    return [InputFeatures(zeros, zeros[:], zeros[:],
                          _no_label_id(label_list, task_type),
                          is_real_example=False)]
  tokens_a = tokenizer.tokenize(example.text_a)
  tokens_b = tokenizer.tokenize(example.text_b) if example.text_b else []
  num_special = 3 if tokens_b else 2
  least = 5 if tokens_b else 3
  if max_seq_length < least:
    raise DataError(
        "max_seq_length is %d, but example %d (%s) needs at least %d for its "
        "special tokens and one token of each text" %
        (max_seq_length, ex_index, example.guid, least))
  label_id = _label_id(ex_index, example, label_list, task_type)
  return [_make_features(part_a, part_b, max_seq_length, tokenizer, label_id)
          for part_a, part_b in fit_tokens(
              tokens_a, tokens_b, max_seq_length - num_special, long_text,
              stride)]


def _make_features(tokens_a, tokens_b, max_seq_length, tokenizer, label_id):
  """[CLS] a [SEP] or [CLS] a [SEP] b [SEP], then zeros."""
  tokens = ["[CLS]"] + tokens_a + ["[SEP]"]
  segment_ids = [0] * len(tokens)
  if tokens_b:
    tokens += tokens_b + ["[SEP]"]
    segment_ids += [1] * (len(tokens_b) + 1)
  input_ids = tokenizer.convert_tokens_to_ids(tokens)
  padding = [0] * (max_seq_length - len(input_ids))
  return InputFeatures(input_ids + padding, [1] * len(input_ids) + padding,
                       segment_ids + padding, label_id)


def fit_tokens(tokens_a, tokens_b, room, long_text="head", stride=None):
  """The parts of a text, or of a pair, that go into the room.

  Args:
    tokens_a: list of tokens.
    tokens_b: list of tokens, empty where there is one text.
    room: int, how many tokens fit; 2 or more for a pair.
    long_text: string, one of `LONG_TEXT_MODES`, see `convert_example`.
    stride: int or None.

  Returns:
    List of (part of tokens_a, part of tokens_b).
  """
  if len(tokens_a) + len(tokens_b) <= room:
    return [(tokens_a, tokens_b)]
  if long_text == "sliding":
    return _windows(tokens_a, tokens_b, room, stride)
  head_a, head_b = list(tokens_a), list(tokens_b)
  truncate_seq_pair(head_a, head_b, room)
  if long_text == "head":
    return [(head_a, head_b)]
  return [(_head_and_tail(tokens_a, len(head_a)),
           _head_and_tail(tokens_b, len(head_b)))]


def _head_and_tail(tokens, length):
  """The first quarter (rounded) and the last three of so many tokens."""
  if len(tokens) <= length:
    return tokens
  head = (length + 2) // 4
  return tokens[:head] + tokens[len(tokens) - length + head:]


def _windows(tokens_a, tokens_b, room, stride):
  """The parts where the longer text slides; arguments as of `fit_tokens`."""
  a_slides = len(tokens_a) >= len(tokens_b)
  sliding, other = ((tokens_a, tokens_b) if a_slides else (tokens_b, tokens_a))
  other = other[:room // 2]
  size = room - len(other)
  last = len(sliding) - size
  step = max(1, min(stride or size // 2, size))
  parts = [sliding[begin:begin + size]
           for begin in list(range(0, last, step)) + [last]]
  return [(part, other) if a_slides else (other, part) for part in parts]


def _no_label_id(label_list, task_type):
  return {"single": 0, "multi": [0] * len(label_list), "regression": 0.0}[
      task_type]


def _label_id(ex_index, example, label_list, task_type):
  """The label as a number; a list of 0 and 1 where there may be many."""
  if example.label is None:
    return _no_label_id(label_list, task_type)
  if task_type == "regression":
    return float(example.label)
  labels = example.label if task_type == "multi" else (example.label,)
  for label in labels:
    if label not in label_list:
      raise DataError("example %d (%s) has the label %s, allowed are %s" % (
          ex_index, example.guid, label, join_words(label_list)))
  if task_type == "multi":
    return [int(label in labels) for label in label_list]
  return label_list.index(example.label)


def truncate_seq_pair(tokens_a, tokens_b, max_length):
  """Shortens two lists in place, the longer first, one token at a time."""
  while len(tokens_a) + len(tokens_b) > max_length:
    (tokens_a if len(tokens_a) > len(tokens_b) else tokens_b).pop()


def features_cache_name(task_name, split, examples, label_list, max_seq_length,
                        vocab_hash, do_lower_case, task_type="single",
                        long_text="head", stride=None):
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
    task_type: string, one of `TASK_TYPES`.
    long_text: string, one of `LONG_TEXT_MODES`.
    stride: int or None, of the sliding windows.

  Returns:
    string, such as "lcqmc.train.128.0123456789abcdef.tf_record".
  """
  settings = [_FEATURES_VERSION, list(label_list), max_seq_length, vocab_hash,
              bool(do_lower_case)]
  if (task_type, long_text) != ("single", "head"):
    settings += [task_type, long_text, stride if long_text == "sliding" else 0]
  digest = hashlib.sha256(json.dumps(settings).encode("ascii"))
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
    return [line.split(delimiter) for _, line in classifier_tasks.read_lines(
        input_file, collections.Counter())]


class TaskProcessor(DataProcessor):
  """A task of the table. Errors are DataErrors that name file and line.

  Attributes:
    task: classifier_tasks.Task, as the options have it.
    variant: string or None, the part of the set that is read.
  """

  def __init__(self, task_name, text_a_column=None, text_b_column=None,
               label_column=None, has_header=None, task_type=None, metric=None,
               variant=None):
    """Constructs a processor. Most is for `tsv`, `csv` and `jsonl` only.

    Args:
      task_name: string, a name of `TASKS`.
      text_a_column: string or int, default "text". A name is a key of the JSON
        objects or stands in the file's first line; a number is a position
        (from 0) in a tsv or csv file, which then has no header. All columns
        are given by name or all by position.
      text_b_column: the same for the second text of a pair, default none.
      label_column: the same for the label, default "label". Test files may
        leave it out; positions still count as in the training file.
      has_header: bool, for a file by position only: True skips the first line.
      task_type: string, one of `TASK_TYPES`, default "single". "multi": a label
        field holds any number of labels between commas, or a JSON list of
        them. "regression": it holds a number.
      metric: string, one of the `METRICS` of the type, default the first.
      variant: string, for a task with variants (any other has none): which of
        the FewCLUE splits ("0" to "4", "few_all"), of the OCNLI sizes ("50k",
        "30k", "10k", "3k"); default the first.

    Raises:
      DataError: an unknown task, an option that the task does not have, or
        options that contradict each other.
    """
    task = get_task(task_name)
    columns = {"text_a": text_a_column, "text_b": text_b_column,
               "label": label_column}
    columns = {field: str(column) for field, column in columns.items()
               if column not in (None, "")}
    if not task.is_free and (columns or has_header is not None):
      raise DataError("task %s has its own columns and header; give them for"
                      " the tasks tsv, csv and jsonl only" % task.name)
    if task.is_free:
      layout = task.layouts[0]._replace(**columns)
      if layout.format != "jsonl":
        layout = _with_header(layout, has_header)
      elif has_header is not None:
        raise DataError("has_header is for the tasks tsv and csv, not for %s" %
                        task.name)
      task = task._replace(layouts=(layout,))
    self.task = _with_type(task, task_type, metric)
    self.variant = _variant_of(task, variant)
    self._labels = list(task.labels) if task.labels else None
    if self.task.task_type == "regression":
      self._labels = []
    self._labels_file = None

  def get_train_examples(self, data_dir):
    return self.get_examples(data_dir, "train")

  def get_dev_examples(self, data_dir):
    return self.get_examples(data_dir, "dev")

  def get_test_examples(self, data_dir):
    return self.get_examples(data_dir, "test")

  @property
  def num_outputs(self):
    """How many numbers a model gives for an example: [N, num_outputs]."""
    return (1 if self.task.task_type == "regression" else
            len(self.get_labels()))

  def get_labels(self, data_dir=None):
    """Returns the list of labels; a regression task has none.

    Those of `tsv` and the like are found in the training file: sorted, by value
    where all are integers. Where it was not read yet, `data_dir` is its folder.
    """
    if self._labels is None:
      if data_dir is None:
        raise DataError(
            "the labels of task %s are found in its training file: read the "
            "training examples first, or give the data folder or the labels" %
            self.task.name)
      path, rows, _ = self._read(data_dir, "train")
      self._find_labels(path, rows)
    return list(self._labels)

  def set_labels(self, labels):
    """Sets the labels, in the order of their ids, to those of a trained model.

    Then no training file is needed to read others. The labels of a task that
    has its own cannot be others.
    """
    labels = [str(label) for label in labels]
    own = (() if self.task.task_type == "regression" else self.task.labels)
    if own is not None and labels != list(own):
      raise DataError("task %s has the labels %s, not %s" % (
          self.task.name, join_words(own), join_words(labels)))
    self._labels, self._labels_file = labels, None

  def get_examples(self, data_dir, split):
    """Reads a split.

    Args:
      data_dir: path of the folder with the task's files, of one that holds it,
        or of a zip file with them.
      split: "train", "dev" or "test"; of FewCLUE "test_public", too.

    Returns:
      List of InputExample in the order of the file.
    """
    path, rows, counts = self._read(data_dir, split)
    if self._labels is None and split == "train":
      self._find_labels(path, rows)
    allowed = set(self.get_labels(data_dir))
    examples = []
    for number, (layout, row, label) in enumerate(rows):
      for one in self._labels_of(label):
        if one not in allowed:
          raise row.error("label %s, allowed %s%s" % (
              one, join_words(self._labels),
              " (the labels in %s)" % self._labels_file
              if self._labels_file else ""))
      examples += self._make_examples(split, number, layout, row, label)
    logging.info("%s: %d examples from %d rows, %d blank lines skipped, %d "
                 "rows without a valid label dropped", path, len(examples),
                 len(rows), counts["blank"], counts["dropped"])
    return examples

  def _labels_of(self, label):
    """The labels in a label, as many as the task's type has in one."""
    if label is None or self.task.task_type == "regression":
      return ()
    return label if self.task.task_type == "multi" else (label,)

  def _make_examples(self, split, number, layout, row, label):
    """The row's examples; where there are two, their guids end in -0 and -1."""
    example_id = row.values.get("id")
    guid = "%s-%s" % (split, number if example_id is None else example_id)
    made = self.task.make(layout, row, label)
    return [
        InputExample("%s-%d" % (guid, part) if len(made) > 1 else guid,
                     text_a, text_b, example_label, example_id,
                     number if self.task.is_grouped else None)
        for part, (text_a, text_b, example_label) in enumerate(made)]

  def _read(self, data_dir, split):
    """Returns the path, the (Layout, Row, label or None)s, a Counter."""
    task = self.task
    path, layout = classifier_tasks.find_file(task, data_dir, split,
                                              self.variant)
    counts = collections.Counter()
    rows = []
    for row in classifier_tasks.read_rows(task, layout, path, split, counts):
      label = classifier_tasks.row_label(task, layout, row, split)
      if label is None and split in classifier_tasks.LABELLED_SPLITS:
        counts["dropped"] += 1
      else:
        rows.append((layout, row, label))
    if not rows:
      raise DataError(
          "%s has no examples, expected at least one row (%d blank lines, %d "
          "rows without a valid label)" %
          (path, counts["blank"], counts["dropped"]))
    if counts["other"]:
      logging.info("%s: %d rows skipped, whose %s is not %s", path,
                   counts["other"], layout.where[0], layout.where[1])
    size, found = task.sizes.get(split), len(rows) + counts["dropped"]
    if size and found < size:
      logging.warning("%s has %d rows, but the %s set of %s as published has "
                      "%d", path, found, split, task.name, size)
    if split not in classifier_tasks.LABELLED_SPLITS and not any(
        label is not None and label != () for _, _, label in rows):
      # A column of empty cells, to be filled in, is not one of no labels.
      rows = [(layout, row, None) for layout, row, _ in rows]
    return path, rows, counts

  def _find_labels(self, path, rows):
    column = rows[0][0].label
    labels = set(itertools.chain.from_iterable(
        self._labels_of(label) for _, _, label in rows))
    if len(labels) < (1 if self.task.task_type == "multi" else 2):
      raise DataError("%s has the label %s only, expected two or more in the "
                      "column %s" % (path, join_words(labels), column))
    if len(labels) > max(_MANY_LABELS, len(rows) / 2):
      raise DataError("%s has %d different labels in %d rows, expected fewer: "
                      "is %s the column of the labels?" %
                      (path, len(labels), len(rows), column))
    are_integers = all(re.fullmatch(r"-?[0-9]+", label) for label in labels)
    key = (lambda label: (int(label), label)) if are_integers else None
    self._labels = sorted(labels, key=key)
    self._labels_file = path

  def answers(self, examples, outputs, threshold=0.5):
    """What a model's outputs say, example by example, as the task counts them.

    Where a row makes several examples (COPA), the answer is the number of the
    one that is most probably right, and there is one answer a row.

    Args:
      examples: list of N InputExample.
      outputs: float array [N, num_outputs]: probabilities (or, but for a
        multi-label task, logits) in the order of the labels; of a regression
        task [N] will do.
      threshold: float; labels of a multi-label task at least as probable as
        this one are predicted.

    Returns:
      Answers.

    Raises:
      DataError: another number of outputs than of examples or labels, outputs
        that are not finite, a group with one example.
    """
    outputs = self._checked_outputs(examples, outputs)
    labels = [example.label for example in examples]
    task_type = self.task.task_type
    if self.task.is_grouped:
      return self._answers_of_groups(examples, outputs)
    if task_type == "regression":
      predicted = [float(value) for value in outputs[:, 0]]
    elif task_type == "multi":
      predicted = [tuple(label for label, value in zip(self._labels, row)
                         if value >= threshold) for row in outputs]
    else:
      predicted = [self._labels[index] for index in outputs.argmax(axis=-1)]
    return Answers(list(examples), predicted, labels)

  def _checked_outputs(self, examples, outputs):
    outputs = np.asarray(outputs, np.float64)
    if self.task.task_type == "regression" and outputs.ndim == 1:
      outputs = outputs[:, np.newaxis]
    expected = (len(examples), self.num_outputs)
    if outputs.shape != expected:
      raise DataError("the outputs have the shape %s, expected %s: a row for "
                      "every example" % (list(outputs.shape), list(expected)))
    wrong = np.flatnonzero(~np.isfinite(outputs).all(axis=-1))
    if len(wrong):
      raise DataError("the outputs of example %d (%s) are not finite: %s" % (
          wrong[0], examples[wrong[0]].guid, outputs[wrong[0]].tolist()))
    return outputs

  def _answers_of_groups(self, examples, outputs):
    """One answer for each run of examples with the same group."""
    # Of all examples of a group, that whose "1" has most of a lead counts:
    # then logits say the same as probabilities.
    right = self._labels.index("1")
    leads = 2 * outputs[:, right] - outputs.sum(axis=-1)
    answers = Answers([], [], [])
    for _, members in itertools.groupby(range(len(examples)),
                                        lambda index: examples[index].group):
      members = list(members)
      if len(members) < 2:
        raise DataError("example %s is alone, expected all the choices of its "
                        "question one after the other" %
                        examples[members[0]].guid)
      labels = [examples[index].label for index in members]
      answers.examples.append(examples[members[0]])
      answers.predicted.append(str(int(leads[members].argmax())))
      answers.true.append(
          None if None in labels else str(labels.index("1")))
    return answers

  def score(self, examples, outputs, threshold=0.5):
    """Scores outputs as the benchmark does; arguments as `answers` has them.

    Returns:
      dict as `compute_metrics` and the others below it have it, with `metric`
      (the name of the benchmark's) and `score` (its value) added; or None
      where an example has no label.
    """
    _, predicted, true = self.answers(examples, outputs, threshold)
    if any(label is None for label in true):
      return None
    task_type, labels = self.task.task_type, self._labels
    if task_type == "regression":
      metrics = compute_regression_metrics(true, predicted)
    elif task_type == "multi":
      metrics = compute_multi_label_metrics(
          *[[[label in row for label in labels] for row in rows]
            for rows in (true, predicted)], label_list=labels)
    else:
      ids = {label: index for index, label in enumerate(labels)}
      metrics = compute_metrics([ids[label] for label in true],
                                [ids[label] for label in predicted], labels)
    return dict(metrics, metric=self.task.metric,
                score=metrics[self.task.metric])

  def write_submission(self, folder, examples, outputs, zipped=False,
                       threshold=0.5):
    """Writes the file that the benchmark wants to have, one line an answer.

    Args:
      folder: path; the file gets the name that the benchmark has for it.
      examples: list of N InputExample of a test file.
      outputs: as `answers` has it.
      zipped: bool; whether to put it into a zip file, too, beside it.
      threshold: as `answers` has it.

    Returns:
      path of the file, or of the zip file with it.
    """
    answered, predicted, _ = self.answers(examples, outputs, threshold)
    path = os.path.join(folder, submission_name(self.task))
    _check_ids(self.task, path, answered)
    write_predictions(path, answered, predicted, self.task.name)
    return zip_files(os.path.splitext(path)[0] + ".zip",
                     [path]) if zipped else path


# examples: list of InputExample, one an answer. predicted, true: lists of
# labels as InputExample has them; of a group the number of the choice, as a
# string. true has None where the label is not known.
Answers = collections.namedtuple("Answers", ["examples", "predicted", "true"])


def _with_type(task, task_type, metric):
  """The task with the user's type and metric, if it may have them."""
  if task_type is not None and task_type not in TASK_TYPES:
    raise DataError("task_type is %s, expected %s" %
                    (task_type, " or ".join(TASK_TYPES)))
  if task_type not in (None, task.task_type):
    if not task.is_free:
      raise DataError("task %s is of the type %s; task_type %s is for the tasks"
                      " tsv, csv and jsonl" %
                      (task.name, task.task_type, task_type))
    task = task._replace(task_type=task_type, metric=METRICS[task_type][0])
  if metric not in (None, task.metric):
    allowed = METRICS[task.task_type] if task.is_free else (task.metric,)
    if metric not in allowed:
      raise DataError("metric is %s, but task %s of the type %s has %s" % (
          metric, task.name, task.task_type, " or ".join(allowed)))
    task = task._replace(metric=metric)
  return task


def _variant_of(task, variant):
  if variant in (None, ""):
    return task.variants[0] if task.variants else None
  if variant not in task.variants:
    raise DataError("task %s has no variant %s, expected %s" % (
        task.name, variant, " or ".join(task.variants) or "none to be given"))
  return variant


def _with_header(layout, has_header):
  """Settles what the first line of the user's files is."""
  columns = [column for column in (layout.text_a, layout.text_b, layout.label)
             if column]
  by_position = [re.fullmatch(r"[0-9]+", column) is not None
                 for column in columns]
  if any(by_position) and not all(by_position):
    raise DataError("the columns %s are in part names, in part positions; "
                    "give text and label columns all in one way" %
                    join_words(columns))
  if not any(by_position):
    if has_header is False:
      raise DataError("the columns %s are names, which a file without header "
                      "does not have; give positions from 0" %
                      join_words(columns))
    return layout._replace(header=classifier_tasks.NAMES)
  return layout._replace(header=classifier_tasks.SKIPPED if has_header else
                         classifier_tasks.NO_HEADER)


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
    predicted_labels: list of strings, as many; of other than single-label tasks
      tuples of strings, or floats.
    task_name: string, a name of `TASKS`.

  Raises:
    DataError: another number of labels than of examples.
  """
  if len(examples) != len(predicted_labels):
    raise DataError("there are %d predictions for %s, expected %d, one for "
                    "every example" % (len(predicted_labels), path,
                                       len(examples)))
  extra = list(get_task(task_name).submission_extra)
  lines = []
  for number, (example, label) in enumerate(zip(examples, predicted_labels)):
    has_id = example.example_id is not None
    line = [("id", example.example_id if has_id else number), ("label", label)]
    lines.append(json.dumps(collections.OrderedDict(line + extra),
                            ensure_ascii=False))
  _write_lines(path, lines)


def zip_files(path, files):
  """Packs files into a zip file, without their folders; returns its path.

  The same files give the same bytes. To hand in several tasks at once, pack
  the submission of each: zip_files("clue.zip", [path of each]).

  Args:
    path: string; the zip file is there when it is complete.
    files: list of paths.

  Raises:
    DataError: two files of the same name.
  """
  names = [os.path.basename(file_name) for file_name in files]
  for name in names:
    if names.count(name) > 1:
      raise DataError("there are two files of the name %s for %s, expected "
                      "different names" % (name, path))
  content = io.BytesIO()
  with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as bundle:
    for name, file_name in zip(names, files):
      with classifier_tasks.open_binary(file_name) as reader:
        # The date of a ZipInfo is 1980-01-01, of whatever day the file is.
        info = zipfile.ZipInfo(name)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o644 << 16
        bundle.writestr(info, reader.read())
  _write_bytes(path, content.getvalue())
  return path


def _check_ids(task, path, answered):
  """A submission's ids are the input's, all of them, each once."""
  ids = [example.example_id for example in answered]
  without = [example.guid for example in answered if example.example_id is None]
  if without and len(without) < len(ids):
    raise DataError("%d of the %d examples for %s have no id, the first is %s; "
                    "expected one in every row of the test file, or in none" %
                    (len(without), len(ids), path, without[0]))
  if without and task.submission:
    logging.warning("%s: the test file has no ids, the rows' numbers from 0 are"
                    " given instead", path)
  counts = collections.Counter(json.dumps(example_id) for example_id in ids)
  for example_id, count in counts.most_common(1):
    if count > 1 and not without:
      raise DataError("the id %s is that of %d examples for %s, expected "
                      "different ids" % (example_id, count, path))


def _write_lines(path, lines):
  _write_bytes(path, "".join(line + "\n" for line in lines).encode("utf-8"))


def _write_bytes(path, content):
  """Writes to another name first, so that no half-written file is trusted."""
  temporary = path + ".tmp"
  files = remote_files(path)
  with (files.GFile if files else io.open)(temporary, "wb") as writer:
    writer.write(content)
  if files:
    files.Rename(temporary, path, overwrite=True)
  else:
    os.replace(temporary, path)


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
  _check_label_ids(true, predicted, num_labels)
  matrix = np.bincount(true * num_labels + predicted,
                       minlength=num_labels**2).reshape(num_labels, num_labels)
  hits = np.diag(matrix)
  support, guesses = matrix.sum(axis=1), matrix.sum(axis=0)
  scores = _ratios(hits, guesses, support)
  return {
      "num_examples": len(true),
      "accuracy": float(hits.sum() / len(true)),
      "macro_f1": float(scores["f1"].mean()),
      "majority_class_accuracy": float(support.max() / len(true)),
      "labels": list(label_list),
      "per_class": _per_class(scores, label_list),
      "confusion_matrix": matrix.tolist(),
  }


def _ratios(hits, guesses, support):
  """Precision, recall, F1 and support from counts; 0 / 0 is 0."""
  # 2 hits / (support + guesses) is the harmonic mean of the two ratios.
  return {"precision": hits / np.maximum(guesses, 1),
          "recall": hits / np.maximum(support, 1),
          "f1": 2 * hits / np.maximum(support + guesses, 1),
          "support": support}


def _per_class(scores, label_list):
  return collections.OrderedDict(
      (label, {name: values[index].item() for name, values in scores.items()})
      for index, label in enumerate(label_list))


def compute_multi_label_metrics(labels, predicted, label_list):
  """Micro- and macro-F1 and what they are made of, of any number of labels.

  Micro-F1 is that of all decisions about one label and one example together;
  macro-F1 the mean of the labels' own. Undefined ratios count as 0.

  Args:
    labels: bool or int array [N, L], 1 where an example has a label.
    predicted: the same for the predictions.
    label_list: list of L strings.

  Returns:
    dict of plain Python values: num_examples, micro_precision, micro_recall,
    micro_f1, macro_f1, exact_match (the share of examples of which all labels
    are right), labels, per_class {label: {precision, recall, f1, support}}.

  Raises:
    DataError: no examples, arrays of other shapes.
  """
  true = np.asarray(labels, dtype=bool)
  predicted = np.asarray(predicted, dtype=bool)
  if true.ndim != 2 or true.shape != predicted.shape or (
      true.shape[1] != len(label_list)) or not len(true):
    raise DataError("got true labels of the shape %s and predicted ones of %s, "
                    "expected both as [examples, %d], and at least one example"
                    % (list(true.shape), list(predicted.shape),
                       len(label_list)))
  hits = (true & predicted).sum(axis=0)
  guesses, support = predicted.sum(axis=0), true.sum(axis=0)
  scores = _ratios(hits, guesses, support)
  micro = _ratios(hits.sum(), guesses.sum(), support.sum())
  return {
      "num_examples": len(true),
      "micro_precision": float(micro["precision"]),
      "micro_recall": float(micro["recall"]),
      "micro_f1": float(micro["f1"]),
      "macro_f1": float(scores["f1"].mean()),
      "exact_match": float((true == predicted).all(axis=1).mean()),
      "labels": list(label_list),
      "per_class": _per_class(scores, label_list),
  }


def compute_regression_metrics(values, predicted):
  """Correlations and errors of predicted numbers.

  Spearman's is Pearson's correlation of the ranks, equal values having the
  mean of their ranks. Where either side is constant, both count as 0.

  Args:
    values: float array [N], the true numbers.
    predicted: float array [N].

  Returns:
    dict of plain Python values: num_examples, pearson, spearman,
    mean_squared_error, mean_absolute_error.

  Raises:
    DataError: no examples, arrays of different lengths, numbers that are not
      finite.
  """
  true = np.asarray(values, dtype=np.float64).reshape(-1)
  predicted = np.asarray(predicted, dtype=np.float64).reshape(-1)
  _check_lengths("values", true, predicted)
  if not np.isfinite(np.concatenate([true, predicted])).all():
    raise DataError("some of the true or predicted values are not finite, "
                    "expected numbers")
  return {
      "num_examples": len(true),
      "pearson": _correlation(true, predicted),
      "spearman": _correlation(_ranks(true), _ranks(predicted)),
      "mean_squared_error": float(np.square(true - predicted).mean()),
      "mean_absolute_error": float(np.abs(true - predicted).mean()),
  }


def _correlation(first, second):
  if not (np.ptp(first) and np.ptp(second)):
    return 0.0
  return float(np.corrcoef(first, second)[0, 1])


def _ranks(values):
  """Ranks from 1; equal values have the mean of the ranks they take up."""
  _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
  return (np.cumsum(counts) - (counts - 1) / 2)[which]


def _check_lengths(what, true, predicted):
  if not len(true) or len(true) != len(predicted):
    raise DataError("got %d true and %d predicted %s, expected as many of "
                    "both and at least one" % (len(true), len(predicted), what))


def _check_label_ids(true, predicted, num_labels):
  _check_lengths("labels", true, predicted)
  ids = np.concatenate([true, predicted])
  if ids.min() < 0 or ids.max() >= num_labels:
    raise DataError("label ids run from %d to %d, expected 0 to %d" %
                    (ids.min(), ids.max(), num_labels - 1))


def format_metrics(metrics):
  """Returns what a function above computed as a text for people."""
  if "pearson" in metrics:
    return ("Spearman %.4f, Pearson %.4f, mean squared error %.4f, mean absolute"
            " error %.4f, %d examples\n" % (
                metrics["spearman"], metrics["pearson"],
                metrics["mean_squared_error"], metrics["mean_absolute_error"],
                metrics["num_examples"]))
  rows = [["label", "precision", "recall", "f1", "support"]]
  for label in metrics["labels"]:
    scores = metrics["per_class"][label]
    rows.append([label] + ["%.4f" % scores[name] for name in rows[0][1:4]] +
                [str(scores["support"])])
  if "micro_f1" in metrics:
    return ("micro-F1 %.4f, macro-F1 %.4f, all labels right %.4f, %d examples"
            "\n\n%s\n" % (metrics["micro_f1"], metrics["macro_f1"],
                         metrics["exact_match"], metrics["num_examples"],
                         _format_table(rows)))
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
