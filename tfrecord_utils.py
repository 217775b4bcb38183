"""Instances and features to TFRecord bytes, without TensorFlow.

An Example of fixed shape is a fixed pattern of bytes with integers in it. Here
the pattern of many instances is laid out at once, as an array with room for the
longest form of every integer; then the bytes that are really used are kept. The
result is, byte for byte, what the protobuf library serializes deterministically
and what `tf.io.TFRecordWriter` puts around it.

Letters: N instances, S max_seq_length, P max_predictions_per_seq.
"""

import collections
import struct
import zlib

import numpy as np

# The features in the order in which protobuf serializes a map: by name.
Batch = collections.namedtuple("Batch", [
    "input_ids", "input_mask", "masked_lm_ids", "masked_lm_positions",
    "masked_lm_weights", "next_sentence_labels", "segment_ids"])

# As many instances at once as a core's cache holds the arrays of: nearly twice as
# fast as 128 at length 512.
_CACHED_ROWS = 64

# Three bytes hold integers below 2^21: ids, positions, and lengths of messages.
MAX_VARINT = 2**21
_CRC_POLYNOMIAL = 0x82f63b78  # CRC-32C (Castagnoli), lowest bit first
_MASK_DELTA = 0xa282ead8
_FLOAT_ONE = np.frombuffer(np.float32(1).tobytes(), np.uint8)


# --------------------------------------------------------------------- Example


def serialize_batch(batch):
  """Serializes instances as `tf.train.Example`s, framed as TFRecords.

  Args:
    batch: Batch of int arrays of shapes [N, S], [N, P] and [N]
      (next_sentence_labels); of 0 and 1 are input_mask, segment_ids,
      masked_lm_weights (which become float32) and next_sentence_labels. Or any
      namedtuple of int or float arrays [N] or [N, ...] whose fields are in the
      order of their names.

  Returns:
    (content, ends): uint8 array, a file's content or a part of it; int array
    [N], where in it each record ends.

  Raises:
    ValueError: an integer is negative or not below 2^21.
  """
  batch = batch._make(map(np.asarray, batch))
  parts = [_serialize_rows(batch._make(values[begin:begin + _CACHED_ROWS]
                                       for values in batch))
           for begin in range(0, len(batch[0]), _CACHED_ROWS)]
  content = np.concatenate([content for content, _ in parts])
  offsets = np.cumsum([0] + [len(content) for content, _ in parts])
  return content, np.concatenate([
      ends + offset for (_, ends), offset in zip(parts, offsets)])


def _serialize_rows(batch):
  """`serialize_batch` of few instances."""
  example = _message(b"\x0a", [part for name, values in
                               zip(batch._fields, batch)
                               for part in _feature(name, values)])
  # Room for the frame: length and its checksum before, a checksum after.
  num = len(batch[0])
  parts = [_constant(bytes(12), num)] + example + [_constant(bytes(4), num)]
  slots, used, lengths = zip(*parts)
  content = np.concatenate(slots, axis=1)[np.concatenate(used, axis=1)]
  ends = np.cumsum(sum(lengths))
  return _fill_frames(content, ends), ends


def split_records(content, ends):
  """The records alone, a list of bytes; arguments as above."""
  begins = [0] + ends[:-1].tolist()
  return [content[begin + 12:end - 4].tobytes()
          for begin, end in zip(begins, ends.tolist())]


# A part of the pattern. slots: uint8 array [N, W]; used: bool array [N, W], which
# slots are bytes of the record; lengths: int array [N], how many are.
_Part = collections.namedtuple("_Part", ["slots", "used", "lengths"])


def _feature(name, values):
  """The parts of an entry of the map: its key, and a packed list of numbers."""
  values = values.reshape([len(values), -1])
  list_tag = b"\x1a"
  if name == "masked_lm_weights":
    floats = values[:, :, None] * _FLOAT_ONE
    packed, list_tag = _bytes(floats.reshape([len(values), -1])), b"\x12"
  elif values.dtype.kind == "f":
    floats = np.ascontiguousarray(values, "<f4").view(np.uint8)
    packed, list_tag = _bytes(floats), b"\x12"
  elif name in ("input_mask", "next_sentence_labels", "segment_ids"):
    packed = _bytes(values)
  else:
    packed = _varints(values)
  value = _message(b"\x12", _message(list_tag, _message(b"\x0a", [packed])))
  key = _constant(b"\x0a" + bytes([len(name)]) + name.encode("ascii"),
                  len(values))
  return _message(b"\x0a", [key] + value)


