"""Conversions keep a model's outputs, or refuse; tools change nothing else.

The tests against Hugging Face's own models need torch and transformers.
"""

import collections
import json
import os
import shutil
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import bert_utils
import convert_checkpoint
import golden_numbers
import modeling
import run_classifier
import run_pretraining
import test_run_pretraining
import tiny

LAYOUT_CASES = ["google", "google_groups", "google_equal_widths", "bert"]
# Their layers are too few for the inner groups of transformers' code.
REGROUPED = ["google_groups"]
OUTPUTS = ("sequence_output", "pooled_output", "masked_lm_log_probs",
           "sop_log_probs")
# Eighteen layers in fourteen groups: transformers divides them otherwise.
ROUNDED = dict(hidden_size=8, num_hidden_layers=18, num_attention_heads=2,
               intermediate_size=8, embedding_size=4, num_hidden_groups=14,
               layout="google")


def run(capsys, *arguments):
  """Runs the script; returns (exit code, its output, its errors)."""
  capsys.readouterr()  # what other libraries have written before
  code = convert_checkpoint.main([str(argument) for argument in arguments])
  captured = capsys.readouterr()
  return code, captured.out, captured.err


def convert(capsys, command, source, target, *arguments):
  """Runs a command that makes a folder; returns what it says."""
  code, out, errors = run(capsys, command, source, "--output_dir=%s" % target,
                          *arguments)
  assert code == 0 and not errors, errors
  assert out.startswith(str(target))
  return out


def refuses(capsys, folder, *arguments):
  """The message of a run that fails and leaves nothing behind."""
  target = folder / "refused"
  code, out, errors = run(capsys, *arguments, "--output_dir=%s" % target)
  assert code == 1 and not out
  assert errors.startswith("convert_checkpoint.py: error: ")
  assert errors.count("\n") == 1
  assert not [name for name in os.listdir(str(folder))
              if name.startswith("refused")]
  return errors


def special_and(count):
  return tiny.TOKENS[:5] + ["字%d" % index for index in range(count - 5)]


def pretraining_graph(config, inputs):
  """The tensors OUTPUTS of a model with both heads."""
  inputs = {key: tf.constant(value) for key, value in inputs.items()}
  model = modeling.BertModel(
      config, False, inputs["input_ids"], inputs["input_mask"],
      inputs["segment_ids"])
  masked_lm = run_pretraining.get_masked_lm_output(
      config, model.get_sequence_output(), model.get_embedding_table(),
      model.get_embedding_table_2(), inputs["masked_lm_positions"],
      inputs["masked_lm_ids"], inputs["masked_lm_weights"])
  next_sentence = run_pretraining.get_next_sentence_output(
      config, model.get_pooled_output(), inputs["next_sentence_labels"])
  return dict(zip(OUTPUTS, [
      model.get_sequence_output(), model.get_pooled_output(),
      masked_lm.log_probs, next_sentence.log_probs]))


def write_folder(folder, config, config_name="albert_config.json"):
  """Config and vocabulary, as they lie beside a checkpoint."""
  os.makedirs(str(folder), exist_ok=True)
  tiny.write(folder / config_name, json.dumps(config))
  tiny.write_vocab(folder, special_and(config["vocab_size"]))


def write_golden(folder, name):
  """Writes a golden model's checkpoint; returns (weights, inputs, outputs)."""
  info, arrays = golden_numbers.load(name)
  write_folder(folder, info["config"])
  with tf.Graph().as_default(), tf.Session() as session:
    outputs = pretraining_graph(modeling.BertConfig.from_dict(info["config"]),
                                arrays["in"])
    golden_numbers.assign(session, arrays["w"])
    tf.train.Saver().save(session, str(folder / "model.ckpt"))
    outputs = session.run(outputs)
  # The peer's own, as far as they were kept.
  assert_equal_outputs(dict(outputs, **{
      key: arrays["out"][key] for key in OUTPUTS if key in arrays["out"]}),
      outputs)
  return arrays["w"], arrays["in"], outputs


def tiny_inputs(config, seed=3):
  """Two sequences, of which the second is padded."""
  random = np.random.RandomState(seed)
  ids = random.randint(5, config["vocab_size"], [2, 8]).astype(np.int32)
  mask = np.array([[1] * 8, [1] * 5 + [0] * 3], np.int32)
  return {"input_ids": ids * mask, "input_mask": mask,
          "segment_ids": np.array([[0] * 4 + [1] * 4] * 2, np.int32) * mask,
          "masked_lm_positions": np.array([[1, 5], [2, 3]], np.int32),
          "masked_lm_ids": np.full([2, 2], 6, np.int32),
          "masked_lm_weights": np.ones([2, 2], np.float32),
          "next_sentence_labels": np.array([0, 1], np.int32)}


def write_random(folder, seed=1, slots=(), step=None, **changes):
  """Writes a model with random weights, and its outputs for `tiny_inputs`."""
  config = dict(tiny.CONFIG, **changes)
  write_folder(folder, config)
  random = np.random.RandomState(seed)
  inputs = tiny_inputs(config)
  with tf.Graph().as_default(), tf.Session() as session:
    outputs = pretraining_graph(modeling.BertConfig.from_dict(config), inputs)
    for variable in tf.trainable_variables():
      variable.load(random.normal(0.1, 0.3, variable.shape.as_list()), session)
      for slot in slots:
        name = "%s/%s" % (variable.op.name, slot)
        tf.get_variable(name, initializer=random.normal(
            size=variable.shape.as_list()).astype(np.float32))
    if step is not None:
      tf.get_variable("global_step", initializer=np.int64(step))
    session.run([variable.initializer for variable in tf.global_variables()
                 if variable not in tf.trainable_variables() or
                 variable.op.name.endswith(tuple(slots) + ("global_step",))])
    prefix = str(folder / "model.ckpt")
    tf.train.Saver().save(session, prefix, global_step=step)
    return inputs, session.run(outputs)


def tf_outputs(folder, inputs):
  """OUTPUTS of the checkpoint and the config in a folder."""
  config = modeling.BertConfig.from_json_file(
      os.path.join(str(folder), "albert_config.json"))
  with tf.Graph().as_default(), tf.Session() as session:
    outputs = pretraining_graph(config, inputs)
    tf.train.Saver().restore(session, tf.train.latest_checkpoint(str(folder)))
    return session.run(outputs)


