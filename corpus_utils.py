"""Reads corpora: documents from text files of several forms, one at a time.

    counts = collections.Counter()
    paths = expand_input_patterns("wiki/*.jsonl.gz,-")
    for document in read_documents(paths, counts, "jsonl", ["title", "text"]):
      sentences = [sentence for paragraph in document.lines
                   for sentence in split_sentences(paragraph)]

However long a file, a document or a line is, little of it is in memory at once.
"""

import bz2
import collections
import glob
import gzip
import io
import json
import lzma
import os
import re
import sys
import zlib

INPUT_FORMATS = ("lines", "documents", "jsonl")
STANDARD_INPUT = "-"

# A longer document is taken apart: forgotten blank lines must not end in a
# document of 30 GB. So is a longer line.
MAX_DOCUMENT_CHARACTERS = 2**18
MAX_LINE_BYTES = 2**18
# A JSON object cannot be taken apart.
MAX_JSON_BYTES = 2**24

_OPENERS = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


class DataError(ValueError):
  """An input that cannot be used; the message says where and what to do."""


class Document(collections.namedtuple("Document", ["lines", "file_index",
                                                   "number"])):
  """A document and where it is from.

  lines: list of strings, stripped and not empty: sentences, or paragraphs in
    the formats "documents" and "jsonl".
  file_index: int, index of its file in the list of paths.
  number: int, how many documents of that file came before it.
  """
  __slots__ = ()


