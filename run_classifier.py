"""Fine-tunes ALBERT on a classification task: train, evaluate, predict, export.

  python run_classifier.py --task_name=lcqmc --data_dir=lcqmc \\
      --do_train --do_eval --do_predict \\
      --vocab_file=albert_config/vocab.txt \\
      --bert_config_file=albert_config/albert_config_tiny.json \\
      --init_checkpoint=albert_tiny/albert_model.ckpt --output_dir=output \\
      --max_seq_length=128 --train_batch_size=64 --learning_rate=1e-4 \\
      --num_train_epochs=5

Tasks are the table in `classifier_tasks.py`; `tsv`, `csv` and `jsonl` take any
labelled file. With --num_seeds=3 or --learning_rate=1e-4,5e-5 several runs are
trained. Every checkpoint of each run is scored on the dev set as the task's
benchmark scores it, the best one predicts and, with --do_export, becomes a
SavedModel; `results.json` and `results.md` say what came out. Runs on TPU, GPU
and CPU.
"""

import collections
import json
import math
import os
import sys

from absl import app
from absl import flags
import tensorflow.compat.v1 as tf

import bert_utils
import checkpoint_utils
import classifier_features
# Some are imported for those who take them from here, as from the peers'.
from classifier_features import convert_examples_to_features  # noqa: F401
from classifier_features import file_based_convert_examples_to_features  # noqa: F401
from classifier_features import file_based_input_fn_builder  # noqa: F401
from classifier_features import input_fn_builder  # noqa: F401
import classifier_model
from classifier_model import ClassifierOutput  # noqa: F401
from classifier_model import create_model  # noqa: F401
from classifier_model import model_fn_builder
import classifier_protocol
from classifier_protocol import best_checkpoint
from classifier_protocol import CLASSIFIER_NAME
from classifier_protocol import read_classifier  # noqa: F401
import classifier_report
import classifier_utils
from classifier_utils import convert_single_example  # noqa: F401
from classifier_utils import DataProcessor  # noqa: F401
from classifier_utils import InputExample  # noqa: F401
from classifier_utils import InputFeatures  # noqa: F401
from classifier_utils import PaddingInputExample  # noqa: F401
import estimator_utils
import input_utils
import modeling
import optimization
import tokenization
import training_hooks

FLAGS = flags.FLAGS

EXPORT_FOLDER = "export"
PREDICTIONS_NAME = "test_results.tsv"
# In a message.
_MAX_LABELS_SHOWN = 20

# --------------------------------------------------------------- an experiment


