"""Conversion by several processes, its cache, long texts, batches by length."""

import io
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import bert_utils
import classifier_features as cf
import classifier_model
import classifier_utils as cu
import estimator_utils
import feature_utils
import input_utils
import modeling
import tiny
import tokenization

LETTERS = "今天气很好我们去公园玩他在写信她看书吗你哪了"


def make_options(**changes):
  values = dict(
      task_name="tsv", max_seq_length=16, do_lower_case=True, long_text="head",
      long_text_stride=None, num_workers=1, use_tpu=False, use_xla=False,
      bucket_by_length=None, seed=3)
  values.update(changes)
  return types.SimpleNamespace(**values)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
  return tokenization.FullTokenizer(
      tiny.write_vocab(tmp_path_factory.mktemp("vocab")))


def make_examples(count, longest=14):
  """Examples of all lengths from 1 on; every text is another one."""
  examples = []
  for number in range(count):
    length = 1 + number * 5 % longest
    text = "".join(LETTERS[(number // len(LETTERS) ** place + place) %
                           len(LETTERS)] for place in range(length))
    examples.append(cu.InputExample("train-%d" % number, text, None,
                                    "ab"[number % 2]))
  return examples


def records_of(path):
  """The features of a file's records, each a dict of lists."""
  found = []
  for record in input_utils.iterate_records(path):
    example = tf.train.Example.FromString(record)
    found.append({
        name: list(getattr(value, value.WhichOneof("kind")).value)
        for name, value in example.features.feature.items()})
  return found


def read_bytes(path):
  with io.open(path, "rb") as reader:
    return reader.read()


def batches_of(input_fn, batch_size, count=None):
  """The batches that an input function makes: all, or so many."""
  with tf.Graph().as_default(), tf.Session() as session:
    iterator = tf.data.make_initializable_iterator(
        input_fn({"batch_size": batch_size}))
    batch = iterator.get_next()
    session.run(iterator.initializer)
    found = []
    try:
      while count is None or len(found) < count:
        found.append(session.run(batch))
    except tf.errors.OutOfRangeError:
      pass
    return found


def ids_of(batches):
  """The tokens of the batches' rows without padding, as tuples."""
  return [tuple(row[row > 0]) for batch in batches
          for row in batch["input_ids"]]


def expected_ids(examples, tokenizer, length=16):
  return [tuple(id_ for id_ in feature.input_ids if id_) for feature in
          cf.convert_examples_to_features(examples, ["a", "b"], length,
                                          tokenizer)]


# ------------------------------------------------------------------- long texts


@pytest.mark.parametrize("mode,room,expected", [
    ("head", 8, "abcdefgh"), ("head_tail", 8, "abopqrst"),
    ("head_tail", 7, "abpqrst"), ("head_tail", 1, "t"),
    ("head_tail", 19, "abcde" + "ghijklmnopqrst")])
def test_what_a_long_text_keeps(mode, room, expected):
  (kept, none), = cu.fit_tokens(list("abcdefghijklmnopqrst"), [], room, mode)
  assert ("".join(kept), none) == (expected, [])


def test_head_and_tail_as_in_the_paper():
  (kept, _), = cu.fit_tokens(list(range(1000)), [], 510, "head_tail")
  assert kept == list(range(128)) + list(range(1000 - 382, 1000))


@pytest.mark.parametrize("mode,a,b,expected", [
    # As many tokens of each as with "head", which cuts the longer one first.
    ("head", "abcdefghij", "uvw", ("abcde", "uvw")),
    ("head_tail", "abcdefghij", "uvw", ("aghij", "uvw")),
    ("head", "abcdefghij", "opqrstuvw", ("abcd", "opqr")),
    ("head_tail", "abcdefghij", "opqrstuvw", ("ahij", "ouvw"))])
def test_what_a_long_pair_keeps(mode, a, b, expected):
  (kept_a, kept_b), = cu.fit_tokens(list(a), list(b), 8, mode)
  assert ("".join(kept_a), "".join(kept_b)) == expected


@pytest.mark.parametrize("length,room,stride,expected", [
    (10, 4, None, ["abcd", "cdef", "efgh", "ghij"]),
    # The last one is full and ends with the text.
    (9, 4, None, ["abcd", "cdef", "efgh", "fghi"]),
    (9, 4, 4, ["abcd", "efgh", "fghi"]),
    (9, 4, 9, ["abcd", "efgh", "fghi"]),
    (5, 4, None, ["abcd", "bcde"]), (5, 4, 1, ["abcd", "bcde"]),
    (3, 1, None, ["a", "b", "c"])])
def test_windows_of_a_text(length, room, stride, expected):
  parts = cu.fit_tokens(list("abcdefghij"[:length]), [], room, "sliding",
                        stride)
  assert ["".join(a) for a, _ in parts] == expected
  assert all(b == [] for _, b in parts)


@pytest.mark.parametrize("a,b,room,stride,expected", [
    # The longer one slides, in what the other leaves.
    ("abcdefgh", "uv", 6, None, [("abcd", "uv"), ("cdef", "uv"),
                                 ("efgh", "uv")]),
    ("uv", "abcdefgh", 6, 3, [("uv", "abcd"), ("uv", "defg"), ("uv", "efgh")]),
    # The other one is cut to half of the room.
    ("abcdefgh", "rstuvw", 6, 3, [("abc", "rst"), ("def", "rst"),
                                  ("fgh", "rst")]),
    # Of two of the same length the first slides.
    ("abcd", "rstu", 7, None, [("abcd", "rst")]),
    ("abcd", "rstu", 6, None, [("abc", "rst"), ("bcd", "rst")])])
def test_windows_of_a_pair(a, b, room, stride, expected):
  parts = cu.fit_tokens(list(a), list(b), room, "sliding", stride)
  assert [("".join(x), "".join(y)) for x, y in parts] == expected


def test_features_of_windows(tokenizer):
  def tokens(features):
    return " ".join(tokenizer.convert_ids_to_tokens(features.input_ids))

  example = cu.InputExample("x", "今天天气很好", "玩吗", "b")
  features = cu.convert_example(0, example, ["a", "b"], 9, tokenizer,
                                long_text="sliding", stride=1)
  assert [tokens(each) for each in features] == [
      "[CLS] 今 天 天 气 [SEP] 玩 吗 [SEP]",
      "[CLS] 天 天 气 很 [SEP] 玩 吗 [SEP]",
      "[CLS] 天 气 很 好 [SEP] 玩 吗 [SEP]"]
  assert [each.label_id for each in features] == [1, 1, 1]
  assert features[0].segment_ids == [0] * 6 + [1] * 3
  feature, = cu.convert_example(0, example, ["a", "b"], 9, tokenizer,
                                long_text="head_tail")
  assert tokens(feature) == "[CLS] 今 气 很 好 [SEP] 玩 吗 [SEP]"
  with pytest.raises(cu.DataError, match="needs at least 5"):
    cu.convert_example(0, example, ["a", "b"], 4, tokenizer,
                       long_text="sliding")


@pytest.mark.parametrize("mode", ["head_tail", "sliding"])
def test_short_texts_are_the_same_in_all_modes(tokenizer, tmp_path, mode):
  examples = make_examples(9)
  examples.append(cu.InputExample("x", "今天" * 3, "好" * 7, "a"))  # just fits
  head, other = (
      cf.convert_split(examples, ["a", "b"], make_options(long_text=each),
                       str(tmp_path), "dev", tokenizer)
      for each in ("head", mode))
  assert head.path != other.path
  assert read_bytes(head.path) == read_bytes(other.path)
  assert head.windows is None and other.windows is None


# ------------------------------------------------------------------- the records


@pytest.mark.parametrize("task_type,labels,kind", [
    ("single", ["b", "a", None], "int64_list"),
    ("multi", [("a", "b"), (), ("b",)], "int64_list"),
    ("regression", [0.5, -2.0, None], "float_list")])
def test_records_are_those_of_the_libraries(tokenizer, tmp_path, task_type,
                                            labels, kind):
  examples = [cu.InputExample("x", text, None, label)
              for text, label in zip(["今天", "好", "我们去玩"], labels)]
  label_list = [] if task_type == "regression" else ["a", "b"]
  path = str(tmp_path / "features")
  cf.file_based_convert_examples_to_features(examples, label_list, 8, tokenizer,
                                             path, task_type=task_type)
  expected = tmp_path / "expected"
  with tf.python_io.TFRecordWriter(str(expected)) as writer:
    for feature in cf.convert_examples_to_features(
        examples, label_list, 8, tokenizer, task_type=task_type):
      record = tf.train.Example()
      for name, values in (
          ("input_ids", feature.input_ids), ("input_mask", feature.input_mask),
          ("segment_ids", feature.segment_ids), ("is_real_example", [1])):
        record.features.feature[name].int64_list.value.extend(values)
      getattr(record.features.feature["label_ids"], kind).value.extend(
          np.ravel(feature.label_id).tolist())
      writer.write(record.SerializeToString(deterministic=True))
  assert read_bytes(path) == expected.read_bytes()


@pytest.mark.parametrize("task_type,labels,expected,dtype", [
    ("single", ["b", "a", None], [1, 0, 0], np.int32),
    ("multi", [("a", "b"), (), ("b",)], [[1, 1], [0, 0], [0, 1]], np.int32),
    ("regression", [0.5, -2.0, None], [0.5, -2, 0], np.float32)])
def test_labels_of_all_types_reach_the_model(tokenizer, tmp_path, task_type,
                                             labels, expected, dtype):
  examples = [cu.InputExample("x", text, None, label)
              for text, label in zip(["今天", "好", "我们去玩"], labels)]
  label_list = [] if task_type == "regression" else ["a", "b"]
  feature_file = cf.convert_split(
      examples, label_list, make_options(bucket_by_length=False),
      str(tmp_path), "train", tokenizer, task_type=task_type)
  features = cf.convert_examples_to_features(examples, label_list, 16,
                                             tokenizer, task_type=task_type)
  for input_fn in (
      cf.predict_input_fn(feature_file, make_options()),
      cf.file_based_input_fn_builder(
          feature_file.path, 16, False, False, task_type=task_type,
          num_labels=len(label_list)),
      cf.input_fn_builder(features, 16, False, False, task_type=task_type)):
    batch, = batches_of(input_fn, 4)
    assert batch["label_ids"].dtype == dtype
    np.testing.assert_array_equal(batch["label_ids"], expected)
    assert batch["input_ids"].dtype == batch["input_mask"].dtype == np.int32
  for input_fn in (
      cf.train_input_fn(feature_file, make_options()),
      cf.input_fn_builder(features, 16, True, True, task_type=task_type)):
    batch, = batches_of(input_fn, 3, count=1)
    assert batch["label_ids"].dtype == dtype
    assert sorted(batch["label_ids"].tolist()) == sorted(
        np.array(expected, dtype).tolist())


def test_records_of_several_labels_need_their_number(tmp_path):
  with pytest.raises(ValueError, match="expected num_labels"):
    cf.file_based_input_fn_builder(str(tmp_path / "x"), 8, True, True,
                                   task_type="multi")


# ------------------------------------------------------------------ the processes


@pytest.fixture
def many_chunks(monkeypatch):
  """Lets few examples count as many: chunks of 16, and workers for them."""
  monkeypatch.setattr(feature_utils, "_SMALL_CHARACTERS", 0)
  monkeypatch.setattr(feature_utils, "_CHUNK_EXAMPLES", 16)


def settings_of(**changes):
  return feature_utils.Settings(["a", "b"], 16, "single", "head",
                                None)._replace(**changes)


@pytest.fixture
def pools(monkeypatch):
  """The pools of workers that are made."""
  made = []
  pool_class = feature_utils._WorkerPool
  monkeypatch.setattr(
      feature_utils, "_WorkerPool",
      lambda *args: made.append(pool_class(*args)) or made[-1])
  return made


def test_bytes_do_not_depend_on_the_workers(tokenizer, tmp_path, many_chunks,
                                            pools):
  examples = make_examples(150, longest=40)
  for long_text in ("head", "sliding"):
    files = [
        cf.convert_split(examples, ["a", "b"],
                         make_options(num_workers=workers, long_text=long_text),
                         str(tmp_path / str(workers)), "train", tokenizer)
        for workers in (1, 2, 3)]
    contents = [(read_bytes(file.path), read_bytes(file.path + ".index.json"))
                for file in files]
    assert contents[0] == contents[1] == contents[2]
    assert files[0].num_records == len(records_of(files[0].path))
  assert [len(pool._processes) for pool in pools] == [2, 3, 2, 3]


def test_few_examples_need_no_workers(tokenizer, pools):
  assert len(list(feature_utils.convert(make_examples(600), settings_of(),
                                        tokenizer, num_workers=2))) == 3
  assert pools == []
  # A long text counts as many short ones, and 20 of these are a chunk.
  examples = [cu.InputExample("x", "好" * 10000)] * 210
  chunks = list(feature_utils.convert(examples, settings_of(), tokenizer, 2))
  assert len(pools) == 1
  assert [len(chunk.examples) for chunk in chunks] == [20] * 10 + [10]
  assert np.concatenate([chunk.examples for chunk in chunks]).tolist() == list(
      range(210))


def test_a_tokenizer_of_the_users_own_stays_in_this_process(tokenizer, pools,
                                                            many_chunks):
  class Own(tokenization.FullTokenizer):
    pass

  own = Own.__new__(Own)
  own.__dict__ = tokenizer.__dict__
  assert len(list(feature_utils.convert(make_examples(40), settings_of(), own,
                                        num_workers=2))) == 3
  assert pools == []


def test_a_wrong_label_is_told_by_a_worker(tokenizer, tmp_path, many_chunks):
  examples = make_examples(60)
  for number in (50, 20):
    examples[number].label = "c"
  with pytest.raises(bert_utils.InputError) as caught:
    cf.convert_split(examples, ["a", "b"], make_options(num_workers=2),
                     str(tmp_path), "train", tokenizer)
  # The first one, whichever worker was faster.
  assert str(caught.value) == (
      "features of train: example 20 (train-20) has the label c, allowed are a"
      " and b")
  assert os.listdir(str(tmp_path)) == []


def test_a_worker_that_dies(tokenizer, tmp_path, many_chunks, monkeypatch):
  start = feature_utils._WorkerPool.start

  def start_and_kill(pool, number, chunk):
    start(pool, number, chunk)
    for process in pool._processes.values():
      process.kill()

  monkeypatch.setattr(feature_utils._WorkerPool, "start", start_and_kill)
  with pytest.raises(bert_utils.InputError, match="features of train: a process"
                     r" that converts examples ended by signal 9 \(was there"
                     r" not enough memory\?\).* smaller --num_workers"):
    cf.convert_split(make_examples(60), ["a", "b"], make_options(num_workers=2),
                     str(tmp_path), "train", tokenizer)
  assert os.listdir(str(tmp_path)) == []


def test_workers_end_with_a_conversion_that_is_given_up(tokenizer, pools,
                                                        many_chunks):
  chunks = feature_utils.convert(make_examples(200), settings_of(), tokenizer,
                                 num_workers=2)
  next(chunks)
  pool, = pools
  assert all(each.poll() is None for each in pool._processes.values())
  chunks.close()
  assert all(each.poll() is not None for each in pool._processes.values())


def test_progress_is_logged(tokenizer, many_chunks, monkeypatch, caplog):
  monkeypatch.setattr(feature_utils, "_PROGRESS_SECONDS", 0.0)
  with caplog.at_level(logging.INFO, logger="absl"):
    list(feature_utils.convert(make_examples(40), settings_of(), tokenizer,
                               name="features of dev"))
  lines = [record.getMessage() for record in caplog.records]
  assert [line.split(",")[0] for line in lines] == [
      "features of dev: %d of 40 examples converted" % done
      for done in (16, 32, 40)]
  assert all("/s, " in line and line.endswith(" s left") for line in lines)


def test_workers_have_no_tensorflow():
  code = ("import sys, feature_utils\n"
          "assert 'tensorflow' not in sys.modules")
  subprocess.check_call([sys.executable, "-c", code], cwd=tiny.ROOT)


# ------------------------------------------------------------------------ the cache


def test_the_very_same_is_reused_and_nothing_else(tokenizer, tmp_path):
  def convert(examples, labels=("a", "b"), split="dev", **changes):
    return cf.convert_split(examples, list(labels), make_options(**changes),
                            str(tmp_path), split, tokenizer)

  examples = make_examples(5, longest=30)
  first = convert(examples)
  times = os.stat(first.path).st_mtime_ns
  again = convert(examples, num_workers=2, bucket_by_length=False)
  assert again.path == first.path
  assert os.stat(first.path).st_mtime_ns == times
  np.testing.assert_array_equal(again.lengths, first.lengths)
  relabelled = make_examples(5, longest=30)
  relabelled[0].label = "b"
  others = [
      convert(examples[:4]), convert(relabelled), convert(examples, "ba"),
      convert(examples, split="test"), convert(examples, max_seq_length=12),
      convert(examples, do_lower_case=False),
      convert(examples, long_text="head_tail"),
      convert(examples, long_text="sliding"),
      convert(examples, long_text="sliding", long_text_stride=3)]
  assert len({each.path for each in others + [first]}) == 10
  # A stride means nothing without windows.
  assert convert(examples, long_text_stride=3).path == first.path
  windows = [convert(examples, long_text="sliding").windows for _ in range(2)]
  np.testing.assert_array_equal(windows[0], windows[1])
  assert len(windows[0]) > 5


def test_the_vocabulary_is_part_of_the_name(tokenizer, tmp_path):
  other = tokenization.FullTokenizer(tiny.write_vocab(
      tmp_path, tiny.TOKENS[:5] + tiny.TOKENS[:4:-1]))
  files = [cf.convert_split(make_examples(3), ["a", "b"], make_options(),
                            str(tmp_path), "dev", each)
           for each in (tokenizer, other)]
  assert files[0].path != files[1].path
  assert read_bytes(files[0].path) != read_bytes(files[1].path)


@pytest.mark.parametrize("damage", ["no index", "half an index", "half a file"])
def test_half_of_a_cache_is_not_trusted(tokenizer, tmp_path, damage):
  def convert():
    return cf.convert_split(make_examples(5), ["a", "b"], make_options(),
                            str(tmp_path), "dev", tokenizer).path

  path = convert()
  contents = read_bytes(path), read_bytes(path + ".index.json")
  if damage == "no index":
    os.remove(path + ".index.json")
  else:
    cut = path + (".index.json" if damage == "half an index" else "")
    with io.open(cut, "r+b") as writer:
      writer.truncate(20)
  assert convert() == path
  assert (read_bytes(path), read_bytes(path + ".index.json")) == contents


def test_no_examples(tokenizer, tmp_path):
  with pytest.raises(bert_utils.InputError, match="dev: there are no examples"):
    cf.convert_split([], ["a", "b"], make_options(), str(tmp_path), "dev",
                     tokenizer)


# Converts, and is killed after the second chunk.
KILLED = """
import os, signal, sys
import classifier_features, feature_utils, test_classifier_features as test
import tokenization
feature_utils._SMALL_CHARACTERS, feature_utils._CHUNK_EXAMPLES = 0, 16
show = feature_utils._Progress.show
def kill(progress, done):
  if done > 16:
    for process in pools[0]._processes.values():
      print(process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
pools, pool_class = [], feature_utils._WorkerPool
feature_utils._WorkerPool = (
    lambda *args: pools.append(pool_class(*args)) or pools[0])
feature_utils._Progress.show = kill
classifier_features.convert_split(
    test.make_examples(100), ["a", "b"], test.make_options(num_workers=2),
    sys.argv[1], "train", tokenization.FullTokenizer(sys.argv[2]))
"""


def test_a_conversion_that_is_killed(tokenizer, tmp_path):
  folder = tmp_path / "output"
  process = subprocess.Popen(
      [sys.executable, "-c", KILLED, str(folder), tiny.write_vocab(tmp_path)],
      stdout=subprocess.PIPE, env=dict(os.environ, PYTHONPATH=os.pathsep.join(
          [tiny.ROOT, os.path.join(tiny.ROOT, "tests")])))
  output, _ = process.communicate()
  assert process.returncode == -signal.SIGKILL
  # Its workers end with it.
  deadline = time.time() + 20
  for pid in map(int, output.split()):
    while is_running(pid) and time.time() < deadline:
      time.sleep(0.05)
    assert not is_running(pid)
  left, = os.listdir(str(folder))
  assert ".tf_record.tmp-" in left
  made = cf.convert_split(make_examples(100), ["a", "b"], make_options(),
                          str(folder), "train", tokenizer)
  assert sorted(os.listdir(str(folder))) == sorted(
      os.path.basename(made.path) + ending for ending in ("", ".index.json"))
  assert len(records_of(made.path)) == 100


def is_running(pid):
  try:
    with io.open("/proc/%d/stat" % pid) as reader:
      return reader.read().rsplit(")", 1)[1].split()[0] != "Z"
  except IOError:
    return False


def test_only_what_is_abandoned_is_removed(tmp_path):
  host = "".join(char if char.isalnum() or char == "_" else "_"
                 for char in socket.gethostname())
  name, code = "tsv.dev.16.0123456789abcdef.tf_record", "0123456789abcdef" * 2
  names = {
      "own": "%s.tmp-%s-%s" % (name, host, code),
      "index": "%s.index.json.tmp-%s-%s" % (name, host, code),
      "fresh": "%s.tmp-elsewhere-%s" % (name, code),
      "old": "%s.tmp-elsewhere-%s" % (name, code[::-1]),
      "nobody": "%s.tmp-%s" % (name, code),  # old too
      "features": name, "other": "model.ckpt-1.data.tmp-" + code}
  for each in names.values():
    tiny.write(tmp_path / each, "x")
  for each in ("old", "nobody", "other"):
    os.utime(str(tmp_path / names[each]), (time.time() - 4000,) * 2)
  with feature_utils.complete_file(str(tmp_path / name)) as writer:
    feature_utils.remove_leftovers(str(tmp_path))
    left = set(os.listdir(str(tmp_path)))
    assert {key for key, each in names.items() if each in left} == {
        "fresh", "features", "other"}
    assert len(left) == 4  # and that of the conversion under way
    writer.write(b"complete")
  assert read_bytes(str(tmp_path / name)) == b"complete"
  assert len(os.listdir(str(tmp_path))) == 3


def test_where_there_are_no_locks_age_decides(tmp_path, monkeypatch):
  def flock(*unused_arguments):
    raise OSError(38, "Function not implemented")

  monkeypatch.setattr(feature_utils.fcntl, "flock", flock)
  path = tmp_path / "a.tf_record"
  with feature_utils.complete_file(str(path)) as writer:
    feature_utils.remove_leftovers(str(tmp_path))
    temporary, = tmp_path.iterdir()
    os.utime(str(temporary), (time.time() - 4000,) * 2)
    other = tmp_path / temporary.name.replace("a.tf_record", "b.tf_record")
    tiny.write(other, "x")
    writer.write(b"complete")
    writer.flush()
    os.utime(str(other), (time.time() - 4000,) * 2)
    feature_utils.remove_leftovers(str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == [temporary.name]
  assert path.read_bytes() == b"complete"


def test_files_of_other_systems(tokenizer, tmp_path):
  """By TensorFlow's file functions, as gs:// is."""
  folder = "file://%s" % tmp_path
  old = tmp_path / ("x.tf_record.tmp-host-" + "0" * 32)
  fresh = tmp_path / ("x.tf_record.tmp-host-" + "1" * 32)
  for path in (old, fresh):
    tiny.write(path, "x")
  os.utime(str(old), (time.time() - 4000,) * 2)
  made = [cf.convert_split(make_examples(5), ["a", "b"], make_options(),
                           each, "dev", tokenizer)
          for each in (folder, str(tmp_path / "local"))]
  assert not old.exists() and fresh.exists()
  assert os.path.basename(made[0].path) == os.path.basename(made[1].path)
  assert read_bytes(made[0].path[len("file://"):]) == read_bytes(made[1].path)
  with pytest.raises(KeyError):
    with feature_utils.complete_file(folder + "/y"):
      raise KeyError("y")
  assert sorted(each.name[:5] for each in tmp_path.iterdir()) == [
      "local", "tsv.d", "tsv.d", "x.tf_"]


def test_a_folder_that_cannot_be_written(tokenizer, tmp_path, monkeypatch):
  def no_space(*unused_arguments):
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(feature_utils.os, "fsync", no_space)
  with pytest.raises(bert_utils.InputError) as caught:
    cf.convert_split(make_examples(3), ["a", "b"], make_options(),
                     str(tmp_path), "dev", tokenizer)
  assert "No space left on device" in str(caught.value)
  assert ".tf_record" in str(caught.value)
  assert os.listdir(str(tmp_path)) == []


# ----------------------------------------------------------------------- prediction


@pytest.fixture
def small_windows(monkeypatch):
  """Sorts 16 records at a time."""
  monkeypatch.setattr(cf, "_SORTED_RECORDS", 16)


def outputs_of(batches):
  """Two numbers for each row, that say which it is; as an Estimator yields."""
  for batch in batches:
    for row, label in zip(batch["input_ids"], batch["label_ids"]):
      weights = np.arange(1, len(row) + 1)
      yield {"probabilities": np.array([(row * weights).sum(), label],
                                       np.float32)}


@pytest.mark.parametrize("count", [1, 15, 16, 17, 50])
@pytest.mark.parametrize("batch_size", [1, 3, 20])
def test_prediction_by_length_restores_the_order(tokenizer, tmp_path, count,
                                                 batch_size, small_windows):
  examples = make_examples(count)
  by_length, padded = (
      cf.convert_split(examples, ["a", "b"], make_options(bucket_by_length=by),
                       str(tmp_path), "test", tokenizer)
      for by in (None, False))
  batches = {}
  for name, feature_file in (("by length", by_length), ("padded", padded)):
    batches[name] = batches_of(
        cf.predict_input_fn(feature_file, make_options()), batch_size)
  found, expected = (
      cf.collect_outputs(feature_file, outputs_of(batches[name]))
      for name, feature_file in (("by length", by_length), ("padded", padded)))
  assert expected.shape == (count, 2)
  np.testing.assert_array_equal(found, expected)
  assert ids_of(batches["padded"]) == expected_ids(examples, tokenizer)
  # Every record once; more short ones than long ones in a batch.
  assert sorted(ids_of(batches["by length"])) == sorted(
      expected_ids(examples, tokenizer))
  for batch in batches["by length"]:
    size, width = batch["input_ids"].shape
    assert width == -(-batch["input_mask"].sum(axis=1).max() // 8) * 8
    assert size * width <= batch_size * 16


def test_batches_are_as_large_as_tokens_allow():
  lengths = np.array([16, 15, 9, 8, 8, 8, 7, 3, 2, 2])
  # Two of 16, four of 8.
  assert cf._batch_sizes(lengths, 2, 16) == [2, 2, 4, 2]
  assert cf._batch_sizes(lengths, 1, 16) == [1, 1, 1, 2, 2, 2, 1]
  # A length that is no multiple of 8 is not rounded beyond it.
  assert cf._batch_sizes(np.array([13, 12, 8]), 1, 13) == [1, 1, 1]


def test_windows_of_a_text_are_averaged(tokenizer, tmp_path):
  texts = ["今天" * 10, "好", "我们去玩" * 6]
  examples = [cu.InputExample("x", text, None, "a") for text in texts]
  feature_file = cf.convert_split(
      examples, ["a", "b"], make_options(long_text="sliding",
                                         long_text_stride=5),
      str(tmp_path), "test", tokenizer)
  # 20, 1 and 24 tokens in windows of 14: at 0, 5 and 6; at 0, 5 and 10.
  assert feature_file.windows.tolist() == [0, 0, 0, 1, 2, 2, 2]
  assert feature_file.num_examples == 3 and feature_file.num_records == 7
  assert feature_file.lengths.tolist() == [16, 16, 16, 3, 16, 16, 16]
  rows = np.array([[number, 10.0 * number] for number in range(7)])
  outputs = cf.collect_outputs(feature_file, rows[feature_file.order])
  np.testing.assert_allclose(outputs, [[1, 10], [3, 30], [5, 50]])
  assert outputs.dtype == np.float32
  # Training sees all of them.
  batch, = batches_of(cf.train_input_fn(feature_file, make_options()), 7, 1)
  assert sorted(ids_of([batch])) == sorted(
      tuple(id_ for id_ in record["input_ids"] if id_)
      for record in records_of(feature_file.path))


@pytest.mark.parametrize("change", [-1, 1])
def test_predictions_of_another_number(tokenizer, tmp_path, change):
  feature_file = cf.convert_split(make_examples(5), ["a", "b"], make_options(),
                                  str(tmp_path), "dev", tokenizer)
  with pytest.raises(ValueError, match="there are %d predictions for the 5"
                     " records of .*tf_record" % (5 + change)):
    cf.collect_outputs(feature_file, np.zeros([5 + change, 2]))


def test_a_tpu_has_full_batches_of_full_length(tokenizer, tmp_path):
  options = make_options(use_tpu=True)
  feature_file = cf.convert_split(
      make_examples(5), ["a", "b"], options, str(tmp_path), "dev", tokenizer,
      batch_size=4)
  assert (feature_file.num_records, feature_file.num_padding) == (5, 3)
  assert feature_file.order is None and feature_file.windows is None
  batches = batches_of(cf.predict_input_fn(feature_file, options), 4)
  assert [batch["input_ids"].shape for batch in batches] == [(4, 16)] * 2
  assert [batch["is_real_example"].tolist() for batch in batches] == [
      [1] * 4, [1, 0, 0, 0]]
  outputs = cf.collect_outputs(feature_file, np.arange(16).reshape(8, 2))
  np.testing.assert_array_equal(outputs, np.arange(10).reshape(5, 2))
  train = cf.convert_split(make_examples(5), ["a", "b"], options,
                           str(tmp_path), "train", tokenizer, batch_size=4)
  assert train.num_padding == 0
  batch, = batches_of(cf.train_input_fn(train, options), 4, count=1)
  assert batch["input_ids"].shape == (4, 16)


@pytest.mark.parametrize("changes,expected", [
    ({}, True), ({"use_tpu": True}, False), ({"use_xla": True}, False),
    ({"bucket_by_length": False}, False), ({"bucket_by_length": True}, True)])
def test_where_lengths_vary(changes, expected):
  assert cf.varies_lengths(make_options(**changes)) is expected


def test_predictions_of_the_model_do_not_depend_on_batches(tokenizer, tmp_path):
  """Through the Estimator: evaluation and prediction, padded and by length."""
  config = modeling.BertConfig(**tiny.CONFIG)
  model_fn = classifier_model.model_fn_builder(
      config, 2, None, 1e-3, 1, 0, use_tpu=False, use_one_hot_embeddings=False)
  estimator = estimator_utils.TPUEstimator(
      model_fn=model_fn, use_tpu=False, train_batch_size=4, eval_batch_size=4,
      predict_batch_size=4, config=estimator_utils.estimator.tpu.RunConfig(
          model_dir=str(tmp_path / "model"), tf_random_seed=1))
  examples = make_examples(21)
  outputs, metrics = [], []
  for by_length in (None, False):
    options = make_options(bucket_by_length=by_length)
    feature_file = cf.convert_split(examples, ["a", "b"], options,
                                    str(tmp_path), "dev", tokenizer)
    if not outputs:
      estimator.train(cf.train_input_fn(feature_file, options), max_steps=1)
    outputs.append(cf.collect_outputs(feature_file, estimator.predict(
        cf.predict_input_fn(feature_file, options))))
    metrics.append(estimator.evaluate(
        cf.predict_input_fn(feature_file, options)))
  assert outputs[0].shape == (21, 2)
  np.testing.assert_allclose(outputs[0], outputs[1], atol=1e-5)
  assert metrics[0]["eval_accuracy"] == pytest.approx(
      metrics[1]["eval_accuracy"])
  assert metrics[0]["eval_loss"] == pytest.approx(metrics[1]["eval_loss"],
                                                  rel=1e-5)


# ------------------------------------------------------------------------- training


def test_training_sees_each_example_once_an_epoch(tokenizer, tmp_path):
  examples = make_examples(50)
  options = make_options()
  feature_file = cf.convert_split(examples, ["a", "b"], options, str(tmp_path),
                                  "train", tokenizer)
  # 25 steps are 4 epochs; the steps do not end with the epochs.
  batches = batches_of(cf.train_input_fn(feature_file, options), 8, count=25)
  seen = ids_of(batches)
  expected = sorted(expected_ids(examples, tokenizer))
  epochs = [seen[begin:begin + 50] for begin in range(0, 200, 50)]
  assert all(sorted(epoch) == expected for epoch in epochs)
  assert len(set(map(tuple, epochs))) == 4
  # Similar lengths together, cropped: most batches hold only short ones.
  widths = [batch["input_ids"].shape[1] for batch in batches]
  assert set(widths) == {8, 16} and widths.count(8) > 8
  later = batches_of(cf.train_input_fn(feature_file, options, start_step=13), 8,
                     count=12)
  assert ids_of(later) == seen[13 * 8:]
  later = batches_of(cf.train_input_fn(feature_file, options, lambda: 20), 8,
                     count=1)
  assert ids_of(later) == seen[160:168]


# ---------------------------------------------------------------------------- flags


@pytest.mark.parametrize("changes,message", [
    ({"long_text_stride": 5}, "--long_text_stride is for --long_text=sliding,"
     " but --long_text is head"),
    ({"long_text": "sliding", "long_text_stride": 15},
     "--long_text_stride 15 is more than the 14 tokens of a window")])
def test_strides_that_cannot_work(changes, message):
  with pytest.raises(ValueError, match=message):
    cf.check_flags(make_options(**changes))


def test_strides_that_work():
  cf.check_flags(make_options())
  cf.check_flags(make_options(long_text="sliding"))
  cf.check_flags(make_options(long_text="sliding", long_text_stride=14))


def test_flags_and_their_defaults():
  code = ("from absl import flags\nimport classifier_features, shard_utils\n"
          "classifier_features.define_flags()\nflags.FLAGS(['x'])\n"
          "assert flags.FLAGS.long_text == 'head'\n"
          "assert flags.FLAGS.long_text_stride is None\n"
          "assert flags.FLAGS.num_workers == shard_utils.num_cores()\n"
          "flags.FLAGS(['x', '--long_text=middle'])\n")
  result = subprocess.run([sys.executable, "-c", code], cwd=tiny.ROOT,
                          stderr=subprocess.PIPE, universal_newlines=True)
  assert "IllegalFlagValueError: flag --long_text=middle" in result.stderr
  assert "<head|head_tail|sliding>" in result.stderr


def test_examples_are_logged(tokenizer, tmp_path, caplog):
  examples = [cu.InputExample("dev-7", "今天好", "我", "b"),
              cu.InputExample("dev-8", "好" * 30, None, "a")]
  with caplog.at_level(logging.INFO, logger="tensorflow"):
    cf.convert_split(examples, ["a", "b"], make_options(long_text="sliding"),
                     str(tmp_path), "dev", tokenizer)
  lines = [record.getMessage() for record in caplog.records]
  first = lines.index("*** Example dev-7 ***")
  assert lines[first + 1:first + 5] == [
      "tokens: [CLS] 今 天 好 [SEP] 我 [SEP]", "segment_ids: 0 0 0 0 0 1 1",
      "label: b (id = 1)", "*** Example dev-8, the first of 4 windows ***"]


def test_the_index_says_what_is_known_of_records(tokenizer, tmp_path):
  feature_file = cf.convert_split(
      make_examples(3), ["a", "b"], make_options(), str(tmp_path), "dev",
      tokenizer)
  with io.open(feature_file.path + ".index.json") as reader:
    assert json.load(reader) == {
        "windows": None, "lengths": [3, 8, 13],
        "bytes": os.path.getsize(feature_file.path)}
