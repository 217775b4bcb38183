"""Candidates for [MASK]: those of the pre-training graph itself."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import extract_features
import fill_mask
import modeling
import run_pretraining
import tiny

LAYOUTS = {
    "zh": {},
    "google": {"layout": "google", "num_hidden_groups": 2},
    "bert": {"layout": "bert", "embedding_size": None, "shared_type": "none"}}
TEXTS = ["今天[MASK]气很好", ("[MASK]们去公园", "玩[MASK]，[MASK]。"),
         "你在[MASK]"]


def write_checkpoint(folder, with_heads=True, **changes):
  tiny.write_vocab(folder)
  # So that there are clear favourites.
  config = modeling.BertConfig.from_json_file(tiny.write_config(
      folder, "albert_config.json", initializer_range=1.0, **changes))
  graph = tf.Graph()
  with graph.as_default(), tf.Session(graph=graph) as session:
    tf.set_random_seed(1)
    output = build(config, [[2, 3]], [[0, 0]], [[1]])
    if not with_heads:
      session.run(tf.global_variables_initializer())
      tf.train.Saver([var for var in tf.global_variables()
                      if not var.name.startswith("cls/")]).save(
                          session, str(folder / "model.ckpt"), 4)
      return
    session.run(tf.global_variables_initializer())
    assert session.run(output).shape == (1, len(tiny.TOKENS))
    tf.train.Saver().save(session, str(folder / "model.ckpt"), 4)


def build(config, input_ids, segment_ids, positions):
  """Log probabilities [P, V] of one sequence, by the pre-training graph."""
  model = modeling.BertModel(config, False, tf.constant(input_ids), None,
                             tf.constant(segment_ids))
  positions = tf.constant(positions)
  return run_pretraining.get_masked_lm_output(
      config, model.get_sequence_output(), model.get_embedding_table(),
      model.get_embedding_table_2(), positions, tf.zeros_like(positions),
      tf.ones_like(positions, dtype=tf.float32)).log_probs


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
  result = {}
  for layout, changes in LAYOUTS.items():
    result[layout] = tmp_path_factory.mktemp(layout)
    write_checkpoint(result[layout], **changes)
  return result


def read_model(folder, **changes):
  options = dict(init_checkpoint=str(folder), bert_config_file=None,
                 vocab_file=None, do_lower_case=None, max_seq_length=None)
  options.update(changes)
  return extract_features.read_model(type("Options", (), options),
                                     never_split=("[MASK]",))


def expected(folder, text):
  """Log probabilities [masks, V] of one text alone."""
  vocab = {token: index for index, token in enumerate(tiny.TOKENS)}
  ids, segments = [vocab["[CLS]"]], [0]
  for segment, part in enumerate([text] if isinstance(text, str) else text):
    tokens = part.replace("[MASK]", "?")
    ids += [vocab["[MASK]"] if char == "?" else vocab[char] for char in tokens]
    ids.append(vocab["[SEP]"])
    segments += [segment] * (len(ids) - len(segments))
  positions = [place for place, each in enumerate(ids)
               if each == vocab["[MASK]"]]
  graph = tf.Graph()
  with graph.as_default(), tf.Session(graph=graph) as session:
    log_probs = build(
        modeling.BertConfig.from_json_file(str(folder / "albert_config.json")),
        [ids], [segments], [positions])
    tf.train.Saver().restore(session, str(folder / "model.ckpt-4"))
    return session.run(log_probs)


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_candidates_are_the_model_s(folders, layout):
  filler = fill_mask.MaskFiller(read_model(folders[layout]), top_k=3,
                                batch_size=2)
  found = filler.fill(TEXTS)
  assert [len(masks) for masks in found] == [1, 3, 1]
  for text, masks in zip(TEXTS, found):
    probabilities = np.exp(expected(folders[layout], text))
    assert len(probabilities) == len(masks)
    for row, candidates in zip(probabilities, masks):
      best = np.argsort(-row)[:3]
      assert [token for token, _ in candidates] == [
          tiny.TOKENS[index] for index in best]
      np.testing.assert_allclose([p for _, p in candidates], row[best],
                                 atol=1e-4)
  # The model is not the same for all texts and places.
  assert len({masks[0] for text in found for masks in text}) > 1
  assert filler.fill([]) == []


def test_what_cannot_be_filled(folders):
  filler = fill_mask.MaskFiller(read_model(folders["zh"], max_seq_length=6))
  with pytest.raises(ValueError, match=r"'今天' has no \[MASK\]"):
    filler.fill(["[MASK]", "今天"])
  with pytest.raises(ValueError, match=r"longer than 6 tokens, and 1 of its 2"
                     r" \[MASK\] are truncated away"):
    filler.fill(["今[MASK]天气[MASK]"])
  assert len(filler.fill(["今[MASK]天[MASK]气"])[0]) == 2
  with pytest.raises(ValueError, match="--top_k 99 is more than the 29 tokens"):
    fill_mask.MaskFiller(read_model(folders["zh"]), top_k=99)


def test_a_checkpoint_without_the_head(tmp_path):
  write_checkpoint(tmp_path, with_heads=False)
  with pytest.raises(ValueError, match="lacks 5 variables of the model, the "
                     "first is cls/predictions/.*; give one of pre-training"):
    fill_mask.MaskFiller(read_model(tmp_path))


def test_a_token_in_the_place_of_a_mask():
  text = ("a[MASK]b", "[MASK]c")
  assert fill_mask.replace_mask(text, 0, "X") == "aXb\t[MASK]c"
  assert fill_mask.replace_mask(text, 1, "##x") == "a[MASK]b\txc"


def run(folder, *arguments, **options):
  return subprocess.run(
      [sys.executable, os.path.join(tiny.ROOT, "scripts/fill_mask.py"),
       "--init_checkpoint=%s" % folder] + list(arguments),
      input=options.get("stdin", "").encode("utf-8"), stdout=subprocess.PIPE,
      stderr=subprocess.PIPE)


def test_lines_of_the_command(folders):
  result = run(folders["zh"], TEXTS[0], "\t".join(TEXTS[1]), "--top_k=2")
  assert result.returncode == 0, result.stderr
  lines = [line.split("\t") for line in
           result.stdout.decode("utf-8").splitlines()]
  assert [line[0] for line in lines] == list("11" "112233")
  masks = fill_mask.MaskFiller(read_model(folders["zh"]), 2).fill(TEXTS[:2])
  candidates = [each for text in masks for mask in text for each in mask]
  for line, (token, probability) in zip(lines, candidates):
    assert line[1] == token
    assert float(line[2]) == pytest.approx(probability, abs=1e-4)
  assert lines[0][3:] == ["今天%s气很好" % candidates[0][0]]
  assert lines[-1][3:] == ["[MASK]们去公园", "玩[MASK]，%s。" %
                           candidates[-1][0]]


def test_json_of_standard_input(folders):
  stdin = TEXTS[2] + "\n\n" + "\t".join(TEXTS[1]) + "\n"
  result = run(folders["bert"], "--json", "--top_k=1", stdin=stdin)
  assert result.returncode == 0, result.stderr
  rows = [json.loads(line) for line in
          result.stdout.decode("utf-8").splitlines()]
  assert [(row["text_a"], row.get("text_b")) for row in rows] == [
      (TEXTS[2], None), TEXTS[1]]
  assert [[len(mask) for mask in row["masks"]] for row in rows] == [[1],
                                                                   [1, 1, 1]]
  assert set(rows[0]["masks"][0][0]) == {"token", "probability"}


def test_what_the_command_says(folders):
  result = run(folders["zh"], "今天")
  message = result.stderr.decode("utf-8")
  assert result.returncode != 0 and "Traceback" not in message
  assert "fill_mask.py: error: the text '今天' has no [MASK]" in message
  assert result.stdout == b""
