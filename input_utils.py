"""What the runners' input pipelines share: record files, and an endless stream
of training batches that starts at any step.

The order of the records depends on the seed and on nothing else. Each epoch has
an order of its own, a function of (seed, number of the epoch), and the stream
is one epoch after the other: so a run that was stopped after step k goes on
with the very batches that it would have seen. Whole epochs are skipped by
counting; of the epoch in which step k is, serialized records are read and
dropped, not parsed.

Letters: B batch size of a replica, R replicas that a worker feeds, S sequence.
"""

import collections
import json
import os
import random
import struct
import time

import tensorflow.compat.v1 as tf

# How many records wait to be drawn from; a few kilobytes each.
SHUFFLE_RECORDS = 10000
# Files read in turn, so many records of each. Constants, not --num_cpu_threads:
# the order must not depend on the machine.
_FILES_AT_ONCE = 8
_RECORDS_IN_TURN = 16
# So much data is compared with its metadata: seconds from a cold disk.
_CHECKED_BYTES = 2**32

# With length buckets: sequences are sorted within so many steps' records, and
# cropped to a multiple of so many tokens. Of headlines, 16 instead of 8 would be
# a quarter more; tensor cores of GPUs want 8.
WINDOW_STEPS = 64
LENGTH_MULTIPLE = 8

# What the numbers drawn from one seed are for.
_FILE_ORDER, _RECORD_ORDER, _WINDOW_ORDER, _BORDER = range(4)
_FOR_EVER = 2**62


# ------------------------------------------------------------------ the files


def compression_type(paths):
  """How TFRecord files are compressed, by their first bytes.

  Args:
    paths: list of paths.

  Returns:
    "GZIP" or "".

  Raises:
    ValueError: some are and some are not; they are not read together.
  """
  compressed = []
  for path in paths:
    with tf.gfile.GFile(path, "rb") as reader:
      compressed.append(reader.read(3) == b"\x1f\x8b\x08")
  if len(set(compressed)) > 1:
    raise ValueError("%s is compressed and %s is not; give files of one kind" % (
        paths[compressed.index(True)], paths[compressed.index(False)]))
  return "GZIP" if compressed[0] else ""


def iterate_records(path):
  """The records of a TFRecord file, one by one."""
  return tf.python_io.tf_record_iterator(
      path, tf.python_io.TFRecordOptions(
          tf.python_io.TFRecordCompressionType.GZIP if compression_type([path])
          else tf.python_io.TFRecordCompressionType.NONE))


def read_metadata(path):
  """The metadata of a TFRecord file, or None where there is none.

  Args:
    path: path of the TFRecord file; `metadata.json` is in its folder.

  Returns:
    dict or None.

  Raises:
    ValueError: the metadata file is of another kind.
  """
  metadata_path = os.path.join(os.path.dirname(path), "metadata.json")
  if not tf.gfile.Exists(metadata_path):
    return None
  try:
    with tf.gfile.GFile(metadata_path, "r") as reader:
      newest = json.loads(reader.read())
    for entry in [newest] + newest.get("other_data_sets", []):
      if os.path.basename(path) in entry.get("files", []):
        return entry
  except (ValueError, TypeError, AttributeError) as error:
    raise ValueError(
        "%s is not a file that create_pretraining_data.py wrote (%s); move it"
        " away, and the records are checked by their first one" % (
            metadata_path, error)) from error
  return None


def count_records(paths):
  """Number of records of each file.

  What `metadata.json` says is taken where files are compressed, remote or large;
  else the records' headers are counted, and compared with it. (Without metadata,
  a compressed or remote file is read as a whole.)

  Args:
    paths: list of paths.

  Returns:
    List of ints.

  Raises:
    ValueError: a file is cut off, or has not what its metadata say.
  """
  start = time.time()
  counts, counted, checked_bytes = [], 0, 0
  for path in paths:
    count = _stored_count(path)
    checked_bytes += tf.gfile.Stat(path).length
    if count is None or (_can_seek(path) and checked_bytes <= _CHECKED_BYTES):
      counted += 1
      found = _count_file(path)
      if count not in (None, found):
        raise ValueError(
            "%s has %d records, but metadata.json beside it says %d; copy both"
            " again, or move metadata.json away" % (path, found, count))
      count = found
    counts.append(count)
  seconds = time.time() - start
  if seconds > 5:
    tf.logging.info(
        "counting the records of %d files took %d s, of %d by their headers",
        len(paths), seconds, counted)
  return counts


