"""The fine-tuned model: task types, and what each option does."""

import functools
import types

from absl import flags
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import bert_utils
import classifier_model
from classifier_model import Head
import distributed_run
import estimator_utils
import modeling
import optimization
import tiny

BATCH, LENGTH, LABELS = 8, 12, 3
INPUTS = ("input_ids", "input_mask", "segment_ids")
TYPES = ("single", "multi", "regression")
DROPOUT = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2}
PLAIN = Head()
Modes = estimator_utils.estimator.ModeKeys


@pytest.fixture(autouse=True)
def graph():
  with tf.Graph().as_default() as new_graph:
    yield new_graph


def make_config(**changes):
  return modeling.BertConfig(**dict(tiny.CONFIG, initializer_range=0.5,
                                    **changes))


def num_outputs(task_type):
  return 1 if task_type == "regression" else LABELS


def make_rows(task_type="single", count=BATCH):
  """Features; single labels are unevenly spread over the halves of a batch."""
  rows = distributed_run.make_rows(count)
  rows = {name: rows[name] for name in INPUTS}
  random = np.random.RandomState(4)
  rows["label_ids"] = {
      "single": np.array([0, 0, 1, 0, 2, 2, 1, 2] * count)[:count].astype(
          np.int32),
      "multi": random.randint(0, 2, [count, LABELS]).astype(np.int32),
      "regression": random.normal(size=count).astype(np.float32)}[task_type]
  rows["is_real_example"] = np.ones([count], np.int32)
  return rows


def constants(rows):
  return {name: tf.constant(array) for name, array in rows.items()}


def make_model_fn(config, task_type="single", num_labels=None, **options):
  settings = dict(optimizer="adamw", seed=3)
  settings.update(options)
  return classifier_model.model_fn_builder(
      config, num_labels or num_outputs(task_type), None, 1e-2, 10, 0, False,
      False, task_type=task_type, **settings)


def build(model_fn, rows, mode=Modes.TRAIN):
  """Builds a graph of the model_fn in the default graph."""
  tf.set_random_seed(5)
  tf.train.get_or_create_global_step()
  return model_fn(constants(rows), None, mode, {})


def initial_values(config, num_labels=LABELS):
  """Weights to start from, by name: the head's are no smaller than others'."""
  key = config.to_json_string(), num_labels
  if key not in _INITIAL:
    _INITIAL[key] = _make_initial_values(config, num_labels)
  return dict(_INITIAL[key])


_INITIAL = {}


def _make_initial_values(config, num_labels):
  with tf.Graph().as_default(), tf.Session() as session:
    tf.set_random_seed(7)
    classifier_model.create_model(
        config, False, tf.zeros([1, 3], tf.int32), None, None, None,
        num_labels, False)
    session.run(tf.global_variables_initializer())
    values = session.run({bert_utils.variable_name(var): var
                          for var in tf.trainable_variables()})
  values["output_weights"] = values["output_weights"] * 20
  return values


def load(session, values):
  session.run(tf.global_variables_initializer())
  variables = {bert_utils.variable_name(var): var
               for var in tf.trainable_variables()}
  assert sorted(variables) == sorted(values)
  for name, value in values.items():
    variables[name].load(value, session)


Step = types.SimpleNamespace


def train(config, task_type="single", steps=1, rows=None, values=None,
          **options):
  """Trains on one device, on the same rows again; what came out of it."""
  with tf.Graph().as_default() as graph, tf.Session() as session:
    spec = build(make_model_fn(config, task_type, **options),
                 make_rows(task_type) if rows is None else rows)
    if values is None:
      values = initial_values(config, num_outputs(task_type))
    load(session, values)
    scalars = {op.name.split("/")[1]: op.outputs[0]
               for op in graph.get_operations()
               if op.name.startswith("training_log/") and op.type == "Identity"}
    steps = [session.run([scalars, spec.train_op])[0] for _ in range(steps)]
    after = session.run({bert_utils.variable_name(var): var
                         for var in tf.global_variables()})
  return Step(before=values, after=after, steps=steps, graph=graph)


def gradient_of(step):
  """The first step's gradients, by AdamW's first moments after clipping."""
  norm = max(1.0, step.steps[0]["gradient_norm"])
  return {name[:-len("/adam_m")]: value * 10 * norm
          for name, value in step.after.items() if name.endswith("/adam_m")}


def predict(config, rows, values, task_type="single", head=PLAIN,
            is_training=False, labels=True, **options):
  """ClassifierOutput of `create_model`, evaluated."""
  with tf.Graph().as_default(), tf.Session() as session:
    inputs = constants(rows)
    output = classifier_model.create_model(
        config, is_training, *[inputs[name] for name in INPUTS],
        labels=inputs["label_ids"] if labels else None,
        num_labels=num_outputs(task_type), use_one_hot_embeddings=False,
        task_type=task_type, head=head, **options)
    load(session, values)
    return classifier_model.ClassifierOutput(
        *session.run([tf.constant(0) if tensor is None else tensor
                      for tensor in output]))


