"""The model against the peers' numbers, and what the numbers do not show."""

import glob
import json
import os
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import bert_utils
import golden_numbers
import modeling
import run_pretraining

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONFIGS = os.path.join(ROOT, "albert_config")


def tiny_config(**changes):
  values = dict(vocab_size=30, hidden_size=16, num_hidden_layers=2,
                num_attention_heads=4, intermediate_size=32,
                hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                max_position_embeddings=12, type_vocab_size=2,
                embedding_size=8)
  values.update(changes)
  return modeling.BertConfig(**values)


def layout_config(layout, **changes):
  """A tiny config with what is the layout's own."""
  own = {"zh": {}, "google": {"inner_group_num": 2},
         "bert": {"embedding_size": None, "shared_type": "none"}}[layout]
  return tiny_config(layout=layout, **dict(own, **changes))


def tiny_inputs():
  input_ids = np.array([[2, 5, 6, 7, 3], [2, 8, 3, 0, 0]], np.int32)
  return input_ids, (input_ids > 0).astype(np.int32)


def run(tensors):
  with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    return session.run(tensors)


@pytest.fixture(autouse=True)
def graph():
  with tf.Graph().as_default() as new_graph:
    tf.set_random_seed(1)
    yield new_graph


def build_with_heads(config, inputs, is_training=True):
  """The pre-training graph; returns (model, MLM output, SOP output)."""
  model = modeling.BertModel(
      config, is_training, inputs["input_ids"], inputs["input_mask"],
      inputs["segment_ids"], scope="bert")
  masked_lm = run_pretraining.get_masked_lm_output(
      config, model.get_sequence_output(), model.get_embedding_table(),
      model.get_embedding_table_2(), inputs["masked_lm_positions"],
      inputs["masked_lm_ids"], inputs["masked_lm_weights"])
  next_sentence = run_pretraining.get_next_sentence_output(
      config, model.get_pooled_output(), inputs["next_sentence_labels"])
  return model, masked_lm, next_sentence


def assert_gradients_equal(found, expected):
  assert sorted(found) == sorted(expected)
  for name, value in expected.items():
    # The keys' bias shifts all scores alike: its gradient is rounding only.
    scale = max(np.abs(value).max(), 1e-3)
    np.testing.assert_allclose(found[name] / scale, value / scale, atol=1e-4,
                               err_msg=name)


# --------------------------------------------------------------- golden numbers


@pytest.mark.parametrize("name", [
    "zh_postln", "zh_preln", "bert", "google", "google_groups",
    "google_equal_widths"])
def test_equals_the_peers(name):
  info, arrays = golden_numbers.load(name)
  config = modeling.BertConfig.from_dict(info["config"])
  inputs = {key: tf.constant(value) for key, value in arrays["in"].items()}
  model, masked_lm, next_sentence = build_with_heads(config, inputs)
  total_loss = masked_lm.loss + next_sentence.loss
  outputs = {
      "word_embedding_output": model.get_word_embedding_output(),
      "embedding_output": model.get_embedding_output(),
      "sequence_output": model.get_sequence_output(),
      "pooled_output": model.get_pooled_output(),
      "masked_lm_loss": masked_lm.loss,
      "masked_lm_example_loss": masked_lm.per_example_loss,
      "masked_lm_log_probs": masked_lm.log_probs,
      "sop_loss": next_sentence.loss,
      "sop_example_loss": next_sentence.per_example_loss,
      "sop_log_probs": next_sentence.log_probs,
      "total_loss": total_loss}
  for index, layer in enumerate(model.get_all_encoder_layers()):
    outputs["encoder_layer_%d" % index] = layer
  outputs = {key: outputs[key] for key in arrays["out"]}
  tvars = tf.trainable_variables()
  assert [[v.op.name, v.shape.as_list()] for v in tvars] == info["variables"]
  gradients = [tf.convert_to_tensor(g)
               for g in tf.gradients(total_loss, tvars)]
  with tf.Session() as session:
    golden_numbers.assign(session, arrays["w"])
    found, found_gradients = session.run([outputs, gradients])
  assert len(model.get_all_encoder_layers()) == sum(
      key.startswith("encoder_layer_") for key in arrays["out"])
  for key, value in arrays["out"].items():
    np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5,
                               err_msg=key)
  assert_gradients_equal(
      dict(zip([v.op.name for v in tvars], found_gradients)), arrays["grad"])


@pytest.mark.parametrize("name,shared_type", [
    ("shared_attention", "attention"), ("shared_none", None),
    ("shared_none", "none")])
def test_sharing_equals_albert_zh(name, shared_type):
  info, arrays = golden_numbers.load(name)
  input_tensor = tf.constant(arrays["in"]["input_tensor"])
  mask = modeling.create_attention_mask_from_input_mask(
      input_tensor, tf.constant(arrays["in"]["input_mask"]))
  layers = modeling.prelln_transformer_model(
      input_tensor, mask, do_return_all_layers=True, shared_type=shared_type,
      **info["args"])
  tvars = tf.trainable_variables()
  assert [[v.op.name, v.shape.as_list()] for v in tvars] == info["variables"]
  gradients = tf.gradients(tf.reduce_mean(tf.square(layers[-1])), tvars)
  with tf.Session() as session:
    golden_numbers.assign(session, arrays["w"])
    found, found_gradients = session.run([layers, gradients])
  for index, layer in enumerate(found):
    np.testing.assert_allclose(
        layer, arrays["out"]["encoder_layer_%d" % index], rtol=1e-5,
        atol=1e-5)
  assert_gradients_equal(
      dict(zip([v.op.name for v in tvars], found_gradients)), arrays["grad"])


@pytest.mark.parametrize("name,config_name", [
    ("tiny", "albert_config_tiny"), ("base", "albert_config_base"),
    ("xlarge", "albert_config_xlarge"), ("bert", "bert_config"),
    ("base_google", "albert_config_base_google")])
def test_variables_equal_the_peers(name, config_name):
  info, _ = golden_numbers.load("variables_" + name)
  config = modeling.BertConfig.from_json_file(
      os.path.join(CONFIGS, config_name + ".json"))
  placeholder = {
      "input_ids": tf.zeros([2, 8], tf.int32),
      "input_mask": tf.ones([2, 8], tf.int32),
      "segment_ids": tf.zeros([2, 8], tf.int32),
      "masked_lm_positions": tf.zeros([2, 3], tf.int32),
      "masked_lm_ids": tf.zeros([2, 3], tf.int32),
      "masked_lm_weights": tf.ones([2, 3]),
      "next_sentence_labels": tf.zeros([2, 1], tf.int32)}
  build_with_heads(config, placeholder)
  found = [[v.op.name, v.shape.as_list(), v.dtype.base_dtype.name]
           for v in tf.trainable_variables()]
  assert found == info["encoder_variables"] + info["head_variables"]


