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

import collections
import json
import os
import sys
import uuid

from absl import app
from absl import flags
import numpy as np
import tensorflow.compat.v1 as tf

import bert_utils
import checkpoint_utils
import classifier_utils
# Some are imported for those who take them from here, as from the peers'.
from classifier_utils import convert_single_example
from classifier_utils import DataProcessor  # noqa: F401
from classifier_utils import InputExample  # noqa: F401
from classifier_utils import InputFeatures  # noqa: F401
from classifier_utils import PaddingInputExample
import estimator_utils
import input_utils
import modeling
from modeling import layer_norm
import optimization
import tokenization
import training_hooks

FLAGS = flags.FLAGS

# Beside the checkpoints: what a predictor has to know of the run.
CLASSIFIER_NAME = "classifier.json"
EXPORT_FOLDER = "export"

LOGGED = ("loss", "accuracy", "learning_rate", "gradient_norm")

ClassifierOutput = collections.namedtuple(
    "ClassifierOutput",
    ["loss", "per_example_loss", "logits", "probabilities"])


# ---------------------------------------------------------------------- model


def create_model(bert_config, is_training, input_ids, input_mask, segment_ids,
                 labels, num_labels, use_one_hot_embeddings,
                 compute_dtype=tf.float32, dropout_seed=None,
                 recompute_activations=False):
  """Builds encoder and classification head.

  Args:
    bert_config: BertConfig.
    is_training: bool.
    input_ids: int32 Tensor [B, S].
    input_mask: int32 Tensor [B, S].
    segment_ids: int32 Tensor [B, S].
    labels: int32 Tensor [B], or None when predicting.
    num_labels: int.
    use_one_hot_embeddings: bool.
    compute_dtype: type of the encoder's products, see `modeling.BertModel`;
      so are the two below.
    dropout_seed: int32 Tensor [2], or None.
    recompute_activations: bool.

  Returns:
    ClassifierOutput: loss (mean, scalar) and per_example_loss [B], both None
    without labels; logits and probabilities [B, num_labels].
  """
  batch_size = bert_utils.get_shape_list(input_ids)[0]
  model = modeling.BertModel(
      config=bert_config,
      is_training=is_training,
      input_ids=input_ids,
      input_mask=input_mask,
      token_type_ids=segment_ids,
      use_one_hot_embeddings=use_one_hot_embeddings,
      compute_dtype=compute_dtype,
      # Only the first token is read.
      output_positions=tf.zeros([batch_size, 0], tf.int32),
      dropout_seed=dropout_seed,
      recompute_activations=recompute_activations)
  output_layer = model.get_pooled_output()
  output_weights = tf.get_variable(
      "output_weights", [num_labels, bert_config.hidden_size],
      initializer=modeling.create_initializer(0.02))
  output_bias = tf.get_variable("output_bias", [num_labels],
                                initializer=tf.zeros_initializer())
  with tf.variable_scope("loss"):
    if bert_config.ln_type == "preln":
      # No norm stands behind the last pre-LN layer: albert_zh has it here.
      output_layer = layer_norm(output_layer)
    if is_training:
      output_layer = modeling.dropout(output_layer, 0.1, dropout_seed, -1)
    logits = tf.matmul(output_layer, tf.cast(output_weights, tf.float32),
                       transpose_b=True)
    logits = tf.nn.bias_add(logits, tf.cast(output_bias, tf.float32))
    probabilities = tf.nn.softmax(logits, axis=-1)
    if labels is None:
      return ClassifierOutput(None, None, logits, probabilities)
    per_example_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=logits)
    return ClassifierOutput(tf.reduce_mean(per_example_loss),
                            per_example_loss, logits, probabilities)


