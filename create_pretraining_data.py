"""Turns raw text into TFRecords for sentence-order and masked-LM training.

  python create_pretraining_data.py --input_file='corpus/*.txt' \\
      --output_file=pretrain/train.tfrecord --vocab_file=vocab.txt \\
      --do_whole_word_mask=True --max_seq_length=512 \\
      --max_predictions_per_seq=51 --masked_lm_prob=0.10

Input: UTF-8 text, one sentence a line, a blank line between documents (other
forms: `--input_format`); files, globs, folders, compressed ones too, or "-".

Every document is tokenized and segmented into words once, then used
`dupe_factor` times, each time with a random generator of its own, seeded from
(seed, document, repeat). Memory does not grow with the corpus, the work is
shared among processes, and a run that was killed goes on where it was: how,
and what disk it takes, is in shard_utils.py. TensorFlow is not needed.

A word is where the segmenter put it: a span of characters of the line that
was read. Tokens know their characters, so they are grouped by span and never
rewritten: ids and labels are the same with and without whole-word masking.

Letters: N instances, S max_seq_length, P max_predictions_per_seq.
"""

import collections
import contextlib
import errno
import hashlib
import io
import json
import os
import sys
import tempfile

from absl import app
from absl import flags
from absl import logging
import numpy as np

import corpus_utils
import instance_utils
import shard_utils
import tfrecord_utils
import tokenization
import word_segmentation
from corpus_utils import DataError
from corpus_utils import expand_input_patterns
from instance_utils import InstanceOptions
from word_segmentation import LineTokenizer
from word_segmentation import Segment
from word_segmentation import segment_from_tokens

FORMAT_VERSION = 2
METADATA_NAME = "metadata.json"

FLAGS = flags.FLAGS


# ------------------------------------------------- one document, token by token

MaskedLmInstance = collections.namedtuple("MaskedLmInstance",
                                          ["index", "label"])


class TrainingInstance(object):
  """A single training instance: two segments of one text, partly masked."""

  def __init__(self, tokens, segment_ids, masked_lm_positions,
               masked_lm_labels, is_random_next):
    self.tokens = tokens
    self.segment_ids = segment_ids
    self.is_random_next = is_random_next
    self.masked_lm_positions = masked_lm_positions
    self.masked_lm_labels = masked_lm_labels

  def __str__(self):
    return "\n".join("%s: %s" % (key, " ".join(str(item) for item in value))
                     for key, value in [
                         ("tokens", self.tokens),
                         ("segment_ids", self.segment_ids),
                         ("is_random_next", [self.is_random_next]),
                         ("masked_lm_positions", self.masked_lm_positions),
                         ("masked_lm_labels", self.masked_lm_labels)]) + "\n"


def create_training_instances(input_files, tokenizer, max_seq_length,
                              dupe_factor, short_seq_prob, masked_lm_prob,
                              max_predictions_per_seq, rng,
                              sentence_pair_task="sop", line_tokenizer=None,
                              on_bad_line="error", counts=None,
                              **masking_options):
  """Creates the instances of all documents, in the documents' order.

  All documents are held in memory; the script itself does not use this. Its
  instances are the same, in another order, with `rng` made of its seed.

  Args:
    input_files: list of paths.
    tokenizer: tokenization.FullTokenizer.
    max_seq_length: int, S.
    dupe_factor: int, how often each document is used.
    short_seq_prob: float, share of documents cut into shorter instances.
    masked_lm_prob: float, share of tokens to mask.
    max_predictions_per_seq: int, P.
    rng: random.Random; the seed of all other generators is drawn from it.
    sentence_pair_task: "sop", "nsp" or "none".
    line_tokenizer: function from a line to a Segment; default
      `LineTokenizer(tokenizer)`: every token is a word.
    on_bad_line: "error" or "skip".
    counts: collections.Counter to fill, or None.
    **masking_options: see `choose_masks`.

  Yields:
    TrainingInstances.

  Raises:
    DataError: a line is not UTF-8, or nsp has a single document.
  """
  counts = collections.Counter() if counts is None else counts
  line_tokenizer = line_tokenizer or LineTokenizer(tokenizer)
  documents, identities = [], []
  for document in corpus_utils.read_documents(input_files, counts,
                                              on_bad_line=on_bad_line):
    tokenized = instance_utils.tokenize_document(document.lines, line_tokenizer,
                                  max_seq_length - 3, counts)
    if tokenized is not None:
      documents.append(tokenized)
      identities.append((document.file_index, document.number))
  instance_utils.check_enough_documents(documents, sentence_pair_task)
  vocab_words = list(tokenizer.vocab)
  seed = rng.getrandbits(64)
  joined = _join_documents(documents)
  for repeat in range(dupe_factor):
    for index, identity in enumerate(identities):
      for instance in _create_instances(
          joined, index, max_seq_length, short_seq_prob, masked_lm_prob,
          max_predictions_per_seq, vocab_words,
          instance_utils.document_rng(seed, identity, repeat),
          sentence_pair_task, masking_options):
        yield instance


