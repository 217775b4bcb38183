"""The runs of a classification experiment: where each is, which one is chosen.

    trials = plan_trials("output", settings, [1e-4, 5e-5], [1, 2, 3])
    start_trial(trials[0], ...)           # before it is trained
    ...
    rows = [...]                          # a dict for each checkpoint, on dev
    best = select(rows)

A trial is one training: a learning rate, a seed and a folder. Beside its
checkpoints stands what they were trained with, so that the same command goes on
where it was, and one with other settings gets a folder of its own.
"""

import collections
import hashlib
import itertools
import json
import os
import platform

from absl import flags
import numpy as np
import tensorflow.compat.v1 as tf

import bert_utils
import checkpoint_utils
import classifier_report

# Beside the checkpoints: what a predictor has to know of the run.
CLASSIFIER_NAME = "classifier.json"
# Beside a trial's checkpoints: what they are trained with.
TRIAL_NAME = "run.json"
# In the output folder: the trials of the last command that trained.
TRIALS_NAME = "runs.json"

# learning_rate: float; seed: int; both None where one cannot tell. folder: path.
Trial = collections.namedtuple("Trial", ["learning_rate", "seed", "folder"])


# ------------------------------------------------------------------ the folders


def trial_name(learning_rate, seed):
  """Name of a trial's folder, such as "lr1e-04_seed12345"."""
  mantissa, exponent = ("%.6e" % learning_rate).split("e")
  return "lr%se%s_seed%d" % (mantissa.rstrip("0").rstrip("."), exponent, seed)


def plan_trials(output_dir, settings, learning_rates, seeds):
  """Finds each trial's folder, or chooses one; writes nothing.

  A trial of the very same settings is taken up wherever it is in the output
  folder. A new one that is the only one is made in the output folder itself;
  if others are there, or several are asked for, in a folder inside it.

  Args:
    output_dir: path.
    settings: dict, what all trials are trained with, as json has it.
    learning_rates: list of floats.
    seeds: list of ints.

  Returns:
    List of Trial: all seeds of the first rate, of the second, and so on.
  """
  known = {folder: read_settings(folder)
           for folder in _trained_folders(output_dir)}
  is_only = len(learning_rates) * len(seeds) == 1
  trials = []
  for learning_rate, seed in itertools.product(learning_rates, seeds):
    wanted = trial_settings(settings, learning_rate, seed)
    folder = next((path for path, stored in known.items()
                   if stored == wanted), None)
    if folder is None:
      named = os.path.join(output_dir, trial_name(learning_rate, seed))
      folder = _choose_folder(output_dir if is_only else named, named, known,
                              {trial.folder for trial in trials}, wanted)
    trials.append(Trial(learning_rate, seed, folder))
  return trials


def trial_settings(settings, learning_rate, seed):
  """All that a trial is trained with, as json gives it back."""
  return json.loads(json.dumps(
      dict(settings, learning_rate=learning_rate, seed=seed)))


def _trained_folders(output_dir):
  """The folders in which a training has made a step."""
  if not tf.gfile.IsDirectory(output_dir):  # TensorFlow 1.15 lists no such
    return []
  names = sorted(os.path.basename(os.path.dirname(path)) for path in
                 tf.gfile.Glob(os.path.join(output_dir, "lr*_seed*",
                                            TRIAL_NAME)))
  return [folder for folder in [output_dir] + [
      os.path.join(output_dir, name) for name in names]
          if checkpoint_utils.latest_step(folder)[0]]


def has_trained(output_dir):
  """Whether a training has made a step in an output folder."""
  return bool(_trained_folders(output_dir))


def _choose_folder(place, named, known, planned, wanted):
  """A folder for a new trial: the place, or named, named_2, ... where taken.

  Args:
    place: path, where the trial should be.
    named: path, where else, with a number behind it.
    known: dict from each folder with checkpoints to their settings or None.
    planned: set of paths, of other trials to come.
    wanted: dict, the trial's settings.

  Returns:
    path.
  """
  if place in known and known[place] is None:
    # An older version, which wrote no settings, goes on as it did.
    tf.logging.warning("what the checkpoints in %s were trained with is not"
                       " known: this run goes on with them", place)
    return place
  folder, number = place, 1
  while folder in known or folder in planned:
    folder = named if number == 1 else "%s_%d" % (named, number)
    number += 1
  if place in known:
    tf.logging.warning(
        "%s has another run, with %s: the checkpoints of this one are in %s",
        place, _difference(known[place], wanted), folder)
  return folder


