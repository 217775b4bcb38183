"""Exports: equal to their checkpoint, without this project, in each format."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

import export_model
import modeling
import run_classifier
import run_pretraining
import similarity
import tiny

LAYOUTS = {
    "zh": {"ln_type": "preln", "final_layer_norm": True},
    "google": {"layout": "google", "num_hidden_groups": 2},
    "bert": {"layout": "bert", "embedding_size": None, "shared_type": "none"}}
KINDS = ("classifier", "encoder", "masked_lm")
LABELS = ["体育", "财经", "科技"]
TEXTS = ["今天", ("我们去公园玩", "天气很好"), "她在写信，他看书了吗。"]
OUTPUTS = {"classifier": ["logits", "probabilities"],
           "encoder": ["pooled_output", "sequence_output"],
           "masked_lm": ["log_probs"]}

needs_tf2 = pytest.mark.skipif(
    not tf.executing_eagerly(),
    reason="TensorFlow %s has no signatures in Lite, nor tf.saved_model.load of"
    " TensorFlow 2" % tf.__version__)


def build(config, kind, inputs):
  """The outputs by the code that trains, not by the exporter's."""
  if kind == "classifier":
    output = run_classifier.create_model(config, False, labels=None,
                                         num_labels=len(LABELS),
                                         use_one_hot_embeddings=False, **inputs)
    return {"probabilities": output.probabilities, "logits": output.logits}
  model = modeling.BertModel(config, False, inputs["input_ids"],
                             inputs["input_mask"], inputs["segment_ids"])
  if kind == "encoder":
    return {"sequence_output": model.get_sequence_output(),
            "pooled_output": model.get_pooled_output()}
  rows, length = inputs["input_ids"].shape.as_list()
  positions = tf.constant([list(range(length))] * rows)
  log_probs = run_pretraining.get_masked_lm_output(
      config, model.get_sequence_output(), model.get_embedding_table(),
      model.get_embedding_table_2(), positions, positions,
      tf.ones([rows, length])).log_probs
  return {"log_probs": tf.reshape(log_probs, [rows, length, -1])}


def write_checkpoint(folder, kind, **changes):
  """Writes random weights, and what stands beside a checkpoint."""
  tiny.write_vocab(folder)
  config = modeling.BertConfig.from_json_file(tiny.write_config(
      folder, "albert_config.json", initializer_range=0.5, **changes))
  if kind == "classifier":
    tiny.write(folder / "classifier.json", json.dumps({
        "task_name": "tsv", "labels": LABELS, "max_seq_length": 12,
        "do_lower_case": True}))
  graph = tf.Graph()
  with graph.as_default(), tf.Session(graph=graph) as session:
    tf.set_random_seed(1)
    global_step = tf.train.create_global_step()
    build(config, kind, constants(some_inputs(2, 5)))
    session.run(tf.global_variables_initializer())
    session.run(global_step.assign(4))
    tf.train.Saver().save(session, str(folder / "model.ckpt"), 4)


def some_inputs(rows, length):
  random = np.random.RandomState(rows)
  mask = (np.arange(length) < random.randint(2, length + 1, [rows, 1]))
  arrays = (random.randint(0, len(tiny.TOKENS), [rows, length]), mask,
            mask * (np.arange(length) > 2))
  return {name: array.astype(np.int32)
          for name, array in zip(similarity.INPUT_NAMES, arrays)}


def constants(inputs):
  return {name: tf.constant(array) for name, array in inputs.items()}


def expected(folder, kind, inputs):
  graph = tf.Graph()
  with graph.as_default(), tf.Session(graph=graph) as session:
    outputs = build(modeling.BertConfig.from_json_file(
        str(folder / "albert_config.json")), kind, constants(inputs))
    tf.train.Saver(tf.trainable_variables()).restore(
        session, str(folder / "model.ckpt-4"))
    return session.run(outputs)


def read_source(folder, kind, **changes):
  options = export_model.parse_arguments([
      "--model=%s" % kind, "--init_checkpoint=%s" % folder, "--export_dir=-"])
  vars(options).update(changes)
  return export_model.read_source(options)


def assert_equal(found, wanted, atol=1e-4):
  assert sorted(found) == sorted(wanted)
  for name, array in wanted.items():
    assert found[name].shape == array.shape
    np.testing.assert_allclose(found[name], array, atol=atol)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
  """Folder of every (layout, kind)."""
  result = {}
  for layout, changes in LAYOUTS.items():
    for kind in KINDS:
      result[layout, kind] = tmp_path_factory.mktemp("%s_%s" % (layout, kind))
      write_checkpoint(result[layout, kind], kind, **changes)
  return result