def create_instances_from_document(
    all_documents, document_index, max_seq_length, short_seq_prob,
    masked_lm_prob, max_predictions_per_seq, vocab_words, rng,
    sentence_pair_task="sop", **masking_options):
  """Creates the instances of one document.

  Args:
    all_documents: list of documents: TokenizedDocuments, or lists of sentences
      that are Segments or lists of tokens.
    document_index: int.
    max_seq_length, short_seq_prob, sentence_pair_task: see `plan_pairs`.
    masked_lm_prob, max_predictions_per_seq, **masking_options: see
      `choose_masks`.
    vocab_words: list of strings that may replace a masked token.
    rng: random.Random of this document.

  Returns:
    List of TrainingInstances.
  """
  if sentence_pair_task != "nsp":  # which alone looks at other documents
    all_documents, document_index = [all_documents[document_index]], 0
  return _create_instances(
      _join_documents(all_documents), document_index, max_seq_length,
      short_seq_prob, masked_lm_prob, max_predictions_per_seq, vocab_words, rng,
      sentence_pair_task, masking_options)


def _join_documents(documents):
  """Joins documents to one text.

  Returns:
    (Segment, list of bounds as in `plan_pairs`, list of clause ends).
  """
  text, bounds = Segment([], [], []), []
  for document in documents:
    if not isinstance(document, instance_utils.TokenizedDocument):
      document = instance_utils.join_sentences(
          [sentence if isinstance(sentence, Segment)
           else segment_from_tokens(sentence) for sentence in document],
          sys.maxsize)
    bounds.append([len(text.tokens) + bound for bound in document.bounds])
    for column, items in zip(text, document):
      column.extend(items)
  clause_ends = instance_utils.find_clause_ends(
      [token in instance_utils.CLAUSE_MARKS for token in text.tokens])
  return text, bounds, clause_ends


def _create_instances(joined, document_index, max_seq_length, short_seq_prob,
                      masked_lm_prob, max_predictions_per_seq, vocab_words, rng,
                      sentence_pair_task, masking_options):
  """The instances of one of the documents that were joined."""
  text, bounds, clause_ends = joined
  return [
      _make_instance(text, pair, masked_lm_prob, max_predictions_per_seq,
                     vocab_words, **masking_options)
      for pair in instance_utils.plan_pairs(
          bounds, document_index, clause_ends, max_seq_length, short_seq_prob,
          rng, sentence_pair_task)]


def _make_instance(text, pair, masked_lm_prob, max_predictions_per_seq,
                   vocab_words, **masking_options):
  """Puts [CLS] a [SEP] b [SEP] together and masks it."""
  has_b = pair.b_end > pair.b_begin
  parts = [["[CLS]"], slice(pair.a_begin, pair.a_end), ["[SEP]"]]
  if has_b:
    parts += [slice(pair.b_begin, pair.b_end), ["[SEP]"]]
  whole = Segment(*(
      [item for part in parts
       for item in (column[part] if isinstance(part, slice) else part)]
      for column in text))
  length_a = pair.a_end - pair.a_begin + 2
  segment_ids = [0] * length_a + [1] * (len(whole.tokens) - length_a)
  tokens, positions, labels = _mask_tokens(
      whole, pair.key, masked_lm_prob, max_predictions_per_seq, vocab_words,
      **masking_options)
  return TrainingInstance(tokens, segment_ids, positions, labels,
                          bool(pair.label))


