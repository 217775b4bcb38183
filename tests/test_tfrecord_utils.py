"""Record bytes against the protobuf library and TensorFlow's writer."""

import gzip
import zlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import create_pretraining_data as data
import tfrecord_utils


def random_batch(num, length, predictions, largest, seed=0):
  rng = np.random.RandomState(seed)
  return tfrecord_utils.Batch(
      input_ids=rng.randint(0, largest, [num, length]),
      input_mask=rng.randint(0, 2, [num, length]),
      masked_lm_ids=rng.randint(0, largest, [num, predictions]),
      masked_lm_positions=np.sort(rng.randint(0, length, [num, predictions])),
      masked_lm_weights=rng.randint(0, 2, [num, predictions]),
      next_sentence_labels=rng.randint(0, 2, num),
      segment_ids=rng.randint(0, 2, [num, length]))


def by_protobuf(batch, row):
  features = {}
  for name, values in zip(batch._fields, batch):
    values = np.ravel(values[row])
    features[name] = (data.create_float_feature(values)
                      if name == "masked_lm_weights" else
                      data.create_int_feature(values))
  example = tf.train.Example(features=tf.train.Features(feature=features))
  return example.SerializeToString(deterministic=True)


# Lists whose length in bytes has one, two and three bytes, and all integers.
@pytest.mark.parametrize("num,length,predictions,largest", [
    (1, 5, 1, 2), (3, 64, 10, 128), (7, 128, 20, 21128), (2, 512, 51, 2**21),
    (2, 9000, 1300, 21128)])
def test_bytes_are_those_of_the_libraries(tmp_path, num, length, predictions,
                                          largest):
  batch = random_batch(num, length, predictions, largest)
  expected = [by_protobuf(batch, row) for row in range(num)]
  content, ends = tfrecord_utils.serialize_batch(batch)
  assert tfrecord_utils.split_records(content, ends) == expected
  path = str(tmp_path / "records")
  with tf.python_io.TFRecordWriter(path) as writer:
    for record in expected:
      writer.write(record)
  with open(path, "rb") as reader:
    assert reader.read() == content.tobytes()


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16383, 16384, 2**21 - 1])
def test_the_limits_of_integers(value):
  batch = random_batch(2, 8, 2, 2)._replace(input_ids=np.full([2, 8], value))
  content, ends = tfrecord_utils.serialize_batch(batch)
  assert tfrecord_utils.split_records(content, ends) == [
      by_protobuf(batch, 0), by_protobuf(batch, 1)]


@pytest.mark.parametrize("value", [-1, 2**21])
def test_integers_without_room(value):
  batch = random_batch(2, 8, 2, 2)
  batch.input_ids[1, 3] = value
  with pytest.raises(ValueError, match=r"from 0 to 2097151, found .*%d" % value):
    tfrecord_utils.serialize_batch(batch)


@pytest.mark.parametrize("record", [b"", b"a", b"abc" * 999, bytes(70000)])
def test_frames_are_those_of_the_writer(tmp_path, record):
  path = str(tmp_path / "records")
  with tf.python_io.TFRecordWriter(path) as writer:
    writer.write(record)
  with open(path, "rb") as reader:
    assert reader.read() == tfrecord_utils.frame_record(record)


def test_checksum_of_the_standard():
  # RFC 3720, B.4: CRC-32C of 32 zeros and of 0, 1 ... 31.
  def masked(crc):
    return (((crc >> 15) | (crc << 17)) + 0xa282ead8) % 2**32

  assert tfrecord_utils.masked_crc32c(bytes(32)) == masked(0x8a9136aa)
  assert tfrecord_utils.masked_crc32c(bytes(range(32))) == masked(0x46dd794e)
  assert tfrecord_utils.masked_crc32c(b"123456789") == masked(0xe3069283)


@pytest.mark.parametrize("parts", [
    [b"abc"], [b"", b"x"], [b"a" * 70000, b"", bytes(999), b"end" * 12345]])
def test_gzip_files_of_parts_have_one_member(parts):
  crc = length = 0
  content = tfrecord_utils.GZIP_HEADER
  for part in parts:
    packer = tfrecord_utils.GzipPart()
    content += packer.compress(part[:10]) + packer.compress(part[10:])
    content += packer.flush()
    crc = tfrecord_utils.combine_crc32(crc, packer.crc, packer.length)
    length += packer.length
  content += tfrecord_utils.gzip_trailer(crc, length)
  assert crc == zlib.crc32(b"".join(parts))
  reader = zlib.decompressobj(31)
  assert reader.decompress(content) == b"".join(parts)
  assert reader.eof and not reader.unused_data
  assert gzip.decompress(content) == b"".join(parts)
