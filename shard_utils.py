"""A stream of documents to shards of records: in parallel, and restartable.

The work goes through a folder of files, so that little is in memory:

 1. The documents are read once, in the order of the input, and dealt out to one
    text file a shard: of every n documents in a row each of n shards gets one,
    at random. A shard of more than GROUP_BYTES of text or GROUP_INSTANCES is
    worked through in groups, random samples of its documents.
 2. Tokenize: a piece of a group, about PIECE_BYTES of text, becomes an array
    of tokens and a plan: which spans of it are instances, each with a random
    place among all instances of the group.
 3. Create: a slice of the group's instances, by their places, becomes records.
    So the instances of a group are shuffled throughout.
 4. The slices are appended to the shard in order. A shard has its name only
    when it is complete.

2 and 3 are the tasks of the worker processes, 1 and 4 are done here. What is in
which file depends on input, options and seed, not on the workers.

A file counts when it has its final name, which it gets when it is complete. A
run that was killed is started again with the same settings and takes what is
there; with other settings it starts anew. The folder is locked: the workers of
a killed run, too, have to end before the next one starts.

Disk: the text once, then for the groups being worked on, of 64 MB of text or
less, four bytes a token, 36 an instance, and their records; each is removed as
soon as what is made of it is complete.
"""

import collections
import contextlib
import ctypes
import fcntl
import hashlib
import io
import json
import multiprocessing
import multiprocessing.connection
import os
import random
import resource
import shutil
import signal
import sys
import time

from absl import logging
import numpy as np

import tfrecord_utils
from corpus_utils import DataError
from corpus_utils import Document

# A group or a piece ends at so much text, or at so many expected instances:
# of short instances there are many of little text.
GROUP_BYTES, GROUP_INSTANCES = 2**26, 2**20
PIECE_BYTES, PIECE_INSTANCES = 2**18, 2**15
SLICE_INSTANCES = 2048
BATCH_INSTANCES = 256

# Sentences for sentence_pair_task=nsp come from documents of the same piece.
_MIN_PIECE_DOCUMENTS = 4
_BUFFERED_BYTES = 2**24
_LOCK_SECONDS = 20
_STATE = "state.json"


def write_shards(read, job, output_files, settings, work_dir, num_workers,
                 compress=False, reread=False, on_start=None, on_end=None,
                 progress=None):
  """Writes the shards.

  Args:
    read: function from a collections.Counter, which it fills, to an iterable of
      corpus_utils.Documents.
    job: object with the methods `expected_instances`, `tokenize` and
      `create_batch` of instance_utils.InstanceCreator.
    output_files: list of paths.
    settings: dict that json can write, of all that the records depend on.
    work_dir: path of a folder for this purpose, made here, removed at the end;
      None for a hidden one beside the first output file.
    num_workers: int.
    compress: bool, whether the shards are gzip files.
    reread: bool, whether to read the input again if it has been read by a run
      that was killed, because nothing else tells whether it is the same.
    on_start: function called when the input has been read, before the first
      output file is touched.
    on_end: function called when all files are complete, of what is returned.
    progress: Progress, or None for one of default settings.

  Returns:
    (collections.Counter, list of the number of instances of each file).

  Raises:
    DataError: says what is wrong with the input.
    RunError: the machine failed; the same command goes on from there.
    OSError: a file cannot be read or written.
  """
  progress = progress or Progress()
  with _WorkFolder(work_dir, output_files) as folder:
    state = folder.resume(settings, output_files)
    if state is None or reread:
      documents = _deal_documents(folder, read, len(output_files), reread,
                                  progress)
      state = _new_state(folder, settings, state, *documents)
    if on_start and not state["started"]:
      on_start()
      state["started"] = True
      folder.write_json(_STATE, state)
    shards = [_Shard(folder, job, number, path, state["bytes"][number], compress)
              for number, path in enumerate(output_files)]
    progress.begin(shards)
    workers = _WorkerPool(num_workers, job)
    try:
      _Scheduler(shards, workers, progress).run()
    finally:
      workers.close()
    progress.end()
    counts = collections.Counter(state["counts"])
    for shard in shards:
      counts.update(shard.counts)
    instances_per_file = [shard.counts["instances"] for shard in shards]
    if on_end:
      on_end(counts, instances_per_file)
    folder.remove()
  return counts, instances_per_file


