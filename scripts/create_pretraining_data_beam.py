"""create_pretraining_data.py as an Apache Beam pipeline, for many machines.

  python scripts/create_pretraining_data_beam.py --input_file='corpus/*.txt.gz' \\
      --output_dir=pretrain --num_shards=128 --vocab_file=vocab.txt \\
      --do_whole_word_mask=True --runner=DirectRunner

The flags are those of the local script, the others (--runner, --project ...) are
Beam's. Paths may be all that Beam knows, such as gs://bucket/corpus/*.txt. The
instances are the same as the local script's for the same input and seed, in
another order: their generators are seeded by file, document and repeat. A file
is read by one worker, so give many of a few hundred megabytes.

Needs requirements-beam.txt. Workers need the project's files on their Python's
path, and the segmenter's package: see docs/scale.md.
"""

import argparse
import collections
import io
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from absl import flags
from absl import logging
try:
  import apache_beam as beam
except ImportError as missing:
  sys.exit("create_pretraining_data_beam.py needs the package apache-beam (%s):"
           " pip install -r requirements-beam.txt" % missing)
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
import numpy as np

import corpus_utils
import create_pretraining_data as data
import tfrecord_utils
from corpus_utils import DataError

FLAGS = flags.FLAGS

# A shard's records come together in parts of this number, each in random order.
PARTS_PER_SHARD = 64


def expand_paths(input_file):
  """The input files, in the order of the local script."""
  paths = []
  for pattern in input_file.split(","):
    if "://" in pattern:
      found = sorted(match.path for match in FileSystems.match(
          [pattern.strip()])[0].metadata_list)
      if not found:
        raise DataError("--input_file: no file matches %s" % pattern)
    elif pattern.strip() == corpus_utils.STANDARD_INPUT:
      raise DataError("--input_file=- is read by create_pretraining_data.py"
                      " only; a pipeline reads files")
    else:
      found = corpus_utils.expand_input_patterns(pattern)
    paths.extend(path for path in found if path not in paths)
  return paths


class _Reader(io.RawIOBase):
  """A file of Beam's, which has `read` only, as a file of Python's."""

  def __init__(self, file):
    self._file = file

  def readable(self):
    return True

  def readinto(self, buffer):
    content = self._file.read(len(buffer))
    buffer[:len(content)] = content
    return len(content)

  def close(self):
    if not self.closed:
      self._file.close()
    super().close()


def open_file(path):
  """Opens a file of any file system and compression for reading bytes."""
  return io.BufferedReader(_Reader(FileSystems.open(path)), 2**18)


class ReadDocuments(beam.DoFn):
  """Turns (index, path) into Documents, and counts into the output "counts"."""

  def __init__(self, settings):
    self._settings = settings

  def process(self, element):
    index, path = element
    counts = collections.Counter()
    documents = corpus_utils.read_documents(
        [path], counts, self._settings["input_format"],
        self._settings["text_field"], self._settings["on_bad_line"], open_file)
    for document in corpus_utils.drop_short_documents(documents, counts):
      yield document._replace(file_index=index)
    yield beam.pvalue.TaggedOutput("counts", counts)


class CreateInstances(beam.DoFn):
  """Turns Documents into (part, (place, record)); counts as above."""

  def __init__(self, settings, num_parts):
    """Reads the files that `settings` name: workers may not have them."""
    self._settings = dict(settings)
    self._num_parts = num_parts
    self._files = {}
    for name in ("vocab_file", "jieba_user_dict"):
      if settings[name]:
        with io.open(settings[name], "rb") as reader:
          self._files[name] = reader.read()
    self._creator = None

  def setup(self):
    with tempfile.TemporaryDirectory() as folder:
      for name, content in self._files.items():
        self._settings[name] = os.path.join(folder, name)
        with io.open(self._settings[name], "wb") as writer:
          writer.write(content)
      self._creator, _ = data.make_creator(self._settings)

  def process(self, document):
    tokens, plans, counts = self._creator.tokenize([document])
    for plan in plans:
      if not len(plan):
        continue
      segments = [(tokens[a_begin:a_end], tokens[b_begin:b_end])
                  for a_begin, a_end, b_begin, b_end in plan["spans"].tolist()]
      batch, batch_counts = self._creator.create_batch(plan, segments)
      counts.update(batch_counts)
      records = tfrecord_utils.split_records(
          *tfrecord_utils.serialize_batch(batch))
      parts = plan["order"] % np.uint64(self._num_parts)
      for part, place, record in zip(parts.tolist(), plan["order"].tolist(),
                                     records):
        yield part, (place, record)
    yield beam.pvalue.TaggedOutput("counts", counts)