def assert_equal_outputs(found, expected, atol=1e-5):
  for name in OUTPUTS:
    np.testing.assert_allclose(found[name], expected[name], atol=atol, rtol=0,
                               err_msg=name)


def variables_of(path):
  reader = tf.train.load_checkpoint(str(path))
  return {name: reader.get_tensor(name)
          for name in reader.get_variable_to_shape_map()}


def assert_same_variables(found, expected):
  assert sorted(found) == sorted(expected)
  for name, value in expected.items():
    np.testing.assert_array_equal(found[name], value, err_msg=name)
    assert found[name].dtype == np.asarray(value).dtype


def edit_json(path, **changes):
  values = json.loads(path.read_text())
  values.update(changes)
  tiny.write(path, json.dumps(values))


# ---------------------------------------------------------------- to plain BERT


def test_zh_becomes_plain_bert(capsys, tmp_path):
  weights, inputs, expected = write_golden(tmp_path / "zh", "zh_postln")
  out = convert(capsys, "to_bert", tmp_path / "zh", tmp_path / "bert")
  assert ("embeddings of 32 columns, 3 layers (shared_type none,"
          " num_hidden_layers 3)") in out
  assert "heads: masked LM, sentence pair" in out
  assert_equal_outputs(tf_outputs(tmp_path / "bert", inputs), expected)
  variables = variables_of(tmp_path / "bert")
  words = "bert/embeddings/word_embeddings"
  np.testing.assert_allclose(
      variables[words], weights[words].dot(weights[words + "_2"]), atol=1e-6)
  np.testing.assert_array_equal(
      variables["bert/encoder/layer_2/output/dense/kernel"],
      weights["bert/encoder/layer_shared/output/dense/kernel"])
  # The names, and the config, are google-research/bert's.
  info, _ = golden_numbers.load("bert")
  assert {name: list(value.shape) for name, value in variables.items()} == dict(
      map(tuple, info["variables"]))
  config = json.loads((tmp_path / "bert" / "bert_config.json").read_text())
  assert config == info["config"]
  assert (tmp_path / "bert" / "vocab.txt").read_bytes() == (
      tmp_path / "zh" / "vocab.txt").read_bytes()


@pytest.mark.parametrize("changes", [
    dict(shared_type="attention"), dict(shared_type="ffn"),
    dict(shared_type="none"), dict(hidden_act="relu"),
    dict(layout="google", embedding_size=16, num_hidden_groups=2,
         inner_group_num=2)])
def test_other_models_that_are_a_plain_bert(capsys, tmp_path, changes):
  inputs, expected = write_random(tmp_path / "in", **changes)
  convert(capsys, "to_bert", tmp_path / "in", tmp_path / "bert")
  assert_equal_outputs(tf_outputs(tmp_path / "bert", inputs), expected)


@pytest.mark.parametrize("changes,groups", [
    (dict(), 1), (dict(shared_type="ffn"), 2),
    (dict(layout="bert", embedding_size=None, shared_type="none"), 2),
    (dict(layout="bert", embedding_size=None, shared_type="all"), 1)])
def test_to_google(capsys, tmp_path, changes, groups):
  inputs, expected = write_random(tmp_path / "in", **changes)
  out = convert(capsys, "to_google", tmp_path / "in", tmp_path / "out")
  assert "2 layers (num_hidden_groups %d, inner_group_num 1)" % groups in out
  config = json.loads((tmp_path / "out" / "albert_config.json").read_text())
  assert config["layout"] == "google" and config["embedding_size"] == 16
  assert_equal_outputs(tf_outputs(tmp_path / "out", inputs), expected)


def test_layers_that_google_cannot_tell_apart():
  """Google's code gives the fifteenth of 22 groups to two layers."""
  config = modeling.BertConfig.from_dict(
      dict(tiny.CONFIG, num_hidden_layers=22, shared_type="none"))
  with pytest.raises(bert_utils.InputError, match="22 layers with weights of"):
    convert_checkpoint.with_one_width(config, {}, "google", "another model")


def test_to_bert_says_what_it_leaves_out(capsys, tmp_path):
  write_random(tmp_path / "in", slots=["lamb_m", "lamb_v"], step=5)
  out = convert(capsys, "to_bert", tmp_path / "in", tmp_path / "bert")
  assert "left out: 62 optimizer slots (lamb_m, lamb_v)" in out
  variables = variables_of(tmp_path / "bert")
  assert variables.pop("global_step") == 5
  assert not [name for name in variables if "lamb" in name]


# ------------------------------------------------ Hugging Face, files alone


@pytest.mark.parametrize("name", LAYOUT_CASES)
def test_there_and_back(capsys, tmp_path, name):
  weights, inputs, expected = write_golden(tmp_path / "in", name)
  kind = "BertForPreTraining" if name == "bert" else "AlbertForPreTraining"
  out = convert(capsys, "to_hf", tmp_path / "in", tmp_path / "hf")
  assert kind in out and "heads: masked LM, sentence pair" in out
  assert "left out" not in out
  assert ("groups of one layer each" in out) == (name in REGROUPED)
  out = convert(capsys, "from_hf", tmp_path / "hf", tmp_path / "out")
  assert "left out" not in out
  assert_equal_outputs(tf_outputs(tmp_path / "out", inputs), expected)
  assert (tmp_path / "out" / "vocab.txt").read_bytes() == (
      tmp_path / "in" / "vocab.txt").read_bytes()
  if name in ("google", "bert"):  # the others' groups get other numbers
    assert_same_variables(variables_of(tmp_path / "out"),
                          dict(weights, global_step=np.int64(0)))


def test_zh_to_hf_is_to_bert_to_hf(capsys, tmp_path):
  write_golden(tmp_path / "zh", "zh_postln")
  convert(capsys, "to_bert", tmp_path / "zh", tmp_path / "bert")
  convert(capsys, "to_hf", tmp_path / "bert", tmp_path / "hf_of_bert")
  out = convert(capsys, "to_hf", tmp_path / "zh", tmp_path / "hf")
  assert "BertForPreTraining" in out
  for file in ("model.safetensors", "config.json", "vocab.txt",
               "tokenizer_config.json"):
    assert (tmp_path / "hf" / file).read_bytes() == (
        tmp_path / "hf_of_bert" / file).read_bytes()


