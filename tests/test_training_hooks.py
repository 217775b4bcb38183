"""Kills, resumes, divergence, progress, and the best of several evaluations."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import bert_utils
import checkpoint_utils
import test_run_classifier
import test_run_pretraining
import tiny
import training_hooks

STEPS = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A folder with vocabulary, config (with dropout), and records."""
  path = tmp_path_factory.mktemp("hooks")
  tiny.write_vocab(path)
  tiny.write_config(path, hidden_dropout_prob=0.1,
                    attention_probs_dropout_prob=0.1)
  test_run_pretraining.write_records(path, "train.tfrecord", 50)
  (path / "eval").mkdir()
  tiny.write_vocab(path / "eval")
  test_run_pretraining.write_records(path / "eval", "eval.tfrecord", 5)
  return path


def pretraining_flags(folder, output_dir, **changes):
  flags = dict(
      do_train=True, input_file=folder / "train.tfrecord",
      bert_config_file=folder / "config.json", output_dir=output_dir,
      max_seq_length=test_run_pretraining.LENGTH,
      max_predictions_per_seq=test_run_pretraining.PREDICTIONS,
      train_batch_size=4, num_train_steps=STEPS, num_warmup_steps=10,
      learning_rate=1e-3, log_steps=1, save_checkpoints_steps=110)
  flags.update(changes)
  return flags


