"""Which checkpoint goes with which config, for models of every layout."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import bert_utils
import checkpoint_utils
import modeling
import run_classifier
import run_pretraining
import tiny

SIZES = dict(vocab_size=20, hidden_size=16, num_hidden_layers=2,
             num_attention_heads=2, intermediate_size=32,
             max_position_embeddings=8, type_vocab_size=2)

CONFIGS = {
    "zh": dict(layout="zh", embedding_size=8),
    "zh_none": dict(layout="zh", embedding_size=8, shared_type="none"),
    "zh_none_equal": dict(layout="zh", embedding_size=16, shared_type="none"),
    "zh_attention": dict(layout="zh", embedding_size=8,
                         shared_type="attention"),
    "zh_ffn": dict(layout="zh", embedding_size=8, shared_type="ffn"),
    "google": dict(layout="google", embedding_size=8),
    "google_equal": dict(layout="google", embedding_size=16),
    "google_groups": dict(layout="google", embedding_size=8,
                          num_hidden_groups=2),
    "google_inner": dict(layout="google", embedding_size=8,
                         inner_group_num=2),
    "bert": dict(layout="bert"),
    "bert_short": dict(layout="bert", num_hidden_layers=1),
    "bert_shared": dict(layout="bert", shared_type="all")}


# How the log and the messages put it which weights the layers share.
SHARING = {
    "zh": ["shared_type all"],
    "zh_none": ["shared_type none", "num_hidden_layers 2"],
    "zh_none_equal": ["shared_type none", "num_hidden_layers 2"],
    "zh_attention": ["shared_type attention", "num_hidden_layers 2"],
    "zh_ffn": ["shared_type ffn", "num_hidden_layers 2"],
    "google": ["num_hidden_groups 1", "inner_group_num 1"],
    "google_equal": ["num_hidden_groups 1", "inner_group_num 1"],
    "google_groups": ["num_hidden_groups 2", "inner_group_num 1"],
    "google_inner": ["num_hidden_groups 1", "inner_group_num 2"],
    "bert": ["shared_type none", "num_hidden_layers 2"],
    "bert_short": ["shared_type none", "num_hidden_layers 1"],
    "bert_shared": ["shared_type all"]}

IDS = [[2, 7, 11, 19], [3, 5, 13, 17]]


def make_config(name, **changes):
  return modeling.BertConfig(**dict(SIZES, **dict(CONFIGS[name], **changes)))


@pytest.fixture(autouse=True)
def graph():
  with tf.Graph().as_default() as new_graph:
    yield new_graph


def build_for_pretraining(config):
  """Builds encoder and heads; returns [sequence output, masked-LM logits]."""
  ids = tf.constant(IDS)
  model = modeling.BertModel(config, False, ids)
  masked_lm = run_pretraining.get_masked_lm_output(
      config, model.get_sequence_output(), model.get_embedding_table(),
      model.get_embedding_table_2(), ids % 4, ids, tf.ones([2, 4]))
  run_pretraining.get_next_sentence_output(
      config, model.get_pooled_output(), ids[:, 0])
  return [model.get_sequence_output(), masked_lm.log_probs]


def run_initialized(tensors):
  """Values of tensors and of all trainable variables, by name."""
  variables = {var.op.name: var for var in tf.trainable_variables()}
  with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    return session.run([tensors, variables])


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


@pytest.fixture(scope="module")
def outputs(checkpoints):
  """What a model of every config computes, restored from its checkpoint."""
  found = {}
  for name, checkpoint in checkpoints.items():
    with tf.Graph().as_default(), tf.Session() as session:
      tensors = build_for_pretraining(make_config(name))
      tf.train.Saver(tf.trainable_variables()).restore(session, checkpoint)
      found[name] = session.run(tensors)
  return found


@pytest.fixture
def log(monkeypatch):
  """The lines that are logged."""
  lines = []
  for level in ("info", "warning"):
    monkeypatch.setattr(tf.logging, level,
                        lambda text, *args: lines.append(text % args))
  return lines


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_a_right_pair_computes_the_same(checkpoints, outputs, log, name):
  config = make_config(name)
  checkpoint_utils.check_init_config(config, checkpoints[name])
  tensors = build_for_pretraining(config)
  checkpoint_utils.init_from_checkpoint(checkpoints[name], use_tpu=False)
  assert log[0].startswith("checkpoint %s: layout %s (" % (
      checkpoints[name], config.layout))
  assert "; %s; no optimizer slots, global_step 0" % ", ".join(
      SHARING[name]) in log[0]
  assert "%d variables matched, 0 missing" % len(
      tf.trainable_variables()) in log[1]
  found, variables = run_initialized(tensors)
  for value, expected in zip(found, outputs[name]):
    np.testing.assert_allclose(value, expected, atol=1e-6)
  for key, value in variables.items():
    np.testing.assert_array_equal(
        value, tf.train.load_variable(checkpoints[name], key))


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_fine_tuning_takes_the_whole_encoder(checkpoints, log, name):
  ids = tf.zeros([2, 4], tf.int32)
  output = run_classifier.create_model(
      make_config(name), True, ids, tf.ones_like(ids), ids,
      tf.constant([0, 2]), 3, False)
  assert None not in tf.gradients(output.loss, tf.trainable_variables())
  checkpoint_utils.init_from_checkpoint(checkpoints[name], use_tpu=False)
  assert "2 missing" in log[1]
  assert [line for line in log if "  missing: " in line] == [
      "  missing: output_weights", "  missing: output_bias"]


def assert_names_the_difference(message, name, other, checkpoint):
  """A message has what differs between two configs of a layout."""
  if ("equal" in name) != ("equal" in other):
    assert "have other shapes than the model" in message
    assert "embedding_size" in message.split("change ")[1]
    return
  ours, theirs = [part for part in zip(*(
      (a, b) for a, b in zip(SHARING[name], SHARING[other]) if a != b))]
  if "shared_type" in ours[0]:
    ours, theirs = ours[:1], theirs[:1]
  assert "the model has %s, but the checkpoint" % ", ".join(ours) in message
  assert "has %s; set %s in the config" % (", ".join(theirs), " and ".join(
      key.split()[0] for key in ours)) in message
  assert message.endswith(" (or --allow_partial_init to go on)")
  assert ("--init_from_group0" in message) == (
      [key.split()[0] for key in ours] == ["num_hidden_groups"])
  # So do the config alone, before any graph is built, and the tools.
  with pytest.raises(ValueError) as error:
    checkpoint_utils.check_init_config(make_config(name), checkpoint)
  assert str(error.value) == message
  with pytest.raises(ValueError) as error:
    checkpoint_utils.check_init_config(make_config(name), checkpoint,
                                      name_flags=False)
  assert "--" not in str(error.value)
  with pytest.raises(ValueError) as error:
    checkpoint_utils.init_from_checkpoint(checkpoint, use_tpu=False,
                                         name_flags=False)
  assert "--" not in str(error.value)


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_every_wrong_pair_is_refused(checkpoints, name):
  build_for_pretraining(make_config(name))
  layout = CONFIGS[name]["layout"]
  for other, checkpoint in checkpoints.items():
    if other == name:
      continue
    with pytest.raises(bert_utils.InputError) as error:
      checkpoint_utils.init_from_checkpoint(checkpoint, use_tpu=False)
    message = str(error.value)
    assert checkpoint in message
    if CONFIGS[other]["layout"] == layout:
      assert_names_the_difference(message, name, other, checkpoint)
      continue
    assert 'the model is of the layout "%s"' % layout in message
    assert "is of the layout %s (" % CONFIGS[other]["layout"] in message
    # Before any graph is built, too; nothing lets it through.
    with pytest.raises(ValueError, match='layout "%s".* of the layout %s ' %
                       (layout, CONFIGS[other]["layout"])):
      checkpoint_utils.check_init_config(make_config(name), checkpoint, True)


def test_a_part_of_the_encoder_only_if_one_says_so(checkpoints, log):
  build_for_pretraining(make_config("bert_short"))
  with pytest.raises(bert_utils.InputError, match=(
      "the model has num_hidden_layers 1, but .*m.ckpt has num_hidden_layers 2;"
      ".*--allow_partial_init")):
    checkpoint_utils.init_from_checkpoint(checkpoints["bert"], use_tpu=False)
  checkpoint_utils.init_from_checkpoint(checkpoints["bert"], use_tpu=False,
                                       allow_partial=True)
  assert "the model has num_hidden_layers 1" in log[-1]


def test_a_variable_that_is_not_there_is_named(tmp_path):
  with tf.Graph().as_default():
    build_for_pretraining(make_config("zh"))
    lost = "bert/encoder/layer_shared/intermediate/dense/bias"
    kept = [var for var in tf.trainable_variables() if var.op.name != lost]
    with tf.Session() as session:
      session.run(tf.global_variables_initializer())
      checkpoint = tf.train.Saver(kept).save(session, str(tmp_path / "m.ckpt"))
  build_for_pretraining(make_config("zh"))
  with pytest.raises(bert_utils.InputError, match=(
      "15 of 16 encoder variables matched .*m.ckpt, which has 0 others; the"
      " first that it lacks is %s" % lost)):
    checkpoint_utils.init_from_checkpoint(checkpoint, use_tpu=False)


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
      checkpoint_utils.check_init_config(make_config(name), checkpoint,
                                        allow_partial)


def test_a_run_goes_on_only_with_a_checkpoint_of_its_layout(checkpoints):
  output_dir = os.path.dirname(checkpoints["google"])
  checkpoint_utils.check_resume_config(make_config("google"), output_dir)
  with pytest.raises(ValueError, match='layout "bert".* of the layout google'):
    checkpoint_utils.check_resume_config(make_config("bert"), output_dir)


# ---------------------------------------------------------- sizes of the tables


@pytest.mark.parametrize("key,value,layout,parts", [
    ("vocab_size", 24, "zh", [
        "the model's vocab_size is 24", "has 20 rows in bert/embeddings/word",
        "set vocab_size in the config to 20",
        "--grow_vocab to keep its rows and initialize 4 more"]),
    ("vocab_size", 16, "google", [
        "the model's vocab_size is 16", "has 20 rows in bert/embeddings/word",
        "set vocab_size in the config to 20 or use another checkpoint"]),
    ("max_position_embeddings", 6, "bert", [
        "the model's max_position_embeddings is 6", "has 8 rows in ",
        "set max_position_embeddings in the config to 8"]),
    ("max_position_embeddings", 9, "google", [
        "the model's max_position_embeddings is 9", "has 8 rows in "])])
def test_another_size_is_refused_with_both_numbers(checkpoints, key, value,
                                                   layout, parts):
  config = make_config(layout, **{key: value})
  build_for_pretraining(config)
  allowed = dict(allow_partial=True)
  for check in (
      lambda **options: checkpoint_utils.check_init_config(
          config, checkpoints[layout], **options),
      lambda **options: checkpoint_utils.init_from_checkpoint(
          checkpoints[layout], False, **options)):
    for options in ({}, allowed):
      with pytest.raises(bert_utils.InputError) as error:
        check(**options)
      for part in parts:
        assert part in str(error.value)
      assert ("--grow_vocab" in str(error.value)) == (value == 24)
    with pytest.raises(bert_utils.InputError) as error:
      check(name_flags=False)
    assert "--" not in str(error.value)
    if value != 24:  # Only a larger vocabulary can be had.
      with pytest.raises(bert_utils.InputError, match=parts[0]):
        check(grow_vocab=True)


def test_other_widths_are_named_before_other_numbers_of_rows(checkpoints):
  build_for_pretraining(make_config("zh", vocab_size=24, hidden_size=32))
  with pytest.raises(bert_utils.InputError, match="change .*hidden_size"):
    checkpoint_utils.init_from_checkpoint(checkpoints["zh"], False)


@pytest.mark.parametrize("use_tpu", [False, True])
@pytest.mark.parametrize("name", ["zh", "google", "bert"])
def test_a_larger_vocabulary_keeps_the_old_rows(checkpoints, outputs, log, name,
                                                use_tpu):
  config = make_config(name, vocab_size=24)
  checkpoint_utils.check_init_config(config, checkpoints[name], grow_vocab=True)
  tensors = build_for_pretraining(config)
  scaffold_fn = checkpoint_utils.init_from_checkpoint(
      checkpoints[name], use_tpu, grow_vocab=True)
  if use_tpu:
    scaffold_fn()
  assert [line for line in log if "  grown: " in line] == [
      "  grown: %s from 20 to 24 rows (the last 4 initialized anew)" % table
      for table in ("bert/embeddings/word_embeddings",
                    "cls/predictions/output_bias")]
  assert "%d variables matched, 0 missing" % len(
      tf.trainable_variables()) in log[1]
  (sequence, log_probs), variables = run_initialized(tensors)
  np.testing.assert_allclose(sequence, outputs[name][0], atol=1e-6)
  # Old tokens are as likely as before, among each other.
  old = log_probs[:, :20]
  np.testing.assert_allclose(
      old - np.log(np.exp(old).sum(axis=1, keepdims=True)), outputs[name][1],
      atol=1e-5)
  for key, value in variables.items():
    stored = tf.train.load_variable(checkpoints[name], key)
    np.testing.assert_array_equal(value[:len(stored)], stored)
  new_rows = variables["bert/embeddings/word_embeddings"][20:]
  assert new_rows.shape == (4, config.embedding_size or config.hidden_size)
  assert np.all(np.abs(new_rows).max(axis=1) > 0)
  assert np.abs(new_rows).max() <= 2 * config.initializer_range
  np.testing.assert_array_equal(
      variables["cls/predictions/output_bias"][20:], np.zeros(4))


def test_growing_leaves_a_vocabulary_of_the_same_size_alone(checkpoints, log):
  build_for_pretraining(make_config("zh"))
  checkpoint_utils.init_from_checkpoint(checkpoints["zh"], False,
                                       grow_vocab=True)
  assert not [line for line in log if "grown" in line]


# ---------------------------------------------------------------- hidden groups


@pytest.mark.parametrize("use_tpu", [False, True])
def test_every_group_starts_from_group_0(checkpoints, outputs, log, use_tpu):
  config = make_config("google_groups")
  checkpoint = checkpoints["google"]
  checkpoint_utils.check_init_config(config, checkpoint, init_from_group0=True)
  tensors = build_for_pretraining(config)
  scaffold_fn = checkpoint_utils.init_from_checkpoint(
      checkpoint, use_tpu, init_from_group0=True)
  if use_tpu:
    scaffold_fn()
  block = "bert/encoder/transformer/group_%d/inner_group_0/LayerNorm/beta"
  assert "  from group 0: %s is %s" % (block % 1, block % 0) in log
  assert len([line for line in log if "from group 0" in line]) == 16
  assert "%d variables matched, 0 missing" % len(
      tf.trainable_variables()) in log[1]
  # Of two layers, the second now has weights of its own, equal to the first's.
  for value, expected in zip(run_initialized(tensors)[0], outputs["google"]):
    np.testing.assert_allclose(value, expected, atol=1e-6)


def test_groups_that_the_checkpoint_has_stay_as_they_are(checkpoints, outputs,
                                                         log):
  tensors = build_for_pretraining(make_config("google_groups"))
  checkpoint_utils.init_from_checkpoint(checkpoints["google_groups"], False,
                                       init_from_group0=True)
  assert not [line for line in log if "from group 0" in line]
  for value, expected in zip(run_initialized(tensors)[0],
                             outputs["google_groups"]):
    np.testing.assert_allclose(value, expected, atol=1e-6)


def test_fewer_groups_than_the_checkpoint_has_only_if_one_says_so(checkpoints,
                                                                  log):
  checkpoint = checkpoints["google_groups"]
  build_for_pretraining(make_config("google"))
  with pytest.raises(bert_utils.InputError, match="num_hidden_groups 1, but"):
    checkpoint_utils.init_from_checkpoint(checkpoint, False)
  del log[:]
  checkpoint_utils.init_from_checkpoint(checkpoint, False,
                                       init_from_group0=True)
  assert len([line for line in log if "unexpected: bert/encoder/transformer/"
              "group_1/" in line]) == 16


def test_group_0_does_not_stand_for_what_is_no_group(checkpoints):
  with pytest.raises(ValueError, match="inner_group_num 2, but .* has"
                     " inner_group_num 1; set inner_group_num in"):
    checkpoint_utils.check_init_config(
        make_config("google_inner"), checkpoints["google"],
        init_from_group0=True)
  with pytest.raises(ValueError, match='--init_from_group0 .*"google".*of the '
                     'layout "zh".*leave the flag out'):
    checkpoint_utils.check_init_config(make_config("zh"), checkpoints["zh"],
                                      init_from_group0=True)


@pytest.mark.parametrize("flag", ["init_from_group0", "grow_vocab"])
def test_flags_of_a_checkpoint_need_one(flag):
  with pytest.raises(ValueError, match="--%s needs --init_checkpoint" % flag):
    checkpoint_utils.check_init_config(make_config("google"), None,
                                      **{flag: True})


def test_the_peers_map_for_each_group(checkpoints):
  build_for_pretraining(make_config("google_groups"))
  tvars = tf.trainable_variables()
  maps, names = bert_utils.get_assignment_map_from_checkpoint(
      tvars, checkpoints["google"], num_of_group=2)
  assert [len(names_of_group) for names_of_group in maps] == [
      len(tvars) - 16, 16]
  for source, name in maps[1].items():
    assert "/group_0/" in source
    assert name == source.replace("/group_0/", "/group_1/")
  assert set(maps[0].items()) == {(name, name) for name in maps[0]}
  assert len(names) == 2 * len(tvars)
  # A group beyond the maps is left as it is, and group 0 keeps its own.
  with tf.variable_scope("bert/encoder/transformer/group_2/inner_group_0"):
    tf.get_variable("LayerNorm/beta", [16])
  wider = bert_utils.get_assignment_map_from_checkpoint(
      tf.trainable_variables(), checkpoints["google"], num_of_group=2)
  assert wider == (maps, names)
  # One map alone takes what is on both sides, whatever its group.
  one, _ = bert_utils.get_assignment_map_from_checkpoint(
      tvars, checkpoints["google"], num_of_group=1)
  assert one == maps[:1]


# ------------------------------------------------- what a checkpoint is like


@pytest.mark.parametrize("slots,words", [
    (["lamb_m", "lamb_v"], "optimizer slots lamb_m, lamb_v of 3 variables"),
    (["adam_m", "adam_v"], "optimizer slots adam_m, adam_v of 3 variables"),
    (["Adam", "Adam_1"], "optimizer slots Adam, Adam_1 of 3 variables")])
def test_optimizer_slots_are_logged_and_not_unexpected(tmp_path, log, slots,
                                                       words):
  with tf.Graph().as_default():
    build_for_pretraining(make_config("zh"))
    for var in tf.trainable_variables()[:3]:
      for slot in slots:
        tf.get_variable(var.op.name + "/" + slot, var.shape)
    tf.get_variable("global_step", [], tf.int64,
                    initializer=tf.constant_initializer(70))
    checkpoint = save(tmp_path)
  build_for_pretraining(make_config("zh"))
  checkpoint_utils.init_from_checkpoint(checkpoint, use_tpu=False)
  assert "; %s, global_step 70" % words in log[0]
  assert "0 unexpected" in log[1]


def test_sharing_of_names_that_are_none_of_ours():
  assert bert_utils.describe_sharing(["foo/bar"]) == "no encoder"
  # albert_zh's tiny config with 12 groups for 4 layers.
  assert bert_utils.describe_sharing(
      ["bert/encoder/transformer/group_%d/inner_group_0/LayerNorm/beta" % group
       for group in (0, 3, 6, 9)]) == (
           "num_hidden_groups above 9, inner_group_num 1")


@pytest.mark.parametrize("name", ["albert_config.json", "bert_config.json",
                                  "albert_config_xlarge.json"])
def test_the_norm_position_beside_the_checkpoint(tmp_path, log, name):
  with tf.Graph().as_default():
    build_for_pretraining(make_config("zh"))
    checkpoint = save(tmp_path)
  checkpoint_utils.write_text(str(tmp_path / name),
                             make_config("zh", ln_type="preln").to_json_string())
  with pytest.raises(ValueError, match='ln_type "postln", but .*%s beside the '
                     'checkpoint says "preln"; use that config .*--allow_part'
                     % name):
    checkpoint_utils.check_init_config(make_config("zh"), checkpoint)
  with pytest.raises(ValueError, match="use that config$"):
    checkpoint_utils.check_init_config(make_config("zh"), checkpoint,
                                      name_flags=False)
  checkpoint_utils.check_init_config(make_config("zh"), checkpoint, True)
  assert 'ln_type "postln"' in log[-1]
  checkpoint_utils.check_init_config(make_config("zh", ln_type="preln"),
                                    checkpoint)


# ---------------------------------------------------------------- SentencePiece


@pytest.mark.parametrize("name,content", [
    ("30k-clean.model", b"anything"), ("spiece.spiece", b"anything"),
    ("vocab.txt", b"\n\x0e\n\x05<pad>\x15\x00\x00\x00\x00\x18\x03\n\x0e\n\x05"
     b"<unk>\x15"),
    ("30k-clean.vocab", u"<pad>\t0\n<unk>\t0\n\u2581the\t-3.5\n".encode("utf-8"))])
def test_a_sentencepiece_vocabulary_is_out_of_scope(tmp_path, name, content):
  (tmp_path / name).write_bytes(content)
  with pytest.raises(ValueError, match="%s is a SentencePiece file, not a Word"
                     "Piece vocabulary.*English ALBERT, are out of scope" %
                     name):
    checkpoint_utils.check_wordpiece(str(tmp_path / name))


def test_a_list_with_counts_is_not_called_sentencepiece(tmp_path):
  tiny.write(tmp_path / "counts.txt", u"\u7684\t120\n\u4e86\t80\n")
  checkpoint_utils.check_wordpiece(str(tmp_path / "counts.txt"))


def test_the_config_of_an_english_model_is_out_of_scope(tmp_path):
  config = make_config("google", vocab_size=30000)
  tiny.write_vocab(tmp_path)
  for vocab_file in (None, str(tmp_path / "vocab.txt")):
    with pytest.raises(ValueError, match="vocab_size 30000 is the config of a"
                       " SentencePiece model.*English ALBERT, are out of scope"
                       ".*--vocab_file"):
      checkpoint_utils.check_wordpiece(vocab_file, config)
  # A WordPiece vocabulary may have that size, and no other layout is meant.
  checkpoint_utils.check_wordpiece(
      tiny.write_vocab(tmp_path, ["[%d]" % index for index in range(30000)]),
      config)
  checkpoint_utils.check_wordpiece(None, make_config("zh", vocab_size=30000))
  checkpoint_utils.check_wordpiece(tiny.write_vocab(tmp_path),
                                  make_config("google"))


def test_the_checkpoint_of_an_english_model_names_it(tmp_path):
  with tf.Graph().as_default():
    build_for_pretraining(make_config("google", vocab_size=30000))
    checkpoint = save(tmp_path)
  with pytest.raises(ValueError, match="has 30000 rows .*SentencePiece.*English"
                     " ALBERT.*out of scope"):
    checkpoint_utils.check_init_config(make_config("google"), checkpoint)


def test_batches_read_are_steps_made_and_skipped(tmp_path):
  assert checkpoint_utils.batches_read(None) == 0
  assert checkpoint_utils.latest_step(str(tmp_path)) == (0, None)
  for skipped, expected in ((None, 7), (3, 10)):
    with tf.Graph().as_default(), tf.Session() as session:
      step = tf.train.get_or_create_global_step()
      session.run(step.assign(7))
      if skipped:
        with tf.variable_scope("loss_scale"):
          counter = tf.get_variable(
              "skipped_steps", initializer=tf.constant(skipped))
        session.run(counter.initializer)
      path = tf.train.Saver().save(session, str(tmp_path / "model.ckpt"), step)
    assert checkpoint_utils.batches_read(path) == expected
    assert checkpoint_utils.latest_step(str(tmp_path)) == (7, path)


def save_variables(folder, **values):
  """A checkpoint of these variables; returns its prefix."""
  with tf.Graph().as_default(), tf.Session() as session:
    for name, value in values.items():
      tf.get_variable(name.replace("__", "/"), initializer=value)
    session.run(tf.global_variables_initializer())
    return tf.train.Saver().save(session, str(folder / "model.ckpt"), 7)


def test_a_spoilt_checkpoint_is_not_started_from(tmp_path):
  prefix = save_variables(tmp_path, good=[1.0], spoilt=[1.0, float("nan")])
  with pytest.raises(ValueError, match="its variable spoilt has numbers that"):
    checkpoint_utils.check_init_checkpoint(prefix)


@pytest.mark.parametrize("name", ["run[1]", "run*", "a?", "a\\b"])
def test_a_path_that_is_a_pattern_is_refused(tmp_path, name):
  folder = tmp_path / name
  folder.mkdir()
  prefix = save_variables(folder, weights=[1.0])
  with pytest.raises(ValueError, match=r"--init_checkpoint .* has a [\[*?\\], "
                     "which TensorFlow takes for a part of a pattern"):
    checkpoint_utils.check_init_checkpoint(prefix)
  with pytest.raises(ValueError, match="--output_dir .*without any of"):
    checkpoint_utils.check_plain_path("output_dir", str(folder))
  for plain in (None, "", "gs://bucket/run-1 (new)]", str(tmp_path)):
    checkpoint_utils.check_plain_path("output_dir", plain)


def test_a_folder_may_be_moved(tmp_path):
  (tmp_path / "old").mkdir()
  prefix = save_variables(tmp_path / "old", weights=[1.0])
  checkpoint_utils.write_checkpoint_state(str(tmp_path / "old"), [prefix])
  assert tf.train.latest_checkpoint(str(tmp_path / "old")) == prefix
  os.rename(str(tmp_path / "old"), str(tmp_path / "new"))
  assert tf.train.latest_checkpoint(str(tmp_path / "new")) == str(
      tmp_path / "new" / os.path.basename(prefix))


def test_another_optimizer_or_precision_cannot_go_on(tmp_path):
  folder = str(tmp_path)
  checkpoint_utils.check_resume_optimizer("lamb", "float16", folder)  # new
  save_variables(tmp_path, weights=[1.0], weights__lamb_m=[0.0])
  checkpoint_utils.check_resume_optimizer("lamb", "bfloat16", folder)
  for optimizer in ("adamw", "lamb_google"):
    with pytest.raises(ValueError, match="--optimizer is %s, but" % optimizer):
      checkpoint_utils.check_resume_optimizer(optimizer, "float32", folder)
  with pytest.raises(ValueError, match="--precision is float16, but"):
    checkpoint_utils.check_resume_optimizer("lamb", "float16", folder)
