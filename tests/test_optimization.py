"""Optimizers and schedule: golden steps, numpy steps, names, replicas."""

import json
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import optimization

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
CLASSES = {"lamb": optimization.LAMBOptimizer,
           "adamw": optimization.AdamWeightDecayOptimizer}
EXCLUDED = ["LayerNorm", "layer_norm", "bias"]


@pytest.fixture(autouse=True)
def graph():
  with tf.Graph().as_default() as new_graph:
    yield new_graph


@pytest.fixture(params=[False, True], ids=["ref", "resource"])
def use_resource(request):
  return request.param


def open_session(**config):
  session = tf.Session(config=tf.ConfigProto(**config) if config else None)
  session.run(tf.global_variables_initializer())
  return session


def make_variable(name, value, use_resource=True, dtype=tf.float32):
  return tf.get_variable(name, initializer=tf.constant(value, dtype),
                         use_resource=use_resource)


def load_golden(name):
  base = os.path.join(GOLDEN, f"opt_zh_{name}")
  with open(f"{base}.json", encoding="utf-8") as reader:
    meta = json.load(reader)
  return meta, np.load(f"{base}.npz")


def golden_graph(meta, arrays, use_resource):
  """Returns the golden variables and a gradient placeholder for each."""
  variables = [make_variable(name, arrays[f"w0:{name}"], use_resource)
               for name, _ in meta["vars"]]
  gradients = [tf.placeholder(tf.float32, shape) for _, shape in meta["vars"]]
  return variables, gradients


def check_golden(run, meta, arrays, train_op, variables, gradients):
  """Runs every golden step and compares weights and, at the end, slots."""
  names = [name for name, _ in meta["vars"]]
  tensors = {var.op.name: var for var in tf.global_variables()}
  with open_session() as session:
    for step in range(meta["steps"]):
      session.run(train_op, {
          placeholder: arrays[f"g{step}:{name}"]
          for placeholder, name in zip(gradients, names)})
      for name, weights in zip(names, session.run(variables)):
        np.testing.assert_allclose(
            weights, arrays[f"{run}:w{step + 1}:{name}"], rtol=1e-5, atol=1e-7,
            err_msg=f"{name}, step {step}")
    for name, _ in meta[f"{run}_slots"]:
      np.testing.assert_allclose(
          session.run(tensors[name]), arrays[f"{run}:slot:{name}"], rtol=1e-5,
          atol=1e-9, err_msg=name)


@pytest.mark.parametrize("name", ["lamb", "adamw"])
def test_bare_optimizer_makes_the_golden_steps(name, use_resource):
  meta, arrays = load_golden(name)
  variables, gradients = golden_graph(meta, arrays, use_resource)
  optimizer = CLASSES[name](0.01, weight_decay_rate=0.01,
                            exclude_from_weight_decay=EXCLUDED)
  train_op = optimizer.apply_gradients(list(zip(gradients, variables)))
  check_golden("raw", meta, arrays, train_op, variables, gradients)


@pytest.mark.parametrize("name", ["lamb", "adamw"])
def test_create_optimizer_makes_the_golden_steps(name, use_resource):
  meta, arrays = load_golden(name)
  variables, gradients = golden_graph(meta, arrays, use_resource)
  loss = tf.add_n([tf.reduce_sum(var * gradient)
                   for var, gradient in zip(variables, gradients)])
  train_op = optimization.create_optimizer(loss, 0.05, 5, 2, False, name)
  check_golden("sched", meta, arrays, train_op, variables, gradients)


def run_constant_gradient(optimizer, values, gradients, steps):
  """Returns the variables' values after `steps` with the same gradients."""
  variables = [make_variable(name, value)
               for name, value in sorted(values.items())]
  train_op = optimizer.apply_gradients(
      [(tf.constant(gradients[var.op.name], tf.float32), var)
       for var in variables])
  with open_session() as session:
    for _ in range(steps):
      session.run(train_op)
    return dict(zip(sorted(values), session.run(variables)))


def numpy_run(values, gradients, steps, rate, decay=0.0, lamb=None,
              bias_correction=False, epsilon=1e-6):
  """The same in numpy; `lamb` is the set of names with a trust ratio."""
  result = {}
  for name, value in values.items():
    weights, gradient = np.array(value, float), np.array(gradients[name], float)
    m = v = np.zeros_like(weights)
    for step in range(1, steps + 1):
      m = 0.9 * m + 0.1 * gradient
      v = 0.999 * v + 0.001 * gradient ** 2
      m_hat = m / (1 - 0.9 ** step) if bias_correction else m
      v_hat = v / (1 - 0.999 ** step) if bias_correction else v
      update = m_hat / (np.sqrt(v_hat) + epsilon)
      if "bias" not in name:
        update = update + decay * weights
      if lamb and name in lamb:
        update *= np.linalg.norm(weights) / np.linalg.norm(update)
      weights = weights - rate * update
    result[name] = weights
  return result


