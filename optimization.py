"""Learning-rate schedule, LAMB and AdamW, and the training op made of them.

  train_op = optimization.create_optimizer(
      loss, init_lr=1e-4, num_train_steps=1000, num_warmup_steps=100,
      use_tpu=False, optimizer="lamb")

`build_train_op` takes the same arguments and also returns the learning rate,
the gradient norm and the loss of the whole step, for whoever logs them. A step
may be spread over replicas (`tf.distribute` or TPU shards) and, on each, over
micro-batches that follow each other; both equal one large batch.
"""

import collections
import re

import tensorflow.compat.v1 as tf

from bert_utils import variable_name

OPTIMIZERS = ("adamw", "lamb", "lamb_google")

# Normalisation and bias variables: small, and hurt by being pulled to zero.
EXCLUDE_FROM_WEIGHT_DECAY = ("LayerNorm", "layer_norm", "bias")

# Dynamic loss scaling, as in NVIDIA's mixed-precision training (Micikevicius
# et al., https://arxiv.org/abs/1710.03740, and apex.amp's defaults): powers of
# two, so that scaling rounds nothing.
INITIAL_LOSS_SCALE = 2.0 ** 15
LARGEST_LOSS_SCALE = 2.0 ** 24
LOSS_SCALE_GROWTH_STEPS = 2000

TrainOp = collections.namedtuple(
    "TrainOp", ["train_op", "learning_rate", "gradient_norm", "loss", "sums",
                "loss_scale", "skipped_steps"])


def create_optimizer(loss, init_lr, num_train_steps, num_warmup_steps, use_tpu,
                     optimizer="adamw", poly_power=1.0, start_warmup_step=0,
                     colocate_gradients_with_ops=False, excluded_tvars=None,
                     **options):
  """`build_train_op` with the peers' signature: returns the op alone.

  `options` are the keyword arguments that `build_train_op` has beyond these.
  """
  return build_train_op(
      loss, init_lr, num_train_steps, num_warmup_steps, use_tpu, optimizer,
      poly_power, start_warmup_step, colocate_gradients_with_ops,
      excluded_tvars, **options).train_op