def signal_at(step, number, script, flags):
  """Runs a script and signals it when it has logged a step.

  Returns:
    (exit code, the log).
  """
  process = subprocess.Popen(
      [sys.executable, os.path.join(tiny.ROOT, script)] +
      ["--%s=%s" % item for item in sorted(flags.items())],
      stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
      universal_newlines=True, env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3"))
  log, sent = [], False
  for line in process.stderr:
    log.append(line)
    if not sent and "step %d/" % step in line:
      process.send_signal(number)
      sent = True
  code = process.wait()
  process.stderr.close()
  assert sent, "".join(log)[-3000:]
  return code, "".join(log)


def assert_same_checkpoints(first, second):
  """All variables, slots too, are equal bit for bit."""
  names = [name for name, _ in tf.train.list_variables(first)]
  assert names == [name for name, _ in tf.train.list_variables(second)]
  assert any(name.endswith("/lamb_v") or name.endswith("/adam_v")
             for name in names)
  for name in names:
    np.testing.assert_array_equal(tf.train.load_variable(first, name),
                                  tf.train.load_variable(second, name), name)


# ---------------------------------------------------------------------- resume


def test_pretraining_goes_on_exactly_where_it_was(folder, tmp_path):
  whole, parts = tmp_path / "whole", tmp_path / "parts"
  result = tiny.run_script("run_pretraining.py",
                           **pretraining_flags(folder, whole))
  assert result.returncode == 0, result.stderr
  flags = pretraining_flags(folder, parts)
  code, log = signal_at(130, signal.SIGKILL, "run_pretraining.py", flags)
  assert code == -signal.SIGKILL
  code, log = signal_at(230, signal.SIGTERM, "run_pretraining.py", flags)
  assert code == 143
  assert "model.ckpt-110, step 110, to step 400" in log
  step, latest = checkpoint_utils.latest_step(str(parts))
  assert 230 <= step < STEPS and step % 110
  assert "stopped by SIGTERM; the latest checkpoint is %s;" % latest in log
  assert "Traceback" not in log
  # Of evaluations in between the weights know nothing.
  result = tiny.run_script("run_pretraining.py", **dict(
      flags, eval_every_steps=150, log_steps=100,
      eval_input_file=folder / "eval" / "eval.tfrecord"))
  assert result.returncode == 0, result.stderr
  assert "step %d, to step 400" % step in result.stderr
  assert_same_checkpoints(str(whole / "model.ckpt-400"),
                          str(parts / "model.ckpt-400"))
  history = (parts / training_hooks.HISTORY_NAME).read_text().splitlines()
  assert [line.split("\t")[0] for line in history] == ["step", "300", "400"]


def test_fine_tuning_goes_on_exactly_where_it_was(tmp_path):
  test_run_classifier.write_lcqmc(tmp_path)
  tiny.write_vocab(tmp_path)
  tiny.write_config(tmp_path, hidden_dropout_prob=0.1,
                    attention_probs_dropout_prob=0.1)

  def flags(output_dir):
    return dict(
        do_train=True, task_name="lcqmc", data_dir=tmp_path,
        vocab_file=tmp_path / "vocab.txt", output_dir=output_dir,
        bert_config_file=tmp_path / "config.json", max_seq_length=16,
        train_batch_size=3, num_train_epochs=300, log_steps=1,
        save_checkpoints_steps=70, learning_rate=1e-3)

  whole, parts = tmp_path / "whole", tmp_path / "parts"
  result = tiny.run_script("run_classifier.py", **flags(whole))
  assert result.returncode == 0, result.stderr
  step, latest = checkpoint_utils.latest_step(str(whole))
  code, log = signal_at(step // 2, signal.SIGINT, "run_classifier.py",
                        flags(parts))
  assert code == 130
  assert "stopped by SIGINT" in log
  result = tiny.run_script("run_classifier.py", **flags(parts))
  assert result.returncode == 0, result.stderr
  assert_same_checkpoints(latest, str(parts / os.path.basename(latest)))
  tiny.assert_fails(tiny.run_script("run_classifier.py", **flags(parts)),
                    "nothing to train", "at step %d already" % step)


def test_the_first_signal_is_a_note(tmp_path):
  before = signal.getsignal(signal.SIGTERM)
  with training_hooks.catch_signals() as interruption:
    interruption.exit(str(tmp_path))  # nothing came yet
    interruption.can_wait = True
    os.kill(os.getpid(), signal.SIGTERM)
    while interruption.signal is None:
      time.sleep(0.01)
  assert signal.getsignal(signal.SIGTERM) is before
  with pytest.raises(SystemExit) as stopped:
    interruption.exit(str(tmp_path))
  assert stopped.value.code == 143


@pytest.mark.parametrize("signaled, raised", [
    (signal.SIGTERM, SystemExit), (None, bert_utils.InputError)])
def test_who_loses_others_when_told_to_end_has_not_failed(tmp_path, signaled,
                                                          raised):
  interruption = training_hooks.Interruption()
  interruption.signal = signaled
  with pytest.raises(raised):
    with training_hooks.exit_if_told(interruption, str(tmp_path)):
      raise bert_utils.InputError("the connection to another worker is lost")


_BLOCKED = """
import threading
import time
import tensorflow.compat.v1 as tf
import training_hooks

def tell(interruption):
  while interruption.signal is None:
    time.sleep(0.01)
  tf.logging.error("noted")

with tf.Graph().as_default(), tf.Session() as session:
  step_without_end = tf.FIFOQueue(1, tf.int32).dequeue()
  with training_hooks.catch_signals() as interruption:
    threading.Thread(target=tell, args=[interruption], daemon=True).start()
    interruption.can_wait = CAN_WAIT
    tf.logging.error("waiting")
    session.run(step_without_end)
"""


@pytest.mark.parametrize("can_wait", ["True", "False"])
def test_a_signal_ends_within_a_step(can_wait):
  """The second one; the first one where no step can end."""
  process = subprocess.Popen(
      [sys.executable, "-c", _BLOCKED.replace("CAN_WAIT", can_wait)], stderr=subprocess.PIPE,
      universal_newlines=True, cwd=tiny.ROOT,
      env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3"))
  for line in process.stderr:
    if "waiting" in line or "noted" in line:
      process.send_signal(signal.SIGTERM)
  process.stderr.close()
  assert process.wait() == 143


# ------------------------------------------------------------------ divergence


def test_the_checkpoint_of_a_bad_update_is_removed(folder, tmp_path):
  result = tiny.run_script("run_pretraining.py", **pretraining_flags(
      folder, tmp_path, learning_rate=1e30, optimizer="adamw",
      num_warmup_steps=3, save_checkpoints_steps=1))
  tiny.assert_fails(result, "training diverged at step", "learning rate",
                    "lower --learning_rate")
  step, latest = checkpoint_utils.latest_step(str(tmp_path))
  assert "the last checkpoint of finite weights is %s;" % latest in result.stderr
  moved = str(tmp_path) + "_moved"
  os.rename(str(tmp_path), moved)
  assert checkpoint_utils.latest_step(moved) == (
      step, os.path.join(moved, os.path.basename(latest)))
  latest = os.path.join(moved, os.path.basename(latest))
  tmp_path = moved
  assert [latest] == [path for number, path in
                      checkpoint_utils.step_checkpoints(str(tmp_path))
                      if number >= step]
  for name, _ in tf.train.list_variables(latest):
    assert np.isfinite(tf.train.load_variable(latest, name)).all()
  assert "removed, as its weights are of no use" in result.stderr


def run_hook(hook, published):
  """Runs a hook over steps of the published scalars, a list of dicts."""
  with tf.Graph().as_default():
    step = tf.train.get_or_create_global_step()
    inputs = {key: tf.placeholder(tf.float32, []) for key in published[0]}
    training_hooks.publish(inputs)
    train_op = tf.assign_add(step, 1)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
      for values in published:
        session.run(train_op, {inputs[key]: values[key] for key in values})


def test_float16_skips_and_counts(tmp_path):
  good = dict(loss=1.0, learning_rate=0.1, gradient_norm=2.0, loss_scale=8.0,
              skipped_steps=0.0)
  bad = dict(good, gradient_norm=np.inf)
  most = [bad] * (training_hooks.MAX_SKIPS_IN_A_ROW - 1)
  hook = training_hooks.StopOnNonFiniteHook(str(tmp_path))
  run_hook(hook, most + [good] + most)
  with pytest.raises(FloatingPointError, match="the last 50 updates were all"
                     " skipped.*loss scale 8;.*--precision=float32"):
    run_hook(hook, most + [bad])
  # Without a loss scale the first one ends it.
  for values in (good, bad):
    del values["loss_scale"]
  with pytest.raises(FloatingPointError, match="diverged at step 1: .*inf"):
    run_hook(hook, [good, bad])


def test_means_leave_out_what_was_skipped(tmp_path, monkeypatch):
  lines = []
  monkeypatch.setattr(tf.logging, "info",
                      lambda text, *values: lines.append(text % values))
  step = dict(loss=1.0, learning_rate=0.5, gradient_norm=2.0, loss_scale=8.0,
              skipped_steps=0.0, tokens_per_example=32.0,
              real_tokens_per_example=8.0)
  hook = training_hooks.TrainingLogHook(
      ["loss", "gradient_norm"], 2, 3, 4, 64, str(tmp_path), 2.0)
  run_hook(hook, [step, dict(step, gradient_norm=np.nan, skipped_steps=1.0),
                  dict(step, loss=3.0, loss_scale=4.0, skipped_steps=1.0),
                  dict(step, gradient_norm=np.inf, skipped_steps=2.0), step])
  first, second = [line for line in lines if line.startswith("step ")]
  assert first.startswith("step 2/3 epoch 1.00 | loss 2, gradient_norm 2, "
                          "loss_scale 4, skipped_steps 1 | ")
  assert second.startswith("step 3/3 epoch 1.50 | loss 1, ")
  examples, slots, real = [
      float(word) for word in first.split(" | ")[2].replace("(", "").split()
      if word.replace(".", "").isdigit()]
  assert slots == pytest.approx(32 * examples, rel=0.1)
  assert real == pytest.approx(8 * examples, rel=0.1)
  events = [event for path in tmp_path.iterdir()
            for event in tf.train.summary_iterator(str(path))]
  values = {(event.step, value.tag): value.simple_value
            for event in events for value in event.summary.value}
  assert values[2, "train/loss"] == 2 and values[3, "train/epoch"] == 1.5
  assert (2, "train/real_tokens_per_second") in values


# -------------------------------------------------------------------- the best


def results_of(value):
  results = dict.fromkeys(training_hooks.BEST_METRICS, 0.5)
  results["masked_lm_loss"] = value
  return results


def test_the_best_is_kept_and_found_again(tmp_path):
  output_dir = str(tmp_path)
  tiny.write_vocab(tmp_path)
  tiny.write(tmp_path / checkpoint_utils.CONFIG_NAME, "{}")
  with tf.Graph().as_default(), tf.Session() as session:
    step = tf.train.get_or_create_global_step()
    saver = tf.train.Saver()
    paths = [saver.save(session, str(tmp_path / "model.ckpt"), number)
             for number in (1, 2, 3, 4)
             if session.run(step.assign(number))]
  best = training_hooks.BestCheckpoint(output_dir, "masked_lm_loss", 2)
  best.add(1, paths[0], results_of(2.0))
  best.add(2, paths[1], results_of(1.0))
  folder = os.path.join(output_dir, checkpoint_utils.BEST_FOLDER)
  assert checkpoint_utils.latest_step(folder) == (
      2, os.path.join(folder, "model.ckpt-2"))
  assert sorted(os.listdir(folder)) == [
      "albert_config.json", "best.json", "checkpoint",
      "model.ckpt-2.data-00000-of-00001", "model.ckpt-2.index", "vocab.txt"]
  best.add(3, paths[2], results_of(1.5))
  assert not best.should_stop()
  # Another process goes on with the same count.
  best = training_hooks.BestCheckpoint(output_dir, "masked_lm_loss", 2)
  assert best.last_step == 3
  best.add(4, paths[3], results_of(1.0))
  assert best.should_stop()
  assert best.describe() == "masked_lm_loss 1 at step 2"
  assert checkpoint_utils.latest_step(folder)[0] == 2
  # An evaluation that is made again has one line.
  best.add(4, paths[3], results_of(1.0))
  lines = (tmp_path / training_hooks.HISTORY_NAME).read_text().splitlines()
  assert [line.split("\t")[0] for line in lines] == ["step", "1", "2", "3",
                                                     "4"]
  assert lines[3].split("\t")[lines[0].split("\t").index(
      "masked_lm_loss")] == "1.5"
  with pytest.raises(ValueError, match="--best_metric is loss, but .*best.json"
                     " keeps the best by masked_lm_loss"):
    training_hooks.BestCheckpoint(output_dir, "loss")
  with pytest.raises(bert_utils.InputError, match="masked_lm_loss nan"):
    best.add(5, paths[3], results_of(np.nan))


def test_a_run_that_does_not_get_better_stops(folder, tmp_path):
  flags = pretraining_flags(
      folder, tmp_path, learning_rate=0, eval_every_steps=2, log_steps=10,
      early_stopping_evals=2, best_metric="loss", num_train_steps=20,
      eval_input_file=folder / "eval" / "eval.tfrecord")
  result = tiny.run_script("run_pretraining.py", **flags)
  assert result.returncode == 0, result.stderr
  assert "stopped early; the best checkpoint, in %s, has loss" % (
      tmp_path / "best") in result.stderr
  assert checkpoint_utils.latest_step(str(tmp_path))[0] == 6
  state = json.loads((tmp_path / "best" / "best.json").read_text())
  assert (state["step"], state["evaluations_since"]) == (2, 2)
  tiny.assert_fails(
      tiny.run_script("run_pretraining.py", **flags),
      "stopped early at step 6, 2 evaluations after its best",
      "more --early_stopping_evals")