def create_instances_from_document_albert(
    all_documents, document_index, max_seq_length, short_seq_prob,
    masked_lm_prob, max_predictions_per_seq, vocab_words, rng,
    **masking_options):
  """`create_instances_from_document` under albert_zh's name for sop."""
  return create_instances_from_document(
      all_documents, document_index, max_seq_length, short_seq_prob,
      masked_lm_prob, max_predictions_per_seq, vocab_words, rng, "sop",
      **masking_options)


def create_masked_lm_predictions(tokens, masked_lm_prob,
                                 max_predictions_per_seq, vocab_words, rng,
                                 starts=None, labels=None, **masking_options):
  """Masks words of an instance.

  Of the chosen tokens 80 % become [MASK], 10 % stay, 10 % become another
  token of the vocabulary (Devlin et al., https://arxiv.org/abs/1810.04805);
  never a special one, nor a `##` piece.

  Args:
    tokens: list of strings, with [CLS] and [SEP].
    masked_lm_prob, max_predictions_per_seq, **masking_options: see
      `choose_masks`.
    vocab_words: list of strings that may replace a token.
    rng: random.Random.
    starts: list of bools, True where a token begins a word; default: every
      token is a word.
    labels: list of strings, what is to be predicted; default the tokens.

  Returns:
    (list of tokens with masks, sorted list of positions, list of labels).
  """
  whole = Segment(tokens, [True] * len(tokens) if starts is None else starts,
                  tokens if labels is None else labels)
  return _mask_tokens(whole, rng.getrandbits(64), masked_lm_prob,
                      max_predictions_per_seq, vocab_words, **masking_options)


# The last vocabulary, and the words of it that may replace others.
_LAST_VOCABULARY = [None, None]


def _mask_tokens(whole, key, masked_lm_prob, max_predictions_per_seq,
                 vocab_words, **masking_options):
  """Masks a Segment; returns and arguments as in the function above."""
  special = [token in instance_utils.NEVER_MASKED for token in whole.tokens]
  masks = instance_utils.choose_masks(
      np.array([whole.starts], bool), np.array([special], bool),
      np.array([len(whole.tokens)]), np.array([key], np.uint64),
      masked_lm_prob, max_predictions_per_seq, **masking_options)
  if _LAST_VOCABULARY[0] is not vocab_words:
    _LAST_VOCABULARY[:] = (
        vocab_words, instance_utils.replacement_words(vocab_words))
  replacing = _LAST_VOCABULARY[1]
  output_tokens = list(whole.tokens)
  masked_lms = []
  for position, action, replacement in zip(masks.positions, masks.actions,
                                           masks.replacements):
    masked_lms.append(MaskedLmInstance(int(position), whole.labels[position]))
    if action < instance_utils.MASK_SHARE:
      output_tokens[position] = "[MASK]"
    elif action >= instance_utils.MASK_SHARE + instance_utils.KEEP_SHARE:
      output_tokens[position] = replacing[int(replacement * len(replacing))]
  return (output_tokens, [lm.index for lm in masked_lms],
          [lm.label for lm in masked_lms])


def truncate_seq_pair(tokens_a, tokens_b, max_num_tokens, rng):
  """Truncates two lists of tokens in place to a maximum sum of lengths."""
  begin_a, end_a, begin_b, end_b = instance_utils.truncated_spans(
      len(tokens_a), len(tokens_b), max_num_tokens, rng)
  tokens_a[:] = tokens_a[begin_a:end_a]
  tokens_b[:] = tokens_b[begin_b:end_b]


# -------------------------------------------------------------------- writing


def create_int_feature(values):
  """An int64 feature of tf.train.Example."""
  import tensorflow.compat.v1 as tf  # pylint: disable=import-outside-toplevel
  return tf.train.Feature(int64_list=tf.train.Int64List(value=list(values)))


def create_float_feature(values):
  """A float32 feature of tf.train.Example."""
  import tensorflow.compat.v1 as tf  # pylint: disable=import-outside-toplevel
  return tf.train.Feature(float_list=tf.train.FloatList(value=list(values)))