def _difference(stored, wanted):
  """What differs between two trials' settings, in words."""
  return ", ".join(
      "another %s" % key.replace("_", " ")
      if isinstance(value, dict) or key.startswith("sha256")
      else "%s %s, not %s" % (key, stored.get(key), value)
      for key, value in sorted(wanted.items()) if stored.get(key) != value)


def read_settings(folder):
  """What the checkpoints in a folder are trained with; None: unknown."""
  return (_read(os.path.join(folder, TRIAL_NAME)) or {}).get("settings")


def trained_flags(folder, options):
  """The flags of this project, as a folder's checkpoints were trained.

  Args:
    folder: path.
    options: absl's FLAGS, or an object with the flags as attributes; those that
      stand on the command line go before those of the training.

  Returns:
    dict, name -> value.
  """
  values = flag_values(options)
  if options.do_train or not isinstance(options, flags.FlagValues):
    return values
  stored = (_read(os.path.join(folder, TRIAL_NAME)) or {}).get("flags", {})
  return dict(values, **{name: value for name, value in stored.items()
                         if name in values and not options[name].present})


def adopt_inputs(options, stored):
  """Sets the flags of how texts become inputs to those of the training.

  For a command that does not train; what stands on the command line stays.

  Args:
    options: absl's FLAGS, or an object with the flags as attributes, in which
      nothing tells what is given: it stays as it is.
    stored: dict of `read_classifier`, or None.
  """
  if not stored or options.do_train or not isinstance(options,
                                                      flags.FlagValues):
    return
  names = ["max_seq_length"]
  if not options["long_text"].present:
    names += ["long_text", "long_text_stride"]
  for name in names:
    value = stored.get(name, getattr(options, name))
    if options[name].present or value == getattr(options, name):
      continue
    tf.logging.info("--%s is %s, as in the training", name, value)
    setattr(options, name, value)


def flag_values(options):
  """The flags of this project with their values, as a dict."""
  if not isinstance(options, flags.FlagValues):
    return dict(vars(options))
  return {flag.name: flag.value
          for module, found in options.flags_by_module_dict().items()
          if module.split(".")[0] not in ("absl", "tensorflow")
          for flag in found}


def _read(path):
  if not tf.gfile.Exists(path):
    return None
  with tf.gfile.GFile(path, "r") as reader:
    return json.loads(reader.read())


def start_trial(trial, settings, options):
  """Writes what a trial is trained with beside its checkpoints-to-be.

  Args:
    trial: Trial; its folder exists.
    settings: dict, as for `plan_trials`.
    options: object with the flags as attributes.
  """
  wanted = trial_settings(settings, trial.learning_rate, trial.seed)
  if read_settings(trial.folder) != wanted and (
      not checkpoint_utils.latest_step(trial.folder)[0]):
    _remove_untrained(trial.folder)
  write_json(os.path.join(trial.folder, TRIAL_NAME),
             {"settings": wanted, "flags": flag_values(options)})


def _remove_untrained(folder):
  """Removes the checkpoint of step 0, which another trial must not begin at."""
  state = os.path.join(folder, "checkpoint")
  if tf.gfile.Exists(state):
    tf.gfile.Remove(state)
  for _, path in checkpoint_utils.step_checkpoints(folder):
    tf.train.remove_checkpoint(path)


def leave_to(best_folder, folder):
  """Prepares the folder of the best checkpoint for that of another trial.

  A checkpoint may take the place of another of its name there: whoever looks
  while it is copied, or if that ends half-way, finds none.

  Args:
    best_folder: path.
    folder: path of the trial that the best checkpoint is of.
  """
  state = os.path.join(best_folder, "checkpoint")
  if tf.gfile.Exists(state) and (
      read_settings(best_folder) != read_settings(folder)):
    tf.gfile.Remove(state)


