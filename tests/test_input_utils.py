"""The order of records, starts in the middle, workers, lengths, and counting."""

import gzip
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import input_utils
import tiny

ONE = input_utils.Worker(0, 1, 1)
COUNTS = [7, 30, 50, 3, 20]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
  """Five files of records "<file>-<number>" of several lengths."""
  folder = tmp_path_factory.mktemp("records")
  names = []
  for index, count in enumerate(COUNTS):
    names.append(str(folder / ("%d.tfrecord" % index)))
    with tf.python_io.TFRecordWriter(names[-1]) as writer:
      for number in range(count):
        text = "%d-%d" % (index, number)
        writer.write((text + "." * (number * 7 % 10)).encode())
  return names


def read(epochs, count, batch_size=4, num_replicas=1, start_step=0,
         lengths=None, graph_seed=None, within_epochs=False):
  """The keys of so many batches, a list of lists."""
  with tf.Graph().as_default(), tf.Session() as session:
    if graph_seed:
      tf.set_random_seed(graph_seed)
    dataset = input_utils.train_batches(
        epochs, lambda keys: {"keys": keys}, 5, batch_size, num_replicas,
        start_step, lengths=lengths, within_epochs=within_epochs)
    iterator = tf.data.make_initializable_iterator(dataset)
    batch = iterator.get_next()["keys"]
    session.run(iterator.initializer)
    return [session.run(batch).tolist() for _ in range(count)]


def epochs_of(paths, worker=ONE, seed=5):
  return input_utils.file_epochs(paths, COUNTS, seed, worker,
                                 shuffle_records=20)


def epochs_seen(batches, length):
  keys = sum(batches, [])
  return [keys[begin:begin + length]
          for begin in range(0, len(keys) - length + 1, length)]


def test_every_epoch_has_all_records_in_an_order_of_its_own(paths):
  batches = read(epochs_of(paths), 84)
  first, second, third = epochs_seen(batches, sum(COUNTS))[:3]
  assert len(set(first)) == sum(COUNTS)
  assert sorted(first) == sorted(second) == sorted(third)
  assert first != second and second != third
  # The same in a graph with another seed; not with another seed of the data.
  assert read(epochs_of(paths), 30, graph_seed=77) == batches[:30]
  assert read(epochs_of(paths, seed=6), 30) != batches[:30]
  # Known on every TensorFlow: a run may go on with another one.
  assert [key.decode().rstrip(".") for key in first[:6]] == FIRST


FIRST = ["2-9", "2-4", "4-1", "2-7", "2-12", "4-2"]


@pytest.mark.parametrize("lengths", [None, tf.strings.length])
def test_a_start_in_the_middle_goes_on_as_without_a_break(paths, lengths):
  batches = read(epochs_of(paths), 170, lengths=lengths)
  # Within the first epoch, at its end, in a later one, in a later window.
  for step in (1, 27, 28, 63, 64, 100, 150):
    assert read(epochs_of(paths), 20, start_step=step,
                lengths=lengths) == batches[step:step + 20]


@pytest.mark.parametrize("lengths", [None, tf.strings.length])
def test_replicas_share_what_one_with_their_batches_sees(paths, lengths):
  one = read(epochs_of(paths), 70, lengths=lengths)
  two = read(epochs_of(paths), 140, batch_size=2, num_replicas=2,
             lengths=lengths)
  assert [first + second for first, second in zip(two[::2], two[1::2])] == one
  # A step of both is skipped as one.
  assert read(epochs_of(paths), 10, 2, 2, 13, lengths) == two[26:36]


def test_workers_have_files_of_their_own(paths):
  parts = [epochs_of(paths, input_utils.Worker(index, 2, 1))
           for index in (0, 1)]
  assert [part.num_records for part in parts] == [7 + 50 + 20, 30 + 3]
  seen = [{key.decode()[0] for batch in read(part, 60) for key in batch}
          for part in parts]
  assert seen == [{"0", "2", "4"}, {"1", "3"}]
  # Each starts in its own epoch.
  for part in parts:
    assert read(part, 10, start_step=37) == read(part, 47)[37:]


