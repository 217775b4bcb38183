"""Shows, counts and checks pre-training records: what is in a TFRecord.

  python scripts/inspect_tfrecord.py pretrain
  python scripts/inspect_tfrecord.py 'pretrain/train*' --random_seed=1
  python scripts/inspect_tfrecord.py pretrain --check --json > report.json

Prints some instances, then statistics, then what is wrong. A folder stands for
the files that its metadata.json lists, or without one for its *.tfrecord*.

An instance is shown as its segments A and B, in the order in which the model
gets them, without their [CLS] and [SEP]. Brackets hold what is predicted: what
the model sees, a mark, and the token that it has to predict.

  天[MASK→气]很好   it sees [MASK] and has to predict 气
  [他→她]在写信     it sees 他, which has replaced 她
  你[好=好]吗       it sees the token that it has to predict
  大[MASK→##学]     albert_zh has ## in labels inside of Chinese words

The exit code is 1 when something is wrong: without --check only what cannot be
read, such as a truncated file or a record of another form.
"""

import argparse
import collections
import contextlib
import functools
import gzip
import json
import os
import re
import sys
import zlib

from google.protobuf import message
import numpy as np
# Else what TensorFlow finds in the machine is told before what it is asked for.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow.compat.v1 as tf

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if ROOT not in sys.path:
  sys.path.insert(0, ROOT)

import tokenization

PROJECT_VOCAB = os.path.join(ROOT, "albert_config", "vocab.txt")
LABEL_WORDS = {"sop": ("in order", "swapped"), "nsp": ("follows", "random"),
               "none": ("no second segment",)}
# By feature: the kind of its list, and its length, one of the sizes S, P, 1.
FEATURES = {
    "input_ids": ("int64_list", "S"), "input_mask": ("int64_list", "S"),
    "segment_ids": ("int64_list", "S"), "token_boundary": ("int64_list", "S"),
    "masked_lm_positions": ("int64_list", "P"),
    "masked_lm_ids": ("int64_list", "P"),
    "masked_lm_weights": ("float_list", "P"),
    "next_sentence_labels": ("int64_list", "1")}
OPTIONAL = "token_boundary"  # google's writer has it
BATCH_SIZE = 512
MAX_EXAMPLES = 3  # of each kind of problem
NUM_FREQUENT, NUM_BARS, BAR_WIDTH = 20, 10, 40
_LEGACY_LABEL = re.compile("##[\u4e00-\u9fa5]$")
# Characters of words that blanks separate; Chinese ones are no such words.
_WORD = re.compile("[^\\W\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
                   "\U00020000-\U0002fa1f]")


class InspectionError(ValueError):
  """What stops the run; its text is the whole message for the user."""


def log(text):
  print(text, file=sys.stderr)


def reason(error):
  """What an error says; TensorFlow's without the lines about the graph."""
  if isinstance(error, tf.errors.OpError):
    return error.message.split("\n\t [[")[0].split("\n")[-1]
  return str(error)


class Problems(object):
  """How often something is wrong, by kind, and the first examples of each."""

  def __init__(self):
    self.kinds = collections.OrderedDict()

  def add(self, kind, examples, count=1):
    """Adds `count` problems, of which a list of strings has the first few."""
    entry = self.kinds.setdefault(
        kind, {"kind": kind, "count": 0, "examples": []})
    entry["count"] += count
    entry["examples"] += examples[:MAX_EXAMPLES - len(entry["examples"])]


