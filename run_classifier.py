"""Fine-tunes ALBERT on a classification task: train, evaluate, predict, export.

  python run_classifier.py --task_name=lcqmc --data_dir=lcqmc \\
      --do_train --do_eval --do_predict \\
      --vocab_file=albert_config/vocab.txt \\
      --bert_config_file=albert_config/albert_config_tiny.json \\
      --init_checkpoint=albert_tiny/albert_model.ckpt --output_dir=output \\
      --max_seq_length=128 --train_batch_size=64 --learning_rate=1e-4 \\
      --num_train_epochs=5

Tasks are the table in `classifier_utils.py`; `tsv` and `jsonl` take any
labelled file. Every checkpoint of the run is evaluated on the dev set, the
best one predicts and, with --do_export, becomes a SavedModel. Runs on TPU, GPU
and CPU.
"""

import json
import os
import sys

from absl import app
from absl import flags
import numpy as np
import tensorflow.compat.v1 as tf

import bert_utils
import checkpoint_utils
# Some are imported for those who take them from here, as from the peers'.
from classifier_features import convert_examples_to_features  # noqa: F401
from classifier_features import file_based_convert_examples_to_features
from classifier_features import file_based_input_fn_builder
from classifier_features import input_fn_builder  # noqa: F401
from classifier_model import ClassifierOutput  # noqa: F401
from classifier_model import create_model  # noqa: F401
from classifier_model import model_fn_builder
import classifier_utils
from classifier_utils import convert_single_example  # noqa: F401
from classifier_utils import DataProcessor  # noqa: F401
from classifier_utils import InputExample  # noqa: F401
from classifier_utils import InputFeatures  # noqa: F401
from classifier_utils import PaddingInputExample
import estimator_utils
import input_utils
import modeling
import optimization
import tokenization
import training_hooks

FLAGS = flags.FLAGS

# Beside the checkpoints: what a predictor has to know of the run.
CLASSIFIER_NAME = "classifier.json"
EXPORT_FOLDER = "export"

LOGGED = ("loss", "accuracy", "learning_rate", "gradient_norm")


# ------------------------------------------------------------------- one run