@pytest.fixture(scope="module")
def exported(checkpoints, tmp_path_factory):
  """SavedModel of every (layout, kind)."""
  folder = tmp_path_factory.mktemp("exported")
  result = {}
  for (layout, kind), checkpoint in checkpoints.items():
    result[layout, kind] = folder / ("%s_%s" % (layout, kind))
    rows = export_model.export(read_source(checkpoint, kind),
                               str(result[layout, kind]))
    assert [row.name for row in rows] == ["saved_model"]
  assert len(os.listdir(str(folder))) == len(checkpoints)  # nothing else left
  return result


# ------------------------------------------------------------------ SavedModel

# Runs with an empty folder as its own and no path but the installed packages'.
PLAIN = """
import sys
import numpy as np
import tensorflow as tf
for name in ("modeling", "bert_utils", "export_model"):
  try:
    __import__(name)
    sys.exit("found " + name)
  except ImportError:
    pass
for folder in sys.argv[1:]:
  function = tf.saved_model.load(folder).signatures["serving_default"]
  for number in (1, 2):
    inputs = dict(np.load("inputs_%d.npz" % number))
    outputs = function(**{name: tf.constant(inputs[name]) for name in inputs})
    np.savez(folder + "_%d.npz" % number,
             **{name: outputs[name].numpy() for name in outputs})
"""


@needs_tf2
def test_plain_tensorflow_loads_it(checkpoints, exported, tmp_path):
  inputs = {1: some_inputs(3, 7), 2: some_inputs(1, 20)}
  for number, arrays in inputs.items():
    np.savez(str(tmp_path / ("inputs_%d.npz" % number)), **arrays)
  environment = {name: value for name, value in os.environ.items()
                 if name != "PYTHONPATH"}
  subprocess.run([sys.executable, "-c", PLAIN] +
                 [str(folder) for folder in exported.values()],
                 cwd=str(tmp_path), env=environment, check=True)
  for (layout, kind), folder in exported.items():
    for number, arrays in inputs.items():
      found = dict(np.load("%s_%d.npz" % (folder, number)))
      assert sorted(found) == OUTPUTS[kind]
      assert_equal(found, expected(checkpoints[layout, kind], kind, arrays))


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_similarity_loads_it(checkpoints, exported, layout):
  folder = exported[layout, "classifier"]
  assert {"saved_model.pb", "classifier.json", "vocab.txt",
          "albert_config.json"} < set(os.listdir(str(folder)))
  ours = similarity.Classifier(str(folder))
  theirs = similarity.Classifier(str(checkpoints[layout, "classifier"]))
  assert ours.labels == LABELS
  wanted = theirs.predict(TEXTS)
  assert np.ptp(wanted, axis=0).max() > 0.001
  np.testing.assert_allclose(ours.predict(TEXTS), wanted, atol=1e-6)


def test_what_stands_beside_it(checkpoints, exported):
  source, folder = checkpoints["google", "encoder"], exported["google",
                                                              "encoder"]
  read = lambda path: json.loads(path.read_text(encoding="utf-8"))
  assert (folder / "vocab.txt").read_bytes() == (
      source / "vocab.txt").read_bytes()
  config = modeling.BertConfig.from_json_file(
      str(folder / "albert_config.json"))
  assert (config.layout, config.num_hidden_groups) == ("google", 2)
  assert not (folder / "classifier.json").exists()
  assert read(folder / "export.json") == {
      "model": "encoder", "checkpoint": "model.ckpt-4", "global_step": 4,
      "do_lower_case": True, "max_seq_length": 32, "files": {},
      "inputs": ["input_ids", "input_mask", "segment_ids"]}
  # Nobody who is given a model learns where it was trained.
  graph = (folder / "saved_model.pb").read_bytes()
  assert str(source).encode("utf-8") not in graph
  lengths = {
      read(exported["zh", "classifier"] / name)["max_seq_length"]
      for name in ("classifier.json", "export.json")}
  assert lengths == {12}


def test_a_folder_stands_for_the_best_checkpoint(tmp_path):
  write_checkpoint(tmp_path, "classifier")
  (tmp_path / "best").mkdir()
  write_checkpoint(tmp_path / "best", "classifier")
  source = read_source(tmp_path, "classifier")
  assert source.model.checkpoint == str(tmp_path / "best" / "model.ckpt-4")
  source = read_source(tmp_path / "model.ckpt-4", "classifier",
                       max_seq_length=9)
  assert source.model.checkpoint == str(tmp_path / "model.ckpt-4")
  assert source.classifier["max_seq_length"] == 9


