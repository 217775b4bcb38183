"""Vectors of texts: equal to the model's, by layout, layer and kind."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import extract_features
import modeling
import tiny
import tokenization

LAYOUTS = {
    "zh": {"ln_type": "preln", "shared_type": "none"},
    "google": {"layout": "google", "num_hidden_groups": 2,
               "inner_group_num": 2},
    "bert": {"layout": "bert", "embedding_size": None, "shared_type": "none"}}
LINES = ["今天气很好，我们去公园玩。", "", "你在哪\t他在写信", "好"]
TEXTS = ["今天气很好，我们去公园玩。", ("你在哪", "他在写信"), "好"]


def write_checkpoint(folder, config_name="albert_config.json", seed=5,
                     **changes):
  """Writes vocabulary, config and an encoder with random weights."""
  tiny.write_vocab(folder)
  # So that layers and texts do differ.
  values = dict({"initializer_range": 0.5}, **changes)
  config = modeling.BertConfig.from_json_file(
      tiny.write_config(folder, config_name, **values))
  graph = tf.Graph()
  with graph.as_default(), tf.Session(graph=graph) as session:
    tf.set_random_seed(seed)
    modeling.BertModel(config, False, tf.zeros([1, 3], tf.int32))
    session.run(tf.global_variables_initializer())
    tf.train.Saver().save(session, str(folder / "model.ckpt"), 1,
                          write_meta_graph=False)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
  result = {}
  for layout, changes in LAYOUTS.items():
    result[layout] = tmp_path_factory.mktemp(layout)
    write_checkpoint(result[layout], **changes)
  return result


def run(folder, output_file, *switches, **options):
  """Runs the tool in this process on LINES; returns its result."""
  flags = ["--%s=%s" % item for item in options.items()]
  input_file = os.path.join(str(output_file.parent), "texts.txt")
  tiny.write(input_file, "\n".join(LINES) + "\n")
  return extract_features.main(
      ["--init_checkpoint=%s" % folder, "--output_file=%s" % output_file,
       "--input_file=%s" % input_file] + flags + list(switches))


def layers_of(folder, text):
  """All layers' token vectors of one text alone: the model by itself."""
  tokenizer = tokenization.FullTokenizer(str(folder / "vocab.txt"))
  pair = [text] if isinstance(text, str) else text
  tokens, segments = ["[CLS]"], [0]
  for segment, part in enumerate(pair):
    tokens += tokenizer.tokenize(part) + ["[SEP]"]
    segments += [segment] * (len(tokens) - len(segments))
  graph = tf.Graph()
  with graph.as_default(), tf.Session(graph=graph) as session:
    model = modeling.BertModel(
        modeling.BertConfig.from_json_file(str(folder / "albert_config.json")),
        False, tf.constant([tokenizer.convert_tokens_to_ids(tokens)]), None,
        tf.constant([segments]))
    tf.train.Saver().restore(session, str(folder / "model.ckpt-1"))
    return tokens, [layer[0] for layer in
                    session.run(model.get_all_encoder_layers())]


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_sentence_vectors_are_the_model_s(folders, tmp_path, layout, capsys):
  folder, output_file = folders[layout], tmp_path / "vectors.npz"
  for vectors, reduce in (("mean", lambda layer: layer.mean(axis=0)),
                          ("cls", lambda layer: layer[0])):
    assert run(folder, output_file, vectors=vectors, layers="-1,0,-1",
               batch_size=2) == 0
    found = np.load(str(output_file))
    assert sorted(found.files) == ["layer_-1", "layer_0", "lines"]
    assert found["lines"].tolist() == [1, 3, 4]
    for row, text in enumerate(TEXTS):
      _, layers = layers_of(folder, text)
      assert len(layers) == (4 if layout == "google" else 2)
      for name, layer in (("layer_-1", layers[-1]), ("layer_0", layers[0])):
        np.testing.assert_allclose(found[name][row], reduce(layer), atol=1e-4)
    assert np.abs(found["layer_-1"] - found["layer_0"]).max() > 0.1
    assert ("3 texts, %s vectors of 16 columns, layers -1, 0: %s" % (
        vectors, output_file)) in capsys.readouterr().out