# Encoder, and encoder with both heads; counted on the peers' graphs, all but
# `sample` and `tiny_preln`, which no peer has.
PARAMETERS = {
    "albert_config_sample": (1592320, 1630474),
    "albert_config_tiny_preln": (4175776, 4295810),
    "albert_config_tiny": (4175152, 4295186),
    "albert_config_base": (10877440, 11492234),
    "albert_config_large": (17009664, 18084490),
    "albert_config_xlarge": (58577920, 62803594),
    "albert_config_xxlarge": (223503360, 240322186),
    "albert_config_tiny_google": (4080520, 4142594),
    "albert_config_small_google": (4742272, 4813706),
    "albert_config_base_google": (10547968, 10669322),
    "albert_config_large_google": (16548352, 16702986),
    "albert_config_xlarge_google": (57589248, 57877002),
    "albert_config_xxlarge_google": (221459968, 222013962),
    "bert_config": (102267648, 102882442)}


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_parameter_counts(name):
  config = modeling.BertConfig.from_json_file(
      os.path.join(CONFIGS, name + ".json"))
  ids = tf.zeros([1, 4], tf.int32)
  model = modeling.BertModel(config, False, ids)

  def count():
    return sum(v.shape.num_elements() for v in tf.trainable_variables())

  assert count() == PARAMETERS[name][0]
  run_pretraining.get_masked_lm_output(
      config, model.get_sequence_output(), model.get_embedding_table(),
      model.get_embedding_table_2(), ids, ids, tf.ones([1, 4]))
  run_pretraining.get_next_sentence_output(
      config, model.get_pooled_output(), ids[:, 0])
  assert count() == PARAMETERS[name][1]


def test_every_shipped_config_is_valid():
  paths = glob.glob(os.path.join(CONFIGS, "*.json"))
  assert {os.path.basename(path)[:-len(".json")] for path in paths
          } == set(PARAMETERS)
  for path in paths:
    config = modeling.BertConfig.from_json_file(path)
    config.validate()
    assert (config.layout == "google") == path.endswith("_google.json")
    assert (config.layout == "bert") == path.endswith("/bert_config.json")


# ---------------------------------------------------------------------- config


def test_config_round_trip():
  config = modeling.BertConfig(vocab_size=99, hidden_size=37)
  values = json.loads(config.to_json_string())
  assert values["vocab_size"] == 99
  assert values["hidden_size"] == 37
  assert config.to_json_string().endswith("}\n")
  again = modeling.BertConfig.from_dict(values)
  assert again.to_dict() == config.to_dict()


def test_numpy_sizes_are_plain_numbers_in_json():
  config = modeling.BertConfig(vocab_size=np.int64(99))
  assert json.loads(config.to_json_string())["vocab_size"] == 99


def test_ln_type_of_configs():
  assert modeling.BertConfig.from_dict(
      {"vocab_size": 9, "embedding_size": 8}).ln_type == "postln"
  assert modeling.BertConfig.from_dict(
      {"vocab_size": 9, "ln_type": None}).ln_type == "postln"
  with pytest.raises(ValueError, match="postln, preln.*'PostLN'"):
    modeling.BertConfig.from_dict({"vocab_size": 9, "ln_type": "PostLN"})
  config = tiny_config()
  config.ln_type = "pre"
  with pytest.raises(ValueError, match="postln, preln.*'pre'"):
    modeling.BertModel(config, False, tf.zeros([1, 4], tf.int32))


@pytest.fixture
def warnings(monkeypatch):
  """The texts of the warnings that are logged."""
  texts = []
  monkeypatch.setattr(tf.logging, "warning",
                      lambda text, *args: texts.append(text % args))
  return texts


def test_unknown_key_warns_with_the_nearest_known_one(warnings):
  config = modeling.BertConfig.from_dict(
      {"vocab_size": 9, "embedding_size": 8, "hiden_size": 64})
  assert config.hidden_size == 768
  assert len(warnings) == 1
  assert '"hiden_size"' in warnings[0] and '"hidden_size"' in warnings[0]


def test_keys_that_nobody_reads_do_not_warn(warnings):
  modeling.BertConfig.from_json_file(
      os.path.join(CONFIGS, "albert_config_tiny.json"))
  assert warnings == []


def test_layout_of_configs():
  assert modeling.infer_layout({"num_hidden_groups": 1}) == "google"
  assert modeling.infer_layout({"hidden_size": 768}) == "bert"
  assert modeling.infer_layout({"embedding_size": 128}) == "zh"
  for keys, layout in (({"num_hidden_groups": 1}, "google"),
                       ({"hidden_size": 8}, "bert"),
                       ({"layout": "zh", "num_hidden_groups": 1}, "zh"),
                       ({"layout": "bert", "ln_type": "preln"}, "bert")):
    config = modeling.BertConfig.from_dict(dict(keys, vocab_size=9))
    assert config.layout == layout
    again = modeling.BertConfig.from_dict(json.loads(config.to_json_string()))
    assert again.to_dict() == config.to_dict()
  with pytest.raises(ValueError, match="layout .*zh, google, bert.*'other'"):
    modeling.BertConfig(vocab_size=9, layout="other")
  with pytest.raises(ValueError, match="layout .*zh, google, bert.*'other'"):
    modeling.BertConfig.from_dict({"vocab_size": 9, "layout": "other"})


def test_defaults_of_the_layouts():
  assert modeling.BertConfig(9).embedding_size == 128
  assert modeling.BertConfig(9).shared_type == "all"
  plain = modeling.BertConfig.from_dict({"vocab_size": 9})
  for config in (plain, modeling.BertConfig(9, layout="bert")):
    assert config.embedding_size is None
    assert config.shared_type == "none"
    assert config.hidden_dropout_prob == 0.1
    config.validate()
  google = modeling.BertConfig.from_dict(
      {"vocab_size": 9, "num_hidden_groups": 2})
  assert isinstance(google, modeling.AlbertConfig)
  assert google.num_hidden_groups == 2
  assert google.to_dict() == modeling.AlbertConfig(
      9, num_hidden_groups=2).to_dict()
  assert (google.hidden_size, google.num_attention_heads) == (4096, 64)
  assert google.hidden_dropout_prob == google.attention_probs_dropout_prob == 0
  # As google's own class, it takes every json for its own.
  assert modeling.AlbertConfig.from_dict({"vocab_size": 9}).layout == "google"
  assert modeling.AlbertModel is modeling.BertModel


@pytest.mark.parametrize("layout,key,value", [
    ("zh", "num_hidden_groups", 2), ("zh", "inner_group_num", 2),
    ("bert", "num_hidden_groups", 2), ("bert", "embedding_size", 8),
    ("google", "shared_type", "none"), ("google", "shared_type", "ffn")])
def test_a_key_that_the_layout_would_not_honour(layout, key, value):
  config = tiny_config(layout=layout, embedding_size=16)
  config.validate()
  setattr(config, key, value)
  with pytest.raises(ValueError, match="%s %r .*nothing in the layout \"%s\"" %
                     (key, value, layout)):
    modeling.BertModel(config, False, tf.zeros([1, 4], tf.int32))


@pytest.mark.parametrize("key,value,message", [
    ("hidden_size", 18, "hidden_size 18 .*num_attention_heads 4"),
    ("vocab_size", None, "vocab_size .*positive integer.*None"),
    ("num_hidden_layers", 0, "num_hidden_layers .*positive integer.*0"),
    ("hidden_dropout_prob", 1.5, "hidden_dropout_prob .*1.5"),
    ("hidden_dropout_prob", "0.1", "hidden_dropout_prob .*'0.1'"),
    ("hidden_act", "swish", "swish.*gelu, linear, relu, tanh"),
    ("shared_type", "some", "all, attention, ffn, none.*some"),
    ("final_layer_norm", True, "final_layer_norm .*preln.*postln")])