class ClassifierRun(object):
  """Task, data and settings of a command: what its functions share.

  Attributes:
    options: object with the flags as attributes.
    processor: classifier_utils.TaskProcessor.
    task: classifier_tasks.Task.
    label_list: list of strings.
    examples: dict from split to list of InputExample, of those asked for.
    trials: list of classifier_protocol.Trial, the trainings of the command.
    settings: dict, what all of them are trained with; None without --do_train.
  """

  def __init__(self, options):
    """Reads and checks everything; nothing is written yet.

    Args:
      options: object with the flags as attributes.

    Raises:
      ValueError: says which input is at fault.
    """
    self.options = options
    _check_modes(options)
    input_utils.check_bucket_flags(options)
    self._stored = classifier_protocol.stored_classifier(options.output_dir)
    classifier_protocol.adopt_inputs(options, self._stored)
    classifier_features.check_flags(options)
    self.export_dir = options.export_dir or os.path.join(options.output_dir,
                                                         EXPORT_FOLDER)
    if options.do_export:
      _export_model().check_export_dir(self.export_dir)
    self._read_config()
    self._read_vocab()
    self._read_task()
    self.head = classifier_model.head_from_options(
        options, self.label_list, self._label_counts(),
        self.task.task_type)
    self._check_task()
    self._plan_trials()
    for trial in self.trials:
      self._check_resume(trial.folder)
    self._files, self._estimators = {}, {}

  def _read_config(self):
    """Reads the model's config; checks it and the devices."""
    options = self.options
    self.bert_config = modeling.BertConfig.from_json_file(
        options.bert_config_file)
    self.bert_config.validate()
    if options.max_seq_length > self.bert_config.max_position_embeddings:
      raise ValueError(
          "--max_seq_length %d is more than max_position_embeddings %d in %s"
          % (options.max_seq_length, self.bert_config.max_position_embeddings,
             options.bert_config_file))
    estimator_utils.check_tpu_flags(
        options.use_tpu, options.tpu_name, options.master,
        {"output_dir": options.output_dir,
         "init_checkpoint": options.init_checkpoint})
    estimator_utils.check_devices(options)
    checkpoint_utils.check_plain_path("output_dir", options.output_dir)
    self.init_checkpoint = checkpoint_utils.check_init_checkpoint(
        options.init_checkpoint)

  def _read_vocab(self):
    """Reads the vocabulary; checks it, the config and the checkpoints."""
    options = self.options
    checkpoint_utils.check_wordpiece(options.vocab_file, self.bert_config)
    checkpoint_utils.check_init_config(
        self.bert_config, self.init_checkpoint, options.allow_partial_init,
        options.init_from_group0, options.grow_vocab)
    self._check_resume(options.output_dir)
    tokenization.validate_case_matches_checkpoint(options.do_lower_case,
                                                  self.init_checkpoint)
    self.tokenizer = tokenization.FullTokenizer(options.vocab_file,
                                                options.do_lower_case)
    tokenization.validate_vocab(
        self.tokenizer.vocab, self.bert_config.vocab_size,
        options.vocab_file, options.bert_config_file)

  def _check_resume(self, folder):
    """Raises a ValueError where a folder's checkpoints are of another model."""
    checkpoint_utils.check_resume_config(self.bert_config, folder)
    if self.options.do_train:
      checkpoint_utils.check_resume_optimizer(
          self.options.optimizer, self.options.precision, folder)

  def _read_task(self):
    """Reads the splits that are asked for."""
    options = self.options
    self.processor = classifier_utils.get_processor(
        options.task_name, text_a_column=options.text_a_column,
        text_b_column=options.text_b_column,
        label_column=options.label_column,
        **{name: self._of_training(name)
           for name in ("task_type", "metric", "variant")})
    self.task = self.processor.task
    self.examples = {}
    if options.do_train:
      self.examples["train"] = self.processor.get_train_examples(
          options.data_dir)
    self.label_list = self._labels()
    if options.do_eval:
      self.examples["dev"] = self.processor.get_dev_examples(options.data_dir)
    if options.do_predict:
      self.examples["test"] = self.processor.get_test_examples(
          options.data_dir)
    for split, examples in self.examples.items():
      if not examples:
        raise ValueError("task %s has no %s examples in --data_dir %s" % (
            options.task_name, split, options.data_dir))
    if options.do_predict and self.task.submission:
      self.processor.check_submission(self.examples["test"])

  def _of_training(self, name):
    """A flag; where it is not given, and nothing trained, the training's."""
    value, stored = getattr(self.options, name), self._stored
    if value is None and stored and not self.options.do_train and (
        stored["task_name"].lower() == self.options.task_name.lower()):
      value = stored.get(name)
    return value

  def _labels(self):
    """The task's labels; of a free format, the training data's.

    A run that does not train takes them from the run that did.
    """
    if not self.options.do_train and self._stored:
      self.processor.set_labels(self._stored["labels"])
      return self._stored["labels"]
    return self.processor.get_labels(self.options.data_dir)

  def _label_counts(self):
    """How many training examples have each label; None without them."""
    if "train" not in self.examples or self.task.task_type == "regression":
      return None
    counts = collections.Counter()
    for example in self.examples["train"]:
      counts.update(example.label if self.task.task_type == "multi" else
                    [example.label])
    return [counts[label] for label in self.label_list]

  def _check_task(self):
    """Raises a ValueError where the folder's checkpoints are of another task."""
    options, output_dir = self.options, self.options.output_dir
    stored = self._stored
    if not stored:
      return
    task_type = stored.get("task_type", "single")
    is_other = (stored["labels"] != self.label_list or
                task_type != self.task.task_type)
    # With the same labels, one may predict the texts of another task.
    if stored["task_name"].lower() != self.task.name and (
        options.do_train or options.do_eval):
      is_other = True
    if is_other and classifier_protocol.has_trained(output_dir):
      raise ValueError(
          "--output_dir %s holds checkpoints of task %s with %s, but this run is"
          " of task %s with %s; give another --output_dir" % (
              output_dir, stored["task_name"],
              _describe_labels(stored["labels"], task_type),
              options.task_name,
              _describe_labels(self.label_list, self.task.task_type)))
    if options.do_train:
      return
    for flag, default in (("use_pooled_output", True), ("do_lower_case", None)):
      trained, given = stored.get(flag, default), getattr(options, flag)
      if trained not in (None, given):
        raise ValueError(
            "--%s is %s, but the checkpoints in --output_dir %s were trained"
            " with %s; give --%s=%s" % (flag, str(given).lower(), output_dir,
                                        str(trained).lower(), flag,
                                        str(trained).lower()))

  def _plan_trials(self):
    """Where each training is, or will be."""
    options = self.options
    if not options.do_train:
      self.settings = None
      self.trials = classifier_protocol.read_trials(options.output_dir)
      return
    self.settings = self._settings()
    self.trials = classifier_protocol.plan_trials(
        options.output_dir, self.settings, options.learning_rate,
        [options.seed + number for number in range(options.num_seeds)])

  def _settings(self):
    """What the weights depend on, besides learning rate and seed."""
    options = self.options
    settings = {name: getattr(options, name) for name in _SETTINGS}
    settings.update(
        task=self.task.name, variant=self.processor.variant,
        task_type=self.task.task_type, labels=self.label_list,
        bucket_by_length=classifier_features.varies_lengths(options),
        config=json.loads(self.bert_config.to_json_string()),
        sha256_of_training_data=classifier_protocol.examples_digest(
            self.examples["train"]),
        sha256_of_vocabulary=tokenization.vocab_hash(self.tokenizer.vocab),
        sha256_of_init_checkpoint=classifier_protocol.checkpoint_digest(
            self.init_checkpoint))
    return settings

  def convert(self, split):
    """The features of a split, converted unless the very same were.

    Args:
      split: "train", "dev" or "test".

    Returns:
      classifier_features.FeatureFile.
    """
    options = self.options
    if split not in self._files:
      self._files[split] = classifier_features.convert_split(
          self.examples[split], self.label_list, options, options.output_dir,
          split, self.tokenizer, self.task.task_type,
          _batch_size(options, split))
    return self._files[split]

  def make_estimator(self, options, num_train_steps=None, num_warmup_steps=None,
                     predict_batch_size=None):
    """Makes a TPUEstimator.

    Args:
      options: object with the flags as attributes, of a trial or this one's.
      num_train_steps: int; None when nothing is trained.
      num_warmup_steps: int; None when nothing is trained.
      predict_batch_size: int; None when nothing is predicted.

    Returns:
      estimator_utils.TPUEstimator.
    """
    arguments = estimator_utils.model_options(options)
    arguments.update(classifier_model.model_options(options))
    return estimator_utils.make_estimator(
        model_fn_builder(
            self.bert_config, self.processor.num_outputs, self.init_checkpoint,
            options.learning_rate, num_train_steps, num_warmup_steps,
            options.use_tpu, use_one_hot_embeddings=options.use_tpu,
            optimizer=options.optimizer,
            allow_partial_init=options.allow_partial_init,
            init_from_group0=options.init_from_group0,
            grow_vocab=options.grow_vocab, task_type=self.task.task_type,
            head=self.head, **arguments),
        options, options.train_batch_size, options.eval_batch_size,
        predict_batch_size)

  def predict(self, split, checkpoint):
    """What a checkpoint says of a split.

    Args:
      split: "dev" or "test".
      checkpoint: path.

    Returns:
      float array [N, num_outputs], in the order of the examples.
    """
    feature_file = self.convert(split)
    batch_size = _batch_size(self.options, split)
    if batch_size not in self._estimators:
      self._estimators[batch_size] = self.make_estimator(
          self.options, predict_batch_size=batch_size)
    return classifier_features.collect_outputs(
        feature_file, self._estimators[batch_size].predict(
            classifier_features.predict_input_fn(feature_file, self.options),
            checkpoint_path=checkpoint))

  def write_output_dir(self):
    """Makes the output folder, with what a predictor has to know."""
    options = self.options
    is_new = not self._stored or options.do_train and (
        not classifier_protocol.has_trained(options.output_dir))
    # Later on, what stands there is of its best checkpoint.
    if is_new or options.do_train and (
        self.trials[0].folder == options.output_dir):
      self.write_classifier(options.output_dir)

  def write_classifier(self, folder):
    """Writes config, vocabulary and `classifier.json` into a folder."""
    options = self.options
    checkpoint_utils.prepare_output_dir(folder, self.bert_config,
                                        options.vocab_file)
    classifier_protocol.write_json(
        os.path.join(folder, CLASSIFIER_NAME),
        {"task_name": options.task_name, "task_type": self.task.task_type,
         "metric": self.task.metric, "variant": self.processor.variant,
         "labels": self.label_list, "max_seq_length": options.max_seq_length,
         "do_lower_case": options.do_lower_case,
         "use_pooled_output": options.use_pooled_output,
         "long_text": options.long_text,
         "long_text_stride": options.long_text_stride})