def serialize_instance(instance, tokenizer, max_seq_length,
                       max_predictions_per_seq):
  """Turns an instance into the bytes of a tf.train.Example.

  Args:
    instance: TrainingInstance.
    tokenizer: tokenization.FullTokenizer.
    max_seq_length: int, S; input_ids, input_mask, segment_ids are padded.
    max_predictions_per_seq: int, P; masked_lm_* are padded.

  Returns:
    bytes.
  """
  def padded(values, length):
    return np.array([list(values) + [0] * (length - len(values))])

  if (len(instance.tokens) > max_seq_length or
      len(instance.masked_lm_labels) > max_predictions_per_seq):
    raise DataError(
        "an instance has %d tokens and %d predictions, more than max_seq_length"
        " %d or max_predictions_per_seq %d" % (
            len(instance.tokens), len(instance.masked_lm_labels),
            max_seq_length, max_predictions_per_seq))
  input_ids = tokenizer.convert_tokens_to_ids(instance.tokens)
  label_ids = tokenizer.convert_tokens_to_ids(instance.masked_lm_labels)
  batch = tfrecord_utils.Batch(
      input_ids=padded(input_ids, max_seq_length),
      input_mask=padded([1] * len(input_ids), max_seq_length),
      masked_lm_ids=padded(label_ids, max_predictions_per_seq),
      masked_lm_positions=padded(instance.masked_lm_positions,
                                 max_predictions_per_seq),
      masked_lm_weights=padded([1] * len(label_ids), max_predictions_per_seq),
      next_sentence_labels=np.array([int(instance.is_random_next)]),
      segment_ids=padded(instance.segment_ids, max_seq_length))
  return tfrecord_utils.split_records(*tfrecord_utils.serialize_batch(batch))[0]


def write_instance_to_example_files(instances, tokenizer, max_seq_length,
                                    max_predictions_per_seq, output_files):
  """Writes instances to TFRecord files in turn.

  Args:
    instances: iterable of TrainingInstances.
    tokenizer: tokenization.FullTokenizer.
    max_seq_length: int, S.
    max_predictions_per_seq: int, P.
    output_files: list of paths.

  Returns:
    int, number of instances.

  Raises:
    DataError: there are fewer instances than files.
  """
  num_instances = 0
  with contextlib.ExitStack() as stack:
    writers = [stack.enter_context(io.open(path + ".tmp", "wb"))
               for path in output_files]
    for instance in instances:
      record = serialize_instance(instance, tokenizer, max_seq_length,
                                  max_predictions_per_seq)
      writers[num_instances % len(writers)].write(
          tfrecord_utils.frame_record(record))
      num_instances += 1
  if num_instances < len(output_files):
    for path in output_files:
      os.remove(path + ".tmp")
    raise DataError("there are %d instances for the %d files; name fewer files" %
                    (num_instances, len(output_files)))
  for path in output_files:
    os.replace(path + ".tmp", path)
  return num_instances


def write_metadata(output_files, metadata, instances_per_file=None):
  """Writes `metadata.json` into the folders of the records.

  The file describes the newest data set of its folder; what it said of other
  files there is kept under "other_data_sets".

  Args:
    output_files: list of paths.
    metadata: dict.
    instances_per_file: list of ints, or None.
  """
  for folder in sorted({os.path.dirname(path) for path in output_files}):
    here = [i for i, path in enumerate(output_files)
            if os.path.dirname(path) == folder]
    content = dict(metadata, files=[os.path.basename(output_files[i])
                                    for i in here])
    if instances_per_file:
      content["instances_per_file"] = [instances_per_file[i] for i in here]
    path = os.path.join(folder, METADATA_NAME)
    _write_data_sets(path, [content] + _other_data_sets(path, content["files"]))


def format_metadata(content):
  """The text of a metadata file that has a dict as its content."""
  return json.dumps(content, ensure_ascii=False, indent=2,
                    sort_keys=True) + "\n"


def forget_metadata(output_files):
  """Removes what metadata files say of records that will be written anew."""
  for output_file in output_files:
    folder, name = os.path.split(output_file)
    path = os.path.join(folder, METADATA_NAME)
    if os.path.exists(path):
      _write_data_sets(path, _other_data_sets(path, [name]))


def _other_data_sets(path, names):
  """The data sets that a metadata file describes, without those of files."""
  return [entry for entry in _stored_data_sets(path)
          if not set(entry["files"]) & set(names)]