def test_invalid_values_are_named_when_a_model_is_built(key, value, message):
  config = tiny_config()
  setattr(config, key, value)
  with pytest.raises(ValueError, match=message):
    modeling.BertModel(config, False, tf.zeros([1, 4], tf.int32))


def test_config_file_errors(tmp_path):
  with pytest.raises(ValueError, match="no model config at .*missing.json"):
    modeling.BertConfig.from_json_file(str(tmp_path / "missing.json"))
  (tmp_path / "bad.json").write_text("{")
  with pytest.raises(ValueError, match="bad.json is not valid json"):
    modeling.BertConfig.from_json_file(str(tmp_path / "bad.json"))
  (tmp_path / "list.json").write_text("[]")
  with pytest.raises(ValueError, match="list.json must be a json object"):
    modeling.BertConfig.from_json_file(str(tmp_path / "list.json"))


# ----------------------------------------------------------------------- model


@pytest.mark.parametrize("layout,words,embeddings,table,num_outputs", [
    ("zh", 16, 16, [30, 8], 2), ("google", 8, 8, [30, 8], 4),
    ("bert", 16, 16, [30, 16], 2)])
def test_shapes_and_getters(layout, words, embeddings, table, num_outputs):
  input_ids, input_mask = tiny_inputs()
  config = layout_config(layout)
  model = modeling.BertModel(config, True, tf.constant(input_ids),
                             tf.constant(input_mask))
  assert model.get_word_embedding_output().shape.as_list() == [2, 5, words]
  assert model.get_embedding_output().shape.as_list() == [2, 5, embeddings]
  assert model.get_sequence_output().shape.as_list() == [2, 5, 16]
  assert model.get_pooled_output().shape.as_list() == [2, 16]
  assert [layer.shape.as_list() for layer in model.get_all_encoder_layers()
          ] == [[2, 5, 16]] * num_outputs
  assert model.get_embedding_table().shape.as_list() == table
  if layout == "zh":
    assert model.get_embedding_table_2().shape.as_list() == [8, 16]
  else:
    assert model.get_embedding_table_2() is None


@pytest.mark.parametrize("ln_type", ["postln", "preln"])
@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("layout", modeling.LAYOUTS)
def test_every_op_is_used(graph, ln_type, is_training, layout):
  config = layout_config(layout, ln_type=ln_type, hidden_dropout_prob=0.1,
                         attention_probs_dropout_prob=0.1)
  model = modeling.BertModel(
      config, is_training, tf.placeholder(tf.int32, [2, 5]),
      tf.placeholder(tf.int32, [2, 5]), tf.placeholder(tf.int32, [2, 5]))
  seen = set()
  pending = [tf.global_variables_initializer(), model.get_pooled_output().op,
             model.get_embedding_output().op]
  pending += [layer.op for layer in model.get_all_encoder_layers()]
  while pending:
    op = pending.pop()
    if op not in seen:
      seen.add(op)
      pending += [tensor.op for tensor in op.inputs] + op.control_inputs
  unused = [op.name for op in graph.get_operations() if op not in seen
            and not op.name.endswith("Read/ReadVariableOp")
            and "IsInitialized" not in op.name
            # tf.custom_gradient makes some that nobody reads.
            and not re.search(r"/Identity(_\d+)?$", op.name)]
  assert unused == []


def test_the_layouts_are_one_transformer():
  """Equal weights under three names give equal outputs."""
  input_ids, input_mask = (tf.constant(x) for x in tiny_inputs())
  layers = {}
  for layout in modeling.LAYOUTS:
    config = tiny_config(layout=layout, embedding_size=16, ln_type="preln",
                         num_hidden_layers=1)
    with tf.variable_scope(layout):
      layers[layout] = modeling.BertModel(config, False, input_ids, input_mask)
  renamed = {}
  for var in tf.trainable_variables():
    layout, name = var.op.name.split("/", 1)
    for old, new in (("layer_shared", "layer_0"),
                     ("transformer/group_0/inner_group_0", "layer_0"),
                     ("attention_1", "attention"), ("ffn_1/", ""),
                     ("intermediate/output", "output"),
                     ("layer_0/LayerNorm_1", "layer_0/output/LayerNorm"),
                     ("layer_0/LayerNorm", "layer_0/attention/output/LayerNorm")):
      name = name.replace(old, new)
    renamed.setdefault(name, {})[layout] = var
  with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    rng = np.random.RandomState(3)
    for name, variables in renamed.items():
      if name.endswith("word_embeddings_2"):
        assert list(variables) == ["zh"]
        variables["zh"].load(np.eye(16), session)
        continue
      assert sorted(variables) == ["bert", "google", "zh"], name
      value = rng.randn(*variables["zh"].shape.as_list())
      for variable in variables.values():
        variable.load(value, session)
    found = session.run({layout: model.get_pooled_output()
                         for layout, model in layers.items()})
  np.testing.assert_allclose(found["google"], found["zh"], atol=1e-5)
  np.testing.assert_allclose(found["bert"], found["zh"], atol=1e-5)


def test_without_dropout_no_random_op_is_built(graph):
  modeling.BertModel(tiny_config(), True, tf.zeros([2, 5], tf.int32))
  modeling.BertModel(tiny_config(hidden_dropout_prob=0.5), False,
                     tf.zeros([2, 5], tf.int32), scope="other")
  random_ops = [op.name for op in graph.get_operations()
                if op.type == "RandomUniform"]
  assert random_ops == []


def test_dropout_changes_outputs_in_training():
  config = tiny_config(hidden_dropout_prob=0.5)
  model = modeling.BertModel(config, True, tf.constant(tiny_inputs()[0]))
  with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    first = session.run(model.get_pooled_output())
    second = session.run(model.get_pooled_output())
  assert np.abs(first - second).max() > 1e-3


@pytest.mark.parametrize("ln_type", ["postln", "preln"])
def test_padding_does_not_matter(ln_type):
  ids = np.array([[2, 5, 6, 3]], np.int32)
  padded = np.array([[2, 5, 6, 3, 9, 9]], np.int32)
  mask = np.array([[1, 1, 1, 1, 0, 0]], np.int32)
  config = tiny_config(ln_type=ln_type)
  with tf.variable_scope("m"):
    plain = modeling.BertModel(config, False, tf.constant(ids), scope="bert")
  with tf.variable_scope("m", reuse=True):
    longer = modeling.BertModel(config, False, tf.constant(padded),
                                tf.constant(mask), scope="bert")
  first, second = run([plain.get_sequence_output(),
                       longer.get_sequence_output()])
  np.testing.assert_allclose(first, second[:, :4], atol=1e-5)