def softmax(z):
  e = np.exp(z - z.max(axis=-1, keepdims=True))
  return e / e.sum(axis=-1, keepdims=True)


def sigmoid(z):
  return 1 / (1 + np.exp(-z))


def evaluate(function, *arrays):
  with tf.Session() as session:
    return session.run(function(*[tf.constant(array) for array in arrays]))


LOGITS = np.array([[2.0, -1.0, 0.5], [0.0, 3.0, -2.0]], np.float32)
OTHER_LOGITS = np.array([[1.0, -1.5, 2.5], [0.2, 2.0, 0.0]], np.float32)
SINGLE = np.array([2, 1], np.int32)
MULTI = np.array([[1, 0, 1], [0, 0, 0]], np.int32)


def cross_entropy(logits, targets):
  """Of distributions, or of a sigmoid's targets [B, L] label by label."""
  return -(targets * np.log(softmax(logits))).sum(axis=-1)


def binary_cross_entropy(logits, targets):
  p = sigmoid(logits)
  return -(targets * np.log(p) + (1 - targets) * np.log(1 - p))


# ------------------------------------------------------------------ task types


def test_losses_of_known_logits():
  np.testing.assert_allclose(
      evaluate(classifier_model.task_losses, LOGITS, SINGLE),
      cross_entropy(LOGITS, np.eye(3)[SINGLE]), rtol=1e-5)
  np.testing.assert_allclose(
      evaluate(lambda *a: classifier_model.task_losses(*a, task_type="multi"),
               LOGITS, MULTI),
      binary_cross_entropy(LOGITS, MULTI).mean(axis=-1), rtol=1e-5)
  np.testing.assert_allclose(
      evaluate(lambda *a: classifier_model.task_losses(
          *a, task_type="regression"), LOGITS[:, :1],
               np.array([0.5, -2.0], np.float32)), [2.25, 4.0], rtol=1e-6)


@pytest.mark.parametrize("task_type", TYPES)
def test_outputs_of_a_type(task_type):
  config, rows = make_config(), make_rows(task_type)
  values = initial_values(config, num_outputs(task_type))
  output = predict(config, rows, values, task_type)
  expected = {"single": softmax, "multi": sigmoid,
              "regression": lambda z: z}[task_type](output.logits)
  assert output.probabilities.shape == (BATCH, num_outputs(task_type))
  np.testing.assert_allclose(output.probabilities, expected, rtol=1e-5)
  losses = {
      "single": lambda z, y: cross_entropy(z, np.eye(3)[y]),
      "multi": lambda z, y: binary_cross_entropy(z, y).mean(axis=-1),
      "regression": lambda z, y: (z[:, 0] - y) ** 2}[task_type](
          output.logits, rows["label_ids"])
  np.testing.assert_allclose(output.per_example_loss, losses, rtol=1e-4,
                             atol=1e-6)
  np.testing.assert_allclose(output.loss, losses.mean(), rtol=1e-5)


@pytest.mark.parametrize("task_type", TYPES)
def test_a_type_learns_its_rows(task_type):
  run = train(make_config(), task_type, steps=10)
  losses = [step["loss"] for step in run.steps]
  assert losses[-1] < 0.8 * losses[0]
  keys = set(run.steps[0]) - {"tokens_per_example", "real_tokens_per_example"}
  assert set(classifier_model.logged(task_type)) == keys
  assert ("accuracy" in keys) == (task_type == "single")


@pytest.mark.parametrize("task_type", TYPES)
def test_evaluation_leaves_padding_out(task_type):
  config, rows = make_config(), make_rows(task_type)
  rows["is_real_example"][5:] = 0
  values = initial_values(config, num_outputs(task_type))
  model_fn = make_model_fn(config, task_type)
  with tf.Session() as session:
    spec = build(model_fn, rows, Modes.EVAL)
    metrics = spec.eval_metrics[0](*spec.eval_metrics[1])
    load(session, values)
    session.run(tf.local_variables_initializer())
    session.run([update for _, update in metrics.values()])
    found = session.run({name: value for name, (value, _) in metrics.items()})
  output = predict(config, rows, values, task_type)
  assert found.pop("eval_loss") == pytest.approx(
      output.per_example_loss[:5].mean(), rel=1e-5)
  if task_type == "single":
    assert found.pop("eval_accuracy") == pytest.approx(np.mean(
        output.logits.argmax(axis=-1)[:5] == rows["label_ids"][:5]))
  assert not found
  with tf.Graph().as_default():
    spec = build(model_fn, rows, Modes.PREDICT)
    assert list(spec.predictions) == ["probabilities"]


