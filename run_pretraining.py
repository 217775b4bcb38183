"""Pre-trains ALBERT: masked language model and sentence order.

  python run_pretraining.py --do_train --do_eval \\
      --input_file='pretrain/train*' --eval_input_file='pretrain/eval*' \\
      --bert_config_file=albert_config/albert_config_tiny.json \\
      --output_dir=output --train_batch_size=32 --num_train_steps=10000 \\
      --num_warmup_steps=1000 --learning_rate=1.5e-4

The records are those of `create_pretraining_data.py` or of albert_zh's. Runs
on TPU, GPU and CPU.
"""

import collections
import os

from absl import app
from absl import flags
import tensorflow.compat.v1 as tf

import bert_utils
from bert_utils import gather_indexes
import checkpoint_utils
import estimator_utils
import input_utils
from input_utils import compression_type
from input_utils import iterate_records
from input_utils import read_metadata
import modeling
import optimization
import tokenization
import training_hooks

FLAGS = flags.FLAGS

LOGGED = ("loss", "masked_lm_loss", "masked_lm_accuracy",
          "next_sentence_loss", "next_sentence_accuracy", "learning_rate",
          "gradient_norm")
AUTO = "auto"  # as a learning rate


# ---------------------------------------------------------------------- model


class HeadOutput(collections.namedtuple(
    "HeadOutput", ["loss", "per_example_loss", "log_probs"])):
  """What a head returns: the peers' tuple.

  Besides, `predictions` has the most probable labels, from the logits: the
  log probabilities, of V columns, are then computed only for who asks.
  """
  predictions = None


def _head_output(loss, per_example_loss, logits):
  output = HeadOutput(loss, per_example_loss, tf.nn.log_softmax(logits))
  output.predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
  return output


def _cross_entropy(logits, labels):
  """Sparse softmax cross-entropy, in ops that CPUs share among their cores.

  The op of TensorFlow 2.15 takes twice their time for a vocabulary's logits.

  Args:
    logits: float32 Tensor [rows, V].
    labels: int32 Tensor [rows].

  Returns:
    float32 Tensor [rows].
  """
  places = tf.stack([tf.range(tf.shape(labels)[0]), labels], axis=1)

  @tf.custom_gradient
  def per_row(logits, places):
    peak = tf.reduce_max(logits, axis=-1, keepdims=True)
    powers = tf.exp(logits - peak)
    total = tf.reduce_sum(powers, axis=-1, keepdims=True)

    def gradient(output_gradient):
      # Probabilities, less 1 at the labels.
      scale = tf.expand_dims(output_gradient, axis=1) / total
      return tf.tensor_scatter_nd_sub(powers * scale, places,
                                      output_gradient), None

    return (tf.squeeze(tf.log(total) + peak, axis=-1) -
            tf.gather_nd(logits, places)), gradient

  return per_row(logits, places)


def get_masked_lm_output(bert_config, input_tensor, output_weights,
                         project_weights, positions, label_ids,
                         label_weights, num_predictions=None):
  """Loss and log probabilities of the masked language model.

  Only the masked positions go through the vocabulary-sized product.

  Args:
    bert_config: BertConfig.
    input_tensor: float Tensor [B, S, H], the encoder's output; [B, P, H], what
      it is at the positions, where these are None.
    output_weights: Variable [V, E], the token embeddings.
    project_weights: Variable [E, H], their projection; None where the layout
      has none: the head's dense layer then leads to the columns of the table.
    positions: int32 Tensor [B, P], or None.
    label_ids: int32 Tensor [B, P].
    label_weights: float Tensor [B, P], 1 for predictions, 0 for padding.
    num_predictions: float Tensor [], number of predictions that the loss is a
      mean over, where this batch is a part of a larger one; default the sum of
      the weights.

  Returns:
    HeadOutput: loss (weighted mean, scalar), per_example_loss [B * P],
    log_probs [B * P, V].
  """
  if positions is None:
    input_tensor = bert_utils.reshape_to_matrix(input_tensor)  # [B * P, H]
  else:
    input_tensor = gather_indexes(input_tensor, positions)
  units = bert_config.hidden_size
  if project_weights is None:
    units = output_weights.shape.as_list()[1]
  with tf.variable_scope("cls/predictions"):
    with tf.variable_scope("transform"):
      input_tensor = modeling.dense(
          input_tensor, units,
          modeling.get_activation(bert_config.hidden_act),
          bert_config.initializer_range)
      input_tensor = modeling.layer_norm(input_tensor)
    output_bias = tf.get_variable(
        "output_bias", [bert_config.vocab_size],
        initializer=tf.zeros_initializer())
    if project_weights is not None:
      # Back through the projection of the token embeddings.
      input_tensor = tf.matmul(
          input_tensor, tf.cast(project_weights, input_tensor.dtype),
          transpose_b=True)  # [B * P, E]
    logits = tf.matmul(
        input_tensor, tf.cast(output_weights, input_tensor.dtype),
        transpose_b=True)  # [B * P, V]
    logits = tf.nn.bias_add(tf.cast(logits, tf.float32),
                            tf.cast(output_bias, tf.float32))

  label_ids = tf.reshape(label_ids, [-1])
  label_weights = tf.cast(tf.reshape(label_weights, [-1]), tf.float32)
  per_example_loss = _cross_entropy(logits, label_ids)
  # Padded predictions weigh nothing; all may be padding.
  if num_predictions is None:
    num_predictions = tf.reduce_sum(label_weights)
  loss = (tf.reduce_sum(label_weights * per_example_loss) /
          (num_predictions + 1e-5))
  return _head_output(loss, per_example_loss, logits)


