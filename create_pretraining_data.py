"""Turns raw text into TFRecords for sentence-order and masked-LM training.

Input: UTF-8 text, one sentence a line, a blank line between documents; the end
of a file ends its document too.

  python create_pretraining_data.py --input_file='corpus/*.txt' \\
      --output_file=pretrain/train.tfrecord --vocab_file=vocab.txt \\
      --do_whole_word_mask=True --max_seq_length=512 \\
      --max_predictions_per_seq=51 --masked_lm_prob=0.10

Every document is tokenized and segmented into words once, then turned into
instances `dupe_factor` times, each time with a random generator of its own,
seeded from (seed, document, repeat). Beside the records goes `metadata.json`,
which `run_pretraining.py` compares with its flags.

A word is where the segmenter put it: a span of characters of the line that
was read. Tokens know their characters, so they are grouped by span and never
rewritten: ids and labels are the same with and without whole-word masking.
"""

import collections
import glob
import io
import json
import os
import random
import re
import sys
import tempfile

from absl import app
from absl import flags
from absl import logging

import tokenization

FORMAT_VERSION = 1
METADATA_NAME = "metadata.json"
PAIR_TASKS = ("sop", "nsp", "none")

FLAGS = flags.FLAGS


class DataError(ValueError):
  """An input that cannot be used; the message says where and what to do."""


# ------------------------------------------------------------------- segments


class Segment(collections.namedtuple("Segment", ["tokens", "starts",
                                                 "labels"])):
  """A run of tokens with their words.

  tokens: list of strings.
  starts: list of bools, True where a token begins a word.
  labels: list of strings, what a masked position has to predict: the tokens
    themselves, except with `legacy_subword_labels`.
  """
  __slots__ = ()

  def cut(self, begin, end):
    """The tokens [begin, end); a word may lose its beginning or end."""
    return Segment(self.tokens[begin:end], self.starts[begin:end],
                   self.labels[begin:end])


def join_segments(segments):
  """Puts segments one after the other."""
  tokens, starts, labels = [], [], []
  for segment in segments:
    tokens.extend(segment.tokens)
    starts.extend(segment.starts)
    labels.extend(segment.labels)
  return Segment(tokens, starts, labels)


def segment_from_tokens(tokens):
  """A segment whose words are the runs of `##` pieces, as BERT has it."""
  return Segment(list(tokens),
                 [not token.startswith("##") for token in tokens],
                 list(tokens))


class Segmenter(object):
  """Cuts a line into words with jieba; its cache is in a private folder."""

  def __init__(self, user_dict=None):
    """Loads the dictionary.

    Args:
      user_dict: path of a dictionary in jieba's format, a line
        `word [frequency [tag]]` each, or None.
    """
    import jieba  # pylint: disable=import-outside-toplevel
    jieba.setLogLevel("WARNING")
    self._tokenizer = jieba.Tokenizer()
    # jieba's default is a file in the shared /tmp that anybody can replace.
    self._tokenizer.tmp_dir = _private_cache_dir()
    self._tokenizer.initialize()
    if user_dict:
      with io.open(user_dict, "rb") as reader:
        self._tokenizer.load_userdict(reader)

  def __call__(self, text):
    """Returns the words of a text, a list of strings that joins to it."""
    return self._tokenizer.lcut(text)


def _private_cache_dir():
  """A folder of the user's own, made if need be; None leaves it to jieba."""
  base = os.environ.get("XDG_CACHE_HOME") or os.path.join(
      os.path.expanduser("~"), ".cache")
  path = os.path.join(base, "chinese_albert")
  try:
    os.makedirs(path, mode=0o700, exist_ok=True)
  except OSError:
    path = tempfile.mkdtemp(prefix="chinese_albert_")
  return path


def word_starts(tokens, offsets, words):
  """Says which tokens begin a word of the segmenter's.

  A token belongs to the word in which its first character stands; a `##`
  piece always goes with the token before it.

  >>> word_starts(["大", "学", "很", "好"], [(0, 1), (1, 2), (2, 3), (3, 4)],
  ...             ["大学", "很好"])
  [True, False, True, False]

  Args:
    tokens: list of strings.
    offsets: list of (begin, end), each token's characters in the text.
    words: list of strings that join to the text.

  Returns:
    List of bools.
  """
  starts = []
  next_word = iter(words)
  word_end = 0  # of the word in which the last token began
  for token, (begin, _) in zip(tokens, offsets):
    new_word = begin >= word_end
    while begin >= word_end:
      word_end += len(next(next_word))
    starts.append(new_word and not token.startswith("##"))
  return starts


_LEGACY_CHINESE = re.compile("[\u4e00-\u9fa5]")


