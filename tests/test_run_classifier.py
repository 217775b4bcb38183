"""Fine-tuning, evaluation and prediction, and the predictor of its result."""

import json
import os
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import classifier_utils
import modeling
import run_classifier
import similarity
import tiny
import tokenization

TRAIN = [("今天好吗", "今天好不好", "1"), ("你在哪", "看书了吗", "0"),
         ("我们去玩", "我们去公园玩", "1"), ("天气很好", "他在写信", "0")]


def write_lcqmc(folder, train=TRAIN, test=(("今天好", "好吗"),
                                           ("他", "她"))):
  header = "text_a\ttext_b\tlabel\n"
  for name, rows in (("train", train), ("dev", TRAIN)):
    tiny.write(folder / (name + ".txt"),
               header + "".join("\t".join(row) + "\n" for row in rows))
  tiny.write(folder / "test.txt", "text_a\ttext_b\n" + "".join(
      "\t".join(row) + "\n" for row in test))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  """Folder with vocabulary and config."""
  path = tmp_path_factory.mktemp("model")
  tiny.write_vocab(path)
  tiny.write_config(path)
  return path


def run(model, data, output, *switches, **flags):
  values = dict(
      task_name="lcqmc", data_dir=data, output_dir=output,
      vocab_file=model / "vocab.txt", bert_config_file=model / "config.json",
      max_seq_length=16, train_batch_size=2, num_train_epochs=2,
      save_checkpoints_steps=2, log_steps=1)
  values.update(flags)
  return tiny.run_script("run_classifier.py", *switches, **values)


@pytest.fixture(scope="module")
def trained(model, tmp_path_factory):
  """An output folder after training, evaluation and prediction."""
  data_dir = tmp_path_factory.mktemp("lcqmc")
  output_dir = tmp_path_factory.mktemp("output")
  write_lcqmc(data_dir)
  # A checkpoint that somebody put here, without a step in its name.
  (output_dir / "albert_model.ckpt.index").write_bytes(b"")
  result = run(model, data_dir, output_dir, "--do_train", "--do_eval",
               "--do_predict")
  assert result.returncode == 0, result.stderr
  return output_dir, data_dir, result


# ------------------------------------------------------------------ end to end


def test_results_of_a_run(trained):
  output_dir, data_dir, result = trained
  results = json.loads((output_dir / "eval_results.json").read_text())
  assert [row["step"] for row in results["checkpoints"]] == [2, 4]
  best = min(results["checkpoints"],
             key=lambda row: (-row["eval_accuracy"], row["eval_loss"]))
  assert results["best_checkpoint"] == best["checkpoint"]
  assert results["eval_accuracy"] == best["eval_accuracy"]
  assert results["accuracy"] == pytest.approx(best["eval_accuracy"])
  matrix = np.array(results["confusion_matrix"])
  assert matrix.sum() == 4
  assert results["accuracy"] == np.trace(matrix) / 4
  assert sorted(results["per_class"]) == ["0", "1"]
  assert "macro_f1" in results
  assert "eval_accuracy = " in (output_dir / "eval_results.txt").read_text()
  # Nothing is written into the data folder.
  assert sorted(os.listdir(str(data_dir))) == ["dev.txt", "test.txt",
                                               "train.txt"]
  assert "macro-F1" in result.stderr


def test_predictions_without_labels(trained):
  output_dir, _, _ = trained
  rows = [[float(value) for value in line.split("\t")] for line in
          (output_dir / "test_results.tsv").read_text().splitlines()]
  assert len(rows) == 2
  np.testing.assert_allclose(np.sum(rows, axis=1), 1.0, rtol=1e-5)
  predicted = [json.loads(line) for line in
               (output_dir / "lcqmc_predict.json").read_text().splitlines()]
  assert predicted == [{"id": index, "label": str(int(np.argmax(row)))}
                       for index, row in enumerate(rows)]
  assert not (output_dir / "test_results.json").exists()


def test_the_best_checkpoint_predicts_in_a_later_run_too(trained, model):
  output_dir, data_dir, _ = trained
  best = json.loads((output_dir / "eval_results.json").read_text())
  result = run(model, data_dir, output_dir, "--do_predict")
  assert result.returncode == 0, result.stderr
  name = os.path.basename(best["best_checkpoint"])
  assert "2 predictions of %s" % (output_dir / "best" / name) in result.stderr
  assert "is reused" in result.stderr


