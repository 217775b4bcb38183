"""The predictor: its sources, batches, threads, and the command's ways."""

import concurrent.futures
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

import classifier_model
import modeling
import run_classifier
import similarity
import tiny

LABELS = ["体育", "财经", "科技"]
TEXTS = ["今天", ("我们去公园玩", "天气很好"), "她在写信，他看书了吗。今天气很好",
         ("你", "哪"), "好"]


def write_model(folder, labels=LABELS, seed=3, settings=(), **changes):
  """Writes an output folder of run_classifier.py, with random weights."""
  tiny.write_vocab(folder)
  config_file = tiny.write_config(folder, "albert_config.json",
                                  initializer_range=1.0, **changes)
  settings = dict({"task_name": "tsv", "labels": list(labels),
                   "max_seq_length": 16, "do_lower_case": True},
                  **dict(settings))
  tiny.write(folder / "classifier.json", json.dumps(settings))
  graph, inputs, probabilities = build(config_file, len(labels) or 1, seed)
  with tf.Session(graph=graph) as session:
    with graph.as_default():
      session.run(tf.global_variables_initializer())
      tf.train.Saver().save(session, str(folder / "model.ckpt"), 7,
                            write_meta_graph=False)
      return {name: session.run(var) for name, var in
              ((v.op.name, v) for v in tf.trainable_variables())}


def build(config_file, num_labels, seed=None):
  graph = tf.Graph()
  with graph.as_default():
    tf.set_random_seed(seed)
    inputs = {name: tf.placeholder(tf.int32, [None, None], name)
              for name in similarity.INPUT_NAMES}
    probabilities = run_classifier.create_model(
        modeling.BertConfig.from_json_file(config_file), False, labels=None,
        num_labels=num_labels, use_one_hot_embeddings=False,
        **inputs).probabilities
  return graph, inputs, probabilities


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  folder = tmp_path_factory.mktemp("trained")
  write_model(folder)
  return folder


@pytest.fixture(scope="module")
def classifier(trained):
  return similarity.Classifier(str(trained), batch_size=2)


def copy_beside(trained, folder):
  for name in ("vocab.txt", "classifier.json", "albert_config.json"):
    tiny.write(folder / name, (trained / name).read_text(encoding="utf-8"))


def write_saved_model_1(trained, folder, outputs="probabilities"):
  """Writes a SavedModel as TensorFlow 1 does."""
  graph, inputs, probabilities = build(str(trained / "albert_config.json"),
                                       len(LABELS))
  with graph.as_default(), tf.Session(graph=graph) as session:
    tf.train.Saver().restore(session, str(trained / "model.ckpt-7"))
    tf.saved_model.simple_save(session, str(folder), inputs,
                               {outputs: probabilities})


def write_saved_model_2(trained, folder):
  """Writes a SavedModel as TensorFlow 2 does."""
  reader = tf.train.load_checkpoint(str(trained / "model.ckpt-7"))
  config = str(trained / "albert_config.json")

  class Model(tf2.Module):
    """The classifier, with variables of TensorFlow 2."""

    def __init__(self):
      super().__init__()
      self.all = {name.replace("/", "_"): tf2.Variable(reader.get_tensor(name))
                  for name in reader.get_variable_to_shape_map()}

    @tf2.function(input_signature=[
        tf2.TensorSpec([None, None], tf2.int32, name)
        for name in similarity.INPUT_NAMES])
    def predict(self, input_ids, input_mask, segment_ids):
      """Takes each variable that create_model asks for from `all`."""
      def getter(name, **unused_options):
        # "bert_1" where other tests have built a model in the default graph.
        return self.all[re.sub("^bert_[0-9]+/", "bert/", name).replace(
            "/", "_")]

      with tf.variable_scope("", custom_getter=getter):
        return {"probabilities": run_classifier.create_model(
            modeling.BertConfig.from_json_file(config), False, input_ids,
            input_mask, segment_ids, None, len(LABELS), False).probabilities}

  model = Model()
  tf2.saved_model.save(model, str(folder), model.predict)


# ----------------------------------------------------------------- the sources


@pytest.mark.parametrize("write_saved_model", [
    write_saved_model_1,
    pytest.param(write_saved_model_2, marks=pytest.mark.skipif(
        not tf.executing_eagerly(), reason="TensorFlow %s writes no SavedModel of"
        " TensorFlow 2" % tf.__version__))])