def _message(tag, parts):
  """Puts a tag and the length in bytes before parts."""
  lengths = sum(part.lengths for part in parts)
  return [_constant(tag, len(lengths)), _varints(lengths[:, None])] + parts


def _bytes(values):
  """A part of an array [N, W] of numbers of one byte."""
  num, width = values.shape
  return _Part(values.astype(np.uint8), np.ones(values.shape, bool),
               np.full(num, width))


def _constant(content, num):
  return _bytes(np.tile(np.frombuffer(content, np.uint8), [num, 1]))


def _varints(values):
  """Integers in base 128, low digits first; all but the last have a high bit.

  Args:
    values: int array [N, W].

  Returns:
    _Part of width 4 W.
  """
  if values.size and not 0 <= values.min() <= values.max() < MAX_VARINT:
    raise ValueError("the integers of a record have to be from 0 to %d, found"
                     " %d to %d" % (MAX_VARINT - 1, values.min(), values.max()))
  slots, used, lengths = _varint_tables(int(values.max()) if values.size else 0)
  return _Part(slots.take(values).view(np.uint8), used.take(values).view(bool),
               lengths.take(values).sum(axis=1, dtype=np.int64))


_VARINTS = []


def _varint_tables(largest):
  """The four slots of integers, which of them are used, and how many."""
  if not _VARINTS or len(_VARINTS[0]) <= largest:
    values = np.arange(min(2 * largest + 2**15, MAX_VARINT))
    digits = np.stack([values & 0x7f, (values >> 7) & 0x7f, values >> 14,
                       np.zeros_like(values)], axis=1).astype(np.uint8)
    used = np.stack([values >= 0, values >= 1 << 7, values >= 1 << 14,
                     values < 0], axis=1)
    digits[:, :2] |= used[:, 1:3].astype(np.uint8) << 7
    _VARINTS[:] = [digits.view("<u4")[:, 0], used.view("<u4")[:, 0],
                   used.sum(axis=1)]
  return _VARINTS


# -------------------------------------------------------------------- TFRecord


def frame_record(record):
  """A record (bytes) as it stands in a TFRecord file."""
  content = np.zeros(len(record) + 16, np.uint8)
  content[12:-4] = np.frombuffer(record, np.uint8)
  return _fill_frames(content, np.array([len(content)])).tobytes()


def _fill_frames(content, ends):
  """Fills in the lengths and checksums around records.

  Args:
    content: uint8 array of all records, each between 12 and 4 unused bytes.
    ends: int array [N], where in the content each of them ends.

  Returns:
    The content.
  """
  begins = np.concatenate([[0], ends[:-1]])
  lengths = (ends - begins - 16).astype("<u8")
  header = lengths.view(np.uint8).reshape(-1, 8)
  _scatter(content, begins, header)
  _scatter(content, begins + 8, _as_bytes(_masked_crcs(
      header.reshape(-1), np.arange(0, header.size, 8),
      np.arange(8, header.size + 8, 8))))
  _scatter(content, ends - 4, _as_bytes(_masked_crcs(
      content, begins + 12, ends - 4)))
  return content


def _scatter(content, begins, values):
  content[begins[:, None] + np.arange(values.shape[1])] = values


def _as_bytes(numbers):
  return numbers.astype("<u4").view(np.uint8).reshape(-1, 4)


def masked_crc32c(content):
  """The checksum of TFRecord files of bytes, an int."""
  content = np.frombuffer(content, np.uint8)
  return int(_masked_crcs(content, np.array([0]), np.array([len(content)]))[0])


