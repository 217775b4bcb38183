"""Classification examples to records, with all cores; no TensorFlow here.

    settings = Settings(["0", "1"], 128, "single", "head", None)
    with complete_file("lcqmc.train.tf_record") as writer:
      for chunk in convert(examples, settings, tokenizer, num_workers=8):
        writer.write(chunk.content)

The workers are processes that run this file, started anew and not forked:
TensorFlow's threads do not survive a fork, and to import it takes longer than
to convert most data sets. They get examples and return bytes by a pipe, and end
when its other end is closed, be it because the main process was killed. Only
the main process writes, in the order of the examples, so that the bytes do not
depend on the number of workers.
"""

import collections
import contextlib
import fcntl
import io
import itertools
import multiprocessing
import multiprocessing.connection
import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid

from absl import logging
import numpy as np

import classifier_tasks
import classifier_utils
import tfrecord_utils
import tokenization

# A second of work in characters, with what an example takes beside its text.
# With less, workers would take longer to start than they save.
_SMALL_CHARACTERS, _EXAMPLE_CHARACTERS = 2000000, 80
# A chunk ends at either; of long texts there may be many windows.
_CHUNK_EXAMPLES, _CHUNK_CHARACTERS = 256, 200000
# Chunks that wait for one before them to be written, for each worker.
_CHUNKS_AHEAD = 4
_PROGRESS_SECONDS = 5.0
# A file that another machine has not touched for so long is of no use to it.
_ABANDONED_SECONDS = 3600
_TEMPORARY = re.compile(
    r".+\.tf_record(?:\.index\.json)?\.tmp-(?:(?P<host>\w*)-)?[0-9a-f]{32}")

# What the records depend on, beside examples and tokenizer: list of strings,
# int, and three as `classifier_utils.convert_example` has them.
Settings = collections.namedtuple("Settings", [
    "label_list", "max_seq_length", "task_type", "long_text", "stride"])

# Features in the order in which protobuf serializes a map: by name. Int arrays
# [N, S]; [N]; [N], or [N, L] of 0 and 1, or float32 [N]; [N, S].
FeatureBatch = collections.namedtuple("FeatureBatch", [
    "input_ids", "input_mask", "is_real_example", "label_ids", "segment_ids"])

# content: uint8 array, framed records. examples: int array [N], the number of
# the example that each record is of. lengths: int array [N], in tokens.
Chunk = collections.namedtuple("Chunk", ["content", "examples", "lengths"])


class WorkerError(Exception):
  """A worker process failed; the message says what to do."""


# ------------------------------------------------------------------ converting


def convert(examples, settings, tokenizer, num_workers=1, name="examples"):
  """Converts examples into records.

  Args:
    examples: list of InputExample or PaddingInputExample.
    settings: Settings.
    tokenizer: FullTokenizer. Any other class with its methods will do, but
      works in this process only: it might not come through a pipe.
    num_workers: int, processes; few examples are converted in this one.
    name: string, for the progress in the log.

  Yields:
    Chunks, in the order of the examples.

  Raises:
    DataError: see `classifier_utils.convert_single_example`.
    WorkerError: a worker died.
  """
  num_workers = min(num_workers, len(examples))
  if (num_workers < 2 or _is_small(examples) or not sys.executable or
      type(tokenizer) is not tokenization.FullTokenizer):
    chunks = (_convert_chunk(settings, tokenizer, *chunk)
              for chunk in _cut(examples))
  else:
    chunks = _convert_in_workers(examples, settings, tokenizer, num_workers)
  progress = _Progress(name, len(examples))
  with contextlib.closing(chunks):
    for chunk in chunks:
      yield chunk
      progress.show(chunk.examples[-1] + 1)


def _is_small(examples):
  size = 0
  for example in examples:
    size += _EXAMPLE_CHARACTERS + _characters(example)
    if size >= _SMALL_CHARACTERS:
      return False
  return True


def _characters(example):
  if isinstance(example, classifier_utils.PaddingInputExample):
    return 0
  return len(example.text_a) + len(example.text_b or "")


def _cut(examples):
  """Yields (number of the first example, list of (guid, a, b, label))."""
  begin, fields, size = 0, [], 0
  for number, example in enumerate(examples):
    # Not the objects: their class may be one that a worker cannot import.
    fields.append(
        None if isinstance(example, classifier_utils.PaddingInputExample) else
        (example.guid, example.text_a, example.text_b, example.label))
    size += _characters(example)
    if len(fields) == _CHUNK_EXAMPLES or size >= _CHUNK_CHARACTERS:
      yield begin, fields
      begin, fields, size = number + 1, [], 0
  if fields:
    yield begin, fields