def test_one_hot_embeddings_equal_gathered_ones():
  input_ids = tf.constant(tiny_inputs()[0])
  with tf.variable_scope("m"):
    gathered = modeling.BertModel(tiny_config(), False, input_ids,
                                  scope="bert")
  with tf.variable_scope("m", reuse=True):
    multiplied = modeling.BertModel(tiny_config(), False, input_ids,
                                    use_one_hot_embeddings=True, scope="bert")
  first, second = run([gathered.get_pooled_output(),
                       multiplied.get_pooled_output()])
  np.testing.assert_allclose(first, second, atol=1e-6)


def test_sizes_may_be_unknown_until_the_graph_runs():
  input_ids, input_mask = tiny_inputs()
  ids = tf.placeholder(tf.int32, [None, None])
  mask = tf.placeholder(tf.int32, [None, None])
  model = modeling.BertModel(tiny_config(), False, ids, mask)
  with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    output = model.get_sequence_output()
    assert session.run(output, {ids: input_ids,
                                mask: input_mask}).shape == (2, 5, 16)
    assert session.run(output, {ids: input_ids[:1, :3],
                                mask: input_mask[:1, :3]}).shape == (1, 3, 16)
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="longer than max_position_embeddings 12"):
      session.run(output, {ids: np.ones([1, 13]), mask: np.ones([1, 13])})


def test_a_sequence_that_is_too_long_is_an_error():
  with pytest.raises(ValueError, match="max_position_embeddings 12.*length 13"):
    modeling.BertModel(tiny_config(), False, tf.zeros([1, 13], tf.int32))


def test_wrong_rank_is_an_error():
  with pytest.raises(ValueError, match="rank 1 .*expected 2"):
    modeling.BertModel(tiny_config(), False, tf.zeros([4], tf.int32))


@pytest.mark.parametrize("shape", [[2], [2, 1], [1, 5], [2, 5, 5], [5, 2]])
def test_masks_and_types_have_the_shape_of_the_ids(shape):
  ids, other = tf.zeros([2, 5], tf.int32), tf.ones(shape, tf.int32)
  with pytest.raises(ValueError, match="input_mask has the shape"):
    modeling.BertModel(tiny_config(), False, ids, other)
  with pytest.raises(ValueError, match="token_type_ids has the shape"):
    modeling.BertModel(tiny_config(), False, ids, token_type_ids=other)


def test_final_layer_norm_closes_a_pre_ln_encoder():
  model = modeling.BertModel(
      tiny_config(ln_type="preln", final_layer_norm=True), False,
      tf.constant(tiny_inputs()[0]))
  names = [v.op.name for v in tf.trainable_variables()]
  assert "bert/encoder/final_layer_norm/gamma" in names
  output, last = run([model.get_sequence_output(),
                      model.get_all_encoder_layers()[-1]])
  np.testing.assert_allclose(output.mean(axis=-1), 0.0, atol=1e-5)
  np.testing.assert_allclose(output.std(axis=-1), 1.0, atol=1e-3)
  np.testing.assert_array_equal(output, last)


# ------------------------------------------- the last layer where it is read


def pretraining_inputs():
  """Two sequences, one with padding; positions may repeat."""
  input_ids, input_mask = tiny_inputs()
  arrays = {"input_ids": input_ids, "input_mask": input_mask,
            "segment_ids": np.array([[0, 0, 1, 1, 1], [0] * 5], np.int32),
            "masked_lm_positions": np.array([[1, 3, 4], [2, 0, 0]], np.int32),
            "masked_lm_ids": np.array([[5, 7, 3], [8, 0, 0]], np.int32),
            "masked_lm_weights": np.array([[1, 1, 1], [1, 0, 0]], np.float32),
            "next_sentence_labels": np.array([[0], [1]], np.int32)}
  return {name: tf.constant(array) for name, array in arrays.items()}


def build_at_positions(config, inputs, **arguments):
  """Model and total loss, the last layer computed where it is read."""
  model = modeling.BertModel(
      config, True, inputs["input_ids"], inputs["input_mask"],
      inputs["segment_ids"], output_positions=inputs["masked_lm_positions"],
      scope="bert", **arguments)
  masked_lm = run_pretraining.get_masked_lm_output(
      config, model.get_output_at_positions(), model.get_embedding_table(),
      model.get_embedding_table_2(), None, inputs["masked_lm_ids"],
      inputs["masked_lm_weights"])
  next_sentence = run_pretraining.get_next_sentence_output(
      config, model.get_pooled_output(), inputs["next_sentence_labels"])
  return model, masked_lm.loss + next_sentence.loss


def dense_gradients(loss, tvars):
  return [tf.convert_to_tensor(g) for g in tf.gradients(loss, tvars)]


def assert_all_close(found, expected, tolerance=1e-5):
  """Lists of arrays are equal, each up to a part of its largest number."""
  assert len(found) == len(expected)
  for index, (one, other) in enumerate(zip(found, expected)):
    scale = max(np.abs(other).max(), 1e-2)
    np.testing.assert_allclose(one / scale, other / scale, atol=tolerance,
                               err_msg="tensor %d" % index)


KINDS = [
    dict(layout="zh"), dict(layout="zh", num_hidden_layers=1),
    dict(layout="zh", ln_type="preln"), dict(layout="zh", shared_type="ffn"),
    dict(layout="zh", ln_type="preln", final_layer_norm=True),
    dict(layout="google"), dict(layout="google", num_hidden_groups=2),
    dict(layout="bert")]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_positions_leave_outputs_losses_and_gradients_as_they_are(kind):
  config = layout_config(**dict(kind, initializer_range=0.3))
  inputs = pretraining_inputs()
  with tf.variable_scope("m", reuse=tf.AUTO_REUSE):
    plain, masked_lm, next_sentence = build_with_heads(config, inputs)
    tvars = tf.trainable_variables()
    partial, partial_loss = build_at_positions(config, inputs)
  loss = masked_lm.loss + next_sentence.loss
  assert tf.trainable_variables() == tvars  # no other ones
  full_rows = tf.reshape(bert_utils.gather_indexes(
      plain.get_sequence_output(), inputs["masked_lm_positions"]), [2, 3, 16])
  expected, found = run([
      [loss, plain.get_pooled_output(), full_rows,
       plain.get_sequence_output()] + plain.get_all_encoder_layers() +
      dense_gradients(loss, tvars),
      [partial_loss, partial.get_pooled_output(),
       partial.get_output_at_positions(), partial.get_sequence_output()] +
      partial.get_all_encoder_layers() + dense_gradients(partial_loss, tvars)])
  assert_all_close(found, expected)


def test_the_full_last_layer_is_built_for_who_asks_and_once(graph):
  config = tiny_config(intermediate_size=24)
  model, _ = build_at_positions(config, pretraining_inputs())

  def matrices():
    return [op.outputs[0].shape.as_list() for op in graph.get_operations()
            if op.type == "MatMul"]

  # 2 sequences of 5 tokens; of the last layer 1 + 3 tokens each.
  before = matrices()
  assert before.count([10, 24]) == before.count([8, 24]) == 1
  first = model.get_sequence_output()
  assert matrices()[len(before):].count([10, 24]) == 1
  assert model.get_all_encoder_layers()[-1] is first is model.sequence_output
  assert first.shape.as_list() == [2, 5, 16]