# What the weights depend on, of the flags whose values say it all.
_SETTINGS = (
    "max_seq_length", "do_lower_case", "long_text", "long_text_stride",
    "train_batch_size", "num_train_epochs", "warmup_proportion", "optimizer",
    "precision", "init_from_group0", "grow_vocab", "use_pooled_output",
    "class_weights", "label_smoothing", "rdrop_alpha", "fgm_epsilon",
    "layerwise_lr_decay", "freeze_encoder")


class _TrialOptions(object):
  """The flags, but for what a trial has of its own."""

  def __init__(self, options, trial):
    self._options = options
    self.output_dir = trial.folder
    self.learning_rate = trial.learning_rate
    self.seed = trial.seed

  def __getattr__(self, name):
    return getattr(self._options, name)


def _check_modes(options):
  """Raises a ValueError for flags that contradict what there is to do."""
  if not (options.do_train or options.do_eval or options.do_predict or
          options.do_export):
    raise ValueError("at least one of --do_train, --do_eval, --do_predict"
                     " and --do_export must be given")
  for name in ("num_train_epochs", "warmup_proportion"):
    # Not a number is in no bounds, and in all.
    if not math.isfinite(getattr(options, name)):
      raise ValueError("--%s is %s, expected a number" % (
          name, getattr(options, name)))
  several = [text for text, number in (
      ("--num_seeds %d" % options.num_seeds, options.num_seeds),
      ("--learning_rate with %d rates" % len(options.learning_rate),
       len(options.learning_rate))) if number > 1]
  if not several:
    return
  if not options.do_train:
    raise ValueError(
        "%s is for --do_train, which is not given; leave it out: the runs in"
        " --output_dir %s are found" % (" and ".join(several),
                                        options.output_dir))
  if not options.do_eval and (options.do_predict or options.do_export):
    raise ValueError(
        "%s makes several runs, and the one for --do_predict and --do_export is"
        " chosen on dev: give --do_eval" % " and ".join(several))
  if estimator_utils.read_cluster():
    raise ValueError(
        "%s makes several runs, which the workers of a cluster (TF_CONFIG)"
        " train one command each; give one rate and one seed" %
        " and ".join(several))


