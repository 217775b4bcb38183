"""Text to WordPiece tokens and back, as google-research/bert does it, only fast.

    tokenizer = FullTokenizer("albert_config/vocab.txt")
    tokens, offsets = tokenizer.tokenize_with_offsets("我喜欢ALBERT")
    # 我 喜 欢 al ##bert, (0, 1) (1, 2) (2, 3) (3, 5) (5, 9)

What becomes of a character before WordPiece nearly always depends on it alone,
and is looked up in a table. TensorFlow is imported for remote files only.
"""

import collections
import hashlib
import io
import itertools
import re
import sys
import unicodedata

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

# A cache starts anew at this many entries and does not keep larger keys.
_MAX_CACHED, _MAX_KEY_BYTES = 2**17, 1024

# Marks a form that depends on a character's neighbours; no text keeps its NULs.
_CONTEXT_MARK = "\0"

# Alignment codes of characters that have no part in a word; the code of others
# is the number of characters that they become.
_DROPPED, _SPACE, _ACCENT = 0, 254, 255
_CODE_TO_COUNT = bytes(range(_SPACE)) + b"\0\0"
_ACCENTED = re.compile(b"[^\0\xfe\xff](?:\0*\xff)+")


class VocabularyError(KeyError):
  """A token or an id that the vocabulary does not have."""

  __str__ = Exception.__str__  # KeyError's shows the repr of the message.


def validate_case_matches_checkpoint(do_lower_case, init_checkpoint):
  """Raises ValueError if casing contradicts the name of Google's BERT folder."""
  match = re.search(r"([\w-]+)/bert_model\.ckpt", init_checkpoint or "")
  lower_models = ("uncased_L-24_H-1024_A-16", "uncased_L-12_H-768_A-12",
                  "multilingual_L-12_H-768_A-12", "chinese_L-12_H-768_A-12")
  cased_models = ("cased_L-12_H-768_A-12", "cased_L-24_H-1024_A-16",
                  "multi_cased_L-12_H-768_A-12")
  if match and match[1] in (cased_models if do_lower_case else lower_models):
    raise ValueError(
        "--do_lower_case=%s does not fit --init_checkpoint=%s; pass "
        "--do_lower_case=%s, as that model was trained with" %
        (do_lower_case, init_checkpoint, not do_lower_case))


def convert_to_unicode(text):
  """Returns `text` as str; bytes are UTF-8, and what is not is left out."""
  if isinstance(text, bytes):
    return text.decode("utf-8", "ignore")
  if not isinstance(text, str):
    raise ValueError("a text has to be str or UTF-8 bytes, got %r" % (text,))
  return text


def printable_text(text):
  return convert_to_unicode(text)


def _read_bytes(path):
  if "://" in path:
    import tensorflow.compat.v1 as tf
    return tf.gfile.GFile(path, "rb").read()
  try:
    with io.open(path, "rb") as reader:
      return reader.read()
  except OSError as error:
    raise OSError(error.errno, "cannot read the vocabulary (%s); it should be "
                  "a text file" % error.strerror, path) from error


def load_vocab(vocab_file):
  """Reads a vocabulary file: one token a line, whose index is its id.

  Lines end at "\\n" only, because U+2028 is a token of the Chinese vocabulary;
  a "\\r" before it and a byte order mark at the start are left out.

  Args:
    vocab_file: string, a local path or one that tf.gfile understands.

  Returns:
    OrderedDict from token (str) to id (int), in the order of the file.

  Raises:
    OSError: the file cannot be read.
    ValueError: a line is empty, not UTF-8, or repeats another.
  """
  lines = _read_bytes(vocab_file).split(b"\n")
  if len(lines) > 1 and not lines[-1]:
    lines.pop()
  vocab = collections.OrderedDict()
  for index, line in enumerate(lines):
    where = "%s, line %d" % (vocab_file, index + 1)
    line = line[:-1] if line.endswith(b"\r") else line
    try:
      token = line.decode("utf-8" if index else "utf-8-sig")
    except UnicodeDecodeError as error:
      raise ValueError("%s is not UTF-8 (%s); save the file as UTF-8" %
                       (where, error)) from error
    if not token:
      raise ValueError("%s is empty; every line has to be a token" % where)
    if token in vocab:
      raise ValueError("%s repeats the token %r of line %d; tokens are unique"
                       % (where, token, vocab[token] + 1))
    vocab[token] = index
  return vocab