class Vocabulary(object):
  """Tokens by id; `bare` turns the ids of labels ##字 into those of 字."""

  def __init__(self, path):
    self.path, self.ids = path, tokenization.load_vocab(path)
    tokenization.validate_vocab(self.ids, vocab_file=path)
    self.hash = tokenization.vocab_hash(self.ids)
    # U+2028 is a token of the Chinese vocabulary, and would break the line.
    self.tokens = [token if token.isprintable() else ascii(token)[1:-1]
                   for token in self.ids]
    self._bare = np.array([
        self.ids.get(token[2:], index) if _LEGACY_LABEL.match(token) else index
        for token, index in self.ids.items()])

  def token(self, index):
    known = 0 <= index < len(self.tokens)
    return self.tokens[index] if known else "<%d>" % index

  def bare(self, labels):
    return self._bare[np.clip(labels, 0, len(self._bare) - 1)]


class DataSet(object):
  """Files that were made together; no metadata describes those of path None."""

  def __init__(self, path, metadata):
    self.path, self.metadata, self.shards = path, metadata, []
    self.pair_task = metadata.get("sentence_pair_task", "sop")
    self.sizes = None  # (S, P, 1) of its first good record


class Shard(object):
  """A file, and under metadata's names the number of things found in it."""

  def __init__(self, path, data_set):
    self.path, self.data_set, self.found = path, data_set, collections.Counter()
    with tf.gfile.GFile(path, "rb") as reader:
      self.compression = "GZIP" if reader.read(3) == b"\x1f\x8b\x08" else ""


def read_data_sets(folder):
  """The DataSets that a folder's metadata.json describes, if there is one.

  Raises InspectionError when it is a file of another kind.
  """
  path = os.path.join(folder, "metadata.json")
  if not tf.gfile.Exists(path):
    return []
  try:
    with tf.gfile.GFile(path, "rb") as reader:
      newest = json.loads(reader.read().decode("utf-8"))
    entries = [newest] + newest.pop("other_data_sets", [])
    if all(isinstance(entry["files"], list) for entry in entries):
      return [DataSet(path, entry) for entry in entries]
  except (ValueError, KeyError, TypeError, AttributeError):
    pass  # said below, for all of them
  raise InspectionError(
      f"{path} is not a file that create_pretraining_data.py wrote; move it"
      " away, and the records are inspected without it")


def expand_folder(folder, data_sets, problems):
  """The paths of the files that metadata lists, or else of all *.tfrecord*."""
  present = set(tf.gfile.ListDirectory(folder))
  names = sorted(name for name in present
                 if ".tfrecord" in name and not name.startswith("."))
  if data_sets:
    others, names = names, [name for data_set in data_sets
                            for name in data_set.metadata["files"]]
    for name in sorted(set(names) - present):
      problems.add("a file is missing", [
          f"{os.path.join(folder, name)} is listed in metadata.json only"])
    others = ", ".join(name for name in others if name not in names)
    if others:
      log(f"metadata.json of {folder} does not list, not inspected: {others}")
  return [os.path.join(folder, name) for name in names if name in present]


def find_shards(names, problems):
  """The Shards of files, globs and folders (list of strings), each once."""
  foreign, folders, shards = DataSet(None, {}), {}, collections.OrderedDict()

  def data_sets_of(folder):
    key = os.path.normpath(folder)
    if key not in folders:
      folders[key] = read_data_sets(folder)
    return folders[key]

  for name in names:
    if tf.gfile.IsDirectory(name):
      paths = expand_folder(name, data_sets_of(name), problems)
    else:
      paths = [name] if tf.gfile.Exists(name) else sorted(tf.gfile.Glob(name))
    if not paths:
      raise InspectionError(
          f"{name} stands for no file: give TFRecord files, globs of them, or a"
          " folder that has *.tfrecord* or what its metadata.json lists")
    for path in paths:
      folder, file = os.path.split(path)
      if os.path.normpath(path) not in shards:
        data_set = next((data_set for data_set in data_sets_of(folder)
                         if file in data_set.metadata["files"]), foreign)
        data_set.shards.append(Shard(path, data_set))
        shards[os.path.normpath(path)] = data_set.shards[-1]
  if foreign.shards:
    log(f"no metadata.json describes {foreign.shards[0].path}" +
        (f" and {len(foreign.shards) - 1} more" if foreign.shards[1:] else ""))
  return list(shards.values())