VALUES = {"dense/kernel": [[1.0, -2.0], [0.5, 3.0]], "dense/bias": [0.3, -0.7]}
GRADIENTS = {"dense/kernel": [[0.1, 0.2], [-0.3, 0.4]],
             "dense/bias": [0.5, 0.05]}


def assert_same(actual, expected):
  assert sorted(actual) == sorted(expected)
  for name in actual:
    np.testing.assert_allclose(actual[name], expected[name], rtol=2e-5,
                               atol=1e-6, err_msg=name)


def test_lamb_leaves_out_layer_adaptation_where_told():
  optimizer = optimization.LAMBOptimizer(
      0.02, exclude_from_weight_decay=["bias"],
      exclude_from_layer_adaptation=["bias"])
  actual = run_constant_gradient(optimizer, VALUES, GRADIENTS, 4)
  assert_same(actual, numpy_run(VALUES, GRADIENTS, 4, 0.02, decay=0.01,
                                lamb={"dense/kernel"}))


def test_lamb_with_bias_correction_is_the_papers():
  optimizer = optimization.LAMBOptimizer(
      0.02, exclude_from_weight_decay=["bias"], bias_correction=True)
  actual = run_constant_gradient(optimizer, VALUES, GRADIENTS, 4)
  assert_same(actual, numpy_run(VALUES, GRADIENTS, 4, 0.02, decay=0.01,
                                lamb=set(VALUES), bias_correction=True))


def test_adamw_with_bias_correction(use_resource):
  optimizer = optimization.AdamWeightDecayOptimizer(0.02, bias_correction=True)
  weights = make_variable("w", [1.0, -2.0], use_resource)
  train_op = optimizer.apply_gradients([(tf.constant([0.5, 0.1]), weights)])
  expected = numpy_run({"w": [1.0, -2.0]}, {"w": [0.5, 0.1]}, 5, 0.02,
                       bias_correction=True)
  with open_session() as session:
    for _ in range(5):
      session.run(train_op)
    np.testing.assert_allclose(session.run(weights), expected["w"], rtol=2e-5)


def test_bias_correction_without_epsilon_is_adam():
  # Adam adds its epsilon in another place, so a vanishing one on both sides.
  optimizers = [
      optimization.AdamWeightDecayOptimizer(
          0.02, epsilon=1e-12, bias_correction=True),
      tf.train.AdamOptimizer(0.02, epsilon=1e-12)]
  results = []
  for optimizer in optimizers:
    with tf.Graph().as_default():
      results.append(run_constant_gradient(optimizer, VALUES, GRADIENTS, 5))
  assert_same(*results)


def test_adamw_fits_a_small_regression():
  weights = make_variable("w", [0.1, -0.2, -0.1])
  loss = tf.reduce_mean(tf.square(tf.constant([0.4, 0.2, -0.5]) - weights))
  global_step = tf.train.get_or_create_global_step()
  optimizer = optimization.AdamWeightDecayOptimizer(learning_rate=0.2)
  train_op = optimizer.apply_gradients(
      zip(tf.gradients(loss, [weights]), [weights]), global_step)
  with open_session() as session:
    for _ in range(100):
      session.run(train_op)
    np.testing.assert_allclose(
        session.run(weights), [0.4, 0.2, -0.5], atol=1e-2)
    assert session.run(global_step) == 100


def rates(steps, *args, **kwargs):
  step = tf.placeholder(tf.int64, [])
  rate = optimization.learning_rate_schedule(0.1, step, *args, **kwargs)
  with tf.Session() as session:
    return [float(session.run(rate, {step: value})) for value in steps]


@pytest.mark.parametrize("kwargs, steps, expected", [
    (dict(num_warmup_steps=0), [0, 5, 10, 20], [0.1, 0.05, 0.0, 0.0]),
    (dict(num_warmup_steps=None), [0, 5], [0.1, 0.05]),
    # Decay is not shifted by the warm-up: it starts at 0.1 * (1 - 4/10).
    (dict(num_warmup_steps=4), [0, 1, 3, 4, 5], [0.0, 0.025, 0.075, 0.06, 0.05]),
    (dict(num_warmup_steps=0, poly_power=2.0), [0, 5, 9], [0.1, 0.025, 0.001]),
    (dict(num_warmup_steps=0, poly_power=0.0), [0, 5, 10], [0.1, 0.1, 0.1]),
    # A start shifts the warm-up only, and nothing goes negative before it.
    (dict(num_warmup_steps=2, start_warmup_step=5), [3, 5, 6, 7, 8],
     [0.0, 0.0, 0.05, 0.03, 0.02]),
])
def test_learning_rate_schedule(kwargs, steps, expected):
  np.testing.assert_allclose(rates(steps, 10, **kwargs), expected, atol=1e-8)