class ClassifierRun(object):
  """Task, data and settings of a run: what train, evaluate, predict share."""

  def __init__(self, options):
    """Reads and checks everything; nothing is written yet.

    Args:
      options: object with the flags as attributes.

    Raises:
      ValueError: says which input is at fault.
    """
    self.options = options
    if not (options.do_train or options.do_eval or options.do_predict or
            options.do_export):
      raise ValueError("at least one of --do_train, --do_eval, --do_predict"
                       " and --do_export must be given")
    input_utils.check_bucket_flags(options)
    self.export_dir = options.export_dir or os.path.join(options.output_dir,
                                                         EXPORT_FOLDER)
    if options.do_export:
      _export_model().check_export_dir(self.export_dir)
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
    self.init_checkpoint = checkpoint_utils.check_init_checkpoint(
        options.init_checkpoint)
    checkpoint_utils.check_wordpiece(options.vocab_file, self.bert_config)
    checkpoint_utils.check_init_config(
        self.bert_config, self.init_checkpoint, options.allow_partial_init,
        options.init_from_group0, options.grow_vocab)
    checkpoint_utils.check_resume_config(self.bert_config, options.output_dir)
    if options.do_train:
      checkpoint_utils.check_resume_optimizer(
          options.optimizer, options.precision, options.output_dir)
    tokenization.validate_case_matches_checkpoint(options.do_lower_case,
                                                  self.init_checkpoint)
    self.tokenizer = tokenization.FullTokenizer(options.vocab_file,
                                                options.do_lower_case)
    tokenization.validate_vocab(
        self.tokenizer.vocab, self.bert_config.vocab_size,
        options.vocab_file, options.bert_config_file)
    self._read_task()
    self._check_resume()

  def _read_task(self):
    """Reads the splits that are asked for and counts the steps."""
    options = self.options
    self.processor = classifier_utils.get_processor(
        options.task_name, text_a_column=options.text_a_column,
        text_b_column=options.text_b_column,
        label_column=options.label_column)
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
    self.num_train_steps = self.num_warmup_steps = None
    if options.do_train:
      exact = (len(self.examples["train"]) / options.train_batch_size *
               options.num_train_epochs)
      self.num_train_steps = max(1, int(exact))
      self.num_warmup_steps = int(self.num_train_steps *
                                  options.warmup_proportion)
      if exact < 1:
        tf.logging.warning(
            "%d training examples are fewer than a batch of %d for %g epochs:"
            " training 1 step on repeated examples",
            len(self.examples["train"]), options.train_batch_size,
            options.num_train_epochs)

  def _check_resume(self):
    """Raises a ValueError where the folder's checkpoints have other labels."""
    output_dir = self.options.output_dir
    if (tf.train.latest_checkpoint(output_dir) is None or not
        tf.gfile.Exists(os.path.join(output_dir, CLASSIFIER_NAME))):
      return
    stored = read_classifier(output_dir)
    if stored["labels"] != self.label_list:
      raise ValueError(
          "--output_dir %s holds checkpoints of task %s with the labels %s, but"
          " this run is of task %s with %s; give another --output_dir" % (
              output_dir, stored["task_name"], ", ".join(stored["labels"]),
              self.options.task_name, ", ".join(self.label_list)))

  def _labels(self):
    """The task's labels; of a free format, the training data's.

    A run that does not train takes them from the run that did.
    """
    stored = os.path.join(self.options.output_dir, CLASSIFIER_NAME)
    if not self.options.do_train and tf.gfile.Exists(stored):
      labels = read_classifier(self.options.output_dir)["labels"]
      self.processor.set_labels(labels)
      return labels
    return self.processor.get_labels(self.options.data_dir)

  def make_estimator(self):
    """The TPUEstimator of the run."""
    options = self.options
    return estimator_utils.make_estimator(
        model_fn_builder(
            self.bert_config, len(self.label_list), self.init_checkpoint,
            options.learning_rate, self.num_train_steps,
            self.num_warmup_steps, options.use_tpu,
            use_one_hot_embeddings=options.use_tpu,
            optimizer=options.optimizer,
            allow_partial_init=options.allow_partial_init,
            init_from_group0=options.init_from_group0,
            grow_vocab=options.grow_vocab,
            **estimator_utils.model_options(options)),
        options, options.train_batch_size, options.eval_batch_size,
        options.predict_batch_size)

  def feature_file(self, split, batch_size):
    """Converts a split's examples, unless the very same were; returns a path.

    Args:
      split: "train", "dev" or "test".
      batch_size: int; on a TPU, padding examples fill up the last batch.
    """
    options = self.options
    examples = list(self.examples[split])
    if options.use_tpu and split != "train":
      while len(examples) % batch_size:
        examples.append(PaddingInputExample())
    path = os.path.join(
        options.output_dir, classifier_utils.features_cache_name(
            options.task_name, split, examples, self.label_list,
            options.max_seq_length,
            tokenization.vocab_hash(self.tokenizer.vocab),
            options.do_lower_case))
    if tf.gfile.Exists(path):
      tf.logging.info("features of %s: %s is reused", split, path)
      return path
    tf.logging.info("features of %s: %d examples into %s", split,
                    len(examples), path)
    file_based_convert_examples_to_features(
        examples, self.label_list, options.max_seq_length, self.tokenizer,
        path)
    return path

  def write_classifier(self, folder):
    """Writes config, vocabulary and `classifier.json` into a folder."""
    checkpoint_utils.prepare_output_dir(folder, self.bert_config,
                                       self.options.vocab_file)
    checkpoint_utils.write_text(
        os.path.join(folder, CLASSIFIER_NAME),
        json.dumps({"task_name": self.options.task_name,
                    "labels": self.label_list,
                    "max_seq_length": self.options.max_seq_length,
                    "do_lower_case": self.options.do_lower_case},
                   ensure_ascii=False, indent=2, sort_keys=True) + "\n")


def read_classifier(folder):
  """What `write_classifier` wrote: task_name, labels, lengths, casing."""
  path = os.path.join(folder, CLASSIFIER_NAME)
  if not tf.gfile.Exists(path):
    raise ValueError("%s has no %s: it is not the output folder of"
                     " run_classifier.py" % (folder, CLASSIFIER_NAME))
  with tf.gfile.GFile(path, "r") as reader:
    return json.loads(reader.read())