def get_next_sentence_output(bert_config, input_tensor, labels, weights=None,
                             num_examples=None):
  """Loss and log probabilities of the sentence-pair task.

  Args:
    bert_config: BertConfig.
    input_tensor: float Tensor [B, H], the pooled output.
    labels: int32 Tensor [B] or [B, 1]; 0 in order, 1 swapped (or random).
    weights: float Tensor [B], weight of each example; default ones.
    num_examples: float Tensor [], number of examples that the loss is a mean
      over, where this batch is a part of a larger one; default the sum of the
      weights.

  Returns:
    HeadOutput: loss (mean, scalar), per_example_loss [B],
    log_probs [B, 2].
  """
  with tf.variable_scope("cls/seq_relationship"):
    output_weights = tf.get_variable(
        "output_weights", [2, bert_config.hidden_size],
        initializer=modeling.create_initializer(
            bert_config.initializer_range))
    output_bias = tf.get_variable("output_bias", [2],
                                  initializer=tf.zeros_initializer())
  # So few products: float32 whatever the model computes in.
  logits = tf.nn.bias_add(
      tf.matmul(tf.cast(input_tensor, tf.float32),
                tf.cast(output_weights, tf.float32), transpose_b=True),
      tf.cast(output_bias, tf.float32))
  per_example_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
      labels=tf.reshape(labels, [-1]), logits=logits)
  if weights is None:
    weights = tf.ones_like(per_example_loss)
  if num_examples is None:
    num_examples = tf.reduce_sum(weights)
  loss = (tf.reduce_sum(weights * per_example_loss) /
          tf.maximum(num_examples, 1.0))
  return _head_output(loss, per_example_loss, logits)


def _metric_values(features, masked_lm, next_sentence):
  """The four metrics, each as per-example values and weights.

  Returns:
    OrderedDict: name -> (values [n], weights [n]).
  """
  def correct(predictions, labels):
    return tf.cast(tf.equal(predictions, tf.reshape(labels, [-1])),
                   tf.float32)

  lm_weights = tf.reshape(features["masked_lm_weights"], [-1])
  pair_weights = _real_examples(features)
  return collections.OrderedDict([
      ("masked_lm_accuracy", (
          correct(masked_lm.predictions, features["masked_lm_ids"]),
          lm_weights)),
      ("masked_lm_loss", (masked_lm.per_example_loss, lm_weights)),
      ("next_sentence_accuracy", (
          correct(next_sentence.predictions,
                  features["next_sentence_labels"]),
          pair_weights)),
      ("next_sentence_loss", (next_sentence.per_example_loss,
                              pair_weights))])


def _real_examples(features):
  """Weight of each example: 0 for what fills up the last batch, else 1."""
  if "is_real_example" in features:
    return tf.cast(tf.reshape(features["is_real_example"], [-1]), tf.float32)
  return tf.ones_like(tf.reshape(features["next_sentence_labels"], [-1]),
                      dtype=tf.float32)


def _eval_spec(mode, loss, metrics, scaffold_fn):
  """The spec of an evaluation: means over all batches, by weight."""
  # Flat, because a TPU hands over plain lists of tensors.
  names = list(metrics)
  tensors = [tensor for metric in metrics.values() for tensor in metric]

  def metric_fn(*tensors):
    return {name: tf.metrics.mean(tensors[2 * i], tensors[2 * i + 1])
            for i, name in enumerate(names)}

  return estimator_utils.estimator.tpu.TPUEstimatorSpec(
      mode=mode, loss=loss, eval_metrics=(metric_fn, tensors),
      scaffold_fn=scaffold_fn)


def _global_counts(features, use_tpu):
  """Predictions and examples of the whole step: what its means divide by.

  The weights of all replicas and micro-batches: a mean of their means would
  give a prediction more weight where there are fewer of them.

  Returns:
    Two float Tensors [].
  """
  return optimization.sum_over_replicas(
      [tf.reduce_sum(features["masked_lm_weights"]),
       tf.reduce_sum(_real_examples(features))], use_tpu)