@pytest.mark.parametrize("args, message", [
    ((0, 0), "num_train_steps is 0"),
    ((10, -1), "num_warmup_steps is -1"),
    ((10, 1, 1.0, -2), "start_warmup_step is -2"),
])
def test_learning_rate_schedule_refuses(args, message):
  with pytest.raises(ValueError, match=message):
    optimization.learning_rate_schedule(0.1, tf.constant(0), *args)


def test_each_step_uses_its_own_learning_rate(use_resource):
  """What is fetched, and what moved the weights, is the schedule's value."""
  steps = 300
  weights = make_variable("w/bias", [0.0] * 64, use_resource)
  step = optimization.build_train_op(
      tf.reduce_sum(weights), 0.1, steps, 30, use_tpu=False, clip_norm=100.0)
  global_step = tf.train.get_global_step()
  fetched, values = [], [np.zeros(64)]
  with open_session() as session:
    for count in range(steps):
      assert session.run(global_step) == count
      fetched.append(session.run([step.train_op, step.learning_rate])[1])
      values.append(session.run(weights))
  expected = np.array([0.1 * n / 30 if n < 30 else 0.1 * (1 - n / steps)
                       for n in range(steps)])
  np.testing.assert_allclose(fetched, expected, rtol=1e-4, atol=1e-8)
  turn = np.arange(1, steps + 1)
  update = (1 - 0.9 ** turn) / (np.sqrt(1 - 0.999 ** turn) + 1e-6)
  moved = -np.diff(np.array(values), axis=0)
  np.testing.assert_allclose(
      moved, np.repeat((expected * update)[:, None], 64, axis=1), rtol=1e-3,
      atol=1e-5)


def test_gradient_norm_is_the_one_before_clipping():
  weights = make_variable("w", [0.0, 0.0])
  step = optimization.build_train_op(
      tf.reduce_sum(weights * [3.0, 4.0]), 0.1, 10, 0, use_tpu=False)
  with open_session() as session:
    _, norm = session.run([step.train_op, step.gradient_norm])
    m, = [var for var in tf.global_variables() if var.op.name == "w/adam_m"]
    np.testing.assert_allclose(norm, 5.0, rtol=1e-6)
    np.testing.assert_allclose(session.run(m), [0.06, 0.08], rtol=1e-5)


@pytest.mark.parametrize("name, options, expected", [
    ("adamw", {}, ["adam_m", "adam_v"]),
    ("lamb_google", {}, ["adam_m", "adam_v"]),
    ("lamb", {}, ["lamb_m", "lamb_v"]),
    ("lamb", {"bias_correction": True}, ["lamb_m", "lamb_v"]),
])
def test_names_in_a_checkpoint(name, options, expected, use_resource, tmp_path):
  with tf.variable_scope("bert/dense"):
    kernel = make_variable("kernel", [[1.0]], use_resource)
    bias = make_variable("bias", [1.0], use_resource)
  train_op = optimization.create_optimizer(
      tf.reduce_sum(kernel) + tf.reduce_sum(bias), 0.1, 10, 0, False, name,
      **options)
  with open_session() as session:
    session.run(train_op)
    path = tf.train.Saver().save(session, str(tmp_path / "model.ckpt"))
  names = {"global_step"}
  for variable in ("bert/dense/kernel", "bert/dense/bias"):
    names.update([variable] + [f"{variable}/{slot}" for slot in expected])
  if options:
    names.update(["beta1_power", "beta2_power"])
  assert {name for name, _ in tf.train.list_variables(path)} == names