def train(run, tpu_estimator):
  """Trains for the epochs asked for.

  Raises:
    InputError: there is nothing to train, nor to do afterwards.
    Stopped: a signal has ended the training.
  """
  options = run.options
  step, latest = checkpoint_utils.latest_step(options.output_dir)
  if step >= run.num_train_steps:
    message = ("nothing to train: %s is at step %d already; give another"
               " --output_dir for a new run" % (latest, step))
    if not (options.do_eval or options.do_predict or options.do_export):
      raise bert_utils.InputError(message)
    tf.logging.warning(message)
    return
  feature_file = run.feature_file("train", options.train_batch_size)
  num_examples = len(run.examples["train"])
  hooks = [training_hooks.StartHook(training_hooks.describe_run(
      latest, run.init_checkpoint, step, run.num_train_steps,
      options.train_batch_size, num_examples, options.learning_rate,
      options.optimizer, run.num_warmup_steps,
      training_hooks.batch_parts(options)), step)]
  with training_hooks.catch_signals() as interruption:
    hooks += training_hooks.make_hooks(
        LOGGED, options, run.num_train_steps, options.train_batch_size,
        options.max_seq_length, num_examples / options.train_batch_size,
        interruption, estimator_utils.is_chief())
    with training_hooks.exit_if_told(interruption, options.output_dir):
      tpu_estimator.train(
          input_fn=file_based_input_fn_builder(
              feature_file, options.max_seq_length, is_training=True,
              drop_remainder=True, seed=options.seed,
              start_step=checkpoint_utils.batches_read(latest),
              bucket_by_length=options.bucket_by_length,
              record_count=num_examples),
          max_steps=run.num_train_steps, hooks=hooks)


