"""Shards: the same bytes by any number of workers, and after any kill."""

import collections
import errno
import hashlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

import create_pretraining_data as data
import instance_utils
import shard_utils
import tiny
import tokenization
import word_segmentation
from corpus_utils import DataError
from corpus_utils import Document

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OPTIONS = instance_utils.InstanceOptions(32, 5, 0.15, 0.1, 2, 7, "sop", 1, True,
                                         False)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
  vocab_file = tmp_path_factory.mktemp("vocab") / "vocab.txt"
  tiny.write(vocab_file, "\n".join(
      tokenization.SPECIAL_TOKENS + tuple("一二三四五六七八九，。")) + "\n")
  return make_job(str(vocab_file))


def make_job(vocab_file, options=OPTIONS):
  return instance_utils.InstanceCreator(word_segmentation.LineTokenizer(
      tokenization.FullTokenizer(vocab_file)), options)


def make_documents(num=120, seed=0):
  rng = random.Random(seed)
  return [Document(["".join(rng.choice("一二三四五六七八九，")
                            for _ in range(rng.randint(3, 12))) + "。"
                    for _ in range(rng.randint(2, 6))], 0, number)
          for number in range(num)]


@pytest.fixture
def small(monkeypatch):
  """Many groups, pieces and slices of a small text."""
  monkeypatch.setattr(shard_utils, "GROUP_BYTES", 1500)
  monkeypatch.setattr(shard_utils, "PIECE_BYTES", 300)
  monkeypatch.setattr(shard_utils, "SLICE_INSTANCES", 10)
  monkeypatch.setattr(shard_utils, "BATCH_INSTANCES", 4)
  monkeypatch.setattr(shard_utils, "_LOCK_SECONDS", 0.5)


def write(folder, job, documents, num_shards=3, num_workers=2, settings=None,
          **kwargs):
  """Writes shards; returns (counts, instances per file, paths)."""
  paths = [str(folder / ("shard%d" % i)) for i in range(num_shards)]
  counts, per_file = shard_utils.write_shards(
      lambda counts: iter(documents), job, paths,
      settings or {"a": 1}, str(folder / "work"), num_workers,
      progress=shard_utils.Progress(1000, io.StringIO()), **kwargs)
  return counts, per_file, paths


def contents(paths):
  return [open(path, "rb").read() for path in paths]


def read_records(paths, compressed=False):
  # Not at the top: the runs that are killed import this file too.
  import tensorflow.compat.v1 as tf
  options = tf.python_io.TFRecordOptions(
      tf.python_io.TFRecordCompressionType.GZIP if compressed else
      tf.python_io.TFRecordCompressionType.NONE)
  return [list(tf.python_io.tf_record_iterator(path, options))
          for path in paths]


def test_every_instance_is_in_one_shard(tmp_path, job, small, monkeypatch):
  documents = make_documents()
  counts, per_file, paths = write(tmp_path, job, documents)
  records = read_records(paths)
  assert [len(shard) for shard in records] == per_file
  assert counts["instances"] == sum(per_file) > 300
  assert counts["documents"] == 120
  assert not (tmp_path / "work").exists()
  _, plans, token_counts = job.tokenize(documents)
  assert sum(map(len, plans)) == sum(per_file)
  assert token_counts["tokens"] == counts["tokens"]
  # One piece and slice give the same records, each once, in another order.
  (tmp_path / "other").mkdir()
  monkeypatch.setattr(shard_utils, "GROUP_BYTES", 10**6)
  monkeypatch.setattr(shard_utils, "PIECE_BYTES", 10**6)
  _, _, other = write(tmp_path / "other", job, documents, num_shards=1)
  assert sorted(sum(records, [])) == sorted(read_records(other)[0])


def test_documents_are_dealt_out_evenly_and_their_instances_shuffled(
    tmp_path, job):
  texts = ["一", "二", "三", "四", "五", "六"] * 10
  documents = [Document([text * 4, text * 5], 0, number)
               for number, text in enumerate(texts)]
  _, per_file, paths = write(tmp_path, job, documents, num_shards=6)
  assert per_file == [20] * 6
  [shard] = read_records(paths[:1])
  kinds = collections.Counter()
  import tensorflow.compat.v1 as tf
  ids = [tf.train.Example.FromString(record).features.feature[
      "masked_lm_ids"].int64_list.value[0] for record in shard]
  kinds.update(ids)
  assert len(kinds) > 2
  assert sorted(ids) != ids and ids != [i for i in kinds for _ in (0, 1)]