def validate_vocab(vocab, vocab_size=None, vocab_file=None, config_file=None):
  """Raises ValueError if a vocabulary does not fit a model.

  Args:
    vocab: dict from token to id: all the special tokens, and [PAD] is 0.
    vocab_size: int, the size that it must have (the config's), or None.
    vocab_file, config_file: strings, for the messages.
  """
  name = "the vocabulary %s" % vocab_file if vocab_file else "the vocabulary"
  missing = [token for token in SPECIAL_TOKENS if token not in vocab]
  if missing:
    raise ValueError("%s lacks %s; a vocabulary for this model has all of %s" %
                     (name, " ".join(missing), " ".join(SPECIAL_TOKENS)))
  if vocab["[PAD]"] != 0:
    raise ValueError(
        "[PAD] has the id %d in %s; it has to be the first token (id 0), "
        "because sequences are padded with zeros" % (vocab["[PAD]"], name))
  if vocab_size is not None and len(vocab) != vocab_size:
    raise ValueError(
        "%s has %d tokens, but %s says vocab_size %d; take the vocabulary that "
        "the checkpoint was trained with or, from scratch, correct vocab_size" %
        (name, len(vocab), config_file or "the config", vocab_size))


def vocab_hash(vocab):
  """Returns the hex SHA-256 of the tokens in id order, joined by "\\n"."""
  tokens = sorted(vocab, key=vocab.get)
  return hashlib.sha256("\n".join(tokens).encode("utf-8")).hexdigest()


def convert_by_vocab(vocab, items):
  """Returns the list of ids of tokens, or of tokens of ids.

  Args:
    vocab: dict from token to id, or from id to token.
    items: iterable of its keys; other tokens get the id of [UNK].

  Raises:
    VocabularyError: unknown id, or unknown token and no [UNK]; a KeyError.
  """
  items = list(items)
  unknown = vocab.get("[UNK]")  # None in an inverse vocabulary.
  found = [vocab.get(item, unknown) for item in items]
  if None in found:
    item = items[found.index(None)]
    kind, hint = "id", "ids begin with 0"
    if isinstance(item, str):
      kind, hint = "token", "neither is [UNK], which would stand for it"
    raise VocabularyError("the %s %r is not in the vocabulary of size %d; %s" %
                          (kind, item, len(vocab), hint))
  return found


def convert_tokens_to_ids(vocab, tokens):
  return convert_by_vocab(vocab, tokens)


def convert_ids_to_tokens(inv_vocab, ids):
  return convert_by_vocab(inv_vocab, ids)


def whitespace_tokenize(text):
  return text.split()


class FullTokenizer(object):
  """Basic tokenization, then WordPiece; may be pickled (without its caches).

  Args:
    vocab_file: string, see `load_vocab`.
    do_lower_case: bool, lower-case the text.
    strip_accents: bool, decompose characters and drop accents; None means the
      same as `do_lower_case`, as in BERT.
    never_split: sequence of tokens of the vocabulary that stay whole wherever
      a text has them. None by default, as in BERT: a "[CLS]" in somebody's
      corpus is five characters of prose and must not become the special token.
      Tools whose users write masks pass ("[MASK]",).
  """

  def __init__(self, vocab_file, do_lower_case=True, strip_accents=None,
               never_split=()):
    self.vocab = load_vocab(vocab_file)
    self.inv_vocab = {index: token for token, index in self.vocab.items()}
    self.basic_tokenizer = BasicTokenizer(
        do_lower_case, strip_accents, never_split)
    self.wordpiece_tokenizer = WordpieceTokenizer(self.vocab)
    missing = [token for token in never_split if token not in self.vocab]
    if missing:
      raise ValueError("never_split has %s; only tokens of the vocabulary %s "
                       "can stay whole" % (" ".join(missing), vocab_file))

  def tokenize(self, text):
    """Returns the list of tokens (str) of a text (str or UTF-8 bytes)."""
    words = self.basic_tokenizer.tokenize(text)
    return self.wordpiece_tokenizer.tokenize_words(words)

  def tokenize_with_offsets(self, text):
    """Returns the tokens of a text (str), and where in it they come from.

    Returns:
      (tokens, offsets): the tokens that `tokenize` gives, and for each one a
      half-open (begin, end) into `text`, the smallest span that made it. An
      accent that was stripped belongs to the character before it, [UNK] covers
      its word, and pieces of one character have the same span.
    """
    words, begins, ends = self.basic_tokenizer.tokenize_with_spans(text)
    pieces_of = self.wordpiece_tokenizer.pieces
    tokens, offsets, first = [], [], 0
    for word in words:
      pieces = pieces_of[word]
      tokens += pieces
      last = first + len(word)
      if len(pieces) > 1:
        prefix = 0  # The first piece has no "##".
        for piece in pieces[:-1]:
          after = first + len(piece) - prefix
          offsets.append((begins[first], ends[after - 1]))
          first, prefix = after, 2
      offsets.append((begins[first], ends[last - 1]))
      first = last
    return tokens, offsets

  def convert_tokens_to_ids(self, tokens):
    return convert_by_vocab(self.vocab, tokens)

  def convert_ids_to_tokens(self, ids):
    return convert_by_vocab(self.inv_vocab, ids)


