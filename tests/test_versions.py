"""Every TensorFlow: the seam, its messages, and files that go both ways."""

import glob
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import estimator_utils
import exchange
import tiny

estimator = estimator_utils.estimator
BUILT_IN = (1, 15) <= exchange.version(tf.__version__) < (2, 16)


# ------------------------------------------------------------------- the seam


def input_fn(params):
  """Points of y = 2 x, by batches of what an Estimator puts into params."""
  x = np.array([[1.0], [2.0], [3.0]], np.float32)
  data = tf.data.Dataset.from_tensor_slices(({"x": x}, 2.0 * x)).repeat(8)
  return data.batch(params.get("batch_size", 3), drop_remainder=True)


def model_fn(features, labels, mode, params):
  """A line through the origin, in what TPUEstimator and Estimator share."""
  weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
  y = weight * features["x"]
  if mode == estimator.ModeKeys.PREDICT:
    kind = estimator.tpu.TPUEstimatorSpec if params["tpu"] else (
        estimator.EstimatorSpec)
    return kind(mode, predictions={"y": y}, export_outputs={
        "y": estimator.export.PredictOutput({"y": y})})
  loss = tf.reduce_mean(tf.square(y - labels))
  train_op = tf.train.GradientDescentOptimizer(0.1).minimize(
      loss, global_step=tf.train.get_global_step())
  if params["tpu"]:
    return estimator.tpu.TPUEstimatorSpec(
        mode, loss=loss, train_op=train_op,
        eval_metrics=(lambda loss: {"mean": tf.metrics.mean(loss)},
                      [tf.reshape(loss, [1])]))
  return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def check_estimator(tested):
  """Trains, evaluates, predicts and exports."""
  tested.train(input_fn, max_steps=4)
  found = tested.get_variable_value("weight")
  assert found == pytest.approx(2.0, abs=0.05)
  results = tested.evaluate(input_fn, steps=1)
  assert results["global_step"] == 4
  assert float(results["loss"]) < 0.05
  predictions = [row["y"] for row in tested.predict(input_fn)]
  assert len(predictions) == 24
  np.testing.assert_allclose(predictions[1], [2 * found], rtol=1e-5)
  folder = tested.export_saved_model(
      os.path.join(tested.model_dir, "export"),
      estimator.export.build_raw_serving_input_receiver_fn(
          {"x": tf.placeholder(tf.float32, [None, 1])}))
  with tf.Session(graph=tf.Graph()) as session:
    tf.saved_model.loader.load(session, ["serve"], folder)
    weight, = [var for var in tf.global_variables() if var.op.name == "weight"]
    assert session.run(weight) == found


def test_tpu_estimator_without_a_tpu(tmp_path):
  with tf.Graph().as_default():
    check_estimator(estimator.tpu.TPUEstimator(
        model_fn, use_tpu=False, train_batch_size=3, eval_batch_size=3,
        predict_batch_size=3, params={"tpu": True}, export_to_tpu=False,
        config=estimator.tpu.RunConfig(model_dir=str(tmp_path))))


def test_estimator_with_a_strategy(tmp_path):
  """One process, two logical devices: what is left without several machines."""
  session_config = tf.ConfigProto(device_count={"CPU": 2})
  with tf.Graph().as_default():
    tested = estimator.Estimator(
        model_fn, params={"tpu": False}, config=estimator.RunConfig(
            model_dir=str(tmp_path), session_config=session_config,
            train_distribute=tf.distribute.MirroredStrategy(
                ["/cpu:0", "/cpu:1"])))
    check_estimator(tested)


def test_train_and_evaluate(tmp_path):
  tested = estimator.Estimator(
      model_fn, params={"tpu": False},
      config=estimator.RunConfig(model_dir=str(tmp_path)))
  results, _ = estimator.train_and_evaluate(
      tested, estimator.TrainSpec(input_fn, max_steps=4),
      estimator.EvalSpec(input_fn, steps=1, throttle_secs=0))
  assert results["global_step"] == 4
  assert float(results["loss"]) < 0.05


def test_what_is_left_out_says_so():
  assert estimator_utils.built_in_estimator() is BUILT_IN
  assert estimator_utils.HAS_MULTI_WORKER is BUILT_IN
  if BUILT_IN:
    return
  from tensorflow.python.tpu import session_support
  with pytest.raises(NotImplementedError,
                     match="no ResetComputation any more.*2.12 to 2.15"):
    session_support.ResetComputation()


@pytest.mark.skipif(BUILT_IN, reason="TensorFlow %s trains on several machines"
                    % tf.__version__)
def test_several_machines_are_not_taken_for_one(tmp_path, monkeypatch):
  monkeypatch.setenv("TF_CONFIG", json.dumps({
      "cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"]},
      "task": {"type": "worker", "index": 0}}))
  with pytest.raises(NotImplementedError, match="several machines"):
    estimator.RunConfig(model_dir=str(tmp_path),
                        train_distribute=tf.distribute.MirroredStrategy(["/cpu:0"]))


# --------------------------------------------------------------- its messages


@pytest.mark.parametrize("version", ["1.15.5", "2.12.0", "2.15.1", "2.12.0-rc1"])
def test_versions_that_bring_the_estimator(version):
  estimator_utils.check_tensorflow(version, False)


def test_versions_with_the_package():
  estimator_utils.check_tensorflow("2.16.1", True)
  estimator_utils.check_tensorflow("2.21.0", True)
  with pytest.raises(ImportError) as caught:
    estimator_utils.check_tensorflow("2.21.0", False)
  assert str(caught.value) == (
      "TensorFlow 2.21.0 comes without the Estimator, which is a package of its"
      " own since 2.16: pip install tensorflow-estimator==2.15.0")


