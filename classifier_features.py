"""Examples to features: the files of them, and the input made of those files.

    feature_file = convert_split(examples, labels, options, "output", "dev",
                                 tokenizer)
    predictions = estimator.predict(predict_input_fn(feature_file, options))
    probabilities = collect_outputs(feature_file, predictions)

A file holds the features of a split under a name that says all that they depend
on; beside it, `<file>.index.json` has what is known of each record. On CPU and
GPU, batches are made of similar lengths and cropped to their longest.

Whoever fine-tunes takes the peers' functions from `run_classifier.py`, as in
the peers' module.
"""

import collections
import json
import os

from absl import flags
import numpy as np
import tensorflow.compat.v1 as tf

import bert_utils
from classifier_utils import convert_single_example
import classifier_utils
from classifier_utils import PaddingInputExample
import feature_utils
import input_utils
import shard_utils
import tokenization

# Classification data are small: the whole set is shuffled.
_SHUFFLED_EXAMPLES = 100000
# So many records are sorted by length at once in prediction.
_SORTED_RECORDS = 8192


# ---------------------------------------------------------------- feature files


FeatureFile = collections.namedtuple("FeatureFile", [
    "path", "num_examples", "num_records", "num_padding", "windows", "lengths",
    "order", "seq_length", "task_type", "num_labels"])
FeatureFile.__doc__ = """A file of features, and what is known of its records.

  path: string.
  num_examples: int.
  num_records: int, without padding; with long_text=sliding more than examples.
  num_padding: int, records of padding, which come last; on a TPU only.
  windows: None where each record is one example; else int array [num_records],
    the example that each record is a window of.
  lengths: int array [num_records], tokens of each record.
  order: None, or int array [num_records], the order in which
    `predict_input_fn` hands the records out.
  seq_length: int, S.
  task_type: string, one of `classifier_utils.TASK_TYPES`.
  num_labels: int, L; 0 for regression.
  """


def convert_split(examples, label_list, options, output_dir, split, tokenizer,
                  task_type="single", batch_size=None):
  """Converts the examples of a split, unless the very same were before.

  All cores convert. The file has its name when it is complete; what a run that
  was killed left behind is removed. The workers of a cluster may all do this at
  once, in one folder or each in its own.

  Args:
    examples: list of InputExample.
    label_list: list of strings; empty for regression.
    options: object with the attributes task_name, max_seq_length,
      do_lower_case, long_text, long_text_stride, num_workers, use_tpu, use_xla
      and bucket_by_length.
    output_dir: path of the folder for the file; made if need be.
    split: "train", "dev" or "test".
    tokenizer: tokenization.FullTokenizer.
    task_type: string, one of `classifier_utils.TASK_TYPES`.
    batch_size: int; on a TPU, records of padding fill up the last batch of any
      split but "train". Elsewhere it means nothing.

  Returns:
    FeatureFile.

  Raises:
    InputError: the examples cannot be converted or the file not be written;
      says why.
  """
  num_examples = len(examples)
  if not examples:
    raise bert_utils.InputError("features of %s: there are no examples" % split)
  if options.use_tpu and split != "train" and batch_size:
    examples = list(examples) + [PaddingInputExample()] * (
        -num_examples % batch_size)
  settings = feature_utils.Settings(
      list(label_list), options.max_seq_length, task_type, options.long_text,
      options.long_text_stride)
  path = os.path.join(output_dir, classifier_utils.features_cache_name(
      options.task_name, split, examples, label_list, options.max_seq_length,
      tokenization.vocab_hash(tokenizer.vocab), options.do_lower_case,
      task_type, options.long_text, options.long_text_stride))
  index = _read_index(path)
  if index:
    tf.logging.info("features of %s: %s is reused", split, path)
  else:
    tf.logging.info("features of %s: %d examples into %s", split, num_examples,
                    path)
    tf.gfile.MakeDirs(output_dir)
    feature_utils.remove_leftovers(output_dir)
    index = _write_features(examples, settings, tokenizer, path,
                            options.num_workers, "features of " + split)
  lengths = np.array(index["lengths"], np.int32)
  return FeatureFile(
      path, num_examples, len(lengths), len(examples) - num_examples,
      index["windows"] and np.array(index["windows"], np.int32), lengths,
      _reading_order(lengths) if varies_lengths(options) else None,
      options.max_seq_length, task_type, len(label_list))