def test_the_best_checkpoint_is_exported(trained, model, tmp_path):
  output_dir, data_dir, _ = trained
  best = json.loads((output_dir / "eval_results.json").read_text())
  export_dir = tmp_path / "new" / "export"
  result = run(model, data_dir, output_dir, "--do_export",
               export_dir=export_dir)
  assert result.returncode == 0, result.stderr
  described = json.loads((export_dir / "export.json").read_text())
  assert described["checkpoint"] == os.path.basename(best["best_checkpoint"])
  pairs = [("今天好", "好吗"), ("他", "她")]
  np.testing.assert_allclose(
      similarity.Classifier(str(export_dir)).predict(pairs),
      similarity.Classifier(str(output_dir)).predict(pairs), atol=1e-6)
  # Said before anything is trained, not after it.
  result = run(model, data_dir, output_dir, "--do_train", "--do_export",
               export_dir=export_dir)
  tiny.assert_fails(result, "--export_dir %s exists already" % export_dir)
  assert "Running training" not in result.stderr


def test_predict_many_with_one_load(trained):
  output_dir, _, _ = trained
  pairs = [("我", "你"), ("他", "她")]
  sim = similarity.BertSim(model_dir=str(output_dir))
  sim.start_model()
  classifier = sim._classifier
  first = sim.predict_sentences(pairs)
  second = sim.predict_sentences(pairs)
  assert sim._classifier is classifier
  assert first.shape == (2, 2)
  np.testing.assert_allclose(first.sum(axis=1), 1.0, rtol=1e-5)
  np.testing.assert_array_equal(first, second)
  # In order, and independent of what else is in the batch.
  for row, pair in zip(first, pairs):
    np.testing.assert_allclose(sim.predict_sentences([pair])[0], row,
                               atol=1e-6)
  long_pair = ("今天天气很好" * 5, "我们去公园玩" * 5)
  mixed = sim.predict_sentences([pairs[0], long_pair])
  np.testing.assert_allclose(mixed[0], first[0], atol=1e-6)
  assert sim.predict_sentences([]).shape == (0, 2)


def test_predictor_equals_the_runner(trained):
  output_dir, _, _ = trained
  classifier = similarity.Classifier(str(output_dir), batch_size=1)
  expected = np.loadtxt(str(output_dir / "test_results.tsv"))
  found = classifier.predict([("今天好", "好吗"), ("他", "她")])
  np.testing.assert_allclose(found, expected, atol=1e-5)
  labels = classifier.predict_labels([("今天好", "好吗")])
  assert labels[0][0] == classifier.labels[int(expected[0].argmax())]
  assert labels[0][1] == pytest.approx(expected[0].max(), abs=1e-5)


def test_predictor_as_a_command(trained):
  output_dir, _, _ = trained
  result = tiny.run_script("similarity.py", "今天好\t好吗", "他",
                           model_dir=output_dir)
  assert result.returncode == 0, result.stderr
  lines = [line.split("\t") for line in result.stdout.splitlines()]
  assert [line[2:] for line in lines] == [["今天好", "好吗"], ["他"]]
  assert all(line[0] in ("0", "1") and 0.5 <= float(line[1]) <= 1
             for line in lines)


def test_texts_of_lines():
  assert similarity.read_texts(["a\tb\r\n", "", "c"]) == [("a", "b"), "c"]
  with pytest.raises(ValueError, match="line 2 has 2 tabs"):
    similarity.read_texts(["a", "a\tb\tc"])


def test_predictor_says_what_folder_it_needs(tmp_path):
  with pytest.raises(ValueError, match="not the output folder of run_class"):
    similarity.Classifier(str(tmp_path))


# -------------------------------------------------------------------- the data


def test_a_wrong_label_leaves_nothing_behind(model, tmp_path):
  rows = [("今天好吗", "今天好不好", "1"), ("坏", "坏", "2"),
          ("你在哪", "吃了没", "0")]
  output_dir = tmp_path / "output"
  write_lcqmc(tmp_path, train=rows)
  tiny.assert_fails(run(model, tmp_path, output_dir, "--do_train"),
                    "train.txt", "line 3", "label 2", "0 and 1")
  assert not output_dir.exists()
  write_lcqmc(tmp_path, train=[rows[0], ("坏", "坏", "1"), rows[2]])
  result = run(model, tmp_path, output_dir, "--do_train")
  assert result.returncode == 0, result.stderr
  assert "records: 3, 1.5 steps an epoch" in result.stderr


