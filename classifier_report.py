"""Reports of fine-tuning: results.json, results.md, a confusion matrix.

    write_report("output/tnews", results, processor.task)

    python classifier_report.py check --data_dir=CLUEdataset/tnews tnews
    python classifier_report.py table --output=clue.md output/tnews output/csl

A report sets a run's figures beside the published ones, and says in words where
the two cannot be compared. `check` reads a task's files as training will;
`table` makes one table of many runs. None needs TensorFlow; matplotlib is
optional and draws the matrix.
"""

import argparse
import collections
import io
import json
import os
import sys

from absl import logging
import numpy as np

import classifier_tasks
import classifier_utils

RESULTS_NAME = "results.json"
TABLE_NAME = "results.md"
MATRIX_NAME = "confusion_matrix"

# Exit codes; 1 is any other error, 2 a wrong command line.
MISSING = 3
FAILED = 4

# With more classes the cells of the picture have no numbers.
_MAX_CLASSES_WITH_NUMBERS = 40
_MAX_CHARACTERS = 24  # of a label, in the picture
_DASH = "–"
# What of the flags stands in the readable report; all are in results.json.
_SHOWN_FLAGS = (
    "bert_config_file", "init_checkpoint", "max_seq_length",
    "train_batch_size", "num_train_epochs", "warmup_proportion", "optimizer",
    "precision")
# These where they are not as here.
_SHOWN_OPTIONS = (
    ("long_text", "head"), ("use_pooled_output", True), ("class_weights", None),
    ("label_smoothing", 0.0), ("rdrop_alpha", 0.0), ("fgm_epsilon", 0.0),
    ("layerwise_lr_decay", 1.0), ("freeze_encoder", False))


def write_report(output_dir, results, task):
  """Writes the files that say what came out of a run, each whole or not at all.

  results.json is `results` with the published figures; results.md the same for
  people, confusion_matrix.txt and .png (if matplotlib is there) what was taken
  for what, of a single-label task only: on the test set where it has labels,
  and on dev.

  Args:
    output_dir: path of an existing folder.
    results: dict of plain values:
      task, variant, task_type, metric: strings, the variant may be None.
      labels: list of strings.
      runs: list of a dict for each run: learning_rate, seed, folder, step,
        score and loss on dev, checkpoint.
      selected: dict of the learning rate that is best on dev: learning_rate,
        num_seeds, mean, deviation (None for one seed), best.
      dev: metrics as `processor.score` has them, or None.
      test: the same, or None where the test set has no labels.
      test_runs: dict of mean, deviation, best of the selected rate's seeds on
        test, or None.
      submission: path or None.
      checkpoint: dict of path and sha256.
      num_parameters: int.
      flags, versions: dicts.
      sizes: dict from split to the number of examples.
      rows: the same for the rows of the files, as `TaskProcessor.num_rows`
        has them (optional; a row may make two examples, or none).
    task: classifier_tasks.Task, the `processor.task` of the run.

  Returns:
    List of the paths that were written. A picture of an earlier run that this
    one cannot draw anew is removed.
  """
  contents = collections.OrderedDict()
  contents[TABLE_NAME] = format_results(results, task)
  matrices = _matrices(results)
  if matrices:
    contents[MATRIX_NAME + ".txt"] = format_matrices(matrices)
    picture = draw_matrix(_name(results), *_first(matrices))
    if picture:
      contents[MATRIX_NAME + ".png"] = picture
  report = dict(results, published=[
      dict(figure._asdict()) for figure in task.published])
  # The last: who finds it finds all.
  contents[RESULTS_NAME] = json.dumps(
      report, ensure_ascii=False, indent=2, sort_keys=True,
      default=_plain) + "\n"
  if MATRIX_NAME + ".png" not in contents:
    classifier_utils.remove_file(os.path.join(output_dir,
                                              MATRIX_NAME + ".png"))
  written = []
  for name, content in contents.items():
    written.append(os.path.join(output_dir, name))
    classifier_utils.write_bytes(
        written[-1], content if isinstance(content, bytes) else
        content.encode("utf-8"))
  return written


def _plain(value):
  """Turns numpy's scalars and arrays into what json takes."""
  if isinstance(value, (np.generic, np.ndarray)):
    return value.tolist()
  raise TypeError("%r is no plain value" % (value,))