def _write_features(examples, settings, tokenizer, path, num_workers, name):
  """Converts examples into a file and its index; returns the index.

  Raises:
    InputError: says what is wrong with the examples or the file.
  """
  _log_examples(examples, settings, tokenizer)
  numbers, lengths, num_bytes = [], [], 0
  try:
    with feature_utils.complete_file(path) as writer:
      for chunk in feature_utils.convert(examples, settings, tokenizer,
                                         num_workers, name):
        writer.write(chunk.content.tobytes())
        numbers.append(chunk.examples)
        lengths.append(chunk.lengths)
        num_bytes += len(chunk.content)
      index = _make_index(np.concatenate(numbers), np.concatenate(lengths),
                          num_bytes)
      # Before the features: where they are, it is there.
      with feature_utils.complete_file(_index_path(path)) as index_writer:
        index_writer.write(json.dumps(index).encode("ascii"))
  except (classifier_utils.DataError, feature_utils.WorkerError, OSError,
          tf.errors.OpError) as error:
    raise bert_utils.InputError("%s: %s" % (
        name, getattr(error, "message", None) or error)) from error
  return index


def _index_path(path):
  return path + ".index.json"


def _make_index(numbers, lengths, num_bytes):
  """What is known of the records, as a dict; padding is left out."""
  is_real = lengths > 0
  numbers, lengths = numbers[is_real].tolist(), lengths[is_real].tolist()
  is_plain = numbers == list(range(len(numbers)))
  return {"windows": None if is_plain else numbers, "lengths": lengths,
          "bytes": num_bytes}


def _read_index(path):
  """The index of a feature file; None where not both are there and whole."""
  if not (tf.gfile.Exists(path) and tf.gfile.Exists(_index_path(path))):
    return None
  with tf.gfile.GFile(_index_path(path), "r") as reader:
    try:
      index = json.loads(reader.read())
    except ValueError:  # the disk was full, or somebody copied a part
      return None
  return index if index.get("bytes") == tf.gfile.Stat(path).length else None


def _log_examples(examples, settings, tokenizer):
  for index, example in enumerate(examples[:3]):
    if isinstance(example, PaddingInputExample):
      continue
    windows = classifier_utils.convert_example(
        index, example, settings.label_list, settings.max_seq_length, tokenizer,
        settings.task_type, settings.long_text, settings.stride)
    features = windows[0]
    length = sum(features.input_mask)
    tf.logging.info("*** Example %s%s ***", example.guid, "" if len(
        windows) == 1 else ", the first of %d windows" % len(windows))
    tf.logging.info("tokens: %s", " ".join(
        tokenizer.convert_ids_to_tokens(features.input_ids[:length])))
    tf.logging.info("segment_ids: %s",
                    " ".join(str(i) for i in features.segment_ids[:length]))
    tf.logging.info("label: %s (id = %s)", example.label, features.label_id)


# ------------------------------------------------------------------------ input


def train_input_fn(feature_file, options, start_step=0):
  """Creates the `input_fn` of training; it never ends.

  Args:
    feature_file: FeatureFile.
    options: object with the attributes seed, bucket_by_length, use_tpu and
      use_xla.
    start_step: int, how many batches a replica has had before; or a function
      that returns it when the input is built.

  Returns:
    function of params (with "batch_size", of each replica) and input_context.
  """
  return file_based_input_fn_builder(
      feature_file.path, feature_file.seq_length, is_training=True,
      drop_remainder=True, seed=options.seed, start_step=start_step,
      bucket_by_length=varies_lengths(options),
      record_count=feature_file.num_records,
      task_type=feature_file.task_type, num_labels=feature_file.num_labels)