def test_a_saved_model_equals_its_checkpoint(trained, classifier, tmp_path,
                                             write_saved_model):
  folder = tmp_path / "exported"
  write_saved_model(trained, folder)
  copy_beside(trained, folder)
  exported = similarity.Classifier(str(folder))
  assert exported.checkpoint is None and exported.labels == LABELS
  expected = classifier.predict(TEXTS)
  assert np.ptp(expected, axis=0).max() > 0.01  # the texts do differ
  np.testing.assert_allclose(exported.predict(TEXTS), expected, atol=1e-5)
  with pytest.raises(ValueError, match="is a SavedModel, which has its own"):
    similarity.Classifier(str(folder), checkpoint="other")
  exported.close()
  with pytest.raises(RuntimeError, match="closed"):
    exported.predict(TEXTS)


def test_another_signature_is_named(trained, tmp_path):
  folder = tmp_path / "exported"
  write_saved_model_1(trained, folder, outputs="logits")
  copy_beside(trained, folder)
  with pytest.raises(ValueError, match=r"gives \['logits'\], expected .*"
                     r"\['probabilities'\]"):
    similarity.Classifier(str(folder))
  (folder / "saved_model.pb").write_bytes(b"no protobuf")
  with pytest.raises(ValueError, match="cannot be loaded"):
    similarity.Classifier(str(folder))


@pytest.mark.parametrize("layout,changes", [
    ("bert", {"embedding_size": None, "shared_type": "none"}),
    ("google", {"num_hidden_groups": 2})])
def test_the_other_layouts(tmp_path, layout, changes):
  write_model(tmp_path, layout=layout, **changes)
  found = similarity.Classifier(str(tmp_path)).predict(TEXTS)
  np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-5)


def test_any_function_may_compute(trained):
  shapes = []

  def function(arrays):
    shapes.append(arrays["input_ids"].shape)
    return {"probabilities": np.eye(3)[arrays["input_mask"].sum(1) % 3]}

  found = similarity.Classifier(str(trained), batch_size=2,
                                function=function).predict(TEXTS)
  # Lengths with the special tokens: 4, 13, 16 (of 18), 5, 3.
  assert shapes == [(2, 16), (2, 5), (1, 3)]
  assert found.argmax(axis=1).tolist() == [1, 1, 1, 2, 0]


def test_the_checkpoint_must_have_the_head(trained, tmp_path):
  copy_beside(trained, tmp_path)
  graph = tf.Graph()
  with graph.as_default(), tf.Session(graph=graph) as session:
    modeling.BertModel(modeling.BertConfig.from_json_file(
        str(trained / "albert_config.json")), False, tf.zeros([1, 3], tf.int32))
    session.run(tf.global_variables_initializer())
    tf.train.Saver().save(session, str(tmp_path / "model.ckpt"), 1)
  with pytest.raises(ValueError, match="lacks 2 variables of the model, the "
                     "first is output_weights; give a checkpoint that run_cla"):
    similarity.Classifier(str(tmp_path))


@pytest.mark.parametrize("changes,message", [
    (dict(shared_type="none"),
     "has shared_type none, but .* has shared_type all; set shared_type in the "
     "config as the checkpoint has it or use another checkpoint$"),
    (dict(ln_type="preln"), 'has ln_type "preln", but .*albert_config.json '
     'beside the checkpoint says "postln"; use that config$'),
    (dict(layout="google"), 'layout "google", but .* of the layout zh '),
    (dict(max_position_embeddings=16),
     "max_position_embeddings is 16, but .* has 32 rows "),
    (dict(hidden_size=32), "hidden_size")])
def test_a_config_of_another_model(trained, tmp_path, changes, message):
  copy_beside(trained, tmp_path)
  tiny.write_config(tmp_path, "albert_config.json", **changes)
  with pytest.raises(ValueError, match=message) as error:
    similarity.Classifier(str(tmp_path), str(trained / "model.ckpt-7"))
  assert "--" not in str(error.value)  # There are no such flags here.


def test_a_vocabulary_that_only_a_runner_may_let_grow(trained, tmp_path):
  copy_beside(trained, tmp_path)
  tokens = tiny.TOKENS + ["新"]
  tiny.write_vocab(tmp_path, tokens)
  tiny.write_config(tmp_path, "albert_config.json", vocab_size=len(tokens))
  with pytest.raises(ValueError, match="vocab_size is %d, but .* has %d rows" %
                     (len(tokens), len(tokens) - 1)) as error:
    similarity.Classifier(str(tmp_path), str(trained / "model.ckpt-7"))
  assert "--" not in str(error.value)