# ------------------------------------------------------------------ task types


TYPES = {"multi": dict(task_type="multi", use_pooled_output=False),
         "regression": dict(task_type="regression", labels=[])}


@pytest.fixture(scope="module", params=sorted(TYPES))
def other_type(request, tmp_path_factory):
  """A classifier's folder with other fields in classifier.json."""
  folder = tmp_path_factory.mktemp(request.param)
  write_checkpoint(folder, "classifier")
  path = folder / "classifier.json"
  settings = dict(json.loads(path.read_text(encoding="utf-8")),
                  **TYPES[request.param])
  if request.param == "regression":
    reader = tf.train.load_checkpoint(str(folder / "model.ckpt-4"))
    with tf.Graph().as_default(), tf.Session() as session:
      for name in reader.get_variable_to_shape_map():
        value = reader.get_tensor(name)
        if name.startswith("output_"):
          value = value[:1] * 300  # of another size than probabilities
        tf.get_variable(name, initializer=tf.constant(value))
      session.run(tf.global_variables_initializer())
      tf.train.Saver().save(session, str(folder / "model.ckpt"), 4)
  tiny.write(path, json.dumps(settings))
  return folder, request.param


def test_the_other_types_as_a_saved_model(other_type, tmp_path):
  folder, task_type = other_type
  row, = export_model.export(read_source(folder, "classifier"),
                             str(tmp_path / "export"), texts=TEXTS)
  exported = similarity.Classifier(str(tmp_path / "export"))
  source = similarity.Classifier(str(folder))
  assert exported.task_type == task_type
  expected = source.predict(TEXTS)
  np.testing.assert_allclose(exported.predict(TEXTS), expected, rtol=1e-5,
                             atol=1e-6)
  if task_type == "regression":
    assert np.abs(expected).max() > 2 and expected.shape == (3, 1)
    assert (row.same, row.places) == (None, None)
  else:
    assert (row.same, row.places) == (9, 9)


@needs_tf2
def test_the_other_types_as_tensorflow_lite(other_type, tmp_path):
  folder, _ = other_type
  source = read_source(folder, "classifier", max_seq_length=10)
  export_model.export(source, str(tmp_path / "export"), ["tflite"],
                      texts=TEXTS)
  path = tmp_path / "export" / "model.tflite"
  assert not custom_operations(tf2.lite.Interpreter(str(path)))
  found = export_model.load_tflite(str(path))
  inputs = export_model.make_inputs(source, TEXTS)
  classifier = similarity.Classifier(str(folder))
  classifier.max_seq_length = 10
  for arrays, expected in zip(inputs, classifier.predict(TEXTS)):
    np.testing.assert_allclose(found(arrays)["probabilities"][0], expected,
                               rtol=1e-4, atol=1e-4)


def test_decisions_and_differences_by_type(other_type):
  folder, task_type = other_type
  source = read_source(folder, "classifier")
  mask = {"input_mask": np.ones([1, 4], np.int32)}
  answer = lambda *values: lambda arrays: {"probabilities": np.array([values])}
  if task_type == "multi":
    assert export_model.agreement(
        source, answer(0.5, 0.2, 0.6), answer(0.4, 0.1, 0.9), [mask]) == (
            pytest.approx(0.3), 2, 3)
  else:
    assert export_model.agreement(
        source, answer(-202.0), answer(-200.0), [mask]) == (
            pytest.approx(0.01), None, None)
    assert export_model.agreement(
        source, answer(0.2), answer(0.1), [mask])[0] == pytest.approx(0.1)


# --------------------------------------------------------------- other formats


def custom_operations(interpreter):
  """Operations that TensorFlow Lite does not have itself."""
  return [each["op_name"] for each in interpreter._get_ops_details()
          if each["op_name"].startswith(("Flex", "Custom", "CUSTOM"))]


@needs_tf2
@pytest.mark.parametrize("layout,kind", [
    ("zh", "classifier"), ("google", "encoder"), ("bert", "masked_lm")])