def test_no_positions_leave_the_first_token():
  input_ids, input_mask = (tf.constant(x) for x in tiny_inputs())
  ids = tf.placeholder_with_default(input_ids, [None, None])
  mask = tf.placeholder_with_default(input_mask, [None, None])
  none = tf.zeros([tf.shape(ids)[0], 0], tf.int32)
  with tf.variable_scope("m", reuse=tf.AUTO_REUSE):
    plain = modeling.BertModel(tiny_config(), False, ids, mask, scope="bert")
    partial = modeling.BertModel(tiny_config(), False, ids, mask, scope="bert",
                                 output_positions=none)
  expected, found, rows = run([
      plain.get_pooled_output(), partial.get_pooled_output(),
      partial.get_output_at_positions()])
  np.testing.assert_allclose(found, expected, atol=1e-6)
  assert rows.shape == (2, 0, 16)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_one_row_attends_as_all_rows_do(kind):
  """Where [CLS] only is read, the last layer has no keys and values."""
  config = layout_config(**dict(kind, initializer_range=0.3))
  inputs = pretraining_inputs()
  outputs = []
  with tf.variable_scope("m", reuse=tf.AUTO_REUSE):
    for positions in (None, tf.zeros([2, 0], tf.int32)):
      outputs.append(modeling.BertModel(
          config, True, inputs["input_ids"], inputs["input_mask"],
          inputs["segment_ids"], output_positions=positions,
          scope="bert").get_pooled_output())
  tvars = tf.trainable_variables()
  # Biases start at 0, where an error in them would not show.
  biases = [tf.assign(variable, tf.linspace(-1.0, 1.0, variable.shape[0]))
            for variable in tvars if variable.op.name.endswith("/bias")]
  fetches = [[output] + dense_gradients(
      tf.reduce_sum(output * tf.linspace(1.0, 2.0, 16)), tvars)
             for output in outputs]
  with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(biases)
    expected, found = session.run(fetches)
  # The gradients of the keys' biases are nothing but rounding.
  assert_all_close(found, expected, 1e-4)


def test_one_row_drops_probabilities_before_the_value_and_its_bias():
  """A value is dropped with its bias, as where all values are computed."""
  config = tiny_config()
  tensor = tf.random.stateless_uniform([2, 5, 16], [1, 2])
  kernels = [tf.random.stateless_uniform([16, 16], [3, seed], -1, 1)
             for seed in range(3)]
  bias = tf.linspace(-1.0, 1.0, 48)
  attention_bias = modeling._mask_to_bias(tf.constant(
      [[[1, 1, 1, 1, 1]], [[1, 1, 1, 0, 0]]]))
  qkv = modeling.QueryKeyValue(*kernels, joined=modeling.Dense(
      tf.concat(kernels, axis=1), bias))
  num_heads = config.num_attention_heads

  def drop(probs, rate):
    # The two shapes are [B, N, 1, S] and [B, N, S].
    return probs * rate * tf.cast(tf.range(5) % 2, tf.float32)

  found = modeling._attend_once(tensor, attention_bias, tensor[:, 0], qkv,
                                num_heads, 1.5, drop)
  query, key, value = modeling._split_heads(
      modeling._project(tf.reshape(tensor, [10, 16]), qkv.joined), 2, 5, 3,
      num_heads, 16 // num_heads)
  expected = modeling._attend(query[:, :, :1], key, value, attention_bias, 1.5,
                              drop)
  found, expected = run([found, expected])
  np.testing.assert_allclose(found, expected, atol=1e-5)


def test_output_at_positions_needs_positions():
  model = modeling.BertModel(tiny_config(), False, tf.zeros([1, 3], tf.int32))
  with pytest.raises(ValueError, match="output_positions, found None"):
    model.get_output_at_positions()


def test_heads_divide_by_the_numbers_of_the_whole_batch():
  """The parts of a batch have losses that sum up to the whole one's."""
  config, inputs = tiny_config(), pretraining_inputs()
  rng = np.random.RandomState(0)
  pooled = tf.constant(rng.randn(2, 16), tf.float32)
  rows = tf.constant(rng.randn(2, 3, 16), tf.float32)
  table, projection = (tf.constant(rng.randn(*size), tf.float32)
                       for size in ((30, 8), (8, 16)))

  def losses(part, **numbers):
    masked_lm = run_pretraining.get_masked_lm_output(
        config, rows[part], table, projection, None,
        inputs["masked_lm_ids"][part], inputs["masked_lm_weights"][part],
        **{key: value for key, value in numbers.items()
           if key == "num_predictions"})
    next_sentence = run_pretraining.get_next_sentence_output(
        config, pooled[part], inputs["next_sentence_labels"][part],
        **{key: value for key, value in numbers.items()
           if key == "num_examples"})
    return tf.stack([masked_lm.loss, next_sentence.loss])

  with tf.variable_scope("m", reuse=tf.AUTO_REUSE):
    whole = losses(slice(0, 2))
    parts = [losses(part, num_predictions=tf.constant(4.0),
                    num_examples=tf.constant(2.0))
             for part in (slice(0, 1), slice(1, 2))]
  whole, parts = run([whole, parts])
  np.testing.assert_allclose(parts[0] + parts[1], whole, rtol=1e-5)
  assert (parts[0] != parts[1]).all()


# -------------------------------------- precision, dropout seeds, recomputation


@pytest.mark.parametrize("layout,ln_type", [
    ("zh", "postln"), ("zh", "preln"), ("google", "postln"),
    ("bert", "postln")])
@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16],
                         ids=["bfloat16", "float16"])
def test_half_precision_is_near_float32(layout, ln_type, dtype):
  config = layout_config(layout, ln_type=ln_type)
  inputs = pretraining_inputs()
  with tf.variable_scope("m", reuse=tf.AUTO_REUSE):
    plain, plain_loss = build_at_positions(config, inputs)
    tvars = tf.trainable_variables()
    half, half_loss = build_at_positions(config, inputs, compute_dtype=dtype)
  assert {v.dtype.base_dtype for v in tf.trainable_variables()} == {tf.float32}
  assert tf.trainable_variables() == tvars
  assert half.get_output_at_positions().dtype == dtype
  assert half.get_sequence_output().dtype == dtype
  assert half.get_pooled_output().dtype == half_loss.dtype == tf.float32
  gradients = dense_gradients(half_loss, tvars)
  assert {g.dtype for g in gradients} == {tf.float32}
  expected, found = run([
      [plain_loss, plain.get_pooled_output(), plain.get_sequence_output()] +
      dense_gradients(plain_loss, tvars),
      [half_loss, half.get_pooled_output(),
       tf.cast(half.get_sequence_output(), tf.float32)] + gradients])
  assert_all_close(found, expected, 0.06)
  assert np.abs(found[2] - expected[2]).max() > 0  # it is another type


def test_compute_dtype_must_be_a_float_of_at_most_32_bits():
  with pytest.raises(ValueError, match="tf.bfloat16 or tf.float16, found int"):
    modeling.BertModel(tiny_config(), False, tf.zeros([1, 3], tf.int32),
                       compute_dtype=tf.int32)


