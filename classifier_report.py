"""Reports of fine-tuning: results.json, results.md, a confusion matrix.

    write_report("output/tnews", results, processor.task)

    python classifier_report.py table --output=clue.md output/tnews output/csl

A report sets a run's figures beside the published ones, and says in words where
the two cannot be compared. The second makes one table of many runs. Neither
needs TensorFlow; matplotlib is optional and draws the matrix.
"""

import collections
import io
import json
import os

from absl import logging
import numpy as np

import classifier_tasks
import classifier_utils

RESULTS_NAME = "results.json"
TABLE_NAME = "results.md"
MATRIX_NAME = "confusion_matrix"

# With more classes the cells of the picture have no numbers.
_MAX_CLASSES_WITH_NUMBERS = 40
_DASH = "–"
# What of the flags stands in the readable report; all are in results.json.
_SHOWN_FLAGS = (
    "bert_config_file", "init_checkpoint", "max_seq_length", "long_text",
    "train_batch_size", "num_train_epochs", "warmup_proportion", "optimizer",
    "precision", "use_pooled_output", "class_weights", "label_smoothing",
    "rdrop_alpha", "fgm_epsilon", "layerwise_lr_decay", "freeze_encoder")


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
    List of the paths that were written.
  """
  contents = collections.OrderedDict()
  report = dict(results, published=[
      dict(figure._asdict()) for figure in task.published])
  contents[RESULTS_NAME] = json.dumps(
      report, ensure_ascii=False, indent=2, sort_keys=True,
      default=_plain) + "\n"
  contents[TABLE_NAME] = format_results(results, task)
  matrices = _matrices(results)
  if matrices:
    contents[MATRIX_NAME + ".txt"] = format_matrices(matrices)
    picture = draw_matrix(*_best_known(matrices), title=_title(results))
    if picture:
      contents[MATRIX_NAME + ".png"] = picture
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
  variant = results.get("variant")
  return results["task"] + (" (%s)" % variant if variant else "")


# ------------------------------------------------------------- readable report


def format_results(results, task):
  """Returns results.md; arguments as `write_report` has them."""
  parts = ["# " + _name(results), _summary(results),
           _markdown(_comparison(results, task))]
  parts.append("\n".join("- " + note for note in notes(results, task)))
  parts += ["## Figures of the best checkpoint", _markdown(_figures(results))]
  parts += ["## Runs", _markdown(_runs(results))]
  parts += ["## Settings", _markdown(_settings(results))]
  return "\n\n".join(filter(None, parts)) + "\n"


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
  if task.published:
    found.append("The published figures are single runs or the best of "
                 "several, as their sources report them; nobody reran them "
                 "here.")
    if not results["flags"].get("init_checkpoint"):
      found.append("This run began from random weights (no init_checkpoint), "
                   "the published models were pre-trained.")
  return found + ([task.note] if task.note else [])


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
              split, here, what, published,
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
  rows = [["", ""]]
  rows += [[name, "`%s`" % results["flags"][name]] for name in _SHOWN_FLAGS
           if results["flags"].get(name) not in (None, "", [])]
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
  if not rows:
    return ""
  lines = [[cell.replace("|", "\\|") for cell in row] for row in rows]
  lines.insert(1, ["---"] * len(rows[0]))
  return "\n".join("| %s |" % " | ".join(row) for row in lines)


# ------------------------------------------------------------ confusion matrix


def _matrices(results):
  """{split: metrics} of what has a matrix, the test set first."""
  return collections.OrderedDict(
      (split, results[split]) for split in ("test", "dev")
      if results["task_type"] == "single" and results.get(split))


def _best_known(matrices):
  """(split, its metrics): where nothing was selected on, if it has labels."""
  return next(iter(matrices.items()))


def _title(results):
  return _name(results)


def format_matrices(matrices):
  """Returns confusion_matrix.txt: labels, counts, and percent of each row.

  Args:
    matrices: dict from split to metrics as `compute_metrics` has them.
  """
  parts = []
  labels = _best_known(matrices)[1]["labels"]
  parts.append(classifier_utils.format_table(
      [["id", "label"]] + [[str(index), label]
                           for index, label in enumerate(labels)]))
  for split, metrics in matrices.items():
    counts = metrics["confusion_matrix"]
    for what, cells in (("counts", counts),
                        ("percent of the row", _row_percents(counts))):
      parts.append("%s, %s; rows are the true labels, columns the predicted" %
                   (split, what))
      parts.append(classifier_utils.format_table(
          [["true \\ predicted"] + labels] + [
              [label] + row for label, row in zip(labels, _cells(cells))]))
  return "\n\n".join(parts) + "\n"


def _row_percents(counts):
  """Shares of each row in percent, [L, L]; of an empty row 0."""
  counts = np.asarray(counts, np.float64)
  return 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def _cells(values):
  return [["%.1f" % value if isinstance(value, float) else str(value)
           for value in row] for row in np.asarray(values).tolist()]


def draw_matrix(split, metrics, title):
  """Draws a confusion matrix, coloured by the percent of each row.

  Up to 40 classes each cell has its percent and count. Of more the axes have
  label ids only, and so they do where no font has the labels' characters; the
  text file says which id is which label.

  Args:
    split: string.
    metrics: dict as `compute_metrics` has it.
    title: string.

  Returns:
    bytes of a PNG file; None where matplotlib is not there.
  """
  try:
    from matplotlib import font_manager
    from matplotlib.backends import backend_agg
    from matplotlib import figure
  except ImportError:
    logging.info("%s.png is not drawn: matplotlib is not there (pip install "
                 "matplotlib); %s.txt has the same", MATRIX_NAME, MATRIX_NAME)
    return None
  labels, counts = metrics["labels"], np.asarray(metrics["confusion_matrix"])
  font = _font_for("".join(labels), font_manager)
  with_numbers = len(labels) <= _MAX_CLASSES_WITH_NUMBERS
  names = labels
  if not with_numbers or font is None:
    names = [str(index) for index in range(len(labels))]
  side = 3 + (0.62 * len(labels) if with_numbers else 0.1 * len(labels))
  image = figure.Figure(figsize=(side + 1, side), dpi=100)
  backend_agg.FigureCanvasAgg(image)
  axes = image.add_subplot(1, 1, 1)
  colours = axes.imshow(_row_percents(counts), cmap="Blues", vmin=0, vmax=100)
  image.colorbar(colours, ax=axes, fraction=0.046, pad=0.04,
                 label="percent of the true label's examples")
  _name_axes(axes, names, font)
  if with_numbers:
    _write_numbers(axes, counts)
  ids = "" if names is labels else "; ids as in %s.txt" % MATRIX_NAME
  axes.set_title("%s, %s: %d examples%s" % (title, split, counts.sum(), ids),
                 fontsize=10)
  content = io.BytesIO()
  image.savefig(content, format="png", bbox_inches="tight")
  return content.getvalue()


def _name_axes(axes, names, font):
  """Puts labels at the rows and columns; of many ids every so many."""
  step = 1 if len(names) <= _MAX_CLASSES_WITH_NUMBERS else 5
  ticks = range(0, len(names), step)
  upright = max(len(name) for name in names) > 3
  for axis, rotation in ((axes.xaxis, 90 if upright else 0), (axes.yaxis, 0)):
    axis.set_ticks(list(ticks))
    axis.set_ticklabels([names[tick] for tick in ticks], rotation=rotation,
                        fontsize=8, fontproperties=font)
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
