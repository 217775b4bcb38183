"""Examples to features: the files of them, and the input made of those files.

Whoever fine-tunes takes them from `run_classifier.py`, as in the peers' module.
"""

import uuid

import numpy as np
import tensorflow.compat.v1 as tf

from classifier_utils import convert_single_example
from classifier_utils import PaddingInputExample
import input_utils


def convert_examples_to_features(examples, label_list, max_seq_length,
                                 tokenizer):
  """Converts examples into a list of InputFeatures."""
  return [convert_single_example(index, example, label_list, max_seq_length,
                                 tokenizer)
          for index, example in enumerate(examples)]


def file_based_convert_examples_to_features(examples, label_list,
                                            max_seq_length, tokenizer,
                                            output_file):
  """Writes examples to a TFRecord file; it gets its name when complete.

  Args:
    examples: list of InputExamples (or PaddingInputExamples).
    label_list: list of strings.
    max_seq_length: int, S.
    tokenizer: tokenization.FullTokenizer.
    output_file: path.
  """
  def int_feature(values):
    return tf.train.Feature(
        int64_list=tf.train.Int64List(value=list(values)))

  # Workers on several machines may write the same file at the same time.
  temporary = "%s.tmp-%s" % (output_file, uuid.uuid4().hex)
  with tf.python_io.TFRecordWriter(temporary) as writer:
    for index, example in enumerate(examples):
      if index % 10000 == 0 and index:
        tf.logging.info("converted example %d of %d", index, len(examples))
      features = convert_single_example(index, example, label_list,
                                        max_seq_length, tokenizer)
      if index < 3:
        _log_example(example, features, tokenizer)
      record = tf.train.Example(features=tf.train.Features(feature={
          "input_ids": int_feature(features.input_ids),
          "input_mask": int_feature(features.input_mask),
          "segment_ids": int_feature(features.segment_ids),
          "label_ids": int_feature([features.label_id]),
          "is_real_example": int_feature([int(features.is_real_example)])}))
      writer.write(record.SerializeToString())
  tf.gfile.Rename(temporary, output_file, overwrite=True)


def _log_example(example, features, tokenizer):
  if isinstance(example, PaddingInputExample):
    return
  length = sum(features.input_mask)
  tf.logging.info("*** Example %s ***", example.guid)
  tf.logging.info("tokens: %s", " ".join(
      tokenizer.convert_ids_to_tokens(features.input_ids[:length])))
  tf.logging.info("segment_ids: %s",
                  " ".join(str(i) for i in features.segment_ids[:length]))
  tf.logging.info("label: %s (id = %d)", example.label, features.label_id)


# Classification data are small: the whole set is shuffled.
_SHUFFLED_EXAMPLES = 100000


def file_based_input_fn_builder(input_file, seq_length, is_training,
                                drop_remainder, seed=None, start_step=0,
                                bucket_by_length=False, record_count=None):
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
      then a multiple of 16), those of training are made of similar lengths.
    record_count: int, how many there are; None counts when need be.

  Returns:
    function of params (with "batch_size", of each replica) and input_context.
  """
  sequence = tf.FixedLenFeature([seq_length], tf.int64)
  scalar = tf.FixedLenFeature([], tf.int64)
  specs = {"input_ids": sequence, "input_mask": sequence,
           "segment_ids": sequence, "label_ids": scalar,
           "is_real_example": scalar}

  def parse(records):
    features = input_utils.to_int32(tf.parse_example(records, specs))
    if bucket_by_length:
      return input_utils.crop(features, input_utils.SEQUENCES)
    return features

  def lengths(records):
    return input_utils.sequence_lengths(tf.parse_example(
        records, {"input_mask": sequence})["input_mask"])

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
        num_cpu_threads=2, lengths=lengths if bucket_by_length else None)

  return input_fn


def input_fn_builder(features, seq_length, is_training, drop_remainder,
                     seed=None, start_step=0, bucket_by_length=False):
  """Creates an `input_fn` from a list of InputFeatures; see above.

  Args:
    features: list of InputFeatures.
    seq_length: int, S.
    is_training: bool; shuffles and repeats for ever, in full batches.
    drop_remainder: bool; a TPU needs full batches.
    seed: int, for shuffling; None is another order each time.
    start_step: int or a function that returns it.
    bucket_by_length: bool.

  Returns:
    function of params (with "batch_size", of each replica) and input_context.
  """
  arrays = {
      name: np.array([getattr(f, name) for f in features],
                     np.int32).reshape(-1, seq_length)
      for name in input_utils.SEQUENCES}
  arrays["label_ids"] = np.array([f.label_id for f in features], np.int32)
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
        num_cpu_threads=2, lengths=lengths if bucket_by_length else None)

  return input_fn