def test_layers_that_are_grouped_by_another_rounding(capsys, tmp_path):
  inputs, expected = write_random(tmp_path / "in", **ROUNDED)
  convert(capsys, "to_hf", tmp_path / "in", tmp_path / "hf")
  config = json.loads((tmp_path / "hf" / "config.json").read_text())
  assert config["num_hidden_groups"] == 18  # a group a layer says the same
  convert(capsys, "from_hf", tmp_path / "hf", tmp_path / "out")
  assert_equal_outputs(tf_outputs(tmp_path / "out", inputs), expected)

  edit_json(tmp_path / "hf" / "config.json", num_hidden_groups=14)
  assert "18 layers in 14 groups" in refuses(
      capsys, tmp_path, "from_hf", tmp_path / "hf")


def test_what_is_written_for_the_tokenizer(capsys, tmp_path):
  write_random(tmp_path / "in")
  write = tmp_path / "in" / "metadata.json"
  tiny.write(write, json.dumps({"do_lower_case": False}))
  convert(capsys, "to_hf", tmp_path / "in", tmp_path / "noted")
  convert(capsys, "to_hf", tmp_path / "in", tmp_path / "asked",
          "--do_lower_case=True")
  noted, asked = (json.loads((tmp_path / name / "tokenizer_config.json")
                             .read_text()) for name in ("noted", "asked"))
  assert noted["tokenizer_class"] == "BertTokenizer"
  assert (noted["do_lower_case"], asked["do_lower_case"]) == (False, True)
  assert noted["model_max_length"] == 32
  out = convert(capsys, "to_hf", tmp_path / "in", tmp_path / "other")
  assert "do_lower_case False" in out


def test_half_precision_and_old_names(capsys, tmp_path):
  """As on the hub: an encoder in 16 bits, norms with gamma and beta."""
  write_golden(tmp_path / "in", "bert")
  convert(capsys, "to_hf", tmp_path / "in", tmp_path / "hf")
  path = str(tmp_path / "hf" / "model.safetensors")
  tensors = convert_checkpoint.read_safetensors(path)
  kept = {}
  for name, value in tensors.items():
    if name.startswith("bert.") and ".pooler." not in name:
      name = name[len("bert."):]
      if "LayerNorm" in name:
        name = name.replace("weight", "gamma").replace("bias", "beta")
      kept[name] = value
  kept["embeddings.position_ids"] = np.arange(24)[None]
  kept["qa_outputs.weight"] = np.ones([2, 32], np.float32)
  write_raw_safetensors(path, kept, "BF16")
  out = convert(capsys, "from_hf", tmp_path / "hf", tmp_path / "out")
  assert "heads: none" in out and "left out: qa_outputs.weight" in out
  variables, original = (variables_of(tmp_path / name)
                         for name in ("out", "in"))
  assert sorted(set(original) - set(variables)) == sorted(
      name for name in original if name.startswith(("cls/", "bert/pooler")))
  for name in set(original) & set(variables):
    assert variables[name].dtype == np.float32
    np.testing.assert_allclose(variables[name], original[name], rtol=1e-2)


