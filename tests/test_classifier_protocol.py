"""Which folder a training has, and which of several is chosen."""

import hashlib
import json
import os
import shutil
import types

from absl import flags
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import checkpoint_utils
import classifier_protocol as protocol
import classifier_utils
from classifier_utils import InputExample

SETTINGS = {"max_seq_length": 16, "labels": ["0", "1"], "config": {"size": 2},
            "sha256_of_training_data": "ab"}
OPTIONS = types.SimpleNamespace(do_train=True, data_dir="data")


@pytest.fixture
def folder(tmp_path):
  return str(tmp_path)


def save(folder, step, slots=False):
  """Writes a checkpoint of a step; returns its path."""
  with tf.Graph().as_default(), tf.Session() as session:
    tf.train.create_global_step()
    tf.get_variable("bert/table", [3, 2])
    tf.get_variable("bias", [5])
    if slots:
      tf.get_variable("bert/table/adam_m", [3, 2])
      tf.get_variable("loss_scale/scale", [])
    session.run(tf.global_variables_initializer())
    session.run(tf.train.get_global_step().assign(step))
    return tf.train.Saver().save(session, os.path.join(folder, "model.ckpt"),
                                 global_step=step)


def plan(folder, rates=(1e-4,), seeds=(1,), **changes):
  return protocol.plan_trials(folder, dict(SETTINGS, **changes), list(rates),
                              list(seeds))


def train(trial, steps=4, **changes):
  """What a training leaves behind."""
  tf.gfile.MakeDirs(trial.folder)
  protocol.start_trial(trial, dict(SETTINGS, **changes), OPTIONS)
  return save(trial.folder, steps)


def names(trials):
  return [os.path.basename(trial.folder) for trial in trials]


# ------------------------------------------------------------------ the folders


@pytest.mark.parametrize("rate,name", [
    (1e-4, "lr1e-04_seed7"), (1.5e-4, "lr1.5e-04_seed7"),
    (5e-5, "lr5e-05_seed7"), (0.0, "lr0e+00_seed7"), (1.0, "lr1e+00_seed7"),
    (0.1, "lr1e-01_seed7"), (3, "lr3e+00_seed7")])
def test_name_of_a_trial(rate, name):
  assert protocol.trial_name(rate, 7) == name


def test_one_run_is_in_the_output_folder_several_below_it(folder):
  assert plan(folder) == [protocol.Trial(1e-4, 1, folder)]
  new = os.path.join(folder, "new")
  assert plan(new) == [protocol.Trial(1e-4, 1, new)]
  assert not protocol.has_trained(new)
  trials = plan(folder, [1e-4, 5e-5], [1, 2])
  assert names(trials) == ["lr1e-04_seed1", "lr1e-04_seed2", "lr5e-05_seed1",
                           "lr5e-05_seed2"]
  assert [trial[:2] for trial in trials] == [(1e-4, 1), (1e-4, 2), (5e-5, 1),
                                             (5e-5, 2)]
  assert os.listdir(folder) == []
  # Of equal names, too, each has its own.
  assert names(plan(folder, [1e-4, 1.00000001e-4], [1])) == [
      "lr1e-04_seed1", "lr1e-04_seed1_2"]


def test_more_seeds_later_take_up_the_first_ones(folder):
  train(plan(folder)[0])
  assert plan(folder)[0].folder == folder
  trials = plan(folder, seeds=[1, 2])
  assert [trial.folder for trial in trials] == [
      folder, os.path.join(folder, "lr1e-04_seed2")]
  train(trials[1])
  assert plan(folder, seeds=[1, 2]) == trials
  # And one of several is found again by itself.
  assert plan(folder, seeds=[2])[0].folder == trials[1].folder


@pytest.mark.parametrize("changes,words", [
    ({"max_seq_length": 24}, "max_seq_length 16, not 24"),
    ({"sha256_of_training_data": "cd"}, "another sha256 of training data"),
    ({"config": {"size": 3}}, "another config")])
def test_other_settings_have_a_folder_of_their_own(folder, caplog, changes,
                                                   words):
  train(plan(folder)[0])
  other = plan(folder, **changes)[0]
  assert names([other]) == ["lr1e-04_seed1"]
  assert "%s has another run, with %s: the checkpoints" % (
      folder, words) in caplog.text
  train(other, **changes)
  assert plan(folder)[0].folder == folder
  assert plan(folder, **changes)[0].folder == other.folder
  third = plan(folder, max_seq_length=32)[0]
  assert names([third]) == ["lr1e-04_seed1_2"]