def test_token_vectors_as_arrays(folders, tmp_path):
  run(folders["zh"], tmp_path / "vectors.npz", vectors="tokens")
  found = np.load(str(tmp_path / "vectors.npz"))
  offsets = found["offsets"]
  assert len(offsets) == 4 and offsets[-1] == len(found["tokens"])
  for row, text in enumerate(TEXTS):
    tokens, layers = layers_of(folders["zh"], text)
    part = slice(offsets[row], offsets[row + 1])
    assert found["tokens"][part].tolist() == tokens
    np.testing.assert_allclose(found["layer_-1"][part], layers[-1], atol=1e-4)


def test_json_lines(folders, tmp_path):
  run(folders["bert"], tmp_path / "v.jsonl", vectors="tokens", layers="1,0")
  rows = [json.loads(line) for line in
          (tmp_path / "v.jsonl").read_text(encoding="utf-8").splitlines()]
  assert [row["line"] for row in rows] == [1, 3, 4]
  assert [row["text_a"] for row in rows] == [TEXTS[0], "你在哪", "好"]
  assert [row.get("text_b") for row in rows] == [None, "他在写信", None]
  for row, text in zip(rows, TEXTS):
    tokens, layers = layers_of(folders["bert"], text)
    assert row["tokens"] == tokens
    for index in (0, 1):
      np.testing.assert_allclose(row["vectors"][str(index)], layers[index],
                                 atol=1e-4)
  run(folders["bert"], tmp_path / "v.jsonl")
  row = json.loads((tmp_path / "v.jsonl").read_text(
      encoding="utf-8").split("\n")[2])
  assert "tokens" not in row and len(row["vectors"]["-1"]) == 16


def test_as_a_command_that_counts_what_it_cuts(folders, tmp_path):
  # The first has 15 tokens; the pair, with its special ones, exactly 10.
  result = subprocess.run(
      [sys.executable, os.path.join(tiny.ROOT, "scripts/extract_features.py"),
       "--init_checkpoint=%s" % (folders["google"] / "model.ckpt-1.index"),
       "--vectors=tokens", "--max_seq_length=10", "--output_file=v.npz"],
      input="\n".join(LINES).encode("utf-8"), stdout=subprocess.PIPE,
      stderr=subprocess.PIPE, cwd=str(tmp_path))
  log = result.stderr.decode("utf-8")
  assert result.returncode == 0, log
  assert result.stdout.decode() == (
      "3 texts, vectors of tokens of 16 columns, layers -1: v.npz\n")
  assert np.load(str(tmp_path / "v.npz"))["offsets"].tolist() == [0, 10, 20, 23]
  assert "1 of 3 texts were longer than 10 tokens" in log
  assert "variables matched, 0 missing" in log


# ----------------------------------------------- the files beside a checkpoint


def read_model(folder, **changes):
  options = dict(init_checkpoint=str(folder), bert_config_file=None,
                 vocab_file=None, do_lower_case=None, max_seq_length=None)
  options.update(changes)
  return extract_features.read_model(
      type("Options", (), options))


def test_config_and_vocabulary_beside_the_checkpoint(tmp_path):
  write_checkpoint(tmp_path, "albert_config_tiny.json")
  model = read_model(tmp_path)
  assert model.checkpoint == str(tmp_path / "model.ckpt-1")
  assert model.max_seq_length == 32 and len(model.tokenizer.vocab) == len(
      tiny.TOKENS)
  other = tiny.write_config(tmp_path, "bert_config.json")
  with pytest.raises(ValueError, match="has the model configs albert_config_"
                     "tiny.json and bert_config.json; give .*_config_file"):
    read_model(tmp_path)
  assert read_model(tmp_path, bert_config_file=other)
  os.remove(str(tmp_path / "vocab.txt"))
  with pytest.raises(ValueError, match="no vocab.txt beside .* --vocab_file"):
    read_model(tmp_path, bert_config_file=other)
  for name in ("albert_config_tiny.json", "bert_config.json"):
    os.remove(str(tmp_path / name))
  with pytest.raises(ValueError, match="has no model config; give"):
    read_model(tmp_path)