def test_lamb_google_differs_from_lamb_on_bias_only():
  results = {}
  for name in ("lamb", "lamb_google"):
    with tf.Graph().as_default():
      kernel = make_variable("kernel", [[3.0, 4.0]])
      bias = make_variable("bias", [3.0, 4.0])
      train_op = optimization.create_optimizer(
          tf.reduce_sum(kernel) + tf.reduce_sum(bias), 0.1, 10, 0, False, name,
          weight_decay_rate=0.0)
      with open_session() as session:
        session.run(train_op)
        results[name] = session.run([kernel, bias])
  step = 0.1 * 0.1 / np.sqrt(0.001)  # lr * m / sqrt(v) of the first step
  ratio = 5.0 / np.sqrt(2) / (0.1 / np.sqrt(0.001))
  for name, bias_ratio in (("lamb", ratio), ("lamb_google", 1.0)):
    kernel, bias = results[name]
    np.testing.assert_allclose(
        kernel, [np.array([3.0, 4.0]) - ratio * step], rtol=1e-4)
    np.testing.assert_allclose(
        bias, np.array([3.0, 4.0]) - bias_ratio * step, rtol=1e-4)


@pytest.mark.parametrize("name", ["lamb", "adamw"])
@pytest.mark.parametrize("through", ["create_optimizer", "apply_gradients"])
def test_gather_equals_one_hot(name, through, use_resource):
  ids = [2, 0, 2]
  table_value = np.arange(1.0, 11.0).reshape(5, 2) / 10
  results = []
  for sparse in (True, False):
    with tf.Graph().as_default():
      table = make_variable("table", table_value, use_resource)
      rows = (tf.gather(table, ids) if sparse
              else tf.matmul(tf.one_hot(ids, 5), table))
      loss = tf.reduce_sum(tf.square(rows) * [[1.0], [2.0], [3.0]])
      if through == "create_optimizer":
        train_op = optimization.create_optimizer(loss, 0.1, 10, 0, False, name)
      else:
        optimizer = CLASSES[name](0.1, weight_decay_rate=0.01)
        train_op = optimizer.apply_gradients(
            [(tf.gradients(loss, [table])[0], table)])
      with open_session() as session:
        for _ in range(3):
          session.run(train_op)
        results.append(session.run(table))
  np.testing.assert_allclose(results[0], results[1], rtol=1e-5)
  # Decay reaches the rows that nobody looked up.
  assert np.all(results[0][1] < table_value[1])


@pytest.mark.parametrize("how", ["variable", "name", "function"])
def test_excluded_variables_stay(how):
  kept = make_variable("kept", [1.0])
  trained = make_variable("trained", [1.0])
  train_op = optimization.create_optimizer(
      tf.reduce_sum(kept * trained), 0.1, 10, 0, False,
      excluded_tvars={"variable": [kept], "name": ["kept"],
                      "function": lambda name: name == "kept"}[how])
  with open_session() as session:
    session.run(train_op)
    assert session.run(kept) == [1.0]
    assert session.run(trained) < 1.0
  names = {var.op.name for var in tf.global_variables()}
  assert "trained/adam_m" in names and "kept/adam_m" not in names


@pytest.mark.parametrize("name", optimization.OPTIMIZERS)
def test_a_multiplier_scales_the_steps_of_its_variable(name, use_resource):
  multipliers = {"low": 0.25, "top": 1.0, "none": 0.0}
  variables = [make_variable(key, [1.0, -2.0], use_resource)
               for key in sorted(multipliers)]
  loss = tf.add_n([tf.reduce_sum(tf.square(var)) for var in variables])
  train_op = optimization.create_optimizer(
      loss, 0.1, 100, 0, False, name,
      learning_rate_multipliers=multipliers.get)
  with open_session() as session:
    session.run(train_op)
    low, none, top = [value - [1.0, -2.0] for value in session.run(variables)]
  assert np.abs(top).min() > 0.01
  np.testing.assert_allclose(low, 0.25 * top, rtol=1e-4)
  np.testing.assert_array_equal(none, [0.0, 0.0])


def test_variables_without_gradient_stay():
  used = make_variable("used", [1.0])
  unused = make_variable("unused", [1.0])
  train_op = optimization.create_optimizer(
      tf.reduce_sum(used), 0.1, 10, 0, False, "lamb")
  with open_session() as session:
    session.run(train_op)
    assert session.run(unused) == [1.0]
    assert session.run(used) < 1.0


def test_zero_tensor_moves_under_lamb():
  weights = make_variable("w", [0.0, 0.0])
  train_op = optimization.LAMBOptimizer(0.1).apply_gradients(
      [(tf.constant([1.0, 0.0]), weights)])
  with open_session() as session:
    session.run(train_op)
    np.testing.assert_allclose(
        session.run(weights), [-0.1 * 0.1 / np.sqrt(0.001), 0.0], rtol=1e-4)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