def _describe_labels(labels, task_type):
  if task_type == "regression":
    return "numbers to predict"
  return "the labels %s%s%s" % (
      ", ".join(labels[:_MAX_LABELS_SHOWN]),
      " ... (%d in all)" % len(labels) if len(labels) > _MAX_LABELS_SHOWN
      else "", "" if task_type == "single" else " (any number of them)")


def _batch_size(options, split):
  return {"train": options.train_batch_size, "dev": options.eval_batch_size,
          "test": options.predict_batch_size}[split]


# -------------------------------------------------------------------- training


def train(run):
  """Trains all runs of the command, as far as they are not trained.

  Raises:
    InputError: there is nothing to train, nor to do afterwards.
    Stopped: a signal has ended the training.
  """
  options = run.options
  feature_file = run.convert("train")
  num_train_steps = count_steps(options, feature_file.num_records)
  steps = [checkpoint_utils.latest_step(trial.folder) for trial in run.trials]
  if all(step >= num_train_steps for step, _ in steps):
    message = "nothing to train: %s; give another --output_dir for a new run" % (
        "%s is at step %d already" % steps[0][::-1] if len(steps) == 1 else
        "all %d runs in %s have made their %d steps already" % (
            len(steps), options.output_dir, num_train_steps))
    if not (options.do_eval or options.do_predict or options.do_export):
      raise bert_utils.InputError(message)
    tf.logging.warning(message)
  if estimator_utils.is_chief():
    classifier_protocol.write_trials(options.output_dir, run.trials)
  for number, (trial, (step, _)) in enumerate(zip(run.trials, steps)):
    if len(steps) > 1:
      tf.logging.info(
          "run %d of %d, learning rate %g, seed %d: %s%s", number + 1,
          len(steps), trial.learning_rate, trial.seed, trial.folder,
          " is finished" if step >= num_train_steps else "")
    if step < num_train_steps:
      train_trial(run, trial, feature_file, num_train_steps)