def test_a_dropout_seed_says_what_is_dropped():
  seed = tf.placeholder(tf.int32, [2])
  ones = tf.ones([300, 301])
  outputs = [modeling.dropout(ones, 0.2, seed, number)
             for number in (0, 1, 0, -1)]
  with tf.Session() as session:
    first, again, later, other = (
        session.run(outputs, {seed: value})
        for value in ([7, 1], [7, 1], [7, 2], [8, 1]))
  assert_all_close(again, first, 0)
  np.testing.assert_array_equal(first[0], first[2])
  assert sorted(set(first[0].ravel())) == [0.0, np.float32(1.25)]
  for one in first:
    assert abs(one.mean() - 1) < 0.01
    # Neighbours are independent.
    assert abs((one[:, 1:] * one[:, :-1]).mean() - 1) < 0.02
  for one in (first[1], first[3], later[0], other[0]):
    # Independent masks agree on 0.8 * 0.8 + 0.2 * 0.2 of the elements.
    assert abs((one == first[0]).mean() - 0.68) < 0.01


def test_every_dropout_of_a_model_is_another_one_and_repeats(graph):
  config = tiny_config(hidden_dropout_prob=0.3,
                       attention_probs_dropout_prob=0.3)
  inputs = pretraining_inputs()
  seed = tf.placeholder(tf.int32, [2])
  with tf.variable_scope("m", reuse=tf.AUTO_REUSE):
    losses = [build_at_positions(config, inputs, dropout_seed=seed)[1]
              for _ in range(2)]
  types = [op.type for op in graph.get_operations()]
  # Embeddings, and three in each of two layers.
  assert types.count("RandomUniform") == 0
  drawn = [op for op in graph.get_operations()
           if op.type.startswith("StatelessRandomUniform")]
  assert len(drawn) == 2 * 7
  seeds = [op.inputs[1] for op in drawn]
  with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    first, second, later = (session.run(losses, {seed: value})
                            for value in ([3, 1], [3, 1], [3, 2]))
    seeds = session.run(seeds, {seed: [3, 1]})
  assert first == second and first[0] == first[1] != later[0]
  assert len({tuple(value) for value in seeds}) == 7


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_recomputed_gradients_are_equal(kind, rate):
  config = layout_config(**dict(
      kind, initializer_range=0.3, hidden_dropout_prob=rate,
      attention_probs_dropout_prob=rate))
  inputs = pretraining_inputs()
  arguments = {"dropout_seed": tf.constant([5, 6])} if rate else {}
  with tf.variable_scope("m", reuse=tf.AUTO_REUSE):
    _, plain_loss = build_at_positions(config, inputs, **arguments)
    tvars = tf.trainable_variables()
    _, loss = build_at_positions(config, inputs, recompute_activations=True,
                                 **arguments)
  expected, found = run([[plain_loss] + dense_gradients(plain_loss, tvars),
                         [loss] + dense_gradients(loss, tvars)])
  assert_all_close(found, expected)


def test_recomputation_drops_what_the_forward_pass_dropped():
  """Without a seed too: the gradient fits the differences of the output."""
  x = tf.placeholder(tf.float32, [2, 5, 16])
  values = np.random.RandomState(0).randn(2, 5, 16).astype(np.float32)
  weights = np.random.RandomState(1).randn(2, 5, 16).astype(np.float32)
  tf.set_random_seed(3)
  outputs, last_layer = modeling._encoder(
      "postln", modeling._zh_layers(3, "all"), x, None, 2, 32, tf.tanh, 0.3,
      0.3, 0.3, recompute=True)
  loss = tf.reduce_sum(last_layer() * weights)
  slope = tf.gradients(loss, x)[0]
  # A dropout of the whole tensor, read off a step that changes the input.
  direction = np.random.RandomState(2).randn(2, 5, 16).astype(np.float32)
  with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    seeds = [op.outputs[0] for op in x.graph.get_operations()
             if op.type == "RandomUniformInt"]
    assert len(seeds) == 1

    def at(step):
      return session.run([loss, slope], {
          x: values + step * direction, seeds[0]: [11, 12]})

    difference = (at(1e-2)[0] - at(-1e-2)[0]) / 2e-2
    expected = (at(0)[1] * direction).sum()
  np.testing.assert_allclose(difference, expected, rtol=2e-2)


def test_recomputation_keeps_only_what_goes_into_a_layer(graph):
  """No gradient op reads what the forward pass made inside a layer."""
  config = tiny_config(hidden_dropout_prob=0.1, num_hidden_layers=3,
                       attention_probs_dropout_prob=0.1)

  def kept(**arguments):
    """Elements that ops of the backward pass read of layers 0 and 1."""
    start = len(graph.get_operations())
    _, loss = build_at_positions(config, pretraining_inputs(), **arguments)
    forward = {op for op in graph.get_operations()[start:]
               if re.search("encoder(_1)?/layer_[01]/", op.name)}
    middle = len(graph.get_operations())
    tf.gradients(loss, tf.trainable_variables())
    shapes = {tensor.name: tensor.shape
              for op in graph.get_operations()[middle:]
              for tensor in op.inputs if tensor.op in forward}
    # Weights, that go through a layer too, have other first dimensions.
    return sum(shape.num_elements() for shape in shapes.values()
               if shape.ndims and shape[0] in (2, 10)
               and shape.num_elements() >= 10 * 16)

  with tf.variable_scope("m", reuse=tf.AUTO_REUSE):
    plain = kept()
    recomputed = kept(recompute_activations=True)
  assert plain > 20 * 160
  assert 160 <= recomputed <= 4 * 160  # what goes in and out


def test_recomputation_inside_a_loop():
  """As a loop over the parts of a batch has it."""
  config = tiny_config(hidden_dropout_prob=0.2)
  ids = tf.constant(tiny_inputs()[0])

  def gradient(part):
    model = modeling.BertModel(
        config, True, part, scope="bert", recompute_activations=True,
        dropout_seed=tf.constant([1, 2]))
    table = model.get_embedding_table()
    return tf.convert_to_tensor(tf.gradients(
        tf.reduce_sum(model.get_pooled_output()), table)[0])

  with tf.variable_scope("m", reuse=tf.AUTO_REUSE, use_resource=True):
    one_by_one = tf.stack([gradient(ids[:1]), gradient(ids[1:])])
    in_loop = tf.while_loop(
        lambda index, _: index < 2,
        lambda index, parts: (index + 1, parts.write(
            index, gradient(tf.slice(ids, [index, 0], [1, 5])))),
        [tf.constant(0), tf.TensorArray(tf.float32, 2)])[1].stack()
  expected, found = run([one_by_one, in_loop])
  assert_all_close([found], [expected])


@pytest.mark.parametrize("shape", [[4, 7], [3, 300]])
def test_cross_entropy_equals_the_op_of_tensorflow(shape):
  rng = np.random.RandomState(0)
  logits = tf.constant(50 * rng.randn(*shape), tf.float32)
  labels = tf.constant(rng.randint(0, shape[1], shape[0]), tf.int32)
  weights = tf.constant(rng.rand(shape[0]), tf.float32)
  losses = [run_pretraining._cross_entropy(logits, labels),
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels, logits=logits)]
  found, expected = run([
      [loss] + tf.gradients(loss * weights, logits) for loss in losses])
  assert_all_close(found, expected, 1e-6)