def _name(results):
  """The task, and the part of it: "ocnli (30k)"."""
  return _name_of(results["task"], results.get("variant"))


def _name_of(task_name, variant):
  return task_name + (" (%s)" % variant if variant else "")


# ------------------------------------------------------------- readable report


def format_results(results, task):
  """Returns results.md; arguments as `write_report` has them."""
  parts = ["# " + _name(results), _summary(results),
           _markdown(_comparison(results, task))]
  sentences = notes(results, task) + _general_notes([task])
  parts.append("\n".join("- " + sentence for sentence in sentences))
  for title, rows in (("Figures of the best checkpoint", _figures(results)),
                      ("Runs", _runs(results)),
                      ("Settings", _settings(results))):
    if rows:
      parts += ["## " + title, _markdown(rows)]
  return "\n\n".join(parts) + "\n"


def _summary(results):
  types = {"single": "one label of %d" % len(results["labels"]),
           "multi": "any of %d labels" % len(results["labels"]),
           "regression": "a number"}
  return "An example has %s. Scored by %s%s, in percent." % (
      types[results["task_type"]], results["metric"].replace("_", " "),
      " (correlation times 100)" * (results["task_type"] == "regression"))


def _percent(value):
  return _DASH if value is None else "%.2f" % (100 * value)


def _spread(mean, deviation):
  """`53.10 ± 0.31`; of one seed only the figure."""
  return _percent(mean) + (
      "" if deviation is None else " ± %.2f" % (100 * deviation))


def _score(results, split):
  metrics = results.get(split)
  return None if metrics is None else metrics["score"]


def _comparison(results, task):
  """Rows of the table: ours first, then the published ones."""
  rows = [["", "dev", "test", "source"]]
  selected, on_test = results.get("selected"), results.get("test_runs")
  if selected and selected["num_seeds"] > 1:
    rows.append(["**mean ± deviation of %d seeds**" % selected["num_seeds"],
                 _spread(selected["mean"], selected["deviation"]),
                 _spread(on_test["mean"], on_test.get("deviation"))
                 if on_test else _DASH, "this run"])
  rows.append(["**best on dev**", _percent(_score(results, "dev")),
               _percent(_score(results, "test")), "this run"])
  for figure in task.published:
    rows.append([figure.model] + [
        _DASH if value is None else "%.2f" % value
        for value in (figure.dev, figure.test)] + [figure.source])
  return rows


def notes(results, task):
  """What has to be known to compare the figures: a list of sentences."""
  found = _notes_on_sizes(results, task)
  if results.get("test") is None:
    found.append(_note_on_test(results))
  selected = results.get("selected")
  if selected and selected["num_seeds"] == 1:
    found.append("One seed was run: by how much seeds differ is not known, so "
                 "a small difference says nothing.")
  if task.published and not results["flags"].get("init_checkpoint"):
    found.append("This run began from random weights (no init_checkpoint), "
                 "the published models were pre-trained.")
  return found + ([task.note] if task.note else [])


def _general_notes(tasks):
  """What is true of every run, and of every published figure."""
  found = ["Checkpoint and learning rate are chosen on dev, whose figures are "
           "high by that; the test set decides nothing."]
  if any(task.published for task in tasks):
    found.append("The published figures are single runs or the best of "
                 "several, as their sources report them; nobody reran them "
                 "here.")
  return found


def _notes_on_sizes(results, task):
  """A sentence for each split that is not as the benchmark has it."""
  found = []
  rows = results.get("rows") or results["sizes"]
  what = "rows" if results.get("rows") else "examples"
  for split in classifier_tasks.SPLITS:
    here, published = rows.get(split), task.sizes.get(split)
    if here and published and here != published:
      found.append(
          "The %s set has %d %s here, as published it has %d: %s." % (
              "training" if split == "train" else split, here, what, published,
              "the model was trained on other data" if split == "train" else
              "its figures are not those of the benchmark"))
  if task.published and not task.sizes:
    found.append("How large the published set is, is not in the table of "
                 "tasks: whether these files are all of it was not checked.")
  return found


def _note_on_test(results):
  if not results["sizes"].get("test"):
    return "The test set was not predicted: only dev can be compared."
  submission = results.get("submission")
  return ("The test set has no labels here, so only dev can be compared%s." % (
      "; the benchmark scores %s" % os.path.basename(submission)
      if submission else ""))