def write_trials(output_dir, trials):
  """Notes the trials of a command, for one that does not train."""
  write_json(os.path.join(output_dir, TRIALS_NAME), [
      {"learning_rate": trial.learning_rate, "seed": trial.seed,
       "folder": "." if trial.folder == output_dir else
                 os.path.basename(trial.folder)}
      for trial in trials])


def read_trials(output_dir):
  """The trials of the last command that trained; of unknown ones, one.

  Returns:
    List of Trial.
  """
  stored = _read(os.path.join(output_dir, TRIALS_NAME))
  if stored is None:
    return [Trial(None, None, output_dir)]
  return [Trial(entry["learning_rate"], entry["seed"],
                output_dir if entry["folder"] == "." else
                os.path.join(output_dir, entry["folder"]))
          for entry in stored]


def write_json(path, value):
  """Writes json, whole or not at all."""
  checkpoint_utils.write_text(path, json.dumps(
      value, ensure_ascii=False, indent=2, sort_keys=True) + "\n")


def read_classifier(folder):
  """What `write_classifier` wrote: task_name, labels, lengths, casing."""
  stored = _read(os.path.join(folder, CLASSIFIER_NAME))
  if stored is None:
    raise ValueError("%s has no %s: it is not the output folder of"
                     " run_classifier.py" % (folder, CLASSIFIER_NAME))
  return stored


def stored_classifier(output_dir):
  """What is known of an output folder's model; None of a new one."""
  for folder in (output_dir, os.path.join(output_dir,
                                          checkpoint_utils.BEST_FOLDER)):
    stored = _read(os.path.join(folder, CLASSIFIER_NAME))
    if stored is not None:
      return stored
  return None


def best_checkpoint(output_dir):
  """The checkpoint to predict with: the best on dev, else the latest.

  Raises:
    InputError: there is none.
  """
  best = tf.train.latest_checkpoint(
      os.path.join(output_dir, checkpoint_utils.BEST_FOLDER))
  if best:
    return best
  trials = read_trials(output_dir)
  if len(trials) > 1:
    raise bert_utils.InputError(
        "%s has %d runs, of which none was chosen on dev: give --do_eval" % (
            output_dir, len(trials)))
  return latest_checkpoint(trials[0].folder)


def latest_checkpoint(folder):
  """The latest checkpoint of a folder, with a warning; none: an InputError."""
  latest = tf.train.latest_checkpoint(folder)
  if not latest:
    raise bert_utils.InputError(
        "there is no checkpoint in %s; train first" % folder)
  tf.logging.warning("no checkpoint was chosen on dev (--do_eval): the"
                     " latest, %s, predicts", latest)
  return latest


def stored_results(output_dir, task, checkpoint):
  """What an earlier command has reported of a checkpoint.

  Args:
    output_dir: path.
    task: classifier_tasks.Task.
    checkpoint: path.

  Returns:
    dict of `classifier_report.write_report`; None where there is none, or it is
    of another task or checkpoint, or its runs are not there any more.
  """
  path = os.path.join(output_dir, classifier_report.RESULTS_NAME)
  results = _read(path)
  if results is None:
    return None
  is_same = (
      [results["task"], results["metric"]] == [task.name, task.metric] and
      all(bert_utils.checkpoint_exists(row["checkpoint"])
          for row in results["runs"]) and
      results["checkpoint"]["sha256"] == checkpoint_sha256(checkpoint))
  if not is_same:
    tf.logging.warning("%s is of another task, model or folder: it stays as it"
                       " is", path)
  return results if is_same else None


# ----------------------------------------------------------------- what is same


def examples_digest(examples):
  """A digest of texts and labels, in order."""
  digest = hashlib.sha256()
  for example in examples:
    digest.update(json.dumps([example.text_a, example.text_b, example.label]
                             ).encode("ascii") + b"\n")
  return digest.hexdigest()