def _masked_crcs(content, begins, ends):
  """Masked CRC-32C of stretches of bytes that are in order and not empty.

  A CRC is linear: each byte adds, by exclusive or, what depends on its value
  and on how many bytes follow it, and on nothing else.

  Args:
    content: uint8 array.
    begins, ends: int arrays [N].

  Returns:
    uint32 array [N].
  """
  if len(content) == 0:
    content = np.zeros(1, np.uint8)
  of_bytes, of_lengths = _crc_tables(int((ends - begins).max()))
  # Bytes between the stretches look up anything, and are in no result.
  limits = np.concatenate([ends[:-1], [len(content)]])
  places = np.repeat(256 * (ends - 1), np.diff(limits, prepend=0))
  places -= np.arange(0, 256 * len(content), 256)
  places += content
  parts = of_bytes.take(places, mode="clip")
  crcs = np.bitwise_xor.reduceat(parts, np.stack([begins, ends], 1).reshape(
      -1)[:-1])[::2]
  crcs = np.where(ends > begins, crcs, 0)
  crcs = ~(crcs ^ of_lengths[ends - begins])
  return ((crcs >> 15) | (crcs << 17)) + np.uint32(_MASK_DELTA)


_TABLES = [np.zeros([0, 256], np.uint32), np.zeros(0, np.uint32)]


def _crc_tables(length):
  """What bytes, and the initial value, add to the CRC.

  Returns:
    (uint32 array [length or more, 256], by the number of bytes that follow;
    uint32 array [more than length], by the length of the whole).
  """
  if len(_TABLES[0]) <= length:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
      table = (table >> 1) ^ np.where(table & 1, np.uint32(_CRC_POLYNOMIAL),
                                      np.uint32(0))
    # 256 columns for the bytes, and one for the value that a CRC begins with.
    values = np.append(table, np.uint32(0xffffffff))
    rows = [values]
    for _ in range(length + 64):
      values = (values >> 8) ^ table[values & 0xff]
      rows.append(values)
    rows = np.stack(rows)
    _TABLES[:] = [np.ascontiguousarray(rows[:, :256]), rows[:, 256].copy()]
  return _TABLES


# ------------------------------------------------------------------------ gzip

# A gzip file can be put together of parts that were compressed apart: a header,
# blocks that end at a byte each, an empty last block, checksum and length. So
# it is one member; TensorFlow 1.15 reads no more than the first.
GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"  # no name, no time
_GZIP_LAST_BLOCK = b"\x03\0"
_GZIP_LEVEL = 5
_CRC32_POLYNOMIAL = 0xedb88320


class GzipPart(object):
  """Compresses a part of a gzip file; see `gzip_trailer`."""

  def __init__(self):
    self._compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, -15)
    self.crc = 0
    self.length = 0

  def compress(self, content):
    """Returns compressed bytes, as many as there are by now."""
    self.crc = zlib.crc32(content, self.crc)
    self.length += len(content)
    return self._compressor.compress(content)

  def flush(self):
    """Returns the rest of the compressed bytes."""
    return self._compressor.flush(zlib.Z_FULL_FLUSH)


def gzip_trailer(crc, length):
  """What comes after the last part; arguments of all that was compressed."""
  return _GZIP_LAST_BLOCK + struct.pack("<II", crc, length & 0xffffffff)


def combine_crc32(first, second, second_length):
  """The CRC-32 of two contents together, of that of each.

  The first one's register is multiplied by x^(8 n), modulo the polynomial, as
  the n bytes of the second would do it.

  Args:
    first, second: ints, as zlib.crc32 returns them.
    second_length: int, number of bytes.

  Returns:
    int.
  """
  power, factor = 1 << 31, 1 << 23  # x^0 and x^8, highest power in the low bit
  while second_length:
    if second_length & 1:
      power = _multiply(power, factor)
    factor = _multiply(factor, factor)
    second_length >>= 1
  return _multiply(first, power) ^ second


def _multiply(a, b):
  """The product of two polynomials modulo that of CRC-32."""
  product = 0
  while a:
    if a & (1 << 31):
      product ^= b
    a = (a << 1) & 0xffffffff
    b = (b >> 1) ^ (_CRC32_POLYNOMIAL if b & 1 else 0)
  return product