@pytest.mark.parametrize("name", ["lamb", "adamw"])
def test_half_precision_variable_has_float32_moments(name, dtype):
  # 300 values of 300: the squares' sum leaves float16 behind.
  weights = make_variable("w", [300.0] * 300, dtype=dtype)
  step = optimization.build_train_op(
      tf.reduce_sum(weights), 1.0, 10, 0, False, name)
  slots = [var for var in tf.global_variables() if "/" in var.op.name]
  assert [var.dtype.base_dtype for var in slots] == [tf.float32] * 2
  with open_session() as session:
    _, norm = session.run([step.train_op, step.gradient_norm])
    np.testing.assert_allclose(norm, np.sqrt(300), rtol=1e-3)
    value = session.run(tf.cast(weights, tf.float32))
  assert np.all(np.isfinite(value)) and np.all(value < 300.0)


def test_exclusion_patterns_see_the_name_without_replica_and_output():
  # "a$" would miss "a:0" and "a/replica_1:0".
  plain = optimization.variable_name
  assert plain("bert/a:0") == plain("bert/a/replica_1:0") == "bert/a"
  assert plain("bert/replica_1/a") == "bert/replica_1/a"


def build(weights=None, **kwargs):
  weights = make_variable("w", [1.0]) if weights is None else weights
  arguments = dict(init_lr=0.1, num_train_steps=10, num_warmup_steps=0,
                   use_tpu=False)
  arguments.update(kwargs)
  return optimization.create_optimizer(
      arguments.pop("loss", tf.reduce_sum(weights)), **arguments)


@pytest.mark.parametrize("kwargs, error, message", [
    (dict(optimizer="adam"), ValueError,
     "optimizer is 'adam', but the choices are adamw, lamb, lamb_google"),
    (dict(clip_norm=0.0), ValueError, "clip_norm is 0.0"),
    (dict(excluded_tvars=["x"]), ValueError,
     "excluded_tvars names x, .* 1 trainable"),
    (dict(excluded_tvars=["w"]), ValueError, "nothing to train"),
    (dict(excluded_tvars=lambda name: True), ValueError, "nothing to train"),
    (dict(weight_decay=0.1), TypeError, "weight_decay"),
    (dict(fgm_epsilon=0.1), ValueError, "the loss must be a function"),
    (dict(fgm_epsilon=-0.1), ValueError, "must be at least 0"),
    (dict(fgm_epsilon=0.1, loss=lambda index: (tf.reduce_sum(
        make_variable("v", [1.0])), {})), ValueError,
     "needs the gradient of one variable word_embeddings, but 0 of the 1"),
])
def test_wrong_arguments(kwargs, error, message):
  with pytest.raises(error, match=message):
    build(**kwargs)


def test_a_loss_that_depends_on_nothing():
  with pytest.raises(ValueError, match="depends on none of the 1 variables"):
    build(loss=tf.constant(1.0, name="loss"))


def test_cross_replica_sum_on_tpu_only():
  for use_tpu in (False, True):
    with tf.Graph().as_default() as graph:
      build(use_tpu=use_tpu)
      sums = [op for op in graph.get_operations()
              if op.type == "CrossReplicaSum"]
      assert bool(sums) == use_tpu


FEATURES = np.array([[1.0, 2.0, 0.5], [-3.0, 0.2, 1.0],
                     [0.1, -0.4, 2.0], [4.0, 1.5, -1.0]], np.float32)
TARGETS = np.array([1.0, -2.0, 0.5, 3.0], np.float32)


def replica_step(name, bias_correction, replicas):
  """Builds one step over FEATURES, spread over the replicas."""
  context = tf.distribute.get_replica_context()
  index = tf.cast(context.replica_id_in_sync_group, tf.int32)
  size = len(FEATURES) // replicas
  rows = index * size + tf.range(size)
  kernel = tf.get_variable("kernel", initializer=tf.constant([0.5, -0.3, 0.2]))
  bias = tf.get_variable("bias", initializer=tf.constant([0.1]))
  output = tf.reduce_sum(tf.gather(FEATURES, rows) * kernel, axis=1) + bias
  loss = tf.reduce_mean(tf.square(output - tf.gather(TARGETS, rows)))
  return optimization.build_train_op(
      loss, 0.1, 12, 2, False, name, bias_correction=bias_correction)