def legacy_subword_labels(tokens, words, vocab):
  """albert_zh's labels: `##字` for characters inside a word.

  albert_zh marks the second and third characters of every run of tokens that
  is equal to one of the line's words, the longest run of up to three first,
  wherever the run stands; and its targets keep the marks. A checkpoint of it
  that is trained further has learned these targets.

  Args:
    tokens: list of strings.
    words: list of strings, the line's words.
    vocab: dict of tokens; a marked form that it lacks stays unmarked.

  Returns:
    List of strings.
  """
  known = set(words)
  labels = list(tokens)
  position = 0
  while position < len(tokens):
    length = 1
    if _LEGACY_CHINESE.search(tokens[position]):
      for candidate in (3, 2):
        run = tokens[position:position + candidate]
        if len(run) == candidate and "".join(run) in known:
          length = candidate
          break
    for inside in range(position + 1, position + length):
      marked = "##" + tokens[inside]
      labels[inside] = marked if marked in vocab else tokens[inside]
    position += length
  return labels


class LineTokenizer(object):
  """Turns a line into a `Segment`."""

  def __init__(self, tokenizer, segmenter=None, whole_words=False,
               legacy_labels=False):
    """Makes the function.

    Args:
      tokenizer: tokenization.FullTokenizer.
      segmenter: function from a text to its words; None: words are the runs
        of `##` pieces.
      whole_words: bool, whether words matter at all.
      legacy_labels: bool, labels as albert_zh has them; needs a segmenter.
    """
    self._tokenizer = tokenizer
    self._segmenter = segmenter
    self._whole_words = whole_words
    self._legacy_labels = legacy_labels

  def __call__(self, line):
    if not self._whole_words:
      tokens = self._tokenizer.tokenize(line)
      return Segment(tokens, [True] * len(tokens), tokens)
    if self._segmenter is None:
      return segment_from_tokens(self._tokenizer.tokenize(line))
    tokens, offsets = self._tokenizer.tokenize_with_offsets(line)
    starts = word_starts(tokens, offsets, self._segmenter(line))
    labels = tokens
    if self._legacy_labels:
      # albert_zh segments the tokens, put together again.
      labels = legacy_subword_labels(
          tokens, self._segmenter("".join(tokens)), self._tokenizer.vocab)
    return Segment(tokens, starts, labels)


# ------------------------------------------------------------------- reading


def expand_input_patterns(input_file):
  """Expands a comma list of paths and globs into existing files.

  Args:
    input_file: string.

  Returns:
    List of paths, each pattern's sorted.

  Raises:
    DataError: a pattern matches nothing.
  """
  paths = []
  for pattern in input_file.split(","):
    pattern = pattern.strip()
    if not pattern or "://" in pattern:
      raise DataError("--input_file has \"%s\" between its commas, expected the"
                      " path or glob of a local file" % pattern)
    # A file may have a glob's brackets in its name.
    matches = [pattern] if os.path.isfile(pattern) else sorted(
        path for path in glob.glob(pattern) if os.path.isfile(path))
    if not matches:
      raise DataError("--input_file: no file matches %s" % pattern)
    paths.extend(path for path in matches if path not in paths)
  return paths


def read_documents(paths, counts, on_bad_line="error"):
  """Reads documents, each a list of stripped, non-empty lines.

  Args:
    paths: list of paths of UTF-8 text.
    counts: collections.Counter; "bad_lines" counts the skipped ones.
    on_bad_line: "error" or "skip", for a line that is not UTF-8.

  Yields:
    Lists of strings.

  Raises:
    DataError: names file and line of one that is not UTF-8.
  """
  for path in paths:
    document = []
    # Lines end at "\n" only; other Unicode line breaks are part of the text.
    with io.open(path, "rb") as reader:
      for number, raw_line in enumerate(reader, start=1):
        try:
          line = raw_line.decode("utf-8")
        except UnicodeDecodeError as error:
          if on_bad_line == "error":
            raise DataError(
                "%s, line %d is not UTF-8 (%s); convert the file, for example"
                " with iconv -f gb18030 -t utf-8, or pass --on_bad_line=skip"
                % (path, number, error)) from error
          counts["bad_lines"] += 1
          continue
        line = (line[1:] if number == 1 and line[0] == "\ufeff"
                else line).strip()
        if line:
          document.append(line)
        elif document:
          yield document
          document = []
    if document:
      yield document