def test_tensorflow_lite_of_one_length(checkpoints, tmp_path, layout, kind):
  source = read_source(checkpoints[layout, kind], kind, max_seq_length=10)
  formats = ["tflite", "tflite_int8", "tflite_float16"]
  rows = export_model.export(source, str(tmp_path / "export"), formats)
  assert [row.name for row in rows] == ["saved_model"] + formats
  assert [row.num_bytes for row in rows[1:]] == [
      os.path.getsize(str(tmp_path / "export" / export_model.FILES[name]))
      for name in formats]
  inputs = some_inputs(1, 10)
  wanted = expected(checkpoints[layout, kind], kind, inputs)
  for name, atol in (("model", 1e-4), ("model_float16", 0.1)):
    interpreter = tf2.lite.Interpreter(
        str(tmp_path / "export" / (name + ".tflite")))
    assert not custom_operations(interpreter)
    runner = interpreter.get_signature_runner("serving_default")
    assert_equal(runner(**inputs), wanted, atol)


@needs_tf2
def test_weights_of_fewer_bits(tmp_path):
  # Weights of the tiny model are too small to be converted.
  write_checkpoint(tmp_path, "classifier", hidden_size=64,
                   intermediate_size=256)
  formats = ["tflite_int8", "tflite_float16", "tflite"]
  rows = export_model.export(read_source(tmp_path, "classifier"),
                             str(tmp_path / "export"), formats)[1:]
  sizes = [row.num_bytes for row in rows]
  assert sizes == sorted(sizes) and sizes[0] < 0.6 * sizes[2]
  deltas = [row.delta for row in rows]
  assert deltas == sorted(deltas, reverse=True) and deltas[1] > deltas[2]
  assert deltas[0] < 0.05
  interpreter = tf2.lite.Interpreter(
      str(tmp_path / "export/model_int8.tflite"))
  assert not custom_operations(interpreter)


@needs_tf2
@pytest.mark.parametrize("layout,kind", [
    ("zh", "masked_lm"), ("google", "classifier"), ("bert", "encoder")])
def test_tensorflow_lite_of_any_length(checkpoints, tmp_path, layout, kind):
  export_model.export(read_source(checkpoints[layout, kind], kind),
                      str(tmp_path / "export"), ["tflite"], resizable=True)
  interpreter = tf2.lite.Interpreter(str(tmp_path / "export/model.tflite"))
  assert not custom_operations(interpreter)
  runner = interpreter.get_signature_runner("serving_default")
  for inputs in (some_inputs(3, 7), some_inputs(1, 20)):
    assert_equal(runner(**inputs),
                 expected(checkpoints[layout, kind], kind, inputs))


@pytest.mark.parametrize("layout,kind", [
    ("zh", "classifier"), ("google", "encoder"), ("bert", "masked_lm")])
def test_onnx(checkpoints, tmp_path, layout, kind):
  pytest.importorskip("tf2onnx")
  onnxruntime = pytest.importorskip("onnxruntime")
  rows = export_model.export(read_source(checkpoints[layout, kind], kind),
                             str(tmp_path / "export"), ["onnx"])
  assert rows[1].delta <= 1e-4
  session = onnxruntime.InferenceSession(
      str(tmp_path / "export/model.onnx"), providers=["CPUExecutionProvider"])
  assert {each.name for each in session.get_inputs()} == set(
      similarity.INPUT_NAMES)
  names = [each.name for each in session.get_outputs()]
  for inputs in (some_inputs(3, 7), some_inputs(1, 20)):
    assert_equal(dict(zip(names, session.run(names, inputs))),
                 expected(checkpoints[layout, kind], kind, inputs))


# ------------------------------------------------------------------ comparison


def test_differences_and_decisions(checkpoints):
  source = read_source(checkpoints["zh", "classifier"], "classifier")
  inputs = export_model.make_inputs(source, TEXTS)
  assert [arrays["input_mask"].shape for arrays in inputs] == [(1, 12)] * 3
  theirs = lambda arrays: {"probabilities": np.array([[0.5, 0.3, 0.2]])}
  # Another label of the one text that is a pair.
  ours = lambda arrays: {"probabilities": np.array(
      [[0.3, 0.5, 0.2] if arrays["segment_ids"].any() else [0.6, 0.2, 0.2]])}
  delta, same, places = export_model.agreement(source, ours, theirs, inputs)
  assert delta == pytest.approx(0.2)
  assert (same, places) == (2, 3)


def test_padding_is_not_compared(checkpoints):
  source = read_source(checkpoints["zh", "encoder"], "encoder")
  zeros = {"sequence_output": np.zeros([1, 5, 2]),
           "pooled_output": np.zeros([1, 2])}
  other = dict(zeros, sequence_output=np.zeros([1, 5, 2]))
  other["sequence_output"][0, 3:] = 1
  inputs = [{"input_mask": np.array([[1, 1, 1, 0, 0]])}]
  find = lambda: export_model.agreement(
      source, lambda arrays: zeros, lambda arrays: other, inputs)
  assert find() == (0, None, None)
  other["sequence_output"][0, 2, 1] = 0.5
  assert find() == (0.5, None, None)