def test_by_default_nothing_is_added():
  """The options' defaults build the graph that is built without them."""
  def nodes(**options):
    with tf.Graph().as_default() as graph:
      build(classifier_model.model_fn_builder(
          make_config(**DROPOUT), LABELS, None, 1e-2, 10, 0, False, False,
          seed=3, **options), make_rows())
      return [(node.name, node.op, list(node.input))
              for node in graph.as_graph_def().node]

  plain = nodes()
  assert plain == nodes(
      task_type="single", head=Head(True, None, 0.0, 0.0, 0.0),
      layerwise_lr_decay=1.0, freeze_encoder=False)
  assert plain != nodes(head=Head(fgm_epsilon=0.1))


# --------------------------------------------------------- mean of the tokens


MEAN = Head(use_pooled_output=False)


@pytest.mark.parametrize("changes", [
    {}, {"ln_type": "preln"}, {"layout": "google", "num_hidden_groups": 2}],
                         ids=["postln", "preln", "google"])
def test_the_mean_does_not_depend_on_padding(changes):
  config, rows = make_config(**changes), make_rows()
  values = initial_values(config)
  wide = dict(rows, **{name: np.pad(rows[name], [(0, 0), (0, 9)],
                                    mode="constant") for name in INPUTS})
  assert rows["input_mask"].sum() < rows["input_mask"].size
  found = predict(config, rows, values, head=MEAN).logits
  np.testing.assert_allclose(predict(config, wide, values, head=MEAN).logits,
                             found, atol=1e-5)
  # Nor on what stands in the places of the padding.
  dirty = dict(rows, input_ids=np.where(rows["input_mask"], rows["input_ids"],
                                        7).astype(np.int32))
  np.testing.assert_allclose(predict(config, dirty, values, head=MEAN).logits,
                             found, atol=1e-5)
  pooled = predict(config, rows, values).logits
  assert np.abs(pooled - found).max() > 0.1


def test_the_mean_is_that_of_the_real_tokens():
  config, rows = make_config(), make_rows()
  values = initial_values(config)
  with tf.Graph().as_default(), tf.Session() as session:
    model = modeling.BertModel(config, False, *[
        tf.constant(rows[name]) for name in INPUTS])
    load(session, {name: value for name, value in values.items()
                   if name.startswith("bert/")})
    sequence = session.run(model.get_sequence_output())
  means = np.stack([row[:mask.sum()].mean(axis=0)
                    for row, mask in zip(sequence, rows["input_mask"])])
  expected = means.dot(values["output_weights"].T) + values["output_bias"]
  np.testing.assert_allclose(
      predict(config, rows, values, head=MEAN).logits, expected, atol=1e-5)


def test_an_example_without_tokens_has_a_finite_mean():
  config, rows = make_config(), make_rows()
  for name in INPUTS:
    rows[name][3] = 0
  values = initial_values(config)
  logits = predict(config, rows, values, head=MEAN).logits
  np.testing.assert_allclose(logits[3], values["output_bias"], atol=1e-6)


def test_the_pooler_stays_in_the_checkpoint():
  run = train(make_config(), head=MEAN, steps=2)
  name = "bert/pooler/dense/kernel"
  np.testing.assert_array_equal(run.after[name], run.before[name])
  other = "bert/encoder/layer_shared/output/dense/kernel"
  assert np.abs(run.after[other] - run.before[other]).max() > 1e-3


# -------------------------------------------------------------- class weights


WEIGHTS = Head(class_weights=(0.5, 1.0, 4.0))


def test_the_weighted_mean():
  config, rows = make_config(), make_rows()
  values = initial_values(config)
  losses = predict(config, rows, values).per_example_loss
  weights = np.array(WEIGHTS.class_weights)[rows["label_ids"]]
  expected = (weights * losses).sum() / weights.sum()
  assert expected != pytest.approx(losses.mean(), rel=0.02)
  with mock_dropout():
    output = predict(config, rows, values, head=WEIGHTS, is_training=True)
    assert output.loss == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(output.per_example_loss, weights * losses,
                               rtol=1e-4, atol=1e-6)
    step, = train(config, head=WEIGHTS).steps
    assert step["loss"] == pytest.approx(expected, rel=1e-5)
    # Only ratios matter, and equal weights are none.
    double = train(config, head=Head(class_weights=(1.0, 2.0, 8.0))).steps[0]
    assert double["loss"] == pytest.approx(expected, rel=1e-5)
    assert double["gradient_norm"] == pytest.approx(step["gradient_norm"],
                                                    rel=1e-4)
    assert train(config, head=Head(class_weights=(3.0, 3.0, 3.0))).steps[0][
        "loss"] == pytest.approx(losses.mean(), rel=1e-5)
  # Evaluation is of the plain loss, whatever was trained.
  assert predict(config, rows, values, head=WEIGHTS).loss == pytest.approx(
      losses.mean(), rel=1e-5)


def test_weights_of_labels_that_go_together():
  weights = np.array(WEIGHTS.class_weights)
  np.testing.assert_allclose(
      evaluate(lambda *a: classifier_model.task_losses(*a, "multi", WEIGHTS),
               LOGITS, MULTI),
      (binary_cross_entropy(LOGITS, MULTI) * weights).sum(axis=-1) /
      weights.sum(), rtol=1e-5)
  assert classifier_model.example_weights(MULTI, "multi", WEIGHTS) is None