def test_a_sentencepiece_vocabulary_is_out_of_scope(trained, tmp_path):
  copy_beside(trained, tmp_path)
  tiny.write(tmp_path / "vocab.txt", u"<pad>\t0\n<unk>\t0\n\u2581the\t-3\n")
  with pytest.raises(ValueError, match="vocab.txt is a SentencePiece file.*out"
                     " of scope"):
    similarity.Classifier(str(tmp_path), str(trained / "model.ckpt-7"))


def test_labels_of_another_model(trained, tmp_path):
  copy_beside(trained, tmp_path)
  text = (trained / "classifier.json").read_text(encoding="utf-8")
  tiny.write(tmp_path / "classifier.json", text.replace("labels\": [",
                                                        "labels\": [\"x\", "))
  with pytest.raises(ValueError, match="the labels of the task"):
    similarity.Classifier(str(tmp_path), str(trained / "model.ckpt-7"))
  function = lambda arrays: {"probabilities": np.ones([len(
      arrays["input_ids"]), 3])}
  with pytest.raises(ValueError, match="gives 3 probabilities.*has 4 labels"):
    similarity.Classifier(str(tmp_path), function=function).predict(["我"])


# ------------------------------------------------------------------ task types


SETTINGS = {"multi": {"task_type": "multi", "use_pooled_output": False},
            "regression": {"task_type": "regression", "labels": []}}


@pytest.fixture(scope="module", params=sorted(SETTINGS))
def other_type(request, tmp_path_factory):
  """A folder of another type than single labels, and that type."""
  folder = tmp_path_factory.mktemp(request.param)
  settings = SETTINGS[request.param]
  write_model(folder, settings.get("labels", LABELS), settings=settings)
  return folder, request.param


def expected_outputs(folder, task_type, texts):
  """By `create_model`, one text at a time."""
  features = similarity.text_features(
      texts, 16, similarity.Classifier(str(folder)).tokenizer)
  rows = []
  with tf.Graph().as_default(), tf.Session() as session:
    inputs = {name: tf.placeholder(tf.int32, [1, None])
              for name in similarity.INPUT_NAMES}
    output = classifier_model.create_model(
        modeling.BertConfig.from_json_file(str(folder / "albert_config.json")),
        False, labels=None, use_one_hot_embeddings=False, task_type=task_type,
        num_labels=1 if task_type == "regression" else len(LABELS),
        head=classifier_model.Head(task_type == "regression"), **inputs)
    tf.train.Saver().restore(session, str(folder / "model.ckpt-7"))
    for feature in features:
      rows.append(session.run(output.probabilities, {
          inputs[name]: [row] for name, row in feature.items()})[0])
  return np.array(rows)


def test_answers_of_the_other_types(other_type):
  folder, task_type = other_type
  classifier = similarity.Classifier(str(folder), batch_size=2)
  assert classifier.task_type == task_type
  expected = expected_outputs(folder, task_type, TEXTS)
  found = classifier.predict(TEXTS)
  assert found.shape == expected.shape == (len(TEXTS), classifier.num_outputs)
  np.testing.assert_allclose(found, expected, atol=1e-5)
  answers = classifier.predict_labels(TEXTS)
  if task_type == "regression":
    assert classifier.num_outputs == 1
    assert answers == pytest.approx(expected[:, 0].tolist(), abs=1e-5)
    assert classifier.answer(TEXTS) == answers
    with pytest.raises(ValueError, match="a regression: .* no labels of which"):
      classifier.predict_top(TEXTS, 2)
    return
  # Labels that belong to a text may be several or none.
  assert np.abs(found.sum(axis=1) - 1).max() > 0.1
  for row, answer in zip(expected, answers):
    best = sorted(range(len(LABELS)), key=lambda index: -row[index])
    assert [label for label, _ in answer] == [
        LABELS[index] for index in best if row[index] >= 0.5]
  assert len({len(answer) for answer in answers}) > 1
  assert [len(top) for top in classifier.answer(TEXTS, 2)] == [2] * len(TEXTS)
  assert classifier.answer(TEXTS) == answers