def order_part(element):
  """The records of a part, in the order of their places."""
  for _, record in sorted(element[1]):
    yield record


def add_counts(all_counts):
  """The sum of counts."""
  total = collections.Counter()
  for counts in all_counts:
    total.update(counts)
  return total


class WriteMetadata(beam.DoFn):
  """Writes metadata.json beside the records."""

  def __init__(self, output_files, metadata):
    self._output_files, self._metadata = output_files, metadata

  def process(self, counts, unused_written):
    """Args: counts, of all steps; the written files, to come after them."""
    if not counts["instances"]:
      raise DataError("no instance came out of the %d documents" %
                      counts["documents"])
    metadata = dict(
        self._metadata, files=[os.path.basename(path)
                               for path in self._output_files],
        **data.summarize(counts, self._metadata["max_seq_length"]))
    path = FileSystems.join(os.path.dirname(self._output_files[0]),
                            data.METADATA_NAME)
    with FileSystems.create(path, "text/plain") as writer:
      writer.write(data.format_metadata(metadata).encode("utf-8"))
    yield counts


def build_pipeline(pipeline, paths, output_dir, num_shards, compress, settings):
  """Adds everything to a pipeline; arguments as the flags have them."""
  output_files = data.output_shards(output_dir, num_shards, compress)
  _, metadata = data.make_creator(settings)
  metadata["compression"] = "GZIP" if compress else ""
  read = (pipeline
          | "files" >> beam.Create(list(enumerate(paths)))
          | "one by one" >> beam.Reshuffle()
          | "read" >> beam.ParDo(ReadDocuments(settings)).with_outputs(
              "counts", main="documents"))
  created = (read.documents
             | "spread" >> beam.Reshuffle()
             | "create" >> beam.ParDo(CreateInstances(
                 settings, num_shards * PARTS_PER_SHARD)).with_outputs(
                     "counts", main="records"))
  written = (created.records
             | "gather" >> beam.GroupByKey()
             | "order" >> beam.FlatMap(order_part)
             | "write" >> beam.io.WriteToTFRecord(
                 output_files[0][:-len("-00000-of-00000")],
                 num_shards=num_shards, compression_type=(
                     beam.io.filesystem.CompressionTypes.GZIP if compress else
                     beam.io.filesystem.CompressionTypes.UNCOMPRESSED)))
  _ = ((read.counts, created.counts)
       | "all counts" >> beam.Flatten()
       | "add" >> beam.CombineGlobally(add_counts)
       | "describe" >> beam.ParDo(WriteMetadata(output_files, metadata),
                                     beam.pvalue.AsList(written)))


def parse_pipeline_options(arguments):
  """Beam's options; unlike Beam's own parsing, every one has to be known."""
  parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
  kinds = [PipelineOptions]
  while kinds:
    kind = kinds.pop()
    kinds.extend(kind.__subclasses__())
    if "_add_argparse_args" in vars(kind):
      kind._add_argparse_args(parser)
  _, unknown = parser.parse_known_args(arguments)
  if unknown:
    raise DataError("neither this script nor Beam knows %s" % " ".join(unknown))
  return PipelineOptions(arguments, save_main_session=False)


def main(argv):
  logging.set_verbosity(logging.INFO)
  data.define_instance_flags()
  flags.mark_flags_as_required(["input_file", "output_dir", "vocab_file"])
  try:
    options = parse_pipeline_options(FLAGS(argv, known_only=True)[1:])
    settings = data.settings_of_flags()
    if FLAGS.sentence_pair_task == "nsp":
      raise DataError("--sentence_pair_task=nsp takes sentences from other"
                      " documents, which a pipeline does not have at hand; use"
                      " create_pretraining_data.py")
    data.warn_about_cap(settings)
    paths = expand_paths(FLAGS.input_file)
    if not FileSystems.exists(FLAGS.output_dir):
      FileSystems.mkdirs(FLAGS.output_dir)
    with beam.Pipeline(options=options) as pipeline:
      build_pipeline(pipeline, paths, FLAGS.output_dir, FLAGS.num_shards,
                     FLAGS.gzip, settings)
  except flags.Error as error:
    sys.exit("create_pretraining_data_beam.py: error: %s" % error)
  except (ValueError, OSError, RuntimeError) as error:
    # A runner puts the name of the step after the message.
    sys.exit("create_pretraining_data_beam.py: error: %s" %
             data.describe_error(error).split("\n")[0])
  logging.info("written to %s", FLAGS.output_dir)


if __name__ == "__main__":
  main(sys.argv)