def test_more_workers_than_files_share_the_records(paths):
  parts = [epochs_of(paths, input_utils.Worker(index, 7, 1))
           for index in range(7)]
  counts = [part.num_records for part in parts]
  assert counts == [16, 16, 16, 16, 16, 15, 15]
  epochs = [read(part, 1, batch_size=part.num_records)[0] for part in parts]
  assert len(set(sum(epochs, []))) == sum(COUNTS)
  with pytest.raises(ValueError, match="5 records for 7 workers, and worker 6"
                     " gets none"):
    input_utils.file_epochs(paths[:1], [5], 1, input_utils.Worker(6, 7, 1))


def test_numbers_are_shuffled_and_shared():
  for worker, expected in ((ONE, range(9)),
                           (input_utils.Worker(1, 2, 1), range(1, 9, 2))):
    epochs = input_utils.index_epochs(9, 3, worker)
    length = epochs.num_records
    seen = epochs_seen(read(epochs, 30), length)
    assert all(sorted(epoch) == list(expected) for epoch in seen)
    assert len(set(map(tuple, seen))) > 1
    assert read(epochs, 5, start_step=7) == read(epochs, 12)[7:]


def test_windows_sort_and_lose_nothing(paths):
  # 64 steps of 2 records are a window.
  batches = read(epochs_of(paths), 128, 2, lengths=tf.strings.length)
  plain = read(epochs_of(paths), 128, 2)
  for begin in (0, 64):
    assert (sorted(sum(batches[begin:begin + 64], [])) ==
            sorted(sum(plain[begin:begin + 64], [])))

  def waste(steps):
    return sum(2 * max(map(len, batch)) - sum(map(len, batch))
               for batch in steps)

  assert waste(batches) * 10 < waste(plain)
  # Short and long ones take turns.
  longest = [max(map(len, batch)) for batch in batches]
  assert longest[:64] != sorted(longest[:64]) and longest[:64] != longest[64:]


