"""The model in other projects: in a TensorFlow 1 graph, as a Keras layer."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

import modeling
import tiny

EXAMPLES = os.path.join(tiny.ROOT, "examples")
sys.path.insert(0, EXAMPLES)

import tf1_graph

LAYOUTS = {
    "zh": {},
    "google": {"layout": "google", "num_hidden_groups": 2},
    "bert": {"layout": "bert", "embedding_size": None, "shared_type": "none"}}
INPUTS = {
    "input_ids": np.array([[2, 5, 6, 3], [2, 7, 3, 0]], np.int32),
    "input_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]], np.int32),
    "token_type_ids": np.array([[0, 0, 1, 1], [0, 0, 0, 0]], np.int32)}

needs_keras = pytest.mark.skipif(
    not tf.executing_eagerly(),
    reason="TensorFlow %s runs no layer eagerly; 2 does" % tf.__version__)


def write_checkpoint(folder, **changes):
  """Writes a checkpoint of random weights; returns (config, its prefix)."""
  tiny.write_vocab(folder)
  config = modeling.BertConfig.from_json_file(
      tiny.write_config(folder, initializer_range=0.5, **changes))
  graph = tf.Graph()
  with graph.as_default(), tf.Session(graph=graph) as session:
    tf.set_random_seed(2)
    modeling.BertModel(config, False, tf.zeros([1, 3], tf.int32))
    tf.get_variable("output_bias", [2])  # what fine-tuning adds
    session.run(tf.global_variables_initializer())
    return config, tf.train.Saver().save(session, str(folder / "model.ckpt"))


@pytest.fixture(scope="module", params=sorted(LAYOUTS))
def model(request, tmp_path_factory):
  folder = tmp_path_factory.mktemp(request.param)
  return write_checkpoint(folder, **LAYOUTS[request.param]) + (folder,)


def graph_outputs(config, checkpoint):
  graph = tf.Graph()
  with graph.as_default(), tf.Session(graph=graph) as session:
    inputs, outputs = tf1_graph.build_graph(config, checkpoint)
    session.run(tf.global_variables_initializer())
    return session.run(outputs, {
        inputs[name]: array for name, array in INPUTS.items()})


def assert_equal_outputs(found, expected):
  assert sorted(found) == sorted(expected)
  for name, array in expected.items():
    np.testing.assert_allclose(found[name], array, atol=1e-5)


def test_graph_has_the_weights_of_the_checkpoint(model):
  config, checkpoint, _ = model
  outputs = graph_outputs(config, checkpoint)
  with tf.Graph().as_default(), tf.Session() as session:
    plain = modeling.BertModel(config, False, **{
        name: tf.constant(array) for name, array in INPUTS.items()})
    tf.train.Saver().restore(session, checkpoint)
    assert_equal_outputs(outputs, session.run({
        "sequence_output": plain.get_sequence_output(),
        "pooled_output": plain.get_pooled_output()}))


@needs_keras
def test_keras_layer_equals_the_graph(model):
  import keras_layer
  config, checkpoint, _ = model
  expected = graph_outputs(config, checkpoint)
  layer = keras_layer.AlbertLayer(config)
  layer.load_checkpoint(checkpoint)
  names = sorted(weight.name for weight in layer.weights)
  inputs = {name: tf2.constant(array) for name, array in INPUTS.items()}
  assert_equal_outputs(layer(inputs), expected)
  # Of any batch size and length, traced once.
  traced = tf2.function(lambda **inputs: layer(inputs)).get_concrete_function(
      **{name: tf2.TensorSpec([None, None], tf2.int32) for name in inputs})
  assert_equal_outputs(traced(**inputs), expected)
  first = traced(**{name: array[:1, :3] for name, array in inputs.items()})
  assert first["sequence_output"].shape == (1, 3, 16)
  # However it was called, there is one set of variables, the checkpoint's.
  assert sorted(weight.name for weight in layer.weights) == names
  assert len(set(names)) == len(names) == len([
      name for name, _ in tf.train.list_variables(checkpoint)
      if name != "output_bias"])


@needs_keras
def test_keras_model_learns(model):
  import keras_layer
  config, checkpoint, _ = model
  layer, classifier = keras_layer.build_classifier(config, checkpoint, 2)
  before = [weight.numpy() for weight in layer.trainable_weights]
  classifier.compile(
      tf2.keras.optimizers.Adam(0.01),
      tf2.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
  inputs = {name: INPUTS[name] for name in ("input_ids", "input_mask")}
  losses = classifier.fit(inputs, np.array([0, 1]), epochs=15,
                          verbose=0).history["loss"]
  assert losses[-1] < 0.5 * losses[0]
  # Some row of every weight has moved: the gradient reaches all.
  moved = [np.abs(weight.numpy() - old).max() > 0
           for weight, old in zip(layer.trainable_weights, before)]
  assert all(moved), [weight.name for weight, each in zip(
      layer.trainable_weights, moved) if not each]


@needs_keras
def test_dropout_is_a_matter_of_training(tmp_path):
  import keras_layer
  config, checkpoint = write_checkpoint(tmp_path, hidden_dropout_prob=0.5)
  layer = keras_layer.AlbertLayer(config)
  layer.load_checkpoint(checkpoint)
  inputs = {"input_ids": tf2.constant(INPUTS["input_ids"])}
  plain = layer(inputs)["pooled_output"]
  np.testing.assert_array_equal(plain, layer(inputs)["pooled_output"])
  assert np.abs(plain - layer(inputs, training=True)["pooled_output"]).max() > 0


@needs_keras
def test_a_checkpoint_of_another_model(tmp_path):
  import keras_layer
  config, checkpoint = write_checkpoint(tmp_path)
  config.shared_type = "none"
  with pytest.raises(ValueError, match="8 of the 40 variables.*config its own"):
    keras_layer.AlbertLayer(config).load_checkpoint(checkpoint)
  with tf.Graph().as_default():
    with pytest.raises(ValueError, match="8 of the 40 variables"):
      tf1_graph.build_graph(config, checkpoint)
  config.shared_type, config.vocab_size = "all", 99
  with pytest.raises(ValueError, match="set vocab_size in the config to"):
    keras_layer.AlbertLayer(config).load_checkpoint(checkpoint)


def run(name, config, checkpoint, folder):
  result = subprocess.run(
      [sys.executable, os.path.join(EXAMPLES, name),
       "--bert_config_file=%s" % (folder / "config.json"),
       "--vocab_file=%s" % (folder / "vocab.txt"),
       "--init_checkpoint=%s" % checkpoint, "今天气很好"],
      stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
      env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3"))
  assert result.returncode == 0, result.stderr
  first, second = result.stdout.splitlines()
  assert second == "shape of the untrained logits: (1, 2)"
  return [float(number) for number in first.split()[1:]]


@needs_keras
def test_both_examples_print_the_same(tmp_path):
  config, checkpoint = write_checkpoint(tmp_path)
  graph = run("tf1_graph.py", config, checkpoint, tmp_path)
  keras = run("keras_layer.py", config, checkpoint, tmp_path)
  assert len(graph) == 8 and max(map(abs, graph)) > 0.1
  np.testing.assert_allclose(graph, keras, atol=2e-5)
