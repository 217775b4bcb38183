"""The fine-tuned model: encoder, head, losses and the Estimator's `model_fn`.

Whoever fine-tunes takes them from `run_classifier.py`, as in the peers' module.
"""

import collections

from absl import flags
import tensorflow.compat.v1 as tf

import bert_utils
import checkpoint_utils
import classifier_tasks
import estimator_utils
import modeling
from modeling import layer_norm
import optimization
import training_hooks

# Its per_example_loss is, with class weights, times the example's weight.
ClassifierOutput = collections.namedtuple(
    "ClassifierOutput",
    ["loss", "per_example_loss", "logits", "probabilities"])

# What changes the model or what it is trained for; by default, nothing.
# use_pooled_output: bool, see `_summary`.
# class_weights: tuple of floats in label order, or None; see `example_weights`.
# label_smoothing: float, see `task_losses`.
# rdrop_alpha: float, weight of the distance between two dropouts of an
#   example, see `rdrop_losses`; 0 is off.
# fgm_epsilon: float, how far word embeddings are moved against the loss, see
#   `optimization.build_train_op`; 0 is off.
Head = collections.namedtuple(
    "Head", ["use_pooled_output", "class_weights", "label_smoothing",
             "rdrop_alpha", "fgm_epsilon"],
    defaults=(True, None, 0.0, 0.0, 0.0))
PLAIN_HEAD = Head()

_FROZEN = ("bert/embeddings/", "bert/encoder/")


# ------------------------------------------------------------------ the model


def create_model(bert_config, is_training, input_ids, input_mask, segment_ids,
                 labels, num_labels, use_one_hot_embeddings,
                 compute_dtype=tf.float32, dropout_seed=None,
                 recompute_activations=False, task_type="single",
                 head=PLAIN_HEAD, compile_gelu=False):
  """Builds encoder and classification head.

  Class weights, label smoothing and R-Drop belong to training: without it, the
  loss is the plain one, so that those of different settings can be compared.

  Args:
    bert_config: BertConfig.
    is_training: bool.
    input_ids: int32 Tensor [B, S].
    input_mask: int32 Tensor [B, S].
    segment_ids: int32 Tensor [B, S].
    labels: of the type "single" int32 Tensor [B], "multi" [B, L] of 0 and 1,
      "regression" float32 Tensor [B]; or None when predicting.
    num_labels: int, L; 1 for regression.
    use_one_hot_embeddings: bool.
    compute_dtype: type of the encoder's products, see `modeling.BertModel`;
      so are the two below.
    dropout_seed: int32 Tensor [2], or None.
    recompute_activations: bool.
    task_type: string in `classifier_tasks.TASK_TYPES`.
    head: Head.
    compile_gelu: bool, see `modeling.BertModel`.

  Returns:
    ClassifierOutput: loss (mean, scalar) and per_example_loss [B], both None
    without labels; logits and probabilities [B, L]. Probabilities of the type
    "multi" are each label's own, and of "regression" the plain value. With
    R-Drop, logits and probabilities are the first pass's.
  """
  if not is_training:
    head = Head(use_pooled_output=head.use_pooled_output)
  twice = head.rdrop_alpha > 0 and labels is not None
  if twice:
    input_ids, input_mask, segment_ids = [
        tf.concat([tensor, tensor], axis=0)  # [2 * B, S]
        for tensor in (input_ids, input_mask, segment_ids)]
  batch_size = bert_utils.get_shape_list(input_ids)[0]
  model = modeling.BertModel(
      config=bert_config,
      is_training=is_training,
      input_ids=input_ids,
      input_mask=input_mask,
      token_type_ids=segment_ids,
      use_one_hot_embeddings=use_one_hot_embeddings,
      compute_dtype=compute_dtype,
      # Only the first token is read, or else all are.
      output_positions=(tf.zeros([batch_size, 0], tf.int32)
                        if head.use_pooled_output else None),
      dropout_seed=dropout_seed,
      recompute_activations=recompute_activations,
      compile_gelu=compile_gelu)
  output_layer = _summary(model, input_mask, head.use_pooled_output)
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
    if twice:
      logits, second_logits = tf.split(logits, 2, axis=0)
    probabilities = _probabilities(logits, task_type)
    if labels is None:
      return ClassifierOutput(None, None, logits, probabilities)
    if twice:
      per_example_loss = rdrop_losses(logits, second_logits, labels, task_type,
                                      head)
    else:
      per_example_loss = task_losses(logits, labels, task_type, head)
    weights = example_weights(labels, task_type, head)
    if weights is None:
      loss = tf.reduce_mean(per_example_loss)
    else:
      per_example_loss *= weights
      loss = tf.reduce_sum(per_example_loss) / tf.reduce_sum(weights)
    return ClassifierOutput(loss, per_example_loss, logits, probabilities)