def count_steps(options, num_records):
  """Number of training steps; at least one."""
  exact = num_records / options.train_batch_size * options.num_train_epochs
  if exact < 1:
    tf.logging.warning(
        "%d training examples are fewer than a batch of %d for %g epochs:"
        " training 1 step on repeated examples", num_records,
        options.train_batch_size, options.num_train_epochs)
  return max(1, int(exact))


def train_trial(run, trial, feature_file, num_train_steps):
  """Trains one run, or goes on with it.

  Args:
    run: ClassifierRun.
    trial: classifier_protocol.Trial.
    feature_file: classifier_features.FeatureFile.
    num_train_steps: int.
  """
  options = _TrialOptions(run.options, trial)
  if estimator_utils.is_chief():
    run.write_classifier(trial.folder)
    classifier_protocol.start_trial(trial, run.settings, run.options)
  step, latest = checkpoint_utils.latest_step(trial.folder)
  num_records = feature_file.num_records
  num_warmup_steps = int(num_train_steps * options.warmup_proportion)
  hooks = [training_hooks.StartHook(training_hooks.describe_run(
      latest, run.init_checkpoint, step, num_train_steps,
      options.train_batch_size, num_records, options.learning_rate,
      options.optimizer, num_warmup_steps,
      training_hooks.batch_parts(options)), step)]
  tpu_estimator = run.make_estimator(options, num_train_steps,
                                     num_warmup_steps)
  with training_hooks.catch_signals() as interruption:
    hooks += training_hooks.make_hooks(
        classifier_model.logged(run.task.task_type), options, num_train_steps,
        options.train_batch_size, options.max_seq_length,
        num_records / options.train_batch_size, interruption,
        estimator_utils.is_chief())
    with training_hooks.exit_if_told(interruption, trial.folder):
      tpu_estimator.train(
          input_fn=classifier_features.train_input_fn(
              feature_file, options, checkpoint_utils.batches_read(latest)),
          max_steps=num_train_steps, hooks=hooks)


# ------------------------------------------------------------------ evaluation


def evaluate(run):
  """Scores every checkpoint of every run on dev; keeps the best in `best/`.

  Returns:
    dict, of `classifier_report.write_report`: all that dev can tell.
  """
  options = run.options
  rows = []
  for trial in run.trials:
    # Step 0 is the untrained head, which no user wants to predict with.
    checkpoints = [
        (step, path) for step, path in
        checkpoint_utils.step_checkpoints(trial.folder) if step]
    if not checkpoints and len(run.trials) > 1:
      tf.logging.warning("--do_eval: the run in %s has no trained checkpoint,"
                         " it is left out", trial.folder)
    rows += [_evaluate_checkpoint(run, trial, step, path)
             for step, path in checkpoints]
  if not rows:
    raise bert_utils.InputError(
        "--do_eval: there is no trained checkpoint in --output_dir %s; train"
        " first" % options.output_dir)
  best = classifier_protocol.select(rows)
  _write_eval_results(run, rows, best)
  _keep_best(run, best)
  return _dev_results(run, rows, best)


def _evaluate_checkpoint(run, trial, step, checkpoint):
  """The row of a checkpoint: where it is, its score and loss, its metrics."""
  examples = run.examples["dev"]
  outputs = run.predict("dev", checkpoint)
  metrics = run.processor.score(examples, outputs)
  loss = classifier_protocol.mean_loss(examples, outputs, run.label_list,
                                       run.task.task_type)
  tf.logging.info(
      "%sstep %d: dev %s %.4f, loss %.4f",
      os.path.basename(trial.folder) + ", " if len(run.trials) > 1 else "",
      step, metrics["metric"].replace("_", " "), metrics["score"], loss)
  return {"learning_rate": trial.learning_rate, "seed": trial.seed,
          "folder": trial.folder, "step": step, "checkpoint": checkpoint,
          "score": metrics["score"], "loss": loss, "metrics": metrics}