def _figures(results):
  """Every figure that is one number, of each split that has labels."""
  splits = [split for split in ("dev", "test") if results.get(split)]
  names = collections.OrderedDict.fromkeys(
      name for split in splits for name, value in results[split].items()
      if isinstance(value, float) and name != "score")
  rows = [[""] + splits]
  for name in names:
    rows.append([name.replace("_", " ")] + [
        _figure(name, results[split].get(name)) for split in splits])
  rows.append(["examples"] + [
      str(results[split]["num_examples"]) for split in splits])
  return rows if splits else []


def _figure(name, value):
  return "%.4f" % value if name.endswith("_error") else _percent(value)


def _runs(results):
  if not results.get("runs"):
    return []
  rows = [["learning rate", "seed", "best step", "dev", "dev loss", "folder"]]
  for run in results["runs"]:
    rows.append(["%g" % run["learning_rate"], str(run["seed"]),
                 str(run["step"]), _percent(run["score"]),
                 "%.4f" % run["loss"], str(run["folder"])])
  return rows


def _settings(results):
  rows, flags = [["", ""]], results["flags"]
  rows += [[name, "`%s`" % (flags[name] or "none")] for name in _SHOWN_FLAGS
           if name in flags]
  rows += [[name, "`%s`" % flags[name]] for name, default in _SHOWN_OPTIONS
           if flags.get(name, default) != default]
  rows += [["parameters", "%d" % results["num_parameters"]],
           ["examples", ", ".join(
               "%s %d" % (split, results["sizes"][split])
               for split in classifier_tasks.SPLITS
               if results["sizes"].get(split))],
           ["checkpoint", "`%s`" % results["checkpoint"]["path"]],
           ["its sha256", "`%s`" % results["checkpoint"]["sha256"]],
           ["versions", ", ".join("%s %s" % item for item in
                                  sorted(results["versions"].items()))]]
  return rows


def _markdown(rows):
  """A Markdown table of rows of strings, the first is its head."""
  lines = [[cell.replace("|", "\\|") for cell in row] for row in rows]
  lines.insert(1, ["---"] * len(rows[0]))
  return "\n".join("| %s |" % " | ".join(row) for row in lines)


# ------------------------------------------------------------ confusion matrix


def _matrices(results):
  """{split: metrics} of what has a matrix, the test set first."""
  return collections.OrderedDict(
      (split, results[split]) for split in ("test", "dev")
      if results["task_type"] == "single" and results.get(split))


def _first(matrices):
  """(split, its metrics) of the split that nothing was selected on, if any."""
  return next(iter(matrices.items()))


def format_matrices(matrices):
  """Returns confusion_matrix.txt: label ids, counts, and percent of each row.

  Up to 40 classes there is a table of each; of more a line for each true label
  with what is not 0.

  Args:
    matrices: dict from split to metrics as `compute_metrics` has them.
  """
  labels = _first(matrices)[1]["labels"]
  parts = [classifier_utils.format_table(
      [["id", "label"]] + [[str(index), label]
                           for index, label in enumerate(labels)])]
  for split, metrics in matrices.items():
    counts = np.asarray(metrics["confusion_matrix"])
    percents = _row_percents(counts)
    if len(labels) > _MAX_CLASSES_WITH_NUMBERS:
      parts += ["%s: each true label with what was predicted, its count and "
                "the percent of the true label's examples" % split,
                "\n".join(_sparse_rows(labels, counts, percents))]
      continue
    for what, cells in (("counts", counts), ("percent of the row", percents)):
      parts += ["%s, %s; rows are the true labels, columns the predicted" % (
          split, what), classifier_utils.format_table(
              [["true \\ predicted"] + labels] + [
                  [label] + row for label, row in zip(labels, _cells(cells))])]
  return "\n\n".join(parts) + "\n"


def _sparse_rows(labels, counts, percents):
  """`a: a 7 (70.0%), b 3 (30.0%)` for each label, the most frequent first."""
  for label, row, shares in zip(labels, counts, percents):
    found = [column for column in np.argsort(-row, kind="stable")
             if row[column]]
    yield "%s: %s" % (label, ", ".join("%s %d (%.1f%%)" % (
        labels[column], row[column], shares[column])
                                       for column in found) or "no examples")


def _row_percents(counts):
  """Shares of each row in percent, [L, L]; of an empty row 0."""
  counts = np.asarray(counts, np.float64)
  return 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def _cells(values):
  return [["%.1f" % value if isinstance(value, float) else str(value)
           for value in row] for row in np.asarray(values).tolist()]