def write_raw_safetensors(path, tensors, kind):
  """The format, by hand; kind BF16 cuts float32 to their upper halves."""
  header, data = collections.OrderedDict(), b""
  for name, value in tensors.items():
    dtype = "I64" if value.dtype.kind == "i" else kind
    if dtype == "BF16":
      raw = (value.astype(np.float32).view(np.uint32) >> 16).astype("<u2")
    else:
      raw = value
    raw = np.ascontiguousarray(raw).tobytes()
    header[name] = {"dtype": dtype, "shape": list(value.shape),
                    "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
  text = json.dumps(header).encode()
  with open(path, "wb") as writer:
    writer.write(len(text).to_bytes(8, "little") + text + data)


def test_a_model_in_several_files(capsys, tmp_path):
  weights, _, _ = write_golden(tmp_path / "in", "google")
  convert(capsys, "to_hf", tmp_path / "in", tmp_path / "hf")
  path = tmp_path / "hf" / "model.safetensors"
  tensors = convert_checkpoint.read_safetensors(str(path))
  path.unlink()
  names = sorted(tensors)
  weight_map = {}
  for part, chosen in (("1", names[::2]), ("2", names[1::2])):
    file = "model-0000%s-of-00002.safetensors" % part
    weight_map.update(dict.fromkeys(chosen, file))
    write_raw_safetensors(str(tmp_path / "hf" / file),
                          {name: tensors[name] for name in chosen}, "F32")
  tiny.write(str(path) + ".index.json", json.dumps({"weight_map": weight_map}))
  convert(capsys, "from_hf", tmp_path / "hf", tmp_path / "out")
  assert_same_variables(variables_of(tmp_path / "out"),
                        dict(weights, global_step=np.int64(0)))


def test_hf_models_that_have_no_equal_here(capsys, tmp_path):
  write_golden(tmp_path / "in", "google_equal_widths")
  convert(capsys, "to_hf", tmp_path / "in", tmp_path / "hf")
  config = tmp_path / "hf" / "config.json"
  original = config.read_text()

  def message(**changes):
    edit_json(config, **changes)
    errors = refuses(capsys, tmp_path, "from_hf", tmp_path / "hf")
    tiny.write(config, original)
    return errors

  assert "--approximate_gelu" in message(hidden_act="gelu")
  assert "hidden_act 'silu'; known are gelu" in message(hidden_act="silu")
  assert "layer_norm_eps 1e-05" in message(layer_norm_eps=1e-5)
  assert "position_embedding_type 'relative_key'" in message(
      position_embedding_type="relative_key")
  assert "model_type \"roberta\"" in message(model_type="roberta")
  assert "lacks" in message(inner_group_num=2)
  assert "config.json says nothing of" in message(num_hidden_groups=1)
  assert "vocab_size 41" in message(vocab_size=41)

  path = str(tmp_path / "hf" / "model.safetensors")
  tensors = convert_checkpoint.read_safetensors(path)
  mapping = "albert.encoder.embedding_hidden_mapping_in.weight"
  convert_checkpoint.write_safetensors(
      path, dict(tensors, **{mapping: 2 * tensors[mapping]}))
  assert "other weights than the identity" in message()
  decoder = {"predictions.decoder.weight":
             tensors["albert.embeddings.word_embeddings.weight"] + 1}
  convert_checkpoint.write_safetensors(path, dict(tensors, **decoder))
  assert "predictions.decoder.weight" in message()

  os.rename(str(tmp_path / "hf" / "vocab.txt"),
            str(tmp_path / "hf" / "spiece.model"))
  assert "spiece.model is a SentencePiece model" in message()


def test_approximate_gelu(capsys, tmp_path):
  weights, _, _ = write_golden(tmp_path / "in", "bert")
  convert(capsys, "to_hf", tmp_path / "in", tmp_path / "hf")
  assert json.loads((tmp_path / "hf" / "config.json").read_text())[
      "hidden_act"] == "gelu_new"
  edit_json(tmp_path / "hf" / "config.json", hidden_act="gelu")
  convert(capsys, "from_hf", tmp_path / "hf", tmp_path / "out",
          "--approximate_gelu")
  assert_same_variables(variables_of(tmp_path / "out"),
                        dict(weights, global_step=np.int64(0)))


def test_a_torch_file_without_torch(capsys, tmp_path, monkeypatch):
  write_golden(tmp_path / "in", "google")
  convert(capsys, "to_hf", tmp_path / "in", tmp_path / "hf")
  os.rename(str(tmp_path / "hf" / "model.safetensors"),
            str(tmp_path / "hf" / "pytorch_model.bin"))
  monkeypatch.setitem(sys.modules, "torch", None)
  assert "pip install torch" in refuses(
      capsys, tmp_path, "from_hf", tmp_path / "hf")


def test_damaged_hf_files(capsys, tmp_path):
  write_golden(tmp_path / "in", "google")
  assert "there is no" in refuses(capsys, tmp_path, "from_hf", tmp_path / "in")
  convert(capsys, "to_hf", tmp_path / "in", tmp_path / "hf")
  path = tmp_path / "hf" / "model.safetensors"
  whole = path.read_bytes()
  for part in (whole[:-50], whole[:100], b"{}", b""):
    path.write_bytes(part)
    assert "cannot be read as safetensors" in refuses(
        capsys, tmp_path, "from_hf", tmp_path / "hf")
  path.unlink()
  assert "has neither" in refuses(capsys, tmp_path, "from_hf", tmp_path / "hf")


# ----------------------------------------------------- what is refused, and why


@pytest.mark.parametrize("command", ["to_bert", "to_google", "to_hf"])
@pytest.mark.parametrize("layout", ["zh", "bert"])
def test_pre_ln_is_refused(capsys, tmp_path, command, layout):
  write_random(tmp_path / "in", ln_type="preln", layout=layout,
               embedding_size=16, shared_type="none")
  assert "a pre-LN model cannot become" in refuses(
      capsys, tmp_path, command, tmp_path / "in")


def test_google_is_no_plain_bert(capsys, tmp_path):
  write_golden(tmp_path / "in", "google")
  errors = refuses(capsys, tmp_path, "to_bert", tmp_path / "in")
  assert "normalizes its embeddings at 16 columns" in errors
  errors = refuses(capsys, tmp_path, "to_hf", tmp_path / "in",
                   "--model_type=bert")
  assert "cannot become a Hugging Face BERT" in errors


def test_what_is_there_already(capsys, tmp_path):
  write_golden(tmp_path / "bert", "bert")
  assert "is plain BERT already" in refuses(
      capsys, tmp_path, "to_bert", tmp_path / "bert")
  write_golden(tmp_path / "google", "google_equal_widths")
  assert "is a model of google's layout already" in refuses(
      capsys, tmp_path, "to_google", tmp_path / "google")


@pytest.mark.parametrize("command", ["to_bert", "to_hf", "slim", "add_slots"])
def test_a_config_of_another_layout(capsys, tmp_path, command):
  write_golden(tmp_path / "google", "google")
  write_golden(tmp_path / "zh", "zh_postln")
  errors = refuses(
      capsys, tmp_path, command, tmp_path / "zh", "--config_file=%s" % (
          tmp_path / "google" / "albert_config.json"))
  assert "the layout \"google\", but the checkpoint" in errors
  assert "is of the layout zh (albert_zh)" in errors


def test_a_config_of_other_sizes(capsys, tmp_path):
  write_golden(tmp_path / "in", "google")
  config = tmp_path / "in" / "albert_config.json"
  for changes, part in (
      (dict(intermediate_size=48), "change hidden_size or intermediate_size"),
      (dict(num_hidden_groups=3), "it lacks bert/encoder/transformer/group_1"),
      (dict(inner_group_num=2), "it lacks")):
    original = config.read_text()
    edit_json(config, **changes)
    assert part in refuses(capsys, tmp_path, "to_hf", tmp_path / "in")
    tiny.write(config, original)


def test_the_fast_variant_is_named(capsys, tmp_path):
  write_random(tmp_path / "in", layout="google")
  variables = variables_of(tmp_path / "in")
  name = ("bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/"
          "dense/kernel")
  variables[name] = variables[name].reshape([4, 4, 32])
  convert_checkpoint.write_checkpoint(str(tmp_path / "in"), "model.ckpt",
                                      variables)
  for command in ("to_hf", "to_bert", "slim"):
    assert "modeling_google_fast" in refuses(
        capsys, tmp_path, command, tmp_path / "in")


def test_files_that_are_missing(capsys, tmp_path):
  write_random(tmp_path / "in")
  for name, command, part in (
      ("vocab.txt", "slim", "--vocab_file"),
      ("albert_config.json", "to_hf", "--config_file")):
    moved = tmp_path / ("moved_" + name)
    os.rename(str(tmp_path / "in" / name), str(moved))
    assert part in refuses(capsys, tmp_path, command, tmp_path / "in")
    flag = "%s=%s" % (part, moved)
    convert(capsys, command, tmp_path / "in", tmp_path / ("out_" + name), flag)
    os.rename(str(moved), str(tmp_path / "in" / name))
  tiny.write(tmp_path / "spiece.model", "")
  assert "there is no checkpoint" in refuses(
      capsys, tmp_path, "slim", tmp_path / "in" / "other.ckpt")
  (tmp_path / "empty").mkdir()
  assert "has no checkpoint" in refuses(
      capsys, tmp_path, "slim", tmp_path / "empty")
  convert(capsys, "to_hf", write_layout(tmp_path / "g", "google"),
          tmp_path / "hf")
  assert "from_hf makes one of it" in refuses(
      capsys, tmp_path, "slim", tmp_path / "hf")


def write_layout(folder, name):
  write_golden(folder, name)
  return folder


def test_a_checkpoint_that_is_cut_off(capsys, tmp_path):
  write_random(tmp_path / "in")
  data = tmp_path / "in" / "model.ckpt.data-00000-of-00001"
  whole = data.read_bytes()
  data.write_bytes(whole[:len(whole) // 2])
  assert "it may be cut off" in refuses(
      capsys, tmp_path, "slim", tmp_path / "in")
  (tmp_path / "in" / "model.ckpt.index").write_bytes(b"nothing")
  assert "it may be cut off" in refuses(
      capsys, tmp_path, "slim", tmp_path / "in")


@pytest.mark.parametrize("command", ["slim", "to_bert", "to_hf"])
def test_nothing_is_overwritten(capsys, tmp_path, command):
  write_random(tmp_path / "in")
  (tmp_path / "out").mkdir()
  tiny.write(tmp_path / "out" / "mine", "mine")
  code, out, errors = run(capsys, command, tmp_path / "in",
                          "--output_dir=%s" % (tmp_path / "out"))
  assert code == 1 and not out and "exists already" in errors
  assert os.listdir(str(tmp_path / "out")) == ["mine"]


def test_which_checkpoint_of_a_folder(capsys, tmp_path):
  write_random(tmp_path / "in", step=5)
  for ending in (".index", ".data-00000-of-00001"):
    shutil.copy(str(tmp_path / "in" / ("model.ckpt-5" + ending)),
                str(tmp_path / "in" / ("model.ckpt-4" + ending)))
  assert "model.ckpt-5:" in convert(capsys, "slim", tmp_path / "in",
                                    tmp_path / "latest")
  assert "model.ckpt-4:" in convert(
      capsys, "slim", tmp_path / "in" / "model.ckpt-4.index", tmp_path / "four")
  (tmp_path / "in" / "checkpoint").unlink()
  assert "has 2 checkpoints and does not say which" in refuses(
      capsys, tmp_path, "slim", tmp_path / "in")
  for ending in (".index", ".data-00000-of-00001"):
    (tmp_path / "in" / ("model.ckpt-4" + ending)).unlink()
  convert(capsys, "slim", tmp_path / "in", tmp_path / "only")


def test_as_the_peers_name_their_files(capsys, tmp_path):
  """bert_config.json, or albert_config_<size>.json, and vocab_chinese.txt."""
  write_random(tmp_path / "in")
  for config in ("bert_config.json", "albert_config_tiny.json"):
    folder = tmp_path / config
    shutil.copytree(str(tmp_path / "in"), str(folder))
    os.rename(str(folder / "albert_config.json"), str(folder / config))
    os.rename(str(folder / "vocab.txt"), str(folder / "vocab_chinese.txt"))
    convert(capsys, "slim", folder, tmp_path / (config + ".out"))
    assert sorted(os.listdir(str(tmp_path / (config + ".out")))) == [
        "albert_config.json", "checkpoint", "model.ckpt.data-00000-of-00001",
        "model.ckpt.index", "vocab.txt"]


# ------------------------------------------------------------ slim and add_slots


@pytest.mark.parametrize("changes,slots", [
    (dict(), ["lamb_m", "lamb_v"]),
    (dict(layout="google"), ["adam_m", "adam_v"])])
def test_slim_and_back(capsys, tmp_path, changes, slots):
  write_random(tmp_path / "in", slots=slots, step=5, **changes)
  original = variables_of(tmp_path / "in")
  out = convert(capsys, "slim", tmp_path / "in", tmp_path / "slim")
  model = {name: value for name, value in original.items()
           if not name.endswith(tuple(slots))}
  assert "%d variables of the optimizer left out (%s)" % (
      len(original) - len(model), ", ".join(slots)) in out
  assert_same_variables(variables_of(tmp_path / "slim"), model)
  assert_same_variables(variables_of(tmp_path / "in"), original)
  assert tf.train.latest_checkpoint(str(tmp_path / "slim")) == str(
      tmp_path / "slim" / "model.ckpt-5")

  convert(capsys, "add_slots", tmp_path / "slim", tmp_path / "full",
          "--slots_from=%s" % (tmp_path / "in"))
  assert_same_variables(variables_of(tmp_path / "full"), original)


def test_slots_of_zeros(capsys, tmp_path):
  write_random(tmp_path / "in", layout="google")
  out = convert(capsys, "add_slots", tmp_path / "in", tmp_path / "out",
                "--optimizer=adamw")
  assert "all zero" in out and "goes on at step 0" in out
  variables = variables_of(tmp_path / "out" / "model.ckpt-0")
  for name, value in variables_of(tmp_path / "in").items():
    np.testing.assert_array_equal(variables.pop(name), value)
    for slot in ("adam_m", "adam_v"):
      zeros = variables.pop("%s/%s" % (name, slot))
      assert zeros.shape == value.shape and not zeros.any()
  assert variables == {"global_step": 0}


def test_slots_that_do_not_fit(capsys, tmp_path):
  write_random(tmp_path / "in", slots=["lamb_m", "lamb_v"], step=5)
  write_random(tmp_path / "wide", slots=["lamb_m"], intermediate_size=48)
  write_random(tmp_path / "other", slots=["lamb_m"], layout="google")
  write_random(tmp_path / "none")
  assert "has slots already (lamb_m, lamb_v)" in refuses(
      capsys, tmp_path, "add_slots", tmp_path / "in")
  for name, part in (
      ("wide", "give a checkpoint of the same model"), ("other", "of shape [8]"),
      ("none", "has no optimizer slots")):
    assert part in refuses(capsys, tmp_path, "add_slots", tmp_path / "none",
                           "--slots_from=%s" % (tmp_path / name))


def test_nothing_is_lost_on_resume(capsys, tmp_path):
  """Training goes on from slim and slots as it does from the original."""
  tiny.write_vocab(tmp_path)
  tiny.write_config(tmp_path)
  test_run_pretraining.write_records(tmp_path, "train.tfrecord", 11)

  def train(name, steps):
    result = test_run_pretraining.run(
        tmp_path, tmp_path / name, "--do_train", num_train_steps=steps)
    assert result.returncode == 0, result.stderr

  train("original", 2)
  convert(capsys, "slim", tmp_path / "original", tmp_path / "slim")
  convert(capsys, "add_slots", tmp_path / "slim", tmp_path / "full",
          "--slots_from=%s" % (tmp_path / "original"))
  train("original", 3)
  train("full", 3)
  code, out, _ = run(capsys, "compare", tmp_path / "original",
                     tmp_path / "full", "--tolerance=1e-6")
  assert code == 0, out
  assert "model.ckpt-3" in out and "93 variables in both, 93 equal" in out


# ---------------------------------------------------------------------- average


def test_average(capsys, tmp_path):
  for step in (5, 10, 7):
    write_random(tmp_path / str(step), seed=step, step=step,
                 slots=["lamb_m", "lamb_v"])
  paths = [tmp_path / "5", tmp_path / "10" / "model.ckpt-10", tmp_path / "7"]
  code, out, _ = run(capsys, "average", *paths,
                     "--output_dir=%s" % (tmp_path / "mean"))
  assert code == 0
  assert "over 3 checkpoints, step 10 as the last has it" in out
  assert out.count("model.ckpt-10") == 2 and "model.ckpt-7, step 7" in out
  sources = [variables_of(path) for path in paths]
  found = variables_of(tmp_path / "mean" / "model.ckpt-10")
  assert found["global_step"] == 10 and found["global_step"].dtype == np.int64
  assert len(found) == 32 and not [name for name in found if "lamb" in name]
  for name in set(found) - {"global_step"}:
    assert found[name].dtype == np.float32
    np.testing.assert_allclose(
        found[name], np.mean([source[name] for source in sources], axis=0),
        atol=1e-6)


def test_average_keeps_types(capsys, tmp_path):
  write_random(tmp_path / "a")
  variables = {name: value.astype(np.float16)
               for name, value in variables_of(tmp_path / "a").items()}
  for name, factor in (("half", 1), ("twice", 2)):
    write_folder(tmp_path / name, tiny.CONFIG)
    convert_checkpoint.write_checkpoint(
        str(tmp_path / name), "model.ckpt",
        {key: factor * value for key, value in variables.items()})
  code, out, _ = run(capsys, "average", tmp_path / "half", tmp_path / "twice",
                     "--output_dir=%s" % (tmp_path / "mean"))
  assert code == 0 and "no step" in out
  for name, value in variables_of(tmp_path / "mean").items():
    assert value.dtype == np.float16
    np.testing.assert_array_equal(
        value, (1.5 * variables[name].astype(np.float64)).astype(np.float16))


@pytest.mark.parametrize("changes,part", [
    (dict(layout="google"), "their layouts are"),
    (dict(intermediate_size=48), "[32] and [48]"),
    (dict(num_hidden_layers=3), "num_hidden_layers in their configs is 2 and 3"),
    (dict(ln_type="preln"), "ln_type in their configs is postln and preln")])
def test_average_of_different_models(capsys, tmp_path, changes, part):
  write_random(tmp_path / "a", step=2)
  write_random(tmp_path / "b", step=1, **changes)
  errors = refuses(capsys, tmp_path, "average", tmp_path / "a", tmp_path / "b")
  assert "not of one model" in errors and part in errors


def test_average_of_one(capsys, tmp_path):
  write_random(tmp_path / "a")
  assert "two checkpoints or more" in refuses(
      capsys, tmp_path, "average", tmp_path / "a")


# ---------------------------------------------------------- inspect and compare


def test_inspect(capsys, tmp_path):
  write_random(tmp_path / "in", slots=["lamb_m", "lamb_v"], step=5)
  code, out, _ = run(capsys, "inspect", tmp_path / "in")
  assert code == 0
  lines = out.splitlines()
  assert lines[0] == str(tmp_path / "in" / "model.ckpt-5")
  for line in ("  layout     zh (albert_zh)", "  sharing    shared_type all",
               "  variables  31 of 3,799 parameters, float32",
               "  heads      masked LM, sentence pair",
               "  slots      62 (lamb_m, lamb_v)", "  step       5",
               "  not finite none"):
    assert line in lines, out
  assert "layout zh, postln, 2 layers: fits" in out
  assert [line.split() for line in lines if "word_embeddings_2" in line] == [
      ["bert/embeddings/word_embeddings_2", "[8,", "16]"]]
  assert "lamb_m  " not in out


def test_inspect_says_what_is_wrong(capsys, tmp_path):
  write_random(tmp_path / "in", layout="google", num_hidden_groups=2)
  variables = variables_of(tmp_path / "in")
  variables["bert/pooler/dense/bias"][3] = np.nan
  convert_checkpoint.write_checkpoint(str(tmp_path / "in"), "model.ckpt",
                                      variables)
  edit_json(tmp_path / "in" / "albert_config.json", num_hidden_groups=1)
  _, out, _ = run(capsys, "inspect", tmp_path / "in")
  assert "sharing    num_hidden_groups 2, inner_group_num 1\n" in out
  assert "not finite bert/pooler/dense/bias\n" in out
  assert "does not fit" in out and "the config's model lacks" in out
  (tmp_path / "in" / "albert_config.json").unlink()
  _, out, _ = run(capsys, "inspect", tmp_path / "in")
  assert "config     none beside it" in out


def test_compare(capsys, tmp_path):
  for name in ("a", "b"):
    write_random(tmp_path / name, slots=["lamb_m"], step=5)
  code, out, _ = run(capsys, "compare", tmp_path / "a", tmp_path / "b")
  assert code == 0
  assert "62 variables in both, 62 equal; max |A - B| 0" in out

  variables = variables_of(tmp_path / "b")
  variables["bert/pooler/dense/bias"][3] += 0.25
  variables["cls/predictions/output_bias"][1] = np.nan
  variables["cls/seq_relationship/output_bias"] = np.zeros([3], np.float32)
  del variables["bert/pooler/dense/kernel/lamb_m"]
  convert_checkpoint.write_checkpoint(str(tmp_path / "b"), "model.ckpt-5",
                                      variables)
  code, out, _ = run(capsys, "compare", tmp_path / "a", tmp_path / "b")
  assert code == 1
  lines = out.splitlines()
  assert "only in A: 1 variable: bert/pooler/dense/kernel/lamb_m" in lines
  assert ("cls/seq_relationship/output_bias: [2] float32 in A, [3] float32 in"
          " B") in lines
  assert "bert/pooler/dense/bias: max |A - B| 0.25" in lines
  assert "cls/predictions/output_bias: max |A - B| nan" in lines
  assert lines[-1] == "61 variables in both, 58 equal; max |A - B| nan"

  for name in ("cls/predictions/output_bias", "cls/seq_relationship/output_bias"):
    variables[name] = variables_of(tmp_path / "a")[name]
  convert_checkpoint.write_checkpoint(str(tmp_path / "b"), "model.ckpt-5",
                                      variables)
  pair = ("compare", tmp_path / "a", tmp_path / "b", "--model_only")
  assert run(capsys, *pair)[0] == 1
  code, out, _ = run(capsys, *pair, "--tolerance=0.3")
  assert code == 0 and "31 equal within 0.3; max |A - B| 0.25" in out

  variables["bert/pooler/dense/bias"] = variables_of(tmp_path / "a")[
      "bert/pooler/dense/bias"]
  variables["bert/pooler/dense/kernel/lamb_m"] = np.zeros([16, 16], np.float32)
  variables["global_step"] = np.int64(6)
  convert_checkpoint.write_checkpoint(
      str(tmp_path / "b"), "model.ckpt-5",
      {name: np.asarray(value) for name, value in variables.items()})
  code, out, _ = run(capsys, "compare", tmp_path / "a", tmp_path / "b",
                     "--tolerance=9")
  assert code == 1 and "global_step: 5 in A, 6 in B" in out
  assert run(capsys, *pair)[0] == 0


def test_compare_cannot(capsys, tmp_path):
  code, out, errors = run(capsys, "compare", tmp_path / "a", tmp_path / "b")
  assert code == 2 and not out and "there is no checkpoint" in errors


@pytest.mark.parametrize("arguments,part", [
    ([], "command"), (["slim", "in"], "--output_dir"),
    (["compare", "a", "b", "--tolerance=-1"], "expected 0 or more"),
    (["to_hf", "in", "--output_dir=o", "--do_lower_case=maybe"],
     "expected True or False"),
    (["slim", "in", "--output=o"], "--output")])
def test_wrong_arguments(capsys, arguments, part):
  with pytest.raises(SystemExit):
    convert_checkpoint.main(arguments)
  assert part in capsys.readouterr().err


# ------------------------------------------- against Hugging Face's own models


@pytest.fixture(scope="module")
def hf():
  """(torch, transformers), or the tests that need them are skipped."""
  os.environ.setdefault("USE_TF", "0")
  torch = pytest.importorskip("torch")
  return torch, pytest.importorskip("transformers")


def hf_outputs(hf, model, inputs):
  """OUTPUTS of a transformers model ...ForPreTraining."""
  torch, _ = hf
  model.eval()
  with torch.no_grad():
    result = model(
        input_ids=torch.tensor(inputs["input_ids"]).long(),
        attention_mask=torch.tensor(inputs["input_mask"]).long(),
        token_type_ids=torch.tensor(inputs["segment_ids"]).long(),
        output_hidden_states=True)
    pair = getattr(result, "sop_logits", None)
    if pair is None:
      pair = result.seq_relationship_logits
    positions = torch.tensor(inputs["masked_lm_positions"]).long()
    rows = torch.arange(len(positions))[:, None]
    masked = result.prediction_logits[rows, positions]
    sequence = result.hidden_states[-1]
    base = getattr(model, model.base_model_prefix)
    pooled = (base.pooler_activation(base.pooler(sequence[:, 0]))
              if model.base_model_prefix == "albert" else
              base.pooler(sequence))
    return dict(zip(OUTPUTS, [
        sequence.numpy(), pooled.numpy(),
        masked.log_softmax(-1).reshape([-1, masked.shape[-1]]).numpy(),
        pair.log_softmax(-1).numpy()]))


def load_hf(hf, class_name, folder):
  """A model of transformers; every weight must come from the folder."""
  model, info = getattr(hf[1], class_name).from_pretrained(
      str(folder), output_loading_info=True)
  for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
    assert not info[kind], (kind, info[kind])
  return model


@pytest.mark.parametrize("name", LAYOUT_CASES + ["zh_postln"])
def test_transformers_computes_the_same(hf, capsys, tmp_path, name):
  _, inputs, expected = write_golden(tmp_path / "in", name)
  convert(capsys, "to_hf", tmp_path / "in", tmp_path / "hf")
  class_name = ("AlbertForPreTraining" if name.startswith("google") else
                "BertForPreTraining")
  model = load_hf(hf, class_name, tmp_path / "hf")
  assert_equal_outputs(hf_outputs(hf, model, inputs), expected, atol=1e-4)


@pytest.mark.parametrize("name,model_type", [
    ("zh_postln", "albert"), ("bert", "albert"),
    ("google_equal_widths", "bert")])
def test_the_other_model_of_transformers(hf, capsys, tmp_path, name, model_type):
  _, inputs, expected = write_golden(tmp_path / "in", name)
  convert(capsys, "to_hf", tmp_path / "in", tmp_path / "hf",
          "--model_type=%s" % model_type)
  model = load_hf(hf, model_type.capitalize() + "ForPreTraining",
                  tmp_path / "hf")
  assert_equal_outputs(hf_outputs(hf, model, inputs), expected, atol=1e-4)
  if name == "zh_postln":
    assert model.config.num_hidden_groups == 1  # the layers still share


def test_transformers_and_the_other_rounding(hf, capsys, tmp_path):
  inputs, expected = write_random(tmp_path / "in", **ROUNDED)
  convert(capsys, "to_hf", tmp_path / "in", tmp_path / "hf")
  model = load_hf(hf, "AlbertForPreTraining", tmp_path / "hf")
  assert_equal_outputs(hf_outputs(hf, model, inputs), expected, atol=1e-4)


def hf_config(hf, family, **changes):
  """A tiny config of transformers."""
  values = dict(
      vocab_size=29, hidden_size=16, num_hidden_layers=4,
      num_attention_heads=2, intermediate_size=24, max_position_embeddings=16,
      type_vocab_size=2, hidden_act="gelu_new", hidden_dropout_prob=0.0,
      attention_probs_dropout_prob=0.0, initializer_range=0.3)
  if family == "albert":
    values.update(embedding_size=8, num_hidden_groups=2, inner_group_num=2)
  values.update(changes)
  return getattr(hf[1], family.capitalize() + "Config")(**values)


def make_hf(hf, folder, family, class_name, safe=True, **changes):
  """Writes a random model of transformers with a vocabulary; returns it."""
  torch, transformers = hf
  torch.manual_seed(5)
  model = getattr(transformers, family.capitalize() + class_name)(
      hf_config(hf, family, **changes))
  with torch.no_grad():
    for parameter in model.parameters():
      parameter.add_(0.1 * torch.randn_like(parameter))
  model.save_pretrained(str(folder), safe_serialization=safe)
  tiny.write_vocab(folder, special_and(29))
  return model


@pytest.mark.parametrize("family,safe,changes", [
    ("albert", True, {}), ("albert", False, dict(num_hidden_groups=1)),
    ("albert", True, dict(num_hidden_groups=4, inner_group_num=1,
                          hidden_act="relu")),
    ("bert", True, {}), ("bert", False, dict(hidden_act="gelu_pytorch_tanh"))])
def test_from_transformers(hf, capsys, tmp_path, family, safe, changes):
  model = make_hf(hf, tmp_path / "hf", family, "ForPreTraining", safe,
                  **changes)
  out = convert(capsys, "from_hf", tmp_path / "hf", tmp_path / "out")
  assert "left out" not in out
  inputs = tiny_inputs(dict(vocab_size=29))
  expected = hf_outputs(hf, model, inputs)
  assert_equal_outputs(tf_outputs(tmp_path / "out", inputs), expected, 1e-4)
  convert(capsys, "to_hf", tmp_path / "out", tmp_path / "again")
  again = load_hf(hf, family.capitalize() + "ForPreTraining",
                  tmp_path / "again")
  assert_equal_outputs(hf_outputs(hf, again, inputs), expected, 1e-4)


def test_a_torch_file_that_is_cut_off(hf, capsys, tmp_path):
  torch, _ = hf
  write_golden(tmp_path / "in", "bert")
  convert(capsys, "to_hf", tmp_path / "in", tmp_path / "hf")
  (tmp_path / "hf" / "model.safetensors").unlink()
  path = tmp_path / "hf" / "pytorch_model.bin"
  torch.save({"weight": torch.ones([300])}, str(path))
  for part in (path.read_bytes()[:700], b"text", b""):
    path.write_bytes(part)
    assert "cannot be read by PyTorch" in refuses(
        capsys, tmp_path, "from_hf", tmp_path / "hf")


@pytest.mark.parametrize("family", ["albert", "bert"])
@pytest.mark.parametrize("class_name,heads", [
    ("ForMaskedLM", "masked LM"), ("Model", "none")])
def test_other_models_of_transformers(hf, capsys, tmp_path, family, class_name,
                                      heads):
  model = make_hf(hf, tmp_path / "hf", family, class_name)
  out = convert(capsys, "from_hf", tmp_path / "hf", tmp_path / "out")
  assert "heads: %s;" % heads in out
  convert(capsys, "to_hf", tmp_path / "out", tmp_path / "again")
  again = load_hf(hf, family.capitalize() + class_name, tmp_path / "again")
  torch, _ = hf
  ids = torch.tensor(tiny_inputs(dict(vocab_size=29))["input_ids"]).long()
  with torch.no_grad():
    np.testing.assert_allclose(again.eval()(ids)[0].numpy(),
                               model.eval()(ids)[0].numpy(), atol=1e-4)


@pytest.mark.parametrize("layout", ["zh", "google"])
def test_a_classifier(hf, capsys, tmp_path, layout):
  """Labels and probabilities of a fine-tuned model."""
  config = dict(tiny.CONFIG, layout=layout)
  write_folder(tmp_path / "in", config)
  tiny.write(tmp_path / "in" / "classifier.json", json.dumps(
      {"labels": ["体育", "财经", "娱乐"], "do_lower_case": False}))
  inputs = tiny_inputs(config)
  with tf.Graph().as_default(), tf.Session() as session:
    output = run_classifier.create_model(
        modeling.BertConfig.from_dict(config), False,
        *[tf.constant(inputs[key]) for key in
          ("input_ids", "input_mask", "segment_ids")],
        labels=None, num_labels=3, use_one_hot_embeddings=False)
    random = np.random.RandomState(2)
    for variable in tf.trainable_variables():
      variable.load(random.normal(0, 0.3, variable.shape.as_list()), session)
    expected = session.run(output.probabilities)
    tf.train.Saver().save(session, str(tmp_path / "in" / "model.ckpt"))
  out = convert(capsys, "to_hf", tmp_path / "in", tmp_path / "hf")
  assert "heads: classifier; do_lower_case False" in out
  torch, transformers = hf
  name = {"zh": "Bert", "google": "Albert"}[layout]
  model = load_hf(hf, name + "ForSequenceClassification", tmp_path / "hf")
  assert model.config.id2label == {0: "体育", 1: "财经", 2: "娱乐"}
  model.eval()
  with torch.no_grad():
    logits = model(*[torch.tensor(inputs[key]).long() for key in (
        "input_ids", "input_mask", "segment_ids")]).logits
  np.testing.assert_allclose(logits.softmax(-1).numpy(), expected, atol=1e-4)
  # A slim classifier is still one that similarity.py reads.
  convert(capsys, "slim", tmp_path / "in", tmp_path / "slim")
  assert run_classifier.read_classifier(str(tmp_path / "slim"))["labels"] == [
      "体育", "财经", "娱乐"]


def test_the_tokenizer_of_transformers(hf, capsys, tmp_path):
  write_random(tmp_path / "in", layout="google")
  tiny.write_vocab(tmp_path / "in")
  convert(capsys, "to_hf", tmp_path / "in", tmp_path / "hf")
  tokenizer = hf[1].AutoTokenizer.from_pretrained(str(tmp_path / "hf"))
  assert type(tokenizer).__name__.startswith("BertTokenizer")
  ids = tokenizer("今天天气很好", "我们去公园！")["input_ids"]
  assert tokenizer.convert_ids_to_tokens(ids) == (
      ["[CLS]"] + list("今天天气很好") + ["[SEP]"] + list("我们去公园") +
      ["[UNK]", "[SEP]"])