class mock_dropout(object):
  """The head has a dropout that no config switches off; here it is off."""

  def __enter__(self):
    self._dropout = modeling.dropout
    modeling.dropout = lambda tensor, *unused_args: tensor

  def __exit__(self, *unused_args):
    modeling.dropout = self._dropout


def train_by_estimator(folder, strategy=None, task_type="single", steps=2,
                       config=None, **options):
  """Trains with an Estimator; returns the weights of its last checkpoint."""
  settings = types.SimpleNamespace(
      use_tpu=False, tpu_name=None, master=None, log_steps=1, seed=3,
      output_dir=str(folder / "run"), save_checkpoints_steps=1000,
      keep_checkpoint_max=1, iterations_per_loop=1, num_tpu_cores=8,
      num_gpus=0, use_xla=False)
  config = config or make_config(num_hidden_layers=1)
  start = write_initial(folder, config, num_outputs(task_type))
  model_fn = classifier_model.model_fn_builder(
      config, num_outputs(task_type), start, 1e-2, 10, 0, False, False,
      optimizer="adamw", seed=3, task_type=task_type, **options)
  rows = make_rows(task_type, BATCH * steps)

  def input_fn(params):
    return tf.data.Dataset.from_tensor_slices(rows).batch(
        params["batch_size"], drop_remainder=True)

  estimator = estimator_utils.make_estimator(model_fn, settings, BATCH, BATCH,
                                             strategy=strategy)
  hook = distributed_run.RecordHook(classifier_model.logged(task_type))
  estimator.train(input_fn, hooks=[hook], max_steps=steps)
  latest = tf.train.latest_checkpoint(settings.output_dir)
  return hook.steps, {name: tf.train.load_variable(latest, name)
                      for name, _ in tf.train.list_variables(latest)}


def write_initial(folder, config, num_labels):
  values = initial_values(config, num_labels)
  with tf.Graph().as_default(), tf.Session() as session:
    for name, value in values.items():
      tf.get_variable(name, initializer=tf.constant(value))
    session.run(tf.global_variables_initializer())
    return tf.train.Saver().save(session, str(folder / "initial.ckpt"))


def two_devices():
  return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


def assert_same_run(steps, other_steps, weights, other_weights):
  for one, other in zip(steps, other_steps):
    assert one == pytest.approx(other, rel=1e-3, abs=1e-5)
  assert sorted(weights) == sorted(other_weights)
  for name, value in weights.items():
    # A key's bias has no gradient, and AdamW makes a step of its rounding.
    if "/key/bias" not in name:
      np.testing.assert_allclose(value, other_weights[name], atol=2e-4,
                                 err_msg=name)


SPREAD = [("single", Head(False, WEIGHTS.class_weights, 0.1, 0.0, 2.0)),
          ("multi", Head(True, WEIGHTS.class_weights, 0.1)),
          ("regression", Head(False, fgm_epsilon=2.0))]


@pytest.mark.parametrize("task_type,head", SPREAD)
def test_parts_equal_one_batch(task_type, head):
  with mock_dropout():
    whole, parts = [
        train(make_config(), task_type, steps=2, head=head,
              gradient_accumulation_steps=count) for count in (1, 4)]
  assert_same_run(whole.steps, parts.steps, whole.after, parts.after)


@pytest.mark.parametrize("task_type,head", SPREAD)
def test_replicas_equal_one_device(tmp_path, task_type, head):
  folders = [tmp_path / name for name in ("one", "two")]
  for folder in folders:
    folder.mkdir()
  with mock_dropout():
    steps, weights = train_by_estimator(folders[0], task_type=task_type,
                                        head=head)
    others = train_by_estimator(folders[1], two_devices(), task_type=task_type,
                                head=head, gradient_accumulation_steps=2)
  assert_same_run(steps, others[0], weights, others[1])


# ------------------------------------------------------------ label smoothing


def test_smoothed_targets():
  head = Head(label_smoothing=0.3)
  targets = 0.7 * np.eye(3)[SINGLE] + 0.1
  np.testing.assert_allclose(
      evaluate(lambda *a: classifier_model.task_losses(*a, "single", head),
               LOGITS, SINGLE), cross_entropy(LOGITS, targets), rtol=1e-5)
  np.testing.assert_allclose(
      evaluate(lambda *a: classifier_model.task_losses(*a, "multi", head),
               LOGITS, MULTI),
      binary_cross_entropy(LOGITS, 0.7 * MULTI + 0.15).mean(axis=-1),
      rtol=1e-5)