def _summary(model, input_mask, use_pooled_output):
  """What the head reads: float32 Tensor [B, H].

  Without the pooled output, it is the mean of the last layer's tokens, [CLS]
  and [SEP] among them. Google's runner takes the mean over the padding too:
  what it gives for a text depends on the length that the text is padded to, and
  so would it on the batch where batches are made by length. Here it does not.
  The pooler's variables are there all the same, as checkpoints have them.
  """
  if use_pooled_output:
    return model.get_pooled_output()
  tokens = tf.cast(model.get_sequence_output(), tf.float32)  # [B, S, H]
  is_real = tf.expand_dims(tf.cast(input_mask, tf.float32), axis=-1)
  # Examples that only fill up a batch have no token.
  counts = tf.maximum(tf.reduce_sum(is_real, axis=1), 1.0)  # [B, 1]
  return tf.reduce_sum(tokens * is_real, axis=1) / counts


def _probabilities(logits, task_type):
  """What is predicted of logits [B, L]: of the same shape."""
  if task_type == "single":
    return tf.nn.softmax(logits, axis=-1)
  return tf.sigmoid(logits) if task_type == "multi" else tf.identity(logits)


# ------------------------------------------------------------------- the loss


def task_losses(logits, labels, task_type="single", head=PLAIN_HEAD):
  """The loss of each example, without its weight and R-Drop.

  "single": softmax cross-entropy. Label smoothing a (Szegedy et al., section 7,
  https://arxiv.org/abs/1512.00567) puts a / L on each label and 1 - a more on
  the right one. "multi": the mean over the labels of the sigmoid cross-entropy,
  weighted by the class weights; smoothing makes (1 - a) y + a / 2 of y, as
  `tf.losses.sigmoid_cross_entropy` does. "regression": squared error.

  Args:
    logits: float32 Tensor [B, L].
    labels: Tensor, as `create_model` has them.
    task_type: string in `classifier_tasks.TASK_TYPES`.
    head: Head.

  Returns:
    float32 Tensor [B].
  """
  smoothing = head.label_smoothing
  if task_type == "regression":
    return tf.square(tf.squeeze(logits, axis=-1) - labels)
  if task_type == "multi":
    targets = tf.cast(labels, tf.float32)
    if smoothing:
      targets = (1.0 - smoothing) * targets + 0.5 * smoothing
    return _mean_over_labels(tf.nn.sigmoid_cross_entropy_with_logits(
        labels=targets, logits=logits), head)
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
      labels=labels, logits=logits)
  if smoothing:
    uniform = -tf.reduce_mean(tf.nn.log_softmax(logits), axis=-1)
    losses = (1.0 - smoothing) * losses + smoothing * uniform
  return losses


def _mean_over_labels(values, head):
  """Mean [B] of values [B, L], weighted where there are class weights."""
  if head.class_weights is None:
    return tf.reduce_mean(values, axis=-1)
  weights = tf.constant(head.class_weights, tf.float32)
  return tf.reduce_sum(values * weights, axis=-1) / tf.reduce_sum(weights)