@pytest.mark.parametrize("compress", [False, True])
def test_the_number_of_workers_changes_nothing(tmp_path, job, small, compress):
  found = set()
  for num_workers in (1, 2, 5):
    _, per_file, paths = write(tmp_path, job, make_documents(),
                               num_workers=num_workers, compress=compress)
    found.add(tuple(contents(paths)))
  assert len(found) == 1
  assert [len(shard) for shard in read_records(paths, compress)] == per_file


def test_too_few_documents(tmp_path, job):
  with pytest.raises(DataError, match="2 documents of two characters or"):
    write(tmp_path, job, make_documents(2))
  with pytest.raises(DataError, match="no document of two characters or more"):
    write(tmp_path, job, [])
  # Characters that are no tokens: one shard for all of them.
  empty = [Document(["\u200b" * 5], 0, i) for i in range(3)]
  with pytest.raises(DataError, match="no instance came out of the 3 documents"
                     " for .*shard0, 3 of them of fewer than two tokens"):
    write(tmp_path, job, empty, num_shards=1)
  assert list(tmp_path.iterdir()) == []


class Interruption(BaseException):
  """Stops a run as a signal would."""


def stop_after(num_tasks, monkeypatch):
  """Lets the run fail when so many tasks are done."""
  done = []
  add = shard_utils.Progress.add

  def counting_add(self, *args):
    add(self, *args)
    done.append(args)
    if len(done) == num_tasks:
      raise Interruption

  monkeypatch.setattr(shard_utils.Progress, "add", counting_add)
  return done


@pytest.mark.parametrize("num_tasks", [1, 4, 9, 14, 30, 55])
def test_a_stopped_run_goes_on(tmp_path, job, small, num_tasks, monkeypatch):
  documents = make_documents()
  (tmp_path / "whole").mkdir()
  with monkeypatch.context() as patch:
    tasks = stop_after(-1, patch)
    counts, per_file, paths = write(tmp_path / "whole", job, documents)
    all_tasks = len(tasks)
  expected = contents(paths)
  assert all_tasks > 60
  with monkeypatch.context() as patch:
    stop_after(num_tasks, patch)
    with pytest.raises(Interruption):
      write(tmp_path, job, documents)
  with monkeypatch.context() as patch:
    tasks = stop_after(-1, patch)
    # Everything has been read: it is not read again.
    again = write(tmp_path, job, None, num_workers=3)
    # A task that another worker was at when the run stopped may be lost.
    assert all_tasks - num_tasks - 1 <= len(tasks) <= all_tasks - num_tasks
  assert again[:2] == (counts, per_file)
  assert contents(again[2]) == expected


def test_finished_shards_are_kept(tmp_path, job, small, monkeypatch):
  with monkeypatch.context() as patch:
    stop_after(50, patch)
    with pytest.raises(Interruption):
      write(tmp_path, job, make_documents(), num_workers=1)
  finished = {path.name: path.stat().st_mtime_ns
              for path in tmp_path.glob("shard?")}
  assert 0 < len(finished) < 3
  write(tmp_path, job, None)
  assert finished == {name: (tmp_path / name).stat().st_mtime_ns
                      for name in finished}


@pytest.mark.parametrize("what", ["settings", "output", "damage"])
def test_what_does_not_fit_is_made_anew(tmp_path, job, small, monkeypatch,
                                        what):
  with monkeypatch.context() as patch:
    stop_after(50, patch)
    with pytest.raises(Interruption):
      write(tmp_path, job, make_documents(), num_workers=1)
  settings = {"a": 1}
  if what == "settings":
    settings = {"a": 2}
  elif what == "output":
    os.remove(str(tmp_path / "shard0"))
  else:
    (tmp_path / "shard0").write_bytes(b"short")
  _, _, paths = write(tmp_path, job, make_documents(seed=1), settings=settings)
  (tmp_path / "other").mkdir()
  _, _, other = write(tmp_path / "other", job, make_documents(seed=1))
  assert contents(paths) == contents(other)