def predict_input_fn(feature_file, options):
  """Creates the `input_fn` of evaluation and prediction: every record once.

  Where lengths may vary, the records come in the order of
  `feature_file.order`, in batches of as many as fit into the tokens that
  "batch_size" records of the full length have: more of short ones.

  Args:
    feature_file: FeatureFile.
    options: object with the attributes use_tpu.

  Returns:
    function of params (with "batch_size").
  """
  parse = _parser(feature_file.seq_length, feature_file.task_type,
                  feature_file.num_labels, feature_file.order is not None)

  def input_fn(params):
    batch_size = params["batch_size"]
    records = tf.data.TFRecordDataset(feature_file.path)
    if feature_file.order is None:
      batches = records.batch(batch_size, drop_remainder=options.use_tpu)
    else:
      batches = _sorted_batches(records, feature_file, batch_size)
    return batches.map(parse, num_parallel_calls=2).prefetch(2)

  return input_fn


def _reading_order(lengths):
  """The longest first, of _SORTED_RECORDS at a time; int array [N]."""
  # The longest first: what does not fit into memory shows at once.
  return np.concatenate([
      begin + np.argsort(-lengths[begin:begin + _SORTED_RECORDS], kind="stable")
      for begin in range(0, len(lengths), _SORTED_RECORDS)])


def _batch_sizes(lengths, batch_size, seq_length):
  """Sizes of batches of no more tokens than full ones have, padding included.

  Args:
    lengths: int array [N], from long to short.
    batch_size: int, B.
    seq_length: int, S.

  Returns:
    List of ints whose sum is N.
  """
  sizes, begin = [], 0
  while begin < len(lengths):
    longest = input_utils.cropped_length(int(lengths[begin]))
    size = batch_size * seq_length // min(longest, seq_length)
    sizes.append(min(size, len(lengths) - begin))
    begin += sizes[-1]
  return sizes


def _sorted_batches(records, feature_file, batch_size):
  """A Dataset of batches [n] of records, in the order of the feature file."""
  order = feature_file.order
  sizes = [_batch_sizes(feature_file.lengths[order[begin:begin +
                                                   _SORTED_RECORDS]],
                        batch_size, feature_file.seq_length)
           for begin in range(0, len(order), _SORTED_RECORDS)]
  table = np.zeros([len(sizes), max(map(len, sizes))], np.int64)
  for row, values in zip(table, sizes):
    row[:len(values)] = values

  def cut(keys, places, sizes):
    keys = tf.gather(keys, places)
    sizes = tf.boolean_mask(sizes, sizes > 0)
    ends = tf.cumsum(sizes)
    return tf.data.Dataset.from_tensor_slices((ends - sizes, ends)).map(
        lambda begin, end: keys[begin:end])

  places = tf.data.Dataset.from_tensor_slices(order % _SORTED_RECORDS)
  return tf.data.Dataset.zip((
      records.batch(_SORTED_RECORDS), places.batch(_SORTED_RECORDS),
      tf.data.Dataset.from_tensor_slices(table))).flat_map(cut)


def collect_outputs(feature_file, predictions):
  """Puts what a model gave for the records together for the examples.

  Padding is dropped, the order restored, and the outputs of all windows of a
  text are averaged.

  Args:
    feature_file: FeatureFile.
    predictions: iterable over the records as `predict_input_fn` has them: of
      dicts with "probabilities", or of those, float arrays [num_outputs].

  Returns:
    float32 array [num_examples, num_outputs], in the order of the examples.

  Raises:
    ValueError: there are fewer or more predictions than records.
  """
  rows = [row["probabilities"] if isinstance(row, dict) else row
          for row in predictions]
  num_records = feature_file.num_records
  if not num_records <= len(rows) <= num_records + feature_file.num_padding:
    raise ValueError("there are %d predictions for the %d records of %s" % (
        len(rows), num_records, feature_file.path))
  outputs = np.array(rows[:num_records], np.float32)
  if feature_file.order is not None:
    outputs[feature_file.order] = outputs.copy()
  windows = feature_file.windows
  if windows is None:
    return outputs
  sums = np.zeros([feature_file.num_examples, outputs.shape[1]])
  np.add.at(sums, windows, outputs)
  counts = np.bincount(windows, minlength=len(sums))
  return (sums / counts[:, np.newaxis]).astype(np.float32)