def example_weights(labels, task_type="single", head=PLAIN_HEAD):
  """What each example counts in the mean, by its label's class weight.

  The loss of a batch is sum(w l) / sum(w), as PyTorch's CrossEntropyLoss has
  it: only the ratios of the weights matter. (Keras divides by the number of
  examples: there, weights change the size of all gradients too.) Weights of a
  multi-label task are those of the labels' mean, and examples count the same.

  Args:
    labels: int32 Tensor [B].
    task_type: string in `classifier_tasks.TASK_TYPES`.
    head: Head.

  Returns:
    float32 Tensor [B], or None where all count the same.
  """
  if head.class_weights is None or task_type != "single":
    return None
  return tf.gather(tf.constant(head.class_weights, tf.float32), labels)


def rdrop_losses(logits, second_logits, labels, task_type="single",
                 head=PLAIN_HEAD):
  """The loss of each example under R-Drop: two dropouts that have to agree.

  Liang et al., https://arxiv.org/abs/2106.14448: the mean of both losses plus
  alpha / 2 (KL(p || q) + KL(q || p)). (Theirs is the sum of both losses in the
  paper's formula, the mean in their code.) With z the logits,
  KL(p || q) + KL(q || p) is the sum of (p - q) (z_p - z_q), of softmax and of
  sigmoid; of a multi-label task it is the mean over the labels, as the loss.

  Args:
    logits: float32 Tensor [B, L], of one pass.
    second_logits: float32 Tensor [B, L], of the other.
    labels: Tensor, as `create_model` has them.
    task_type: "single" or "multi".
    head: Head.

  Returns:
    float32 Tensor [B].
  """
  losses = [task_losses(each, labels, task_type, head)
            for each in (logits, second_logits)]
  distance = (logits - second_logits) * (
      _probabilities(logits, task_type) -
      _probabilities(second_logits, task_type))
  divergence = (_mean_over_labels(distance, head) if task_type == "multi" else
                tf.reduce_sum(distance, axis=-1))
  return 0.5 * (losses[0] + losses[1] + head.rdrop_alpha * divergence)


# ------------------------------------------------------------------ Estimator