@pytest.mark.parametrize("seed", [0, 1])
def test_an_input_that_has_to_be_read_again(tmp_path, job, small, monkeypatch,
                                            seed):
  with monkeypatch.context() as patch:
    stop_after(50, patch)
    with pytest.raises(Interruption):
      write(tmp_path, job, make_documents(), num_workers=1, reread=True)
  before = (tmp_path / "shard0").stat().st_mtime_ns
  _, _, paths = write(tmp_path, job, make_documents(seed=seed), reread=True)
  assert (before == (tmp_path / "shard0").stat().st_mtime_ns) == (seed == 0)
  (tmp_path / "other").mkdir()
  _, _, other = write(tmp_path / "other", job, make_documents(seed=seed))
  assert contents(paths) == contents(other)


def test_older_output_is_untouched_until_the_input_is_read(tmp_path, job):
  (tmp_path / "shard0").write_bytes(b"older")
  started = []

  def fails():
    yield make_documents(1)[0]
    raise DataError("line 7")

  with pytest.raises(DataError, match="line 7"):
    write(tmp_path, job, fails(), num_shards=1,
          on_start=lambda: started.append(1))
  assert (tmp_path / "shard0").read_bytes() == b"older" and not started
  assert [path.name for path in tmp_path.iterdir()] == ["shard0"]
  write(tmp_path, job, make_documents(5), num_shards=1,
        on_start=lambda: started.append(1))
  assert (tmp_path / "shard0").read_bytes() != b"older" and started


def test_a_dead_worker_ends_the_run(tmp_path, job, small, monkeypatch):
  def dies(self, documents):
    if documents[0].number > 10:
      os.kill(os.getpid(), signal.SIGKILL)
    return type(self).tokenize(self, documents)

  with monkeypatch.context() as patch:
    patch.setattr(job, "tokenize", dies.__get__(job), raising=False)
    with pytest.raises(shard_utils.RunError,
                       match="killed by signal 9 .*not enough memory.*the same"
                       " command goes on"):
      write(tmp_path, job, make_documents())
  write(tmp_path, job, None)


@pytest.mark.parametrize("error,kind,message", [
    (OSError(errno.ENOSPC, "No space left on device", "x.tokens"), OSError,
     "No space left"),
    (MemoryError(), shard_utils.RunError, "smaller --num_workers"),
    (DataError("a sentence"), DataError, "a sentence")])
def test_errors_of_workers_end_the_run(tmp_path, job, small, monkeypatch, error,
                                       kind, message):
  def fails(documents):
    raise error

  with monkeypatch.context() as patch:
    patch.setattr(job, "tokenize", fails, raising=False)
    with pytest.raises(kind, match=message):
      write(tmp_path, job, make_documents())


def test_a_full_disk_is_said_in_a_sentence():
  assert data.describe_error(OSError(errno.ENOSPC, "No space", "x")) == (
      "the disk of x is full; make room, the same command goes on from there")
  assert data.describe_error(OSError(errno.ENOENT, "No such file", "x")) == (
      "x: No such file")


def test_two_runs_on_the_same_output(tmp_path, job, small):
  def lock(folder, *names):
    return shard_utils._WorkFolder(None, [str(folder / name) for name in names])

  other = tmp_path / "other"
  other.mkdir()
  for held in (lock(tmp_path, "shard0"), lock(tmp_path, "x", "shard2"),
               lock(other, "x", "../shard1")):
    with held:
      with pytest.raises(shard_utils.RunError,
                         match="another run is at work on .*(shard|same)"):
        write(tmp_path, job, make_documents())
  # One that waits in vain for a lock leaves what the lock says.
  with lock(tmp_path, "x", "shard2"):
    for names in (["x"], ["shard2"], ["shard2"]):
      with pytest.raises(shard_utils.RunError):
        lock(tmp_path, *names).__enter__()
  # Other files of the folder do not matter.
  with lock(tmp_path, "x", "y"):
    write(tmp_path, job, make_documents())


def test_what_other_runs_left(tmp_path, job, caplog):
  for names in (["x", "y"], ["z", "shard1"]):
    left = shard_utils._WorkFolder(None, [str(tmp_path / name)
                                          for name in names])
    with left:
      pass
  with caplog.at_level("INFO", logger="absl"):
    write(tmp_path, job, make_documents())
  assert "run for x ... y that did not end" in caplog.text
  assert ".z.work is of a run for some of these files" in caplog.text
  assert (tmp_path / ".x.work").exists()
  assert not (tmp_path / ".z.work").exists()


