"""The benchmark tool: its tables, a peer's graph, and what it says."""

import os
import subprocess
import sys

import pytest

import benchmark
import benchmark_graphs
import benchmark_processes
import input_utils
import test_run_pretraining
import tiny

CONFIG = dict(vocab_size=40, max_position_embeddings=16)
SMALL = ["--max_seq_length=12", "--repeats=2", "--steps=1"]

# A peer with one "layer", written as code for TensorFlow 1.15 is.
PEER = {
    "modeling.py": '''
import json
import tensorflow as tf
from tensorflow.contrib import layers as contrib_layers

class BertConfig(object):
  @classmethod
  def from_json_file(cls, path):
    config = cls()
    with tf.gfile.GFile(path) as reader:
      config.__dict__.update(json.load(reader))
    return config

class BertModel(object):
  def __init__(self, config, is_training, input_ids, input_mask=None,
               token_type_ids=None, use_one_hot_embeddings=False, scope=None):
    with tf.variable_scope(scope, default_name="bert"):
      self._table = tf.get_variable("word_embeddings", [config.vocab_size, 8])
      self._table_2 = tf.get_variable("word_embeddings_2", [8, 16])
      width = input_ids.shape[1].value
      flat = tf.matmul(tf.gather(self._table, tf.reshape(input_ids, [-1])),
                       self._table_2)
      flat = tf.layers.dense(flat, 16, activation=tf.tanh, name="dense")
      self._output = tf.reshape(contrib_layers.layer_norm(
          inputs=flat, begin_norm_axis=-1, begin_params_axis=-1),
                                [-1, width, 16])
  def get_sequence_output(self):
    return self._output
  def get_pooled_output(self):
    return self._output[:, 0]
  def get_embedding_table(self):
    return self._table
  def get_embedding_table_2(self):
    return self._table_2
''',
    "run_pretraining.py": '''
import modeling
import tensorflow as tf
flags = tf.flags
flags.DEFINE_string("bert_config_file", None, "")
print("an import that prints")

def get_masked_lm_output(bert_config, input_tensor, output_weights,
                         project_weights, positions, label_ids, label_weights):
  rows = tf.gather(input_tensor, positions, batch_dims=1)
  logits = tf.matmul(tf.matmul(tf.reshape(rows, [-1, 16]), project_weights,
                               transpose_b=True), output_weights,
                     transpose_b=True)
  loss = tf.reduce_mean(-tf.reduce_sum(tf.nn.log_softmax(logits) * tf.one_hot(
      tf.reshape(label_ids, [-1]), bert_config.vocab_size), -1))
  return loss, None, None

def get_next_sentence_output(bert_config, input_tensor, labels):
  return tf.reduce_mean(input_tensor), None, None
''',
    "optimization.py": '''
import tensorflow as tf

def create_optimizer(loss, init_lr, num_train_steps, num_warmup_steps, use_tpu):
  optimizer = tf.train.GradientDescentOptimizer(init_lr)
  if use_tpu:
    optimizer = tf.contrib.tpu.CrossShardOptimizer(optimizer)
  return optimizer.minimize(loss)
''',
    "run_classifier.py": '''
import modeling
import tensorflow as tf

def create_model(bert_config, is_training, input_ids, input_mask, segment_ids,
                 labels, num_labels, use_one_hot_embeddings):
  model = modeling.BertModel(bert_config, is_training, input_ids, input_mask,
                             segment_ids, use_one_hot_embeddings)
  logits = tf.layers.dense(model.get_pooled_output(), num_labels)
  loss = tf.reduce_mean(logits * tf.one_hot(labels, num_labels))
  return loss, None, logits, tf.nn.softmax(logits)
'''}


def write_peer(folder, **changes):
  for name, text in PEER.items():
    tiny.write(folder / name, changes.get(name[:-3], text))
  return str(folder)


def run(tmp_path, *arguments):
  """Runs the tool; returns the finished process."""
  config = tiny.write_config(tmp_path, **CONFIG)
  return tiny.run_script("scripts/benchmark.py", *(
      list(arguments[:1]) + ["--config=" + config] + list(arguments[1:])))


def rows(result):
  """The tables' rows without the heads: lists of cells."""
  assert result.returncode == 0, result.stderr[-3000:]
  lines = [line for line in result.stdout.splitlines() if line[:1] == "|"]
  cells = [[cell.strip() for cell in line.strip("|").split("|")]
           for line in lines]
  return [row for row in cells
          if row[0] not in ("candidate", "batch x length", "processes") and
          set(row[0]) != {"-"}]