def model_fn_builder(bert_config, num_labels, init_checkpoint, learning_rate,
                     num_train_steps, num_warmup_steps, use_tpu,
                     use_one_hot_embeddings, optimizer="adamw",
                     allow_partial_init=False, init_from_group0=False,
                     grow_vocab=False, gradient_accumulation_steps=1,
                     recompute_activations=False, precision="float32",
                     seed=None, task_type="single", head=PLAIN_HEAD,
                     layerwise_lr_decay=1.0, freeze_encoder=False,
                     compile_gelu=False):
  """Returns `model_fn` for TPUEstimator.

  Args:
    bert_config: BertConfig.
    num_labels: int; 1 for regression.
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
    task_type: string in `classifier_tasks.TASK_TYPES`.
    head: Head.
    layerwise_lr_decay: float in (0, 1]; each layer's learning rate is that of
      the layer above it times this, see `layer_distances`.
    freeze_encoder: bool; embeddings and encoder are not trained, and no
      gradients are computed for them. The pooler is: it was pre-trained to tell
      the order of two segments, and costs no pass through the encoder.
    compile_gelu: bool, see `modeling.BertModel`.

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
        recompute_activations=recompute_activations and is_training,
        task_type=task_type, head=head, compile_gelu=compile_gelu)
    return output, tf.argmax(output.logits, axis=-1, output_type=tf.int32)

  def train_spec(features):
    """The spec of a training step; loss and accuracy are the whole batch's."""
    replicas = optimization.num_replicas(use_tpu)
    # A row of labels, where an example has one.
    labels = features["label_ids"]
    totals = [tf.cast(tf.size(labels if labels.shape.ndims == 1 else
                              labels[:, 0]), tf.float32)]
    weights = example_weights(labels, task_type, head)
    if weights is not None:
      totals.append(tf.reduce_sum(weights))
    # The number of examples, and what they count together.
    totals = optimization.sum_over_replicas(totals, use_tpu)
    num_examples, total_weight = totals[0], totals[-1]

    def micro_loss(index):
      part = optimization.micro_batch(features, index,
                                      gradient_accumulation_steps)
      output, predicted = build(part, True, estimator_utils.dropout_seed(
          seed, index, part["input_ids"], use_tpu))
      correct = None
      if task_type == "single":
        correct = tf.cast(tf.equal(predicted, part["label_ids"]), tf.float32)
      # This replica's share of the mean; trained on is the replicas' mean.
      loss = tf.reduce_sum(output.per_example_loss) / total_weight * replicas
      if correct is None:
        return loss, {}
      return loss, {"accuracy": tf.reduce_sum(correct) / num_examples}

    train = optimization.build_train_op(
        micro_loss, learning_rate, num_train_steps, num_warmup_steps, use_tpu,
        optimizer, gradient_accumulation_steps=gradient_accumulation_steps,
        dynamic_loss_scale=precision == "float16",
        excluded_tvars=is_frozen if freeze_encoder else None,
        learning_rate_multipliers=(
            layer_rates(bert_config, layerwise_lr_decay)
            if layerwise_lr_decay < 1 else None),
        fgm_epsilon=head.fgm_epsilon)
    scaffold_fn = checkpoint_utils.init_from_checkpoint(
        init_checkpoint, use_tpu, allow_partial_init, init_from_group0,
        grow_vocab)
    estimator_utils.log_trainable_variables()
    if layerwise_lr_decay < 1:
      log_layer_rates(bert_config, layerwise_lr_decay, learning_rate)
    if not use_tpu:
      training_hooks.publish(
          estimator_utils.add_train_scalars(dict(train.sums), train))
      training_hooks.publish_lengths(features["input_mask"])
    return spec_class(
        mode=modes.TRAIN, loss=estimator_utils.spec_loss(train.loss),
        train_op=train.train_op, scaffold_fn=scaffold_fn)

  def eval_metrics(output, predicted, features):
    """TPUEstimatorSpec's; accuracy of single labels only."""
    def metric_fn(per_example_loss, predicted, label_ids, weights):
      metrics = {}
      if task_type == "single":
        metrics["eval_accuracy"] = tf.metrics.accuracy(label_ids, predicted,
                                                       weights=weights)
      metrics["eval_loss"] = tf.metrics.mean(per_example_loss, weights=weights)
      return metrics

    return metric_fn, [output.per_example_loss, predicted,
                       features["label_ids"],
                       tf.cast(features["is_real_example"], tf.float32)]

  def model_fn(features, labels, mode, params):
    """Builds the graph of one mode."""
    del labels, params
    if mode == modes.TRAIN:
      return train_spec(features)
    output, predicted = build(features, False)
    if mode == modes.EVAL:
      return spec_class(mode=mode, loss=output.loss,
                        eval_metrics=eval_metrics(output, predicted, features))
    return spec_class(
        mode=mode, predictions={"probabilities": output.probabilities})

  return model_fn


def logged(task_type):
  """Keys of what training publishes for its log, in order: a tuple."""
  return ("loss",) + ("accuracy",) * (task_type == "single") + (
      "learning_rate", "gradient_norm")


def predictor_options(settings):
  """What `create_model` has to be told of a trained classifier.

  Args:
    settings: dict, what classifier.json holds; files of earlier versions have
      single labels and the pooled output, and do not say so.

  Returns:
    dict: num_labels, task_type and head.
  """
  task_type = settings.get("task_type", "single")
  return dict(
      num_labels=1 if task_type == "regression" else len(settings["labels"]),
      task_type=task_type,
      head=Head(use_pooled_output=settings.get("use_pooled_output", True)))


# -------------------------------------------------------------- what is trained


def is_frozen(name):
  """Whether --freeze_encoder leaves the variable of that name as it is."""
  return name.startswith(_FROZEN)