def test_a_label_at_the_threshold_is_an_answer(tmp_path):
  write_model(tmp_path, settings=SETTINGS["multi"])
  rows = np.array([[0.5, 0.4999, 0.75], [0.1, 0.2, 0.3]])
  classifier = similarity.Classifier(
      str(tmp_path), function=lambda arrays: {"probabilities": rows})
  assert classifier.predict_labels(["我", "你"]) == [
      [("科技", 0.75), ("体育", 0.5)], []]


def test_a_regression_of_another_model(tmp_path):
  write_model(tmp_path, [], settings=SETTINGS["regression"])
  classifier = similarity.Classifier(
      str(tmp_path), function=lambda arrays: {"probabilities": np.eye(3)})
  with pytest.raises(ValueError, match="gives 3 probabilities, .* has 0 labels"
                     " and is of a regression;"):
    classifier.predict(["我"] * 3)


def test_lines_of_the_other_types():
  line = similarity.format_prediction
  assert line("我", 1.25, False).decode("utf-8") == "1.2500\t我\n"
  assert json.loads(line(("我", "你"), -0.5, True).decode("utf-8")) == {
      "text_a": "我", "text_b": "你", "value": -0.5}
  assert line("我", [], False).decode("utf-8") == "我\n"
  assert json.loads(line("我", [], True).decode("utf-8")) == {
      "text_a": "我", "predictions": []}
  assert line("我", [("a", 0.75), ("b", 0.5)], False).decode("utf-8") == (
      "a\t0.7500\tb\t0.5000\t我\n")


def test_the_command_of_the_other_types(other_type):
  folder, task_type = other_type
  result = run(folder, "--json", *TEXTS[::2])
  assert result.returncode == 0, result.stderr
  answers = [json.loads(line)
             for line in result.stdout.decode("utf-8").splitlines()]
  expected = similarity.Classifier(str(folder)).predict_labels(TEXTS[::2])
  for answer, wanted in zip(answers, expected):
    if task_type == "regression":
      assert answer["value"] == pytest.approx(wanted, abs=1e-5)
    else:
      assert [(each["label"], pytest.approx(each["probability"], abs=1e-5))
              for each in answer["predictions"]] == wanted
  assert len(answers) == 3
  if task_type == "regression":
    assert_fails(run(folder, "我", top_k=1), "--top_k is for labels, but"
                 " --model_dir %s is of a regression" % folder)


# ------------------------------------------------------------------ long texts


LONG = "今天天气很好我们去公园玩他在写信她看书吗你在哪"  # 23 characters


def test_a_long_text_is_the_mean_of_its_windows(tmp_path):
  write_model(tmp_path, settings={"long_text": "sliding",
                                  "long_text_stride": 6})
  classifier = similarity.Classifier(str(tmp_path), batch_size=2)
  texts = ["好", LONG, ("今天", LONG), "我"]
  # Room for 14 characters, of a pair for 13.
  windows = [LONG[:14], LONG[6:20], LONG[9:]]
  pairs = [("今天", LONG[begin:begin + 11]) for begin in (0, 6, 12)]
  found = classifier.predict(texts)
  np.testing.assert_allclose(found[1], classifier.predict(windows).mean(axis=0),
                             atol=1e-6)
  np.testing.assert_allclose(found[2], classifier.predict(pairs).mean(axis=0),
                             atol=1e-6)
  np.testing.assert_allclose(found[[0, 3]], classifier.predict(["好", "我"]),
                             atol=1e-6)
  np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-5)
  assert np.abs(classifier.predict(windows)[0] - found[1]).max() > 1e-3
  assert classifier.predict([]).shape == (0, 3)


def test_a_long_text_by_its_ends(tmp_path):
  write_model(tmp_path, settings={"long_text": "head_tail"})
  classifier = similarity.Classifier(str(tmp_path))
  np.testing.assert_allclose(
      classifier.predict([LONG]), classifier.predict([LONG[:4] + LONG[-10:]]),
      atol=1e-6)


def test_another_way_of_long_texts(tmp_path):
  write_model(tmp_path, settings={"long_text": "middle"})
  with pytest.raises(ValueError, match="classifier.json in .* has long_text"
                     " 'middle', expected one of head, head_tail, sliding"):
    similarity.Classifier(str(tmp_path))


# --------------------------------------------------------------------- batches