def test_train_beside_a_peer(tmp_path):
  peer = tmp_path / "peer"
  peer.mkdir()
  result = run(tmp_path, "train", "--batch_size=2", "--max_predictions=3",
               "--peer_dir=" + write_peer(peer), *SMALL)
  table = rows(result)
  assert [row[0] for row in table] == ["peer float32", "float32"]
  assert table[0][3] == "1.00 (1.00-1.00)"
  assert all(float(row[1]) > 0 and float(row[5]) > 50 for row in table)
  # Examples/s and ms a step are two views of one figure.
  assert float(table[1][1]) == pytest.approx(2e3 / float(table[1][2]), rel=0.1)
  assert "bfloat16: the CPU has " in result.stdout
  assert "TensorFlow" in table[1][6]


def test_forward_beside_a_peer_and_another_checkout(tmp_path):
  peer = tmp_path / "peer"
  peer.mkdir()
  result = run(tmp_path, "forward", "--batch_sizes=1,2", "--code_dir=" +
               tiny.ROOT, "--peer_dir=" + write_peer(peer), *SMALL)
  names = ["peer float32", tiny.ROOT + " float32", "float32"]
  assert [row[0] for row in rows(result)] == names * 2


def test_lengths_trains_on_records_with_and_without_buckets(tmp_path):
  tiny.write_vocab(tmp_path)
  test_run_pretraining.write_records(tmp_path, "train.tfrecord", 9)
  result = run(
      tmp_path, "lengths", "--input_file=%s/train.*" % tmp_path,
      "--max_seq_length=%d" % test_run_pretraining.LENGTH,
      "--max_predictions=%d" % test_run_pretraining.PREDICTIONS,
      "--batch_size=2", "--repeats=1")
  assert [row[0] for row in rows(result)] == ["float32", "float32, buckets"]
  assert "1 rounds of %d steps" % input_utils.WINDOW_STEPS in result.stdout


def test_classify_works_on_texts_padded_and_by_length(tmp_path):
  tiny.write(tmp_path / "train.tsv", "label\ttext\n" + "".join(
      "%d\t%s\n" % (number % 2, "今天气很好"[number % 5:]) for number in range(9)))
  result = run(
      tmp_path, "classify", "--data_dir=%s" % tmp_path, "--vocab_file=" +
      tiny.write_vocab(tmp_path), "--max_seq_length=16", "--batch_size=2",
      "--num_examples=6", "--copies=3", "--repeats=1")
  table = rows(result)
  names = ["float32, padded to 16", "float32, by length"]
  processes = [row[0] for row in table[:-6]]
  assert processes == ["1", str(len(os.sched_getaffinity(0)))][:len(processes)]
  assert "Conversion of 27 examples (3 times the set)" in result.stdout
  assert [row[0] for row in table[-6:]] == names * 3
  # A pass is of 6 examples.
  for row in table[-4:]:
    assert float(row[1]) == pytest.approx(6e3 / float(row[2]), rel=0.1)
  for work, count in (("step of training", input_utils.WINDOW_STEPS),
                      ("pass of evaluation", 1), ("pass of prediction", 1)):
    assert "a step is a %s, 1 rounds of %d:" % (work, count) in result.stdout
  assert sorted(os.listdir(str(tmp_path))) == ["config.json", "train.tsv",
                                               "vocab.txt"]


def test_memory_gives_up_what_needs_too_much(tmp_path):
  arguments = ["memory", "--variants=plain", "--batch_sizes=2",
               "--lengths=12", "--max_predictions=3", "--repeats=1"]
  plain, = rows(run(tmp_path, *arguments))
  assert plain[:2] == ["2 x 12", "plain"]
  assert float(plain[2].split()[0]) > 0.05
  limited, = rows(run(tmp_path, *(arguments + ["--max_gb=0.01"])))
  assert limited[2] == "more than 0.0 GB"


@pytest.mark.parametrize("arguments, parts", [
    (["train", "--peer_dir=nowhere"], ["--peer_dir nowhere", "modeling.py"]),
    (["forward", "--code_dir=nowhere"], ["--code_dir nowhere", "modeling.py"]),
    (["train", "--config=huge"], ["--config huge", "tiny or base"]),
    (["train", "--max_predictions=128"], ["--max_predictions 128", "128"]),
    (["train", "--batch_size=6", "--gradient_accumulation_steps=4"],
     ["batch of 6", "--gradient_accumulation_steps 4"]),
    (["train", "--precision=float8"], ["float8", "float32, bfloat16"]),
    (["classify", "--data_dir=nowhere"],
     ["--data_dir nowhere has no train.tsv", "prepare_demo_data.py thucnews"]),
    (["lengths", "--input_file=nowhere*"], ["no file matches nowhere*"]),
    (["memory", "--variants=plain+frugal"], ["frugal", "recompute"])])