def layer_distances(bert_config):
  """How far from the top the variables stand: what their rate is decayed by.

  The head and the pooler are at 0, the last layer is at 1, the one below it at
  2, and the embeddings, with their projection, are one below all layers. Layers
  that share all their weights are one layer, because there is one set of
  weights to give a rate to: at 1, with the embeddings at 2 (in the layout
  "google", groups and inner groups are the layers). Where only attention or
  feed-forward are shared, the shared weights have the rate of the highest layer
  that uses them, the last: 1; each layer's own have that layer's.

  Decay by layer is Howard and Ruder's (https://arxiv.org/abs/1801.06146,
  "discriminative fine-tuning").

  Args:
    bert_config: BertConfig.

  Returns:
    (function of a variable's name -> int,
     list of strings: what is at each distance, 0 first).
  """
  scopes = modeling.layer_scopes(bert_config)
  layers = sorted(set(scopes), key=lambda layer: -_last_index(scopes, layer))
  distances, places = {}, ["head and pooler"]
  for distance, layer in enumerate(layers, start=1):
    used = [index for index, each in enumerate(scopes) if each == layer]
    if len(used) > 2 and used[-1] - used[0] == len(used) - 1:
      places.append("layers %d to %d" % (used[0], used[-1]))
    else:
      places.append("layer %s" % ", ".join(str(index) for index in used))
    for scope in layer:
      distances.setdefault("bert/encoder/%s/" % scope, distance)
  distances["bert/encoder/final_layer_norm/"] = 1
  for scope in ("bert/embeddings/",
                "bert/encoder/embedding_hidden_mapping_in/"):
    distances[scope] = len(layers) + 1
  places.append("embeddings")

  def distance(name):
    for scope in distances:
      if name.startswith(scope):
        return distances[scope]
    return 0

  return distance, places


def _last_index(items, item):
  return max(index for index, each in enumerate(items) if each == item)


def layer_rates(bert_config, layerwise_lr_decay):
  """What the learning rate is multiplied by: function of a variable's name."""
  distance, _ = layer_distances(bert_config)
  return lambda name: layerwise_lr_decay ** distance(name)


def log_layer_rates(bert_config, layerwise_lr_decay, learning_rate):
  """Logs the highest learning rate of the graph's variables, by layer."""
  distance, places = layer_distances(bert_config)
  variables = [[] for _ in places]
  for variable in tf.trainable_variables():
    variables[distance(bert_utils.variable_name(variable))].append(variable)
  for number, (place, here) in enumerate(zip(places, variables)):
    tf.logging.info(
        "  learning rate %.3g of %s: %d variables, %d parameters",
        learning_rate * layerwise_lr_decay ** number, place, len(here),
        sum(variable.shape.num_elements() for variable in here))


# ---------------------------------------------------------------------- flags


def define_flags():
  """Defines the flags of what `head_from_options` and `model_options` read."""
  flags.DEFINE_bool(
      "use_pooled_output", True,
      "Classify by the pooled first token; False: by the mean of all tokens.")
  flags.DEFINE_list(
      "class_weights", None,
      "What an example counts in the training loss, by its label (multi-label:"
      " what a label counts in each example's): a number for each, in the"
      " labels' order, or \"balanced\": by how rare it is.")
  flags.DEFINE_float(
      "label_smoothing", 0.0,
      "Share of the training target that all labels divide among themselves.")
  flags.DEFINE_float(
      "rdrop_alpha", 0.0,
      "R-Drop: train on two dropouts of each batch, and on their distance"
      " times this; 0 is off.")
  flags.DEFINE_float(
      "fgm_epsilon", 0.0,
      "FGM: train on each batch with word embeddings moved against its loss,"
      " by so much, too; 0 is off.")
  flags.DEFINE_float(
      "layerwise_lr_decay", 1.0,
      "Learning rate of a layer by that of the layer above it; layers that"
      " share their weights are one.")
  flags.DEFINE_bool(
      "freeze_encoder", False,
      "Leave embeddings and encoder as they are; train pooler and head only.")