def model_fn_builder(bert_config, init_checkpoint, learning_rate,
                     num_train_steps, num_warmup_steps, use_tpu,
                     use_one_hot_embeddings, optimizer="lamb", poly_power=1.0,
                     start_warmup_step=0, use_next_sentence_loss=True,
                     allow_partial_init=False, init_from_group0=False,
                     grow_vocab=False, gradient_accumulation_steps=1,
                     recompute_activations=False, precision="float32",
                     seed=None, compile_gelu=False):
  """Returns `model_fn` for TPUEstimator.

  Args:
    bert_config: BertConfig.
    init_checkpoint: path or None.
    learning_rate: float.
    num_train_steps: int.
    num_warmup_steps: int.
    use_tpu: bool.
    use_one_hot_embeddings: bool.
    optimizer: string, see `optimization.build_train_op`.
    poly_power: float, exponent of the learning rate's decay.
    start_warmup_step: int, step at which the warm-up starts.
    use_next_sentence_loss: bool; False for records without a pair task.
    allow_partial_init: bool, see `checkpoint_utils.init_from_checkpoint`; so
      are the two below.
    init_from_group0: bool.
    grow_vocab: bool.
    gradient_accumulation_steps: int, micro-batches of a replica's batch.
    recompute_activations: bool, in the backward pass, instead of keeping them.
    precision: string in `estimator_utils.PRECISIONS`, of the activations.
    seed: int, of dropout; None draws one for each op.
    compile_gelu: bool, see `modeling.BertModel`.

  Returns:
    function of (features, labels, mode, params).
  """

  def build(features, is_training, counts=(None, None), dropout_seed=None):
    """Builds the model on a (micro-)batch: its loss, and the metrics."""
    model = modeling.BertModel(
        config=bert_config,
        is_training=is_training,
        input_ids=features["input_ids"],
        input_mask=features["input_mask"],
        token_type_ids=features["segment_ids"],
        use_one_hot_embeddings=use_one_hot_embeddings,
        compute_dtype=estimator_utils.PRECISIONS[precision],
        output_positions=features["masked_lm_positions"],
        dropout_seed=dropout_seed,
        recompute_activations=recompute_activations and is_training,
        compile_gelu=compile_gelu)
    masked_lm = get_masked_lm_output(
        bert_config, model.get_output_at_positions(),
        model.get_embedding_table(), model.get_embedding_table_2(), None,
        features["masked_lm_ids"], features["masked_lm_weights"],
        num_predictions=counts[0])
    next_sentence = get_next_sentence_output(
        bert_config, model.get_pooled_output(),
        features["next_sentence_labels"], _real_examples(features),
        num_examples=counts[1])
    loss = masked_lm.loss
    if use_next_sentence_loss:
      loss += next_sentence.loss
    return loss, _metric_values(features, masked_lm, next_sentence)

  def init_variables():
    scaffold_fn = checkpoint_utils.init_from_checkpoint(
        init_checkpoint, use_tpu, allow_partial_init, init_from_group0,
        grow_vocab)
    estimator_utils.log_trainable_variables()
    return scaffold_fn

  def train_spec(features):
    """The spec of a training step; loss and metrics are the whole batch's."""
    counts = _global_counts(features, use_tpu)
    replicas = optimization.num_replicas(use_tpu)

    def micro_loss(index):
      part = optimization.micro_batch(features, index,
                                      gradient_accumulation_steps)
      loss, metrics = build(part, True, counts, estimator_utils.dropout_seed(
          seed, index, part["input_ids"], use_tpu))
      # The shares of the replicas add up to the loss; what they train on is
      # the mean over the replicas.
      return loss * replicas, {
          name: tf.reduce_sum(values * weights)
          for name, (values, weights) in metrics.items()}

    train = optimization.build_train_op(
        micro_loss, learning_rate, num_train_steps, num_warmup_steps, use_tpu,
        optimizer, poly_power, start_warmup_step,
        gradient_accumulation_steps=gradient_accumulation_steps,
        dynamic_loss_scale=precision == "float16")
    scaffold_fn = init_variables()
    if not use_tpu:
      logged = {
          name: total / (counts[name.startswith("next_sentence")] + 1e-5)
          for name, total in train.sums.items()}
      training_hooks.publish(estimator_utils.add_train_scalars(logged, train))
      training_hooks.publish_lengths(features["input_mask"])
    return estimator_utils.estimator.tpu.TPUEstimatorSpec(
        mode=estimator_utils.estimator.ModeKeys.TRAIN,
        loss=estimator_utils.spec_loss(train.loss), train_op=train.train_op,
        scaffold_fn=scaffold_fn)

  def model_fn(features, labels, mode, params):
    """Builds the graph of one mode."""
    del labels, params
    if mode == estimator_utils.estimator.ModeKeys.TRAIN:
      return train_spec(features)
    loss, metrics = build(features, False)
    return _eval_spec(mode, loss, metrics, init_variables())

  return model_fn


# ---------------------------------------------------------------------- input


def _feature_specs(max_seq_length, max_predictions_per_seq):
  """What a record holds, by feature name."""
  sequence = tf.FixedLenFeature([max_seq_length], tf.int64)
  predictions = tf.FixedLenFeature([max_predictions_per_seq], tf.int64)
  return {
      "input_ids": sequence,
      "input_mask": sequence,
      "segment_ids": sequence,
      "masked_lm_positions": predictions,
      "masked_lm_ids": predictions,
      "masked_lm_weights": tf.FixedLenFeature([max_predictions_per_seq],
                                              tf.float32),
      "next_sentence_labels": tf.FixedLenFeature([1], tf.int64)}