DRIVER = """
import sys, time
sys.path[:0] = %r
import shard_utils, test_shard_utils as tests
shard_utils.GROUP_BYTES, shard_utils.PIECE_BYTES = 1500, 300
shard_utils.SLICE_INSTANCES, shard_utils.BATCH_INSTANCES = 10, 4
job = tests.make_job(sys.argv[2])
import pathlib
tests.write(pathlib.Path(sys.argv[1]), job, tests.make_documents(400))
""" % [ROOT, os.path.join(ROOT, "tests")]


def test_killed_at_any_moment(tmp_path, job, small):
  vocab_file = str(tmp_path / "vocab.txt")
  tiny.write(vocab_file, "\n".join(
      tokenization.SPECIAL_TOKENS + tuple("一二三四五六七八九，。")) + "\n")
  (tmp_path / "whole").mkdir()
  _, _, paths = write(tmp_path / "whole", make_job(vocab_file),
                      make_documents(400))
  rng, kills, delay = random.Random(3), 0, 0.0
  while True:
    process = subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path),
                                vocab_file])
    # Wait for the work to begin, then for any while.
    begin = time.time()
    while not (tmp_path / "work").exists() and process.poll() is None:
      time.sleep(0.01)
    time.sleep(rng.random() * 0.5 + delay)
    if process.poll() is not None:
      break
    process.kill()
    process.wait()
    kills += 1
    delay += 0.05  # it gets somewhere, on a slow machine too
    assert time.time() - begin < 60
  assert process.returncode == 0
  assert kills >= 2
  digests = [[hashlib.sha256(content).hexdigest() for content in contents(group)]
             for group in (paths, [str(tmp_path / ("shard%d" % i))
                                   for i in range(3)])]
  assert digests[0] == digests[1]
  assert not (tmp_path / "work").exists()


class ShardOf(object):
  """What Progress looks at of a shard."""

  def __init__(self, text_bytes, done=0, counts=()):
    self.text_bytes, self.done = text_bytes, done
    self.counts = collections.Counter(counts)

  def bytes_done(self):
    return self.done


def test_progress_of_a_run_that_goes_on():
  progress = shard_utils.Progress(0.0, io.StringIO())
  progress.begin([ShardOf(1000, 500, {"instances": 70})])
  progress.add_done_before({"documents": 5}, 200)
  assert progress.line().startswith(" 60 %, 5 documents, 70 instances, 0 inst")
  assert progress.line().endswith("ETA ?")
  progress._begin -= 10.5
  progress.add({"instances": 30}, 400, 0)
  assert progress.line().startswith(" 80 %, 5 documents, 100 instances, 2 inst")
  assert progress.line().endswith("ETA 0:00:10")


def test_progress():
  stream = io.StringIO()
  progress = shard_utils.Progress(0.0, stream)
  progress.add_read_bytes(5 * 10**6)
  progress.begin([ShardOf(1000)])
  progress.add({"documents": 3, "tokens": 200, "unknown_tokens": 1}, 1000, 0)
  progress.show()
  progress.add({"instances": 40}, 500, 2 * 10**9)
  line = progress.line()
  progress.end()
  read, first = stream.getvalue().splitlines()
  assert read == "read 5.0 MB"
  assert first.startswith(" 50 %, 3 documents, 0 instances, 0 instances/s, [UNK]"
                          " 0.500 %, memory")
  assert " 75 %, 3 documents, 40 instances" in line and "ETA 0:00:00" in line
  assert float(line.split("memory ")[1].split(" MB")[0]) > 2000


def test_a_terminal_gets_a_line_that_is_rewritten():
  class Terminal(io.StringIO):
    def isatty(self):
      return True

  stream = Terminal()
  progress = shard_utils.Progress(stream=stream)
  progress.begin([ShardOf(10)])
  progress.end()
  assert stream.getvalue().startswith("\r") and stream.getvalue().endswith("\n")


def test_state_files_are_json(tmp_path, job, small, monkeypatch):
  with monkeypatch.context() as patch:
    stop_after(5, patch)
    with pytest.raises(Interruption):
      write(tmp_path, job, make_documents())
  state = json.loads((tmp_path / "work" / "state.json").read_text())
  assert state["settings"] == {"a": 1} and len(state["bytes"]) == 3