def find_vocabulary(path, data_sets):
  """The vocabulary at `path`, or the one of the records, or the project's."""
  if path:
    return Vocabulary(path)
  for metadata in (data_set.metadata for data_set in data_sets):
    try:
      vocab = Vocabulary(metadata.get("vocab_file") or "")
      if vocab.hash == metadata.get("vocab_hash"):
        log(f"vocabulary: {vocab.path}, as metadata.json has it")
        return vocab
    except (ValueError, OSError, tf.errors.OpError):
      pass  # it is not there any more, or has become something else
  log(f"vocabulary: {PROJECT_VOCAB}, as no metadata.json names one that is"
      " there and unchanged; --vocab_file takes another")
  return Vocabulary(PROJECT_VOCAB)


def read_raw(shard, batch_size):
  """Yields the records that are not yet counted, as arrays of bytes."""
  graph = tf.Graph()
  with graph.as_default():
    records = tf.data.TFRecordDataset(shard.path, shard.compression).skip(
        shard.found["instances"]).batch(batch_size).prefetch(2)
    batch = tf.data.make_one_shot_iterator(records).get_next()
  with contextlib.closing(tf.Session(graph=graph)) as session:
    while True:
      try:
        yield session.run(batch)
      except tf.errors.OutOfRangeError:
        return


def content_size(shard):
  """How many bytes a file has, after decompression."""
  if not shard.compression:
    return tf.gfile.Stat(shard.path).length
  with tf.gfile.GFile(shard.path, "rb") as reader:
    with gzip.GzipFile(fileobj=reader) as content:
      return sum(map(len, iter(lambda: content.read(2**20), b"")))


def read_records(shard, problems):
  """Yields a file's records as arrays of bytes, then counts them in the shard.

  Of a file that breaks off, which is a problem, all that can be read.
  """
  num_bytes = 0
  for batch_size in (BATCH_SIZE, 1):  # what fails as a batch, record by record
    try:
      for records in read_raw(shard, batch_size):
        yield records
        shard.found["instances"] += len(records)
        num_bytes += sum(map(len, records)) + 16 * len(records)
      # TensorFlow takes a rest that is shorter than a header for the end.
      rest = content_size(shard) - num_bytes
      error = (f"{rest} bytes are left that are not read as a record" if rest
               else None if num_bytes else "it is empty")
      break
    except (tf.errors.DataLossError, EOFError, OSError, zlib.error) as failure:
      error = reason(failure)
  if error:
    problems.add("a file is damaged, or no TFRecord file", [
        f"{shard.path}, after record {shard.found['instances']}: {error}"])


def record_error(data_set, record):
  """What is wrong with a record's features, or None.

  The first good record of a data set defines `data_set.sizes`, and the others
  have to be like it.
  """
  try:
    feature = tf.train.Example.FromString(record).features.feature
  except message.DecodeError:
    return "it is no tf.train.Example"
  forms = {name: (kind, len(getattr(value, kind).value))
           for name, value in feature.items()
           for kind in ("int64_list", "float_list", "bytes_list")
           if value.HasField(kind)}
  sizes = data_set.sizes or tuple(
      max([1] + [forms[name][1] for name in names if name in forms])
      for names in (("input_ids", "input_mask"),
                    ("masked_lm_ids", "masked_lm_positions"), ()))
  for name, (kind, size) in FEATURES.items():
    length = sizes["SP1".index(size)]
    found = forms.get(name, ("list", "no"))
    if found != (kind, length) and (name in forms or name != OPTIONAL):
      return (f"{name} has {found[1]} values in a {found[0]}, expected"
              f" {length} in a {kind}")
  data_set.sizes = sizes
  return None