def build_train_op(loss, init_lr, num_train_steps, num_warmup_steps, use_tpu,
                   optimizer="adamw", poly_power=1.0, start_warmup_step=0,
                   colocate_gradients_with_ops=False, excluded_tvars=None,
                   weight_decay_rate=0.01, clip_norm=1.0,
                   bias_correction=False, gradient_accumulation_steps=1,
                   dynamic_loss_scale=False, learning_rate_multipliers=None,
                   fgm_epsilon=0.0):
  """Builds one optimizer step: gradients, clipping, update, global step.

  Args:
    loss: float Tensor []; under several replicas the mean of this replica's
      share of the batch. Or a function of a micro-batch's number (int, or
      int32 Tensor []) that builds the model and returns such a Tensor and a
      dict of name -> float Tensor; the losses and the dicts' values of all
      micro-batches are added up.
    init_lr: float, the learning rate before decay.
    num_train_steps: int, the step at which the rate reaches 0.
    num_warmup_steps: int, steps of linear warm-up; 0 or None for none.
    use_tpu: bool, whether this graph runs on TPU shards.
    optimizer: "adamw"; "lamb" as in albert_zh (a trust ratio for every
      tensor); "lamb_google" as in google-research/albert (none for
      normalisation and bias variables, slots named as AdamW's).
    poly_power: float, exponent of the decay; 1.0 is linear.
    start_warmup_step: int, global step at which the warm-up starts.
    colocate_gradients_with_ops: bool, passed on to `tf.gradients`.
    excluded_tvars: list of variables, or their names, that are not trained; or
      a function of a name that says whether its variable is one.
    weight_decay_rate: float, decoupled weight decay.
    clip_norm: float, largest global norm of the gradients.
    bias_correction: bool, whether to divide the moments by 1 - beta^t.
    gradient_accumulation_steps: int, number of micro-batches; above 1 the
      loss must be a function.
    dynamic_loss_scale: bool, for activations in float16: the loss is scaled
      for the backward pass. A step whose gradients are not finite changes
      nothing but the scale: no weight, no moment, no global step.
    learning_rate_multipliers: function of a variable's name -> float that its
      steps, weight decay included, are multiplied by; None for 1.
    fgm_epsilon: float; above 0, the gradients are those of the loss plus those
      of the loss where the word embeddings are moved against it, by so much:
      see `_adversarial_loss`. The loss must then be a function.

  Returns:
    TrainOp: `train_op` runs the step and then increments the global step;
    `learning_rate` float32 Tensor [], the rate this very step uses;
    `gradient_norm` float32 Tensor [], global norm before clipping; `loss`
    and `sums`, the loss and the dict of all micro-batches and replicas (mean
    of the losses over the replicas, sum of the dict's values; with
    `fgm_epsilon`, "adversarial_loss" is in the dict too); `loss_scale` float32
    Tensor [], this step's, and `skipped_steps` float32 Tensor [], this one
    included, both None without `dynamic_loss_scale`.

  Raises:
    ValueError: an argument is out of range, an excluded name is no trainable
      variable, or nothing is left to train.
  """
  _check_arguments(loss, clip_norm, gradient_accumulation_steps,
                   dynamic_loss_scale, fgm_epsilon, use_tpu)
  global_step = tf.train.get_or_create_global_step()
  learning_rate = learning_rate_schedule(
      init_lr, global_step, num_train_steps, num_warmup_steps, poly_power,
      start_warmup_step)
  scaling = _LossScale() if dynamic_loss_scale else None
  how = (gradient_accumulation_steps, excluded_tvars,
         colocate_gradients_with_ops, scaling.scale if scaling else None)
  gradients, variables, total_loss, sums = _accumulate(loss, *how)
  if fgm_epsilon:
    more, _, adversarial_loss, _ = _accumulate(
        _adversarial_loss(loss, fgm_epsilon, gradients, variables, use_tpu),
        *how)
    gradients = [clean + added for clean, added in zip(gradients, more)]
    # Sums are the sums over the replicas, the loss is the mean.
    sums = dict(sums, adversarial_loss=(adversarial_loss /
                                        num_replicas(use_tpu)))
  gradients, gradient_norm = clip_gradients(
      gradients, variables, clip_norm, use_tpu)
  finite = tf.is_finite(gradient_norm) if scaling else None
  chosen = _make_optimizer(
      optimizer, learning_rate, weight_decay_rate, bias_correction, finite,
      learning_rate_multipliers)
  if use_tpu:
    chosen = tf.tpu.CrossShardOptimizer(chosen)
  # A step's rate is its own: every replica reads it before the update, and
  # the optimizer increments the global step after the update.
  with tf.control_dependencies([learning_rate]):
    gradients = [tf.identity(gradient) for gradient in gradients]
  train_op = chosen.apply_gradients(
      list(zip(gradients, variables)),
      global_step=None if scaling else global_step)
  if scaling:
    train_op = scaling.finish(train_op, finite, global_step)
  total_loss, sums = _over_replicas(total_loss, sums, use_tpu)
  if scaling:
    # The Estimator stops at NaN, but an overflow is only skipped.
    total_loss = tf.where(tf.is_nan(total_loss), float("inf"), total_loss)
  return TrainOp(train_op, learning_rate, gradient_norm, total_loss, sums,
                 scaling and scaling.scale, scaling and scaling.skipped_steps)