def evaluate(run, tpu_estimator):
  """Evaluates every checkpoint on dev; keeps the best in `best/`.

  Returns:
    string, the best checkpoint: highest accuracy, then lowest loss.
  """
  options = run.options
  feature_file = run.feature_file("dev", options.eval_batch_size)
  input_fn = file_based_input_fn_builder(
      feature_file, options.max_seq_length, is_training=False,
      drop_remainder=options.use_tpu,
      bucket_by_length=options.bucket_by_length)
  steps = (-(-len(run.examples["dev"]) // options.eval_batch_size)
           if options.use_tpu else None)
  # Step 0 is the untrained head, which no user wants to predict with.
  checkpoints = [(step, path) for step, path in
                 checkpoint_utils.step_checkpoints(options.output_dir) if step]
  if not checkpoints:
    raise bert_utils.InputError(
        "--do_eval: there is no trained checkpoint in --output_dir %s; train"
        " first" % options.output_dir)
  rows = []
  for step, checkpoint in checkpoints:
    result = tpu_estimator.evaluate(input_fn, steps=steps,
                                    checkpoint_path=checkpoint)
    rows.append({"step": step, "checkpoint": checkpoint,
                 "eval_accuracy": float(result["eval_accuracy"]),
                 "eval_loss": float(result["eval_loss"])})
    tf.logging.info("step %d: dev accuracy %.4f, loss %.4f", step,
                    rows[-1]["eval_accuracy"], rows[-1]["eval_loss"])
  best = min(rows, key=lambda row: (-row["eval_accuracy"], row["eval_loss"]))
  _, metrics = _score(run, tpu_estimator, "dev", feature_file,
                      best["checkpoint"])
  checkpoint_utils.write_results(options.output_dir, "eval_results", dict(
      metrics, task_name=options.task_name, split="dev",
      eval_accuracy=best["eval_accuracy"], eval_loss=best["eval_loss"],
      global_step=best["step"], best_checkpoint=best["checkpoint"],
      checkpoints=rows))
  tf.logging.info("best on dev is step %d:\n%s", best["step"],
                  classifier_utils.format_metrics(metrics))
  _keep_best(run, best)
  return best["checkpoint"]


def _keep_best(run, best):
  """Copies the best checkpoint into a folder that is complete by itself."""
  folder = os.path.join(run.options.output_dir, checkpoint_utils.BEST_FOLDER)
  run.write_classifier(folder)
  checkpoint_utils.keep_checkpoint(best["checkpoint"], folder)


def best_checkpoint(output_dir):
  """The checkpoint to predict with: the best on dev, else the latest.

  Raises:
    InputError: there is none.
  """
  best = tf.train.latest_checkpoint(
      os.path.join(output_dir, checkpoint_utils.BEST_FOLDER))
  latest = tf.train.latest_checkpoint(output_dir)
  if not best and not latest:
    raise bert_utils.InputError(
        "there is no checkpoint in %s; train first" % output_dir)
  if not best:
    tf.logging.warning("no checkpoint was chosen on dev (--do_eval): the"
                       " latest, %s, predicts", latest)
  return best or latest


def predict(run, tpu_estimator, checkpoint):
  """Predicts the test set; scores it where it has labels.

  Writes `test_results.tsv` (probabilities), `<task>_predict.json`, and
  `test_results.txt` and `.json` where every test example has a label.
  """
  options = run.options
  feature_file = run.feature_file("test", options.predict_batch_size)
  probabilities, metrics = _score(run, tpu_estimator, "test", feature_file,
                                  checkpoint)
  tsv = os.path.join(options.output_dir, "test_results.tsv")
  classifier_utils.write_probabilities(tsv, probabilities)
  predictions = os.path.join(options.output_dir,
                             "%s_predict.json" % options.task_name)
  classifier_utils.write_predictions(
      predictions, run.examples["test"],
      [run.label_list[index] for index in probabilities.argmax(axis=-1)],
      options.task_name)
  tf.logging.info("%d predictions of %s: %s, %s", len(probabilities),
                  checkpoint, predictions, tsv)
  if metrics is not None:
    checkpoint_utils.write_results(options.output_dir, "test_results", dict(
        metrics, task_name=options.task_name, split="test",
        checkpoint=checkpoint))
    tf.logging.info("test set:\n%s", classifier_utils.format_metrics(metrics))


def _score(run, tpu_estimator, split, feature_file, checkpoint):
  """Probabilities of a split and, where it is labelled, its metrics."""
  options = run.options
  examples = run.examples[split]
  probabilities = []
  for prediction in tpu_estimator.predict(
      file_based_input_fn_builder(
          feature_file, options.max_seq_length, is_training=False,
          drop_remainder=options.use_tpu,
          bucket_by_length=options.bucket_by_length),
      checkpoint_path=checkpoint):
    if len(probabilities) == len(examples):
      break  # the rest is padding
    probabilities.append(prediction["probabilities"])
  probabilities = np.array(probabilities)
  labels = [example.label for example in examples]
  if any(label is None for label in labels):
    return probabilities, None
  ids = {label: index for index, label in enumerate(run.label_list)}
  return probabilities, classifier_utils.compute_metrics(
      np.array([ids[label] for label in labels]),
      probabilities.argmax(axis=-1), run.label_list)


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
      run.write_classifier(FLAGS.output_dir)
  tpu_estimator = run.make_estimator()
  with estimator_utils.exit_on(estimator_utils.BAD_RUN):
    if FLAGS.do_train:
      train(run, tpu_estimator)
    if not estimator_utils.is_chief():
      return
    checkpoint = None
    if FLAGS.do_eval:
      checkpoint = evaluate(run, tpu_estimator)
    if FLAGS.do_predict or FLAGS.do_export:
      checkpoint = checkpoint or best_checkpoint(FLAGS.output_dir)
    if FLAGS.do_predict:
      predict(run, tpu_estimator, checkpoint)
    if FLAGS.do_export:
      export(run, checkpoint)


def define_flags():
  """Defines this script's flags."""
  estimator_utils.define_flags()
  flags.adopt_module_key_flags(estimator_utils)  # so that --help has them
  flags.DEFINE_string("task_name", None, "Task: %s." % ", ".join(
      sorted(classifier_utils.TASKS)))
  flags.DEFINE_string("data_dir", None, "Folder with the task's files.")
  flags.DEFINE_string("vocab_file", None, "Vocabulary of the model.")
  flags.DEFINE_string(
      "text_a_column", None,
      "tsv, csv, jsonl: the text's column, a name of the header or a position.")
  flags.DEFINE_string("text_b_column", None,
                      "tsv, csv, jsonl: the second text's column, for pairs.")
  flags.DEFINE_string("label_column", None,
                      "tsv, csv, jsonl: the label's column.")
  flags.DEFINE_bool("do_lower_case", True,
                    "Whether to lower-case the text; False for cased models.")
  flags.DEFINE_integer("max_seq_length", 128,
                       "Longest sequence; longer texts are truncated.",
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
  flags.DEFINE(estimator_utils.RateParser(), "learning_rate", 5e-5,
               "Highest learning rate.")
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