def test_several_of_other_settings_do_not_mix(folder):
  for trial in plan(folder, seeds=[1, 2]):
    train(trial)
  assert names(plan(folder, seeds=[1, 2], max_seq_length=24)) == [
      "lr1e-04_seed1_2", "lr1e-04_seed2_2"]
  # A single one finds the output folder free.
  assert plan(folder, max_seq_length=24)[0].folder == folder


def test_what_made_no_step_leaves_its_folder(folder):
  first = plan(folder)[0]
  train(first, steps=0)
  assert not protocol.has_trained(folder)
  second = plan(folder, max_seq_length=24)[0]
  assert second.folder == folder
  # The same goes on, another begins anew.
  protocol.start_trial(first, SETTINGS, OPTIONS)
  assert checkpoint_utils.latest_step(folder)[1]
  protocol.start_trial(second, dict(SETTINGS, max_seq_length=24), OPTIONS)
  assert tf.train.latest_checkpoint(folder) is None
  assert checkpoint_utils.step_checkpoints(folder) == []


def test_checkpoints_of_unknown_settings_go_on_as_they_did(folder, caplog):
  save(folder, 4)
  trial = plan(folder)[0]
  assert trial.folder == folder
  assert "what the checkpoints in %s were trained with is not known" % (
      folder) in caplog.text
  protocol.start_trial(trial, SETTINGS, OPTIONS)
  assert checkpoint_utils.latest_step(folder)[0] == 4
  assert names(plan(folder, max_seq_length=24)) == ["lr1e-04_seed1"]


def test_the_runs_of_a_command_are_found_after_a_move(folder, tmp_path):
  assert protocol.read_trials(folder) == [protocol.Trial(None, None, folder)]
  output_dir = str(tmp_path / "a")
  os.mkdir(output_dir)
  train(plan(output_dir)[0])
  protocol.write_trials(output_dir, plan(output_dir, seeds=[1, 2]))
  moved = str(tmp_path / "b")
  shutil.move(output_dir, moved)
  assert protocol.read_trials(moved) == [
      protocol.Trial(1e-4, 1, moved),
      protocol.Trial(1e-4, 2, os.path.join(moved, "lr1e-04_seed2"))]


def test_flags_of_a_training(folder):
  assert protocol.trained_flags(folder, OPTIONS) == vars(OPTIONS)

  def parse(*arguments):
    values = flags.FlagValues()
    for name, default in (("rate", 1.0), ("length", 2.0)):
      flags.DEFINE_float(name, default, "", flag_values=values)
    flags.DEFINE_bool("do_train", False, "", flag_values=values)
    values(("script",) + arguments)
    return values

  protocol.start_trial(protocol.Trial(5.0, 1, folder), SETTINGS,
                       parse("--do_train", "--rate=5", "--length=6"))
  # Of a command that does not train, only what its user has given counts.
  assert protocol.trained_flags(folder, parse("--length=3")) == {
      "rate": 5.0, "length": 3.0, "do_train": True}
  assert protocol.trained_flags(folder, parse("--do_train")) == {
      "rate": 1.0, "length": 2.0, "do_train": True}


def test_texts_become_inputs_as_in_the_training():
  stored = {"max_seq_length": 32, "long_text": "sliding", "long_text_stride": 4}

  def adopted(stored, *arguments):
    values = flags.FlagValues()
    flags.DEFINE_integer("max_seq_length", 128, "", flag_values=values)
    flags.DEFINE_string("long_text", "head", "", flag_values=values)
    flags.DEFINE_integer("long_text_stride", None, "", flag_values=values)
    flags.DEFINE_bool("do_train", False, "", flag_values=values)
    values(("script",) + arguments)
    protocol.adopt_inputs(values, stored)
    return values.max_seq_length, values.long_text, values.long_text_stride

  assert adopted(stored) == (32, "sliding", 4)
  # What is given stays; another way with long texts has another stride.
  assert adopted(stored, "--max_seq_length=128") == (128, "sliding", 4)
  assert adopted(stored, "--long_text_stride=9") == (32, "sliding", 9)
  assert adopted(stored, "--long_text=head") == (32, "head", None)
  assert adopted(stored, "--do_train") == (128, "head", None)
  # A folder of an earlier version, and a new one.
  assert adopted({"max_seq_length": 64}) == (64, "head", None)
  assert adopted(None) == (128, "head", None)


def test_the_best_folder_is_left_to_another_run(folder):
  trials = plan(folder, seeds=[1, 2])
  for trial in trials:
    train(trial)
  best = os.path.join(folder, "best")
  os.mkdir(best)
  shutil.copy(os.path.join(trials[0].folder, protocol.TRIAL_NAME), best)
  checkpoint_utils.keep_checkpoint(
      tf.train.latest_checkpoint(trials[0].folder), best)
  protocol.leave_to(best, trials[0].folder)
  assert tf.train.latest_checkpoint(best)
  protocol.leave_to(best, trials[1].folder)
  assert tf.train.latest_checkpoint(best) is None