def _stored_count(path):
  """What `metadata.json` says of a file; None where it says nothing."""
  metadata = read_metadata(path) or {}
  files = metadata.get("files", [])
  counts = metadata.get("instances_per_file")
  if counts is None and len(files) == 1 and "instances" in metadata:
    counts = [metadata["instances"]]
  if not counts or len(counts) != len(files):
    return None
  return counts[files.index(os.path.basename(path))]


def _can_seek(path):
  return os.path.isfile(path) and not compression_type([path])


def _count_file(path):
  """Counts a file's records, without reading them where it can seek."""
  if not _can_seek(path):
    try:
      return sum(1 for _ in iterate_records(path))
    except tf.errors.DataLossError as error:
      raise ValueError("%s is cut off or damaged (%s); copy it again" % (
          path, error.message)) from error
  size, position, count = os.path.getsize(path), 0, 0
  # Without a buffer, which each seek would fill anew.
  with open(path, "rb", buffering=0) as reader:
    while position < size:
      reader.seek(position)
      header = reader.read(8)
      if len(header) == 8:
        # A record's length, its checksum, the record, its checksum.
        position += struct.unpack("<Q", header)[0] + 16
      if len(header) < 8 or position > size:
        raise ValueError("%s is cut off in its record number %d; copy it again"
                         % (path, count + 1))
      count += 1
  return count


# ----------------------------------------------------------------- the stream


class Worker(collections.namedtuple(
    "Worker", ["index", "num_workers", "num_replicas"])):
  """Who reads: one of several workers, for how many replicas."""