def varies_lengths(options):
  """Whether batches are made by length and cropped.

  Without --bucket_by_length they are, unless the model is compiled for every
  shape, as on a TPU and by XLA.

  Args:
    options: object with the attributes bucket_by_length, use_tpu and use_xla.

  Returns:
    bool.
  """
  if options.bucket_by_length is None:
    return not (options.use_tpu or options.use_xla)
  return options.bucket_by_length


# -------------------------------------------------------- the peers' functions


def convert_examples_to_features(examples, label_list, max_seq_length,
                                 tokenizer, task_type="single"):
  """Converts examples into a list of InputFeatures."""
  return [convert_single_example(index, example, label_list, max_seq_length,
                                 tokenizer, task_type)
          for index, example in enumerate(examples)]


def file_based_convert_examples_to_features(examples, label_list,
                                            max_seq_length, tokenizer,
                                            output_file, task_type="single",
                                            num_workers=1):
  """Writes examples to a TFRecord file; it gets its name when complete.

  Args:
    examples: list of InputExamples (or PaddingInputExamples).
    label_list: list of strings.
    max_seq_length: int, S.
    tokenizer: tokenization.FullTokenizer.
    output_file: path.
    task_type: string, one of `classifier_utils.TASK_TYPES`.
    num_workers: int, processes; the bytes do not depend on it.
  """
  settings = feature_utils.Settings(list(label_list), max_seq_length, task_type,
                                    "head", None)
  _log_examples(examples, settings, tokenizer)
  with feature_utils.complete_file(output_file) as writer:
    for chunk in feature_utils.convert(examples, settings, tokenizer,
                                       num_workers, output_file):
      writer.write(chunk.content.tobytes())


def _parser(seq_length, task_type, num_labels, is_cropped):
  """A function of serialized records [B] that returns the model's features."""
  sequence = tf.FixedLenFeature([seq_length], tf.int64)
  scalar = tf.FixedLenFeature([], tf.int64)
  if task_type == "multi" and not num_labels:
    raise ValueError("records of a multi-label task are read with their number"
                     " of labels, expected num_labels")
  specs = {"input_ids": sequence, "input_mask": sequence,
           "segment_ids": sequence, "is_real_example": scalar,
           "label_ids": {
               "single": scalar,
               "multi": tf.FixedLenFeature([num_labels], tf.int64),
               "regression": tf.FixedLenFeature([], tf.float32)}[task_type]}

  def parse(records):
    features = input_utils.to_int32(tf.parse_example(records, specs))
    if is_cropped:
      return input_utils.crop(features, input_utils.SEQUENCES)
    return features

  return parse


def file_based_input_fn_builder(input_file, seq_length, is_training,
                                drop_remainder, seed=None, start_step=0,
                                bucket_by_length=False, record_count=None,
                                task_type="single", num_labels=None):
  """Creates an `input_fn` that reads a feature file.

  Args:
    input_file: path.
    seq_length: int, S.
    is_training: bool; shuffles and repeats for ever, in full batches, see
      `input_utils.train_batches`. Otherwise every record comes once, in order.
    drop_remainder: bool; a TPU needs full batches.
    seed: int, for shuffling; None is another order each time.
    start_step: int, how many batches a replica has had before; or a function
      that returns it when the input is built.
    bucket_by_length: bool; batches are cropped to their longest sequence (S is
      then a multiple of 8), those of training are made of similar lengths.
    record_count: int, how many there are; None counts when need be.
    task_type: string, one of `classifier_utils.TASK_TYPES`.
    num_labels: int, L; needed for "multi".

  Returns:
    function of params (with "batch_size", of each replica) and input_context.
  """
  parse = _parser(seq_length, task_type, num_labels, bucket_by_length)

  def lengths(records):
    return input_utils.sequence_lengths(tf.parse_example(
        records, {"input_mask": tf.FixedLenFeature([seq_length], tf.int64)})[
            "input_mask"])

  def input_fn(params, input_context=None):
    batch_size = params["batch_size"]
    if not is_training:
      return tf.data.TFRecordDataset(input_file).batch(
          batch_size, drop_remainder=drop_remainder).map(
              parse, num_parallel_calls=2).prefetch(2)
    worker = input_utils.find_worker(input_context)
    counts = ([record_count] if record_count else
              input_utils.count_records([input_file]))
    stream_seed = input_utils.any_seed(seed)
    return input_utils.train_batches(
        input_utils.file_epochs([input_file], counts, stream_seed, worker,
                                shuffle_records=_SHUFFLED_EXAMPLES),
        parse, stream_seed, batch_size, worker.num_replicas,
        start_step() if callable(start_step) else start_step,
        num_cpu_threads=2, lengths=lengths if bucket_by_length else None,
        within_epochs=True)

  return input_fn