def input_fn_builder(input_files, max_seq_length, max_predictions_per_seq,
                     is_training, num_cpu_threads=4, seed=None, start_step=0,
                     bucket_by_length=False, record_counts=None):
  """Creates an `input_fn` for TPUEstimator.

  Training shuffles and repeats for ever, see `input_utils.train_batches`.
  Evaluation gives every record once, in order; zeros fill up the last batch,
  with `is_real_example` and all weights 0.

  Args:
    input_files: list of paths.
    max_seq_length: int, S.
    max_predictions_per_seq: int, P.
    is_training: bool.
    num_cpu_threads: int, how many files are read, and batches parsed, at once.
    seed: int, for shuffling; None is another order each time.
    start_step: int, how many batches a replica has had before; or a function
      that returns it when the input is built.
    bucket_by_length: bool; batches are cropped to their longest sequence (S is
      then a multiple of 8), those of training are made of similar lengths.
    record_counts: list of ints, the files' numbers of records, needed for
      training; None counts them when the input is built.

  Returns:
    function of params (with "batch_size", of each replica) and input_context.
  """
  specs = _feature_specs(max_seq_length, max_predictions_per_seq)
  compression = compression_type(input_files)

  def parse(records):
    """Parses a whole batch; a TPU has int32 only."""
    features = input_utils.to_int32(tf.parse_example(records, specs))
    if bucket_by_length:
      return input_utils.crop(features, input_utils.SEQUENCES)
    return features

  def lengths(records):
    return input_utils.sequence_lengths(tf.parse_example(
        records, {"input_mask": specs["input_mask"]})["input_mask"])

  def train_dataset(batch_size, worker):
    counts = record_counts or input_utils.count_records(input_files)
    stream_seed = input_utils.any_seed(seed)
    return input_utils.train_batches(
        input_utils.file_epochs(input_files, counts, stream_seed, worker,
                                num_cpu_threads),
        parse, stream_seed, batch_size, worker.num_replicas,
        start_step() if callable(start_step) else start_step,
        num_cpu_threads, lengths if bucket_by_length else None)

  def eval_dataset(batch_size):
    records = tf.data.TFRecordDataset(input_files, compression)
    fill = tf.data.Dataset.from_tensors(
        _padding_record(specs)).repeat(batch_size - 1)
    real = records.map(lambda record: (record, 1))
    padded = real.concatenate(fill.map(lambda record: (record, 0)))

    def parse_with_weight(records, is_real_example):
      return dict(parse(records), is_real_example=is_real_example)

    # A fixed batch size, as TPUs need it; whatever is dropped is padding.
    return padded.batch(batch_size, drop_remainder=True).map(
        parse_with_weight, num_parallel_calls=num_cpu_threads).prefetch(2)

  def input_fn(params, input_context=None):
    if not is_training:
      return eval_dataset(params["batch_size"])
    return train_dataset(params["batch_size"],
                         input_utils.find_worker(input_context))

  return input_fn


def _padding_record(specs):
  """A serialized record of zeros."""
  feature = {}
  for name, spec in specs.items():
    zeros = [0] * spec.shape[0]
    if spec.dtype == tf.float32:
      feature[name] = tf.train.Feature(
          float_list=tf.train.FloatList(value=zeros))
    else:
      feature[name] = tf.train.Feature(
          int64_list=tf.train.Int64List(value=zeros))
  return tf.train.Example(
      features=tf.train.Features(feature=feature)).SerializeToString()


# ------------------------------------------------------------------ the files


def expand_input_files(patterns, flag="input_file"):
  """Expands a comma list of paths and globs.

  Args:
    patterns: string.
    flag: string, name of the flag for messages.

  Returns:
    List of paths.

  Raises:
    ValueError: a pattern matches nothing, or a file is empty.
  """
  paths = []
  for pattern in patterns.split(","):
    matches = sorted(tf.gfile.Glob(pattern.strip()))
    if not matches:
      raise ValueError("--%s: no file matches %s" % (flag, pattern.strip()))
    paths.extend(matches)
  for path in paths:
    if tf.gfile.Stat(path).length == 0:
      raise ValueError("--%s: %s is empty (0 bytes); its writer did not finish"
                       " or had no text; create it again" % (flag, path))
  compression_type(paths)
  return paths


