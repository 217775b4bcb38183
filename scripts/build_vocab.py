"""Trains a WordPiece vocabulary, or grows one over its [unused] slots.

  python scripts/build_vocab.py train --input_file='corpus/*.txt' \\
      --output_file=vocab.txt --vocab_size=21128
  python scripts/build_vocab.py grow --vocab_file=albert_config/vocab.txt \\
      --output_file=vocab_grown.txt --words_file=words.txt

`train` makes a vocabulary for a model that is trained from scratch. It holds
the characters of the corpus, the most frequent first, and fills up with pieces
of words. `grow` puts words into [unused] slots: every other id stays, and so
does the size, so that a checkpoint loads as before. docs/vocabulary.md says
when to do which. Both read the text as tokenization.py does, and write only
tokens that it can produce. `train` needs the package tokenizers.
"""

import argparse
import collections
import heapq
import os
import re
import sys
import tempfile
import unicodedata

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if ROOT not in sys.path:
  sys.path.insert(0, ROOT)

import corpus_utils
import tokenization

# The longest word that WordPiece looks at.
MAX_WORD = tokenization.WordpieceTokenizer({}).max_input_chars_per_word
# Of more different words than these the rarest are forgotten: a few hundred MB.
MAX_WORDS = 2**21
# The trainer counts pairs of characters in 32 bits.
MAX_PAIRS = 2**31 - 1
PROGRESS_CHARACTERS = 10**8
# So many words are named in an error; the report names all.
MAX_NAMED = 100

_SLOT = re.compile(r"\[unused\d+\]")

CHINESE = ("the tokenizer makes every Chinese character a word of its own, so"
           " that no token has two of them or continues a word with one")
PUNCTUATION = "the tokenizer splits at punctuation"
BLANK = "the tokenizer splits at blanks"
NOTHING = "the tokenizer drops all of its characters"
TOO_LONG = "the tokenizer gives up on words of more than %d characters" % (
    MAX_WORD)

Coverage = collections.namedtuple("Coverage", "characters tokens unknown")


class VocabError(ValueError):
  """What stops the run; its text is the whole message for the user."""


class Refused(Exception):
  """A token that the tokenizer cannot produce; its text is the reason."""


def log(message):
  print(message, file=sys.stderr)


# ------------------------------------------------------------------- the corpus


class Corpus(object):
  """The words of text files, which may be read several times."""

  def __init__(self, args, basic_tokenizer):
    """Finds the files.

    Args:
      args: has input_file, output_file and on_bad_line.
      basic_tokenizer: tokenization.BasicTokenizer.

    Raises:
      corpus_utils.DataError: no file matches.
      VocabError: a file that cannot be read twice, or is to be written.
    """
    self.paths = corpus_utils.expand_input_patterns(args.input_file)
    self._basic_tokenizer = basic_tokenizer
    self._on_bad_line = args.on_bad_line
    for path in self.paths:
      if path == corpus_utils.STANDARD_INPUT:
        raise VocabError("--input_file is standard input, but the corpus is"
                         " read more than once; write it to a file")
      if os.path.realpath(path) == os.path.realpath(args.output_file):
        raise VocabError("--output_file=%s is one of the files of"
                         " --input_file; write to another name" % path)

  def lines(self, purpose):
    """Yields the list of words of each line; logs what this is done for."""
    log("%s: reading %s" % (purpose, (
        self.paths[0] if len(self.paths) == 1 else
        "%d files" % len(self.paths))))
    counts, num_read = collections.Counter(), 0
    for document in corpus_utils.read_documents(
        self.paths, counts, on_bad_line=self._on_bad_line):
      before = num_read // PROGRESS_CHARACTERS
      for line in document.lines:
        num_read += len(line)
        yield self._basic_tokenizer.tokenize(line)
      if num_read // PROGRESS_CHARACTERS > before:
        log("%s: %.0f million characters read" % (purpose, num_read / 1e6))
    if counts["bad_lines"]:
      log("%s: lines left out, as they are not UTF-8: %d" % (
          purpose, counts["bad_lines"]))