def draw_matrix(title, split, metrics):
  """Draws a confusion matrix, coloured by the percent of each row.

  Up to 40 classes each cell has its percent and count. Of more the axes have
  label ids only, and so they do where no font has the labels' characters; the
  text file says which id is which label.

  Args:
    title: string.
    split: string.
    metrics: dict as `compute_metrics` has it.

  Returns:
    bytes of a PNG file; None where matplotlib is not there.
  """
  try:
    from matplotlib import figure
    from matplotlib.backends import backend_agg
  except ImportError:
    logging.info("%s.png is not drawn: matplotlib is not there (pip install "
                 "matplotlib); %s.txt has the same", MATRIX_NAME, MATRIX_NAME)
    return None
  image = figure.Figure(dpi=100)
  backend_agg.FigureCanvasAgg(image)  # no display, and nothing of pyplot's
  _plot_matrix(image, title, split, metrics)
  content = io.BytesIO()
  image.savefig(content, format="png", bbox_inches="tight")
  return content.getvalue()


def _plot_matrix(image, title, split, metrics):
  """Does what `draw_matrix` says with a matplotlib figure."""
  from matplotlib import colors
  from matplotlib import font_manager
  labels, counts = metrics["labels"], np.asarray(metrics["confusion_matrix"])
  with_numbers = len(labels) <= _MAX_CLASSES_WITH_NUMBERS
  font = _font_for("".join(labels), font_manager) if with_numbers else None
  names = labels
  if font is None:
    names = [str(index) for index in range(len(labels))]
  side = 3 + (0.62 * len(labels) if with_numbers else
              min(0.1 * len(labels), 17))  # inches
  image.set_size_inches(side + 1, side)
  axes = image.add_subplot(1, 1, 1)
  # Without numbers what is seldom confused has to be seen, too.
  shades = axes.imshow(
      _row_percents(counts), cmap="Blues",
      norm=colors.PowerNorm(1 if with_numbers else 0.5, vmin=0, vmax=100))
  image.colorbar(shades, ax=axes, fraction=0.046, pad=0.04,
                 label="percent of the true label's examples")
  _name_axes(axes, names, font)
  if with_numbers:
    _write_numbers(axes, counts)
  ids = "" if names is labels else "; ids as in %s.txt" % MATRIX_NAME
  axes.set_title("%s, %s: %d examples%s" % (title, split, counts.sum(), ids),
                 fontsize=10)