def test_batches_are_sorted_and_padded_to_their_longest():
  features = [{"input_ids": [5] * length, "places": [1] * (length // 2)}
              for length in (2, 7, 3, 6)]
  batches = list(similarity.padded_batches(features, 2))
  assert [indices for indices, _ in batches] == [[1, 3], [2, 0]]
  arrays = batches[1][1]
  assert arrays["input_ids"].tolist() == [[5, 5, 5], [5, 5, 0]]
  assert arrays["places"].tolist() == [[1], [1]]
  assert arrays["places"].dtype == np.int32
  rows = similarity.run_in_batches(
      lambda arrays: {"sum": arrays["input_ids"].sum(axis=1)}, features, 2)
  assert [row["sum"] for row in rows] == [10, 35, 15, 30]


def test_rows_do_not_depend_on_their_batch(classifier):
  alone = np.concatenate([classifier.predict([text]) for text in TEXTS])
  for batch_size in (1, 2, 50):
    classifier.batch_size = batch_size
    np.testing.assert_allclose(classifier.predict(TEXTS), alone, atol=1e-5)
  classifier.batch_size = 2


def test_many_threads_one_graph(classifier):
  expected = [classifier.predict([text]) for text in TEXTS]
  graph = classifier._function._session.graph
  num_ops = len(graph.get_operations())
  with concurrent.futures.ThreadPoolExecutor(8) as pool:
    found = list(pool.map(lambda text: classifier.predict([text]), TEXTS * 20))
  for array, reference in zip(found, expected * 20):
    np.testing.assert_allclose(array, reference, atol=1e-5)
  assert graph.finalized and len(graph.get_operations()) == num_ops


def test_threads_start_one_model(trained):
  sim = similarity.BertSim(model_dir=str(trained))
  with concurrent.futures.ThreadPoolExecutor(4) as pool:
    loaded = list(pool.map(
        lambda _: (sim.start_model(), sim._classifier)[1], range(4)))
  assert loaded[0] is not None and len(set(map(id, loaded))) == 1


def test_top_labels(classifier):
  probabilities = classifier.predict(TEXTS)
  for row, top in zip(probabilities, classifier.predict_top(TEXTS, 2)):
    assert [label for label, _ in top] == [
        LABELS[index] for index in sorted(range(3), key=lambda i: -row[i])[:2]]
    assert [p for _, p in top] == sorted(row.tolist(), reverse=True)[:2]
  assert [len(top) for top in classifier.predict_top(["我"], 9)] == [3]
  assert classifier.predict_top([], 1) == []


@pytest.mark.parametrize("texts,message", [
    ("今天", "expected a list of texts, found the text '今天'"),
    (["我", ("a", "b", "c")], "text 1 is .* expected a string or a pair"),
    ([None], "text 0 is None"), ([("我", 3)], r"text 0 is \('我', 3\)")])
def test_what_is_no_text(classifier, texts, message):
  with pytest.raises(ValueError, match=message):
    classifier.predict(texts)


# --------------------------------------------------------------- the command


def run(trained, *switches, **options):
  stdin = options.pop("stdin", "")
  flags = ["--%s=%s" % item for item in sorted(options.items())]
  return subprocess.run(
      [sys.executable, os.path.join(tiny.ROOT, "similarity.py"),
       "--model_dir=%s" % trained] + flags + list(switches),
      input=stdin if isinstance(stdin, bytes) else stdin.encode("utf-8"),
      stdout=subprocess.PIPE, stderr=subprocess.PIPE,
      env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3"))


def assert_fails(result, *parts):
  error = result.stderr.decode("utf-8")
  assert result.returncode != 0 and "Traceback" not in error, error
  for part in parts:
    assert part in error, error


def test_json_lines_of_a_file(trained, classifier, tmp_path):
  # U+2028 is no end of a line.
  tiny.write(tmp_path / "texts.txt", "\ufeff今天\r\n\n我们\u2028\t天气很好\n")
  output_file = tmp_path / "answers.jsonl"
  result = run(trained, "--json", top_k=2, output_file=output_file,
               input_file=tmp_path / "texts.txt")
  assert result.returncode == 0 and result.stdout == b"", result.stderr
  rows = [json.loads(line) for line in
          output_file.read_text(encoding="utf-8").split("\n")[:-1]]
  texts = ["今天", ("我们\u2028", "天气很好")]
  assert [(row["text_a"], row.get("text_b")) for row in rows] == [
      ("今天", None), texts[1]]
  for row, best in zip(rows, classifier.predict_top(texts, 2)):
    assert [(p["label"], pytest.approx(p["probability"], abs=1e-5))
            for p in row["predictions"]] == best
  assert sorted(os.listdir(str(tmp_path))) == ["answers.jsonl", "texts.txt"]


def test_standard_input_in_parts(trained, classifier):
  texts = ["我", ("他", "她"), "今天", "好", "你在哪"]
  assert list(similarity.in_parts(iter(texts), 2)) == [
      texts[:2], texts[2:4], texts[4:]]
  stdin = "".join("\t".join([text] if isinstance(text, str) else text) + "\n"
                  for text in texts)
  result = run(trained, stdin=stdin, top_k=3, batch_size=2)
  assert result.returncode == 0, result.stderr
  lines = result.stdout.decode("utf-8").splitlines()
  for line, text, best in zip(lines, texts, classifier.predict_top(texts, 3)):
    fields = line.split("\t")
    assert fields[0:6:2] == [label for label, _ in best]
    np.testing.assert_allclose([float(p) for p in fields[1:6:2]],
                               [p for _, p in best], atol=1e-4)
    assert fields[6:] == ([text] if isinstance(text, str) else list(text))
  assert len(lines) == 5


def test_interactive_answers_at_once_and_goes_on(trained):
  arguments = [sys.executable, os.path.join(tiny.ROOT, "similarity.py"),
               "--model_dir=%s" % trained, "--interactive"]
  with subprocess.Popen(
      arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3")) as process:
    for line in ("今天\n", "a\tb\tc\n", "我们\t他\n"):
      process.stdin.write(line.encode("utf-8"))
      process.stdin.flush()
      if line.count("\t") < 2:  # The answer is there before the input ends.
        answer = process.stdout.readline().decode("utf-8")
        assert answer.endswith("\t" + line) and answer.split("\t")[0] in LABELS
    rest, error = process.communicate()
  assert rest == b"" and process.returncode == 0
  assert "the line has 2 tabs" in error.decode("utf-8")


def test_what_the_command_says(trained, tmp_path):
  assert_fails(run(trained, input_file=tmp_path / "none"),
               "--input_file: there is no file")
  assert_fails(run(trained, "我", input_file=tmp_path), "give one of them")
  assert_fails(run(trained, "--interactive", "我"), "leave out the texts")
  assert_fails(run(trained, "我", output_file=tmp_path / "no" / "file"),
               "there is no folder")
  assert_fails(run(trained, "我", checkpoint=tmp_path / "model.ckpt-9"),
               "there is no checkpoint", "model.ckpt-9")
  assert_fails(run(trained, "我", topk=2), "Unknown command line flag 'topk'")
  output_file = tmp_path / "out"
  assert_fails(run(trained, stdin="我\n".encode("utf-8") + b"\xb0\xa1\n",
                   output_file=output_file),
               "standard input, line 2 is not UTF-8")
  assert os.listdir(str(tmp_path)) == []


# ----------------------------------------------------------------- long texts


def test_long_texts_are_answered_as_in_training(tmp_path):
  write_model(tmp_path)
  of_head = similarity.Classifier(str(tmp_path), batch_size=2)
  settings = run_classifier.read_classifier(str(tmp_path))

  def trained_with(**changes):
    tiny.write(tmp_path / "classifier.json", json.dumps(dict(settings,
                                                             **changes)))
    return similarity.Classifier(str(tmp_path), batch_size=2)

  text = "".join(tiny.TOKENS[5:])[:20]  # of which 14 fit
  pair = text, "好天"  # 13
  # The first quarter of what fits and the last three.
  np.testing.assert_allclose(
      trained_with(long_text="head_tail").predict([text, "好", pair]),
      of_head.predict([text[:4] + text[-10:], "好",
                       (text[:3] + text[-8:], "好天")]), atol=1e-6)
  windows = [text[0:14], text[4:18], text[6:20]]
  pairs = [(text[begin:begin + 11], "好天") for begin in (0, 4, 8, 9)]
  of_windows = of_head.predict(windows + pairs)
  sliding = trained_with(long_text="sliding", long_text_stride=4)
  found = sliding.predict([pair, "好", text])
  np.testing.assert_allclose(
      found, [of_windows[3:].mean(axis=0), of_head.predict(["好"])[0],
              of_windows[:3].mean(axis=0)], atol=1e-6)
  # A test that cuts off the end would tell.
  assert np.abs(found[2] - of_windows[0]).max() > 1e-3
  assert sliding.predict([]).shape == (0, 3)
