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
import json
import os

from absl import app
from absl import flags
import tensorflow.compat.v1 as tf

import bert_utils
from bert_utils import gather_indexes
import checkpoint_utils
import estimator_utils
import modeling
import optimization
import tokenization
import training_hooks

FLAGS = flags.FLAGS

LOGGED = ("loss", "masked_lm_loss", "masked_lm_accuracy",
          "next_sentence_loss", "next_sentence_accuracy", "learning_rate",
          "gradient_norm")


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


def _weighted_mean(values, weights):
  return tf.reduce_sum(values * weights) / (tf.reduce_sum(weights) + 1e-5)


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


def model_fn_builder(bert_config, init_checkpoint, learning_rate,
                     num_train_steps, num_warmup_steps, use_tpu,
                     use_one_hot_embeddings, optimizer="lamb", poly_power=1.0,
                     start_warmup_step=0, use_next_sentence_loss=True,
                     allow_partial_init=False, init_from_group0=False,
                     grow_vocab=False):
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

  Returns:
    function of (features, labels, mode, params).
  """

  def model_fn(features, labels, mode, params):
    """Builds the graph of one mode."""
    del labels, params
    is_training = mode == estimator_utils.estimator.ModeKeys.TRAIN
    model = modeling.BertModel(
        config=bert_config,
        is_training=is_training,
        input_ids=features["input_ids"],
        input_mask=features["input_mask"],
        token_type_ids=features["segment_ids"],
        use_one_hot_embeddings=use_one_hot_embeddings,
        output_positions=features["masked_lm_positions"])
    masked_lm = get_masked_lm_output(
        bert_config, model.get_output_at_positions(),
        model.get_embedding_table(), model.get_embedding_table_2(), None,
        features["masked_lm_ids"], features["masked_lm_weights"])
    next_sentence = get_next_sentence_output(
        bert_config, model.get_pooled_output(),
        features["next_sentence_labels"], _real_examples(features))
    total_loss = masked_lm.loss
    if use_next_sentence_loss:
      total_loss += next_sentence.loss
    scaffold_fn = checkpoint_utils.init_from_checkpoint(
        init_checkpoint, use_tpu, allow_partial_init, init_from_group0,
        grow_vocab)
    estimator_utils.log_trainable_variables()
    metrics = _metric_values(features, masked_lm, next_sentence)
    if not is_training:
      return _eval_spec(mode, total_loss, metrics, scaffold_fn)

    train = optimization.build_train_op(
        total_loss, learning_rate, num_train_steps, num_warmup_steps, use_tpu,
        optimizer, poly_power, start_warmup_step)
    if not use_tpu:
      logged = {name: _weighted_mean(*metric)
                for name, metric in metrics.items()}
      logged.update(loss=total_loss, learning_rate=train.learning_rate,
                    gradient_norm=train.gradient_norm)
      training_hooks.publish(logged)
    return estimator_utils.estimator.tpu.TPUEstimatorSpec(
        mode=mode, loss=total_loss, train_op=train.train_op,
        scaffold_fn=scaffold_fn)

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
                     is_training, num_cpu_threads=4, seed=None):
  """Creates an `input_fn` for TPUEstimator.

  Training shuffles and repeats for ever. Evaluation gives every record once,
  in order; zeros fill up the last batch, with `is_real_example` and all
  weights 0.

  Args:
    input_files: list of paths.
    max_seq_length: int, S.
    max_predictions_per_seq: int, P.
    is_training: bool.
    num_cpu_threads: int, how many files are read, and batches parsed, at once.
    seed: int or None, for shuffling.

  Returns:
    function of params (with "batch_size").
  """
  specs = _feature_specs(max_seq_length, max_predictions_per_seq)
  compression = compression_type(input_files)

  def parse(records):
    """Parses a whole batch; a TPU has int32 only."""
    features = tf.parse_example(records, specs)
    return {name: tf.cast(tensor, tf.int32)
            if tensor.dtype == tf.int64 else tensor
            for name, tensor in features.items()}

  def train_dataset(batch_size):
    files = tf.data.Dataset.from_tensor_slices(tf.constant(input_files))
    files = files.repeat().shuffle(len(input_files), seed=seed)
    records = files.interleave(
        lambda path: tf.data.TFRecordDataset(path, compression),
        cycle_length=min(num_cpu_threads, len(input_files)))
    # Records are kept in their serialized form: a few kilobytes each.
    records = records.shuffle(10000, seed=seed)
    return records.batch(batch_size, drop_remainder=True).map(
        parse, num_parallel_calls=num_cpu_threads)

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
        parse_with_weight, num_parallel_calls=num_cpu_threads)

  def input_fn(params):
    dataset = (train_dataset if is_training else eval_dataset)(
        params["batch_size"])
    return dataset.prefetch(2)

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


def compression_type(paths):
  """How TFRecord files are compressed, by their first bytes.

  Args:
    paths: list of paths.

  Returns:
    "GZIP" or "".

  Raises:
    ValueError: some are and some are not; they are not read together.
  """
  compressed = []
  for path in paths:
    with tf.gfile.GFile(path, "rb") as reader:
      compressed.append(reader.read(3) == b"\x1f\x8b\x08")
  if len(set(compressed)) > 1:
    raise ValueError("%s is compressed and %s is not; give files of one kind" % (
        paths[compressed.index(True)], paths[compressed.index(False)]))
  return "GZIP" if compressed[0] else ""


def _iterate_records(path):
  """The records of a TFRecord file, one by one."""
  return tf.python_io.tf_record_iterator(
      path, tf.python_io.TFRecordOptions(
          tf.python_io.TFRecordCompressionType.GZIP if compression_type([path])
          else tf.python_io.TFRecordCompressionType.NONE))


def read_metadata(path):
  """The metadata of a TFRecord file, or None where there is none.

  Args:
    path: path of the TFRecord file; `metadata.json` is in its folder.

  Returns:
    dict or None.

  Raises:
    ValueError: the metadata file is of another kind.
  """
  metadata_path = os.path.join(os.path.dirname(path), "metadata.json")
  if not tf.gfile.Exists(metadata_path):
    return None
  try:
    with tf.gfile.GFile(metadata_path, "r") as reader:
      newest = json.loads(reader.read())
    for entry in [newest] + newest.get("other_data_sets", []):
      if os.path.basename(path) in entry.get("files", []):
        return entry
  except (ValueError, TypeError, AttributeError) as error:
    raise ValueError(
        "%s is not a file that create_pretraining_data.py wrote (%s); move it"
        " away, and the records are checked by their first one" % (
            metadata_path, error)) from error
  return None


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
    record = next(_iterate_records(path), None)
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


def evaluate(tpu_estimator, input_files, options, pair_task, is_train_data):
  """Evaluates the latest checkpoint on every record and writes the results.

  Args:
    tpu_estimator: TPUEstimator.
    input_files: list of paths.
    options: object with the flags as attributes.
    pair_task: "sop", "nsp" or "none", which has no loss of its own.
    is_train_data: bool, whether these are the files trained on.

  Returns:
    dict of results, as written to `eval_results.json`.
  """
  checkpoint = tf.train.latest_checkpoint(options.output_dir)
  if checkpoint is None and options.init_checkpoint is None:
    raise bert_utils.InputError("--do_eval: there is no checkpoint in --output_dir %s and"
                     " no --init_checkpoint" % options.output_dir)
  batch_size = options.eval_batch_size
  num_records = sum(1 for path in input_files
                    for _ in _iterate_records(path))
  steps = -(-num_records // batch_size)
  if options.max_eval_steps:
    steps = min(steps, options.max_eval_steps)
  tf.logging.info("***** Running evaluation: %d records, batch size %d, %d"
                  " steps *****", num_records, batch_size, steps)
  results = tpu_estimator.evaluate(
      input_fn=input_fn_builder(
          input_files, options.max_seq_length,
          options.max_predictions_per_seq, is_training=False),
      steps=steps)
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


def train(tpu_estimator, input_files, options, num_records):
  """Trains up to `num_train_steps`."""
  steps_per_epoch = (num_records / options.train_batch_size
                     if num_records else None)
  latest = tf.train.latest_checkpoint(options.output_dir)
  step = checkpoint_utils.checkpoint_step(latest) if latest else 0
  source = latest or options.init_checkpoint or "initial weights"
  tf.logging.info(
      "***** Running training from %s, step %d, to step %d; batch size %d, %s"
      " records *****", source, step, options.num_train_steps,
      options.train_batch_size, num_records or "an unknown number of")
  if step >= options.num_train_steps:
    message = ("nothing to train: %s is at step %d and --num_train_steps is"
               " %d; ask for more steps or another --output_dir" % (
                   latest, step, options.num_train_steps))
    if not options.do_eval:
      raise bert_utils.InputError(message)
    tf.logging.warning(message)
    return
  hooks = training_hooks.make_hooks(
      LOGGED, options, options.num_train_steps, options.train_batch_size,
      options.max_seq_length, steps_per_epoch)
  tpu_estimator.train(
      input_fn=input_fn_builder(
          input_files, options.max_seq_length,
          options.max_predictions_per_seq, is_training=True,
          seed=options.seed),
      max_steps=options.num_train_steps, hooks=hooks)


def _check_flags():
  """Checks flags, config and files; returns all that `main` needs."""
  if not FLAGS.do_train and not FLAGS.do_eval:
    raise ValueError("at least one of --do_train and --do_eval must be given")
  bert_config = modeling.BertConfig.from_json_file(FLAGS.bert_config_file)
  bert_config.validate()
  if FLAGS.max_seq_length > bert_config.max_position_embeddings:
    raise ValueError(
        "--max_seq_length %d is more than max_position_embeddings %d in %s" % (
            FLAGS.max_seq_length, bert_config.max_position_embeddings,
            FLAGS.bert_config_file))
  if FLAGS.do_train and FLAGS.num_warmup_steps >= FLAGS.num_train_steps:
    tf.logging.warning(
        "--num_warmup_steps %d is not less than --num_train_steps %d: the"
        " learning rate never gets to %g; a tenth of the steps is usual",
        FLAGS.num_warmup_steps, FLAGS.num_train_steps, FLAGS.learning_rate)
  estimator_utils.check_tpu_flags(
      FLAGS.use_tpu, FLAGS.tpu_name, FLAGS.master,
      {"output_dir": FLAGS.output_dir, "input_file": FLAGS.input_file,
       "init_checkpoint": FLAGS.init_checkpoint})
  FLAGS.init_checkpoint = checkpoint_utils.check_init_checkpoint(
      FLAGS.init_checkpoint)
  checkpoint_utils.check_init_config(
      bert_config, FLAGS.init_checkpoint, FLAGS.allow_partial_init,
      FLAGS.init_from_group0, FLAGS.grow_vocab)
  checkpoint_utils.check_resume_config(bert_config, FLAGS.output_dir)
  train_files = expand_input_files(FLAGS.input_file)
  eval_files = train_files
  if FLAGS.eval_input_file:
    eval_files = expand_input_files(FLAGS.eval_input_file, "eval_input_file")
  vocab_file, vocab_hash = find_vocab_file(FLAGS.vocab_file, train_files,
                                           bert_config)
  used_files = list(collections.OrderedDict.fromkeys(
      (train_files if FLAGS.do_train else []) +
      (eval_files if FLAGS.do_eval else [])))
  all_metadata = check_input_files(
      used_files, bert_config, FLAGS.max_seq_length,
      FLAGS.max_predictions_per_seq, vocab_hash)
  return bert_config, train_files, eval_files, vocab_file, all_metadata


def _num_records(all_metadata, paths):
  """Number of records of the training files; None if metadata lack it."""
  sets = {}
  for metadata in all_metadata[:len(paths)]:
    if metadata is None or "instances" not in metadata:
      return None
    sets[tuple(metadata["files"])] = metadata["instances"]
  named = sum(len(files) for files in sets)
  return sum(sets.values()) if named == len(paths) else None


def main(arguments):
  estimator_utils.set_up_logging()
  with estimator_utils.exit_on(estimator_utils.BAD_INPUT):
    estimator_utils.check_no_arguments(arguments)
    (bert_config, train_files, eval_files, vocab_file,
     all_metadata) = _check_flags()
    pair_task = pair_task_of(all_metadata)
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
          grow_vocab=FLAGS.grow_vocab),
      FLAGS, FLAGS.train_batch_size, FLAGS.eval_batch_size)
  with estimator_utils.exit_on(estimator_utils.BAD_RUN):
    if FLAGS.do_train:
      train(tpu_estimator, train_files, FLAGS,
            _num_records(all_metadata, train_files))
    if FLAGS.do_eval:
      is_train_data = bool(set(eval_files) & set(train_files)) and (
          FLAGS.do_train or not FLAGS.eval_input_file)
      if is_train_data:
        tf.logging.warning(
            "evaluating on the training files: these figures say how well the"
            " model fits them, not how good it is; give --eval_input_file")
      evaluate(tpu_estimator, eval_files, FLAGS, pair_task, is_train_data)


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
  flags.DEFINE_float("learning_rate", 1.5e-4,
                     "Highest learning rate. LAMB's rule is"
                     " 0.00176 * sqrt(batch / 4096).")
  flags.DEFINE_float("poly_power", 1.0, "Exponent of the rate's decay.")
  flags.DEFINE_integer("num_train_steps", 100000, "Step to train to.",
                       lower_bound=1)
  flags.DEFINE_integer("num_warmup_steps", 10000, "Steps of warm-up.",
                       lower_bound=0)
  flags.DEFINE_integer("start_warmup_step", 0, "Step where warm-up starts.",
                       lower_bound=0)
  flags.DEFINE_integer("max_eval_steps", 0,
                       "Most evaluation steps; 0 evaluates every record.",
                       lower_bound=0)
  flags.mark_flags_as_required(["input_file", "bert_config_file",
                                "output_dir"])


if __name__ == "__main__":
  define_flags()
  app.run(main)