def checkpoint_digest(checkpoint):
  """Tells weights apart without reading them all.

  Args:
    checkpoint: path of a checkpoint, or None.

  Returns:
    string, a digest of the index, which holds a checksum of every tensor, or
    of the whole of a checkpoint without one; None of none.
  """
  if not checkpoint:
    return None
  index = checkpoint + ".index"
  return _sha256([index if tf.gfile.Exists(index) else checkpoint])


def checkpoint_sha256(checkpoint):
  """SHA-256 of a checkpoint's data files and its index, by their names."""
  return _sha256(sorted(
      path for path in tf.gfile.Glob(checkpoint + ".*")
      if path.endswith(".index") or ".data-" in os.path.basename(path)))


def _sha256(paths):
  digest = hashlib.sha256()
  for path in paths:
    with tf.gfile.GFile(path, "rb") as reader:
      for block in iter(lambda: reader.read(1 << 20), b""):
        digest.update(block)
  return digest.hexdigest()


# ------------------------------------------------------------------ the choice


def mean_loss(examples, outputs, label_list, task_type):
  """The plain loss of outputs: what `model_fn` has as "eval_loss".

  Cross-entropy, the mean over the labels of the cross-entropy of each, or the
  squared error. It is of the texts, also where one makes several windows.

  Args:
    examples: list of N InputExample with labels.
    outputs: float array [N, num_outputs].
    label_list: list of strings.
    task_type: string, one of `classifier_tasks.TASK_TYPES`.

  Returns:
    float.
  """
  labels = [example.label for example in examples]
  if task_type == "regression":
    return float(np.square(np.asarray(outputs, np.float64)[:, 0] -
                           np.array(labels, np.float64)).mean())
  # float32 has no probability below that but 0.
  least = np.finfo(np.float32).tiny
  outputs = np.clip(np.asarray(outputs, np.float64), least, 1.0)
  ids = {label: index for index, label in enumerate(label_list)}
  if task_type == "single":
    picked = outputs[np.arange(len(labels)), [ids[label] for label in labels]]
    return float(-np.log(picked).mean())
  true = np.array([[label in row for label in label_list] for row in labels])
  others = np.clip(1.0 - outputs, least, 1.0)
  return float(-np.log(np.where(true, outputs, others)).mean())


def select(rows):
  """The best row: highest score, then lowest loss, then the first.

  Args:
    rows: list of dicts with "score" and "loss".

  Returns:
    dict, one of them.
  """
  return min(rows, key=lambda row: (-row["score"], row["loss"]))


def spread(scores, best):
  """How the seeds of a learning rate differ.

  Args:
    scores: list of floats, one for each seed.
    best: float, the score of the seed that is best on dev.

  Returns:
    dict: mean, deviation (that of a sample; None of one score), best.
  """
  return {"mean": float(np.mean(scores)),
          "deviation": (float(np.std(scores, ddof=1)) if len(scores) > 1
                        else None),
          "best": best}


def describe_spread(scores):
  """What `spread` tells, in words."""
  found = spread(scores, None)
  if len(scores) == 1:
    return "%.4f, one seed" % found["mean"]
  return "%.4f ± %.4f, %d seeds: %s" % (
      found["mean"], found["deviation"], len(scores),
      ", ".join("%.4f" % score for score in scores))


def best_of_trials(rows):
  """The best row of each trial, in order."""
  return [select(list(own)) for _, own in itertools.groupby(
      rows, lambda row: row["folder"])]


def by_rate(rows):
  """Rows by their learning rate: an OrderedDict, rate -> list of rows."""
  rates = collections.OrderedDict()
  for row in rows:
    rates.setdefault(row["learning_rate"], []).append(row)
  return rates


def count_parameters(checkpoint):
  """Number of parameters that a checkpoint holds of the model itself."""
  shapes = dict(tf.train.list_variables(checkpoint))
  return int(sum(
      np.prod(shape, dtype=np.int64) for name, shape in shapes.items()
      # A slot of the optimizer stands below its variable.
      if os.path.dirname(name) not in shapes and
      name != "global_step" and not name.startswith("loss_scale/")))


def versions():
  """Versions of what the figures depend on."""
  return {"python": platform.python_version(), "tensorflow": tf.__version__,
          "numpy": np.__version__}