def test_smoothing_is_for_training():
  config, rows = make_config(), make_rows()
  values = initial_values(config)
  head = Head(label_smoothing=0.3)
  logits = predict(config, rows, values).logits
  smooth = cross_entropy(logits, 0.7 * np.eye(3)[rows["label_ids"]] + 0.1)
  with mock_dropout():
    assert train(config, head=head).steps[0]["loss"] == pytest.approx(
        smooth.mean(), rel=1e-4)
  assert predict(config, rows, values, head=head).loss == pytest.approx(
      cross_entropy(logits, np.eye(3)[rows["label_ids"]]).mean(), rel=1e-4)


# ------------------------------------------------------- learning rate by layer


def scope_distances(**changes):
  """Distance by the scope of a weight, of each encoder variable."""
  config = make_config(**changes)
  distance, places = classifier_model.layer_distances(config)
  with tf.Graph().as_default():
    classifier_model.create_model(
        config, False, tf.zeros([1, 3], tf.int32), None, None, None, LABELS,
        False)
    names = [bert_utils.variable_name(var) for var in tf.trainable_variables()]
  return {name: distance(name) for name in names}, places


def test_distances_of_shared_layers():
  found, places = scope_distances(num_hidden_layers=6)
  assert len(found) == 26
  for name, distance in found.items():
    expected = (2 if name.startswith("bert/embeddings/") else
                1 if name.startswith("bert/encoder/layer_shared/") else 0)
    assert distance == expected, name
  assert places == ["head and pooler", "layers 0 to 5", "embeddings"]


def test_distances_of_layers_of_their_own():
  found, places = scope_distances(num_hidden_layers=12, shared_type="none")
  kernel = "bert/encoder/layer_%d/attention/self/query/kernel"
  assert [found[kernel % layer] for layer in (0, 1, 10, 11)] == [12, 11, 2, 1]
  assert found["bert/embeddings/word_embeddings"] == 13
  assert found["bert/embeddings/LayerNorm/gamma"] == 13
  assert found["bert/pooler/dense/kernel"] == found["output_weights"] == 0
  assert places[1] == "layer 11" and places[12:] == ["layer 0", "embeddings"]


def test_distances_of_layers_that_share_a_part():
  found, _ = scope_distances(num_hidden_layers=3, shared_type="attention")
  shared = "bert/encoder/layer_shared/"
  assert found[shared + "attention/self/key/bias"] == 1
  assert [found[shared + "output_%d/dense/kernel" % layer]
          for layer in range(3)] == [3, 2, 1]
  assert found["bert/embeddings/position_embeddings"] == 4


def test_distances_of_groups():
  found, places = scope_distances(layout="google", num_hidden_layers=6,
                             num_hidden_groups=2, inner_group_num=2)
  block = ("bert/encoder/transformer/group_%d/inner_group_%d/ffn_1/"
           "intermediate/output/dense/kernel")
  assert [found[block % place] for place in ((1, 1), (1, 0), (0, 1), (0, 0))
          ] == [1, 2, 3, 4]
  assert places[1:] == ["layer 7, 9, 11", "layer 6, 8, 10", "layer 1, 3, 5",
                        "layer 0, 2, 4", "embeddings"]
  assert found["bert/encoder/embedding_hidden_mapping_in/kernel"] == 5
  assert found["bert/embeddings/word_embeddings"] == 5


def test_distance_of_the_closing_norm():
  found, _ = scope_distances(ln_type="preln", final_layer_norm=True)
  assert found["bert/encoder/final_layer_norm/gamma"] == 1
  assert found["loss/LayerNorm/gamma"] == 0


@pytest.mark.parametrize("optimizer", optimization.OPTIMIZERS)
def test_steps_are_as_large_as_the_distance_says(optimizer, caplog):
  config = make_config(shared_type="none")
  runs = [train(config, optimizer=optimizer, layerwise_lr_decay=decay)
          for decay in (1.0, 0.5)]
  whole, decayed = [
      {name: run.after[name] - value for name, value in run.before.items()}
      for run in runs]
  distance, _ = classifier_model.layer_distances(config)
  checked = set()
  for name, change in whole.items():
    np.testing.assert_allclose(decayed[name], change * 0.5 ** distance(name),
                               rtol=1e-2, atol=2e-7, err_msg=name)
    if np.abs(change).max() > 1e-4:
      checked.add(distance(name))
  assert checked == {0, 1, 2, 3}


def test_rates_are_logged(monkeypatch):
  lines = []
  monkeypatch.setattr(tf.logging, "info",
                      lambda message, *a: lines.append(message % a))
  train(make_config(), layerwise_lr_decay=0.5)
  lines = [line.strip() for line in lines if "learning rate" in line]
  assert lines == [
      "learning rate 0.01 of head and pooler: 4 variables, 323 parameters",
      "learning rate 0.005 of layer 0, 1: 16 variables, 2224 parameters",
      "learning rate 0.0025 of embeddings: 6 variables, %d parameters" % (
          8 * len(tiny.TOKENS) + 8 * 16 + 2 * 16 + 32 * 16 + 32)]


