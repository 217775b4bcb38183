"""Trains a tiny model on fixed rows, however many devices share the batch.

As a script, one worker of several; TF_CONFIG says which:
  python tests/distributed_run.py '{"output_dir": "/tmp/run", ...}'
"""

import json
import os
import sys
import types
from unittest import mock

import numpy as np
import tensorflow.compat.v1 as tf

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for path in (ROOT, os.path.join(ROOT, "tests")):
  if path not in sys.path:
    sys.path.insert(0, path)

import estimator_utils  # noqa: E402
import modeling  # noqa: E402
import classifier_model  # noqa: E402
import run_classifier  # noqa: E402
import run_pretraining  # noqa: E402
import tiny  # noqa: E402
import training_hooks  # noqa: E402

BATCH, LENGTH, PREDICTIONS = 8, 12, 4


def make_rows(count):
  """Rows with 0 to 4 predictions: replicas never have as many."""
  random = np.random.RandomState(0)
  lengths = random.randint(4, LENGTH + 1, size=count)
  predictions = random.randint(0, PREDICTIONS + 1, size=count)
  ids = random.randint(5, len(tiny.TOKENS), size=(count, LENGTH))
  mask = (np.arange(LENGTH) < lengths[:, np.newaxis]).astype(np.int32)
  return {
      "input_ids": (ids * mask).astype(np.int32), "input_mask": mask,
      "segment_ids": np.zeros_like(mask),
      "masked_lm_positions": random.randint(
          0, 4, size=(count, PREDICTIONS)).astype(np.int32),
      "masked_lm_ids": random.randint(
          5, len(tiny.TOKENS), size=(count, PREDICTIONS)).astype(np.int32),
      "masked_lm_weights": (np.arange(PREDICTIONS) < predictions[
          :, np.newaxis]).astype(np.float32),
      "next_sentence_labels": random.randint(
          0, 2, size=(count, 1)).astype(np.int32),
      "label_ids": random.randint(0, 3, size=count).astype(np.int32)}


def input_fn_builder(steps):
  """An input_fn whose pipelines' batches make up BATCH rows a step."""
  def input_fn(params, input_context=None):
    batches = tf.data.Dataset.from_tensor_slices(
        make_rows(BATCH * steps)).batch(params["batch_size"],
                                        drop_remainder=True)
    if input_context:
      batches = batches.shard(input_context.num_input_pipelines,
                              input_context.input_pipeline_id)
    return batches

  return input_fn


class RecordHook(tf.train.SessionRunHook):
  """Keeps the published scalars of every step."""

  def __init__(self, keys):
    self._keys = keys
    self.steps = []

  def begin(self):
    self._tensors = training_hooks._published(self._keys)

  def before_run(self, run_context):
    return tf.train.SessionRunArgs(self._tensors)

  def after_run(self, run_context, run_values):
    self.steps.append({key: float(value)
                       for key, value in run_values.results.items()})


def make_model_fn(task, steps, optimizer, config, use_tpu=False,
                  init_checkpoint=None, **options):
  bert_config = modeling.BertConfig(**dict(tiny.CONFIG, **config))
  if task == "pretraining":
    return run_pretraining.model_fn_builder(
        bert_config, init_checkpoint, 1e-2, steps, 2, use_tpu, use_tpu,
        optimizer, **options)
  return run_classifier.model_fn_builder(
      bert_config, 3, init_checkpoint, 1e-2, steps, 2, use_tpu, use_tpu, optimizer,
      **options)


def train(output_dir, task="pretraining", steps=10, optimizer="lamb",
          strategy=None, config=(), seed=3, head_dropout=False, **options):
  """Trains and returns what the published scalars were, a dict a step.

  The classifier's head has a dropout that no config switches off.
  """
  if task == "classifier" and not head_dropout:
    with mock.patch.object(run_classifier.modeling, "dropout",
                           lambda tensor, *unused_args: tensor):
      return train(output_dir, task, steps, optimizer, strategy, config, seed,
                   True, **options)
  settings = types.SimpleNamespace(
      use_tpu=False, tpu_name=None, master=None, log_steps=1, seed=seed,
      output_dir=str(output_dir), save_checkpoints_steps=1000,
      keep_checkpoint_max=1, iterations_per_loop=1, num_tpu_cores=8,
      num_gpus=0, use_xla=None)
  estimator = estimator_utils.make_estimator(
      make_model_fn(task, steps, optimizer, dict(config), seed=seed,
                    **options),
      settings, BATCH, BATCH, strategy=strategy)
  keys = (run_pretraining.LOGGED if task == "pretraining" else
          classifier_model.logged("single"))
  if options.get("precision") == "float16":
    keys += ("loss_scale", "skipped_steps")
  hook = RecordHook(keys)
  estimator.train(input_fn_builder(steps), hooks=[hook], max_steps=steps)
  return hook.steps


if __name__ == "__main__":
  arguments = json.loads(sys.argv[1])
  recorded = train(**arguments)
  if estimator_utils.is_chief():
    with open(os.path.join(arguments["output_dir"], "steps.json"),
              "w") as writer:
      json.dump(recorded, writer)