def _write_data_sets(path, data_sets):
  """Writes a metadata file, or removes it where there are no data sets."""
  if not data_sets:
    os.remove(path)
    return
  content = dict(data_sets[0])
  if data_sets[1:]:
    content["other_data_sets"] = data_sets[1:]
  # "replace": a file's name may be no text at all.
  with io.open(path + ".tmp", "w", encoding="utf-8", errors="replace",
               newline="\n") as writer:
    writer.write(format_metadata(content))
  os.replace(path + ".tmp", path)


def _stored_data_sets(path):
  """The data sets that a metadata file describes, the newest first."""
  if not os.path.exists(path):
    return []
  try:
    with io.open(path, encoding="utf-8") as reader:
      newest = json.load(reader)
    entries = [newest] + newest.pop("other_data_sets", [])
    if all(isinstance(entry["files"], list) for entry in entries):
      return entries
  except (ValueError, KeyError, TypeError, AttributeError):
    pass  # said below, for all of them
  raise DataError("%s is not a file that this script wrote; move it away, or"
                  " write the records to another folder" % path)


# ----------------------------------------------------------------------- main


def check_output_files(output_files, input_files, flag="--output_file"):
  """Checks that all output files can be written.

  Args:
    output_files: list of paths.
    input_files: list of paths, none of which may be written to; none in a
      folder of them either, which the next run would read.
    flag: name of the flag that they come from, for the messages.

  Returns:
    List of paths, without blanks around them.

  Raises:
    DataError: says which path is at fault.
  """
  output_files = [path.strip() for path in output_files]
  inputs = {os.path.realpath(path) for path in input_files}
  input_folders = tuple(os.path.join(path, "") for path in inputs
                        if os.path.isdir(path))
  for path in output_files:
    if "://" in path:
      raise DataError("%s: %s is not a local path; write the records to a disk"
                      " and copy them, or see"
                      " scripts/create_pretraining_data_beam.py" % (flag, path))
    if not path or os.path.basename(path) == METADATA_NAME:
      raise DataError("%s has \"%s\" between its commas, expected the path of a"
                      " TFRecord file" % (flag, path))
    if os.path.realpath(path) in inputs:
      raise DataError("%s: %s is one of the input files" % (flag, path))
    if os.path.realpath(path).startswith(input_folders):
      raise DataError("%s: %s is in a folder of the input" % (flag, path))
    if os.path.exists(path) and not os.path.isfile(path):
      raise DataError("%s: %s is %s, expected the path of a file" % (
          flag, path, "a folder" if os.path.isdir(path) else "a device"))
  if len(set(map(os.path.realpath, output_files))) != len(output_files):
    raise DataError("%s names a file twice: %s" % (flag,
                                                   ",".join(output_files)))
  for folder in sorted({os.path.dirname(path) for path in output_files}):
    _check_output_folder(folder or ".", flag)
  return output_files


def _check_output_folder(folder, flag):
  """Raises DataError if a folder is not there or not good to write to."""
  if not os.path.isdir(folder):
    raise DataError("%s: the folder %s does not exist" % (flag, folder))
  try:
    with tempfile.TemporaryFile(dir=folder):
      pass
  except OSError as error:
    raise DataError("%s: the folder %s cannot be written to: %s" %
                    (flag, folder, error.strerror)) from error
  _stored_data_sets(os.path.join(folder, METADATA_NAME))


def output_shards(output_dir, num_shards, compress):
  """The paths of numbered shards: pretrain.tfrecord-00000-of-00128."""
  name = "pretrain.tfrecord" + (".gz" if compress else "")
  return [os.path.join(output_dir, "%s-%05d-of-%05d" % (name, i, num_shards))
          for i in range(num_shards)]


def summarize(counts, max_seq_length):
  """The counts that metadata.json holds and the command prints.

  Args:
    counts: collections.Counter of `shard_utils.write_shards`.
    max_seq_length: int, S.

  Returns:
    OrderedDict.
  """
  instances = max(1, counts["instances"])
  return collections.OrderedDict([
      ("documents", counts["documents"]),
      ("dropped_documents", counts["dropped_documents"]),
      ("split_documents", counts["split_documents"]),
      ("bad_lines", counts["bad_lines"]),
      ("sentences", counts["sentences"]),
      ("tokens", counts["tokens"]),
      ("unknown_share", round(
          counts["unknown_tokens"] / max(1, counts["tokens"]), 6)),
      ("instances", counts["instances"]),
      ("instances_labelled_1", counts["instances_labelled_1"]),
      ("labelled_1_share", round(
          counts["instances_labelled_1"] / instances, 4)),
      ("predictions", counts["predictions"]),
      ("predictions_per_instance", round(counts["predictions"] / instances, 2)),
      ("instance_tokens", counts["instance_tokens"]),
      ("mean_length", round(counts["instance_tokens"] / instances, 2)),
      ("fill", round(
          counts["instance_tokens"] / (instances * max_seq_length), 4))])