def model_fn_builder(bert_config, num_labels, init_checkpoint, learning_rate,
                     num_train_steps, num_warmup_steps, use_tpu,
                     use_one_hot_embeddings, optimizer="adamw",
                     allow_partial_init=False, init_from_group0=False,
                     grow_vocab=False, gradient_accumulation_steps=1,
                     recompute_activations=False, precision="float32",
                     seed=None):
  """Returns `model_fn` for TPUEstimator.

  Args:
    bert_config: BertConfig.
    num_labels: int.
    init_checkpoint: path or None.
    learning_rate: float.
    num_train_steps: int; None when nothing is trained.
    num_warmup_steps: int; None when nothing is trained.
    use_tpu: bool.
    use_one_hot_embeddings: bool.
    optimizer: string, see `optimization.build_train_op`.
    allow_partial_init: bool, see `checkpoint_utils.init_from_checkpoint`; so
      are the two below.
    init_from_group0: bool.
    grow_vocab: bool.
    gradient_accumulation_steps: int, micro-batches of a replica's batch.
    recompute_activations: bool, in the backward pass, instead of keeping them.
    precision: string in `estimator_utils.PRECISIONS`, of the activations.
    seed: int, of dropout; None draws one for each op.

  Returns:
    function of (features, labels, mode, params).
  """
  modes = estimator_utils.estimator.ModeKeys
  spec_class = estimator_utils.estimator.tpu.TPUEstimatorSpec

  def build(features, is_training, dropout_seed=None):
    """Builds the model on a (micro-)batch, and its most probable labels."""
    output = create_model(
        bert_config, is_training, features["input_ids"],
        features["input_mask"], features["segment_ids"],
        features["label_ids"], num_labels, use_one_hot_embeddings,
        compute_dtype=estimator_utils.PRECISIONS[precision],
        dropout_seed=dropout_seed,
        recompute_activations=recompute_activations and is_training)
    return output, tf.argmax(output.logits, axis=-1, output_type=tf.int32)

  def train_spec(features):
    """The spec of a training step; loss and accuracy are the whole batch's."""
    replicas = optimization.num_replicas(use_tpu)
    num_examples, = optimization.sum_over_replicas(
        [tf.cast(tf.size(features["label_ids"]), tf.float32)], use_tpu)

    def micro_loss(index):
      part = optimization.micro_batch(features, index,
                                      gradient_accumulation_steps)
      output, predicted = build(part, True, estimator_utils.dropout_seed(
          seed, index, part["input_ids"], use_tpu))
      correct = tf.cast(tf.equal(predicted, part["label_ids"]), tf.float32)
      # This replica's share of the mean; trained on is the replicas' mean.
      return (tf.reduce_sum(output.per_example_loss) / num_examples * replicas,
              {"accuracy": tf.reduce_sum(correct) / num_examples})

    train = optimization.build_train_op(
        micro_loss, learning_rate, num_train_steps, num_warmup_steps, use_tpu,
        optimizer, gradient_accumulation_steps=gradient_accumulation_steps,
        dynamic_loss_scale=precision == "float16")
    scaffold_fn = checkpoint_utils.init_from_checkpoint(
        init_checkpoint, use_tpu, allow_partial_init, init_from_group0,
        grow_vocab)
    estimator_utils.log_trainable_variables()
    if not use_tpu:
      training_hooks.publish(
          estimator_utils.add_train_scalars(dict(train.sums), train))
      training_hooks.publish_lengths(features["input_mask"])
    return spec_class(
        mode=modes.TRAIN, loss=estimator_utils.spec_loss(train.loss),
        train_op=train.train_op, scaffold_fn=scaffold_fn)

  def model_fn(features, labels, mode, params):
    """Builds the graph of one mode."""
    del labels, params
    if mode == modes.TRAIN:
      return train_spec(features)
    output, predicted = build(features, False)
    label_ids = features["label_ids"]

    if mode == modes.EVAL:
      def metric_fn(per_example_loss, predicted, label_ids, weights):
        return {
            "eval_accuracy": tf.metrics.accuracy(label_ids, predicted,
                                                 weights=weights),
            "eval_loss": tf.metrics.mean(per_example_loss, weights=weights)}

      return spec_class(
          mode=mode, loss=output.loss,
          eval_metrics=(metric_fn, [
              output.per_example_loss, predicted, label_ids,
              tf.cast(features["is_real_example"], tf.float32)]))

    return spec_class(
        mode=mode, predictions={"probabilities": output.probabilities})

  return model_fn


# ------------------------------------------------------------------- features


def convert_examples_to_features(examples, label_list, max_seq_length,
                                 tokenizer):
  """Converts examples into a list of InputFeatures."""
  return [convert_single_example(index, example, label_list, max_seq_length,
                                 tokenizer)
          for index, example in enumerate(examples)]


def file_based_convert_examples_to_features(examples, label_list,
                                            max_seq_length, tokenizer,
                                            output_file):
  """Writes examples to a TFRecord file; it gets its name when complete.

  Args:
    examples: list of InputExamples (or PaddingInputExamples).
    label_list: list of strings.
    max_seq_length: int, S.
    tokenizer: tokenization.FullTokenizer.
    output_file: path.
  """
  def int_feature(values):
    return tf.train.Feature(
        int64_list=tf.train.Int64List(value=list(values)))

  # Workers on several machines may write the same file at the same time.
  temporary = "%s.tmp-%s" % (output_file, uuid.uuid4().hex)
  with tf.python_io.TFRecordWriter(temporary) as writer:
    for index, example in enumerate(examples):
      if index % 10000 == 0 and index:
        tf.logging.info("converted example %d of %d", index, len(examples))
      features = convert_single_example(index, example, label_list,
                                        max_seq_length, tokenizer)
      if index < 3:
        _log_example(example, features, tokenizer)
      record = tf.train.Example(features=tf.train.Features(feature={
          "input_ids": int_feature(features.input_ids),
          "input_mask": int_feature(features.input_mask),
          "segment_ids": int_feature(features.segment_ids),
          "label_ids": int_feature([features.label_id]),
          "is_real_example": int_feature([int(features.is_real_example)])}))
      writer.write(record.SerializeToString())
  tf.gfile.Rename(temporary, output_file, overwrite=True)