def _name_axes(axes, names, font):
  """Puts labels at the rows and columns; of many ids every so many."""
  step = (1 if len(names) <= _MAX_CLASSES_WITH_NUMBERS else
          max(5, len(names) // 30))
  ticks = range(0, len(names), step)
  upright = max(len(name) for name in names) > 3
  # Between two dollar signs would be a formula; long ones the text file has.
  shown = [names[tick][:_MAX_CHARACTERS].replace("$", "\\$") for tick in ticks]
  for axis, rotation in ((axes.xaxis, 90 if upright else 0), (axes.yaxis, 0)):
    axis.set_ticks(list(ticks))
    axis.set_ticklabels(shown, rotation=rotation, fontproperties=font)
  axes.set_xlabel("predicted")
  axes.set_ylabel("true")


def _write_numbers(axes, counts):
  """Percent and, below it, count in each cell that is not empty."""
  percents = _row_percents(counts)
  for row, column in np.argwhere(counts):
    percent = percents[row, column]
    axes.text(column, row, "%.1f%%\n%d" % (percent, counts[row, column]),
              ha="center", va="center", fontsize=7,
              color="white" if percent > 50 else "black")


def _font_for(text, font_manager):
  """FontProperties of a font with all characters of the text, or None.

  The default one if it has them; else the first that is installed.
  """
  wanted = {ord(char) for char in text if not char.isspace()}
  # An upright one of normal weight is read best. The last resort's "glyphs" are
  # boxes.
  fonts = sorted(
      (entry.style != "normal", str(entry.weight) not in ("400", "normal"),
       entry.fname) for entry in font_manager.fontManager.ttflist
      if "LastResort" not in entry.fname)
  paths = [font_manager.findfont("DejaVu Sans")] + [font[-1] for font in fonts]
  for path in paths:
    try:
      font = font_manager.get_font(path)
    except (OSError, RuntimeError):  # moved away since matplotlib listed it
      continue
    if wanted <= set(font.get_charmap()):
      return font_manager.FontProperties(fname=path)
  return None


# ------------------------------------------------------------------- many runs

# Whose figures stand beside ours.
_MODELS = ("ALBERT-tiny", "ALBERT-base")


def read_results(folder):
  """Returns what `write_report` wrote into a folder as results.json.

  Raises:
    DataError: there is none, or it is not one.
  """
  path = os.path.join(folder, RESULTS_NAME)
  try:
    with classifier_tasks.open_binary(path) as reader:
      results = json.loads(reader.read().decode("utf-8"))
  except OSError as error:
    raise classifier_tasks.MissingDataError(
        "%s has no %s: it is not the output folder of a run_classifier.py that "
        "came to its end" % (folder, RESULTS_NAME)) from error
  except ValueError as error:
    raise classifier_tasks.DataError(
        "%s is not JSON (%s), expected what run_classifier.py wrote" %
        (path, error)) from error
  if not isinstance(results, dict) or results.get("task") not in (
      classifier_tasks.TASKS):
    raise classifier_tasks.DataError(
        "%s is not of a task of the table, expected what run_classifier.py "
        "wrote" % path)
  return results


# task, variant: strings, the variant may be None. state: why there are no
# results, beginning with a word that stands in the table. results: dict; None
# where there is a state. folder: path or None.
Entry = collections.namedtuple("Entry", ["task", "variant", "state", "results",
                                         "folder"])


def entry_of(folder):
  """Returns the Entry of a run's output folder."""
  results = read_results(folder)
  return Entry(results["task"], results.get("variant"), None, results, folder)


def format_table(entries):
  """Returns the one table of many runs, and what has to be known about it.

  Args:
    entries: list of Entry; they come out in the order of the tasks' table.
  """
  order = list(classifier_tasks.TASKS)
  entries = sorted(entries, key=lambda entry: (order.index(entry.task),
                                               entry.variant or ""))
  names = _entry_names(entries)
  rows = [["task", "metric", "seeds", "dev", "best dev", "test"] +
          ["%s dev / test" % model for model in _MODELS]]
  found = []
  for name, entry in zip(names, entries):
    task = classifier_tasks.TASKS[entry.task]
    rows.append([name] + _table_cells(entry, task) + [
        _published_cell(task, model) for model in _MODELS])
    sentences = ([entry.state[0].upper() + entry.state[1:] + "."]
                 if entry.results is None else notes(entry.results, task))
    found.append("**%s**\n\n%s" % (name, "\n".join(
        "- " + sentence for sentence in sentences)))
  return "\n\n".join([
      _markdown(rows),
      "Percent; dev is mean ± standard deviation over the seeds of the learning"
      " rate that is best on dev, test of the same runs; best dev is the"
      " checkpoint that predicts. The last columns are published figures.",
      " ".join(_general_notes([classifier_tasks.TASKS[entry.task]
                               for entry in entries]))] + found) + "\n"


def _entry_names(entries):
  """Names of tasks; where one is there more than once, with its folder."""
  names = [_name_of(entry.task, entry.variant) for entry in entries]
  return [name if names.count(name) == 1 or not entry.folder else
          "%s, %s" % (name, entry.folder)
          for name, entry in zip(names, entries)]


def _table_cells(entry, task):
  results = entry.results
  if results is None:
    state = "**%s**" % entry.state.split(":")[0]
    return [task.metric.replace("_", " "), _DASH, state, _DASH, _DASH]
  selected, on_test = results.get("selected"), results.get("test_runs")
  test = (_spread(on_test["mean"], on_test.get("deviation")) if on_test else
          _percent(_score(results, "test")))
  return [results["metric"].replace("_", " ")] + (
      [str(selected["num_seeds"]),
       _spread(selected["mean"], selected["deviation"]),
       _percent(selected["best"])] if selected else [_DASH] * 3) + [test]


def _published_cell(task, model):
  for figure in task.published:
    if figure.model == model:
      return " / ".join(_DASH if value is None else "%.2f" % value
                        for value in (figure.dev, figure.test))
  return _DASH


def submission_files(entries):
  """Paths of the runs' submissions as the benchmark wants them, not zipped."""
  return [os.path.join(entry.folder, os.path.splitext(os.path.basename(
      entry.results["submission"]))[0] + ".json")
          for entry in entries
          if entry.results is not None and entry.results.get("submission")]


def check_data(task_name, data_dir, **options):
  """Reads all of a task's files, as training and prediction will.

  Args:
    task_name: string, a name of `TASKS`.
    data_dir: path of its folder or zip file.
    **options: as `classifier_utils.get_processor` has them.

  Returns:
    dict from split to the number of rows.

  Raises:
    MissingDataError: a file is not there.
    DataError: a file that cannot be used; the message has file and line.
  """
  processor = classifier_utils.get_processor(task_name, **options)
  for split in classifier_tasks.SPLITS:
    examples = processor.get_examples(data_dir, split)
    if split == "test" and processor.task.submission:
      processor.check_submission(examples)
  return processor.num_rows


# ----------------------------------------------------------------------- main


def _state(kind):
  """A reader of --missing and --failed: "ocnli=why", "ocnli:30k=why"."""
  def read(text):
    name, _, why = text.partition("=")
    task_name, _, variant = name.partition(":")
    try:
      task = classifier_tasks.get_task(task_name)
    except classifier_tasks.DataError as error:
      raise argparse.ArgumentTypeError(error) from error
    return Entry(task.name, variant or None, ": ".join(
        filter(None, [kind, why.rstrip("."), ])), None, None)
  return read


# How files are read, of the flags of run_classifier.py.
_READER_FLAGS = ("variant", "task_type", "text_a_column", "text_b_column",
                 "label_column")


def _check(args):
  sizes = check_data(args.task, args.data_dir, **{
      name: getattr(args, name) for name in _READER_FLAGS})
  sys.stdout.write("%s: %s rows\n" % (args.task, ", ".join(
      "%s %d" % (split, sizes[split]) for split in classifier_tasks.SPLITS)))


def _table(args):
  entries = [entry_of(folder) for folder in args.folder]
  entries += args.missing + args.failed
  if not entries:
    raise classifier_tasks.DataError(
        "there is nothing to make a table of: give output folders of "
        "run_classifier.py")
  table = format_table(entries)
  if args.output:
    classifier_utils.write_bytes(args.output, table.encode("utf-8"))
  files = submission_files(entries)
  if args.submissions and files:
    classifier_utils.zip_files(args.submissions, files)
  sys.stdout.write(table)


def parse_arguments(argv):
  parser = argparse.ArgumentParser(
      allow_abbrev=False, description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  commands = parser.add_subparsers(dest="command", metavar="COMMAND",
                                   required=True)
  command = commands.add_parser(
      "check", allow_abbrev=False, help="reads a task's files; exit code %d: "
      "something is not there, %d: something is wrong" % (MISSING, FAILED))
  command.set_defaults(run=_check)
  command.add_argument("task", help="name as in --task_name")
  command.add_argument("--data_dir", required=True,
                       help="folder or zip file with the task's files")
  for name in _READER_FLAGS:
    command.add_argument("--" + name, help="as for run_classifier.py")
  command = commands.add_parser(
      "table", allow_abbrev=False, help="one Markdown table of many runs")
  command.set_defaults(run=_table)
  command.add_argument("folder", nargs="*",
                       help="output folder of a run_classifier.py")
  command.add_argument("--output", help="file to write, too")
  command.add_argument("--submissions", help="zip file to pack the runs'"
                       " submission files into, if they have any")
  for kind, words in (("missing", "its data are not there"),
                      ("failed", "it ended with an error")):
    command.add_argument(
        "--" + kind, action="append", type=_state(kind), default=[],
        metavar="TASK[:VARIANT][=WHY]",
        help="a task without results, because %s; repeatable" % words)
  return parser.parse_args(argv)


def main(argv=None):
  args = parse_arguments(argv)
  try:
    args.run(args)
  except (ValueError, OSError) as error:
    sys.stderr.write("classifier_report.py: error: %s\n" % error)
    return (MISSING if isinstance(error, classifier_tasks.MissingDataError)
            else FAILED)
  return 0


if __name__ == "__main__":
  logging.set_verbosity(logging.ERROR)
  # A terminal that cannot show a character must not lose the report.
  if hasattr(sys.stdout, "reconfigure"):
    sys.stdout.reconfigure(errors="backslashreplace")
  sys.exit(main())