def warn_about_cap(settings):
  """Warns where --max_predictions_per_seq cuts off what is to be masked."""
  length, cap = settings["max_seq_length"], settings["max_predictions_per_seq"]
  wanted = int(round(settings["masked_lm_prob"] * length))
  if wanted > cap:
    logging.warning(
        "--masked_lm_prob=%g asks for %d masked tokens in a full sequence of"
        " %d, but --max_predictions_per_seq allows %d (%.1f %%); set it to %d",
        settings["masked_lm_prob"], wanted, length, cap, 100.0 * cap / length,
        wanted)


# Flags that the records depend on; metadata.json has them.
_RECORDED_FLAGS = InstanceOptions._fields + (
    "do_lower_case", "do_whole_word_mask", "non_chinese", "segmenter",
    "legacy_subword_labels", "jieba_user_dict", "input_format", "text_field",
    "on_bad_line", "vocab_file")


def settings_of_flags():
  """The flags that the records depend on, as a dict.

  Raises:
    DataError: flags contradict each other.
  """
  settings = {name: FLAGS[name].value for name in _RECORDED_FLAGS}
  if FLAGS.non_chinese and FLAGS["segmenter"].present and (
      FLAGS.segmenter != "none"):
    raise DataError("--non_chinese means --segmenter=none, found"
                    " --segmenter=%s" % FLAGS.segmenter)
  if FLAGS.non_chinese or not FLAGS.do_whole_word_mask:
    settings["segmenter"] = "none"
  for name in ("masked_lm_prob", "short_seq_prob"):
    if not 0 <= settings[name] <= 1:  # nan, which gets through the flag's bounds
      raise DataError("--%s is %g, expected a number from 0 to 1" % (
          name, settings[name]))
  segmenter, user_dict = settings["segmenter"], FLAGS.jieba_user_dict
  if FLAGS.legacy_subword_labels and segmenter == "none":
    raise DataError("--legacy_subword_labels are labels of segmented words: it"
                    " needs --do_whole_word_mask and a segmenter")
  if FLAGS.legacy_subword_labels and segmenter == "pretokenized":
    raise DataError("--legacy_subword_labels has to segment the tokens itself:"
                    " --segmenter=pretokenized cannot")
  if user_dict and segmenter not in ("jieba", "rjieba"):
    raise DataError("--jieba_user_dict has a use only with"
                    " --do_whole_word_mask and --segmenter=jieba or rjieba")
  if user_dict and not os.path.isfile(user_dict):
    raise DataError("--jieba_user_dict: there is no file %s" % user_dict)
  return settings


def make_creator(settings):
  """Makes what turns documents into instances.

  Args:
    settings: dict of `settings_of_flags`.

  Returns:
    (instance_utils.InstanceCreator, dict for metadata.json).
  """
  tokenizer = tokenization.FullTokenizer(settings["vocab_file"],
                                         settings["do_lower_case"])
  tokenization.validate_vocab(tokenizer.vocab,
                              vocab_file=settings["vocab_file"])
  line_tokenizer = LineTokenizer(
      tokenizer, word_segmentation.make_segmenter(
          settings["segmenter"], settings["jieba_user_dict"]),
      settings["do_whole_word_mask"], settings["legacy_subword_labels"])
  options = InstanceOptions(*(settings[name]
                              for name in InstanceOptions._fields))
  creator = instance_utils.InstanceCreator(
      line_tokenizer, options, split_lines=settings["input_format"] != "lines")
  return creator, dict(
      settings, format_version=FORMAT_VERSION,
      vocab_file=os.path.abspath(settings["vocab_file"]),
      vocab_size=len(tokenizer.vocab),
      vocab_hash=tokenization.vocab_hash(tokenizer.vocab))