def _convert_chunk(settings, tokenizer, begin, fields):
  """Converts what `_cut` yields; returns a Chunk."""
  features, numbers = [], []
  for number, row in enumerate(fields, start=begin):
    example = (classifier_utils.PaddingInputExample() if row is None else
               classifier_utils.InputExample(*row))
    made = classifier_utils.convert_example(
        number, example, settings.label_list, settings.max_seq_length,
        tokenizer, settings.task_type, settings.long_text, settings.stride)
    features += made
    numbers += [number] * len(made)
  batch = feature_batch(features, settings.task_type)
  content, _ = tfrecord_utils.serialize_batch(batch)
  return Chunk(content, np.array(numbers, np.int64),
               batch.input_mask.sum(axis=1, dtype=np.int64))


def feature_batch(features, task_type):
  """A list of InputFeatures, one or more, as a FeatureBatch."""
  shape = [len(features), len(features[0].input_ids)]

  def bits(name):
    # Four times as fast as np.array; np.fromiter is twice as fast.
    return np.frombuffer(b"".join(bytes(getattr(feature, name))
                                  for feature in features),
                         np.uint8).reshape(shape)

  return FeatureBatch(
      input_ids=np.fromiter(
          itertools.chain.from_iterable(f.input_ids for f in features),
          np.int32, shape[0] * shape[1]).reshape(shape),
      input_mask=bits("input_mask"), segment_ids=bits("segment_ids"),
      is_real_example=np.array([int(f.is_real_example) for f in features]),
      label_ids=np.array(
          [f.label_id for f in features],
          np.float32 if task_type == "regression" else np.int64))


class _Progress(object):
  """Logs how far a conversion is, now and then."""

  def __init__(self, name, total):
    self._name, self._total = name, total
    self._begin = self._last = time.time()

  def show(self, done):
    """Logs a line if it is time, and after the last example."""
    now = time.time()
    if done < self._total and now - self._last < _PROGRESS_SECONDS:
      return
    self._last = now
    rate = done / max(1e-3, now - self._begin)
    logging.info("%s: %d of %d examples converted, %d/s, %d s left",
                 self._name, done, self._total, rate,
                 (self._total - done) / rate)


# --------------------------------------------------------------------- workers


def _convert_in_workers(examples, settings, tokenizer, num_workers):
  """Yields the Chunks of all examples, in their order."""
  chunks = enumerate(_cut(examples))
  finished, written, sent = {}, 0, 0
  pool = _WorkerPool(num_workers, settings, tokenizer)
  try:
    while True:
      while pool.idle and sent < written + _CHUNKS_AHEAD * num_workers:
        number, chunk = next(chunks, (None, None))
        if chunk is None:
          break
        pool.start(number, chunk)
        sent = number + 1
      if written == sent:
        return
      finished.update(pool.wait())
      while written in finished:
        chunk = finished.pop(written)
        if isinstance(chunk, Exception):
          raise chunk
        yield chunk
        written += 1
  finally:
    pool.close()