def test_features_of_another_length_are_not_reused(model, tmp_path):
  write_lcqmc(tmp_path)
  output_dir = tmp_path / "output"
  for length in (16, 24):
    result = run(model, tmp_path, output_dir, "--do_train", "--do_eval",
                 max_seq_length=length)
    assert result.returncode == 0, result.stderr
    assert "is reused" not in result.stderr
  lengths = set()
  for path in output_dir.glob("*.tf_record"):
    for record in tf.python_io.tf_record_iterator(str(path)):
      feature = tf.train.Example.FromString(record).features.feature
      lengths.add(len(feature["input_ids"].int64_list.value))
  assert lengths == {16, 24}


def test_fewer_examples_than_a_batch(model, tmp_path):
  write_lcqmc(tmp_path, train=TRAIN[:3])
  result = run(model, tmp_path, tmp_path / "output", "--do_train",
               train_batch_size=32)
  assert result.returncode == 0, result.stderr
  assert "3 training examples are fewer than a batch of 32" in result.stderr
  assert tf.train.latest_checkpoint(
      str(tmp_path / "output")).endswith("model.ckpt-1")


def test_submission_has_the_ids_of_the_input(model, tmp_path):
  for name in ("train", "dev"):
    tiny.write(tmp_path / (name + ".json"), "\ufeff" + "".join(
        json.dumps({"sentence1": a, "sentence2": b, "label": int(label)}) +
        "\n" for a, b, label in TRAIN) + "\n")
  tiny.write(tmp_path / "test.json", "".join(
      json.dumps({"id": number, "sentence1": "今天", "sentence2": "好"}) + "\n"
      for number in (7, 3)))
  result = run(model, tmp_path, tmp_path / "output", "--do_train",
               "--do_predict", task_name="afqmc", num_train_epochs=1)
  assert result.returncode == 0, result.stderr
  lines = (tmp_path / "output" / "afqmc_predict.json").read_text()
  assert [json.loads(line)["id"] for line in lines.splitlines()] == [7, 3]
  assert "no checkpoint was chosen on dev" in result.stderr


def test_a_file_of_the_users_own(model, tmp_path):
  """Single texts, labels found in the data, labels in the test file."""
  rows = [("公园", "玩"), ("书", "看书"), ("公园", "去玩"), ("书", "写信")]
  for name in ("train", "dev", "test"):
    tiny.write(tmp_path / (name + ".tsv"), "kind\tn\tsentence\n" + "".join(
        "%s\t0\t%s\n" % row for row in rows))
  columns = dict(task_name="tsv", text_a_column="sentence",
                 label_column="kind")
  output_dir = tmp_path / "output"
  result = run(model, tmp_path, output_dir, "--do_train", "--do_eval",
               "--do_predict", **columns)
  assert result.returncode == 0, result.stderr
  settings = json.loads((output_dir / "classifier.json").read_text())
  assert settings["labels"] == ["书", "公园"]
  results = json.loads((output_dir / "test_results.json").read_text())
  assert results["num_examples"] == 4
  assert sorted(results["per_class"]) == ["书", "公园"]
  # A run that only predicts has the labels of the one that trained.
  os.remove(str(tmp_path / "train.tsv"))
  result = run(model, tmp_path, output_dir, "--do_predict", **columns)
  assert result.returncode == 0, result.stderr


def test_a_folder_of_another_task(trained, model, tmp_path):
  output_dir, _, _ = trained
  for name in ("train", "dev", "test"):
    tiny.write(tmp_path / (name + ".tsv"), "label\ttext\n甲\t好\n乙\t玩\n")
  tiny.assert_fails(
      run(model, tmp_path, output_dir, "--do_train", task_name="tsv"),
      "checkpoints of task lcqmc with the labels 0, 1", "another --output_dir")


@pytest.mark.parametrize("switches,flags,parts", [
    ([], {}, ["--do_train, --do_eval, --do_predict and --do_export"]),
    (["--do_train"], {"task_name": "lcqcm"}, ["lcqcm", "lcqmc"]),
    (["--do_train"], {"vocab_file": "missing.txt"}, ["missing.txt"]),
    (["--do_train"], {"data_dir": "nowhere"}, ["nowhere", "train.txt"]),
    (["--do_train"], {"max_seq_length": 33}, ["max_position_embeddings 32"]),
    (["--do_train"], {"num_train_epoch": 3}, ["num_train_epoch"]),
    (["--do_train"], {"num_train_epochs": "nan"},
     ["--num_train_epochs is nan, expected a number"]),
    (["--do_eval"], {}, ["train first"])])