def test_a_wrong_export_is_not_kept(checkpoints, tmp_path, monkeypatch):
  source = read_source(checkpoints["zh", "classifier"], "classifier")
  load = export_model.load_saved_model

  def load_wrong(folder):
    function = load(folder)
    wrong = lambda arrays: dict(function(arrays), probabilities=np.full(
        [1, len(LABELS)], np.nan))
    wrong.close = function.close
    return wrong

  monkeypatch.setattr(export_model, "load_saved_model", load_wrong)
  with pytest.raises(ValueError, match="saved_model differs from the model by"
                     " nan, more than 1e-04, and is not kept"):
    export_model.export(source, str(tmp_path / "export"))
  assert not os.listdir(str(tmp_path))


# ----------------------------------------------------------------- the command


def test_the_table(checkpoints, tmp_path):
  tiny.write(tmp_path / "texts.txt", "今天\n我们去公园玩\t天气很好\n")
  result = tiny.run_script(
      "scripts/export_model.py", test_file=tmp_path / "texts.txt",
      init_checkpoint=checkpoints["zh", "classifier"],
      export_dir=tmp_path / "export")
  assert result.returncode == 0, result.stderr
  lines = result.stdout.splitlines()
  assert lines[2:4] == [
      "| format | MB | max delta | same decisions | ms a text |",
      "| --- | ---: | ---: | ---: | ---: |"]
  fields = [field.strip() for field in lines[4].split("|")[1:-1]]
  assert fields[0] == "saved_model" and fields[3] == "2 of 2"
  assert float(fields[2]) < 1e-5 and float(fields[4]) > 0
  assert "on 2 texts" in result.stdout and "machine: " in result.stdout
  # A second time, nothing is touched.
  before = os.stat(str(tmp_path / "export/saved_model.pb")).st_mtime_ns
  tiny.assert_fails(
      tiny.run_script("scripts/export_model.py",
                      init_checkpoint=checkpoints["zh", "classifier"],
                      export_dir=tmp_path / "export"),
      "--export_dir", "exists already and is not overwritten")
  assert os.stat(
      str(tmp_path / "export/saved_model.pb")).st_mtime_ns == before


def run_main(capsys, *arguments):
  """What main says when it ends with an error."""
  with pytest.raises(SystemExit) as caught:
    export_model.main(list(arguments))
  return "%s %s" % (caught.value.code, capsys.readouterr().err)


@pytest.mark.parametrize("arguments,parts", [
    (["--formats=tflite,onxx"], ["found 'onxx'", "tflite_int8"]),
    (["--max_seq_length=33"], ["33", "max_position_embeddings 32"]),
    (["--test_file=nowhere.txt"], ["--test_file", "nowhere.txt"]),
    (["--model=masked_lm"], ["lacks 5 variables", "give one of pre-training"])])
def test_what_the_command_refuses(checkpoints, tmp_path, capsys, arguments,
                                  parts):
  message = run_main(
      capsys, "--init_checkpoint=%s" % checkpoints["zh", "classifier"],
      "--export_dir=%s" % (tmp_path / "export"), *arguments)
  for part in parts:
    assert part in message
  assert not os.listdir(str(tmp_path))


@pytest.mark.parametrize("name,part", [
    ("", "has no classifier.json"), ("model.ckpt-4", "has no classifier.json"),
    ("model.ckpt-5", "--init_checkpoint: there is no checkpoint")])
def test_what_is_no_classifier(checkpoints, tmp_path, capsys, name, part):
  message = run_main(
      capsys, "--init_checkpoint=%s" % (checkpoints["zh", "encoder"] / name),
      "--export_dir=%s" % (tmp_path / "export"))
  assert part in message


def test_a_missing_package_is_named(monkeypatch):
  monkeypatch.setitem(sys.modules, "tf2onnx", None)
  with pytest.raises(ValueError, match="pip install tf2onnx onnxruntime"):
    export_model.check_packages(["onnx"])
  if tf.executing_eagerly():
    export_model.check_packages(["tflite"])
    return
  with pytest.raises(ValueError, match="TensorFlow Lite needs TensorFlow 2"):
    export_model.check_packages(["tflite"])