def _output_files(input_files):
  """The output files that the flags ask for, checked."""
  input_files = input_files + [
      path.strip() for path in FLAGS.input_file.split(",")] + [FLAGS.vocab_file]
  if FLAGS.jieba_user_dict:
    input_files.append(FLAGS.jieba_user_dict)
  if bool(FLAGS.output_file) == bool(FLAGS.output_dir):
    raise DataError("either --output_file or --output_dir has to be given")
  if FLAGS.output_file:
    if FLAGS["num_shards"].present:
      raise DataError("--num_shards goes with --output_dir; --output_file names"
                      " the files themselves")
    return check_output_files(FLAGS.output_file.split(","), input_files,
                              "--output_file")
  os.makedirs(FLAGS.output_dir, exist_ok=True)
  return check_output_files(
      output_shards(FLAGS.output_dir, FLAGS.num_shards, FLAGS.gzip),
      input_files, "--output_dir")


def _work_dir(output_files):
  """The folder for the files of this run; None: beside its output."""
  if not FLAGS.work_dir:
    return None
  outputs = "\n".join(map(os.path.abspath, output_files)).encode("utf-8",
                                                                "surrogateescape")
  return os.path.join(FLAGS.work_dir, "%s-%s.work" % (
      os.path.basename(output_files[0]), hashlib.sha256(outputs).hexdigest()[:8]))


def _run_settings(input_files, output_files, metadata):
  """All that the records depend on, for the next run to compare."""
  inputs = [[os.path.abspath(path), os.path.getsize(path),
             os.stat(path).st_mtime_ns]
            if path != corpus_utils.STANDARD_INPUT else [path]
            for path in input_files]
  settings = dict(metadata, input=inputs,
                  output=[os.path.abspath(path) for path in output_files])
  if metadata["jieba_user_dict"]:
    settings["user_dict"] = [list(word) for word in
                             word_segmentation.read_user_dict(
                                 metadata["jieba_user_dict"])]
  return settings


def _run():
  """Does what the flags say; returns the summary."""
  settings = settings_of_flags()
  input_files = expand_input_patterns(FLAGS.input_file)
  output_files = _output_files(input_files)
  warn_about_cap(settings)
  creator, metadata = make_creator(settings)
  metadata["compression"] = "GZIP" if FLAGS.gzip else ""
  logging.info("reading %d files: %s%s", len(input_files),
               ", ".join(input_files[:5]), ", ..." * (len(input_files) > 5))

  def describe(counts, instances_per_file):
    metadata.update(summarize(counts, FLAGS.max_seq_length))
    write_metadata(output_files, metadata, instances_per_file)

  counts, _ = shard_utils.write_shards(
      lambda counts: corpus_utils.drop_short_documents(
          corpus_utils.read_documents(
              input_files, counts, FLAGS.input_format, FLAGS.text_field,
              FLAGS.on_bad_line), counts),
      creator, output_files,
      _run_settings(input_files, output_files, dict(metadata)),
      _work_dir(output_files), FLAGS.num_workers, FLAGS.gzip,
      reread=corpus_utils.STANDARD_INPUT in input_files,
      on_start=lambda: forget_metadata(output_files), on_end=describe)
  if counts["split_documents"]:
    logging.warning(
        "%d times a document of more than %d characters was taken apart; are"
        " the blank lines between documents missing?",
        counts["split_documents"], corpus_utils.MAX_DOCUMENT_CHARACTERS)
  logging.info("look at them: python scripts/inspect_tfrecord.py %s",
               output_files[0])
  return summarize(counts, FLAGS.max_seq_length)


def main(arguments):
  logging.set_verbosity(logging.INFO)
  try:
    if len(arguments) > 1:
      raise DataError("what does \"%s\" belong to? Values go with their flag,"
                      " --flag=value, and globs into quotes" %
                      " ".join(arguments[1:]))
    summary = _run()
  except KeyboardInterrupt:
    sys.stderr.write("create_pretraining_data.py: interrupted; the same command"
                     " goes on from here\n")
    sys.exit(130)
  except (ValueError, OSError, shard_utils.RunError) as error:
    sys.exit("create_pretraining_data.py: error: %s" % describe_error(error))
  for key, value in summary.items():
    sys.stdout.write("%s = %s\n" % (key, value))