def test_arguments_that_cannot_work(arguments, parts):
  tiny.assert_fails(tiny.run_script("scripts/benchmark.py", *arguments), *parts)


def test_a_peer_without_a_module(tmp_path):
  peer = tmp_path / "peer"
  peer.mkdir()
  write_peer(peer)
  os.remove(str(peer / "run_classifier.py"))
  tiny.assert_fails(
      run(tmp_path, "forward", "--peer_dir=" + str(peer), *SMALL),
      "peer float32", "run_classifier of " + str(peer), "cannot be imported")


def test_a_peer_that_dies_shows_its_last_lines(tmp_path):
  peer = tmp_path / "peer"
  peer.mkdir()
  write_peer(peer, optimization="raise RuntimeError('a fault of the peer')\n")
  result = run(tmp_path, "train", "--batch_size=2", "--max_predictions=3",
               "--peer_dir=" + str(peer), *SMALL)
  assert result.returncode != 0
  assert "peer float32 ended with exit code 1" in result.stderr
  assert "RuntimeError: a fault of the peer" in result.stderr


def test_code_without_an_option():
  def old_builder(config):
    return config

  def new_builder(config, precision="float32"):
    return config, precision

  wanted = {"precision": ("bfloat16", "float32")}
  assert benchmark_graphs.options_of(new_builder, wanted, "here") == {
      "precision": "bfloat16"}
  assert benchmark_graphs.options_of(
      old_builder, {"precision": ("float32", "float32")}, "here") == {}
  with pytest.raises(benchmark_graphs.GraphError, match="old_builder.*there"):
    benchmark_graphs.options_of(old_builder, wanted, "there")


def test_batches_are_full_and_valid():
  spec = {"batch_size": 3, "max_seq_length": 10, "max_predictions": 4}
  batch = benchmark_graphs.random_batch(spec, 50, seed=1)
  assert batch["input_ids"].shape == (3, 10)
  assert batch["input_mask"].min() == 1
  positions = batch["masked_lm_positions"]
  assert positions.shape == (3, 4)
  assert positions.min() >= 1 and positions.max() < 10
  assert all(len(set(row)) == 4 for row in positions)
  assert batch["masked_lm_weights"].sum() == 12
  other = benchmark_graphs.random_batch(spec, 50, seed=2)
  assert (other["input_ids"] != batch["input_ids"]).any()


def test_variants():
  assert benchmark.variant_changes("bfloat16+recompute", 4) == {
      "precision": "bfloat16", "recompute_activations": True}
  assert benchmark.variant_changes("accumulate", 8) == {
      "gradient_accumulation_steps": 8}
  assert benchmark.variant_changes("plain", 8) == {}


def test_candidates_run_in_turn(tmp_path):
  """Blocks are interleaved, and every candidate does the same steps."""
  order = tmp_path / "order"
  program = tmp_path / "python"
  tiny.write(program, """#!%s
import json, sys
name = json.loads(sys.argv[2])["name"]
print(json.dumps({"seconds": 0.5, "versions": name}), flush=True)
for line in sys.stdin:
  with open(%r, "a") as writer:
    writer.write(name + line)
  print(json.dumps({"seconds": 4.0, "cpu_seconds": 6.0}), flush=True)
""" % (sys.executable, str(order)))
  program.chmod(0o755)
  specs = {name: (str(program), {"name": name}) for name in "ab"}
  measured = benchmark_processes.run_in_turn(specs, 2, None, 2.0)
  assert order.read_text() == "a4\nb4\na4\nb4\n"
  assert [each.name for each in measured] == ["a", "b"]
  assert measured[0].seconds == (1.0, 1.0)
  assert measured[0].cpu_seconds == (1.5, 1.5)
  assert measured[1].versions == "b"
  assert all(each.peak_bytes > 0 for each in measured)


def test_stand_in_has_what_peers_import():
  code = """
import sys
sys.path.insert(0, %r)
import benchmark_graphs
benchmark_graphs.install_stand_in()
import tensorflow as tf
from tensorflow.contrib import tpu
from tensorflow.python.ops import linalg_ops
from tensorflow.python.training import optimizer
import tensorflow.compat.v1 as v1
assert tf.contrib.tpu is tpu and tpu.CrossShardOptimizer
assert tf.get_variable and tf.layers.dense and tf.flags and v1.Session
""" % os.path.join(tiny.ROOT, "scripts")
  result = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE,
                          universal_newlines=True)
  assert result.returncode == 0, result.stderr