@functools.lru_cache(maxsize=None)
def parser_of(sizes):
  """A function from an array of records to a dict of arrays [B, n], or None.

  None stands for a batch with a record that does not fit. An error would quote
  the record, and bytes that are no UTF-8 make TensorFlow 1.15 crash then.
  """
  features, graph = {}, tf.Graph()
  for name, (kind, size) in FEATURES.items():
    length = sizes["SP1".index(size)]
    features[name] = tf.FixedLenFeature(
        [length], tf.int64 if kind == "int64_list" else tf.float32,
        [0] * length if name == OPTIONAL else None)
  with graph.as_default():
    records = tf.placeholder(tf.string, [None])
    parsed = tf.data.Dataset.from_tensors(records).map(
        lambda batch: tf.parse_example(batch, features)).apply(
            tf.data.experimental.ignore_errors())
    iterator = tf.data.make_initializable_iterator(parsed)
    batch_features = iterator.get_next()
  session = tf.Session(graph=graph)

  def parse(batch):
    session.run(iterator.initializer, {records: batch})
    try:
      return session.run(batch_features)
    except tf.errors.OutOfRangeError:
      return None

  return parse


def read_shard(shard, problems):
  """Yields (record numbers from 1 on, features: a dict of arrays [B, n]).

  Records that are not like the first good one are problems, and left out.
  """
  data_set, found = shard.data_set, shard.found
  for records in read_records(shard, problems):
    numbers = found["instances"] + 1 + np.arange(len(records))
    if not data_set.sizes:  # up to the record that defines them
      any(record_error(data_set, record) is None for record in records)
    features = data_set.sizes and parser_of(data_set.sizes)(records)
    if features is None:
      errors = [record_error(data_set, record) for record in records]
      bad = np.array([error is not None for error in errors])
      found["unreadable"] += int(bad.sum())
      problems.add("a record has other features than it should have", [
          f"{shard.path}, record {numbers[index]}: {errors[index]}"
          for index in np.flatnonzero(bad)], int(bad.sum()))
      if bad.all():
        continue
      numbers = numbers[~bad]
      features = parser_of(data_set.sizes)(records[~bad])
    found["predictions"] += int((features["masked_lm_weights"] > 0).sum())
    found["instances_labelled_1"] += int(
        (features["next_sentence_labels"] == 1).sum())
    yield numbers, features


def predicted(features):
  """Where tokens are predicted: (rows, places in P, positions) of int [n]."""
  rows, places = np.nonzero(features["masked_lm_weights"] > 0)
  # A position outside is a problem for --check; all else goes on without it.
  positions = np.clip(features["masked_lm_positions"][rows, places], 0,
                      features["input_ids"].shape[1] - 1)
  return rows, places, positions


class Sample(object):
  """Takes the instances to show: the first after `skip`, or random ones."""

  def __init__(self, size, skip, seed):
    self._size, self._skip, self.seen = size, skip, 0
    self._random = None if seed is None else np.random.RandomState(seed)
    self._taken = []  # (key, order, ...), those with the smallest keys

  def offer(self, shard, numbers, features):
    orders = self.seen + np.arange(len(numbers))
    keys = orders if self._random is None else self._random.rand(len(orders))
    keys = np.where(orders < self._skip, np.inf, keys)
    self.seen += len(orders)
    for index in np.argsort(keys)[:self._size]:
      if keys[index] < np.inf:
        self._taken.append((keys[index], orders[index], shard, numbers[index], {
            name: values[index].copy() for name, values in features.items()}))
    self._taken = sorted(self._taken, key=lambda row: row[:2])[:self._size]

  def texts(self, vocab):
    """The instances in the records' order; InspectionError if --skip is all."""
    if self._size and self.seen and not self._taken:
      raise InspectionError(f"--skip is {self._skip}, but there are only"
                            f" {self.seen} readable records")
    return [instance_text(*row[2:], vocab=vocab)
            for row in sorted(self._taken, key=lambda row: row[1])]