# Less than a step, a step, less than a window, some windows (of 256 records).
@pytest.mark.parametrize("num_records", [3, 4, 50, 600])
def test_windows_within_epochs(num_records):
  epochs = input_utils.index_epochs(num_records, 3, ONE)

  def lengths(keys):
    return tf.cast(keys * 37 % 100, tf.int32)

  def read_on(start, count, batch_size=4, num_replicas=1):
    return read(epochs, count, batch_size, num_replicas, start, lengths,
                within_epochs=True)

  num_steps = max(4, num_records) + 5
  batches = read_on(0, num_steps)
  seen = epochs_seen(batches, num_records)
  assert len(seen) >= 4
  assert all(sorted(epoch) == list(range(num_records)) for epoch in seen)
  assert num_records < 5 or len(set(map(tuple, seen))) == len(seen)
  for start in (1, num_steps // 2, num_steps - 2):
    assert read_on(start, num_steps - start) == batches[start:]
  two = read_on(0, 2 * num_steps, 2, 2)
  assert [a + b for a, b in zip(two[::2], two[1::2])] == batches


def test_windows_within_epochs_are_sorted_up_to_their_ends():
  def lengths(keys):
    return tf.cast(keys * 8, tf.int32)

  # 10 records are left over for the second epoch's first step, and so on.
  epochs = input_utils.index_epochs(16 * 20 + 10, 3, ONE)
  batches = read(epochs, 200, 16, lengths=lengths, within_epochs=True)
  # Of one epoch a step has neighbours only, but for what borders took away.
  spans = [max(batch) - min(batch) for batch in batches]
  assert sorted(spans)[len(spans) // 2] == 15
  # The two parts of a step on a border are similar, too.
  assert max(spans) < 60
  assert max(batches[0]) - min(batches[0]) < 60
  # Where the borders are is another place each time.
  assert len({min(batches[step]) // 30 for step in range(20, 200, 20)}) > 4


def test_records_of_one_cropped_length_are_in_any_order():
  epochs = input_utils.index_epochs(64, 3, ONE)
  batches = read(epochs, 20, 16, within_epochs=True,
                 lengths=lambda keys: tf.cast(keys // 32 * 8 + 1, tf.int32))
  assert {len({key // 32 for key in batch}) for batch in batches} == {1}
  assert len({tuple(sorted(batch)) for batch in batches}) == 20


def test_workers_within_epochs_take_steps_of_similar_lengths():
  parts = [input_utils.index_epochs(640, 3, input_utils.Worker(index, 2, 1))
           for index in (0, 1)]
  steps = [read(part, 20, 16, within_epochs=True,
                lengths=lambda keys: tf.cast(keys * 8, tf.int32))
           for part in parts]
  assert [max(step) for step in steps[0]] == [max(step) - 1
                                              for step in steps[1]]


def test_who_reads():
  context = types.SimpleNamespace(num_input_pipelines=2, input_pipeline_id=1,
                                  num_replicas_in_sync=8)
  assert input_utils.find_worker(context) == (1, 2, 4)
  assert input_utils.find_worker() == (0, 1, 1)


def test_cropping_keeps_what_is_no_padding():
  mask = np.zeros([3, 40], np.int32)
  mask[0, :5] = 1
  mask[1, :20] = 1
  mask[1, 3] = 0  # a hole is no end
  ids = np.arange(120).reshape(3, 40)
  with tf.Graph().as_default(), tf.Session() as session:
    features = {"input_ids": tf.constant(ids), "other": tf.constant(ids),
                "input_mask": tf.constant(mask)}
    lengths, cropped, empty = session.run([
        input_utils.sequence_lengths(features["input_mask"]),
        input_utils.crop(features, ["input_ids", "input_mask"]),
        input_utils.crop({"input_mask": tf.zeros([2, 40])}, ["input_mask"])])
  assert lengths.tolist() == [5, 20, 0]
  np.testing.assert_array_equal(cropped["input_ids"], ids[:, :24])
  np.testing.assert_array_equal(cropped["input_mask"], mask[:, :24])
  assert cropped["other"].shape == (3, 40)
  assert empty["input_mask"].shape == (2, 8)


def test_counting(paths, tmp_path):
  assert input_utils.count_records(paths) == COUNTS
  with open(paths[2], "rb") as reader:
    content = reader.read()
  packed, cut, torn = (tmp_path / name for name in ("packed", "cut", "torn"))
  packed.write_bytes(gzip.compress(content))
  assert input_utils.count_records([str(packed)]) == [50]
  for path, length in ((cut, len(content) - 3), (torn, len(content) + 5)):
    path.write_bytes((content + b"12345")[:length])
    with pytest.raises(ValueError, match="is cut off in its record number"):
      input_utils.count_records([str(path)])


def test_metadata_know_the_counts(monkeypatch, tmp_path):
  monkeypatch.setattr(input_utils, "_CHECKED_BYTES", 0)  # as of large files
  files = [str(tmp_path / name) for name in ("a", "b", "c", "d")]
  for path in files:
    with tf.python_io.TFRecordWriter(path) as writer:
      writer.write(b"one")
  tiny.write(tmp_path / "metadata.json", """{
      "files": ["a", "b"], "instances": 9, "instances_per_file": [4, 5],
      "other_data_sets": [{"files": ["c"], "instances": 6}]}""")
  assert input_utils.count_records(files) == [4, 5, 6, 1]


def test_wrong_metadata_are_refused(tmp_path):
  path = str(tmp_path / "a")
  with tf.python_io.TFRecordWriter(path) as writer:
    writer.write(b"one")
  tiny.write(tmp_path / "metadata.json", '{"files": ["a"], "instances": 1}')
  assert input_utils.count_records([path]) == [1]
  tiny.write(tmp_path / "metadata.json", '{"files": ["a"], "instances": 2}')
  with pytest.raises(ValueError, match="has 1 records, but metadata.* says 2"):
    input_utils.count_records([path])


def test_length_buckets_need_shapes_that_may_vary():
  options = types.SimpleNamespace(bucket_by_length=True, use_tpu=True,
                                  use_xla=False)
  with pytest.raises(ValueError, match="--bucket_by_length makes .*--use_tpu"):
    input_utils.check_bucket_flags(options)
  options.use_tpu, options.use_xla = False, True
  with pytest.raises(ValueError, match="--bucket_by_length makes .*--use_xla"):
    input_utils.check_bucket_flags(options)
  options.bucket_by_length = False
  input_utils.check_bucket_flags(options)