def _log_example(example, features, tokenizer):
  if isinstance(example, PaddingInputExample):
    return
  length = sum(features.input_mask)
  tf.logging.info("*** Example %s ***", example.guid)
  tf.logging.info("tokens: %s", " ".join(
      tokenizer.convert_ids_to_tokens(features.input_ids[:length])))
  tf.logging.info("segment_ids: %s",
                  " ".join(str(i) for i in features.segment_ids[:length]))
  tf.logging.info("label: %s (id = %d)", example.label, features.label_id)


# Classification data are small: the whole set is shuffled.
_SHUFFLED_EXAMPLES = 100000


def file_based_input_fn_builder(input_file, seq_length, is_training,
                                drop_remainder, seed=None, start_step=0,
                                bucket_by_length=False, record_count=None):
  """Creates an `input_fn` that reads a feature file.

  Args:
    input_file: path.
    seq_length: int, S.
    is_training: bool; shuffles and repeats for ever, in full batches, see
      `input_utils.train_batches`. Otherwise every record comes once, in order.
    drop_remainder: bool; a TPU needs full batches.
    seed: int, for shuffling; None is another order each time.
    start_step: int, how many batches a replica has had before; or a function
      that returns it when the input is built.
    bucket_by_length: bool; batches are cropped to their longest sequence (S is
      then a multiple of 16), those of training are made of similar lengths.
    record_count: int, how many there are; None counts when need be.

  Returns:
    function of params (with "batch_size", of each replica) and input_context.
  """
  sequence = tf.FixedLenFeature([seq_length], tf.int64)
  scalar = tf.FixedLenFeature([], tf.int64)
  specs = {"input_ids": sequence, "input_mask": sequence,
           "segment_ids": sequence, "label_ids": scalar,
           "is_real_example": scalar}

  def parse(records):
    features = input_utils.to_int32(tf.parse_example(records, specs))
    if bucket_by_length:
      return input_utils.crop(features, input_utils.SEQUENCES)
    return features

  def lengths(records):
    return input_utils.sequence_lengths(tf.parse_example(
        records, {"input_mask": sequence})["input_mask"])

  def input_fn(params, input_context=None):
    batch_size = params["batch_size"]
    if not is_training:
      return tf.data.TFRecordDataset(input_file).batch(
          batch_size, drop_remainder=drop_remainder).map(
              parse, num_parallel_calls=2).prefetch(2)
    worker = input_utils.find_worker(input_context)
    counts = ([record_count] if record_count else
              input_utils.count_records([input_file]))
    stream_seed = input_utils.any_seed(seed)
    return input_utils.train_batches(
        input_utils.file_epochs([input_file], counts, stream_seed, worker,
                                shuffle_records=_SHUFFLED_EXAMPLES),
        parse, stream_seed, batch_size, worker.num_replicas,
        start_step() if callable(start_step) else start_step,
        num_cpu_threads=2, lengths=lengths if bucket_by_length else None)

  return input_fn


def input_fn_builder(features, seq_length, is_training, drop_remainder,
                     seed=None, start_step=0, bucket_by_length=False):
  """Creates an `input_fn` from a list of InputFeatures; see above.

  Args:
    features: list of InputFeatures.
    seq_length: int, S.
    is_training: bool; shuffles and repeats for ever, in full batches.
    drop_remainder: bool; a TPU needs full batches.
    seed: int, for shuffling; None is another order each time.
    start_step: int or a function that returns it.
    bucket_by_length: bool.

  Returns:
    function of params (with "batch_size", of each replica) and input_context.
  """
  arrays = {
      name: np.array([getattr(f, name) for f in features],
                     np.int32).reshape(-1, seq_length)
      for name in input_utils.SEQUENCES}
  arrays["label_ids"] = np.array([f.label_id for f in features], np.int32)
  arrays["is_real_example"] = np.array([f.is_real_example for f in features],
                                       np.int32)

  def load(indices):
    batch = {name: tf.gather(tf.constant(array), indices)
             for name, array in arrays.items()}
    if bucket_by_length:
      return input_utils.crop(batch, input_utils.SEQUENCES)
    return batch

  def lengths(indices):
    return input_utils.sequence_lengths(
        tf.gather(tf.constant(arrays["input_mask"]), indices))

  def input_fn(params, input_context=None):
    batch_size = params["batch_size"]
    if not is_training:
      return tf.data.Dataset.range(len(features)).batch(
          batch_size, drop_remainder=drop_remainder).map(load)
    worker = input_utils.find_worker(input_context)
    stream_seed = input_utils.any_seed(seed)
    return input_utils.train_batches(
        input_utils.index_epochs(len(features), stream_seed, worker), load,
        stream_seed, batch_size, worker.num_replicas,
        start_step() if callable(start_step) else start_step,
        num_cpu_threads=2, lengths=lengths if bucket_by_length else None)

  return input_fn


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