def input_fn_builder(features, seq_length, is_training, drop_remainder,
                     seed=None, start_step=0, bucket_by_length=False,
                     task_type="single"):
  """Creates an `input_fn` from a list of InputFeatures; see above.

  Args:
    features: list of InputFeatures.
    seq_length: int, S.
    is_training: bool; shuffles and repeats for ever, in full batches.
    drop_remainder: bool; a TPU needs full batches.
    seed: int, for shuffling; None is another order each time.
    start_step: int or a function that returns it.
    bucket_by_length: bool.
    task_type: string, one of `classifier_utils.TASK_TYPES`.

  Returns:
    function of params (with "batch_size", of each replica) and input_context.
  """
  arrays = {
      name: np.array([getattr(f, name) for f in features],
                     np.int32).reshape(-1, seq_length)
      for name in input_utils.SEQUENCES}
  arrays["label_ids"] = np.array(
      [f.label_id for f in features],
      np.float32 if task_type == "regression" else np.int32)
  arrays["is_real_example"] = np.array([f.is_real_example for f in features],
                                       np.int32)

  def load(indices):
    batch = {name: tf.gather(tf.constant(array), indices)
             for name, array in arrays.items()}
    if bucket_by_length:
      return input_utils.crop(batch, input_utils.SEQUENCES)
    return batch

  def lengths(indices):
    return input_utils.sequence_lengths(
        tf.gather(tf.constant(arrays["input_mask"]), indices))

  def input_fn(params, input_context=None):
    batch_size = params["batch_size"]
    if not is_training:
      return tf.data.Dataset.range(len(features)).batch(
          batch_size, drop_remainder=drop_remainder).map(load)
    worker = input_utils.find_worker(input_context)
    stream_seed = input_utils.any_seed(seed)
    return input_utils.train_batches(
        input_utils.index_epochs(len(features), stream_seed, worker), load,
        stream_seed, batch_size, worker.num_replicas,
        start_step() if callable(start_step) else start_step,
        num_cpu_threads=2, lengths=lengths if bucket_by_length else None,
        within_epochs=True)

  return input_fn


# ------------------------------------------------------------------------ flags


def check_flags(options):
  """Raises a ValueError where --long_text_stride does not fit.

  Args:
    options: object with the flags as attributes.
  """
  stride = options.long_text_stride
  if stride is None:
    return
  room = options.max_seq_length - 2
  if options.long_text != "sliding":
    raise ValueError("--long_text_stride is for --long_text=sliding, but"
                     " --long_text is %s; leave one out" % options.long_text)
  if stride > room:
    raise ValueError(
        "--long_text_stride %d is more than the %d tokens of a window, which"
        " would leave tokens out; with --max_seq_length %d, it may be up to %d"
        % (stride, room, options.max_seq_length, room))


def define_flags():
  """Defines the flags of this module."""
  flags.DEFINE_enum(
      "long_text", "head", classifier_utils.LONG_TEXT_MODES,
      "What becomes of texts that are too long. head: the end is cut off;"
      " head_tail: the middle; sliding: windows over all of the text are trained"
      " on, and the mean of their probabilities is the text's.")
  flags.DEFINE_integer(
      "long_text_stride", None,
      "--long_text=sliding: tokens from one window to the next; default half a"
      " window.", lower_bound=1)
  flags.DEFINE_integer(
      "num_workers", shard_utils.num_cores(),
      "Number of processes that convert examples; default: the machine's cores."
      " The features do not depend on it.", lower_bound=1)