def _write_eval_results(run, rows, best):
  """Writes and logs what came out on dev."""
  metrics = best["metrics"]
  shown = [{"step": row["step"], "checkpoint": row["checkpoint"],
            "learning_rate": row["learning_rate"], "seed": row["seed"],
            "eval_score": row["score"], "eval_loss": row["loss"]}
           for row in rows]
  results = dict(
      metrics, task_name=run.options.task_name, split="dev",
      eval_loss=best["loss"], global_step=best["step"],
      best_checkpoint=best["checkpoint"], checkpoints=shown)
  if "accuracy" in metrics:
    results["eval_accuracy"] = metrics["accuracy"]
    for row, line in zip(rows, shown):
      line["eval_accuracy"] = row["metrics"]["accuracy"]
  checkpoint_utils.write_results(run.options.output_dir, "eval_results",
                                 results)
  tf.logging.info(
      "best on dev is step %d%s:\n%s", best["step"],
      " of " + best["folder"] if len(run.trials) > 1 else "",
      classifier_utils.format_metrics(metrics))


def _keep_best(run, best):
  """Copies the best checkpoint into a folder that is complete by itself."""
  output_dir = run.options.output_dir
  folder = os.path.join(output_dir, checkpoint_utils.BEST_FOLDER)
  classifier_protocol.leave_to(folder, best["folder"])
  run.write_classifier(folder)
  checkpoint_utils.copy_beside(
      os.path.join(best["folder"], classifier_protocol.TRIAL_NAME), folder)
  checkpoint_utils.keep_checkpoint(best["checkpoint"], folder)
  # What predicts from the output folder predicts with the best.
  run.write_classifier(output_dir)


def _dev_results(run, rows, best):
  """All that dev can tell, in the form of the report."""
  runs = [{key: row[key] for key in (
      "learning_rate", "seed", "folder", "step", "score", "loss",
      "checkpoint")} for row in classifier_protocol.best_of_trials(rows)]
  rates = classifier_protocol.by_rate(runs)
  if len(runs) > 1:
    for rate, chosen in rates.items():
      tf.logging.info(
          "dev %s of learning rate %g: %s", run.task.metric, rate,
          classifier_protocol.describe_spread([row["score"]
                                               for row in chosen]))
  selected = rates[best["learning_rate"]]
  kept = best_checkpoint(run.options.output_dir)
  return {
      "task": run.task.name, "variant": run.processor.variant,
      "task_type": run.task.task_type, "metric": run.task.metric,
      "labels": run.label_list, "runs": runs,
      "selected": dict(
          classifier_protocol.spread([row["score"] for row in selected],
                                     best["score"]),
          learning_rate=best["learning_rate"], num_seeds=len(selected)),
      "dev": best["metrics"], "test": None, "test_runs": None,
      "submission": None,
      "checkpoint": {"path": kept, "sha256":
                     classifier_protocol.checkpoint_sha256(kept)},
      "num_parameters": classifier_protocol.count_parameters(kept),
      "flags": classifier_protocol.trained_flags(best["folder"], run.options),
      "versions": classifier_protocol.versions(), "sizes": {}, "rows": {}}


def chosen_checkpoint(run):
  """The checkpoint to predict with and to export."""
  output_dir = run.options.output_dir
  if run.options.do_train and not run.options.do_eval:
    # What is in `best` may be of another run in the same folder.
    kept = classifier_protocol.read_settings(
        os.path.join(output_dir, checkpoint_utils.BEST_FOLDER))
    trial = run.trials[0]
    if kept != classifier_protocol.read_settings(trial.folder):
      return classifier_protocol.latest_checkpoint(trial.folder)
  return best_checkpoint(output_dir)


# ------------------------------------------------------------------ prediction