def instance_text(shard, number, features, vocab):
  """An instance as a person reads it: a line about it, and its segments."""
  real, weights = features["input_mask"] != 0, features["masked_lm_weights"]
  labels = {position: label for position, label, weight in zip(
      features["masked_lm_positions"], features["masked_lm_ids"], weights)
            if weight > 0}
  order = int(features["next_sentence_labels"][0])
  words = dict(enumerate(LABEL_WORDS.get(shard.data_set.pair_task, ())))
  lines = [f"{shard.path}, record {number}: {real.sum()} of {len(real)} tokens"
           f" ({real.mean():.0%}), {(weights > 0).sum()} of {len(weights)}"
           f" predictions, label {order}: {words.get(order, 'unknown')}"]
  for segment in np.unique(features["segment_ids"][real]):
    pieces = [piece_of(features["input_ids"][place], labels.get(place), vocab)
              for place in np.flatnonzero(
                  real & (features["segment_ids"] == segment))]
    begin = pieces[0] == ("[CLS]", "[CLS]")
    end = len(pieces) - (pieces[-1] == ("[SEP]", "[SEP]"))
    name = {0: "A", 1: "B"}.get(int(segment), f"segment {segment}")
    lines.append(f"  {name}  {join_pieces(pieces[begin:end])}")
  return "\n".join(lines)


def piece_of(seen, label, vocab):
  """(what is shown, the text's token) of an input id and its label or None."""
  token = vocab.token(seen)
  if label is None:
    return token, token
  mark = "=" if seen in (label, vocab.bare(label)) else "→"
  token = "MASK" if token == "[MASK]" else token
  return f"[{token}{mark}{vocab.token(label)}]", vocab.token(vocab.bare(label))


def join_pieces(pieces):
  """Puts a text together again, with blanks between words of letters."""
  text, last = "", ""
  for shown, token in pieces:
    if token.startswith("##"):
      shown = shown[2:] or shown if shown == token else shown
    elif _WORD.match(last[-1:]) and _WORD.match(token):
      text += " "
    text, last = text + shown, token
  return text