def train_replicas(name, bias_correction, replicas):
  """Returns kernel, bias and the gradient norm after six steps."""
  strategy = tf.distribute.MirroredStrategy(
      [f"/cpu:{number}" for number in range(replicas)])
  with tf.Graph().as_default(), strategy.scope():
    tf.train.get_or_create_global_step()
    step = strategy.extended.call_for_each_replica(
        replica_step, args=(name, bias_correction, replicas))
    fetches = [strategy.group(step.train_op),
               strategy.experimental_local_results(step.gradient_norm),
               strategy.experimental_local_results(step.learning_rate)]
    names = {var.op.name: var for var in tf.global_variables()}
    assert "kernel/{}_m".format(name[:4]) in names
    with open_session(device_count={"CPU": 2}) as session:
      for count in range(6):
        _, norms, learning_rates = session.run(fetches)
        np.testing.assert_allclose(norms, norms[0], rtol=1e-6)
        expected = 0.1 * (count / 2 if count < 2 else 1 - count / 12)
        np.testing.assert_allclose(
            learning_rates, [expected] * replicas, rtol=1e-5, atol=1e-8)
      copies = [strategy.experimental_local_results(names[variable])
                for variable in ("kernel", "bias")]
      for values in session.run(copies):
        np.testing.assert_array_equal(values[0], values[-1])
      assert session.run(tf.train.get_global_step()) == 6
      return session.run([names["kernel"], names["bias"]]) + [norms[0]]


@pytest.mark.parametrize("bias_correction", [False, True])
@pytest.mark.parametrize("name", ["lamb", "adamw"])
def test_two_replicas_equal_one_with_the_whole_batch(name, bias_correction):
  one, two = (train_replicas(name, bias_correction, replicas)
              for replicas in (1, 2))
  assert one[-1] > 1.0  # clipping had something to do
  for left, right in zip(one, two):
    np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)


# ------------------------------------------------- micro-batches, loss scale