def model_options(options):
  """The arguments of `model_fn_builder`, but the head, from these flags.

  Args:
    options: object with the values of `define_flags` as attributes.

  Returns:
    dict.
  """
  return dict(layerwise_lr_decay=options.layerwise_lr_decay,
              freeze_encoder=options.freeze_encoder)


def head_from_options(options, label_list, label_counts=None,
                      task_type="single"):
  """Checks all flags of `define_flags`, and makes a Head of them.

  Args:
    options: object with their values as attributes.
    label_list: list of strings; empty for regression.
    label_counts: list of ints in the same order, how many training examples
      have the label; None where nothing is trained.
    task_type: string in `classifier_tasks.TASK_TYPES`.

  Returns:
    Head; without class weights where "balanced" ones would need the counts.

  Raises:
    ValueError: a value is out of range, or does not fit the rest.
  """
  _check_options(options, task_type)
  return Head(options.use_pooled_output,
              _class_weights(options.class_weights, label_list, label_counts),
              options.label_smoothing, options.rdrop_alpha,
              options.fgm_epsilon)


def _check_options(options, task_type):
  """Raises the ValueErrors of `head_from_options`, but those of weights."""
  for name, value, fits, wanted in (
      ("label_smoothing", options.label_smoothing,
       0 <= options.label_smoothing < 1, "a number from 0 on and below 1"),
      ("rdrop_alpha", options.rdrop_alpha,
       0 <= options.rdrop_alpha < float("inf"), "a number from 0 on"),
      ("fgm_epsilon", options.fgm_epsilon,
       0 <= options.fgm_epsilon < float("inf"), "a number from 0 on"),
      ("layerwise_lr_decay", options.layerwise_lr_decay,
       0 < options.layerwise_lr_decay <= 1, "above 0 and at most 1")):
    if not fits:
      raise ValueError("--%s must be %s, found %r" % (name, wanted, value))
  if task_type == "regression":
    for name, why in (
        ("class_weights", "there are no classes"),
        ("label_smoothing", "there is no label to take a share from"),
        ("rdrop_alpha", "it compares distributions over labels")):
      if getattr(options, name):
        raise ValueError("--%s means nothing for regression, where %s; leave it"
                         " out" % (name, why))
  if options.freeze_encoder:
    if options.fgm_epsilon:
      raise ValueError(
          "--fgm_epsilon needs the gradient of the word embeddings, which"
          " --freeze_encoder does not compute; leave one of them out")
    if options.layerwise_lr_decay != 1:
      raise ValueError(
          "--layerwise_lr_decay is for the layers that --freeze_encoder does not"
          " train; leave one of them out")


def _class_weights(values, label_list, label_counts):
  """The weights as a tuple of floats, or None.

  "balanced" is N / (L count), as scikit-learn has it: all labels together
  count the same.
  """
  if not values:
    return None
  if list(values) == ["balanced"]:
    if label_counts is None:
      return None
    absent = [label for label, count in zip(label_list, label_counts)
              if not count]
    if absent:
      raise ValueError(
          "--class_weights=balanced: no training example has the label %s; give"
          " the weights as %d numbers" % (
              classifier_tasks.join_words(absent), len(label_list)))
    total = float(sum(label_counts))
    return tuple(total / (len(label_list) * count) for count in label_counts)
  try:
    weights = tuple(float(value) for value in values)
  except ValueError:
    weights = ()
  if not weights or not all(0 < weight < float("inf") for weight in weights):
    raise ValueError(
        "--class_weights must be numbers above 0 with commas between them, or"
        " \"balanced\", found \"%s\"" % ",".join(map(str, values)))
  if len(weights) != len(label_list):
    raise ValueError(
        "--class_weights has %d numbers, but the task has %d labels; give one"
        " for each, in their order: %s" % (
            len(weights), len(label_list),
            classifier_tasks.join_words(label_list)))
  return weights