def find_worker(input_context=None):
  """The worker that an input function is called for.

  Args:
    input_context: tf.distribute.InputContext, or None where one process reads
      for one replica.

  Returns:
    Worker.
  """
  if input_context is None:
    return Worker(0, 1, 1)
  workers = input_context.num_input_pipelines
  return Worker(input_context.input_pipeline_id, workers,
                max(1, input_context.num_replicas_in_sync // workers))


class Epochs(collections.namedtuple("Epochs", ["make", "num_records"])):
  """The epochs of a worker.

  make: function of (epoch, an int64 Tensor []), returns a Dataset of keys:
    serialized records, or whatever else `load` takes.
  num_records: int, in each of them.
  """


def file_epochs(paths, counts, seed, worker, num_cpu_threads=4,
                shuffle_records=SHUFFLE_RECORDS):
  """Epochs over record files: in a new order each time, shuffled.

  The files' order is new in each epoch, several are read in turn, and each
  record is drawn from those that `shuffle_records` hold: as before, records
  that are far from each other in one file do not meet. A record is seen once
  an epoch; the end of an epoch and the begin of the next do not mix.

  Args:
    paths: list of paths.
    counts: list of ints, the files' numbers of records.
    seed: int.
    worker: Worker; it gets files of its own or, where there are fewer files
      than workers, every num_workers-th record.
    num_cpu_threads: int, how many files are read at once.
    shuffle_records: int.

  Returns:
    Epochs.

  Raises:
    ValueError: there are fewer records than workers.
  """
  paths, num_records, by_record = _share(paths, counts, worker)
  compression = compression_type(paths)
  cycle = min(_FILES_AT_ONCE, len(paths))

  def make(epoch):
    tf.set_random_seed(1)  # of this function: not the seed of whoever calls it
    order = tf.argsort(tf.random.stateless_uniform(
        [len(paths)], _seeds(seed, epoch, _FILE_ORDER)))
    files = tf.data.Dataset.from_tensor_slices(
        tf.gather(tf.constant(paths), order))
    records = files.interleave(
        lambda path: tf.data.TFRecordDataset(path, compression),
        cycle_length=cycle, block_length=_RECORDS_IN_TURN,
        num_parallel_calls=min(num_cpu_threads, cycle))
    if by_record:
      # All workers have the same order up to here, so none gets another's.
      records = records.shard(worker.num_workers, worker.index)
    return records.shuffle(min(shuffle_records, num_records),
                           seed=_draw(seed, epoch, _RECORD_ORDER),
                           reshuffle_each_iteration=False)

  return Epochs(make, num_records)


def _share(paths, counts, worker):
  """A worker's part of the files.

  Returns:
    (its paths, its number of records, whether it takes every n-th record only).
  """
  index, num_workers = worker.index, worker.num_workers
  by_record = len(paths) < num_workers
  if by_record:
    num_records = (sum(counts) - index + num_workers - 1) // num_workers
  else:
    paths = paths[index::num_workers]
    num_records = sum(counts[index::num_workers])
  if num_records < 1:
    raise ValueError("there are %d records for %d workers, and worker %d gets"
                     " none; give more records or fewer workers" % (
                         sum(counts), num_workers, index))
  if num_workers > 1:
    tf.logging.info(
        "worker %d of %d reads %d records: %s", index, num_workers,
        num_records, "every %d-th" % num_workers if by_record else
        "%d files of its own" % len(paths))
  return paths, num_records, by_record


def index_epochs(num_records, seed, worker):
  """Epochs over the numbers from 0 to num_records - 1, fully shuffled.

  Args:
    num_records: int.
    seed: int.
    worker: Worker; it gets every num_workers-th.

  Returns:
    Epochs.

  Raises:
    ValueError: there are fewer records than workers.
  """
  _, count, _ = _share([], [num_records], worker)

  def make(epoch):
    tf.set_random_seed(1)  # of this function: not the seed of whoever calls it
    return tf.data.Dataset.range(
        worker.index, num_records, worker.num_workers).shuffle(
            count, seed=_draw(seed, epoch, _RECORD_ORDER),
            reshuffle_each_iteration=False)

  return Epochs(make, count)


def any_seed(seed):
  """The seed; for None, one that nobody can foresee."""
  return random.SystemRandom().getrandbits(31) if seed is None else seed


def _seeds(seed, number, purpose):
  """The pair of seeds of a stateless op, int64 Tensor [2]."""
  # Below 2^31, as TensorFlow takes seeds; by a prime, so that neighbours differ.
  mixed = (seed * 1000003 + purpose) % (2**31 - 1)
  return tf.stack([tf.constant(mixed, tf.int64), tf.cast(number, tf.int64)])


def _draw(seed, number, purpose):
  """A seed for a dataset's op, int64 Tensor []."""
  return tf.cast(tf.random.stateless_uniform(
      [], _seeds(seed, number, purpose), minval=1, maxval=2**31 - 1,
      dtype=tf.int32), tf.int64)


def train_batches(epochs, load, seed, batch_size, num_replicas=1, start_step=0,
                  num_cpu_threads=4, lengths=None, within_epochs=False):
  """The batches of an endless training, from a step on.

  The replicas of a worker take consecutive batches of one stream: R replicas
  with batches of B see in each step what one with R * B would.

  With `lengths`, the records of WINDOW_STEPS steps are sorted by length, cut
  into steps, and these are shuffled. What is given up: a step's examples are of
  similar lengths instead of all. Which records share a window is as random as
  before, each is seen once an epoch, and a step's length says nothing of those
  around it. The steps' order is the same for all workers, so that none waits for
  one with longer sequences.

  With `within_epochs`, too, a window ends with its epoch, however short it is:
  of small sets a window would have several epochs, and a step the same record
  several times. Steps still do not end with epochs.

  Args:
    epochs: Epochs.
    load: function of keys [B], returns a dict of Tensors [B, ...].
    seed: int.
    batch_size: int, B.
    num_replicas: int, R.
    start_step: int, how many steps were made before.
    num_cpu_threads: int, how many batches are loaded at once.
    lengths: function of keys [n], returns their lengths, int32 Tensor [n];
      None leaves the records as they come.
    within_epochs: bool.

  Returns:
    Dataset of what `load` returns.
  """
  step_records = batch_size * num_replicas
  if lengths and within_epochs:
    epochs, lengths = _sorted_epochs(epochs, lengths, seed, step_records), None
  window = WINDOW_STEPS if lengths else 1
  windows, steps = divmod(start_step, window)
  epoch, skipped = divmod(windows * window * step_records, epochs.num_records)
  keys = tf.data.Dataset.range(epoch, _FOR_EVER).flat_map(epochs.make).skip(
      skipped)
  if lengths:
    keys = keys.batch(window * step_records, drop_remainder=True)
    numbers = tf.data.Dataset.range(windows, _FOR_EVER)
    keys = tf.data.Dataset.zip((numbers, keys)).map(
        lambda number, keys: _sort_window(
            keys, lengths(keys), _seeds(seed, number, _WINDOW_ORDER)),
        num_parallel_calls=2).flat_map(
            tf.data.Dataset.from_tensor_slices).skip(steps * step_records)
  return keys.batch(batch_size, drop_remainder=True).map(
      load, num_parallel_calls=num_cpu_threads).prefetch(4)


def _sort_window(keys, lengths, seeds):
  """Keys sorted by length, whole steps shuffled; Tensors [n]."""
  by_length = tf.argsort(lengths, stable=True)
  by_length = tf.reshape(by_length, [WINDOW_STEPS, -1])
  return tf.gather(keys, tf.reshape(_shuffle_rows(by_length, seeds), [-1]))


def _shuffle_rows(rows, seeds):
  order = tf.argsort(tf.random.stateless_uniform([tf.shape(rows)[0]], seeds))
  return tf.gather(rows, order)


def _sorted_epochs(epochs, lengths, seed, step_records):
  """Epochs whose windows are sorted; arguments as of `train_batches`.

  A step that begins in one window and ends in the next, or in the next epoch,
  is made of two parts: stretches of the sorted windows that begin at the same
  share of both, so that their lengths are similar.
  """
  window_records = WINDOW_STEPS * step_records
  num_windows = -(-epochs.num_records // window_records)

  def make(epoch):
    # What the last step of the epoch before lacks.
    missing = -epoch * epochs.num_records % step_records

    def sort(number, keys):
      number += epoch * num_windows
      # Not by tokens that no batch is cropped by: a small set is one window,
      # whose examples would have the same neighbours in every epoch.
      order = tf.argsort(cropped_length(lengths(keys)), stable=True)
      size = tf.size(keys, out_type=tf.int64)
      first = tf.minimum(missing, size)
      last = (size - first) % step_records
      head, order = _take(order, first, _seeds(seed, number, _BORDER))
      tail, order = _take(order, last, _seeds(seed, number + 1, _BORDER))
      steps = _shuffle_rows(tf.reshape(order, [-1, step_records]),
                            _seeds(seed, number, _WINDOW_ORDER))
      return tf.gather(keys, tf.concat(
          [head, tf.reshape(steps, [-1]), tail], axis=0))

    keys = epochs.make(epoch).batch(window_records)
    return tf.data.Dataset.zip((tf.data.Dataset.range(num_windows), keys)).map(
        sort, num_parallel_calls=2).flat_map(
            tf.data.Dataset.from_tensor_slices)

  return Epochs(make, epochs.num_records)


def _take(values, count, seeds):
  """A stretch of `count` values, and the others; where is drawn."""
  share = tf.random.stateless_uniform([], seeds, dtype=tf.float64)
  room = tf.cast(tf.size(values, out_type=tf.int64) - count + 1,
                 tf.float64)
  begin = tf.cast(share * room, tf.int64)
  end = begin + count
  return values[begin:end], tf.concat([values[:begin], values[end:]], axis=0)


# ------------------------------------------------------------------- features

# The features that have a place for each token; both runners' records do.
SEQUENCES = ("input_ids", "input_mask", "segment_ids")


def to_int32(features):
  """Casts what records hold as int64, which a TPU does not have.

  Args:
    features: dict, name -> Tensor.

  Returns:
    dict; other types stay.
  """
  return {name: tf.cast(tensor, tf.int32) if tensor.dtype == tf.int64 else
          tensor for name, tensor in features.items()}


# -------------------------------------------------------------------- lengths


def check_bucket_flags(options):
  """Raises a ValueError where --bucket_by_length cannot work.

  Args:
    options: object with the flags as attributes.
  """
  if not options.bucket_by_length:
    return
  for flag in ("use_tpu", "use_xla"):
    if getattr(options, flag, False):
      raise ValueError(
          "--bucket_by_length makes batches of many lengths, but --%s compiles"
          " the model for each shape; leave one of them out" % flag)


def sequence_lengths(input_mask):
  """Number of tokens up to the last one that is no padding.

  Args:
    input_mask: int Tensor [B, S].

  Returns:
    int32 Tensor [B].
  """
  places = tf.range(1, tf.shape(input_mask)[1] + 1)
  return tf.reduce_max(
      tf.cast(tf.not_equal(input_mask, 0), tf.int32) * places, axis=1)


def cropped_length(length):
  """A length (int or Tensor) rounded up to LENGTH_MULTIPLE."""
  return (length + LENGTH_MULTIPLE - 1) // LENGTH_MULTIPLE * LENGTH_MULTIPLE


def crop(features, names):
  """Cuts off what is padding in all sequences of a batch.

  Args:
    features: dict of Tensors, "input_mask" among them.
    names: list of strings, which are int Tensors [B, S].

  Returns:
    dict; in these S is the longest length, rounded up to LENGTH_MULTIPLE.
  """
  longest = tf.maximum(tf.reduce_max(sequence_lengths(features["input_mask"])),
                       1)
  longest = cropped_length(longest)
  cropped = dict(features)
  for name in names:
    cropped[name] = features[name][:, :longest]
  return cropped