def describe_error(error):
  """An exception in a sentence."""
  if isinstance(error, OSError) and error.errno == errno.ENOSPC:
    return ("the disk of %s is full; make room, the same command goes on from"
            " there" % (error.filename or "the output"))
  if isinstance(error, OSError) and error.filename and error.strerror:
    return "%s: %s" % (error.filename, error.strerror)
  return str(error)


def define_flags():
  """Defines this script's flags."""
  define_instance_flags()
  flags.DEFINE_string("output_file", None,
                      "TFRecord files to write (comma list), in folders that"
                      " exist.")
  flags.DEFINE_integer("num_workers", shard_utils.num_cores(),
                       "Number of processes; default: the machine's cores. The"
                       " records do not depend on it.", lower_bound=1)
  flags.DEFINE_string("work_dir", None,
                      "Folder for the run's own files, about the size of the"
                      " text; default: that of the output.")


def define_instance_flags():
  """Defines the flags of all scripts that create instances."""
  flags.DEFINE_string("output_dir", None,
                      "Folder for numbered TFRecord files, instead of"
                      " --output_file.")
  flags.DEFINE_integer("num_shards", 16, "Number of files in --output_dir.",
                       lower_bound=1, upper_bound=99999)
  flags.DEFINE_bool("gzip", False, "Whether to compress the TFRecord files.")
  flags.DEFINE_string("input_file", None,
                      "Text files (comma list of paths, globs and folders), also"
                      " .gz, .xz and .bz2; - is standard input.")
  flags.DEFINE_enum("input_format", "lines", corpus_utils.INPUT_FORMATS,
                    "A sentence a line with blank lines between documents, a"
                    " document a line, or a JSON object a line.")
  flags.DEFINE_list("text_field", ["text"],
                    "Fields of the JSON objects that are text (comma list).")
  flags.DEFINE_string("vocab_file", None, "Vocabulary, a token a line.")
  flags.DEFINE_bool("do_lower_case", True,
                    "Whether to lower-case the text; False for cased models.")
  flags.DEFINE_bool("do_whole_word_mask", False,
                    "Whether to mask all tokens of a word together.")
  flags.DEFINE_integer("max_seq_length", 128, "Length of a sequence.",
                       lower_bound=5)
  flags.DEFINE_integer("max_predictions_per_seq", 20,
                       "Most masked tokens in a sequence.", lower_bound=1)
  flags.DEFINE_integer("random_seed", 12345, "Seed of all that is random.")
  flags.DEFINE_integer("dupe_factor", 10,
                       "How often each document is used, masked anew.",
                       lower_bound=1)
  flags.DEFINE_float("masked_lm_prob", 0.15, "Share of tokens to mask.",
                     lower_bound=0.0, upper_bound=1.0)
  flags.DEFINE_float("short_seq_prob", 0.1,
                     "Share of documents cut into shorter sequences.",
                     lower_bound=0.0, upper_bound=1.0)
  flags.DEFINE_bool("non_chinese", False,
                    "The same as --segmenter=none.")
  flags.DEFINE_enum("segmenter", "jieba", word_segmentation.SEGMENTERS,
                    "What finds the words of whole-word masking: jieba, rjieba"
                    " (an optional package, faster), none (runs of ## pieces),"
                    " pretokenized (blanks between the words of the input).")
  flags.DEFINE_enum("sentence_pair_task", "sop", instance_utils.PAIR_TASKS,
                    "Sentence order, BERT's next sentence, or none.")
  flags.DEFINE_integer("ngram", 1, "Most words that are masked together.",
                       lower_bound=1)
  flags.DEFINE_bool("favor_shorter_ngram", True,
                    "Shorter n-grams are more probable (1/n); else longer.")
  flags.DEFINE_bool("mask_per_word", False,
                    "Draw mask, keep or replace once a word, not a token.")
  flags.DEFINE_string("jieba_user_dict", None,
                      "User dictionary in jieba's format.")
  flags.DEFINE_bool("legacy_subword_labels", False,
                    "Labels inside words are ##-marked, as albert_zh's; for"
                    " training its checkpoints further.")
  flags.DEFINE_enum("on_bad_line", "error", ("error", "skip"),
                    "What to do with a line that is not UTF-8.")
  flags.mark_flags_as_required(["input_file", "vocab_file"])


if __name__ == "__main__":
  define_flags()
  app.run(main)