@pytest.mark.parametrize("python,command", [
    ((3, 7), 'pip install tensorflow==1.15.5 "numpy<1.19" "protobuf<3.21"'),
    ((3, 8), "pip install tensorflow==2.13.1"),
    ((3, 9), "pip install tensorflow==2.15.1"),
    ((3, 11), "pip install tensorflow==2.15.1"),
    ((3, 13),
     "pip install tensorflow==2.21.0 tensorflow-estimator==2.15.0")])
@pytest.mark.parametrize("version", ["1.14.0", "2.0.0", "2.11.1"])
def test_versions_that_cannot_work(version, python, command):
  with pytest.raises(ImportError) as caught:
    estimator_utils.check_tensorflow(version, True, python)
  assert str(caught.value) == (
      "TensorFlow %s is installed; this project runs on 1.15 and on 2.12 and"
      " later: %s" % (version, command))


def import_with(before):
  """Imports a runner in a process of its own, after other statements."""
  return subprocess.run(
      [sys.executable, "-W", "ignore", "-c",
       "import importlib.util, sys; import tensorflow.compat.v1 as tf; "
       "%s; import run_pretraining" % before],
      cwd=tiny.ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
      universal_newlines=True, env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3"))


@pytest.mark.parametrize("before,sentence", [
    ("tf.__version__ = '2.3.1'", "error: TensorFlow 2.3.1 is installed; "),
    ("tf.__version__ = '2.21.0'; importlib.util.find_spec = lambda name: None",
     "error: TensorFlow 2.21.0 comes without the Estimator")])
def test_an_import_ends_in_one_sentence(before, sentence):
  result = import_with(before)
  assert result.returncode == 1
  assert "Traceback" not in result.stderr
  assert result.stderr.splitlines()[-1].startswith(sentence)


@pytest.mark.skipif(BUILT_IN, reason="TensorFlow %s needs no stand-ins" %
                    tf.__version__)
def test_a_tensorflow_that_lost_more_names():
  result = import_with("import tensorflow.python.util.tf_export as e;"
                       " del e.API_ATTRS_V1")
  assert result.returncode == 1
  assert "Traceback" not in result.stderr
  assert "does not import on TensorFlow " + tf.__version__ in result.stderr
  assert "the newest that it was tested on is 2.21" in result.stderr


# --------------------------------------------------------------- requirements


@pytest.mark.parametrize("minor,tensorflow,estimator_package", [
    (7, "1.15.5", None), (8, "2.13.1", None), (9, "2.15.1", None),
    (10, "2.15.1", None), (11, "2.15.1", None), (12, "2.21.0", "2.15.0"),
    (13, "2.21.0", "2.15.0")])
def test_requirements_of_each_python(minor, tensorflow, estimator_package):
  requirements = pytest.importorskip("packaging.requirements")
  environment = {"python_version": "3.%d" % minor}
  found = {}
  with open(os.path.join(tiny.ROOT, "requirements.txt")) as reader:
    lines = [line.strip() for line in reader if line[0] not in "#\n"]
  for line in lines:
    requirement = requirements.Requirement(line)
    if not requirement.marker or requirement.marker.evaluate(environment):
      assert requirement.name not in found
      found[requirement.name] = requirement.specifier
  assert found["tensorflow"].contains(tensorflow)
  # The next minor release is another project's, until it was tested.
  major, minor = exchange.version(tensorflow)
  assert not found["tensorflow"].contains("%d.%d.0" % (major, minor + 1))
  if estimator_package:
    assert found["tensorflow-estimator"].contains(estimator_package)
  else:
    assert "tensorflow-estimator" not in found
  assert {"numpy", "jieba", "six", "absl-py"} <= set(found)


# ------------------------------------------------------------------- exchange

# What other versions wrote: those kept here, and those of the matrix.
STORED = sorted(
    os.path.dirname(path) for folder in (
        os.path.join(tiny.ROOT, "tests", "golden", "exchange"),
        os.environ.get("EXCHANGE_FOLDER", "")) if folder
    for path in glob.glob(os.path.join(folder, "*", "expected.json")))


def is_older_or_same(folder):
  written_by = exchange.read_expected(folder)["tensorflow"]
  return exchange.version(written_by) <= exchange.version(tf.__version__)


def test_there_is_something_to_exchange():
  versions = {exchange.read_expected(folder)["tensorflow"] for folder in STORED}
  assert {"1.15.5", "2.21.0"} <= versions


@pytest.mark.parametrize("folder", STORED, ids=os.path.basename)
def test_records_and_checkpoints_of_any_version(folder, tmp_path):
  exchange.check_pretraining(folder, str(tmp_path / "copy"))
  exchange.check_classifier(folder)


@pytest.mark.parametrize(
    "folder", [folder for folder in STORED if is_older_or_same(folder)],
    ids=os.path.basename)
def test_saved_models_of_the_same_or_an_older_version(folder):
  exchange.check_saved_model(folder)


@pytest.mark.skipif("EXCHANGE_FOLDER" in os.environ,
                    reason="the matrix has it written before, by all versions")
def test_what_this_version_writes_it_reads(tmp_path):
  folder = str(tmp_path / "own")
  exchange.write(folder)
  exchange.check_pretraining(folder, str(tmp_path / "copy"))
  exchange.check_classifier(folder)
  exchange.check_saved_model(folder)
