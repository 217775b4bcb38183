"""A tiny vocabulary, model and corpus, and how to run the scripts on them."""

import io
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + list(
    "今天气很好我们去公园玩他在写信她看书吗你哪了，。")

CONFIG = dict(
    vocab_size=len(TOKENS), hidden_size=16, num_hidden_layers=2,
    num_attention_heads=2, intermediate_size=32, hidden_act="gelu",
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    max_position_embeddings=32, type_vocab_size=2, embedding_size=8,
    initializer_range=0.02, ln_type="postln")


def write_vocab(folder, tokens=None):
  path = os.path.join(str(folder), "vocab.txt")
  write(path, "".join(token + "\n" for token in tokens or TOKENS))
  return path


def write_config(folder, name="config.json", **changes):
  path = os.path.join(str(folder), name)
  write(path, json.dumps(dict(CONFIG, **changes)))
  return path


def write(path, text):
  with io.open(str(path), "w", encoding="utf-8") as writer:
    writer.write(text)


def run_script(name, *switches, **flags):
  """Runs a script of the repository; returns the finished process."""
  arguments = ["--%s=%s" % item for item in sorted(flags.items())]
  return subprocess.run(
      [sys.executable, os.path.join(ROOT, name)] + arguments +
      list(switches), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
      universal_newlines=True, encoding="utf-8",
      env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3"))


def assert_fails(result, *parts):
  """The process ended with one message that has all the parts."""
  assert result.returncode != 0
  assert "Traceback" not in result.stderr, result.stderr
  for part in parts:
    assert part in result.stderr, result.stderr[-2000:]