def test_flags_that_cannot_work(model, tmp_path, switches, flags, parts):
  write_lcqmc(tmp_path)
  tiny.assert_fails(
      run(model, tmp_path, tmp_path / "output", *switches, **flags), *parts)


def test_an_output_folder_that_is_a_pattern(model, tmp_path):
  write_lcqmc(tmp_path)
  tiny.assert_fails(
      run(model, tmp_path, tmp_path / "run[1]", "--do_train", "--do_eval"),
      "--output_dir", "run[1] has a [", "without any of")
  assert not (tmp_path / "run[1]").exists()


def test_vocabulary_and_config_of_different_sizes(model, tmp_path):
  write_lcqmc(tmp_path)
  tiny.write_config(tmp_path, vocab_size=21128)
  tiny.assert_fails(
      run(model, tmp_path, tmp_path / "output", "--do_train",
          bert_config_file=tmp_path / "config.json"),
      str(len(tiny.TOKENS)), "21128")


# ------------------------------------------------------------------- the model


def build(ln_type, is_training=False, labels=None):
  config = modeling.BertConfig(**dict(tiny.CONFIG, ln_type=ln_type))
  ids = tf.constant([[2, 5, 3], [2, 6, 3]])
  return run_classifier.create_model(
      config, is_training, ids, tf.ones_like(ids), tf.zeros_like(ids), labels,
      3, False)


@pytest.mark.parametrize("ln_type,norms", [
    ("postln", []), ("preln", ["loss/LayerNorm/beta", "loss/LayerNorm/gamma"])])
def test_head_variables_have_the_peers_names(ln_type, norms):
  with tf.Graph().as_default():
    build(ln_type)
    names = {v.op.name: v.shape.as_list() for v in tf.trainable_variables()
             if not v.op.name.startswith("bert/")}
    expected = {"output_weights": [3, 16], "output_bias": [3]}
    expected.update((name, [16]) for name in norms)
    assert names == expected


def test_outputs_of_the_model():
  with tf.Graph().as_default(), tf.Session() as session:
    output = build("postln", labels=tf.constant([2, 0]))
    loss, per_example, logits, probabilities = output
    session.run(tf.global_variables_initializer())
    loss, per_example, logits, probabilities = session.run(
        [loss, per_example, logits, probabilities])
  np.testing.assert_allclose(
      probabilities, np.exp(logits) / np.exp(logits).sum(1, keepdims=True),
      rtol=1e-5)
  np.testing.assert_allclose(per_example, -np.log(probabilities[[0, 1],
                                                                [2, 0]]),
                             rtol=1e-5)
  assert loss == pytest.approx(per_example.mean())


def test_input_of_features_in_memory(model):
  tokenizer = tokenization.FullTokenizer(str(model / "vocab.txt"))
  features = run_classifier.convert_examples_to_features(
      [classifier_utils.InputExample("0", "今天", "好", "1"),
       classifier_utils.InputExample("1", "玩", None, "0"),
       run_classifier.PaddingInputExample()], ["0", "1"], 8, tokenizer)
  with tf.Graph().as_default(), tf.Session() as session:
    dataset = run_classifier.input_fn_builder(features, 8, False, False)(
        {"batch_size": 3})
    batch = session.run(tf.data.make_one_shot_iterator(dataset).get_next())
  assert batch["input_ids"].shape == (3, 8)
  np.testing.assert_array_equal(batch["label_ids"], [1, 0, 0])
  np.testing.assert_array_equal(batch["is_real_example"], [1, 1, 0])
  np.testing.assert_array_equal(batch["segment_ids"][0],
                                [0, 0, 0, 0, 1, 1, 0, 0])