class _WorkerPool(object):
  """Processes that convert chunks; a dead one is noticed."""

  def __init__(self, num_workers, settings, tokenizer):
    self._processes, self._connections, self.idle = {}, {}, []
    self._numbers = {}  # of the chunks that are being converted
    try:
      for worker in range(num_workers):
        self._add(worker)
        self._send(worker, (settings, tokenizer))
    except BaseException:
      self.close()
      raise

  def _add(self, worker):
    ours, theirs = multiprocessing.Pipe()
    self._connections[worker] = ours
    with contextlib.closing(theirs):
      self._processes[worker] = subprocess.Popen(
          [sys.executable, os.path.abspath(__file__), str(theirs.fileno())],
          stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
    self.idle.append(worker)

  def _send(self, worker, message):
    try:
      self._connections[worker].send(message)
    except OSError:
      self._raise_death(worker)

  def start(self, number, chunk):
    """Gives a chunk to an idle worker."""
    # One at a time: with two under way both ends could wait to be read.
    worker = self.idle.pop()
    self._numbers[worker] = number
    self._send(worker, chunk)

  def wait(self):
    """Waits until some worker is done; returns {chunk's number: Chunk}."""
    workers = {self._connections[worker]: worker for worker in self._numbers}
    results = {}
    for connection in multiprocessing.connection.wait(list(workers)):
      worker = workers[connection]
      try:
        result = connection.recv()
      except (EOFError, OSError):
        self._raise_death(worker)
      results[self._numbers.pop(worker)] = result
      self.idle.append(worker)
    return results

  def _raise_death(self, worker):
    code = self._processes[worker].wait()
    how = "with code %d" % code
    if code < 0:
      how = "by signal %d%s" % (
          -code, " (was there not enough memory?)" * (code == -signal.SIGKILL))
    raise WorkerError(
        "a process that converts examples ended %s; run the same command again,"
        " with a smaller --num_workers where memory is short" % how)

  def close(self):
    for connection in self._connections.values():
      connection.close()
    for process in self._processes.values():
      process.kill()
      process.wait()


def work(connection):
  """What a worker does: chunks, until the other end is closed.

  Args:
    connection: multiprocessing.connection.Connection.
  """
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent will end it
  try:
    settings, tokenizer = connection.recv()
    while True:
      chunk = connection.recv()
      try:
        result = _convert_chunk(settings, tokenizer, *chunk)
      except classifier_utils.DataError as error:
        result = error
      except MemoryError:
        result = WorkerError(
            "a process that converts examples ran out of memory; run the same"
            " command again with a smaller --num_workers")
      connection.send(result)
  except (EOFError, OSError):
    pass  # The other end is closed: nobody wants to know more.


# ----------------------------------------------------------------------- files


def complete_file(path):
  """Opens a file that gets its name when all of it is written.

  A local one has a lock meanwhile: see `remove_leftovers`.

  Args:
    path: string, a local path or one that tf.gfile understands.

  Returns:
    Context manager that gives a writer of bytes.
  """
  files = classifier_tasks.remote_files(path)
  return _complete_remote_file(files, path) if files else (
      _complete_local_file(path))


@contextlib.contextmanager
def _complete_remote_file(files, path):
  temporary = _temporary_name(path)
  try:
    with files.GFile(temporary, "wb") as writer:
      yield writer
    files.Rename(temporary, path, overwrite=True)
  finally:
    if files.Exists(temporary):
      files.Remove(temporary)


@contextlib.contextmanager
def _complete_local_file(path):
  temporary, writer = _locked_file(path)
  try:
    with writer:
      yield writer
      writer.flush()
      os.fsync(writer.fileno())
      os.replace(temporary, path)
  except OSError as error:
    error.filename = error.filename or path  # a write does not know it
    raise
  finally:
    if os.path.exists(temporary):
      os.remove(temporary)


def _temporary_name(path):
  return "%s.tmp-%s-%s" % (path, _host(), uuid.uuid4().hex)


def _host():
  return re.sub(r"\W", "_", socket.gethostname())


def _locked_file(path):
  """Makes a temporary file for a path; returns (its path, its writer)."""
  while True:
    temporary = _temporary_name(path)
    writer = io.open(temporary, "wb")
    if _lock(writer) is not False and os.path.exists(temporary):
      return temporary, writer
    writer.close()  # Another process took it for a leftover: it removes it.


def _lock(file):
  """Whether a file is locked now; None where its file system has no locks."""
  try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True
  except BlockingIOError:
    return False
  except OSError:
    return None


def remove_leftovers(folder):
  """Removes the temporary files of conversions that did not end.

  Those of a conversion that is running have to stay. On this machine it has a
  lock on its file. Locks of others may not be seen here; it is also long since
  one that died has written.

  Args:
    folder: string, a local path or one that tf.gfile understands.
  """
  files = classifier_tasks.remote_files(folder)
  names = (files.ListDirectory(folder) if files else os.listdir(folder))
  for name in sorted(names):
    match, path = _TEMPORARY.fullmatch(name), os.path.join(folder, name)
    if not match:
      continue
    if files:
      seconds = files.Stat(path).mtime_nsec / 1e9
      is_removed = time.time() - seconds > _ABANDONED_SECONDS
      if is_removed:
        files.Remove(path)
    else:
      is_removed = _remove_abandoned(path, match.group("host") == _host())
    if is_removed:
      logging.info("removed %s, of a conversion that did not end", path)


def _remove_abandoned(path, is_own):
  """Removes a temporary file unless it may be in use; returns whether."""
  try:
    with io.open(path, "rb+") as file:
      is_locked = _lock(file)
      age = time.time() - os.fstat(file.fileno()).st_mtime
      if is_locked is False or (
          age < _ABANDONED_SECONDS and not (is_own and is_locked)):
        return False
      os.remove(path)
      return True
  except OSError:  # It has just got its name, or is another user's.
    return False


if __name__ == "__main__":
  # By its name, which the main process knows the classes by, too.
  import feature_utils
  feature_utils.work(multiprocessing.connection.Connection(int(sys.argv[1])))