def _check_arguments(loss, clip_norm, gradient_accumulation_steps,
                     dynamic_loss_scale, fgm_epsilon, use_tpu):
  """Raises a ValueError for an argument of `build_train_op` out of range."""
  if clip_norm <= 0:
    raise ValueError(
        f"clip_norm is {clip_norm!r}, but a norm to clip to must be above 0.")
  if gradient_accumulation_steps < 1 or (gradient_accumulation_steps > 1 and
                                         not callable(loss)):
    raise ValueError(
        f"gradient_accumulation_steps is {gradient_accumulation_steps}, but it "
        "must be at least 1, and above 1 the loss must be a function of the "
        "micro-batch's number.")
  if fgm_epsilon < 0 or (fgm_epsilon and not callable(loss)):
    raise ValueError(
        f"fgm_epsilon is {fgm_epsilon}, but it must be at least 0, and above 0 "
        "the loss must be a function of the micro-batch's number.")
  if dynamic_loss_scale and use_tpu:
    raise ValueError("dynamic_loss_scale is for float16, which a TPU does not "
                     "compute in; bfloat16 needs none.")


def micro_batch(features, index, num_micro_batches):
  """Cuts a micro-batch out of a step's batch.

  Args:
    features: dict, name -> Tensor [B, ...].
    index: int, or int32 Tensor [], which micro-batch.
    num_micro_batches: int, a divisor of B.

  Returns:
    dict, name -> Tensor [B / num_micro_batches, ...].
  """
  if num_micro_batches == 1:
    return features

  def cut(tensor):
    parts = tf.reshape(tensor, tf.concat(
        [[num_micro_batches, -1], tf.shape(tensor)[1:]], axis=0))
    size = tensor.shape.as_list()[0]
    parts.set_shape([num_micro_batches, size and size // num_micro_batches] +
                    tensor.shape.as_list()[1:])
    return parts[index]

  return {name: cut(tensor) for name, tensor in features.items()}


def _accumulate(loss, num_micro_batches, excluded_tvars, colocate, loss_scale):
  """Gradients, loss and sums of all micro-batches of this replica.

  The first micro-batch is built by itself: it creates the variables, and what
  it finds is what the loop over the others starts from. Only one
  micro-batch's activations are alive at a time.

  Returns:
    List of dense gradients, list of their variables, float Tensor [], dict.
  """
  value, sums = (_in_variable_scope(lambda: loss(0)) if callable(loss) else
                 (loss, {}))
  names = sorted(sums)
  gradients, variables = compute_gradients(
      _scaled(value, loss_scale), variables_to_train(excluded_tvars), colocate)
  if num_micro_batches > 1:

    def add_micro_batch(index, *totals):
      more = _micro_batch_gradients(loss, index, variables, names, colocate,
                                    loss_scale)
      return [index + 1] + [total + tensor
                            for total, tensor in zip(totals, more)]

    # tf.tuple: nothing of the second one may start before the first is done.
    start = tf.tuple([tf.constant(1), value] +
                     [sums[name] for name in names] + gradients)
    totals = tf.while_loop(
        lambda index, *_: index < num_micro_batches, add_micro_batch, start,
        parallel_iterations=1, back_prop=False)
    value = totals[1]
    sums = dict(zip(names, totals[2:]))
    gradients = list(totals[2 + len(names):])
  if loss_scale is not None:
    gradients = [gradient / loss_scale for gradient in gradients]
  return gradients, variables, value, sums


def _micro_batch_gradients(loss, index, variables, names, colocate,
                           loss_scale):
  """What one turn of the loop adds: loss, sums by name, gradients.

  Variables are read inside the loop, and the gradients are those of what was
  read: `tf.gradients` does not find its way out of a loop to a variable.
  """
  read = {}

  def read_inside(getter, name, *args, **kwargs):
    variable = getter(name, *args, **kwargs)
    name = variable_name(variable)
    if name not in read:
      read[name] = tf.identity(variable)
    return read[name]

  value, sums = _in_variable_scope(
      lambda: loss(index), reuse=True, custom_getter=read_inside)
  gradients, _ = compute_gradients(
      _scaled(value, loss_scale),
      [read[variable_name(variable)] for variable in variables], colocate)
  return [value] + [sums[name] for name in names] + gradients


def _in_variable_scope(build, **options):
  """Calls `build` in the current variable scope, opened again.

  At its end, default names of scopes are free again: without it, a second
  model would look for variables of "bert_1".
  """
  with tf.variable_scope(tf.get_variable_scope(), auxiliary_name_scope=False,
                         **options):
    return build()


def _adversarial_loss(loss, epsilon, gradients, variables, use_tpu):
  """The loss where the word embeddings are moved to make it larger.

  FGM: Miyato et al., https://arxiv.org/abs/1605.07725, equation 5, as Chinese
  fine-tuning has it: moved is the table of the word embeddings, by
  r = epsilon g / |g|, where g is the gradient of the loss. That is the
  gradient of the whole step, of all micro-batches and replicas, so that here too
  they equal one large batch. With a dropout seed, the same is dropped as where
  the gradient comes from.

  Args:
    loss: function, see `build_train_op`; it has created the variables.
    epsilon: float.
    gradients: list of dense Tensors, this replica's.
    variables: list of the variables they belong to.
    use_tpu: bool.

  Returns:
    function of a micro-batch's number, as `loss`.

  Raises:
    ValueError: there is not one trained variable called word_embeddings.
  """
  tables = [(gradient, variable)
            for gradient, variable in zip(gradients, variables)
            if variable_name(variable).split("/")[-1] == "word_embeddings"]
  if len(tables) != 1:
    raise ValueError(
        f"fgm_epsilon needs the gradient of one variable word_embeddings, but "
        f"{len(tables)} of the {len(variables)} variables with a gradient are "
        "called so.")
  (gradient, table), = tables
  (gradient,), _ = _mean_over_replicas([gradient], [table], use_tpu)
  shift = tf.stop_gradient(
      tf.div_no_nan(epsilon * gradient, tf.norm(gradient, ord=2)))
  moved_name = variable_name(table)

  def move(getter, name, *args, **kwargs):
    variable = getter(name, *args, **kwargs)
    if name != moved_name:
      return variable
    return variable + tf.cast(shift, variable.dtype.base_dtype)

  return lambda index: _in_variable_scope(
      lambda: loss(index), reuse=True, custom_getter=move)


def _scaled(loss, loss_scale):
  return loss if loss_scale is None else loss * loss_scale


class _LossScale(object):
  """The loss scale: halved at an overflow, doubled after many good steps."""

  def __init__(self):
    """Creates its variables, which checkpoints keep, or finds them."""
    def counter(name, value, dtype):
      # Resource variables: what was read does not change at an assignment.
      return tf.get_variable(
          name, [], dtype, tf.constant_initializer(value), trainable=False,
          use_resource=True,
          aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

    with tf.variable_scope("loss_scale", reuse=tf.AUTO_REUSE):
      self._variables = [counter("scale", INITIAL_LOSS_SCALE, tf.float32),
                         counter("good_steps", 0, tf.int32),
                         counter("skipped_steps", 0, tf.int32)]
    self.scale, self._good_steps, self._skipped = [
        tf.identity(variable) for variable in self._variables]
    self.skipped_steps = None

  def finish(self, update, finite, global_step):
    """Counts, after the update, a step that was made or one that was not.

    Returns:
      Operation.
    """
    good_steps = tf.where(finite, self._good_steps + 1, 0)
    grow = good_steps >= LOSS_SCALE_GROWTH_STEPS
    skipped = self._skipped + tf.cast(tf.logical_not(finite), tf.int32)
    self.skipped_steps = tf.cast(skipped, tf.float32)
    scale = tf.where(
        finite,
        tf.where(grow, tf.minimum(self.scale * 2.0, LARGEST_LOSS_SCALE),
                 self.scale),
        tf.maximum(self.scale / 2.0, 1.0))
    values = [scale, tf.where(grow, 0, good_steps), skipped]
    with tf.control_dependencies([update]):
      # As with other mixed-precision optimizers, a step that was skipped is
      # none: the schedule does not move on.
      made = tf.cast(finite, global_step.dtype.base_dtype)
      return tf.group(global_step.assign_add(made), *[
          variable.assign(value)
          for variable, value in zip(self._variables, values)])


def learning_rate_schedule(init_lr, global_step, num_train_steps,
                           num_warmup_steps, poly_power=1.0,
                           start_warmup_step=0):
  """Linear warm-up, then polynomial decay to 0 (which warm-up does not shift).

  Args:
    init_lr: float, the rate that warm-up leads to and decay starts from.
    global_step: int Tensor or variable [].
    num_train_steps: int, the step at which the rate reaches 0.
    num_warmup_steps: int, length of the warm-up; 0 or None for none.
    poly_power: float, exponent of the decay; 0 keeps the rate constant.
    start_warmup_step: int, where the warm-up starts, for runs that go on from
      a checkpoint; before that step the rate is 0.

  Returns:
    float32 Tensor [], the rate of the step that is about to be made.

  Raises:
    ValueError: a number of steps is out of range.
  """
  if num_train_steps < 1:
    raise ValueError(
        f"num_train_steps is {num_train_steps}, but training needs at least 1.")
  for name, steps in (("num_warmup_steps", num_warmup_steps),
                      ("start_warmup_step", start_warmup_step)):
    if steps and steps < 0:
      raise ValueError(f"{name} is {steps}, but it must be 0 or more.")
  step = tf.cast(global_step, tf.float32)
  done = tf.minimum(step / float(num_train_steps), 1.0)
  rate = init_lr * tf.pow(1.0 - done, poly_power)
  if num_warmup_steps:
    warm_steps = step - float(start_warmup_step)
    # Below the start the line would go negative and climb the loss.
    warm_share = tf.maximum(warm_steps, 0.0) / float(num_warmup_steps)
    rate = tf.where(warm_steps < float(num_warmup_steps),
                    init_lr * warm_share, rate)
  return tf.identity(rate, name="learning_rate")


def variables_to_train(excluded_tvars=None):
  """Returns the graph's trainable variables without the excluded ones."""
  variables = tf.trainable_variables()
  if callable(excluded_tvars):
    excluded_tvars = [var for var in variables
                      if excluded_tvars(variable_name(var))]
  excluded = {variable_name(var) for var in excluded_tvars or ()}
  unknown = excluded - {variable_name(var) for var in variables}
  if unknown:
    raise ValueError(
        f"excluded_tvars names {', '.join(sorted(unknown))}, but none of the "
        f"graph's {len(variables)} trainable variables is called so.")
  kept = [var for var in variables if variable_name(var) not in excluded]
  if not kept:
    raise ValueError(
        f"There is nothing to train: the graph has {len(variables)} trainable "
        f"variables and excluded_tvars takes out {len(excluded)} of them.")
  return kept


def compute_gradients(loss, variables, colocate_gradients_with_ops=False):
  """Differentiates the loss, and drops what it does not depend on.

  `tf.gradients`, because `Optimizer.compute_gradients` scales by the number
  of replicas, which clipping has to see unscaled.

  Returns:
    Two lists of equal length: dense gradients, in float32 where they came in
    half precision, and the variables they belong to.

  Raises:
    ValueError: the loss depends on none of the variables.
  """
  gradients = tf.gradients(
      loss, variables, colocate_gradients_with_ops=colocate_gradients_with_ops)
  pairs = [(_dense(gradient, var), var)
           for gradient, var in zip(gradients, variables)
           if gradient is not None]
  if not pairs:
    raise ValueError(
        f"The loss {loss.name} depends on none of the {len(variables)} "
        f"variables to train (the first is {variables[0].name}).")
  unused = [var.name for gradient, var in zip(gradients, variables)
            if gradient is None]
  if unused:
    tf.logging.info("%d variables have no gradient and stay as they are: %s",
                    len(unused), ", ".join(unused))
  return tuple(list(column) for column in zip(*pairs))


def clip_gradients(gradients, variables, clip_norm, use_tpu=False):
  """Clips by the global norm of what all replicas found together.

  Clipping each replica's own gradients would be another algorithm: the result
  would depend on how the batch was spread.

  Args:
    gradients: list of dense float Tensors, this replica's.
    variables: list of the variables they belong to.
    clip_norm: float, largest global norm.
    use_tpu: bool, whether the replicas are TPU shards.

  Returns:
    List of Tensors to hand to `apply_gradients`, and the norm before clipping,
    float32 Tensor []. `apply_gradients` sums over the replicas, so each hands
    in its share: the clipped mean divided by their number.
  """
  gradients, num_replicas = _mean_over_replicas(gradients, variables, use_tpu)
  norm = tf.global_norm(gradients)
  clipped, _ = tf.clip_by_global_norm(gradients, clip_norm, use_norm=norm)
  if use_tpu or num_replicas > 1:
    clipped = [gradient / num_replicas for gradient in clipped]
  return clipped, tf.cast(norm, tf.float32, name="gradient_norm")


def _mean_over_replicas(gradients, variables, use_tpu):
  """Returns the gradients' mean over all replicas and the replicas' number."""
  replicas = num_replicas(use_tpu)
  if use_tpu:
    return [tf.tpu.cross_replica_sum(gradient) / replicas
            for gradient in gradients], replicas
  if replicas > 1:
    gradients = _reduce(tf.distribute.ReduceOp.MEAN, gradients, variables)
  return gradients, replicas


def num_replicas(use_tpu):
  """How many replicas share a step: an int, on TPU a float Tensor []."""
  if use_tpu:
    return tf.tpu.cross_replica_sum(tf.constant(1.0))
  return tf.distribute.get_strategy().num_replicas_in_sync


def sum_over_replicas(tensors, use_tpu):
  """Adds up what each replica has.

  Args:
    tensors: list of float Tensors, this replica's.
    use_tpu: bool, whether the replicas are TPU shards.

  Returns:
    List of Tensors, the same on each replica.
  """
  if use_tpu:
    return [tf.tpu.cross_replica_sum(tensor) for tensor in tensors]
  if num_replicas(use_tpu) == 1 or not tensors:
    return list(tensors)
  return _reduce(tf.distribute.ReduceOp.SUM, tensors)


def _reduce(reduce_op, tensors, destinations=None):
  """Reduces tensors over the replicas of a `tf.distribute` strategy."""
  def reduce_all(strategy, per_replica):
    return strategy.extended.batch_reduce_to(
        reduce_op, list(zip(per_replica, destinations or per_replica)))

  # `ReplicaContext.all_reduce` would be shorter, but fails under tf.Graph.
  return tf.distribute.get_replica_context().merge_call(
      reduce_all, args=(list(tensors),))


def _over_replicas(loss, sums, use_tpu):
  """Mean of the loss and sums of the dict's values over the replicas."""
  names = sorted(sums)
  summed = sum_over_replicas([loss] + [sums[name] for name in names], use_tpu)
  replicas = num_replicas(use_tpu)
  if use_tpu or replicas > 1:
    summed[0] = summed[0] / replicas
  return summed[0], dict(zip(names, summed[1:]))


def _make_optimizer(name, learning_rate, weight_decay_rate, bias_correction,
                    apply_if=None, learning_rate_multipliers=None):
  """Returns the optimizer called `name` in OPTIMIZERS."""
  if name not in OPTIMIZERS:
    raise ValueError(f"optimizer is {name!r}, but the choices are "
                     f"{', '.join(OPTIMIZERS)}.")
  common = dict(
      learning_rate=learning_rate, weight_decay_rate=weight_decay_rate,
      exclude_from_weight_decay=EXCLUDE_FROM_WEIGHT_DECAY,
      bias_correction=bias_correction)
  if name == "adamw":
    optimizer = AdamWeightDecayOptimizer(**common)
  elif name == "lamb":
    optimizer = LAMBOptimizer(**common)
  else:
    optimizer = LAMBOptimizer(
        exclude_from_layer_adaptation=EXCLUDE_FROM_WEIGHT_DECAY,
        slot_prefix="adam", **common)
  optimizer.apply_if = apply_if
  optimizer.learning_rate_multipliers = learning_rate_multipliers
  return optimizer


class _DecoupledDecayOptimizer(tf.train.Optimizer):
  """Two moments and decoupled weight decay: what AdamW and LAMB share.

  Moments and norms are float32 when the variable has half precision.

  Args:
    learning_rate: float or float Tensor [].
    weight_decay_rate: float; decay is added to the update, not to the loss.
    beta_1: float, decay of the first moment.
    beta_2: float, decay of the second moment.
    epsilon: float, added to the root of the second moment.
    exclude_from_weight_decay: list of regular expressions; variables whose
      name one of them matches anywhere have no decay.
    name: string, the scope of the update ops.
    bias_correction: bool, whether to divide the moments by 1 - beta^t.
    slot_prefix: string, the moments' variables are `<variable>/<prefix>_m`
      and `<variable>/<prefix>_v`.

  Attributes:
    apply_if: bool Tensor [] or None; where False, nothing is updated.
    learning_rate_multipliers: function of a variable's name -> float, or None.
  """

  apply_if = None
  learning_rate_multipliers = None

  def __init__(self, learning_rate, weight_decay_rate, beta_1, beta_2, epsilon,
               exclude_from_weight_decay, name, bias_correction, slot_prefix):
    super().__init__(use_locking=False, name=name)
    self.learning_rate = learning_rate
    self.weight_decay_rate = weight_decay_rate
    self.beta_1 = beta_1
    self.beta_2 = beta_2
    self.epsilon = epsilon
    self.exclude_from_weight_decay = exclude_from_weight_decay
    self.bias_correction = bias_correction
    self._m_name = f"{slot_prefix}_m"
    self._v_name = f"{slot_prefix}_v"
    self._rate = None

  def _create_slots(self, var_list):
    for var in var_list:
      for slot in (self._m_name, self._v_name):
        self._get_or_make_slot_with_initializer(
            var, tf.zeros_initializer(), var.shape, _compute_dtype(var),
            slot_name=slot, op_name=slot)
    if self.bias_correction:
      first = min(var_list, key=lambda var: var.name)
      self._create_non_slot_variable(self.beta_1, "beta1_power", first)
      self._create_non_slot_variable(self.beta_2, "beta2_power", first)

  def _prepare(self):
    self._rate = tf.convert_to_tensor(self._call_if_callable(self.learning_rate))

  def _beta_powers(self):
    """Returns the variables that hold beta_1^t and beta_2^t of this step t."""
    with tf.init_scope():
      graph = tf.get_default_graph()
    return (self._get_non_slot_variable("beta1_power", graph),
            self._get_non_slot_variable("beta2_power", graph))

  def _apply_dense(self, grad, var):
    dtype = _compute_dtype(var)
    grad = tf.cast(grad, dtype)
    weights = tf.cast(var, dtype)
    m = self.get_slot(var, self._m_name)
    v = self.get_slot(var, self._v_name)
    next_m = self.beta_1 * m + (1.0 - self.beta_1) * grad
    next_v = self.beta_2 * v + (1.0 - self.beta_2) * tf.square(grad)
    update = self._direction(next_m, next_v)
    name = variable_name(var)
    if self.weight_decay_rate and not _matches(
        self.exclude_from_weight_decay, name):
      update += self.weight_decay_rate * weights
    update = self._adapt(update, weights, name)
    step = tf.cast(self._rate, dtype) * update
    if self.learning_rate_multipliers is not None:
      step *= self.learning_rate_multipliers(name)
    return self._if_wanted(lambda: tf.group(
        var.assign_sub(tf.cast(step, var.dtype.base_dtype)),
        m.assign(next_m), v.assign(next_v)))

  def _if_wanted(self, assign):
    """Returns the op that `assign` builds, run only where `apply_if` holds."""
    if self.apply_if is None:
      return assign()
    return tf.cond(self.apply_if, assign, tf.no_op)

  def _direction(self, m, v):
    """Returns m / (sqrt(v) + epsilon), of corrected moments if asked for."""
    if self.bias_correction:
      beta1_power, beta2_power = self._beta_powers()
      m /= 1.0 - tf.cast(beta1_power, m.dtype)
      v /= 1.0 - tf.cast(beta2_power, v.dtype)
    return m / (tf.sqrt(v) + self.epsilon)

  def _adapt(self, update, weights, name):
    """Hook: rescales the update of the variable called `name`."""
    return update

  def _resource_apply_dense(self, grad, handle):
    return self._apply_dense(grad, handle)

  def _apply_sparse(self, grad, var):
    # Decay and norms concern all rows, those without a gradient too.
    return self._apply_dense(_dense(grad, var), var)

  def _resource_apply_sparse(self, grad, handle, indices):
    return self._apply_sparse(tf.IndexedSlices(grad, indices), handle)

  def _finish(self, update_ops, name_scope):
    if not self.bias_correction:
      return super()._finish(update_ops, name_scope)
    with tf.control_dependencies(update_ops):
      beta1_power, beta2_power = self._beta_powers()
      advance = self._if_wanted(lambda: tf.group(
          beta1_power.assign(beta1_power * self.beta_1),
          beta2_power.assign(beta2_power * self.beta_2)))
    return tf.group(*(list(update_ops) + [advance]), name=name_scope)


class AdamWeightDecayOptimizer(_DecoupledDecayOptimizer):
  """Adam with decoupled weight decay; BERT has it without bias correction."""

  def __init__(self, learning_rate, weight_decay_rate=0.0, beta_1=0.9,
               beta_2=0.999, epsilon=1e-6, exclude_from_weight_decay=None,
               name="AdamWeightDecayOptimizer", bias_correction=False):
    super().__init__(learning_rate, weight_decay_rate, beta_1, beta_2, epsilon,
                     exclude_from_weight_decay, name, bias_correction, "adam")


class LAMBOptimizer(_DecoupledDecayOptimizer):
  """LAMB: AdamW whose update has, per tensor, the length of the weights.

  The defaults are albert_zh's. google-research/albert gives normalisation and
  bias variables no trust ratio (`exclude_from_layer_adaptation`, patterns
  as for weight decay) and has the slot prefix "adam"; the paper and NVIDIA
  correct the bias, those two do not.
  """

  def __init__(self, learning_rate, weight_decay_rate=0.01, beta_1=0.9,
               beta_2=0.999, epsilon=1e-6, exclude_from_weight_decay=None,
               name="LAMBOptimizer", exclude_from_layer_adaptation=None,
               bias_correction=False, slot_prefix="lamb"):
    super().__init__(learning_rate, weight_decay_rate, beta_1, beta_2, epsilon,
                     exclude_from_weight_decay, name, bias_correction,
                     slot_prefix)
    self.exclude_from_layer_adaptation = exclude_from_layer_adaptation

  def _adapt(self, update, weights, name):
    if _matches(self.exclude_from_layer_adaptation, name):
      return update
    weights_norm = tf.norm(weights, ord=2)
    update_norm = tf.norm(update, ord=2)
    # A tensor of zeros could never leave zero with a ratio of 0.
    known = tf.logical_and(weights_norm > 0, update_norm > 0)
    ratio = tf.where(known, weights_norm / update_norm,
                     tf.ones_like(weights_norm))
    return ratio * update


def _matches(patterns, name):
  """Says whether one of the regular expressions is found in the name."""
  return any(re.search(pattern, name) for pattern in patterns or ())


def _compute_dtype(tensor):
  """float32 for tensors of half precision, else the tensor's own type."""
  dtype = tensor.dtype.base_dtype
  return tf.float32 if dtype.size < tf.float32.size else dtype


def _dense(gradient, variable):
  """Returns the gradient as a Tensor, in float32 if it had half precision."""
  if isinstance(gradient, tf.IndexedSlices):
    # Not convert_to_tensor: it warns about rows of an unknown number.
    gradient = tf.unsorted_segment_sum(
        tf.cast(gradient.values, _compute_dtype(gradient)), gradient.indices,
        variable.shape.as_list()[0])
  return tf.cast(gradient, _compute_dtype(gradient))
