"""However a batch is spread over devices and parts, the result is one."""

import glob
import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import distributed_run
import estimator_utils
import tiny

SCRIPT = os.path.join(tiny.ROOT, "tests", "distributed_run.py")


def weights_of(output_dir):
  """Variables of the last checkpoint, a dict of name -> array."""
  checkpoint = tf.train.latest_checkpoint(str(output_dir))
  reader = tf.train.load_checkpoint(checkpoint)
  return {name: reader.get_tensor(name)
          for name in reader.get_variable_to_shape_map()}


def assert_same_run(left, right, left_steps, right_steps):
  """Weights and moments after ten steps, and every step's scalars."""
  left, right = weights_of(left), weights_of(right)
  assert sorted(left) == sorted(right)
  assert left["global_step"] == 10
  for name, values in left.items():
    np.testing.assert_allclose(values, right[name], rtol=0, atol=1e-5,
                               err_msg=name)
  assert len(left_steps) == len(right_steps) == 10
  for one, other in zip(left_steps, right_steps):
    assert one == pytest.approx(other, rel=1e-4, abs=1e-6)


def first_loss(output_dir):
  """The loss of the first step that the Estimator itself wrote for charts."""
  path, = glob.glob(os.path.join(str(output_dir), "events*"))
  return [value.simple_value for event in tf.train.summary_iterator(path)
          for value in event.summary.value if value.tag in ("loss", "loss_1")][0]


def two_devices():
  with tf.Graph().as_default():  # eager mode has one CPU device
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


@pytest.fixture(scope="module")
def initial(tmp_path_factory):
  """A function: the checkpoint that a task's runs start from.

  What a seed draws depends on the graph before TensorFlow 2.
  """
  made = {}

  def get(task="pretraining"):
    if task not in made:
      path = tmp_path_factory.mktemp("initial")
      distributed_run.train(path, task, steps=1)  # at the learning rate 0
      made[task] = tf.train.latest_checkpoint(str(path))
    return made[task]

  return get


@pytest.fixture(scope="module")
def plain(tmp_path_factory, initial):
  """A function: the run on one device with the whole batch, made once."""
  made = {}

  def get(task="pretraining", optimizer="lamb"):
    key = task, optimizer
    if key not in made:
      path = tmp_path_factory.mktemp("%s_%s" % key)
      made[key] = path, distributed_run.train(
          path, task, optimizer=optimizer, init_checkpoint=initial(task))
    return made[key]

  return get


def test_a_run_moves_the_weights(plain, initial):
  path, steps = plain()
  before, after = weights_of(os.path.dirname(initial())), weights_of(path)
  moved = [name for name in after if name.endswith("kernel") and
           np.abs(after[name] - before[name]).max() > 1e-3]
  assert len(moved) >= 6
  assert steps[0]["loss"] == pytest.approx(
      np.log(len(tiny.TOKENS)) + np.log(2), rel=0.1)


@pytest.mark.parametrize("task,optimizer", [
    ("pretraining", "lamb"), ("pretraining", "adamw"),
    ("pretraining", "lamb_google"), ("classifier", "adamw")])
def test_two_replicas(plain, initial, tmp_path, task, optimizer):
  path, steps = plain(task, optimizer)
  found = distributed_run.train(tmp_path, task, optimizer=optimizer,
                                strategy=two_devices(),
                                init_checkpoint=initial(task))
  assert_same_run(tmp_path, path, found, steps)
  assert first_loss(tmp_path) == pytest.approx(first_loss(path), rel=1e-5)
  assert first_loss(path) == pytest.approx(steps[0]["loss"], rel=1e-5)


@pytest.mark.parametrize("task,optimizer,parts", [
    ("pretraining", "lamb", 4), ("pretraining", "adamw", 2),
    ("classifier", "adamw", 8)])
def test_accumulation(plain, initial, tmp_path, task, optimizer, parts):
  path, steps = plain(task, optimizer)
  found = distributed_run.train(tmp_path, task, optimizer=optimizer,
                                gradient_accumulation_steps=parts,
                                init_checkpoint=initial(task))
  assert_same_run(tmp_path, path, found, steps)


def test_two_replicas_with_accumulation(plain, initial, tmp_path):
  path, steps = plain()
  found = distributed_run.train(tmp_path, strategy=two_devices(),
                                gradient_accumulation_steps=2,
                                init_checkpoint=initial())
  assert_same_run(tmp_path, path, found, steps)


def test_a_vocabulary_grows_on_every_replica(initial, tmp_path):
  distributed_run.train(
      tmp_path, steps=1, strategy=two_devices(), init_checkpoint=initial(),
      grow_vocab=True, config={"vocab_size": len(tiny.TOKENS) + 3})
  name = "bert/embeddings/word_embeddings"
  old = tf.train.load_variable(initial(), name)
  new = tf.train.load_variable(str(tmp_path), name)
  assert len(new) == len(old) + 3
  np.testing.assert_array_equal(new[:len(old)], old)
  assert new[len(old):].std() > 0


def free_addresses(count):
  sockets = [socket.socket() for _ in range(count)]
  for each in sockets:
    each.bind(("127.0.0.1", 0))
  addresses = ["127.0.0.1:%d" % each.getsockname()[1] for each in sockets]
  for each in sockets:
    each.close()
  return addresses