def summarize(counter):
  """Mean, median and maximum of integers, of a Counter of them."""
  values, counts = np.array(sorted(counter.items())).T
  places = [(counts.sum() - 1) // 2, counts.sum() // 2]
  middle = values[np.searchsorted(np.cumsum(counts), places, "right")]
  return {"mean": round(float(np.average(values, weights=counts)), 3),
          "median": float(middle.mean()), "max": int(values[-1])}


def share(part, whole):
  return round(float(part) / float(whole), 6) if whole else 0.0


def shares(counter):
  """What part of the whole each key of a Counter has, by string."""
  return collections.OrderedDict(
      (str(key), share(number, sum(counter.values())))
      for key, number in sorted(counter.items()))


class Statistics(object):
  """Counts over all readable records."""

  def __init__(self, vocab):
    self._vocab = vocab
    self._counts = collections.defaultdict(collections.Counter)
    self._tokens = np.zeros(len(vocab.tokens) + 1, np.int64)

  def update(self, features):
    ids, real = features["input_ids"], features["input_mask"] != 0
    rows, places, positions = predicted(features)
    predictions = np.bincount(rows, minlength=len(ids))
    most = features["masked_lm_ids"].shape[1]
    for name, values in (
        ("length", real.sum(axis=1)), ("predictions", predictions),
        ("at cap", predictions == most),
        ("labels", features["next_sentence_labels"][:, 0])):
      self._counts[name].update(values.tolist())
    self._counts["S"][ids.shape[1]] += len(ids)
    self._counts["P"][most] += len(ids)
    seen, labels = ids[rows, positions], features["masked_lm_ids"][rows, places]
    bare = self._vocab.bare(labels)
    masked = seen == self._vocab.ids["[MASK]"]
    kept = ~masked & ((seen == labels) | (seen == bare))
    for name, those in (("[MASK]", masked), ("kept", kept),
                        ("replaced", ~masked & ~kept)):
      self._counts["inputs"][name] += int(those.sum())
    # The text's tokens are the inputs, with the labels in their places.
    for sign, ids in ((1, ids[real]), (1, bare), (-1, seen)):
      most = len(self._vocab.tokens)  # stands for ids that it lacks
      self._tokens += sign * np.bincount(np.clip(ids, 0, most),
                                         minlength=most + 1)

  def result(self, shards):
    """The statistics as a dict for JSON; of no record, less of them."""
    counts, vocab = self._counts, self._vocab
    records = sum(counts["S"].values())
    result = {"files": len(shards), "files_without_metadata": sum(
        not shard.data_set.path for shard in shards), "records": records}
    if not records:
      return result
    real, slots = [sum(length * number for length, number in
                       counts[name].items()) for name in ("length", "S")]
    tokens = self._tokens.clip(0)
    tokens[[vocab.ids[name] for name in ("[PAD]", "[CLS]", "[SEP]")]] = 0
    longest = max(counts["S"])
    width = -(-longest // NUM_BARS)
    result.update(
        max_seq_length=dict(counts["S"]),
        max_predictions_per_seq=dict(counts["P"]),
        length=summarize(counts["length"]), fill=share(real, slots),
        predictions=summarize(counts["predictions"]),
        predictions_at_cap=share(counts["at cap"][True], records),
        predictions_per_token=share(sum(counts["inputs"].values()), real),
        masked_inputs=shares(counts["inputs"]),
        labels=shares(counts["labels"]),
        unknown_share=share(tokens[vocab.ids["[UNK]"]], tokens.sum()),
        frequent_tokens=collections.OrderedDict(
            (vocab.token(index), share(tokens[index], tokens.sum()))
            for index in np.argsort(-tokens, kind="mergesort")[:NUM_FREQUENT]
            if tokens[index]),
        length_histogram=collections.OrderedDict(
            (f"{begin}-{min(begin + width - 1, longest)}",
             sum(counts["length"][begin + more] for more in range(width)))
            for begin in range(1, longest + 1, width)))
    return result


def statistics_text(result):
  """The statistics, a dict, for the terminal."""
  def text(value, key):
    if isinstance(value, dict):
      return ", ".join(f"{name} {text(part, key)}"
                       for name, part in value.items())
    if isinstance(value, int):
      return f"{value:,}"
    return f"{value:,.1f}" if key in ("length", "predictions") else (
        f"{value:.2%}")

  result = dict(result)
  bars = result.pop("length_histogram", {})
  lines = [f"{key.replace('_', ' '):<24} {text(value, key)}"
           for key, value in result.items()]
  lines += [f"  length {name:<11}{number:>12,} " +
            "#" * -(-BAR_WIDTH * number // max(1, max(bars.values())))
            for name, number in bars.items()]
  return "\n".join(lines)


def find_wrong(features, vocab, num_segments):
  """Yields (feature's name, what is wrong, where: bool array [B, n]).

  Args:
    features: dict of arrays [B, S], [B, P] or [B, 1].
    vocab: Vocabulary.
    num_segments: int, or None where one and two are right.
  """
  ids, mask, segments, positions, weights, labels = [
      features[name] for name in (
          "input_ids", "input_mask", "segment_ids", "masked_lm_positions",
          "masked_lm_weights", "next_sentence_labels")]
  places, each = np.arange(ids.shape[1]), np.arange(len(ids))
  lengths = np.maximum(((mask != 0) * (places + 1)).max(axis=1), 1)
  real = places < lengths[:, None]
  in_b = real & (segments != 0)
  has_b = in_b.any(axis=1)
  ends = places == lengths[:, None] - 1  # where [SEP] belongs
  ends[each, np.maximum(in_b.argmax(axis=1), 1) - 1] |= has_b
  original = ids.copy()  # the text as it was: a mask may have put any token
  rows, columns, at = predicted(features)
  original[rows, at] = features["masked_lm_ids"][rows, columns]
  special = np.zeros(positions.shape, bool)
  special[rows, columns] = ends[rows, at] | (at == 0)

  for name in ("input_ids", "masked_lm_ids"):
    yield (name, f"is outside the vocabulary of {len(vocab.tokens)}",
           (features[name] < 0) | (features[name] >= len(vocab.tokens)))
  yield "input_mask", "is not ones, then zeros", mask != real
  yield ("input_ids", "has [PAD] in the text, or something else after it",
         np.where(real, original == 0, ids != 0))
  yield ("input_ids", "has no [CLS] at the beginning, or one elsewhere",
         (original == vocab.ids["[CLS]"]) != (places == 0))
  yield ("input_ids", "has no [SEP] where a segment ends, or one elsewhere",
         (original == vocab.ids["[SEP]"]) != ends)
  yield "segment_ids", "is neither 0 nor 1", (segments < 0) | (segments > 1)
  yield ("segment_ids", "does not begin with 0, or falls", real & np.hstack(
      [segments[:, :1] != 0, np.diff(segments, axis=1) < 0]))
  yield "segment_ids", "is not 0 on padding", (segments != 0) & ~real
  if num_segments:
    yield ("segment_ids", f"is not of {num_segments} segments",
           (has_b != (num_segments == 2))[:, None])
  yield ("masked_lm_positions", "is not inside the text", (positions < 0) | (
      positions >= np.where(weights > 0, lengths[:, None], ids.shape[1])))
  yield ("masked_lm_positions", "is not larger than the one before",
         (weights > 0) & np.hstack([np.zeros([len(ids), 1], bool),
                                    np.diff(positions, axis=1) <= 0]))
  yield "masked_lm_positions", "is on [CLS] or [SEP]", special
  yield ("masked_lm_weights", "is not 1 for the predictions, then 0",
         weights != (np.arange(weights.shape[1]) <
                     np.count_nonzero(weights, axis=1)[:, None]))
  yield ("next_sentence_labels", "is neither 0 nor 1",
         (labels < 0) | (labels > 1))


def check_records(shard, numbers, features, vocab, problems):
  """Adds what is wrong in a batch of records."""
  num_segments = {"nsp": 2, "sop": 2, "none": 1}.get(shard.data_set.pair_task)
  for name, what, wrong in find_wrong(
      features, vocab, num_segments if shard.data_set.path else None):
    if wrong.any():
      bad, places = np.flatnonzero(wrong.any(axis=1)), wrong.argmax(axis=1)
      problems.add(f"{name} {what}", [
          f"{shard.path}, record {numbers[row]}: {name}[{places[row]}] is"
          f" {features[name][row, places[row]]}"
          for row in bad[:MAX_EXAMPLES]], len(bad))


def check_data_set(data_set, vocab, problems):
  """Compares metadata with the vocabulary, and with what was found."""
  metadata, shards = data_set.metadata, data_set.shards

  def compare(key, found, where, told=None):
    told = metadata.get(key) if told is None else told
    if told not in (None, found):
      problems.add(f"metadata.json has another {key}", [
          f"{data_set.path}: {key} is {told}, but {found} in {where}"])

  compare("vocab_size", len(vocab.tokens), vocab.path)
  compare("vocab_hash", vocab.hash, vocab.path)
  if data_set.sizes:
    compare("max_seq_length", data_set.sizes[0], shards[0].path)
    compare("max_predictions_per_seq", data_set.sizes[1], shards[0].path)
  told = dict(zip(metadata["files"], metadata.get("instances_per_file") or ()))
  for shard in shards:
    compare("compression", shard.compression, shard.path)
    compare("instances_per_file", shard.found["instances"], shard.path,
            told.get(os.path.basename(shard.path)))
  # Each of several folders of a set has the counts of the whole set.
  if (len(shards) < len(metadata["files"]) or
      told and sum(told.values()) < (metadata.get("instances") or 0)):
    log(f"{data_set.path}: not all files of the set are inspected, so its"
        " counts are not compared")
    return
  found = sum((shard.found for shard in shards), collections.Counter())
  for key in ("instances", "instances_labelled_1", "predictions"):
    if key == "instances" or not found["unreadable"]:
      compare(key, found[key], ", ".join(metadata["files"]))


def parse_arguments(argv):
  def number(text):
    if not text.isdigit():
      raise argparse.ArgumentTypeError(f"found {text!r}, expected 0 or more")
    return int(text)

  parser = argparse.ArgumentParser(
      allow_abbrev=False, description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  add = parser.add_argument
  add("files", nargs="+", help="TFRecord files, globs, folders; GZIP too")
  add("--vocab_file", help="default: what metadata.json names, if it is still"
      " the same, or else albert_config/vocab.txt of this project")
  add("--num_instances", type=number, default=3,
      help="how many instances to show; default: 3")
  add("--skip", type=number, default=0,
      help="pass over so many records before any that is shown")
  add("--random_seed", type=number, help="show a random sample instead of the"
      " first; the seed makes it the same every time")
  add("--no_statistics", action="store_true",
      help="leave them out; only what is shown is read, then, or checked")
  add("--check", action="store_true",
      help="check every record, and compare metadata.json with all of them")
  add("--json", action="store_true", help="print one JSON object")
  return parser.parse_args(argv)


def inspect(args, problems):
  """Reads the records; returns (instances' texts, statistics or None)."""
  shards = find_shards(args.files, problems)
  data_sets = list(collections.OrderedDict.fromkeys(
      shard.data_set for shard in shards))
  vocab = find_vocabulary(args.vocab_file, data_sets)
  for data_set in data_sets:
    if data_set.metadata.get("vocab_hash", vocab.hash) != vocab.hash:
      log(f"{data_set.path} is about another vocabulary than {vocab.path}")
  sample = Sample(args.num_instances, args.skip, args.random_seed)
  statistics = None if args.no_statistics else Statistics(vocab)
  reads_all = statistics or args.check or args.random_seed is not None
  for shard in shards:
    for numbers, features in read_shard(shard, problems):
      sample.offer(shard, numbers, features)
      if statistics:
        statistics.update(features)
      if args.check:
        check_records(shard, numbers, features, vocab, problems)
      if not reads_all and sample.seen >= args.skip + args.num_instances:
        return sample.texts(vocab), None
  for data_set in data_sets:
    if args.check and data_set.path:
      check_data_set(data_set, vocab, problems)
  return sample.texts(vocab), statistics and statistics.result(shards)


def main(argv=None):
  args, problems = parse_arguments(argv), Problems()
  tf.logging.set_verbosity(tf.logging.ERROR)
  try:
    instances, statistics = inspect(args, problems)
  except (ValueError, OSError, tf.errors.OpError) as error:
    log(f"inspect_tfrecord.py: error: {reason(error)}")
    return 1
  found = list(problems.kinds.values())
  if args.json:
    print(json.dumps({"instances": instances, "statistics": statistics,
                      "problems": found}, ensure_ascii=False, indent=2))
  else:
    parts = instances + ([statistics_text(statistics)] if statistics else [])
    parts += ["\n  ".join(["wrong, {count:,} times: {kind}".format(**entry)] +
                          entry["examples"]) for entry in found]
    if args.check and not found:
      parts.append("the check found nothing wrong")
    print("\n\n".join(parts))
  if found:
    log("inspect_tfrecord.py: error: {:,} things are wrong; the report has"
        " them".format(sum(entry["count"] for entry in found)))
  return int(bool(found))


if __name__ == "__main__":
  sys.exit(main())