class RunError(Exception):
  """A failure of the machine; the message says what to do."""


# ----------------------------------------------------------------- the folder


class _OutputLock(object):
  """Keeps other runs away from output files of a folder.

  A hidden folder beside them has a file that is locked as long as this process
  lives, or one that it has forked, and that says which files are meant.
  """

  def __init__(self, paths):
    """Args: paths, list of paths of files, all in the same folder."""
    self._folder = os.path.dirname(paths[0])
    self._names = [os.path.basename(path) for path in paths]
    self.path = os.path.join(self._folder, ".%s.work" % self._names[0])
    self._file = None

  def acquire(self):
    """Raises RunError if another run is at work on one of the files."""
    begin = time.time()
    while not self._try():
      if time.time() - begin > _LOCK_SECONDS:
        raise RunError("another run is at work on the same output, its folder"
                       " is %s; wait for it, or stop it" % self.path)
      time.sleep(0.2)
    self._file.truncate(0)  # only now: till then the names are another run's
    json.dump(self._names, self._file)
    self._file.flush()
    # First written, then looked: of two runs at least one sees the other.
    for name in sorted(os.listdir(self._folder or ".")):
      other = os.path.join(self._folder, name)
      if (name.startswith(".") and name.endswith(".work") and
          other != self.path):
        self._look_at(other)

  def _try(self):
    os.makedirs(self.path, exist_ok=True)
    self._file = _locked_file(os.path.join(self.path, "lock"), "a")
    return self._file is not None

  def _look_at(self, other):
    """Looks at the folder of a run for other files."""
    try:
      with io.open(os.path.join(other, "lock")) as reader:
        names = json.load(reader)
      lock = _locked_file(os.path.join(other, "lock"), "r")
    except (OSError, ValueError):
      return
    common = sorted(set(names) & set(self._names))
    if lock is None:
      if common:
        self.release()
        raise RunError("another run is at work on %s, its folder is %s; wait"
                       " for it, or stop it" % (", ".join(common), other))
      return
    lock.close()
    if common:
      logging.info("%s is of a run for some of these files that did not end;"
                   " it is removed", other)
      shutil.rmtree(other)
    else:
      logging.warning(
          "%s is of a run for %s that did not end; if it is not to go on, remove"
          " it, and those of its files that are there", other,
          names[0] if len(names) == 1 else "%s ... %s" % (names[0], names[-1]))

  def release(self):
    """Lets others have the files; what is in the hidden folder stays."""
    self._file.close()

  def remove(self):
    """Removes the hidden folder, which has to be empty by now."""
    os.remove(os.path.join(self.path, "lock"))
    os.rmdir(self.path)


def _locked_file(path, mode):
  """Opens and locks a file; None if another process has the lock."""
  try:
    file = io.open(path, mode)
  except FileNotFoundError:
    return None
  try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # Not the file that a run which has just ended has removed.
    if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
      return file
  except (BlockingIOError, FileNotFoundError):
    pass
  file.close()
  return None