def check_input_files(paths, bert_config, max_seq_length,
                      max_predictions_per_seq, vocab_hash=None):
  """Compares records with the flags and the config, before a graph is built.

  Args:
    paths: list of paths.
    bert_config: BertConfig.
    max_seq_length: int, S.
    max_predictions_per_seq: int, P.
    vocab_hash: string or None, hash of the vocabulary in use.

  Returns:
    List of metadata, one dict (or None) a file.

  Raises:
    ValueError: says what differs.
  """
  all_metadata = []
  for path in paths:
    metadata = read_metadata(path)
    all_metadata.append(metadata)
    if metadata is None:
      tf.logging.warning("%s has no metadata.json beside it: only its first"
                         " record is checked", path)
    else:
      for key, ours, source in (
          ("max_seq_length", max_seq_length, "--max_seq_length is"),
          ("max_predictions_per_seq", max_predictions_per_seq,
           "--max_predictions_per_seq is"),
          ("vocab_size", bert_config.vocab_size, "the model config has"),
          ("vocab_hash", vocab_hash or metadata.get("vocab_hash"),
           "the vocabulary in use has")):
        if metadata.get(key) != ours:
          raise ValueError("%s was made with %s %s, but %s %s" % (
              path, key, metadata.get(key), source, ours))
    _check_first_record(path, bert_config, max_seq_length,
                        max_predictions_per_seq)
  return all_metadata


def _check_first_record(path, bert_config, max_seq_length,
                        max_predictions_per_seq):
  """Checks the lengths and the largest ids of a file's first record."""
  try:
    record = next(iterate_records(path), None)
    example = tf.train.Example.FromString(record or b"")
  except Exception as error:  # noqa: BLE001  protobuf's class is not public
    raise ValueError("%s is not a TFRecord file of examples: %s" % (
        path, getattr(error, "message", error))) from error
  feature = example.features.feature
  for name, flag, length in (
      ("input_ids", "max_seq_length", max_seq_length),
      ("masked_lm_ids", "max_predictions_per_seq", max_predictions_per_seq)):
    if name not in feature:
      raise ValueError("%s is no pre-training data: its first record has no"
                       " feature %s" % (path, name))
    ids = feature[name].int64_list.value
    if len(ids) != length:
      raise ValueError("%s was made with %s %d, but --%s is %d" % (
          path, flag, len(ids), flag, length))
    if max(ids) >= bert_config.vocab_size:
      raise ValueError(
          "%s has the token id %d, but the model config has vocab_size %d" % (
              path, max(ids), bert_config.vocab_size))


def pair_task_of(all_metadata):
  """The sentence-pair task that all files share; "sop" where none is said."""
  tasks = sorted({(metadata or {}).get("sentence_pair_task", "sop")
                  for metadata in all_metadata})
  if len(tasks) > 1:
    raise ValueError("the input files were made for different sentence-pair"
                     " tasks, %s; train on one" % " and ".join(tasks))
  return tasks[0]


def find_vocab_file(vocab_file, paths, bert_config):
  """The vocabulary to keep beside the checkpoints, checked.

  Args:
    vocab_file: path or None; None takes the one that the records were made
      with, by their metadata.
    paths: list of paths of records.
    bert_config: BertConfig.

  Returns:
    (path, hash); (None, None), with a warning, where it cannot be found.
  """
  metadata = read_metadata(paths[0]) or {}
  expected_hash = None
  if not vocab_file:
    vocab_file = metadata.get("vocab_file")
    expected_hash = metadata.get("vocab_hash")
    if not vocab_file or not tf.gfile.Exists(vocab_file):
      checkpoint_utils.check_wordpiece(None, bert_config)
      tf.logging.warning("no vocabulary is kept beside the checkpoints: give"
                         " the records' one by --vocab_file")
      return None, None
  checkpoint_utils.check_wordpiece(vocab_file, bert_config)
  vocab = tokenization.load_vocab(vocab_file)
  tokenization.validate_vocab(vocab, bert_config.vocab_size, vocab_file)
  vocab_hash = tokenization.vocab_hash(vocab)
  if expected_hash not in (None, vocab_hash):
    raise ValueError("%s has changed since %s was made from it; make the"
                     " records again or give the old one by --vocab_file" % (
                         vocab_file, paths[0]))
  return vocab_file, vocab_hash


# ----------------------------------------------------------------------- main