class BasicTokenizer(object):
  """Splits into words, punctuation, CJK; arguments as for FullTokenizer."""

  def __init__(self, do_lower_case=True, strip_accents=None, never_split=()):
    if isinstance(never_split, str) or "" in never_split:
      raise ValueError("never_split is %r; it has to be a sequence of tokens, "
                       "such as ('[MASK]',)" % (never_split,))
    strip_accents = do_lower_case if strip_accents is None else strip_accents
    self.do_lower_case, self.strip_accents = do_lower_case, strip_accents
    self.never_split = tuple(sorted(never_split, key=len, reverse=True))
    self._never_split = re.compile(
        "(%s)" % "|".join(re.escape(token) for token in self.never_split))
    self._forms = LazyTable(self._form)
    self._alignment = LazyTable(self._alignment_code)

  def tokenize(self, text):
    """Returns the list of words (str) of a text (str or UTF-8 bytes)."""
    return [word for words, _, _ in self._parts(text) for word in words]

  def tokenize_with_spans(self, text):
    """Returns the words of a text, and where their characters come from.

    Returns:
      (words, begins, ends): the words that `tokenize` gives, and for every
      character of "".join(words) the half-open span of `text` behind it.
    """
    words, begins, ends, start = [], [], [], 0
    for part_words, part, resolved in self._parts(text):
      part_begins, part_ends = self._spans(part, start, resolved)
      words += part_words
      begins += part_begins
      ends += part_ends
      start += len(part)
    return words, begins, ends

  def _parts(self, text):
    """Yields (words, part, resolved) for each part; `never_split` parts a text.

    The words are made of the forms of the part's characters, or of those that
    `_resolve_context` returned where that was needed (else resolved is None).
    """
    text = convert_to_unicode(text)
    parts = self._never_split.split(text) if self.never_split else [text]
    for index, part in enumerate(parts):
      if index % 2 == 1:  # To stay whole: aligned as that many plain letters.
        yield [part], "x" * len(part), None
        continue
      normalized, resolved = part.translate(self._forms), None
      if _CONTEXT_MARK in normalized:
        resolved = self._resolve_context(part)
        normalized = resolved[0].translate(self._forms)
      yield normalized.replace(_CONTEXT_MARK, "").split(), part, resolved

  def _resolve_context(self, text):
    """Lower-cases and decomposes a text for which the tables do not suffice.

    A capital sigma has another lower-case form at the end of a word, and NFD
    sorts the combining marks behind a character, which shows in those that are
    not accents. Returns the text and each character's index in the old one.
    """
    order = [i for i, char in enumerate(text) if not _is_dropped(char)]
    resolved = "".join(text[i] for i in order)
    if self.do_lower_case:
      order = [i for i in order for _ in text[i].lower()]
      resolved = resolved.lower()
    if self.strip_accents:
      chars = [(char, i) for i, composed in zip(order, resolved)
               for char in unicodedata.normalize("NFD", composed)]
      ranks = [unicodedata.combining(char) for char, _ in chars]
      runs = itertools.accumulate(rank == 0 for rank in ranks)
      places = sorted(zip(runs, ranks, range(len(chars))))
      order = [chars[k][1] for _, _, k in places]
      resolved = "".join(chars[k][0] for _, _, k in places)
    return resolved, order

  def _spans(self, part, start, resolved):
    """Returns begins and ends of what a part of a text becomes; see `_parts`."""
    codes = part.translate(self._alignment).encode("latin-1")
    begins = range(start, start + len(part))
    ends = [begin + 1 for begin in begins]
    if codes.count(1) == len(codes):  # Nothing to align, as in most lines.
      return begins, ends
    for match in _ACCENTED.finditer(codes) if _ACCENT in codes else ():
      ends[match.start()] = start + match.end()
    if resolved is None:
      return _repeat_each(begins, codes), _repeat_each(ends, codes)
    chars, order = resolved
    codes = chars.translate(self._alignment).encode("latin-1")
    begins = _repeat_each([begins[i] for i in order], codes)
    ends = _repeat_each([ends[i] for i in order], codes)
    # Where marks changed places, the span of some covers all of them.
    begins = list(itertools.accumulate(begins[::-1], min))[::-1]
    return begins, list(itertools.accumulate(ends, max))

  def _form(self, code):
    """Returns what becomes of a code point: blanks where the text is split."""
    char = chr(code)
    if _is_dropped(char):
      return ""
    if _is_whitespace(char) or char in "\u2028\u2029":  # str.split: these too.
      return " "
    form = char.lower() if self.do_lower_case else char
    mark = _CONTEXT_MARK if self.do_lower_case and char == "\u03a3" else ""
    if self.strip_accents:
      form = "".join(each for each in unicodedata.normalize("NFD", form)
                     if unicodedata.category(each) != "Mn")
      if any(map(unicodedata.combining, form)):
        mark = _CONTEXT_MARK
    if _is_chinese_char(code):
      return " %s " % form
    return mark + "".join(
        " %s " % each if _is_punctuation(each) else each for each in form)

  def _alignment_code(self, code):
    """Returns the alignment code of a code point, as a character."""
    form = self._forms[code].replace(_CONTEXT_MARK, "")
    if form:
      return chr(len(form) - form.count(" ") or _SPACE)
    return chr(_DROPPED if _is_dropped(chr(code)) else _ACCENT)