def parts_loss(num_parts):
  """A function-valued loss over FEATURES whose weighted rows are cut up."""
  weights = np.array([1.0, 0.0, 3.0, 0.5], np.float32)
  batch = {"x": tf.constant(FEATURES), "y": tf.constant(TARGETS),
           "weights": tf.constant(weights)}

  def loss(index):
    part = optimization.micro_batch(batch, index, num_parts)
    assert part["x"].shape.as_list() == [4 // num_parts, 3]
    with tf.variable_scope(None, default_name="model"):
      kernel = tf.get_variable("kernel", initializer=tf.constant(
          [0.5, -0.3, 0.2]))
      table = tf.get_variable("table", initializer=tf.constant(
          [[0.1], [0.4]]))
    output = (tf.reduce_sum(part["x"] * kernel, axis=1) +
              tf.gather(table, [0, 0])[0])
    errors = part["weights"] * tf.square(output - part["y"])
    return (tf.reduce_sum(errors) / weights.sum(),
            {"examples": tf.reduce_sum(tf.ones_like(errors)),
             "absolute": tf.reduce_sum(part["weights"])})

  return loss


@pytest.mark.parametrize("name", optimization.OPTIMIZERS)
@pytest.mark.parametrize("num_parts", [2, 4])
def test_micro_batches_add_up_to_the_batch(name, num_parts, use_resource):
  results = []
  for parts in (1, num_parts):
    with tf.Graph().as_default():
      with tf.variable_scope(tf.get_variable_scope(),
                             use_resource=use_resource):
        step = optimization.build_train_op(
            parts_loss(parts), 0.1, 12, 2, False, name,
            gradient_accumulation_steps=parts)
      variables = {var.op.name: var for var in tf.trainable_variables()}
      assert sorted(variables) == ["model/kernel", "model/table"]
      with open_session() as session:
        for _ in range(6):
          _, loss, norm, sums = session.run(
              [step.train_op, step.loss, step.gradient_norm, step.sums])
        assert session.run(tf.train.get_global_step()) == 6
        results.append([loss, norm] + session.run(
            [variables[key] for key in sorted(variables)]))
        assert sums == {"examples": 4.0, "absolute": 4.5}
  for left, right in zip(*results):
    np.testing.assert_allclose(left, right, rtol=1e-5)


def test_one_micro_batch_after_the_other():
  running = []

  def watch(value, change):
    running.append((running[-1] if running else 0) + change)
    return value

  def loss(index):
    weights = make_variable("w", [1.0])
    value = tf.py_func(lambda v: watch(v, 1), [weights.read_value() if hasattr(
        weights, "read_value") else weights], tf.float32)
    value = tf.py_func(lambda v: watch(v, -1), [value], tf.float32)
    return tf.reduce_sum(weights) + 0.0 * tf.reduce_sum(value), {}

  step = optimization.build_train_op(loss, 0.1, 10, 0, False,
                                     gradient_accumulation_steps=5)
  with open_session() as session:
    session.run([step.train_op, step.loss])
  assert running == [1, 0] * 5


def scaled_step(name="adamw", **options):
  """A step whose gradient is fed, times the loss scale."""
  weights = make_variable("w", [1.0, 2.0])
  gradient = tf.placeholder(tf.float32, [2])
  step = optimization.build_train_op(
      tf.reduce_sum(weights * gradient), 0.1, 100, 0, False, name,
      dynamic_loss_scale=True, **options)
  return weights, gradient, step


@pytest.mark.parametrize("name", ["adamw", "lamb"])
@pytest.mark.parametrize("bad", [np.inf, np.nan, 1e35])
def test_a_step_that_overflows_changes_nothing(name, bad):
  _, gradient, step = scaled_step(name, bias_correction=True)
  scale = tf.global_variables("loss_scale/scale")[0]
  state = [var for var in tf.global_variables()
           if not var.op.name.startswith("loss_scale")]
  assert len(state) == 6  # global step, weights, two moments, beta powers
  with open_session() as session:
    session.run(step.train_op, {gradient: [0.1, -0.2]})
    before = session.run(state)
    _, used, skipped, loss = session.run(
        [step.train_op, step.loss_scale, step.skipped_steps, step.loss],
        {gradient: [bad, 0.0]})
    assert (used, skipped) == (2.0 ** 15, 1.0)
    assert not np.isnan(loss)  # at which the Estimator would stop
    for old, new in zip(before, session.run(state)):
      np.testing.assert_array_equal(old, new)
    assert session.run(scale) == 2.0 ** 14
    session.run(step.train_op, {gradient: [0.1, -0.2]})
    assert session.run(tf.train.get_global_step()) == 2
    assert session.run(scale) == 2.0 ** 14
  saved = {var.op.name for var in tf.global_variables()}
  assert {"loss_scale/good_steps", "loss_scale/skipped_steps"} <= saved


def test_a_scaled_loss_makes_the_same_step():
  results = []
  for scaled in (False, True):
    with tf.Graph().as_default():
      weights = make_variable("w", [1.0, 2.0])
      step = optimization.build_train_op(
          tf.reduce_sum(tf.square(weights)), 0.1, 100, 0, False,
          dynamic_loss_scale=scaled)
      assert (step.loss_scale is not None) == scaled
      with open_session() as session:
        for _ in range(3):
          _, loss, norm = session.run(
              [step.train_op, step.loss, step.gradient_norm])
        results.append([loss, norm, session.run(weights)])
  for left, right in zip(*results):
    np.testing.assert_array_equal(left, right)


def test_the_scale_grows_after_good_steps_and_has_bounds(monkeypatch):
  monkeypatch.setattr(optimization, "LOSS_SCALE_GROWTH_STEPS", 3)
  monkeypatch.setattr(optimization, "INITIAL_LOSS_SCALE", 2.0)
  monkeypatch.setattr(optimization, "LARGEST_LOSS_SCALE", 8.0)
  _, gradient, step = scaled_step()
  found = []
  with open_session() as session:
    for bad in "..x......" "..." "xxxx":
      found.append(session.run(
          [step.loss_scale, step.train_op],
          {gradient: [np.inf if bad == "x" else 0.1, 0.1]})[0])
  assert found == [2, 2, 2, 1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 4, 2, 1]


def test_overflow_on_one_replica_stops_the_step_on_both():
  strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])

  def replica():
    context = tf.distribute.get_replica_context()
    index = tf.cast(context.replica_id_in_sync_group, tf.int32)
    weights = tf.get_variable("w", initializer=tf.constant([1.0]))
    count = tf.cast(tf.train.get_or_create_global_step(), tf.int32)
    # Too large on replica 1 in the first two runs.
    factor = tf.where(
        tf.logical_and(tf.equal(index, 1), count + skipped < 2),
        float("inf"), 1.0)
    return optimization.build_train_op(
        tf.reduce_sum(weights * factor), 0.1, 100, 0, False, "lamb",
        dynamic_loss_scale=True)

  with tf.Graph().as_default(), strategy.scope():
    tf.train.get_or_create_global_step()
    skipped = tf.placeholder_with_default(0, [])
    step = strategy.extended.call_for_each_replica(replica)
    names = {var.op.name: var for var in tf.global_variables()}
    with open_session(device_count={"CPU": 2}) as session:
      for count in range(4):
        session.run(strategy.group(step.train_op), {skipped: count})
      assert session.run(tf.train.get_global_step()) == 2
      assert session.run(names["loss_scale/skipped_steps"]) == 2
      assert session.run(names["loss_scale/scale"]) == 2.0 ** 13
      copies = session.run(strategy.experimental_local_results(names["w"]))
      np.testing.assert_array_equal(*copies)
      assert copies[0] < 1.0