def evaluate(tpu_estimator, input_files, options, pair_task, is_train_data,
             interruption=None):
  """Evaluates the latest checkpoint on every record and writes the results.

  Args:
    tpu_estimator: TPUEstimator.
    input_files: list of paths.
    options: object with the flags as attributes.
    pair_task: "sop", "nsp" or "none", which has no loss of its own.
    is_train_data: bool, whether these are the files trained on.
    interruption: training_hooks.Interruption or None; a signal ends the
      process then, without results.

  Returns:
    dict of results, as written to `eval_results.json`.
  """
  checkpoint = tf.train.latest_checkpoint(options.output_dir)
  if checkpoint is None and options.init_checkpoint is None:
    raise bert_utils.InputError(
        "--do_eval: there is no checkpoint in --output_dir %s and no"
        " --init_checkpoint" % options.output_dir)
  batch_size = options.eval_batch_size
  num_records = sum(input_utils.count_records(input_files))
  steps = -(-num_records // batch_size)
  if options.max_eval_steps:
    steps = min(steps, options.max_eval_steps)
  tf.logging.info("***** Running evaluation: %d records, batch size %d, %d"
                  " steps *****", num_records, batch_size, steps)
  hooks = []
  if interruption:
    hooks.append(training_hooks.InterruptionHook(interruption))
  results = tpu_estimator.evaluate(
      input_fn=input_fn_builder(
          input_files, options.max_seq_length,
          options.max_predictions_per_seq, is_training=False,
          bucket_by_length=options.bucket_by_length),
      steps=steps, hooks=hooks)
  if interruption:
    interruption.exit(options.output_dir)
  # The Estimator's mean over batches counts a partial one in full.
  results["loss"] = results["masked_lm_loss"]
  if pair_task != "none":
    results["loss"] += results["next_sentence_loss"]
  results.update(
      checkpoint=checkpoint or options.init_checkpoint,
      eval_files=",".join(input_files),
      eval_records=min(num_records, steps * batch_size),
      evaluated_on_training_files=is_train_data)
  checkpoint_utils.write_results(options.output_dir, "eval_results", results)
  for key in sorted(results):
    tf.logging.info("  %s = %s", key, results[key])
  return results


def train(tpu_estimator, input_files, options, best=None, evaluate_fn=None):
  """Trains up to `num_train_steps`, with evaluations on the way if need be.

  Between two evaluations is one training: as a training goes on exactly where
  the last one ended, these together make the weights that one alone makes.

  Args:
    tpu_estimator: TPUEstimator.
    input_files: list of paths.
    options: object with the flags as attributes.
    best: training_hooks.BestCheckpoint, with --eval_every_steps, or None.
    evaluate_fn: function of a training_hooks.Interruption, returns the results
      of the latest checkpoint.

  Raises:
    InputError: there is nothing to train.
    Stopped: a signal has ended the training.
  """
  counts = input_utils.count_records(input_files)
  step, latest = checkpoint_utils.latest_step(options.output_dir)
  lines = training_hooks.describe_run(
      latest, options.init_checkpoint, step, options.num_train_steps,
      options.train_batch_size, sum(counts), options.learning_rate,
      options.optimizer, options.num_warmup_steps,
      training_hooks.batch_parts(options))
  if best and best.last_step < step and (
      step % options.eval_every_steps == 0 or step >= options.num_train_steps):
    # A process ended between this checkpoint and its evaluation.
    with training_hooks.catch_signals() as interruption:
      best.add(step, latest, evaluate_fn(interruption))
  message = _nothing_to_train(step, latest, options, best)
  if message:
    if not options.do_eval:
      raise bert_utils.InputError(message)
    tf.logging.warning(message)
    return
  with training_hooks.catch_signals() as interruption:
    while step < options.num_train_steps and not (best and best.should_stop()):
      end = options.num_train_steps
      if best:
        every = options.eval_every_steps
        end = min(end, (step // every + 1) * every)
      _train_until(end, step, latest, lines, tpu_estimator, input_files, counts,
                   options, interruption)
      if not estimator_utils.is_chief():
        return  # the chief may not have written its last checkpoint yet
      step, latest = checkpoint_utils.latest_step(options.output_dir)
      lines = None
      if best:
        best.add(step, latest, evaluate_fn(interruption))
  if best:
    tf.logging.info("%s; the best checkpoint, in %s, has %s", (
        "stopped early" if best.should_stop() else "training has ended"),
        os.path.join(options.output_dir, checkpoint_utils.BEST_FOLDER),
        best.describe())


def _nothing_to_train(step, latest, options, best):
  """Why there is nothing to train, in words; None where there is."""
  if step >= options.num_train_steps:
    return ("nothing to train: %s is at step %d and --num_train_steps is %d;"
            " ask for more steps or another --output_dir" % (
                latest, step, options.num_train_steps))
  if best and best.should_stop():
    return ("nothing to train: the run was stopped early at step %d, %d"
            " evaluations after its best, %s; ask for more"
            " --early_stopping_evals or another --output_dir" % (
                step, options.early_stopping_evals, best.describe()))
  return None


def _train_until(end, step, latest, lines, tpu_estimator, input_files, counts,
                 options, interruption):
  """One training, from the latest checkpoint to `end`."""
  hooks = [training_hooks.StartHook(lines, step)]
  hooks += training_hooks.make_hooks(
      LOGGED, options, options.num_train_steps, options.train_batch_size,
      options.max_seq_length, sum(counts) / options.train_batch_size,
      interruption, estimator_utils.is_chief())
  with training_hooks.exit_if_told(interruption, options.output_dir):
    tpu_estimator.train(
        input_fn=input_fn_builder(
            input_files, options.max_seq_length,
            options.max_predictions_per_seq, is_training=True,
            seed=options.seed,
            start_step=checkpoint_utils.batches_read(latest),
            bucket_by_length=options.bucket_by_length, record_counts=counts),
        max_steps=end, hooks=hooks)


def _check_evaluation_flags():
  """Raises a ValueError for flags on evaluation that cannot work."""
  if not FLAGS.eval_every_steps:
    for flag in ("early_stopping_evals", "best_metric"):
      if FLAGS[flag].present:
        raise ValueError("--%s needs --eval_every_steps, how often to evaluate"
                         " while training" % flag)
    return
  if not FLAGS.do_train:
    raise ValueError("--eval_every_steps evaluates while training, but"
                     " --do_train is not given; --do_eval evaluates once")
  if not FLAGS.eval_input_file:
    raise ValueError("--eval_every_steps needs --eval_input_file: the best"
                     " checkpoint is not found on the training files")
  if estimator_utils.read_cluster():
    raise ValueError(
        "--eval_every_steps evaluates in the process that trains, which several"
        " workers (TF_CONFIG) cannot; run --do_eval in a process without"
        " TF_CONFIG on the checkpoints")


def _resolve_learning_rate():
  """Sets --learning_rate=auto to the rate of LAMB's rule.

  0.00176 * sqrt(batch / 4096): the square-root scaling of You et al.,
  https://arxiv.org/abs/1904.00962, through the rate that google-research/albert
  and albert_zh have for a batch of 4096.
  """
  if FLAGS.learning_rate != AUTO:
    return
  if not FLAGS.optimizer.startswith("lamb"):
    raise ValueError("--learning_rate=auto is LAMB's rule, but --optimizer is"
                     " %s; give its rate as a number" % FLAGS.optimizer)
  FLAGS.learning_rate = 0.00176 * (FLAGS.train_batch_size / 4096.0) ** 0.5
  tf.logging.info("--learning_rate=auto: 0.00176 * sqrt(%d / 4096) = %g",
                  FLAGS.train_batch_size, FLAGS.learning_rate)


def _check_flags():
  """Checks flags, config and files; returns all that `main` needs."""
  if not FLAGS.do_train and not FLAGS.do_eval:
    raise ValueError("at least one of --do_train and --do_eval must be given")
  input_utils.check_bucket_flags(FLAGS)
  _check_evaluation_flags()
  _resolve_learning_rate()
  bert_config = modeling.BertConfig.from_json_file(FLAGS.bert_config_file)
  bert_config.validate()
  if FLAGS.max_seq_length > bert_config.max_position_embeddings:
    raise ValueError(
        "--max_seq_length %d is more than max_position_embeddings %d in %s" % (
            FLAGS.max_seq_length, bert_config.max_position_embeddings,
            FLAGS.bert_config_file))
  if FLAGS.do_train and FLAGS.start_warmup_step >= FLAGS.num_train_steps:
    raise ValueError(
        "--start_warmup_step %d is not less than --num_train_steps %d: the rate"
        " would be 0 all along" % (FLAGS.start_warmup_step,
                                   FLAGS.num_train_steps))
  if FLAGS.do_train and FLAGS.num_warmup_steps >= FLAGS.num_train_steps:
    tf.logging.warning(
        "--num_warmup_steps %d is not less than --num_train_steps %d: the"
        " learning rate never gets to %g; a tenth of the steps is usual",
        FLAGS.num_warmup_steps, FLAGS.num_train_steps, FLAGS.learning_rate)
  estimator_utils.check_tpu_flags(
      FLAGS.use_tpu, FLAGS.tpu_name, FLAGS.master,
      {"output_dir": FLAGS.output_dir, "input_file": FLAGS.input_file,
       "eval_input_file": FLAGS.eval_input_file,
       "init_checkpoint": FLAGS.init_checkpoint})
  estimator_utils.check_devices(FLAGS)
  checkpoint_utils.check_plain_path("output_dir", FLAGS.output_dir)
  FLAGS.init_checkpoint = checkpoint_utils.check_init_checkpoint(
      FLAGS.init_checkpoint)
  checkpoint_utils.check_init_config(
      bert_config, FLAGS.init_checkpoint, FLAGS.allow_partial_init,
      FLAGS.init_from_group0, FLAGS.grow_vocab)
  checkpoint_utils.check_resume_config(bert_config, FLAGS.output_dir)
  if FLAGS.do_train:
    checkpoint_utils.check_resume_optimizer(FLAGS.optimizer, FLAGS.precision,
                                            FLAGS.output_dir)
  train_files = expand_input_files(FLAGS.input_file)
  eval_files = train_files
  if FLAGS.eval_input_file:
    eval_files = expand_input_files(FLAGS.eval_input_file, "eval_input_file")
  vocab_file, vocab_hash = find_vocab_file(FLAGS.vocab_file, train_files,
                                           bert_config)
  used_files = list(collections.OrderedDict.fromkeys(
      (train_files if FLAGS.do_train else []) +
      (eval_files if FLAGS.do_eval or FLAGS.eval_every_steps else [])))
  all_metadata = check_input_files(
      used_files, bert_config, FLAGS.max_seq_length,
      FLAGS.max_predictions_per_seq, vocab_hash)
  return bert_config, train_files, eval_files, vocab_file, all_metadata


def main(arguments):
  estimator_utils.set_up_logging()
  with estimator_utils.exit_on(estimator_utils.BAD_INPUT):
    estimator_utils.check_no_arguments(arguments)
    (bert_config, train_files, eval_files, vocab_file,
     all_metadata) = _check_flags()
    pair_task = pair_task_of(all_metadata)
    best = None
    if FLAGS.eval_every_steps:
      best = training_hooks.BestCheckpoint(
          FLAGS.output_dir, FLAGS.best_metric, FLAGS.early_stopping_evals)
    if estimator_utils.is_chief():
      checkpoint_utils.prepare_output_dir(FLAGS.output_dir, bert_config,
                                         vocab_file)
      checkpoint_utils.copy_beside(
          os.path.join(os.path.dirname(train_files[0]), "metadata.json"),
          FLAGS.output_dir)

  tpu_estimator = estimator_utils.make_estimator(
      model_fn_builder(
          bert_config, FLAGS.init_checkpoint, FLAGS.learning_rate,
          FLAGS.num_train_steps, FLAGS.num_warmup_steps, FLAGS.use_tpu,
          use_one_hot_embeddings=FLAGS.use_tpu, optimizer=FLAGS.optimizer,
          poly_power=FLAGS.poly_power,
          start_warmup_step=FLAGS.start_warmup_step,
          use_next_sentence_loss=pair_task != "none",
          allow_partial_init=FLAGS.allow_partial_init,
          init_from_group0=FLAGS.init_from_group0,
          grow_vocab=FLAGS.grow_vocab,
          **estimator_utils.model_options(FLAGS)),
      FLAGS, FLAGS.train_batch_size, FLAGS.eval_batch_size)
  is_train_data = bool(set(eval_files) & set(train_files)) and (
      FLAGS.do_train or not FLAGS.eval_input_file)

  def evaluate_latest(interruption=None):
    if is_train_data:
      tf.logging.warning(
          "evaluating on the training files: these figures say how well the"
          " model fits them, not how good it is; give --eval_input_file")
    return evaluate(tpu_estimator, eval_files, FLAGS, pair_task, is_train_data,
                    interruption)

  with estimator_utils.exit_on(estimator_utils.BAD_RUN):
    if FLAGS.do_train:
      train(tpu_estimator, train_files, FLAGS, best, evaluate_latest)
    if FLAGS.do_eval and estimator_utils.is_chief():
      evaluate_latest()


def define_flags():
  """Defines this script's flags."""
  estimator_utils.define_flags()
  flags.adopt_module_key_flags(estimator_utils)  # so that --help has them
  flags.DEFINE_string("input_file", None,
                      "TFRecord files (comma list of paths or globs).")
  flags.DEFINE_string("eval_input_file", None,
                      "TFRecord files for evaluation; default --input_file.")
  flags.DEFINE_string("vocab_file", None,
                      "Vocabulary to check and keep beside the checkpoints;"
                      " default the one beside the records.")
  flags.DEFINE_integer("max_seq_length", 128,
                       "Length of a sequence; as in the records.",
                       lower_bound=5)
  flags.DEFINE_integer("max_predictions_per_seq", 20,
                       "Most predictions a sequence; as in the records.",
                       lower_bound=1)
  flags.DEFINE_bool("do_train", False, "Whether to train.")
  flags.DEFINE_bool("do_eval", False, "Whether to evaluate.")
  flags.DEFINE_integer("train_batch_size", 32, "Global batch for training.",
                       lower_bound=1)
  flags.DEFINE_integer("eval_batch_size", 8, "Global batch for evaluation.",
                       lower_bound=1)
  flags.DEFINE_enum("optimizer", "lamb", optimization.OPTIMIZERS,
                    "Optimizer; lamb is albert_zh's variant.")
  flags.DEFINE(estimator_utils.RateParser(AUTO), "learning_rate", 1.5e-4,
               "Highest learning rate; \"auto\" is LAMB's rule,"
               " 0.00176 * sqrt(batch / 4096).")
  flags.DEFINE_float("poly_power", 1.0, "Exponent of the rate's decay.",
                     lower_bound=0.0)
  flags.DEFINE_integer("num_train_steps", 100000, "Step to train to.",
                       lower_bound=1)
  flags.DEFINE_integer("num_warmup_steps", 10000, "Steps of warm-up.",
                       lower_bound=0)
  flags.DEFINE_integer("start_warmup_step", 0, "Step where warm-up starts.",
                       lower_bound=0)
  flags.DEFINE_integer("eval_every_steps", 0,
                       "Evaluate on --eval_input_file after every so many steps"
                       " and keep the best checkpoint; 0 does not.",
                       lower_bound=0)
  flags.DEFINE_enum("best_metric", "masked_lm_accuracy",
                    sorted(training_hooks.BEST_METRICS),
                    "Which metric says what the best checkpoint is.")
  flags.DEFINE_integer("early_stopping_evals", 0,
                       "Stop after so many evaluations without a better one; 0"
                       " does not.", lower_bound=0)
  flags.DEFINE_integer("max_eval_steps", 0,
                       "Most evaluation steps; 0 evaluates every record.",
                       lower_bound=0)
  flags.mark_flags_as_required(["input_file", "bert_config_file",
                                "output_dir"])


if __name__ == "__main__":
  define_flags()
  app.run(main)