class WordCounter(object):
  """Counts words, and pieces of them, in memory that does not grow without end.

  When there are more than `max_words` different words, the rarer half is
  forgotten. Their pieces stay counted: those counts are always exact.
  """

  def __init__(self, pieces_of, max_words=None):
    """Makes an empty counter.

    Args:
      pieces_of: function from a word to the pieces of it that are to be
        counted, a list of strings.
      max_words: int, or None for MAX_WORDS.
    """
    self.words = collections.Counter()
    self.forgotten = 0  # A forgotten word occurred at most so many times.
    self._pieces_of = pieces_of
    self._pieces = collections.Counter()
    self._max_words = max_words or MAX_WORDS

  def add(self, words):
    """Counts a list of words; those that are [UNK] for their length are not."""
    if words and len(max(words, key=len)) > MAX_WORD:
      words = [word for word in words if len(word) <= MAX_WORD]
    self.words.update(words)
    if len(self.words) > self._max_words:
      self._forget()

  def pieces(self):
    """Returns the Counter of the pieces of all words."""
    pieces = self._pieces.copy()
    for word, count in self.words.items():
      for piece in self._pieces_of(word):
        pieces[piece] += count
    return pieces

  def _forget(self):
    limit = sorted(self.words.values())[len(self.words) // 2]
    rare = [word for word, count in self.words.items() if count <= limit]
    for word in rare:
      count = self.words.pop(word)
      for piece in self._pieces_of(word):
        self._pieces[piece] += count
    self.forgotten += limit


def count_words(corpus, pieces_of):
  """Returns a WordCounter with all words of a corpus."""
  counter = WordCounter(pieces_of)
  for words in corpus.lines("counting words"):
    counter.add(words)
  if counter.forgotten:
    log("counting words: there are more than %d different ones; of the rarest"
        " up to %d occurrences were not counted" %
        (MAX_WORDS, counter.forgotten))
  return counter


def measure(corpus, vocabs):
  """Tokenizes a corpus with vocabularies.

  Args:
    corpus: Corpus.
    vocabs: list of dicts from token to id.

  Returns:
    List of Coverages; characters are those of words, without blanks.
  """
  tokenizers = [tokenization.WordpieceTokenizer(vocab) for vocab in vocabs]
  num_characters, counts = 0, [[0, 0] for _ in vocabs]
  for words in corpus.lines("measuring"):
    num_characters += sum(map(len, words))
    for tokenizer, count in zip(tokenizers, counts):
      tokens = tokenizer.tokenize_words(words)
      count[0] += len(tokens)
      count[1] += tokens.count("[UNK]")
  return [Coverage(num_characters, *count) for count in counts]


def describe(coverage):
  """Returns what a Coverage says, a string."""
  return "%d tokens, %.3f a character, %d of them [UNK] (%.3f %%)" % (
      coverage.tokens, coverage.tokens / max(1, coverage.characters),
      coverage.unknown, 100 * coverage.unknown / max(1, coverage.tokens))


# --------------------------------------------------------------------- tokens


def character_pieces(word):
  """Returns a word's characters as pieces: "abc" is a ##b ##c."""
  return [word[0]] + ["##" + char for char in word[1:]]


def missing_pieces(word, vocab):
  """Returns the characters, as pieces, that make a word [UNK]; [] if none do.

  WordPiece takes the longest piece that the vocabulary has. Where it has none,
  the piece of one character is missing, with which the search would go on.
  """
  missing, start, prefix = [], 0, ""
  while start < len(word):
    end = len(word)
    while end > start + 1 and prefix + word[start:end] not in vocab:
      end -= 1
    if prefix + word[start:end] not in vocab:
      missing.append(prefix + word[start:end])
    start, prefix = end, "##"
  return missing


def find_token(text, basic_tokenizer):
  """Returns the token that the tokenizer could make of a text.

  Args:
    text: string, a word or a piece that begins with "##".
    basic_tokenizer: tokenization.BasicTokenizer.

  Returns:
    String, the text as the tokenizer sees it, such as in lower case.

  Raises:
    Refused: it makes no or several words of the text, or [UNK].
  """
  is_piece = text.startswith("##") and len(text) > 2
  lead, body = ("a", text[2:]) if is_piece else ("", text)
  words = basic_tokenizer.tokenize(lead + body)
  if "".join(words) == lead:
    raise Refused(NOTHING)
  if len(words) > 1:
    raise Refused(why_split(body, basic_tokenizer))
  if len(words[0]) > MAX_WORD:
    raise Refused(TOO_LONG)
  return "##" + words[0][1:] if is_piece else words[0]


def why_split(text, basic_tokenizer):
  """Returns why the tokenizer makes several words of a text."""
  marks = [char for char in text if
           len(basic_tokenizer.tokenize("a%sa" % char)) > 1]
  if any(unicodedata.category(char)[0] in "LC" and not char.isspace()
         for char in marks):  # Of all letters only the Chinese ones.
    return CHINESE
  return BLANK if all(map(str.isspace, marks)) else PUNCTUATION


def check_tokens(tokens, basic_tokenizer):
  """Raises VocabError if the tokenizer cannot produce one of the tokens."""
  for token in tokens:
    try:
      found = find_token(token, basic_tokenizer)
    except Refused as error:
      raise VocabError("the token %r would never be used: %s" %
                       (token, error)) from error
    if found != token:
      raise VocabError("the token %r would never be used: the tokenizer makes"
                       " %r of it" % (token, found))


def check_output(path):
  """Makes the folder of a file; raises VocabError if it cannot be written."""
  folder = os.path.dirname(path) or "."
  if os.path.isdir(path):
    raise VocabError("--output_file=%s is a folder; give the name of a file" %
                     path)
  try:
    os.makedirs(folder, exist_ok=True)
  except OSError as error:
    raise VocabError("--output_file=%s: its folder cannot be made (%s); give"
                     " another one" % (path, error.strerror)) from error
  if not os.access(folder, os.W_OK):
    raise VocabError("--output_file=%s: its folder cannot be written to; give"
                     " another one" % path)


def write_vocab(path, tokens):
  """Writes a vocabulary under a temporary name, checks it, and renames it.

  Returns:
    OrderedDict from token to id, as tokenization.load_vocab read it.
  """
  folder = os.path.dirname(path) or "."
  with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as making:
    draft = os.path.join(making, os.path.basename(path))
    with open(draft, "wb") as writer:
      writer.write("".join(token + "\n" for token in tokens).encode("utf-8"))
    vocab = tokenization.load_vocab(draft)
    tokenization.validate_vocab(vocab, len(tokens), path)
    os.replace(draft, path)
  return vocab


# ---------------------------------------------------------------------- train


def import_tokenizers():
  """Returns the package tokenizers, which only `train` needs."""
  try:
    import tokenizers
  except ImportError as error:
    raise VocabError("train needs the package tokenizers (%s): pip install"
                     " 'tokenizers>=0.13'" % error) from error
  return tokenizers


def reserved_tokens(num_unused):
  """The first tokens, as in BERT's Chinese vocabulary where 99 are unused."""
  unused = ["[unused%d]" % i for i in range(1, num_unused + 1)]
  return ["[PAD]"] + unused + ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def choose_characters(counts, room, min_frequency, limit_alphabet=None):
  """Chooses the tokens of one character.

  Args:
    counts: Counter of pieces of one character, "c" and "##c".
    room: int, how many tokens there may be.
    min_frequency: int, a token occurs at least so often; "c" counts all c.
    limit_alphabet: int, the most different characters, or None.

  Returns:
    (tokens, num_left_out): the most frequent tokens, "c" before "##c" and each
    of the two sorted by frequency; how many frequent characters are not there.
  """
  totals = collections.Counter()
  for piece, count in counts.items():
    totals[piece[-1]] += count
  frequent = sorted((char for char in totals if totals[char] >= min_frequency),
                    key=lambda char: (-totals[char], char))
  frequencies = {char: totals[char] for char in frequent[:limit_alphabet]}
  for piece, count in counts.items():
    if len(piece) > 1 and count >= min_frequency and piece[-1] in frequencies:
      frequencies[piece] = count
  ranked = sorted(frequencies, key=lambda piece: (
      -frequencies[piece], len(piece), piece))
  tokens = sorted(ranked[:room], key=len)
  return tokens, len(frequent) - sum(len(token) == 1 for token in tokens)


def repeated_words(words, scale):
  """Yields lists of words, in all each word count // scale times."""
  for word in sorted(words):
    left = words[word] // scale
    while left > 0:
      yield [word] * min(left, 4096)
      left -= 4096


def train_pieces(words, first_tokens, vocab_size, min_frequency):
  """Lets the package tokenizers fill a vocabulary with pieces of words.

  Args:
    words: dict from word to count.
    first_tokens: list of strings, the reserved tokens and those of one
      character; words with other characters are [UNK] and teach nothing.
    vocab_size: int, the most tokens.
    min_frequency: int, the least frequency of a pair of pieces to be joined.

  Returns:
    List of strings, the first tokens and the new ones.
  """
  tokenizers = import_tokenizers()
  known = set(first_tokens)
  words = {word: count for word, count in words.items()
           if len(word) > 1 and known.issuperset(character_pieces(word))}
  pairs = sum(count * len(word) for word, count in words.items())
  scale = 1 + pairs // MAX_PAIRS
  # The trainer numbers "##c" as a hash table gives them out, and the numbers
  # decide between pairs of equal frequency. It keeps the order of special
  # tokens, so these are all given as such, and each run gives the same file.
  trainer = tokenizers.trainers.WordPieceTrainer(
      vocab_size=vocab_size, min_frequency=max(1, min_frequency // scale),
      show_progress=False, special_tokens=first_tokens,
      continuing_subword_prefix="##")
  tokenizer = tokenizers.Tokenizer(
      tokenizers.models.WordPiece(unk_token="[UNK]"))
  # Without a pre-tokenizer each string is a word.
  tokenizer.train_from_iterator(repeated_words(words, scale), trainer)
  vocab = tokenizer.get_vocab(with_added_tokens=False)
  tokens = sorted(vocab, key=vocab.get)
  if tokens[:len(first_tokens)] != first_tokens:
    raise VocabError("tokenizers %s numbers tokens in another way than the"
                     " versions 0.13 to 0.23, which are known to work" %
                     tokenizers.__version__)
  return tokens


def train(args):
  """Trains a vocabulary; returns the report's lines."""
  import_tokenizers()  # Before hours of counting.
  reserved = reserved_tokens(args.num_unused)
  room = args.vocab_size - len(reserved)
  if room < 1:
    raise VocabError(
        "--vocab_size=%d leaves no room beside the %d special and [unused]"
        " tokens; raise it or lower --num_unused=%d" %
        (args.vocab_size, len(reserved), args.num_unused))
  check_output(args.output_file)
  basic_tokenizer = tokenization.BasicTokenizer(args.do_lower_case)
  corpus = Corpus(args, basic_tokenizer)
  counter = count_words(corpus, character_pieces)
  characters, num_left_out = choose_characters(
      counter.pieces(), room, args.min_frequency, args.limit_alphabet)
  if not characters:
    raise VocabError("--input_file=%s: no character occurs --min_frequency=%d"
                     " times; give more text" %
                     (args.input_file, args.min_frequency))
  log("training: %d different words" % len(counter.words))
  tokens = train_pieces(counter.words, reserved + characters, args.vocab_size,
                        args.min_frequency)
  check_tokens(tokens[len(reserved):], basic_tokenizer)
  vocab = write_vocab(args.output_file, tokens)
  num_plain = sum(len(token) == 1 for token in characters)
  report = ["%s: %d tokens" % (args.output_file, len(tokens)),
            "  special %d, [unused] %d, characters %d, ## characters %d,"
            " longer pieces %d" % (
                len(reserved) - args.num_unused, args.num_unused, num_plain,
                len(characters) - num_plain,
                len(tokens) - len(reserved) - len(characters))]
  if num_left_out:
    report.append(
        "  characters left out that occur --min_frequency=%d times: %d; raise"
        " --vocab_size%s to have them" % (
            args.min_frequency, num_left_out,
            " or --limit_alphabet" if args.limit_alphabet else ""))
  if len(tokens) < args.vocab_size:
    report.append(
        "  fewer than --vocab_size=%d: nothing else occurs --min_frequency=%d"
        " times" % (args.vocab_size, args.min_frequency))
  coverage, = measure(corpus, [vocab])
  return report + [
      "corpus: %d characters, %s" % (coverage.characters, describe(coverage)),
      "the model's config needs \"vocab_size\": %d" % len(tokens)]


# ----------------------------------------------------------------------- grow


class Growth(object):
  """The words for the slots of a vocabulary, and what became of the others.

  words: dict from token to a note on it, in order.
  changed: list of "word -> token", where the tokenizer changes a word.
  present: list of words that the vocabulary had.
  repeated: list of words that came before.
  refused: dict from reason to a list of words.
  """

  def __init__(self, vocab, basic_tokenizer):
    self.words = collections.OrderedDict()
    self.changed, self.present, self.repeated = [], [], []
    self.refused = collections.OrderedDict()
    self._vocab, self._basic_tokenizer = vocab, basic_tokenizer

  def __contains__(self, token):
    return token in self._vocab or token in self.words

  def add(self, text, note=""):
    """Takes a word (str), or records why not."""
    try:
      # Such as [MASK], which no text has.
      token = (text if text in self._vocab else
               find_token(text, self._basic_tokenizer))
    except Refused as error:
      self.refused.setdefault(str(error), []).append(text)
      return
    if token in self._vocab:
      self.present.append(text)
    elif token in self.words:
      self.repeated.append(text)
    else:
      self.words[token] = note
      if token != text:
        self.changed.append("%s -> %s" % (text, token))

  def report(self):
    """Returns lines on what was not taken as it was."""
    rows = [("changed as the tokenizer does", self.changed),
            ("skipped, already in the vocabulary", self.present),
            ("skipped, given before", self.repeated)]
    rows += [("refused, because " + reason, texts)
             for reason, texts in self.refused.items()]
    return ["%s (%d): %s" % (title, len(texts), ", ".join(texts))
            for title, texts in rows if texts]


def read_words(path, on_bad_line):
  """Returns the lines of a words file that are not blank."""
  if not os.path.isfile(path):
    raise VocabError("--words_file=%s is not there; it should be a text file"
                     " with one word a line" % path)
  documents = corpus_utils.read_documents([path], collections.Counter(),
                                          on_bad_line=on_bad_line)
  words = [line for document in documents for line in document.lines]
  if not words:
    raise VocabError("--words_file=%s is empty; it should have one word a"
                     " line" % path)
  return words


def find_words(counter, vocab, number, min_frequency=1, min_pieces=None):
  """Finds what a vocabulary lacks in a corpus.

  Args:
    counter: WordCounter whose pieces are the missing ones.
    vocab: container of tokens.
    number: int, the most words to find.
    min_frequency: int, how often a word occurs at least.
    min_pieces: int, the least pieces of a word with letters that is to become
      one token, or None for no such words.

  Returns:
    List of (token, note), the most frequent first: missing characters, but none
    of private use, which mean something in one font only, and such words.
  """
  split = tokenization.WordpieceTokenizer(vocab).pieces

  def candidates():
    for piece, count in counter.pieces().items():
      if unicodedata.category(piece[-1]) != "Co" and count >= min_frequency:
        yield -count, piece, "[UNK]"
    for word, count in counter.words.items() if min_pieces else ():
      if count >= min_frequency and len(split[word]) >= min_pieces and any(
          map(str.isalpha, word)):
        yield -count, word, " ".join(split[word])

  return [(token, "%d in the corpus, was %s" % (-negative_count, before))
          for negative_count, token, before in heapq.nsmallest(
              number, candidates())]


def fill_slots(vocab, words, args):
  """Puts words into the [unused] slots, in order.

  Args:
    vocab: OrderedDict from token to id.
    words: list of tokens.
    args: has vocab_file and allow_partial, for the message.

  Returns:
    (tokens, slots): the new list of tokens, and the ids of all slots.

  Raises:
    VocabError: too few slots, without allow_partial.
  """
  tokens = list(vocab)
  slots = [index for token, index in vocab.items() if _SLOT.fullmatch(token)]
  left_out = words[len(slots):]
  if left_out and not args.allow_partial:
    named = ", ".join(left_out[:MAX_NAMED])
    if len(left_out) > MAX_NAMED:
      named += " and %d more" % (len(left_out) - MAX_NAMED)
    raise VocabError(
        "%s has %d [unused] slots, but there are %d words: %d fit, left out"
        " would be %s; give fewer words, or pass --allow_partial" %
        (args.vocab_file, len(slots), len(words), len(slots), named))
  for index, token in zip(slots, words):
    tokens[index] = token
  return tokens, slots


def check_grow_arguments(args):
  """Raises VocabError for arguments that do not go together."""
  if not args.words_file and not args.num_words:
    raise VocabError("there is nothing to add; give --words_file, or"
                     " --input_file with --num_words")
  if args.num_words and not args.input_file:
    raise VocabError("--num_words=%d are to be found, but there is no corpus;"
                     " give --input_file" % args.num_words)
  for name in ("min_pieces", "min_frequency"):
    if getattr(args, name) is not None and not args.num_words:
      raise VocabError("--%s is for words that are found in a corpus; give"
                       " --num_words too" % name)
  if os.path.realpath(args.vocab_file) == os.path.realpath(args.output_file):
    raise VocabError("--output_file=%s is --vocab_file, which existing data and"
                     " checkpoints need as it is; write to another name" %
                     args.output_file)


def grow(args):
  """Grows a vocabulary; returns the report's lines."""
  check_grow_arguments(args)
  vocab = tokenization.load_vocab(args.vocab_file)
  tokenization.validate_vocab(vocab, vocab_file=args.vocab_file)
  check_output(args.output_file)
  basic_tokenizer = tokenization.BasicTokenizer(args.do_lower_case)
  corpus = Corpus(args, basic_tokenizer) if args.input_file else None
  growth = Growth(vocab, basic_tokenizer)
  for word in read_words(args.words_file, args.on_bad_line) if (
      args.words_file) else ():
    growth.add(word)
  if args.num_words:
    counter = count_words(corpus, lambda word: missing_pieces(word, growth))
    for word, note in find_words(counter, growth, args.num_words,
                                 args.min_frequency or 1, args.min_pieces):
      growth.add(word, note)
  if growth.refused and not growth.words:
    raise VocabError("no word is left to add: %s" % "; ".join(growth.report()))
  tokens, slots = fill_slots(vocab, list(growth.words), args)
  check_tokens([tokens[index] for index in slots if tokens[index] not in vocab],
               basic_tokenizer)
  grown = write_vocab(args.output_file, tokens)
  report = report_grown(args, growth, tokens, slots)
  if corpus:
    before, after = measure(corpus, [vocab, grown])
    report += ["corpus: %d characters" % before.characters,
               "  before: " + describe(before), "  after:  " + describe(after)]
  return report


def report_grown(args, growth, tokens, slots):
  """Returns lines on the words and their ids."""
  words = list(growth.words)
  num_new = min(len(words), len(slots))
  report = ["%s: %d tokens as before, %d of %d [unused] slots taken, %d left" %
            (args.output_file, len(tokens), num_new, len(slots),
             len(slots) - num_new)]
  for index, word in zip(slots, words):
    note = growth.words[word]
    report.append("  %d %s%s" % (index, word, " (%s)" % note if note else ""))
  if words[num_new:]:
    report.append("left out for want of slots (%d): %s" % (
        len(words) - num_new, ", ".join(words[num_new:])))
  return report + growth.report()


# ----------------------------------------------------------------------- main


def boolean(text):
  values = {"true": True, "t": True, "1": True,
            "false": False, "f": False, "0": False}
  if text.lower() not in values:
    raise argparse.ArgumentTypeError("found %r, expected True or False" % text)
  return values[text.lower()]


def at_least(minimum):
  """Returns a function that reads an int of at least that much."""
  def read(text):
    try:
      number = int(text)
    except ValueError:
      number = minimum - 1
    if number < minimum:
      raise argparse.ArgumentTypeError(
          "found %r, expected a whole number of at least %d" % (text, minimum))
    return number
  return read


def add_common_arguments(command):
  command.add_argument("--output_file", required=True,
                       help="the vocabulary to write")
  command.add_argument(
      "--do_lower_case", type=boolean, nargs="?", const=True, default=True,
      help="lower-case and strip accents; False for cased models (True)")
  command.add_argument(
      "--on_bad_line", choices=("error", "skip"), default="error",
      help="what to do with a line that is not UTF-8 (error)")


def parse_arguments(argv):
  parser = argparse.ArgumentParser(
      allow_abbrev=False, description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  commands = parser.add_subparsers(dest="command", metavar="COMMAND",
                                   required=True)
  corpus_help = ("UTF-8 text, also .gz, .xz, .bz2: comma list of files, globs"
                 " and folders")
  command = commands.add_parser(
      "train", allow_abbrev=False, help="makes a vocabulary from a corpus, for"
      " a model from scratch")
  command.set_defaults(run=train)
  command.add_argument("--input_file", required=True, help=corpus_help)
  add_common_arguments(command)
  command.add_argument("--vocab_size", type=at_least(1), default=21128,
                       help="the most tokens, reserved ones too (21128)")
  command.add_argument("--min_frequency", type=at_least(1), default=2,
                       help="a character or pair of pieces in the vocabulary"
                       " occurs at least so often (2)")
  command.add_argument("--num_unused", type=at_least(0), default=99,
                       help="[unused] slots for `grow` (99)")
  command.add_argument("--limit_alphabet", type=at_least(1),
                       help="the most different characters, which leaves room"
                       " for longer pieces; default: as many as fit")
  command = commands.add_parser(
      "grow", allow_abbrev=False, help="puts words into the [unused] slots of"
      " a vocabulary, for an existing checkpoint")
  command.set_defaults(run=grow)
  command.add_argument("--vocab_file", required=True,
                       help="the vocabulary to grow, which stays as it is")
  add_common_arguments(command)
  command.add_argument("--words_file", help="words to add, one a line; ##end"
                       " is a piece inside words")
  command.add_argument("--input_file", help=corpus_help + "; the [UNK] share"
                       " before and after is reported")
  command.add_argument("--num_words", type=at_least(1),
                       help="add up to so many that the corpus has and the"
                       " vocabulary lacks, the most frequent ones; default:"
                       " none")
  command.add_argument("--min_frequency", type=at_least(1),
                       help="what is found occurs at least so often (1)")
  command.add_argument("--min_pieces", type=at_least(2),
                       help="find words with letters too that fall into at"
                       " least so many pieces; default: only what is [UNK]")
  command.add_argument("--allow_partial", action="store_true",
                       help="too few slots: fill them and leave the rest out")
  return parser.parse_args(argv)


def main(argv=None):
  args = parse_arguments(argv)
  try:
    report = args.run(args)
  except (ValueError, OSError) as error:
    log("build_vocab.py: error: %s" % error)
    return 1
  print("\n".join(report))
  return 0


if __name__ == "__main__":
  # A terminal that cannot show a character must not lose the report.
  sys.stdout.reconfigure(errors="backslashreplace")
  sys.exit(main())