@pytest.mark.parametrize("lengths", [False, True])
def test_both_inputs_go_on_in_the_middle_and_may_crop(model, tmp_path, lengths):
  tokenizer = tokenization.FullTokenizer(str(model / "vocab.txt"))
  examples = [classifier_utils.InputExample(str(index), "今天气很好"[:index % 5 + 1] *
                                            (1 + index % 6), None, "0")
              for index in range(9)]
  features = run_classifier.convert_examples_to_features(
      examples, ["0"], 32, tokenizer)
  path = str(tmp_path / "features")
  run_classifier.file_based_convert_examples_to_features(
      examples, ["0"], 32, tokenizer, path)

  def read(builder, source, is_training, count, start_step=0):
    with tf.Graph().as_default(), tf.Session() as session:
      dataset = builder(source, 32, is_training, False, seed=3,
                        start_step=start_step, bucket_by_length=lengths)(
                            {"batch_size": 4})
      iterator = tf.data.make_initializable_iterator(dataset)
      batch = iterator.get_next()
      session.run(iterator.initializer)
      return [session.run(batch) for _ in range(count)]

  for builder, source in (
      (run_classifier.file_based_input_fn_builder, path),
      (run_classifier.input_fn_builder, features)):
    batches = read(builder, source, True, 70)
    later = read(builder, source, True, 5, start_step=65)
    for first, second in zip(batches[65:], later):
      for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    sizes = {batch["input_ids"].shape for batch in batches}
    assert sizes == ({(4, 8), (4, 16), (4, 24), (4, 32)} if lengths else
                     {(4, 32)})
    # In order, and each once, when nothing is trained.
    found = read(builder, source, False, 3)
    assert [len(batch["input_ids"]) for batch in found] == [4, 4, 1]
    ids = [row[row > 0].tolist() for batch in found for row in batch["input_ids"]]
    assert ids == [[id_ for id_ in feature.input_ids if id_]
                   for feature in features]


def test_cropped_predictions_come_in_order(trained, model, tmp_path):
  output_dir, data_dir, _ = trained
  # The checkpoints' state names them by their path in the first folder.
  shutil.copytree(str(output_dir / "best"), str(tmp_path / "best"))
  result = run(model, data_dir, tmp_path, "--do_predict", "--bucket_by_length",
               max_seq_length=32)
  assert result.returncode == 0, result.stderr
  padded, cropped = (np.loadtxt(str(folder / "test_results.tsv"))
                     for folder in (output_dir, tmp_path))
  assert padded.shape == (2, 2)
  np.testing.assert_allclose(cropped, padded, rtol=1e-4)


# ------------------------------------------------------ other models to start from


def save_encoder(folder, **changes):
  """Writes an encoder's checkpoint; returns its path."""
  with tf.Graph().as_default(), tf.Session() as session:
    modeling.BertModel(modeling.BertConfig(**dict(tiny.CONFIG, **changes)),
                       False, tf.zeros([1, 4], tf.int32))
    session.run(tf.global_variables_initializer())
    return tf.train.Saver().save(session, str(folder / "encoder.ckpt"))


def test_a_larger_vocabulary_and_more_groups(model, tmp_path):
  data_dir, wide = tmp_path / "data", tmp_path / "wide"
  data_dir.mkdir()
  wide.mkdir()
  write_lcqmc(data_dir)
  checkpoint = save_encoder(tmp_path, layout="google")
  tiny.write_vocab(wide, tiny.TOKENS + ["新", "字"])
  tiny.write_config(wide, vocab_size=len(tiny.TOKENS) + 2, layout="google",
                    num_hidden_groups=2)
  started = dict(init_checkpoint=checkpoint, num_train_epochs=0.5)
  tiny.assert_fails(run(wide, data_dir, tmp_path / "out", "--do_train",
                        **started), "vocab_size is", "--grow_vocab")
  tiny.assert_fails(
      run(wide, data_dir, tmp_path / "out", "--do_train", "--grow_vocab",
          **started), "num_hidden_groups 2", "--init_from_group0")
  result = run(wide, data_dir, tmp_path / "out", "--do_train", "--grow_vocab",
               "--init_from_group0", learning_rate=0, **started)
  assert result.returncode == 0, result.stderr
  name = "bert/embeddings/word_embeddings"
  old = tf.train.load_variable(checkpoint, name)
  new = tf.train.load_variable(str(tmp_path / "out"), name)
  np.testing.assert_array_equal(new[:len(old)], old)
  assert len(new) == len(old) + 2
  name = "bert/encoder/transformer/group_%d/inner_group_0/attention_1/self/query"
  np.testing.assert_array_equal(
      tf.train.load_variable(str(tmp_path / "out"), name % 1 + "/kernel"),
      tf.train.load_variable(checkpoint, name % 0 + "/kernel"))


def test_a_sentencepiece_model_is_out_of_scope(model, tmp_path):
  write_lcqmc(tmp_path)
  tiny.write(tmp_path / "spiece.model", "x")
  tiny.assert_fails(
      run(model, tmp_path, tmp_path / "out", "--do_train",
          vocab_file=tmp_path / "spiece.model"),
      "spiece.model is a SentencePiece file", "out of scope")