class _WorkFolder(object):
  """The folder of a run's files, for as long as its outputs are locked."""

  def __init__(self, path, output_files):
    """Args: path, or None for the hidden folder beside the first output."""
    folders = collections.OrderedDict()
    for output_file in output_files:
      folders.setdefault(os.path.dirname(output_file), []).append(output_file)
    self._locks = [_OutputLock(paths) for paths in folders.values()]
    self.path = path or self._locks[0].path
    self.goes_on = False  # whether there is work of an earlier run

  def __enter__(self):
    acquired = []
    try:
      for lock in self._locks:
        lock.acquire()
        acquired.append(lock)
      os.makedirs(self.path, exist_ok=True)
    except BaseException:
      for lock in acquired:
        lock.release()
      raise
    return self

  def __exit__(self, kind, *unused_error):
    # The same again would fail again; but not what an earlier run could do.
    if kind and issubclass(kind, DataError) and not self.goes_on:
      self.remove()
    for lock in self._locks:
      lock.release()

  def file(self, *names):
    return os.path.join(self.path, *names)

  def write_json(self, name, content):
    path = self.file(name + ".tmp")
    with _naming_file(path), io.open(path, "w") as writer:
      json.dump(content, writer)
      writer.flush()
      os.fsync(writer.fileno())
    os.replace(self.file(name + ".tmp"), self.file(name))

  def read_json(self, name):
    """The content of a file; None where there is none."""
    try:
      with io.open(self.file(name)) as reader:
        return json.load(reader)
    except FileNotFoundError:
      return None

  def resume(self, settings, output_files):
    """The state that a run with the same settings left, or None.

    What another run left is removed.
    """
    state = self.read_json(_STATE)
    if state is None:
      self.clear()
      return None
    other = sorted(key for key in set(settings) | set(state["settings"])
                   if settings.get(key) != state["settings"].get(key))
    if other:
      logging.info("%s is of a run with other settings (%s): starting anew",
                   self.path, ", ".join(other))
    elif all(_complete_shard_is_there(self, number, path)
             for number, path in enumerate(output_files)):
      logging.info("going on with the run that stopped; its files are in %s",
                   self.path)
      self.goes_on = True
      return state
    else:
      logging.info("finished output files have disappeared: starting anew")
    self.clear()
    return None

  def clear(self, keep=("lock",)):
    """Removes what is in the folder, the state first."""
    for name in sorted(os.listdir(self.path), key=lambda name: name != _STATE):
      if not name.endswith(keep):
        if os.path.isdir(self.file(name)):
          shutil.rmtree(self.file(name))
        else:
          os.remove(self.file(name))

  def remove(self):
    self.clear()
    if self.path not in [lock.path for lock in self._locks]:
      os.rmdir(self.path)
    for lock in self._locks:
      lock.remove()


# ------------------------------------------------------------ dealing out text

# A row of an index: offset and length in the text, then the Document's place.
_INDEX_COLUMNS = 4


def _text_name(shard):
  return "shard-%05d.text" % shard


def _index_name(shard):
  return "shard-%05d.index" % shard


def _deal_documents(folder, read, num_shards, with_digest, progress):
  """Deals the documents out to the shards' text files.

  Returns:
    (counts, list of the shards' bytes of text, digest of all text or None).
  """
  for shard in range(num_shards):
    for name in (_text_name(shard), _index_name(shard)):
      io.open(folder.file(name), "wb").close()
  counts, digest = collections.Counter(), hashlib.sha256()
  texts = [bytearray() for _ in range(num_shards)]
  rows = [[] for _ in range(num_shards)]
  sizes, buffered, order, num_documents = [0] * num_shards, 0, [], 0
  for document in read(counts):
    if not order:
      order = list(range(num_shards))
      random.Random(num_documents).shuffle(order)
    shard = order.pop()
    text = "\n".join(document.lines).encode("utf-8")
    if with_digest:
      digest.update(b"%d %d %d " % (document.file_index, document.number,
                                    len(text)) + text)
    texts[shard] += text
    rows[shard].append((sizes[shard], len(text), document.file_index,
                        document.number))
    sizes[shard] += len(text)
    num_documents += 1
    buffered += len(text) + 100
    if buffered > _BUFFERED_BYTES:
      _append_documents(folder, texts, rows)
      buffered = 0
    progress.add_read_bytes(len(text))
  _append_documents(folder, texts, rows)
  if not num_documents:
    raise DataError("the input has no document of two characters or more, %d"
                    " shorter ones" % counts["dropped_documents"])
  if num_documents < num_shards:
    raise DataError("there are %d documents of two characters or more in the"
                    " input for %d output files; make fewer files" % (
                        num_documents, num_shards))
  return counts, sizes, digest.hexdigest() if with_digest else None


def _new_state(folder, settings, old_state, counts, sizes, digest):
  """The state after reading; the old one, if the same has been read."""
  if old_state and old_state["digest"] == digest:
    return old_state
  if old_state:
    logging.info("the input is another one than before: starting anew")
    folder.clear(keep=("lock", ".text", ".index"))
  state = {"settings": settings, "digest": digest, "counts": counts,
           "bytes": sizes, "started": False}
  folder.write_json(_STATE, state)
  return state


def _append_documents(folder, texts, rows):
  """Appends to the shards' files what is in memory, and forgets it."""
  for shard, text in enumerate(texts):
    if text or rows[shard]:
      for name, content in (
          (_text_name(shard), text),
          (_index_name(shard), np.array(rows[shard], "<i8").tobytes())):
        path = folder.file(name)
        with _naming_file(path), io.open(path, "ab") as writer:
          writer.write(content)
      del text[:]
      del rows[shard][:]