def run_workers(output_dir, **arguments):
  """Two processes on this machine; returns the chief's scalars."""
  addresses = free_addresses(2)
  cluster = {"chief": addresses[:1], "worker": addresses[1:]}
  arguments["output_dir"] = str(output_dir)
  processes = []
  for kind in ("chief", "worker"):
    environment = dict(
        os.environ, TF_CPP_MIN_LOG_LEVEL="3", TF_CONFIG=json.dumps(
            {"cluster": cluster, "task": {"type": kind, "index": 0}}))
    processes.append(subprocess.Popen(
        [sys.executable, SCRIPT, json.dumps(arguments)], env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        universal_newlines=True))
  try:
    for process in processes:
      output, _ = process.communicate(timeout=300)
      assert process.returncode == 0, output[-4000:]
  finally:
    for process in processes:
      process.kill()
  with open(os.path.join(str(output_dir), "steps.json")) as reader:
    return json.load(reader)


needs_multi_worker = pytest.mark.skipif(
    not estimator_utils.HAS_MULTI_WORKER,
    reason="several workers need TensorFlow 1.15 or up to 2.15")


@needs_multi_worker
@pytest.mark.parametrize("parts", [1, 2])
def test_two_workers(plain, initial, tmp_path, parts):
  path, steps = plain()
  found = run_workers(tmp_path, gradient_accumulation_steps=parts,
                      init_checkpoint=initial())
  assert_same_run(tmp_path, path, found, steps)


# ------------------------------------------------- precision, memory, dropout

DROPOUT = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2}


def test_dropout_of_a_run_that_goes_on(tmp_path):
  whole = distributed_run.train(tmp_path / "whole", steps=4, config=DROPOUT,
                                gradient_accumulation_steps=2)
  again = distributed_run.train(tmp_path / "again", steps=4, config=DROPOUT,
                                gradient_accumulation_steps=2)
  other = distributed_run.train(tmp_path / "other", steps=4, config=DROPOUT)
  assert whole == again
  assert whole[0] != other[0]  # each part draws for itself
  left, right = (weights_of(tmp_path / name) for name in ("whole", "again"))
  for name, values in left.items():
    np.testing.assert_array_equal(values, right[name], err_msg=name)


def test_replicas_draw_dropout_of_their_own(tmp_path):
  with tf.Graph().as_default():
    strategy = two_devices()
    with strategy.scope():
      tf.train.get_or_create_global_step()
      seeds = strategy.experimental_local_results(
          strategy.extended.call_for_each_replica(
              lambda: estimator_utils.dropout_seed(3, 0, None, False)))
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
      session.run(tf.global_variables_initializer())
      first, second = session.run(seeds)
  assert first[0] != second[0]
  assert first[1] == second[1] == 0


@pytest.mark.parametrize("task", ["pretraining", "classifier"])
@pytest.mark.parametrize("precision,tolerance", [
    ("bfloat16", 0.03), ("float16", 0.005)])
def test_half_precision_stays_close(plain, initial, tmp_path, task, precision,
                                    tolerance):
  _, steps = plain(task, "lamb" if task == "pretraining" else "adamw")
  found = distributed_run.train(
      tmp_path, task, optimizer="lamb" if task == "pretraining" else "adamw",
      precision=precision, gradient_accumulation_steps=2,
      init_checkpoint=initial(task))
  for one, other in zip(found, steps):
    assert one["loss"] == pytest.approx(other["loss"], rel=tolerance)
  variables = weights_of(tmp_path)
  assert all(values.dtype != np.float16 for values in variables.values())
  if precision == "float16":
    assert found[-1]["skipped_steps"] == 0
    assert variables["loss_scale/scale"] == found[-1]["loss_scale"] == 2 ** 15
    assert variables["loss_scale/good_steps"] == 10
  assert variables["global_step"] == 10


@pytest.mark.parametrize("devices", [1, 2])
def test_all_that_saves_memory_together(plain, initial, tmp_path, devices):
  path, steps = plain()
  found = distributed_run.train(
      tmp_path, strategy=two_devices() if devices == 2 else None,
      gradient_accumulation_steps=2, recompute_activations=True,
      init_checkpoint=initial())
  assert_same_run(tmp_path, path, found, steps)


# ----------------------------------------------------------------------- TPU


@pytest.mark.parametrize("task", ["pretraining", "classifier"])
def test_graph_of_a_tpu_shard(task):
  """Built only: no kernel of CrossReplicaSum exists elsewhere."""
  model_fn = distributed_run.make_model_fn(
      task, 10, "lamb", DROPOUT, use_tpu=True, seed=3, precision="bfloat16",
      gradient_accumulation_steps=2, recompute_activations=True)
  with tf.Graph().as_default() as graph:
    tf.train.get_or_create_global_step()
    rows = {name: tf.constant(values)
            for name, values in distributed_run.make_rows(4).items()}
    spec = model_fn(rows, None, estimator_utils.estimator.ModeKeys.TRAIN, {})
    assert spec.train_op is not None
    assert spec.loss.dtype == tf.float32
    # A loop's turns would wait for those of other shards.
    sums = [op for op in graph.get_operations()
            if op.type == "CrossReplicaSum"]
    assert sums
    assert not any("while" in op.name for op in sums)
    # No hook can read what is computed on a TPU.
    assert not any(op.name.startswith("training_log")
                   for op in graph.get_operations())