class WordpieceTokenizer(object):
  """Splits words into the longest pieces that the vocabulary has."""

  def __init__(self, vocab, unk_token="[UNK]", max_input_chars_per_word=200):
    self.vocab, self.unk_token = vocab, unk_token
    self.max_input_chars_per_word = max_input_chars_per_word
    self.pieces = LazyTable(self._split)

  def tokenize(self, text):
    """Splits the words of a text, e.g. "unaffable" into un ##aff ##able."""
    return self.tokenize_words(whitespace_tokenize(convert_to_unicode(text)))

  def tokenize_words(self, words):
    return list(itertools.chain.from_iterable(
        map(self.pieces.__getitem__, words)))

  def _split(self, word):
    """Returns the tuple of a word's pieces; [UNK] if it has no such pieces."""
    if len(word) > self.max_input_chars_per_word:
      return (self.unk_token,)
    pieces, start, prefix = [], 0, ""
    while start < len(word):
      end = len(word)
      while end > start and prefix + word[start:end] not in self.vocab:
        end -= 1
      if end == start:
        return (self.unk_token,)
      pieces.append(prefix + word[start:end])
      start, prefix = end, "##"
    return tuple(pieces)


class LazyTable(dict):
  """A bounded cache of a function's values; only the function is pickled."""

  def __init__(self, method):
    self._method = method

  def __reduce__(self):
    return LazyTable, (self._method,)

  def __missing__(self, key):
    value = self._method(key)
    if len(self) >= _MAX_CACHED:
      self.clear()
    if sys.getsizeof(key) <= _MAX_KEY_BYTES:
      self[key] = value
    return value


def _repeat_each(items, codes):
  """Returns the list of items, each as many times as its alignment code says."""
  counts = codes.translate(_CODE_TO_COUNT)
  if not counts.translate(None, b"\0\1"):
    return list(itertools.compress(items, counts))
  repeated = map(itertools.repeat, items, counts)
  return list(itertools.chain.from_iterable(repeated))


def _is_dropped(char):
  """Whether BERT removes a character before it looks at words."""
  return char in "\0\ufffd" or _is_control(char)


def _is_whitespace(char):
  return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def _is_control(char):
  return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")


def _is_punctuation(char):
  """Whether a character is punctuation or one of the ASCII symbols ("$")."""
  return (char in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" or
          unicodedata.category(char).startswith("P"))


def _is_chinese_char(cp):
  """Whether a code point (int) is a CJK ideograph; kana and Hangul are not."""
  return (0x4E00 <= cp <= 0x9FFF or 0x3400 <= cp <= 0x4DBF or
          0x20000 <= cp <= 0x2A6DF or 0x2A700 <= cp <= 0x2B73F or
          0x2B740 <= cp <= 0x2B81F or 0x2B820 <= cp <= 0x2CEAF or
          0xF900 <= cp <= 0xFAFF or 0x2F800 <= cp <= 0x2FA1F)