def _read_documents(text_path, rows):
  """The Documents at rows of an index, from a shard's text file."""
  documents = []
  with io.open(text_path, "rb") as reader:
    for offset, length, file_index, number in rows.tolist():
      reader.seek(offset)
      lines = reader.read(length).decode("utf-8").split("\n")
      documents.append(Document(lines, file_index, number))
  return documents


def _group_rows(index_path, num_groups, group):
  """The rows of an index that are of a group."""
  # The legacy generator: its numbers are the same in all versions of NumPy.
  rng = np.random.RandomState(0)
  found = []
  with io.open(index_path, "rb") as reader:
    while True:
      rows = np.frombuffer(reader.read(2**21), "<i8").reshape(
          -1, _INDEX_COLUMNS)
      if not len(rows):
        return np.concatenate(found)
      found.append(rows[rng.randint(num_groups, size=len(rows)) == group])


def _cut_pieces(rows, expected_instances):
  """Cuts rows of an index into pieces of enough text or documents."""
  begins, size = [0], 0
  for i, length in enumerate(rows[:, 1].tolist()):
    num_documents = i - begins[-1]
    if num_documents >= _MIN_PIECE_DOCUMENTS and (
        size >= PIECE_BYTES or
        expected_instances(num_documents, size) >= PIECE_INSTANCES):
      begins.append(i)
      size = 0
    size += length
  if len(begins) > 1 and len(rows) - begins[-1] < _MIN_PIECE_DOCUMENTS:
    begins.pop()
  return [rows[begin:end] for begin, end in zip(begins, begins[1:] +
                                                [len(rows)])]


# ----------------------------------------------------------------------- tasks


def _write_file(path, chunks):
  """Writes chunks of bytes to a file, which gets its name at the end."""
  with _naming_file(path), io.open(path + ".tmp", "wb") as writer:
    for chunk in chunks:
      writer.write(chunk)
  os.replace(path + ".tmp", path)


@contextlib.contextmanager
def _naming_file(path):
  """Puts the path into an error of writing to it, which has none."""
  try:
    yield
  except OSError as error:
    error.filename = error.filename or path
    raise


def _write_result(path, counts):
  """Writes the file that says that a task is done."""
  _write_file(path + ".json", [json.dumps(counts).encode("ascii")])
  return counts


def _read_result(path):
  try:
    with io.open(path + ".json") as reader:
      return json.load(reader)
  except FileNotFoundError:
    return None


def _tokenize_piece(job, path, text_path, rows):
  """A task: tokens and plan of a piece. Returns its counts."""
  tokens, plans, counts = job.tokenize(_read_documents(text_path, rows))
  _write_file(path + ".tokens", [tokens.tobytes()])
  sizes = []

  def contents():
    for plan in plans:
      sizes.append(len(plan))
      yield plan.tobytes()

  _write_file(path + ".plan", contents())
  return _write_result(path, dict(counts, planned=sum(sizes), plans=sizes,
                                  columns=tokens.shape[1]))


def _create_slice(job, path, pieces, columns, limits, compress):
  """A task: the records of a slice of a group. Returns its counts.

  Args:
    job: see `write_shards`.
    path: where the records go.
    pieces: list of (path of a piece, sizes of its plans), all of the group.
    columns: int, columns of the tokens.
    limits: (int, int), which places among the group's instances.
    compress: bool.
  """
  plan, sources = _read_plan(job.plan_dtype, pieces, limits)
  counts = collections.Counter()
  tokens = _TokenReader([piece for piece, _ in pieces], columns)

  part = tfrecord_utils.GzipPart()

  def records():
    for begin in range(0, len(plan), BATCH_INSTANCES):
      rows = slice(begin, begin + BATCH_INSTANCES)
      segments = [
          (tokens.read(source, spans[0], spans[1]),
           tokens.read(source, spans[2], spans[3]))
          for source, spans in zip(sources[rows].tolist(),
                                   plan["spans"][rows].tolist())]
      batch, batch_counts = job.create_batch(plan[rows], segments)
      counts.update(batch_counts)
      content, _ = tfrecord_utils.serialize_batch(batch)
      yield part.compress(content) if compress else content
    if compress:
      yield part.flush()

  try:
    _write_file(path + ".records", records())
  finally:
    tokens.close()
  return _write_result(path, dict(counts, crc=part.crc, length=part.length))