def predict(run, checkpoint):
  """Predicts the test set; scores it where it has labels.

  Writes `test_results.tsv` (probabilities), `<task>_predict.json`, where the
  benchmark has a form for them the predictions in that form and a zip file with
  it, and `test_results.txt` and `.json` where every test example has a label.

  Args:
    run: ClassifierRun.
    checkpoint: path.

  Returns:
    (metrics or None, path of the submission or None).
  """
  options, examples = run.options, run.examples["test"]
  outputs = run.predict("test", checkpoint)
  answers = run.processor.answers(examples, outputs)
  tsv = os.path.join(options.output_dir, PREDICTIONS_NAME)
  classifier_utils.write_probabilities(tsv, outputs)
  predictions = os.path.join(options.output_dir,
                             "%s_predict.json" % options.task_name)
  classifier_utils.write_predictions(
      predictions, answers.examples, answers.predicted, options.task_name)
  tf.logging.info("%d predictions of %s: %s, %s", len(answers.predicted),
                  checkpoint, predictions, tsv)
  submission = None
  if run.task.submission:
    submission = run.processor.write_submission(
        options.output_dir, examples, outputs, zipped=True)
    tf.logging.info("the predictions as %s wants them: %s", run.task.name,
                    submission)
  metrics = run.processor.score(examples, outputs)
  if metrics is None:
    # Those of another test set would be taken for this one's.
    checkpoint_utils.remove_results(options.output_dir, "test_results")
  else:
    checkpoint_utils.write_results(options.output_dir, "test_results", dict(
        metrics, task_name=options.task_name, split="test",
        checkpoint=checkpoint))
    tf.logging.info("test set:\n%s", classifier_utils.format_metrics(metrics))
  return metrics, submission


def score_seeds(run, results, metrics):
  """Scores the other seeds of the chosen learning rate on test, too.

  Each predicts with its checkpoint that is best on dev. What predicts is
  chosen by then: how seeds differ on test is for the reader only.

  Args:
    run: ClassifierRun.
    results: dict of `evaluate`.
    metrics: dict, those of the best checkpoint on test.

  Returns:
    dict: mean, deviation, and as "best" that of the best on dev.
  """
  selected = results["selected"]["learning_rate"]
  rows = classifier_protocol.by_rate(results["runs"])[selected]
  best = classifier_protocol.select(rows)
  scores = [
      metrics["score"] if row is best else run.processor.score(
          run.examples["test"], run.predict("test", row["checkpoint"]))["score"]
      for row in rows]
  if len(scores) > 1:
    tf.logging.info("test %s of learning rate %g: %s", run.task.metric,
                    selected, classifier_protocol.describe_spread(scores))
  return classifier_protocol.spread(scores, metrics["score"])


def report(run, results):
  """Writes results.json and what goes with it.

  Args:
    run: ClassifierRun.
    results: dict of `evaluate`, maybe with the test set's.
  """
  if None in [row["learning_rate"] for row in results["runs"]]:
    tf.logging.warning(
        "no %s is written: what the checkpoints in %s were trained with is not"
        " known, as %s is not there", classifier_report.RESULTS_NAME,
        run.options.output_dir, classifier_protocol.TRIALS_NAME)
    return
  sizes = {split: len(examples) for split, examples in run.examples.items()}
  results = dict(results, sizes=dict(results["sizes"], **sizes),
                 rows=dict(results["rows"], **run.processor.num_rows))
  written = classifier_report.write_report(run.options.output_dir, results,
                                           run.task)
  tf.logging.info("report: %s", ", ".join(written))


def export(run, checkpoint):
  """Writes a checkpoint as a SavedModel."""
  _export_model().export_classifier(checkpoint, run.export_dir)
  tf.logging.info("SavedModel of %s: %s", checkpoint, run.export_dir)


def _export_model():
  """The module `scripts/export_model.py`, which needs this one."""
  scripts = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripts")
  if scripts not in sys.path:
    sys.path.append(scripts)
  import export_model
  return export_model


# ----------------------------------------------------------------------- main


def main(arguments):
  estimator_utils.set_up_logging()
  with estimator_utils.exit_on(estimator_utils.BAD_INPUT):
    estimator_utils.check_no_arguments(arguments)
    run = ClassifierRun(FLAGS)
    if estimator_utils.is_chief():
      run.write_output_dir()
  with estimator_utils.exit_on(
      estimator_utils.BAD_RUN + (classifier_utils.DataError,)):
    if FLAGS.do_train:
      train(run)
    if estimator_utils.is_chief():
      conclude(run)