@pytest.mark.parametrize("options,message", [
    (dict(gradient_accumulation_steps=2), "must be a function"),
    (dict(gradient_accumulation_steps=0), "must be at least 1"),
    (dict(dynamic_loss_scale=True, use_tpu=True), "bfloat16 needs none")])
def test_wrong_parts_and_scales(options, message):
  with pytest.raises(ValueError, match=message):
    build(**options)


# ------------------------------------------------------------------------ FGM

IDS = np.array([2, 0, 2, 1])
TABLE = np.array([[0.3, -0.2], [0.5, 0.1], [-0.4, 0.7], [1.0, 1.0]], np.float32)
KERNEL = np.array([0.8, -0.6], np.float32)


def table_loss(num_parts, first=0, size=4):
  """Half of the mean squared error of a table's rows times a kernel."""
  batch = {"ids": tf.slice(tf.constant(IDS), [first], [size]),
           "y": tf.slice(tf.constant(TARGETS), [first], [size])}

  def loss(index):
    part = optimization.micro_batch(batch, index, num_parts)
    with tf.variable_scope("embeddings"):
      table = tf.get_variable("word_embeddings", initializer=tf.constant(TABLE))
    kernel = tf.get_variable("kernel", initializer=tf.constant(KERNEL))
    output = tf.reduce_sum(tf.gather(table, part["ids"]) * kernel, axis=1)
    return 0.5 * tf.reduce_sum(tf.square(output - part["y"])) / size, {}

  return loss


def numpy_step(table):
  """Loss and gradients of `table_loss` on the whole batch."""
  errors = (table[IDS] * KERNEL).sum(axis=1) - TARGETS
  of_table = np.zeros_like(table)
  np.add.at(of_table, IDS, errors[:, np.newaxis] * KERNEL / 4)
  return (0.5 * np.square(errors).mean(), of_table,
          (errors[:, np.newaxis] * table[IDS]).mean(axis=0))


def numpy_fgm(epsilon):
  """(clean loss, adversarial loss, the sums of both passes' gradients)."""
  loss, of_table, of_kernel = numpy_step(TABLE)
  moved = numpy_step(TABLE + epsilon * of_table / np.linalg.norm(of_table))
  return loss, moved[0], of_table + moved[1], of_kernel + moved[2]


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_fgm_by_numpy(parts, use_resource):
  loss, adversarial_loss, of_table, of_kernel = numpy_fgm(0.5)
  assert adversarial_loss > 1.1 * loss
  with tf.variable_scope(tf.get_variable_scope(), use_resource=use_resource):
    step = optimization.build_train_op(
        table_loss(parts), 0.1, 10, 0, False, fgm_epsilon=0.5, clip_norm=1e9,
        gradient_accumulation_steps=parts)
  moments = [var for name in ("embeddings/word_embeddings", "kernel")
             for var in tf.global_variables(name + "/adam_m")]
  with open_session() as session:
    _, found, sums, norm = session.run(
        [step.train_op, step.loss, step.sums, step.gradient_norm])
    assert (found, sums["adversarial_loss"]) == pytest.approx(
        (loss, adversarial_loss), rel=1e-5)
    assert norm == pytest.approx(np.sqrt(
        np.square(of_table).sum() + np.square(of_kernel).sum()), rel=1e-5)
    for moment, gradient in zip(session.run(moments), [of_table, of_kernel]):
      np.testing.assert_allclose(moment, 0.1 * gradient, rtol=1e-4, atol=1e-7)


def test_fgm_moves_by_the_gradient_of_all_replicas():
  strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])

  def replica():
    context = tf.distribute.get_replica_context()
    index = tf.cast(context.replica_id_in_sync_group, tf.int32)
    return optimization.build_train_op(
        table_loss(2, 2 * index, 2), 0.1, 10, 0, False, fgm_epsilon=0.5,
        gradient_accumulation_steps=2)

  with tf.Graph().as_default(), strategy.scope():
    tf.train.get_or_create_global_step()
    step = strategy.extended.call_for_each_replica(replica)
    fetches = [strategy.experimental_local_results(value) for value in (
        step.loss, step.sums["adversarial_loss"], step.gradient_norm)]
    with open_session(device_count={"CPU": 2}) as session:
      found = session.run([fetches, strategy.group(step.train_op)])[0]
  loss, adversarial_loss, of_table, of_kernel = numpy_fgm(0.5)
  norm = np.sqrt(np.square(of_table).sum() + np.square(of_kernel).sum())
  for values, expected in zip(found, (loss, adversarial_loss, norm)):
    np.testing.assert_allclose(values, [expected] * 2, rtol=1e-5)