def _read_plan(dtype, pieces, limits):
  """The part of the pieces' plans between limits, put in order.

  Returns:
    (array [N] of the dtype, int array [N] of the number of the piece).
  """
  plans, sources = [], []
  for source, (piece, sizes) in enumerate(pieces):
    if not sum(sizes):
      continue
    # Sorted, so little more is read from the file than what is wanted.
    content = np.memmap(piece + ".plan", dtype, mode="r")
    first = 0
    for size in sizes:
      begin, end = first + np.searchsorted(
          content["order"][first:first + size], np.array(limits, np.uint64))
      plans.append(np.array(content[begin:end]))
      sources.append(np.full(end - begin, source))
      first += size
  plan, sources = np.concatenate(plans), np.concatenate(sources)
  order = np.argsort(plan["order"], kind="mergesort")
  return plan[order], sources[order]


class _TokenReader(object):
  """Reads spans of the tokens of pieces."""

  def __init__(self, pieces, columns):
    self._pieces = pieces
    self._columns = columns
    self._files = {}

  def read(self, piece, begin, end):
    if piece not in self._files:
      self._files[piece] = os.open(self._pieces[piece] + ".tokens", os.O_RDONLY)
    width = 4 * self._columns
    content = os.pread(self._files[piece], (end - begin) * width, begin * width)
    return np.frombuffer(content, "<i4").reshape(-1, self._columns)

  def close(self):
    for file in self._files.values():
      os.close(file)


# --------------------------------------------------------------------- workers


class _WorkerPool(object):
  """Processes that do tasks; a dead one is noticed.

  Forked, so that they share the dictionaries that are loaded already. A worker
  ends when the other end of its pipe is closed, be it by SIGKILL.
  """

  def __init__(self, num_workers, job):
    context = multiprocessing.get_context("fork")
    self._processes, self._connections = [], []
    for number in range(num_workers):
      ours, theirs = context.Pipe()
      self._connections.append(ours)
      process = context.Process(
          target=_work, args=(theirs, list(self._connections), job),
          name="worker %d" % number, daemon=True)
      process.start()
      theirs.close()
      self._processes.append(process)
    self.idle = list(range(num_workers))
    self.peak_bytes = [0] * num_workers

  def __len__(self):
    return len(self._processes)

  def start(self, function, arguments):
    """Gives a task to an idle worker; returns the worker's number."""
    worker = self.idle.pop()
    try:
      self._connections[worker].send((function, arguments))
    except OSError:
      self._raise_death(worker)
    return worker

  def wait(self, timeout):
    """Waits until some worker is done.

    Returns:
      List of (worker, result).
    """
    results = []
    waiting = {process.sentinel: number
               for number, process in enumerate(self._processes)}
    waiting.update({connection: number
                    for number, connection in enumerate(self._connections)})
    for ready in multiprocessing.connection.wait(list(waiting), timeout):
      worker = waiting[ready]
      if isinstance(ready, int):
        self._raise_death(worker)
      try:
        result, error, self.peak_bytes[worker] = ready.recv()
      except (EOFError, OSError):
        self._raise_death(worker)
      if error:
        raise error
      self.idle.append(worker)
      results.append((worker, result))
    return results

  def _raise_death(self, worker):
    process = self._processes[worker]
    process.join(5)
    code = process.exitcode
    how = ("was killed by signal %d%s" % (
        -code, " (was there not enough memory?)" if code == -9 else "")
           if code is not None and code < 0 else "ended with code %s" % code)
    raise RunError("a worker process %s; finished work is kept, the same"
                   " command goes on from there" % how)

  def close(self):
    for process in self._processes:
      process.terminate()
    for process in self._processes:
      process.join()


def _work(connection, connections_of_others, job):
  """What a worker does: tasks, until the other end is closed."""
  _die_with_parent()
  for inherited in connections_of_others:
    inherited.close()
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent will end it
  while True:
    try:
      function, arguments = connection.recv()
    except (EOFError, OSError):
      return
    result, error = None, None
    try:
      result = function(job, *arguments)
    except (DataError, OSError) as caught:
      error = caught
    except MemoryError:
      error = RunError("a worker process ran out of memory; run the same"
                       " command with a smaller --num_workers, finished work is"
                       " kept")
    try:
      connection.send((result, error, peak_bytes()))
    except OSError:
      return