@pytest.mark.parametrize("compiled", [False, pytest.param(
    True, marks=pytest.mark.skipif(tf.__version__.startswith("1."),
                                   reason="TensorFlow 1.15 cannot compile"))])
@pytest.mark.parametrize("dtype,atol", [(tf.float32, 5e-6),
                                        (tf.bfloat16, 0.13)])
def test_the_gelu_of_training_is_gelu(compiled, dtype, atol):
  x = tf.constant(np.concatenate([np.linspace(-30, 30, 61),
                                  np.linspace(-3, 3, 61)]), tf.float32)
  narrow = tf.cast(x, dtype)
  y = modeling._gelu_to_train(compiled)(narrow)
  exact = modeling.gelu(x)
  found = [y] + tf.gradients(y, narrow)
  assert [tensor.dtype for tensor in found] == [dtype, dtype]
  compiled_ops = [op for op in tf.get_default_graph().get_operations()
                  if op.type.endswith("PartitionedCall")]
  assert len(compiled_ops) == (2 if compiled else 0)
  found, expected = run([[tf.cast(tensor, tf.float32) for tensor in found],
                         [exact] + tf.gradients(exact, x)])
  np.testing.assert_allclose(found, expected, atol=atol)


# ----------------------------------------------------------------- transformer


@pytest.mark.parametrize("model_fn", [modeling.transformer_model,
                                      modeling.prelln_transformer_model])
@pytest.mark.parametrize("shared_type,owned", [
    ("all", set()),
    ("attention", {"intermediate_0", "intermediate_1", "output_0",
                   "output_1"}),
    ("ffn", {"attention_0", "attention_1"})])
def test_scopes_of_shared_layers(model_fn, shared_type, owned):
  model_fn(tf.zeros([1, 3, 8]), hidden_size=8, num_hidden_layers=2,
           num_attention_heads=2, intermediate_size=16,
           shared_type=shared_type)
  names = [v.op.name.split("/") for v in tf.trainable_variables()]
  assert {name[0] for name in names} == {"layer_shared"}
  parts = {name[1] for name in names}
  assert {part for part in parts if part[-1].isdigit()} == owned
  assert len(names) == {"all": 16, "attention": 22, "ffn": 26}[shared_type]


def test_without_activation_the_feed_forward_block_is_linear():
  input_tensor = tf.random_normal([1, 3, 8], seed=1)

  def output(**arguments):
    with tf.variable_scope("m", reuse=tf.AUTO_REUSE):
      return modeling.transformer_model(
          input_tensor, hidden_size=8, num_hidden_layers=1,
          num_attention_heads=2, intermediate_size=16, initializer_range=1.0,
          hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
          **arguments)

  default, gelu, linear = run([
      output(), output(intermediate_act_fn=modeling.gelu),
      output(intermediate_act_fn=None)])
  np.testing.assert_array_equal(default, gelu)
  assert np.abs(default - linear).max() > 1e-3


def test_not_sharing_by_the_peers_argument():
  modeling.transformer_model(
      tf.zeros([1, 3, 8]), hidden_size=8, num_hidden_layers=2,
      num_attention_heads=2, intermediate_size=16,
      share_parameter_across_layers=False)
  assert {v.op.name.split("/")[0] for v in tf.trainable_variables()} == {
      "layer_0", "layer_1"}


@pytest.mark.parametrize("model_fn", [modeling.transformer_model,
                                      modeling.prelln_transformer_model])
def test_adapter_is_called_after_each_projection(model_fn):
  calls = []

  def adapter_fn(projection, layer_idx, part):
    calls.append((layer_idx, part, projection.shape.as_list()))
    scale = tf.get_variable("scale", [], initializer=tf.zeros_initializer())
    return projection * scale

  input_tensor = tf.random_normal([2, 3, 8])
  output = model_fn(
      input_tensor, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
      intermediate_size=16, adapter_fn=adapter_fn)
  assert calls == [(0, "attention", [6, 8]), (0, "output", [6, 8]),
                   (1, "attention", [6, 8]), (1, "output", [6, 8])]
  assert {v.op.name for v in tf.trainable_variables()
          if "adapter" in v.op.name} == {
              "layer_%d/%s/adapter/scale" % (layer, part)
              for layer in (0, 1) for part in ("attention", "output")}
  given, found = run([input_tensor, output])
  if model_fn is modeling.prelln_transformer_model:
    # With the projections scaled to nothing, only the residual path is left.
    np.testing.assert_array_equal(given, found)
  else:
    centered = given - given.mean(-1, keepdims=True)
    np.testing.assert_allclose(
        found, centered / centered.std(-1, keepdims=True), atol=1e-4)


def test_adapter_must_return_the_shape_it_got():
  with pytest.raises(ValueError, match=r"adapter_fn .*\(3, 8\).*part attent"):
    modeling.transformer_model(
        tf.zeros([1, 3, 8]), hidden_size=8, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=16,
        adapter_fn=lambda projection, layer_idx, part: None)


@pytest.mark.parametrize("arguments,message", [
    (dict(hidden_size=16), "width of the input, 8, is not hidden_size 16"),
    (dict(num_attention_heads=3), "hidden_size 8 .*num_attention_heads 3"),
    (dict(shared_type="layers"), "all, attention, ffn, none.*layers")])
def test_transformer_argument_errors(arguments, message):
  values = dict(hidden_size=8, num_attention_heads=2)
  values.update(arguments)
  with pytest.raises(ValueError, match=message):
    modeling.prelln_transformer_model(tf.zeros([1, 3, 8]), **values)


def test_attention_layer_equals_the_formula():
  rng = np.random.RandomState(0)
  queries = rng.randn(2, 3, 8).astype(np.float32)
  keys = rng.randn(2, 5, 6).astype(np.float32)
  mask = np.ones([2, 3, 5], np.int32)
  mask[1, :, 3:] = 0
  output = modeling.attention_layer(
      tf.constant(queries), tf.constant(keys), tf.constant(mask),
      num_attention_heads=2, size_per_head=4, key_act=tf.nn.relu,
      initializer_range=0.5)
  flat = None
  with tf.variable_scope("", reuse=True):
    flat = modeling.attention_layer(
        tf.constant(queries.reshape(6, 8)), tf.constant(keys.reshape(10, 6)),
        tf.constant(mask), num_attention_heads=2, size_per_head=4,
        key_act=tf.nn.relu, do_return_2d_tensor=True, batch_size=2,
        from_seq_length=3, to_seq_length=5)
  tvars = {v.op.name: v for v in tf.trainable_variables()}
  assert sorted(tvars) == sorted(
      "%s/%s" % (layer, part) for layer in ("query", "key", "value")
      for part in ("kernel", "bias"))
  found, found_flat, weights = run([output, flat, tvars])

  def heads(x, layer):
    projected = x @ weights[layer + "/kernel"] + weights[layer + "/bias"]
    if layer == "key":
      projected = np.maximum(projected, 0)
    return projected.reshape(2, -1, 2, 4).transpose(0, 2, 1, 3)

  scores = heads(queries, "query") @ heads(keys, "key").transpose(0, 1, 3, 2)
  scores = scores / 2.0 + (1 - mask[:, None]) * -10000.0
  probs = np.exp(scores - scores.max(-1, keepdims=True))
  probs /= probs.sum(-1, keepdims=True)
  expected = (probs @ heads(keys, "value")).transpose(0, 2, 1, 3)
  np.testing.assert_allclose(found, expected.reshape(2, 3, 8), atol=1e-5)
  np.testing.assert_allclose(found_flat, expected.reshape(6, 8), atol=1e-5)