@pytest.mark.parametrize("name", ["classifier.json", "metadata.json"])
def test_casing_is_that_of_the_run(tmp_path, name):
  write_checkpoint(tmp_path)
  casing = lambda **options: read_model(
      tmp_path, **options).tokenizer.basic_tokenizer.do_lower_case
  assert casing() is True
  tiny.write(tmp_path / name, json.dumps({"do_lower_case": False}))
  assert casing() is False
  assert casing(do_lower_case=True) is True


@pytest.mark.parametrize("changes,parts", [
    ({"init_checkpoint": "{folder}/none"}, ["--init_checkpoint", "none"]),
    ({"init_checkpoint": ""}, ["--init_checkpoint is empty"]),
    ({"max_seq_length": 33}, ["--max_seq_length 33", "32"]),
    ({"layers": "2"}, ["--layers: 2 is no layer", "0 to 1", "-1 to -2"]),
    ({"layers": "last"}, ["--layers", "found 'last'"]),
    ({"layer": "0"}, ["unrecognized arguments: --layer=0"]),
    ({"output_file": "{folder}/v.csv"}, ["ends in .npz or .jsonl"]),
    ({"output_file": "{folder}/no/v.npz"}, ["there is no folder"]),
    ({"input_file": "{folder}/checkpoint.no"}, ["--input_file", "no file"]),
    ({"input_file": "{folder}/empty"}, ["there is no text in"])])
def test_what_the_tool_says(folders, tmp_path, capsys, changes, parts):
  tiny.write(folders["zh"] / "empty", "\n\n")
  tiny.write(tmp_path / "texts", "今天\n")
  options = dict(init_checkpoint=folders["zh"], input_file=tmp_path / "texts",
                 output_file=tmp_path / "v.npz")
  options.update({key: value.format(folder=folders["zh"])
                  if isinstance(value, str) else value
                  for key, value in changes.items()})
  with pytest.raises(SystemExit) as error:
    extract_features.main(["--%s=%s" % item for item in options.items()])
  # argparse prints by itself.
  message = str(error.value) + capsys.readouterr().err
  assert error.value.code not in (0, None)
  for part in parts:
    assert part in message
  assert sorted(os.listdir(str(tmp_path))) == ["texts"]


def test_a_config_of_another_model(folders, tmp_path):
  options = ["--output_file=%s" % (tmp_path / "v.npz"),
             "--init_checkpoint=%s" % folders["zh"]]
  for changes, message in (
      (LAYOUTS["google"], "layout"), ({"hidden_size": 32}, "hidden_size"),
      ({"ln_type": "postln", "shared_type": "none"}, "ln_type"),
      ({"ln_type": "preln", "shared_type": "all"},
       "has shared_type all, .* has shared_type none; .*checkpoint$")):
    config_file = tiny.write_config(
        tmp_path, **dict(LAYOUTS["zh"], **changes))
    with pytest.raises(SystemExit, match=message):
      extract_features.main(options + ["--bert_config_file=%s" % config_file])


def test_an_output_that_fails_leaves_nothing(folders, tmp_path):
  (tmp_path / "bad").write_bytes("今天\n".encode("utf-8") + b"\xff\n")
  with pytest.raises(SystemExit, match="bad, line 2 is not UTF-8"):
    extract_features.main([
        "--init_checkpoint=%s" % folders["zh"],
        "--input_file=%s" % (tmp_path / "bad"),
        "--output_file=%s" % (tmp_path / "v.jsonl")])
  assert os.listdir(str(tmp_path)) == ["bad"]


def test_the_writers_of_nothing():
  for write in extract_features.WRITERS.values():
    assert write(io.BytesIO(), iter([])) == 0