def _die_with_parent():
  """Lets Linux kill this process when its parent is gone.

  Elsewhere it ends with the task that it is at.
  """
  try:
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
  except (OSError, AttributeError):
    pass


def num_cores():
  """The cores that this process may use."""
  if hasattr(os, "sched_getaffinity"):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def peak_bytes():
  """Peak of this process's resident memory."""
  unit = 1 if sys.platform == "darwin" else 1024
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


# ------------------------------------------------------------- groups, shards


class _Group(object):
  """A part of a shard whose instances are shuffled throughout."""

  def __init__(self, shard, number, rows):
    self.shard = shard
    self.text_bytes = int(rows[:, 1].sum())
    self.counts = collections.Counter()
    self.slices = None  # known when all pieces are tokenized
    self.checksums = {}  # (CRC-32, length) of each slice, before compression
    self._plans = {}  # sizes of each piece's plans
    self._path = shard.folder.file("shard-%05d.group-%05d" % (shard.number,
                                                              number))
    os.makedirs(self._path, exist_ok=True)
    self._rows = _cut_pieces(rows, shard.job.expected_instances)
    self._pieces = [self._file("piece-%05d", i) for i in range(len(self._rows))]
    self._columns = None
    self._missing = 0
    self.done_before = 0  # bytes of text of the tasks that a killed run did

  def _file(self, name, number):
    return os.path.join(self._path, name % number)

  def tokenize_tasks(self):
    """The tasks that are not done yet: (function, arguments, text bytes)."""
    text_path = self.shard.folder.file(_text_name(self.shard.number))
    return self._missing_tasks(
        (_tokenize_piece, (piece, text_path, rows), int(rows[:, 1].sum()))
        for piece, rows in zip(self._pieces, self._rows))

  def create_tasks(self):
    """The tasks that are not done yet, when all pieces are tokenized."""
    instances = self.counts["planned"]
    num_slices = -(-instances // SLICE_INSTANCES)
    self.slices = [self._file("slice-%05d", i) for i in range(num_slices)]
    limits = [i * (2**64 - 1) // max(1, num_slices)
              for i in range(num_slices + 1)]
    return self._missing_tasks(
        (_create_slice, (path, [(piece, self._plans[piece])
                                for piece in self._pieces], self._columns,
                         limits[i:i + 2], self.shard.compress),
         self.text_bytes / num_slices)
        for i, path in enumerate(self.slices))

  def _missing_tasks(self, tasks):
    tasks = list(tasks)
    self._missing = len(tasks)
    missing = []
    for task in tasks:
      result = _read_result(task[1][0])
      if result is None:
        missing.append(task)
      else:
        self.finish(task[1][0], result)
        self.done_before += task[2]
    return missing

  def finish(self, path, result):
    """Takes note of a finished task: its path, and its result.

    Only counts are left in the result.
    """
    self._columns = result.pop("columns", self._columns)
    self._plans[path] = result.pop("plans", None)
    self.checksums[path] = result.pop("crc", 0), result.pop("length", 0)
    self.counts.update(result)
    self._missing -= 1

  @property
  def is_finished(self):
    return self._missing == 0

  def remove(self):
    shutil.rmtree(self._path)


def _unfinished(path):
  """The name of an output file that is being written; no glob finds it."""
  folder, name = os.path.split(path)
  return os.path.join(folder, ".%s.tmp" % name)


class _Shard(object):
  """An output file, and how far it is."""

  def __init__(self, folder, job, number, path, text_bytes, compress):
    self.folder, self.job, self.number = folder, job, number
    self.path, self.text_bytes, self.compress = path, text_bytes, compress
    state = folder.read_json(self._state_name) or {
        "groups": 0, "bytes": 0, "content": [0, 0], "counts": {},
        "done": False}
    self.groups_done, self._bytes = state["groups"], state["bytes"]
    self._content = state["content"]  # CRC-32 and length, before compression
    self.done = state["done"]
    self.counts = collections.Counter(state["counts"])
    self._writer, self._slices_done = None, 0
    if not self.done and not self.groups_done and os.path.exists(path):
      os.remove(path)

  @property
  def _state_name(self):
    return "shard-%05d.json" % self.number

  def groups(self):
    """Yields the groups that are not in the file yet."""
    if self.done:
      return
    num_groups = self._num_groups()
    for number in range(self.groups_done, num_groups):
      rows = _group_rows(self.folder.file(_index_name(self.number)),
                         num_groups, number)
      yield _Group(self, number, rows), number == num_groups - 1

  def _num_groups(self):
    index = self.folder.file(_index_name(self.number))
    num_documents = os.path.getsize(index) // (8 * _INDEX_COLUMNS)
    expected = self.job.expected_instances(num_documents, self.text_bytes)
    return max(1, -(-self.text_bytes // GROUP_BYTES),
               -(-expected // GROUP_INSTANCES))

  def bytes_done(self):
    """Bytes of text whose records are in the file."""
    if self.done:
      return self.text_bytes
    return (self.text_bytes * self.groups_done // self._num_groups()
            if self.groups_done else 0)

  def append(self, group):
    """Appends what is finished of a group, in order: while others go on."""
    if self._writer is None:
      self._writer = io.open(_unfinished(self.path), "ab")
      # What a killed run appended without taking note of it is cut off.
      self._writer.truncate(self._bytes)
      if self.compress and self._bytes == 0:
        self._writer.write(tfrecord_utils.GZIP_HEADER)
    while (self._slices_done < len(group.slices) and
           group.slices[self._slices_done] in group.checksums):
      path = group.slices[self._slices_done]
      with io.open(path + ".records", "rb") as reader:
        shutil.copyfileobj(reader, self._writer, 2**20)
      if self.compress:
        crc, length = group.checksums[path]
        self._content = [
            tfrecord_utils.combine_crc32(self._content[0], crc, length),
            self._content[1] + length]
      self._slices_done += 1

  def finish_group(self, group, is_last):
    """Takes note of a group that is appended; names a finished file."""
    if self.compress and is_last:
      self._writer.write(tfrecord_utils.gzip_trailer(*self._content))
    self._writer.flush()
    os.fsync(self._writer.fileno())
    self._bytes = self._writer.tell()
    self._writer.close()
    self._writer, self._slices_done = None, 0
    self.groups_done += 1
    self.counts.update(group.counts)
    if is_last and not self.counts["instances"]:
      os.remove(_unfinished(self.path))
      raise DataError(
          "no instance came out of the %d documents for %s, %d of them of fewer"
          " than two tokens; check the input, or make fewer files" % (
              self.counts["documents"], self.path,
              self.counts["dropped_documents"]))
    self.folder.write_json(self._state_name, {
        "groups": self.groups_done, "bytes": self._bytes,
        "content": self._content, "counts": self.counts, "done": is_last})
    group.remove()
    if is_last:
      self.done = True
      os.replace(_unfinished(self.path), self.path)
      os.remove(self.folder.file(_text_name(self.number)))
      os.remove(self.folder.file(_index_name(self.number)))


def _complete_shard_is_there(folder, number, path):
  """Whether the state of a shard and its file go together."""
  state = folder.read_json("shard-%05d.json" % number)
  if state is None:
    return True
  sizes = [os.path.getsize(name) if os.path.exists(name) else -1
           for name in (path, _unfinished(path))]
  if state["done"] and sizes[0] != state["bytes"] == sizes[1]:
    os.replace(_unfinished(path), path)
    return True
  return (sizes[0] == state["bytes"] if state["done"]
          else sizes[1] >= state["bytes"])


class _Scheduler(object):
  """Hands out the tasks: what finishes a group first, new groups last."""

  def __init__(self, shards, workers, progress):
    self._workers, self._progress = workers, progress
    self._new_groups = (group for shard in shards for group in shard.groups())
    self._open = collections.deque()
    self._ready = collections.deque()
    self._running = {}

  def run(self):
    self._start_tasks()
    while self._running:
      for worker, result in self._workers.wait(1.0):
        group, task = self._running.pop(worker)
        group.finish(task[1][0], result)
        self._progress.add(result, task[2], sum(self._workers.peak_bytes))
        self._go_on(group)
      # First, so that no worker waits for files to be copied.
      self._start_tasks()
      self._append_finished()
      self._progress.show()
    self._append_finished()

  def _start_tasks(self):
    """Gives the next tasks to the workers that have none."""
    while self._workers.idle:
      while not self._ready:
        group, is_last = next(self._new_groups, (None, None))
        if group is None:
          return
        self._open.append((group, is_last))
        self._ready.extend((group, task) for task in group.tokenize_tasks())
        self._note_done_before(group)
        self._go_on(group)
      task = self._ready.popleft()
      worker = self._workers.start(task[1][0], task[1][1])
      self._running[worker] = task

  def _go_on(self, group):
    """Makes the other tasks of a group when its pieces are tokenized."""
    if group.is_finished and group.slices is None:
      known, group.done_before = group.counts.copy(), 0
      self._ready.extendleft(
          (group, task) for task in reversed(group.create_tasks()))
      self._note_done_before(group, known)

  def _note_done_before(self, group, known=()):
    counts = group.counts.copy()
    counts.subtract(known)
    self._progress.add_done_before(counts, group.done_before)

  def _append_finished(self):
    """Appends to the shards what is finished, in order."""
    while self._open and self._open[0][0].slices is not None:
      first, is_last = self._open[0]
      with _naming_file(first.shard.path):
        first.shard.append(first)
        if not first.is_finished:
          return
        first.shard.finish_group(first, is_last)
      self._open.popleft()


# -------------------------------------------------------------------- progress


class Progress(object):
  """Says on stderr how far a run is: a bar on a terminal, lines in a log."""

  def __init__(self, interval=5.0, stream=None):
    """Args: interval, seconds between lines; stream, default sys.stderr."""
    self._stream = stream or sys.stderr
    self._is_terminal = self._stream.isatty()
    self._interval = 0.5 if self._is_terminal else interval
    self._begin = self._last = time.time()
    self._counts = collections.Counter()
    self._new_instances = self._read_bytes = 0
    self._total = self._done = self._done_before = 0.0
    self._worker_bytes = 0

  def add_read_bytes(self, num_bytes):
    """Takes note of text that was read."""
    self._read_bytes += num_bytes
    if self._is_due():
      self._print("read %.1f MB" % (self._read_bytes / 1e6))

  def begin(self, shards):
    """Takes note of all that has to be done, and of what is done already."""
    self._begin = time.time()
    # Tokenizing and creating both count, as half of the work each.
    self._total = 2.0 * sum(shard.text_bytes for shard in shards)
    self._done = self._done_before = 2.0 * sum(
        shard.bytes_done() for shard in shards)
    for shard in shards:
      self._counts.update(shard.counts)

  def add_done_before(self, counts, text_bytes):
    """Takes note of tasks that a killed run has finished."""
    self._counts.update(counts)
    self._done += text_bytes
    self._done_before += text_bytes

  def add(self, counts, text_bytes, worker_bytes):
    """Takes note of a finished task."""
    self._counts.update(counts)
    self._new_instances += counts.get("instances", 0)
    self._done += text_bytes
    self._worker_bytes = worker_bytes

  def show(self):
    """Prints a line, if it is time."""
    if self._is_due():
      self._print(self.line())

  def line(self):
    """What is known by now, as a line of text."""
    counts = self._counts
    seconds = max(1e-3, time.time() - self._begin)
    share = min(1.0, self._done / max(1.0, self._total))
    done_now, eta = self._done - self._done_before, "?"
    if done_now > 0:
      left = int(seconds * max(0.0, self._total - self._done) / done_now)
      eta = "%d:%02d:%02d" % (left // 3600, left // 60 % 60, left % 60)
    return ("%3d %%, %d documents, %d instances, %d instances/s, [UNK]"
            " %.3f %%, memory %d MB, ETA %s" % (
                100 * share, counts["documents"], counts["instances"],
                self._new_instances / seconds,
                100.0 * counts["unknown_tokens"] / max(1, counts["tokens"]),
                (peak_bytes() + self._worker_bytes) / 1e6, eta))

  def end(self):
    """Ends the bar's line."""
    if self._is_terminal:
      self._print(self.line())
      self._stream.write("\n")

  def _is_due(self):
    now = time.time()
    if now - self._last < self._interval:
      return False
    self._last = now
    return True

  def _print(self, line):
    if self._is_terminal:
      self._stream.write("\r\033[K" + line)
    else:
      self._stream.write(line + "\n")
    self._stream.flush()