def test_attention_layer_needs_the_sizes_of_2d_tensors():
  with pytest.raises(ValueError, match="must all be given"):
    modeling.attention_layer(tf.zeros([6, 8]), tf.zeros([6, 8]),
                             batch_size=2)


# --------------------------------------------------------------- small helpers


def test_activations():
  x = np.array([-3.0, -1.0, 0.0, 0.5, 2.0], np.float32)
  expected = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) *
                                    (x + 0.044715 * x ** 3)))
  np.testing.assert_allclose(run(modeling.gelu(tf.constant(x))), expected,
                             atol=1e-6)
  assert modeling.get_activation("gelu") is modeling.gelu
  assert modeling.get_activation("RELU") is tf.nn.relu
  assert modeling.get_activation("linear") is None
  assert modeling.get_activation("") is None
  assert modeling.get_activation(None) is None
  assert modeling.get_activation(tf.sigmoid) is tf.sigmoid
  with pytest.raises(ValueError, match="unknown activation 'sine'"):
    modeling.get_activation("sine")


def test_layer_norm_in_half_precision_is_computed_in_float32():
  x = np.array([[1000.0, 1001.0, 1003.0, 1000.0]], np.float16)
  output = modeling.layer_norm(tf.constant(x))
  assert output.dtype == tf.float16
  assert {v.dtype.base_dtype for v in tf.trainable_variables()} == {
      tf.float32}
  exact = x.astype(np.float64)
  exact = (exact - exact.mean()) / exact.std()
  np.testing.assert_allclose(run(output), exact, atol=2e-3)


@pytest.mark.parametrize("layout", modeling.LAYOUTS)
def test_a_getter_may_hand_out_bfloat16_variables(layout):
  """As a TPU's bfloat16 scope does: weights stay float32, products do not."""
  def half(getter, **kwargs):
    return tf.cast(getter(**dict(kwargs, dtype=tf.float32)), tf.bfloat16)

  input_ids, input_mask = tiny_inputs()
  inputs = {"input_ids": tf.constant(input_ids),
            "input_mask": tf.constant(input_mask),
            "segment_ids": tf.zeros_like(input_ids),
            "masked_lm_positions": tf.constant([[1], [1]]),
            "masked_lm_ids": tf.constant([[5], [8]]),
            "masked_lm_weights": tf.ones([2, 1]),
            "next_sentence_labels": tf.constant([[0], [1]])}
  with tf.variable_scope("half", custom_getter=half):
    model, masked_lm, next_sentence = build_with_heads(
        layout_config(layout), inputs)
  assert model.get_sequence_output().dtype == tf.bfloat16
  assert masked_lm.loss.dtype == next_sentence.loss.dtype == tf.float32
  assert {v.dtype.base_dtype for v in tf.trainable_variables()} == {
      tf.float32}
  gradients = tf.gradients(masked_lm.loss + next_sentence.loss,
                           tf.trainable_variables())
  assert None not in gradients
  assert np.isfinite(run(masked_lm.loss + next_sentence.loss))


def test_embedding_postprocessor_needs_the_types_it_is_told_to_use():
  with pytest.raises(ValueError, match="token_type_ids"):
    modeling.embedding_postprocessor(tf.zeros([1, 2, 4]), use_token_type=True)


def test_embedding_lookup_without_projection():
  output, table = modeling.embedding_lookup(
      tf.constant([[[1], [2]]]), vocab_size=5, embedding_size=3)
  found, weights = run([output, table])
  np.testing.assert_array_equal(found, weights[np.array([[1, 2]])])


def test_gather_indexes():
  sequence = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
  found = run(bert_utils.gather_indexes(
      tf.constant(sequence), tf.constant([[0, 3], [2, 2]])))
  np.testing.assert_array_equal(
      found, [sequence[0, 0], sequence[0, 3], sequence[1, 2], sequence[1, 2]])


# ----------------------------------------------------------------- checkpoints


def save(path, values):
  """Writes a checkpoint of the given arrays."""
  with tf.Graph().as_default(), tf.Session() as session:
    for name, value in values.items():
      tf.get_variable(name, initializer=np.asarray(value, np.float32))
    session.run(tf.global_variables_initializer())
    return tf.train.Saver().save(session, str(path))


def test_assignment_map_has_what_is_on_both_sides(tmp_path):
  checkpoint = save(tmp_path / "model.ckpt", {
      "a": [1.0], "only_there": [1.0], "a/lamb_m": [0.0], "global_step": 3})
  tf.get_variable("a", [1])
  tf.get_variable("only_here", [1])
  assignment, initialized = modeling.get_assignment_map_from_checkpoint(
      tf.trainable_variables(), checkpoint)
  assert dict(assignment) == {"a": "a"}
  assert initialized == {"a": 1, "a:0": 1}
  match = bert_utils.match_checkpoint(tf.trainable_variables(), checkpoint)
  assert match.missing == ["only_here"]
  assert match.unexpected == ["only_there"]


@pytest.mark.parametrize("shape,message", [
    ([9, 4], "vocab_size is 9, but .* has 7 rows in bert/.*; use its "
     "vocabulary and set vocab_size in the config to 7"),
    ([9, 6], r"\[7, 4\], model \[9, 6\]; change vocab_size or embedding_size")])
def test_another_shape_names_the_config_key(tmp_path, shape, message):
  checkpoint = save(tmp_path / "model.ckpt", {
      "bert/embeddings/word_embeddings": np.zeros([7, 4])})
  with tf.variable_scope("bert/embeddings"):
    tf.get_variable("word_embeddings", shape)
  with pytest.raises(ValueError, match=message):
    modeling.get_assignment_map_from_checkpoint(tf.trainable_variables(),
                                                checkpoint)


def test_another_number_of_labels_is_said_to_be_one(tmp_path):
  checkpoint = save(tmp_path / "model.ckpt", {"output_bias": [0.0, 0.0]})
  tf.get_variable("output_bias", [3])
  with pytest.raises(ValueError, match="change the labels of the task"):
    modeling.get_assignment_map_from_checkpoint(tf.trainable_variables(),
                                                checkpoint)


@pytest.mark.parametrize("names,layout", [
    (["bert/embeddings/word_embeddings_2"], "zh"),
    (["bert/encoder/transformer/group_0/inner_group_0/x"], "google"),
    (["bert/encoder/layer_0/attention/self/query/kernel"], "bert"),
    ({"bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense/"
      "kernel": [21, 84, 16]}, "fast"),
    ({"bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense/"
      "kernel": [336, 1344]}, "google"),
    (["foo/bar"], "none")])
def test_layout_of_checkpoints(names, layout):
  assert bert_utils.describe_layout(names).split()[0] == layout