def tokenize_documents(documents, line_tokenizer, max_num_tokens, counts):
  """Tokenizes documents; drops and counts those of fewer than two tokens.

  Args:
    documents: iterable of lists of lines.
    line_tokenizer: function from a line to a Segment.
    max_num_tokens: int, tokens that an instance has room for; a longer
      sentence is taken apart, so that nothing of it is lost.
    counts: collections.Counter, updated.

  Yields:
    Lists of Segments.
  """
  for document in documents:
    sentences = []
    for line in document:
      sentence = line_tokenizer(line)
      counts["sentences"] += 1
      counts["tokens"] += len(sentence.tokens)
      counts["unknown_tokens"] += sentence.tokens.count("[UNK]")
      sentences.extend(split_long_sentence(sentence, max_num_tokens))
    counts["documents"] += 1
    if sum(len(sentence.tokens) for sentence in sentences) < 2:
      counts["dropped_documents"] += 1
    else:
      yield sentences


def split_long_sentence(sentence, max_num_tokens):
  """Cuts a sentence that fills more than an instance, where a word begins.

  The pieces are of at most half an instance, so that two of them make one.

  Returns:
    List of Segments; empty for a sentence without tokens.
  """
  length = len(sentence.tokens)
  if length <= max_num_tokens:
    return [sentence] if length else []
  pieces = []
  longest = max(1, max_num_tokens // 2)
  begin = 0
  while begin < length:
    end = min(begin + longest, length)
    while end < length and end > begin + 1 and not sentence.starts[end]:
      end -= 1
    if end < length and not sentence.starts[end]:  # one word fills it all
      end = begin + longest
    pieces.append(sentence.cut(begin, end))
    begin = end
  return pieces


# ------------------------------------------------------------------ instances


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
    **masking_options: see `create_masked_lm_predictions`.

  Yields:
    TrainingInstances.

  Raises:
    DataError: a line is not UTF-8, or nsp has a single document.
  """
  counts = collections.Counter() if counts is None else counts
  documents = list(tokenize_documents(
      read_documents(input_files, counts, on_bad_line),
      line_tokenizer or LineTokenizer(tokenizer),
      max_seq_length - 3, counts))
  if sentence_pair_task == "nsp" and len(documents) < 2:
    raise DataError("--sentence_pair_task=nsp takes its random sentences from"
                    " other documents, found %d document" % len(documents))
  vocab_words = list(tokenizer.vocab)
  seed = rng.getrandbits(64)
  for repeat in range(dupe_factor):
    for index in range(len(documents)):
      for instance in create_instances_from_document(
          documents, index, max_seq_length, short_seq_prob, masked_lm_prob,
          max_predictions_per_seq, vocab_words,
          random.Random("%d %d %d" % (seed, index, repeat)),
          sentence_pair_task=sentence_pair_task, **masking_options):
        yield instance


def create_instances_from_document(
    all_documents, document_index, max_seq_length, short_seq_prob,
    masked_lm_prob, max_predictions_per_seq, vocab_words, rng,
    sentence_pair_task="sop", **masking_options):
  """Creates the instances of one document.

  Args:
    all_documents: list of documents, each a list of Segments (or of lists of
      tokens).
    document_index: int.
    max_seq_length: int, S.
    short_seq_prob: float, probability that the document's instances aim at a
      shorter length, drawn from 2 .. S - 3.
    masked_lm_prob: float, share of tokens to mask.
    max_predictions_per_seq: int, P.
    vocab_words: list of strings that may replace a masked token.
    rng: random.Random of this document.
    sentence_pair_task: "sop" (segments in order or swapped), "nsp" (second
      segment from here or from another document), "none" (one segment).
    **masking_options: see `create_masked_lm_predictions`.

  Returns:
    List of TrainingInstances.
  """
  document = [sentence if isinstance(sentence, Segment)
              else segment_from_tokens(sentence)
              for sentence in all_documents[document_index]]
  num_special = 2 if sentence_pair_task == "none" else 3
  max_num_tokens = max_seq_length - num_special
  target_length = max_num_tokens
  if rng.random() < short_seq_prob:
    target_length = rng.randint(2, max_num_tokens)

  if sentence_pair_task == "sop":
    pairs = _sop_pairs(document, target_length, max_num_tokens, rng)
  elif sentence_pair_task == "nsp":
    pairs = _nsp_pairs(document, target_length, all_documents, document_index,
                       rng)
  else:
    pairs = _single_segments(document, target_length)
  instances = []
  for segment_a, segment_b, is_random_next in pairs:
    segment_a, segment_b = _truncate_segments(segment_a, segment_b,
                                              max_num_tokens, rng)
    instances.append(_make_instance(
        segment_a, segment_b, is_random_next, masked_lm_prob,
        max_predictions_per_seq, vocab_words, rng, **masking_options))
  return instances


def create_instances_from_document_albert(
    all_documents, document_index, max_seq_length, short_seq_prob,
    masked_lm_prob, max_predictions_per_seq, vocab_words, rng,
    **masking_options):
  """`create_instances_from_document` under albert_zh's name for sop."""
  return create_instances_from_document(
      all_documents, document_index, max_seq_length, short_seq_prob,
      masked_lm_prob, max_predictions_per_seq, vocab_words, rng, "sop",
      **masking_options)


def _make_instance(segment_a, segment_b, is_random_next, masked_lm_prob,
                   max_predictions_per_seq, vocab_words, rng,
                   **masking_options):
  """Puts [CLS] a [SEP] b [SEP] together and masks it."""
  cls = Segment(["[CLS]"], [True], ["[CLS]"])
  sep = Segment(["[SEP]"], [True], ["[SEP]"])
  parts = [cls, segment_a, sep]
  segment_ids = [0] * (len(segment_a.tokens) + 2)
  if segment_b is not None:
    parts += [segment_b, sep]
    segment_ids += [1] * (len(segment_b.tokens) + 1)
  whole = join_segments(parts)
  tokens, positions, labels = create_masked_lm_predictions(
      whole.tokens, masked_lm_prob, max_predictions_per_seq, vocab_words, rng,
      starts=whole.starts, labels=whole.labels, **masking_options)
  return TrainingInstance(tokens, segment_ids, positions, labels,
                          is_random_next)


def _chunks(document, target_length, max_num_tokens):
  """Groups sentences into chunks of about the target length.

  Only a chunk of two sentences may be longer than `max_num_tokens`: cutting it
  to that length leaves something of both. Of three, one could be lost whole.

  Yields:
    Lists of Segments; the last, and one before a long sentence, may be short.
  """
  chunk, length = [], 0
  for sentence in document:
    if len(chunk) > 1 and length + len(sentence.tokens) > max_num_tokens:
      yield chunk
      chunk, length = [], 0
    chunk.append(sentence)
    length += len(sentence.tokens)
    # One sentence makes no pair: it waits for the next, however long it is.
    if length >= target_length and len(chunk) > 1:
      yield chunk
      chunk, length = [], 0
  if chunk:
    yield chunk


def _sop_pairs(document, target_length, max_num_tokens, rng):
  """Pairs of consecutive segments, in order (0) or swapped (1).

  Yields:
    (Segment, Segment, bool swapped).
  """
  previous = None
  for chunk in _chunks(document, target_length, max_num_tokens):
    if len(chunk) == 1 and len(chunk[0].tokens) == 1:
      # Too short to be split: it goes with the sentence before it.
      if previous is None:
        return
      chunk = [previous] + chunk
    previous = chunk[-1]
    if len(chunk) == 1:
      cut = _split_position(chunk[0].tokens, rng)
      segment_a = chunk[0].cut(0, cut)
      segment_b = chunk[0].cut(cut, None)
    else:
      num_a = rng.randint(1, len(chunk) - 1)
      segment_a = join_segments(chunk[:num_a])
      segment_b = join_segments(chunk[num_a:])
    if rng.random() < 0.5:
      yield segment_b, segment_a, True
    else:
      yield segment_a, segment_b, False


_CLAUSE_MARKS = frozenset(u"，、；：。！？…,;:.!?")


def _split_position(tokens, rng):
  """Where a single sentence is split: after a clause mark, or in the middle.

  Returns:
    int in 1 .. len(tokens) - 1.
  """
  after_marks = [position for position in range(1, len(tokens))
                 if tokens[position - 1] in _CLAUSE_MARKS
                 and tokens[position] not in _CLAUSE_MARKS]
  if after_marks:
    return after_marks[rng.randint(0, len(after_marks) - 1)]
  return len(tokens) // 2


def _nsp_pairs(document, target_length, all_documents, document_index, rng):
  """BERT's pairs: the second segment follows (0) or is from elsewhere (1).

  Sentences that a random second segment displaced are used again.

  Yields:
    (Segment, Segment, bool random).
  """
  begin = 0
  while begin < len(document):
    length, end = 0, begin
    while end < len(document) and length < target_length:
      length += len(document[end].tokens)
      end += 1
    chunk = document[begin:end]
    num_a = rng.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
    segment_a = join_segments(chunk[:num_a])
    if len(chunk) == 1 or rng.random() < 0.5:
      segment_b = _random_segment(
          all_documents, document_index,
          target_length - len(segment_a.tokens), rng)
      yield segment_a, segment_b, True
      begin += num_a
    else:
      yield segment_a, join_segments(chunk[num_a:]), False
      begin = end


def _random_segment(all_documents, document_index, target_length, rng):
  """Sentences from a random place of another document."""
  other = rng.randint(0, len(all_documents) - 2)
  other += other >= document_index
  document = [sentence if isinstance(sentence, Segment)
              else segment_from_tokens(sentence)
              for sentence in all_documents[other]]
  begin = rng.randint(0, len(document) - 1)
  length, end = 0, begin
  while end < len(document) and (end == begin or length < target_length):
    length += len(document[end].tokens)
    end += 1
  return join_segments(document[begin:end])


def _single_segments(document, target_length):
  """Segments alone, for training without a sentence-pair task."""
  chunk, length = [], 0
  for sentence in document:
    # A sentence that would not fit begins the next segment.
    if chunk and length + len(sentence.tokens) > target_length:
      yield join_segments(chunk), None, False
      chunk, length = [], 0
    chunk.append(sentence)
    length += len(sentence.tokens)
  yield join_segments(chunk), None, False


def _truncated_spans(length_a, length_b, max_num_tokens, rng):
  """What is left of two segments that together are too long.

  The longer one loses a token, from its front or its back, until both fit.

  Returns:
    (begin of a, end of a, begin of b, end of b).
  """
  spans = [[0, length_a], [0, length_b]]
  for _ in range(length_a + length_b - max_num_tokens):
    longer = spans[0] if (spans[0][1] - spans[0][0] >
                          spans[1][1] - spans[1][0]) else spans[1]
    # From both ends, for more variety and no bias to either.
    if rng.random() < 0.5:
      longer[0] += 1
    else:
      longer[1] -= 1
  return spans[0] + spans[1]


def _truncate_segments(segment_a, segment_b, max_num_tokens, rng):
  length_b = len(segment_b.tokens) if segment_b is not None else 0
  if len(segment_a.tokens) + length_b <= max_num_tokens:
    return segment_a, segment_b
  begin_a, end_a, begin_b, end_b = _truncated_spans(
      len(segment_a.tokens), length_b, max_num_tokens, rng)
  return (segment_a.cut(begin_a, end_a),
          segment_b.cut(begin_b, end_b) if segment_b is not None else None)


def truncate_seq_pair(tokens_a, tokens_b, max_num_tokens, rng):
  """Truncates two lists of tokens in place to a maximum sum of lengths."""
  begin_a, end_a, begin_b, end_b = _truncated_spans(
      len(tokens_a), len(tokens_b), max_num_tokens, rng)
  tokens_a[:] = tokens_a[begin_a:end_a]
  tokens_b[:] = tokens_b[begin_b:end_b]


# -------------------------------------------------------------------- masking

MaskedLmInstance = collections.namedtuple("MaskedLmInstance",
                                          ["index", "label"])

_NEVER_MASKED = frozenset(["[CLS]", "[SEP]"])
_NEVER_REPLACING = re.compile(
    r"##|\[(PAD|UNK|CLS|SEP|MASK|unused\d+)\]$|<[ST]>$")


def create_masked_lm_predictions(tokens, masked_lm_prob,
                                 max_predictions_per_seq, vocab_words, rng,
                                 starts=None, labels=None, ngram=1,
                                 favor_shorter_ngram=True,
                                 mask_per_word=False):
  """Masks words of an instance.

  Of the chosen tokens 80 % become [MASK], 10 % stay, 10 % become another
  token of the vocabulary (Devlin et al., https://arxiv.org/abs/1810.04805);
  never a special one, nor a `##` piece.

  Args:
    tokens: list of strings, with [CLS] and [SEP].
    masked_lm_prob: float, share of all tokens to predict; at least one token
      is predicted unless this is 0.
    max_predictions_per_seq: int, P, the most that are predicted.
    vocab_words: list of strings that may replace a token.
    rng: random.Random.
    starts: list of bools, True where a token begins a word; default: every
      token is a word.
    labels: list of strings, what is to be predicted; default the tokens.
    ngram: int, longest run of words that is masked together.
    favor_shorter_ngram: bool; runs of n words have a probability proportional
      to 1/n, or with False to 1/(ngram + 1 - n).
    mask_per_word: bool; draw the 80/10/10 once a word, not once a token.

  Returns:
    (list of tokens with masks, sorted list of positions, list of labels).
  """
  labels = tokens if labels is None else labels
  num_to_predict = 0
  if masked_lm_prob > 0:
    num_to_predict = min(max_predictions_per_seq,
                         max(1, int(round(len(tokens) * masked_lm_prob))))
  words = select_words(word_runs(tokens, starts), num_to_predict, rng,
                       ngram_weights(ngram, favor_shorter_ngram))
  output_tokens = list(tokens)
  masked_lms = []
  for begin, end in words:
    draw = rng.random()
    for index in range(begin, end):
      if draw < 0.8:
        output_tokens[index] = "[MASK]"
      elif draw >= 0.9:
        output_tokens[index] = _random_word(vocab_words, rng)
      masked_lms.append(MaskedLmInstance(index, labels[index]))
      if not mask_per_word:
        draw = rng.random()
  masked_lms.sort()
  return (output_tokens, [lm.index for lm in masked_lms],
          [lm.label for lm in masked_lms])


def _random_word(vocab_words, rng):
  """A word of the vocabulary that can stand in a text by itself."""
  for _ in range(10000):
    word = vocab_words[int(rng.random() * len(vocab_words))]
    if not _NEVER_REPLACING.match(word):
      return word
  raise DataError("the vocabulary of %d tokens has (nearly) none that is"
                  " neither special nor a ## piece" % len(vocab_words))


def word_runs(tokens, starts=None):
  """The words that may be masked, in runs that no special token interrupts.

  Args:
    tokens: list of strings.
    starts: list of bools, True where a token begins a word; default: every
      token is a word. The first token of a run begins one in any case.

  Returns:
    List of runs, each a list of half-open spans (begin, end) of positions.
  """
  runs, run, begin = [], [], None
  for position, token in enumerate(tokens):
    special = token in _NEVER_MASKED
    if begin is not None and (special or starts is None or starts[position]):
      run.append((begin, position))
      begin = None
    if special:
      if run:
        runs.append(run)
      run = []
    elif begin is None:
      begin = position
  if begin is not None:
    run.append((begin, len(tokens)))
  if run:
    runs.append(run)
  return runs


def ngram_weights(ngram, favor_shorter_ngram=True):
  """Weight of each length 1 .. ngram: 1/n, or the same from the other end."""
  weights = [1.0 / n for n in range(1, ngram + 1)]
  return weights if favor_shorter_ngram else weights[::-1]


def select_words(runs, num_to_predict, rng, weights=(1.0,)):
  """Chooses words, or n-grams of words, of at most that many tokens.

  Starting points come in random order. From each, the length is drawn among
  those that the run has room for, then shortened until it fits what is left.
  Only where no word at all fits, the beginning of one is taken.

  Args:
    runs: list of lists of spans, as `word_runs` returns them.
    num_to_predict: int, most tokens to choose.
    rng: random.Random.
    weights: weight of each n-gram length from 1 on.

  Returns:
    List of spans (begin, end), in no order, that do not overlap.
  """
  words = [word for run in runs for word in run]
  run_ends = []
  for run in runs:
    run_ends.extend([len(run_ends) + len(run)] * len(run))
  chosen, taken, left = [], [False] * len(words), num_to_predict
  order = list(range(len(words)))
  for position in range(len(order)):
    if left == 0:
      break
    # The shuffle goes only as far as it is needed.
    other = position + int(rng.random() * (len(order) - position))
    order[position], order[other] = order[other], order[position]
    first = order[position]
    if taken[first]:
      continue
    for last in range(first + _draw_length(
        run_ends[first] - first, weights, rng), first, -1):
      size = words[last - 1][1] - words[first][0]
      if size <= left and not any(taken[first:last]):
        chosen.extend(words[first:last])
        taken[first:last] = [True] * (last - first)
        left -= size
        break
  if not chosen and words and num_to_predict:
    begin = words[order[0]][0]
    chosen.append((begin, begin + num_to_predict))
  return chosen


def _draw_length(available, weights, rng):
  """Draws an n-gram's length, 1 .. available, by weight."""
  weights = weights[:available]
  if len(weights) == 1:
    return 1
  draw = rng.random() * sum(weights)
  for length, weight in enumerate(weights, start=1):
    draw -= weight
    if draw < 0:
      return length
  return len(weights)


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
  import tensorflow.compat.v1 as tf  # pylint: disable=import-outside-toplevel

  def padded(values, length):
    return list(values) + [0] * (length - len(values))

  if (len(instance.tokens) > max_seq_length or
      len(instance.masked_lm_labels) > max_predictions_per_seq):
    raise DataError(
        "an instance has %d tokens and %d predictions, more than max_seq_length"
        " %d or max_predictions_per_seq %d" % (
            len(instance.tokens), len(instance.masked_lm_labels),
            max_seq_length, max_predictions_per_seq))
  input_ids = tokenizer.convert_tokens_to_ids(instance.tokens)
  label_ids = tokenizer.convert_tokens_to_ids(instance.masked_lm_labels)
  sequence_features = {
      "input_ids": input_ids,
      "input_mask": [1] * len(input_ids),
      "segment_ids": instance.segment_ids}
  prediction_features = {
      "masked_lm_positions": instance.masked_lm_positions,
      "masked_lm_ids": label_ids}
  features = collections.OrderedDict()
  for name, values in sequence_features.items():
    features[name] = create_int_feature(padded(values, max_seq_length))
  for name, values in prediction_features.items():
    features[name] = create_int_feature(
        padded(values, max_predictions_per_seq))
  features["masked_lm_weights"] = create_float_feature(
      padded([1.0] * len(label_ids), max_predictions_per_seq))
  features["next_sentence_labels"] = create_int_feature(
      [int(instance.is_random_next)])
  example = tf.train.Example(features=tf.train.Features(feature=features))
  # A map has no order of its own: without this, equal runs differ in bytes.
  return example.SerializeToString(deterministic=True)


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
  """
  records = [serialize_instance(instance, tokenizer, max_seq_length,
                                max_predictions_per_seq)
             for instance in instances]
  write_records(records, output_files)
  return len(records)


def write_records(records, output_files):
  """Writes records in turn; a file gets its name when it is complete.

  Raises:
    DataError: there are fewer records than files.
  """
  if len(records) < len(output_files):
    raise DataError("there are %d instances for the %d files of --output_file;"
                    " name fewer files" % (len(records), len(output_files)))
  import tensorflow.compat.v1 as tf  # pylint: disable=import-outside-toplevel
  for index, path in enumerate(output_files):
    with tf.python_io.TFRecordWriter(path + ".tmp") as writer:
      for record in records[index::len(output_files)]:
        writer.write(record)
  for path in output_files:
    os.replace(path + ".tmp", path)


def write_metadata(output_files, metadata):
  """Writes `metadata.json` into the folders of the records.

  The file describes the newest data set of its folder; what it said of other
  files there is kept under "other_data_sets".

  Args:
    output_files: list of paths.
    metadata: dict.
  """
  for folder in sorted({os.path.dirname(path) for path in output_files}):
    names = [os.path.basename(path) for path in output_files
             if os.path.dirname(path) == folder]
    path = os.path.join(folder, METADATA_NAME)
    others = [entry for entry in _stored_data_sets(path)
              if not set(entry["files"]) & set(names)]
    content = dict(metadata, files=names)
    if others:
      content["other_data_sets"] = others
    with io.open(path + ".tmp", "w", encoding="utf-8",
                 newline="\n") as writer:
      writer.write(json.dumps(content, ensure_ascii=False, indent=2,
                              sort_keys=True) + "\n")
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


def check_output_files(output_file, input_files):
  """Splits the comma list and checks that all of it can be written.

  Args:
    output_file: string.
    input_files: list of paths, none of which may be written to.

  Returns:
    List of paths.

  Raises:
    DataError: says which path is at fault.
  """
  output_files = [path.strip() for path in output_file.split(",")]
  real_paths = [os.path.realpath(path) for path in output_files]
  if len(set(real_paths)) != len(real_paths):
    raise DataError("--output_file names a file twice: %s" % output_file)
  inputs = {os.path.realpath(path) for path in input_files}
  for path, real_path in zip(output_files, real_paths):
    folder = os.path.dirname(path) or "."
    if not path or os.path.basename(path) == METADATA_NAME:
      raise DataError("--output_file has \"%s\" between its commas, expected"
                      " the path of a TFRecord file" % path)
    if real_path in inputs:
      raise DataError("--output_file: %s is one of the input files" % path)
    if not os.path.isdir(folder):
      raise DataError("--output_file: the folder %s does not exist" % folder)
    if os.path.isdir(path):
      raise DataError("--output_file: %s is a folder" % path)
    try:
      with tempfile.TemporaryFile(dir=folder):
        pass
    except OSError as error:
      raise DataError("--output_file: the folder %s cannot be written to: %s" %
                      (folder, error.strerror)) from error
    _stored_data_sets(os.path.join(folder, METADATA_NAME))
  return output_files


def _summary(counts, num_instances, num_swapped, num_predictions):
  """The counts that metadata.json holds and the command prints."""
  return collections.OrderedDict([
      ("documents", counts["documents"]),
      ("dropped_documents", counts["dropped_documents"]),
      ("bad_lines", counts["bad_lines"]),
      ("sentences", counts["sentences"]),
      ("tokens", counts["tokens"]),
      ("unknown_share", round(
          counts["unknown_tokens"] / max(1, counts["tokens"]), 6)),
      ("instances", num_instances),
      ("instances_labelled_1", num_swapped),
      ("predictions", num_predictions)])


def _make_line_tokenizer(tokenizer):
  """The line tokenizer that the flags ask for."""
  use_segmenter = FLAGS.do_whole_word_mask and not FLAGS.non_chinese
  if FLAGS.legacy_subword_labels and not use_segmenter:
    raise DataError("--legacy_subword_labels are labels of segmented words: it"
                    " needs --do_whole_word_mask and not --non_chinese")
  if FLAGS.jieba_user_dict and not use_segmenter:
    raise DataError("--jieba_user_dict has a use only with"
                    " --do_whole_word_mask and without --non_chinese")
  if FLAGS.jieba_user_dict and not os.path.isfile(FLAGS.jieba_user_dict):
    raise DataError("--jieba_user_dict: there is no file %s" %
                    FLAGS.jieba_user_dict)
  segmenter = Segmenter(FLAGS.jieba_user_dict) if use_segmenter else None
  return LineTokenizer(tokenizer, segmenter, FLAGS.do_whole_word_mask,
                       FLAGS.legacy_subword_labels)


_RECORDED_FLAGS = (
    "max_seq_length", "max_predictions_per_seq", "masked_lm_prob",
    "do_lower_case", "do_whole_word_mask", "non_chinese", "ngram",
    "favor_shorter_ngram", "mask_per_word", "legacy_subword_labels",
    "sentence_pair_task", "dupe_factor", "short_seq_prob", "random_seed",
    "jieba_user_dict", "on_bad_line")


def _run():
  """Does what the flags say; returns the summary."""
  input_files = expand_input_patterns(FLAGS.input_file)
  output_files = check_output_files(FLAGS.output_file, input_files)
  tokenizer = tokenization.FullTokenizer(FLAGS.vocab_file,
                                         FLAGS.do_lower_case)
  tokenization.validate_vocab(tokenizer.vocab, vocab_file=FLAGS.vocab_file)
  line_tokenizer = _make_line_tokenizer(tokenizer)
  logging.info("reading %d files: %s", len(input_files),
               ", ".join(input_files))

  counts = collections.Counter()
  rng = random.Random(FLAGS.random_seed)
  records, num_swapped, num_predictions = [], 0, 0
  for instance in create_training_instances(
      input_files, tokenizer, FLAGS.max_seq_length, FLAGS.dupe_factor,
      FLAGS.short_seq_prob, FLAGS.masked_lm_prob,
      FLAGS.max_predictions_per_seq, rng, FLAGS.sentence_pair_task,
      line_tokenizer, FLAGS.on_bad_line, counts, ngram=FLAGS.ngram,
      favor_shorter_ngram=FLAGS.favor_shorter_ngram,
      mask_per_word=FLAGS.mask_per_word):
    if len(records) < 3:
      logging.info("*** Example ***\n%s", instance)
    num_swapped += int(instance.is_random_next)
    num_predictions += len(instance.masked_lm_positions)
    records.append(serialize_instance(
        instance, tokenizer, FLAGS.max_seq_length,
        FLAGS.max_predictions_per_seq))
  if not records:
    raise DataError(
        "no instance came out of %s: %d documents, %d of them of fewer than"
        " two tokens" % (FLAGS.input_file, counts["documents"],
                         counts["dropped_documents"]))
  rng.shuffle(records)
  write_records(records, output_files)
  summary = _summary(counts, len(records), num_swapped, num_predictions)
  metadata = {name: FLAGS[name].value for name in _RECORDED_FLAGS}
  metadata.update(summary, format_version=FORMAT_VERSION,
                  vocab_file=os.path.abspath(FLAGS.vocab_file),
                  vocab_size=len(tokenizer.vocab),
                  vocab_hash=tokenization.vocab_hash(tokenizer.vocab))
  write_metadata(output_files, metadata)
  return summary


def main(arguments):
  logging.set_verbosity(logging.INFO)
  try:
    if len(arguments) > 1:
      raise DataError("what does \"%s\" belong to? Values go with their flag,"
                      " --flag=value, and globs into quotes" %
                      " ".join(arguments[1:]))
    summary = _run()
  except (ValueError, OSError) as error:
    sys.exit("create_pretraining_data.py: error: %s" % error)
  for key, value in summary.items():
    sys.stdout.write("%s = %s\n" % (key, value))


def define_flags():
  """Defines this script's flags."""
  flags.DEFINE_string("input_file", None,
                      "Text files (comma list of paths or globs).")
  flags.DEFINE_string("output_file", None,
                      "TFRecord files to write (comma list), in folders that"
                      " exist.")
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
                    "Words are runs of ## pieces; no Chinese segmenter.")
  flags.DEFINE_enum("sentence_pair_task", "sop", PAIR_TASKS,
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
  flags.mark_flags_as_required(["input_file", "output_file", "vocab_file"])


if __name__ == "__main__":
  define_flags()
  app.run(main)
