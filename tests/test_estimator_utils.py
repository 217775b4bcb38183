"""Which checkpoint goes with which config, for models of every layout."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import bert_utils
import estimator_utils
import modeling
import run_classifier
import run_pretraining

SIZES = dict(vocab_size=20, hidden_size=16, num_hidden_layers=2,
             num_attention_heads=2, intermediate_size=32,
             max_position_embeddings=8, type_vocab_size=2)

CONFIGS = {
    "zh": dict(layout="zh", embedding_size=8),
    "zh_none": dict(layout="zh", embedding_size=8, shared_type="none"),
    "zh_none_equal": dict(layout="zh", embedding_size=16, shared_type="none"),
    "zh_attention": dict(layout="zh", embedding_size=8,
                         shared_type="attention"),
    "google": dict(layout="google", embedding_size=8),
    "google_equal": dict(layout="google", embedding_size=16),
    "google_groups": dict(layout="google", embedding_size=8,
                          num_hidden_groups=2),
    "google_inner": dict(layout="google", embedding_size=8,
                         inner_group_num=2),
    "bert": dict(layout="bert"),
    "bert_short": dict(layout="bert", num_hidden_layers=1),
    "bert_shared": dict(layout="bert", shared_type="all")}


def make_config(name):
  return modeling.BertConfig(**dict(SIZES, **CONFIGS[name]))


@pytest.fixture(autouse=True)
def graph():
  with tf.Graph().as_default() as new_graph:
    yield new_graph


def build_for_pretraining(config):
  ids = tf.zeros([1, 4], tf.int32)
  model = modeling.BertModel(config, True, ids)
  run_pretraining.get_masked_lm_output(
      config, model.get_sequence_output(), model.get_embedding_table(),
      model.get_embedding_table_2(), ids, ids, tf.ones([1, 4]))
  run_pretraining.get_next_sentence_output(
      config, model.get_pooled_output(), ids[:, 0])


def save(folder):
  """Writes the graph's variables, initialized anew, to a checkpoint."""
  with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    return tf.train.Saver().save(session, os.path.join(str(folder), "m.ckpt"))


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
  """A pre-training checkpoint of every config, with its global step."""
  paths = {}
  for name in CONFIGS:
    with tf.Graph().as_default():
      build_for_pretraining(make_config(name))
      tf.train.get_or_create_global_step()
      kernel = tf.trainable_variables()[5].op.name
      tf.get_variable(kernel + "/other_slot", [3])
      paths[name] = save(tmp_path_factory.mktemp(name))
  return paths


@pytest.fixture
def log(monkeypatch):
  """The lines that are logged."""
  lines = []
  for level in ("info", "warning"):
    monkeypatch.setattr(tf.logging, level,
                        lambda text, *args: lines.append(text % args))
  return lines


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_a_right_pair_matches_every_variable(checkpoints, log, name):
  config = make_config(name)
  estimator_utils.check_init_config(config, checkpoints[name])
  build_for_pretraining(config)
  estimator_utils.init_from_checkpoint(checkpoints[name], use_tpu=False)
  assert "%d variables matched, 0 missing" % len(
      tf.trainable_variables()) in log[0]
  with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for var in tf.trainable_variables():
      np.testing.assert_array_equal(
          session.run(var),
          tf.train.load_variable(checkpoints[name], var.op.name))


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_fine_tuning_takes_the_whole_encoder(checkpoints, log, name):
  ids = tf.zeros([2, 4], tf.int32)
  output = run_classifier.create_model(
      make_config(name), True, ids, tf.ones_like(ids), ids,
      tf.constant([0, 2]), 3, False)
  assert None not in tf.gradients(output.loss, tf.trainable_variables())
  estimator_utils.init_from_checkpoint(checkpoints[name], use_tpu=False)
  assert "2 missing" in log[0]
  assert [line for line in log if "  missing: " in line] == [
      "  missing: output_weights", "  missing: output_bias"]


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_every_wrong_pair_is_refused(checkpoints, name):
  build_for_pretraining(make_config(name))
  layout = CONFIGS[name]["layout"]
  for other, checkpoint in checkpoints.items():
    if other == name:
      continue
    with pytest.raises(bert_utils.InputError) as error:
      estimator_utils.init_from_checkpoint(checkpoint, use_tpu=False)
    message = str(error.value)
    assert checkpoint in message
    if CONFIGS[other]["layout"] == layout:
      assert ("encoder variables matched" in message or
              "embedding_size" in message), message
      continue
    assert 'the model is of the layout "%s"' % layout in message
    assert "is of the layout %s (" % CONFIGS[other]["layout"] in message
    # Before any graph is built, too; nothing lets it through.
    with pytest.raises(ValueError, match='layout "%s".* of the layout %s ' %
                       (layout, CONFIGS[other]["layout"])):
      estimator_utils.check_init_config(make_config(name), checkpoint, True)


def test_a_part_of_the_encoder_only_if_one_says_so(checkpoints, log):
  build_for_pretraining(make_config("bert_short"))
  with pytest.raises(bert_utils.InputError, match=(
      "16 of 16 encoder variables matched .*m.ckpt, which has 16 others; the"
      " first that the model lacks is bert/encoder/layer_1/.*"
      "num_hidden_layers.*--allow_partial_init")):
    estimator_utils.init_from_checkpoint(checkpoints["bert"], use_tpu=False)
  estimator_utils.init_from_checkpoint(checkpoints["bert"], use_tpu=False,
                                       allow_partial=True)
  assert "which has 16 others" in log[-1]


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_the_grouped_feed_forward_variant_is_refused_by_name(tmp_path, name):
  block = "bert/encoder/transformer/group_0/inner_group_0/"
  with tf.Graph().as_default():
    tf.get_variable(block + "attention_1/self/query/kernel", [16, 16])
    tf.get_variable(block + "ffn_1/intermediate/dense/kernel", [1, 2, 16])
    checkpoint = save(tmp_path)
  for allow_partial in (False, True):
    with pytest.raises(ValueError, match='the layout "%s", but .*m.ckpt is of '
                       "the layout fast .*modeling_google_fast.*no config" %
                       CONFIGS[name]["layout"]):
      estimator_utils.check_init_config(make_config(name), checkpoint,
                                        allow_partial)


def test_a_run_goes_on_only_with_a_checkpoint_of_its_layout(checkpoints):
  output_dir = os.path.dirname(checkpoints["google"])
  estimator_utils.check_resume_config(make_config("google"), output_dir)
  with pytest.raises(ValueError, match='layout "bert".* of the layout google'):
    estimator_utils.check_resume_config(make_config("bert"), output_dir)
