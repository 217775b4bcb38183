"""The fine-tuned model: encoder, head, losses and the Estimator's `model_fn`.

Whoever fine-tunes takes them from `run_classifier.py`, as in the peers' module.
"""

import collections

import tensorflow.compat.v1 as tf

import bert_utils
import checkpoint_utils
import estimator_utils
import modeling
from modeling import layer_norm
import optimization
import training_hooks

ClassifierOutput = collections.namedtuple(
    "ClassifierOutput",
    ["loss", "per_example_loss", "logits", "probabilities"])


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