# ------------------------------------------------------------- frozen encoder


@pytest.mark.parametrize("head", [Head(), MEAN], ids=["pooled", "mean"])
def test_the_frozen_encoder_stays_to_the_bit(head):
  run = train(make_config(), steps=3, head=head, freeze_encoder=True)
  trained = {name for name, value in run.before.items()
             if (run.after[name] != value).any()}
  pooler = {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
  assert trained == {"output_weights", "output_bias"} | (
      pooler if head.use_pooled_output else set())
  # Neither moments nor gradients: nothing goes back through a layer.
  assert {name[:-len("/adam_m")] for name in run.after
          if name.endswith("/adam_m")} == trained
  back = [op.name for op in run.graph.get_operations()
          if op.name.startswith("gradients")]
  assert back and not [name for name in back
                       if "embeddings" in name or "layer_" in name]
  assert run.steps[2]["loss"] < run.steps[0]["loss"]


# --------------------------------------------------------------------- R-Drop


def kl(p, q):
  return (p * np.log(p / q)).sum(axis=-1)


@pytest.mark.parametrize("head", [
    Head(rdrop_alpha=0.7),
    Head(rdrop_alpha=0.7, label_smoothing=0.3, class_weights=(1.0, 2.0, 5.0))],
                         ids=["plain", "smoothed"])
def test_rdrop_of_known_logits(head):
  smooth = head.label_smoothing
  targets = (1 - smooth) * np.eye(3)[SINGLE] + smooth / 3
  p, q = softmax(LOGITS), softmax(OTHER_LOGITS)
  expected = 0.5 * (cross_entropy(LOGITS, targets) +
                    cross_entropy(OTHER_LOGITS, targets)) + (
                        0.7 * 0.5 * (kl(p, q) + kl(q, p)))
  with tf.Session() as session:
    np.testing.assert_allclose(
        session.run(classifier_model.rdrop_losses(
            LOGITS, OTHER_LOGITS, SINGLE, "single", head)), expected, rtol=1e-5)

    targets = (1 - smooth) * MULTI + smooth / 2
    p, q = sigmoid(LOGITS), sigmoid(OTHER_LOGITS)
    of_labels = 0.5 * (binary_cross_entropy(LOGITS, targets) +
                       binary_cross_entropy(OTHER_LOGITS, targets))
    for one, other in ((p, q), (q, p)):
      of_labels += 0.35 * (one * np.log(one / other) +
                           (1 - one) * np.log((1 - one) / (1 - other)))
    weights = np.array(head.class_weights or (1.0, 1.0, 1.0))
    np.testing.assert_allclose(
        session.run(classifier_model.rdrop_losses(
            LOGITS, OTHER_LOGITS, MULTI, "multi", head)),
        (of_labels * weights).sum(axis=-1) / weights.sum(), rtol=1e-5)


def rdrop_loss(alpha, config, seed=None, rows=None):
  """(loss of each example, logits) of a training graph with R-Drop."""
  rows = rows or make_rows()
  values = initial_values(config)
  output = predict(config, rows, values, head=Head(rdrop_alpha=alpha),
                   is_training=True, dropout_seed=seed)
  return output.per_example_loss, output.logits


def test_rdrop_passes_drop_differently():
  config = make_config(**DROPOUT)
  seed = np.array([3, 4], np.int32)
  tiny_alpha, logits = rdrop_loss(1e-9, config, seed)
  large_alpha, again = rdrop_loss(1.0, config, seed)
  # Of one seed, all is the same but what alpha adds: two passes that differ.
  np.testing.assert_array_equal(logits, again)
  assert (large_alpha - tiny_alpha).min() > 1e-5
  other, _ = rdrop_loss(1.0, config, seed + 1)
  assert np.abs(other - large_alpha).max() > 1e-3
  assert rdrop_loss(1.0, config)[0].shape == (BATCH,)  # without a seed, too
  # With nothing dropped, both passes are the plain one.
  with mock_dropout():
    config = make_config()
    plain = predict(config, make_rows(), initial_values(config))
    np.testing.assert_allclose(rdrop_loss(5.0, config)[0],
                               plain.per_example_loss, rtol=1e-4, atol=1e-6)


def test_rdrop_in_a_head_alone_drops_differently_too():
  """The encoder may have no dropout; the head's is enough for two passes."""
  config = make_config()
  seed = np.array([3, 4], np.int32)
  added = rdrop_loss(1.0, config, seed)[0] - rdrop_loss(1e-9, config, seed)[0]
  assert added.max() > 1e-4


def test_rdrop_is_of_training_only():
  config, rows = make_config(**DROPOUT), make_rows()
  values = initial_values(config)
  head = Head(rdrop_alpha=3.0)
  np.testing.assert_array_equal(
      predict(config, rows, values, head=head).per_example_loss,
      predict(config, rows, values).per_example_loss)
  with tf.Graph().as_default() as graph:
    build(make_model_fn(config, head=head), rows, Modes.EVAL)
    assert not [op for op in graph.get_operations() if op.type == "Split"]


# ------------------------------------------------------------------------ FGM


def clean_gradients(config, rows, values, task_type="single", head=PLAIN):
  """Gradients of the mean loss by a graph of their own, nothing dropped."""
  with tf.Graph().as_default(), tf.Session() as session:
    inputs = constants(rows)
    output = classifier_model.create_model(
        config, True, *[inputs[name] for name in INPUTS],
        labels=inputs["label_ids"], num_labels=num_outputs(task_type),
        use_one_hot_embeddings=False, task_type=task_type, head=head)
    variables = tf.trainable_variables()
    gradients = tf.gradients(output.loss, variables)
    load(session, values)
    return session.run(output.loss), {
        bert_utils.variable_name(var): session.run(
            tf.convert_to_tensor(gradient))
        for gradient, var in zip(gradients, variables)}


@pytest.mark.parametrize("task_type,config,parts", [
    ("single", {}, 1), ("single", {}, 2),
    ("multi", {"layout": "google"}, 1),
    ("regression", {"layout": "bert", "embedding_size": None,
                    "shared_type": "none"}, 4)])
def test_fgm_adds_the_gradients_of_moved_embeddings(task_type, config, parts):
  config, rows, epsilon = make_config(**config), make_rows(task_type), 1.5
  values = initial_values(config, num_outputs(task_type))
  table = "bert/embeddings/word_embeddings"
  with mock_dropout():
    loss, clean = clean_gradients(config, rows, values, task_type)
    moved = dict(values, **{table: values[table] + epsilon * clean[table] /
                            np.linalg.norm(clean[table])})
    adversarial_loss, adversarial = clean_gradients(config, rows, moved,
                                                    task_type)
    run = train(config, task_type, head=Head(fgm_epsilon=epsilon),
                values=values, gradient_accumulation_steps=parts)
  assert adversarial_loss > 1.05 * loss
  assert run.steps[0]["loss"] == pytest.approx(loss, rel=1e-4)
  assert run.steps[0]["adversarial_loss"] == pytest.approx(adversarial_loss,
                                                           rel=1e-4)
  for name, found in gradient_of(run).items():
    expected = clean[name] + adversarial[name]
    np.testing.assert_allclose(
        found, expected, rtol=2e-3, err_msg=name,
        atol=1e-5 * run.steps[0]["gradient_norm"])
  assert run.steps[0]["gradient_norm"] == pytest.approx(np.sqrt(sum(
      np.sum((clean[name] + adversarial[name]) ** 2) for name in clean)),
                                                        rel=1e-3)


def test_fgm_drops_the_same_in_both_passes():
  """So far from a move of the table, both losses are equal with dropout on."""
  step, = train(make_config(**DROPOUT), head=Head(fgm_epsilon=1e-8)).steps
  assert step["adversarial_loss"] == pytest.approx(step["loss"], rel=1e-6)


def test_fgm_without_a_gradient_moves_nothing():
  """A head of zeros gives the embeddings none, and no 0 / 0."""
  config = make_config()
  values = initial_values(config)
  values["output_weights"] = np.zeros_like(values["output_weights"])
  step, = train(config, values=values, head=Head(fgm_epsilon=1.0)).steps
  assert step["adversarial_loss"] == pytest.approx(step["loss"], rel=1e-6)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_all_options_together_stay_finite(precision):
  run = train(make_config(shared_type="none", **DROPOUT), steps=3,
              head=Head(False, (1.0, 2.0, 3.0), 0.1, 1.0, 0.5),
              layerwise_lr_decay=0.8, precision=precision,
              recompute_activations=True, gradient_accumulation_steps=2)
  for step in run.steps:
    assert np.isfinite([value for value in step.values()]).all()
  assert run.steps[0]["adversarial_loss"] > run.steps[0]["loss"]
  assert all(np.isfinite(value).all() for value in run.after.values())
  moved = [name for name, value in run.before.items()
           if (run.after[name] != value).any()]
  assert len(moved) == len(run.before) - 2  # all but the pooler's


def test_two_replicas_with_dropout(tmp_path):
  """R-Drop and FGM where each replica draws dropout of its own."""
  steps, weights = train_by_estimator(
      tmp_path, two_devices(), steps=2,
      config=make_config(num_hidden_layers=1, **DROPOUT),
      head=Head(rdrop_alpha=1.0, fgm_epsilon=0.5),
      gradient_accumulation_steps=2, layerwise_lr_decay=0.9)
  assert all(np.isfinite(step["loss"]) for step in steps)
  assert all(np.isfinite(value).all() for value in weights.values())


def test_graph_of_a_tpu_shard(graph):
  """Built only: no kernel of CrossReplicaSum exists elsewhere."""
  spec = build(classifier_model.model_fn_builder(
      make_config(**DROPOUT), LABELS, None, 1e-2, 10, 0, True, True, seed=3,
      precision="bfloat16", gradient_accumulation_steps=2,
      head=Head(False, (1.0, 2.0, 3.0), 0.1, 1.0, 0.5),
      layerwise_lr_decay=0.8), make_rows())
  assert spec.train_op is not None
  sums = [op.name for op in graph.get_operations()
          if op.type == "CrossReplicaSum"]
  assert sums and not [name for name in sums if "while" in name]


# -------------------------------------------------------------- flags, settings


def options(**changes):
  return types.SimpleNamespace(**dict(dict(
      use_pooled_output=True, class_weights=None, label_smoothing=0.0,
      rdrop_alpha=0.0, fgm_epsilon=0.0, layerwise_lr_decay=1.0,
      freeze_encoder=False), **changes))


def test_defaults_of_the_flags(monkeypatch):
  values = flags.FlagValues()
  for kind in ("bool", "list", "float"):
    name = "DEFINE_" + kind
    monkeypatch.setattr(flags, name, functools.partial(
        getattr(flags, name), flag_values=values))
  classifier_model.define_flags()
  values(["program"])
  assert values.flag_values_dict() == vars(options())
  values(["program", "--class_weights=0.3,0.7", "--nouse_pooled_output"])
  assert classifier_model.head_from_options(values, ["0", "1"]) == Head(
      False, (0.3, 0.7))
  assert classifier_model.model_options(values) == dict(
      layerwise_lr_decay=1.0, freeze_encoder=False)


def test_a_head_of_options():
  assert classifier_model.head_from_options(options(), ["a", "b"]) == Head()
  assert classifier_model.head_from_options(
      options(label_smoothing=0.1, rdrop_alpha=4.0, fgm_epsilon=1.0),
      ["a", "b"]) == Head(True, None, 0.1, 4.0, 1.0)
  assert classifier_model.head_from_options(
      options(use_pooled_output=False), [], task_type="regression") == Head(
          False)
  balanced = options(class_weights=["balanced"])
  assert classifier_model.head_from_options(
      balanced, ["a", "b", "c"], [1, 2, 5]).class_weights == pytest.approx(
          (8 / 3, 8 / 6, 8 / 15))
  # Nothing is trained: nothing to count, and no use for weights.
  assert classifier_model.head_from_options(balanced, ["a", "b"]) == Head()


@pytest.mark.parametrize("changes,message", [
    (dict(class_weights=["1", "x"]), 'must be numbers above 0 .*found "1,x"'),
    (dict(class_weights=["1", "0"]), "must be numbers above 0"),
    (dict(class_weights=["1", "inf"]), "must be numbers above 0"),
    (dict(class_weights=["1", "2", "3"]),
     "--class_weights has 3 numbers, but the task has 2 labels; give one for"
     " each, in their order: a and b"),
    (dict(class_weights=["balanced"]), "no training example has the label b;"),
    (dict(label_smoothing=1.0),
     "--label_smoothing must be a number from 0 on and below 1, found 1.0"),
    (dict(label_smoothing=-0.1), "--label_smoothing must be"),
    (dict(rdrop_alpha=-1.0), "--rdrop_alpha must be a number from 0 on"),
    (dict(rdrop_alpha=float("nan")), "--rdrop_alpha must be"),
    (dict(fgm_epsilon=float("inf")), "--fgm_epsilon must be"),
    (dict(layerwise_lr_decay=0.0), "--layerwise_lr_decay must be above 0 and"),
    (dict(layerwise_lr_decay=1.1), "at most 1, found 1.1"),
    (dict(freeze_encoder=True, fgm_epsilon=1.0),
     "--fgm_epsilon needs the gradient of the word embeddings"),
    (dict(freeze_encoder=True, layerwise_lr_decay=0.9),
     "--layerwise_lr_decay is for the layers that --freeze_encoder does not"),
    (dict(task_type="regression", class_weights=["1"]),
     "--class_weights means nothing for regression"),
    (dict(task_type="regression", label_smoothing=0.1),
     "--label_smoothing means nothing for regression"),
    (dict(task_type="regression", rdrop_alpha=1.0),
     "--rdrop_alpha means nothing for regression")])
def test_what_does_not_fit(changes, message):
  changes = dict(changes)
  task_type = changes.pop("task_type", "single")
  with pytest.raises(ValueError, match=message) as error:
    classifier_model.head_from_options(options(**changes), ["a", "b"], [3, 0],
                                       task_type)
  assert "\n" not in str(error.value)


def test_what_classifier_json_says():
  assert classifier_model.predictor_options({"labels": ["0", "1"]}) == dict(
      num_labels=2, task_type="single", head=Head())
  assert classifier_model.predictor_options(
      {"labels": [], "task_type": "regression", "use_pooled_output": False}
  ) == dict(num_labels=1, task_type="regression", head=MEAN)
  assert classifier_model.predictor_options(
      {"labels": ["a"], "task_type": "multi"})["num_labels"] == 1
