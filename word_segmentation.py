"""Lines to tokens that know their words, for whole-word masking.

    line_tokenizer = LineTokenizer(tokenizer, make_segmenter("jieba"), True)
    line_tokenizer("大学生活很美好").starts
    # [True, False, True, False, True, True, False]

A word is where the segmenter put it: a span of characters of the line that
was read. Tokens know their characters, so they are grouped by span and never
rewritten.
"""

import atexit
import collections
import io
import itertools
import os
import re
import shutil
import tempfile

import tokenization
from corpus_utils import DataError

SEGMENTERS = ("jieba", "rjieba", "none", "pretokenized")


class Segment(collections.namedtuple("Segment", ["tokens", "starts",
                                                 "labels"])):
  """A run of tokens with their words.

  tokens: list of strings.
  starts: list of bools, True where a token begins a word.
  labels: list of strings, what a masked position has to predict: the tokens
    themselves, except with `legacy_subword_labels`.
  """
  __slots__ = ()


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
      user_dict: path of a dictionary of more words, see `read_user_dict`.
    """
    import jieba  # pylint: disable=import-outside-toplevel
    jieba.setLogLevel("WARNING")
    self._tokenizer = jieba.Tokenizer()
    # jieba's default is a file in the shared /tmp that anybody can replace.
    self._tokenizer.tmp_dir = _private_cache_dir()
    self._tokenizer.initialize()
    for word in read_user_dict(user_dict) if user_dict else ():
      self._tokenizer.add_word(*word)

  def __call__(self, text):
    """Returns the words of a text, a list of strings that joins to it."""
    return self._tokenizer.lcut(text)


class RustSegmenter(object):
  """The same dictionary and algorithm in Rust, by the package rjieba.

  Its cuts differ from jieba's in strings of Latin letters, digits and signs (it
  keeps "10:20-17:00" and "pvc-c" together where jieba cuts at the hyphen), which
  is in 1 % of the lines of news. In Chinese words no difference is known.
  """

  def __init__(self, user_dict=None):
    """Loads the dictionary; arguments as for Segmenter."""
    try:
      import rjieba  # pylint: disable=import-outside-toplevel
    except ImportError as error:
      raise DataError("--segmenter=rjieba needs the package rjieba (%s): pip"
                      " install rjieba" % error) from error
    tokenizer = rjieba
    if user_dict:
      tokenizer = rjieba.Jieba()
      for word in read_user_dict(user_dict):
        tokenizer.add_word(*word)
    self._cut = tokenizer.cut

  def __call__(self, text):
    """Returns the words of a text, a list of strings that joins to it."""
    return self._cut(text)


def split_at_blanks(text):
  """The words of a text that is segmented already, and the blanks between."""
  return re.findall(r"\s+|\S+", text)


def make_segmenter(name, user_dict=None):
  """Returns a function from a text to its words; None for the name "none"."""
  if name == "jieba":
    return Segmenter(user_dict)
  if name == "rjieba":
    return RustSegmenter(user_dict)
  return split_at_blanks if name == "pretokenized" else None


def read_user_dict(path):
  """Reads a dictionary in jieba's format: `word [frequency [tag]]` a line.

  Args:
    path: string.

  Returns:
    List of (string word, int frequency or None, string tag or None).

  Raises:
    DataError: a line is of another form.
  """
  words = []
  with io.open(path, encoding="utf-8-sig") as reader:
    for number, line in enumerate(reader, start=1):
      match = re.match(r"\s*(\S+)(?:\s+(\d+))?(?:\s+([a-zA-Z]+))?\s*$", line)
      if match:
        word, frequency, tag = match.groups()
        words.append((word, int(frequency) if frequency else None, tag))
      elif line.strip():
        raise DataError("%s, line %d is \"%s\", expected a word, its frequency"
                        " (or nothing) and its tag (or nothing)" %
                        (path, number, line.strip()))
  return words


def _private_cache_dir():
  """A folder of the user's own, made if need be; None leaves it to jieba."""
  base = os.environ.get("XDG_CACHE_HOME") or os.path.join(
      os.path.expanduser("~"), ".cache")
  path = os.path.join(base, "chinese_albert")
  try:
    os.makedirs(path, mode=0o700, exist_ok=True)
  except OSError:
    path = tempfile.mkdtemp(prefix="chinese_albert_")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
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


# Lines of these characters may be tokenized word by word: each of them is split
# off by the tokenizer, or is a Latin letter or digit, which are joined.
_SIMPLE_LINE = re.compile("[ -~\u4e00-\u9fff、。《》「」『』【】“”‘’…—！（），：；？]*")
_CUT_IN_A_RUN = re.compile("[0-9A-Za-z]\0[0-9A-Za-z]")


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
    self.tokenizer = tokenizer
    self.legacy_labels = legacy_labels
    self._segmenter = segmenter
    self._whole_words = whole_words
    self._word_tokens = tokenization.LazyTable(
        lambda word: tuple(tokenizer.tokenize(word)))
    self._word_starts = tokenization.LazyTable(
        lambda word: (True,) + (False,) * (len(self._word_tokens[word]) - 1)
        if self._word_tokens[word] else ())

  def __call__(self, line):
    if not self._whole_words:
      tokens = self.tokenizer.tokenize(line)
      return Segment(tokens, [True] * len(tokens), tokens)
    if self._segmenter is None:
      return segment_from_tokens(self.tokenizer.tokenize(line))
    words = self._segmenter(line)
    if _SIMPLE_LINE.fullmatch(line) and not _CUT_IN_A_RUN.search(
        "\0".join(words)):
      chain = itertools.chain.from_iterable
      tokens = list(chain(map(self._word_tokens.__getitem__, words)))
      starts = list(chain(map(self._word_starts.__getitem__, words)))
    else:
      tokens, offsets = self.tokenizer.tokenize_with_offsets(line)
      starts = word_starts(tokens, offsets, words)
    labels = tokens
    if self.legacy_labels:
      # albert_zh segments the tokens, put together again.
      labels = legacy_subword_labels(
          tokens, self._segmenter("".join(tokens)), self.tokenizer.vocab)
    return Segment(tokens, starts, labels)