def conclude(run):
  """What comes after training: evaluates, predicts, reports, exports."""
  options = run.options
  results = evaluate(run) if options.do_eval else None
  predictions = os.path.join(options.output_dir, PREDICTIONS_NAME)
  if results and not options.do_predict and tf.gfile.Exists(predictions):
    tf.logging.warning("%s and the predictions beside it are of an earlier"
                       " command; --do_predict makes new ones", predictions)
  if options.do_predict or options.do_export:
    checkpoint = chosen_checkpoint(run)
  if options.do_predict:
    results = results or classifier_protocol.stored_results(
        options.output_dir, run.task, checkpoint)
    metrics, submission = predict(run, checkpoint)
    if results:
      results.update(test=metrics, submission=submission,
                     test_runs=metrics and score_seeds(run, results, metrics))
  if results:
    report(run, results)
  if options.do_export:
    export(run, checkpoint)


def define_flags():
  """Defines this script's flags."""
  for module in (estimator_utils, classifier_model, classifier_features):
    module.define_flags()
    flags.adopt_module_key_flags(module)  # so that --help has them
  flags.DEFINE_string("task_name", None, "Task: %s." % ", ".join(
      sorted(classifier_utils.TASKS)))
  flags.DEFINE_string("data_dir", None,
                      "Folder, or zip file, with the task's files.")
  flags.DEFINE_string("vocab_file", None, "Vocabulary of the model.")
  flags.DEFINE_string(
      "text_a_column", None,
      "tsv, csv, jsonl: the text's column, a name of the header or a position.")
  flags.DEFINE_string("text_b_column", None,
                      "tsv, csv, jsonl: the second text's column, for pairs.")
  flags.DEFINE_string("label_column", None,
                      "tsv, csv, jsonl: the label's column.")
  flags.DEFINE_enum(
      "task_type", None, classifier_utils.TASK_TYPES,
      "tsv, csv, jsonl: what a label is: one of several, any number of them"
      " between commas, a number; default single.")
  flags.DEFINE_string(
      "metric", None, "tsv, csv, jsonl: what selects the best on dev: %s;"
      " default the first of its type." % "; ".join(
          "%s: %s" % (task_type, ", ".join(names))
          for task_type, names in classifier_utils.METRICS.items()))
  flags.DEFINE_string(
      "variant", None, "Part of a set that has several: FewCLUE's 0 to 4 and"
      " few_all, OCNLI's 50k, 30k, 10k, 3k; default the first.")
  flags.DEFINE_bool("do_lower_case", True,
                    "Whether to lower-case the text; False for cased models.")
  flags.DEFINE_integer("max_seq_length", 128,
                       "Longest sequence; longer texts: see --long_text. A run"
                       " that does not train has both from the one that did.",
                       lower_bound=5)
  flags.DEFINE_bool("do_train", False, "Whether to train.")
  flags.DEFINE_bool("do_eval", False,
                    "Whether to evaluate every checkpoint on dev.")
  flags.DEFINE_bool("do_predict", False,
                    "Whether to predict the test set with the best one.")
  flags.DEFINE_bool("do_export", False,
                    "Whether to write the best one as a SavedModel.")
  flags.DEFINE_string("export_dir", None,
                      "Folder for it, a new one; default <output_dir>/%s." %
                      EXPORT_FOLDER)
  for name, default in (("train_batch_size", 32), ("eval_batch_size", 8),
                        ("predict_batch_size", 8)):
    flags.DEFINE_integer(name, default, "Global batch size.", lower_bound=1)
  flags.DEFINE_enum("optimizer", "adamw", optimization.OPTIMIZERS,
                    "Optimizer.")
  flags.DEFINE(estimator_utils.RateListParser(), "learning_rate", [5e-5],
               "Highest learning rate; of several, between commas, each is"
               " trained, and the best on dev chosen.",
               serializer=flags.CsvListSerializer(","))
  flags.DEFINE_integer(
      "num_seeds", 1, "Runs of each learning rate, with the seeds --seed,"
      " --seed + 1 and so on; the best on dev is chosen.", lower_bound=1)
  flags.DEFINE_float("num_train_epochs", 3.0, "Epochs to train.",
                     lower_bound=0.0)
  flags.DEFINE_float("warmup_proportion", 0.1,
                     "Share of the steps that warm up.", lower_bound=0.0,
                     upper_bound=1.0)
  flags.mark_flags_as_required(
      ["task_name", "data_dir", "vocab_file", "bert_config_file",
       "output_dir"])


if __name__ == "__main__":
  define_flags()
  app.run(main)