def expand_input_patterns(input_file):
  """Expands a comma list of paths, globs and folders into existing files.

  Args:
    input_file: string; "-" stands for standard input, a folder for all files
      in and below it whose names do not begin with a dot.

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
    try:
      if pattern == STANDARD_INPUT:
        matches = [pattern]
      elif _exists(pattern):
        # A file may have a glob's brackets in its name.
        matches = _files_below(pattern)
      else:
        matches = [path for match in sorted(glob.glob(pattern))
                   for path in _files_below(match)]
    except OSError as error:
      raise DataError("--input_file: %s cannot be read: %s" % (
          error.filename, error.strerror)) from error
    if not matches:
      raise DataError("--input_file: no file matches %s" % pattern)
    paths.extend(path for path in matches if path not in paths)
  return paths


def _exists(path):
  """Like os.path.exists, but a folder that may not be entered is an error."""
  try:
    os.stat(path)
    return True
  except (FileNotFoundError, NotADirectoryError, ValueError):
    return False


def _raise(error):
  raise error


def _files_below(path):
  """The file itself, or the visible files in and below a folder, sorted."""
  if not os.path.isdir(path):
    return [path]
  files = []
  for folder, folders, names in os.walk(path, onerror=_raise):
    folders[:] = sorted(name for name in folders if not name.startswith("."))
    files.extend(os.path.join(folder, name) for name in sorted(names)
                 if not name.startswith("."))
  return files


def read_documents(paths, counts, input_format="lines", text_fields=("text",),
                   on_bad_line="error", open_file=None):
  """Reads the documents of files, one after the other.

  A file's end ends its document. Lines end at "\\n" only; other Unicode line
  breaks are part of the text. What is longer than MAX_DOCUMENT_CHARACTERS goes
  on as another document, where a line ends.

  Args:
    paths: list of paths of UTF-8 text, also .gz, .xz and .bz2, or "-".
    counts: collections.Counter; "bad_lines" counts the skipped lines,
      "split_documents" the places where a document was taken apart.
    input_format: "lines" (a sentence a line, a blank line between documents),
      "documents" (a document a line), "jsonl" (a JSON object a line).
    text_fields: the object's fields that are text, in order.
    on_bad_line: "error" or "skip", for a line that is not UTF-8, or that is
      not an object with these fields.
    open_file: function from a path to a file of bytes, or None for local files.

  Yields:
    Documents.

  Raises:
    DataError: names file and line of one that cannot be used.
    OSError: a file cannot be read.
  """
  for file_index, path in enumerate(paths):
    with (open_file or _open)(path) as reader:
      lines = _decoded_lines(path, reader, counts, on_bad_line,
                             input_format == "jsonl")
      if input_format == "documents":
        lines = _separated_lines(lines)
      elif input_format == "jsonl":
        lines = _json_texts(path, lines, text_fields, counts, on_bad_line)
      else:
        lines = (line for _, line in lines)
      for number, document in enumerate(_group_lines(lines, counts)):
        yield Document(document, file_index, number)


def drop_short_documents(documents, counts):
  """Yields Documents without those that cannot have two tokens.

  These are counted, as the others will be: "documents", "sentences",
  "dropped_documents" of collections.Counter counts.
  """
  for document in documents:
    if len(document.lines) > 1 or len(document.lines[0]) > 1:
      yield document
    else:
      counts.update(documents=1, sentences=1, dropped_documents=1)


def _open(path):
  """Opens a file, whatever its compression, for reading bytes."""
  if path == STANDARD_INPUT:
    if sys.stdin is None:
      raise DataError("--input_file=-: standard input is closed")
    return io.open(sys.stdin.fileno(), "rb", closefd=False)
  opener = _OPENERS.get(os.path.splitext(path)[1])
  return io.BufferedReader(opener(path, "rb"), 2**18) if opener else io.open(
      path, "rb")


def _name(path):
  return "standard input" if path == STANDARD_INPUT else path


def _decoded_lines(path, reader, counts, on_bad_line, is_json):
  """Yields (number, stripped text) of each line; a blank line's is "".

  Lines of more than MAX_LINE_BYTES come in parts of the same number, JSON
  excepted.
  """
  limit = MAX_JSON_BYTES if is_json else MAX_LINE_BYTES
  try:
    for number, raw in _limited_lines(reader, limit):
      if is_json and len(raw) > limit - 5:
        raise DataError("%s, line %d has more than %d MB; expected a JSON"
                        " object a line" % (_name(path), number, limit >> 20))
      try:
        line = raw.decode("utf-8")
      except UnicodeDecodeError as error:
        if on_bad_line == "error":
          is_utf16 = number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff")
          raise DataError(
              "%s, line %d is not UTF-8 (%s); convert the file, for example"
              " with iconv -f %s -t utf-8, or pass --on_bad_line=skip" %
              (_name(path), number, error,
               "utf-16" if is_utf16 else "gb18030")) from error
        counts["bad_lines"] += 1
        continue
      yield number, (line[1:] if number == 1 and line[0] == "\ufeff"
                     else line).strip()
  except (EOFError, zlib.error, lzma.LZMAError) as error:
    raise DataError("%s is cut off or damaged (%s)" %
                    (_name(path), error)) from error
  except OSError as error:
    if error.errno is None:  # gzip's and bz2's own: not a file of theirs
      raise DataError("%s cannot be read: %s" % (path, error)) from error
    raise


def _limited_lines(reader, limit):
  """Yields (number, bytes); lines longer than the limit in several parts."""
  number, rest = 0, b""
  while True:
    number += not rest
    raw = rest + reader.readline(limit - len(rest))
    if not raw:
      return
    rest = b""
    if len(raw) == limit and not raw.endswith(b"\n"):
      cut = len(raw) - 1
      while cut > limit - 4 and raw[cut] & 0xc0 == 0x80:  # inside a character
        cut -= 1
      raw, rest = raw[:cut], raw[cut:]
    yield number, raw


def _separated_lines(lines):
  """Yields each line as a document of its own."""
  last = None
  for number, line in lines:
    if number != last:
      yield ""
    yield line
    last = number


def _json_texts(path, lines, text_fields, counts, on_bad_line):
  """Yields the paragraphs of each line's object, as a document."""
  for number, line in lines:
    if not line:
      continue
    try:
      row = json.loads(line)
      texts = [row[field] for field in text_fields]
      if not all(isinstance(text, str) for text in texts):
        raise TypeError("not every field is a text")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
      if on_bad_line == "error":
        reason = ("there is no %s" % error if isinstance(error, KeyError)
                  else error)
        raise DataError(
            "%s, line %d is not a JSON object with the text \"%s\" (%s); see"
            " --text_field, or pass --on_bad_line=skip" % (
                _name(path), number, "\", \"".join(text_fields), reason)
            ) from error
      counts["bad_lines"] += 1
      continue
    for text in texts:
      # A surrogate without its partner is no character.
      text = text.encode("utf-8", "ignore").decode("utf-8")
      for paragraph in filter(None, map(str.strip, text.split("\n"))):
        for begin in range(0, len(paragraph), MAX_LINE_BYTES // 4):
          yield paragraph[begin:begin + MAX_LINE_BYTES // 4]
    yield ""


def _group_lines(lines, counts):
  """Groups lines into documents; "" ends one, and so does its length."""
  document, size = [], 0
  for line in lines:
    too_long = document and size + len(line) > MAX_DOCUMENT_CHARACTERS
    if document and (not line or too_long):
      counts["split_documents"] += bool(too_long)
      yield document
      document, size = [], 0
    if line:
      document.append(line)
      size += len(line)
  if document:
    yield document


# ------------------------------------------------------------------- sentences

MAX_SENTENCE = 300
CLOSING_MARKS = "”’」』）】\"')]"
_FOLLOWING = CLOSING_MARKS + "。！？；…!?;"
_GOES_ON = tuple("，、：,:")
# ASCII marks end a sentence only right after Chinese: `a?b=1&amp;` has no end.
_END = re.compile("[。！？；]|(?<![0-9…])…+|(?<!…)…+(?![0-9…])|"
                  "(?<=[\u3400-\u9fff。！？；…”’」』》）】])[!?;]")
_PAIRED = re.compile(r"\([^()]*\)|" + "|".join(
    "{0}[^{0}{1}]*{1}".format(*pair)
    for pair in "“” ‘’ 「」 『』 《》 〈〉 （） 【】".split()))
_PAIRED_ASCII = re.compile(_PAIRED.pattern + "|\"[^\"]*\"")
_COMMA = "(?:，|,(?![0-9]))"
# The rest if it fits; up to a comma or pause that fits; up to a comma; the rest.
_AT_COMMAS = re.compile(
    "(?s).{1,%d}$|.{0,%d}%s|.{1,%d}[、：\\s]|.*?%s(?=.)|.+" % (
        MAX_SENTENCE, MAX_SENTENCE - 1, _COMMA, MAX_SENTENCE - 1, _COMMA))


def split_sentences(text):
  """Splits a paragraph (str) of Chinese into its sentences (list of str).

  A sentence ends after 。！？；… (!?; too where they follow Chinese) and the
  closing quotes and brackets that come next. It does not end
    - inside a pair of quotes, brackets or title marks of the same paragraph
      (an opening mark that is never closed counts for nothing),
    - where a comma or colon follows (“走！”，他说), or at an … between digits.
  One of more than MAX_SENTENCE characters is split inside its quotes too, and
  what is still too long at the last comma (of 1,000 it is none) that fits, or
  else at the last 、： or blank, or else at the next comma, or not at all.
  A line break ends nothing. Joined, the sentences are `text` but for blanks.

    split_sentences("他说：“走吧。别等了。”她点头。真的？")
    == ["他说：“走吧。别等了。”", "她点头。", "真的？"]
  """
  # Of an odd number of straight quotes nobody knows which ones open.
  paired = _PAIRED if text.count('"') % 2 else _PAIRED_ASCII
  begins, inside, sentences = set(), set(), []
  for match in paired.finditer(text):
    begins.add(match.start())
    inside.update(range(match.start() + 1, match.end()))
  for sentence in _split_at_ends(text, begins, inside):
    if len(sentence) <= MAX_SENTENCE:
      sentences.append(sentence)
    else:
      for part in _split_at_ends(sentence, (), ()):
        sentences.extend(map(str.strip, _AT_COMMAS.findall(part)))
  return [sentence for sentence in sentences if sentence]


def _split_at_ends(text, begins, inside):
  """Splits after ends that are not `inside`; no mark of `begins` closes."""
  sentences, begin, end = [], 0, 0
  for match in _END.finditer(text):
    # Of many ends in a row, all but the first have been gone through.
    end = max(end, match.end())
    while end < len(text) and text[end] in _FOLLOWING and end not in begins:
      end += 1
    if end > begin and end not in inside and text[end:end + 1] not in _GOES_ON:
      sentences.append(text[begin:end].strip())
      begin = end
  return sentences + [text[begin:].strip()]