# ----------------------------------------------------------------- what is same


def test_digests(folder):
  first = [InputExample("1", "a", "b", "0"), InputExample("2", "c", None, "1")]
  assert protocol.examples_digest(first) == protocol.examples_digest(
      [InputExample("x", "a", "b", "0"), InputExample("y", "c", None, "1")])
  assert protocol.examples_digest(first) != protocol.examples_digest(
      first[::-1])
  checkpoint = save(folder, 3)
  content = b""
  for ending in (".data-00000-of-00001", ".index"):
    with open(checkpoint + ending, "rb") as reader:
      content += reader.read()
  assert protocol.checkpoint_sha256(checkpoint) == hashlib.sha256(
      content).hexdigest()
  digest = protocol.checkpoint_digest(checkpoint)
  assert protocol.checkpoint_digest(save(folder, 3)) != digest
  assert protocol.checkpoint_digest(None) is None
  old = os.path.join(folder, "v1.ckpt")
  with open(old, "wb") as writer:
    writer.write(b"old")
  assert protocol.checkpoint_digest(old) == hashlib.sha256(b"old").hexdigest()


def test_slots_are_no_parameters(folder):
  assert protocol.count_parameters(save(folder, 1, slots=True)) == 3 * 2 + 5


# ------------------------------------------------------------------- the choice


def test_mean_losses():
  examples = [InputExample("1", "a", None, "y"),
              InputExample("2", "a", None, "x")]
  outputs = np.array([[0.25, 0.75], [0.5, 0.5]], np.float32)
  assert protocol.mean_loss(examples, outputs, ["x", "y"], "single") == (
      pytest.approx(-np.log([0.75, 0.5]).mean()))
  examples = [InputExample("1", "a", None, ("x", "y")),
              InputExample("2", "a", None, ())]
  assert protocol.mean_loss(examples, outputs, ["x", "y"], "multi") == (
      pytest.approx(-np.log([0.25, 0.75, 0.5, 0.5]).mean()))
  examples = [InputExample("1", "a", None, 3.0),
              InputExample("2", "a", None, -1.0)]
  assert protocol.mean_loss(examples, [[2.0], [1.0]], [], "regression") == 2.5


def test_a_sure_mistake_has_a_finite_loss():
  example = [InputExample("1", "a", None, "y")]
  loss = protocol.mean_loss(example, [[1.0, 0.0]], ["x", "y"], "single")
  assert 80 < loss < 90
  example = [InputExample("1", "a", None, ("x",))]
  assert np.isfinite(
      protocol.mean_loss(example, [[0.0, 1.0]], ["x", "y"], "multi"))


def test_selection():
  rows = [{"folder": name, "learning_rate": rate, "step": step,
           "score": score, "loss": loss}
          for name, rate, step, score, loss in [
              ("a", 1e-4, 10, 0.5, 0.1), ("a", 1e-4, 20, 0.7, 0.4),
              ("b", 1e-4, 10, 0.7, 0.3), ("b", 1e-4, 20, 0.7, 0.3),
              ("c", 1e-5, 10, 0.6, 0.0)]]
  assert protocol.select(rows) is rows[2]
  chosen = protocol.best_of_trials(rows)
  assert chosen == [rows[1], rows[2], rows[4]]
  assert list(protocol.by_rate(chosen).items()) == [
      (1e-4, [rows[1], rows[2]]), (1e-5, [rows[4]])]


def test_spread():
  assert protocol.spread([0.5], 0.5) == {"mean": 0.5, "deviation": None,
                                         "best": 0.5}
  found = protocol.spread([0.5, 0.7, 0.6], 0.6)
  assert found["mean"] == pytest.approx(0.6)
  assert found["deviation"] == pytest.approx(0.1)
  assert found["best"] == 0.6
  assert protocol.describe_spread([0.5, 0.7]) == (
      "0.6000 ± 0.1414, 2 seeds: 0.5000, 0.7000")
  assert protocol.describe_spread([0.5]) == "0.5000, one seed"


def test_ids_are_checked_before_any_work():
  processor = classifier_utils.get_processor("copa")
  pairs = [InputExample("test-7-%d" % number, "a", "b", None, 7, 0)
           for number in range(2)]
  processor.check_submission(pairs)
  twice = [InputExample("test-7-%d" % number, "a", "b", None, 7, number // 2)
           for number in range(4)]
  with pytest.raises(classifier_utils.DataError,
                     match="the id 7 is that of 2 examples"):
    processor.check_submission(twice)


def test_versions():
  assert json.loads(json.dumps(protocol.versions()))["tensorflow"] == (
      tf.__version__)
