"""Pre-training from records to results, and what stops it before it starts."""

import gzip
import json
import os
import random
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import create_pretraining_data as data
import checkpoint_utils
import estimator_utils
import input_utils
import modeling
import run_pretraining
import tiny
import tokenization

LENGTH, PREDICTIONS = 16, 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A folder with vocabulary, config and eleven records with metadata."""
  path = tmp_path_factory.mktemp("pretraining")
  tiny.write_vocab(path)
  tiny.write_config(path)
  write_records(path, "train.tfrecord", 11)
  return path


def write_records(path, name, count, predictions=PREDICTIONS,
                  vocab_size=None):
  tokenizer = tokenization.FullTokenizer(str(path / "vocab.txt"))
  documents = [[list("今天天气很好。"), list("我们去公园玩。")]] * count
  instances = []
  for index in range(count):
    instances += data.create_instances_from_document(
        documents, index, LENGTH, 0.0, 0.15, predictions, tiny.TOKENS,
        random.Random(index))
  output = str(path / name)
  data.write_instance_to_example_files(instances, tokenizer, LENGTH,
                                       predictions, [output])
  data.write_metadata([output], {
      "max_seq_length": LENGTH, "max_predictions_per_seq": predictions,
      "vocab_size": vocab_size or len(tiny.TOKENS),
      "instances": len(instances),
      "vocab_hash": tokenization.vocab_hash(tokenizer.vocab),
      "vocab_file": str(path / "vocab.txt")})
  return output


def run(folder, output_dir, *switches, **flags):
  values = dict(
      input_file=folder / "train.tfrecord",
      bert_config_file=folder / "config.json", output_dir=output_dir,
      max_seq_length=LENGTH, max_predictions_per_seq=PREDICTIONS,
      train_batch_size=4, eval_batch_size=4, num_train_steps=2,
      num_warmup_steps=1, log_steps=1)
  values.update(flags)
  return tiny.run_script("run_pretraining.py", *switches, **values)


# ---------------------------------------------------------------- end to end


def test_train_and_evaluate(folder, tmp_path):
  result = run(folder, tmp_path, "--do_train", "--do_eval",
               learning_rate="auto")
  assert result.returncode == 0, result.stderr
  assert "0.00176 * sqrt(4 / 4096) = 5.5e-05" in result.stderr
  for line in ("from: fresh initial weights, step 0, to step 2",
               "records: 11, 2.8 steps an epoch, 0.73 epochs", "batch size: 4",
               "learning rate: 5.5e-05, lamb, 1 steps of warm-up",
               "parameters: 3,799"):
    assert "\n  " + line in result.stderr
  results = json.loads((tmp_path / "eval_results.json").read_text())
  assert results["global_step"] == 2
  assert results["eval_records"] == 11  # the last, partial batch too
  assert results["evaluated_on_training_files"] is True
  assert results["loss"] == pytest.approx(
      results["masked_lm_loss"] + results["next_sentence_loss"])
  text = (tmp_path / "eval_results.txt").read_text()
  for key in ("masked_lm_accuracy", "next_sentence_accuracy",
              "masked_lm_loss", "next_sentence_loss", "global_step"):
    assert "\n%s = " % key in "\n" + text
  assert "evaluating on the training files" in result.stderr
  assert "step 2/2 epoch 0.73" in result.stderr
  for name in ("albert_config.json", "vocab.txt", "metadata.json"):
    assert (tmp_path / name).exists()
  # A line each time, and no advice to use Keras.
  assert result.stderr.count("step 2/2") == 1
  assert "deprecated" not in result.stderr

  # The same again has nothing to do; with evaluation it has.
  tiny.assert_fails(run(folder, tmp_path, "--do_train"),
                    "nothing to train", "step 2", "--num_train_steps is 2")
  # More steps go on from where it was; another file is a real evaluation.
  write_records(folder, "eval.tfrecord", 3)
  result = run(folder, tmp_path, "--do_train", "--do_eval", num_train_steps=3,
               eval_input_file=folder / "eval.tfrecord")
  assert result.returncode == 0, result.stderr
  assert "model.ckpt-2, step 2, to step 3" in result.stderr
  results = json.loads((tmp_path / "eval_results.json").read_text())
  assert results["evaluated_on_training_files"] is False
  assert results["eval_records"] == 3


def test_start_from_a_checkpoint_with_the_peers_alias(folder, tmp_path):
  first, second = tmp_path / "first", tmp_path / "second"
  result = run(folder, first, "--do_train")
  assert result.returncode == 0, result.stderr
  result = tiny.run_script(
      "run_pretraining.py", "--do_train", input_file=folder / "train.tfrecord",
      albert_config_file=folder / "config.json", output_dir=second,
      init_checkpoint=first, max_seq_length=LENGTH,
      max_predictions_per_seq=PREDICTIONS, num_train_steps=1,
      train_batch_size=4, optimizer="adamw", keep_checkpoint_max=0)
  assert result.returncode == 0, result.stderr
  assert "--num_warmup_steps 10000 is not less than" in result.stderr
  assert "31 variables matched, 0 missing" in result.stderr
  assert "0 unexpected" in result.stderr
  stored = dict(tf.train.list_variables(str(second / "model.ckpt-1")))
  assert "bert/pooler/dense/kernel/adam_m" in stored


def test_divergence_names_step_rate_and_checkpoint(folder, tmp_path):
  result = run(folder, tmp_path, "--do_train", learning_rate=1e30,
               num_train_steps=20, num_warmup_steps=0, optimizer="adamw")
  tiny.assert_fails(result, "training diverged at step", "learning rate",
                    "last checkpoint of finite weights is",
                    "lower --learning_rate")


# -------------------------------------------------------------- wrong inputs


def test_empty_files_and_patterns_without_files(folder, tmp_path):
  (tmp_path / "empty.tfrecord").write_bytes(b"")
  tiny.assert_fails(
      run(folder, tmp_path / "out", "--do_train",
          input_file=tmp_path / "empty.tfrecord"),
      "empty.tfrecord is empty")
  tiny.assert_fails(
      run(folder, tmp_path / "out", "--do_train",
          input_file=tmp_path / "none*"), "no file matches", "none*")
  assert not (tmp_path / "out").exists()


def test_an_output_folder_that_is_a_pattern(folder, tmp_path):
  tiny.assert_fails(run(folder, tmp_path / "out[1]", "--do_train"),
                    "--output_dir", "out[1] has a [", "without any of")
  assert not (tmp_path / "out[1]").exists()


def test_records_of_another_number_of_predictions(folder, tmp_path):
  tiny.assert_fails(
      run(folder, tmp_path / "out", "--do_train", max_predictions_per_seq=7),
      "max_predictions_per_seq 4", "max_predictions_per_seq is 7")
  # The same without metadata, by the first record.
  (tmp_path / "plain.tfrecord").write_bytes(
      (folder / "train.tfrecord").read_bytes())
  result = run(folder, tmp_path / "out", "--do_train",
               max_predictions_per_seq=7,
               input_file=tmp_path / "plain.tfrecord")
  tiny.assert_fails(result, "no metadata.json beside it",
                    "max_predictions_per_seq 4",
                    "max_predictions_per_seq is 7")


def test_a_checkpoint_of_something_else(folder, tmp_path):
  with tf.Graph().as_default(), tf.Session() as session:
    tf.get_variable("foo/bar", [3])
    session.run(tf.global_variables_initializer())
    checkpoint = tf.train.Saver().save(session, str(tmp_path / "model.ckpt"))
  tiny.assert_fails(
      run(folder, tmp_path / "out", "--do_train", init_checkpoint=checkpoint),
      "0 of 16 encoder variables matched", "layout looks like none",
      "--allow_partial_init")
  result = run(folder, tmp_path / "out2", "--do_train", "--allow_partial_init",
               init_checkpoint=checkpoint)
  assert result.returncode == 0, result.stderr


def test_a_config_of_another_norm_position(folder, tmp_path):
  tiny.write_config(tmp_path, "preln.json", ln_type="preln")
  first = tmp_path / "first"
  assert run(folder, first, "--do_train").returncode == 0
  for output_dir, init in ((tmp_path / "new", first), (first, "")):
    tiny.assert_fails(
        run(folder, output_dir, "--do_train", init_checkpoint=init,
            bert_config_file=tmp_path / "preln.json"),
        'ln_type "preln"', '"postln"', "albert_config.json")


@pytest.mark.parametrize("layout,changes", [
    ("google", dict(num_hidden_groups=2, inner_group_num=2)),
    ("bert", dict(embedding_size=None))])
def test_the_peers_layouts(folder, tmp_path, layout, changes):
  tiny.write_config(tmp_path, layout=layout, **changes)
  first = tmp_path / "first"
  result = run(folder, first, "--do_train", "--do_eval",
               bert_config_file=tmp_path / "config.json")
  assert result.returncode == 0, result.stderr
  assert "masked_lm_accuracy" in (first / "eval_results.txt").read_text()
  tiny.assert_fails(
      run(folder, tmp_path / "new", "--do_train", init_checkpoint=first),
      'the model is of the layout "zh"', "of the layout %s (" % layout)
  assert not (tmp_path / "new").exists()


def test_groups_that_start_from_group_0(folder, tmp_path):
  one = tiny.write_config(tmp_path, "one.json", layout="google")
  two = tiny.write_config(tmp_path, "two.json", layout="google",
                          num_hidden_groups=2)
  first = tmp_path / "first"
  result = run(folder, first, "--do_train", bert_config_file=one)
  assert result.returncode == 0, result.stderr
  tiny.assert_fails(
      run(folder, tmp_path / "new", "--do_train", init_checkpoint=first,
          bert_config_file=two),
      "the model has num_hidden_groups 2", "has num_hidden_groups 1",
      "--init_from_group0")
  assert not (tmp_path / "new").exists()
  result = run(folder, tmp_path / "new", "--do_train", "--init_from_group0",
               init_checkpoint=first, bert_config_file=two, learning_rate=0)
  assert result.returncode == 0, result.stderr
  assert "optimizer slots lamb_m, lamb_v of 32 variables, global_step 2" in (
      result.stderr)
  name = "bert/encoder/transformer/group_%d/inner_group_0/LayerNorm/gamma"
  for group in (0, 1):
    np.testing.assert_array_equal(
        tf.train.load_variable(str(tmp_path / "new"), name % group),
        tf.train.load_variable(str(first), name % 0))


def test_a_vocabulary_that_grows(folder, tmp_path):
  first, wide = tmp_path / "first", tmp_path / "wide"
  assert run(folder, first, "--do_train").returncode == 0
  wide.mkdir()
  tiny.write_vocab(wide, tiny.TOKENS + ["新", "字"])
  tiny.write_config(wide, vocab_size=len(tiny.TOKENS) + 2)
  write_records(wide, "train.tfrecord", 5, vocab_size=len(tiny.TOKENS) + 2)
  tiny.assert_fails(
      run(wide, tmp_path / "new", "--do_train", init_checkpoint=first),
      "the model's vocab_size is %d" % (len(tiny.TOKENS) + 2),
      "has %d rows" % len(tiny.TOKENS), "--grow_vocab", "initialize 2 more")
  assert not (tmp_path / "new").exists()
  result = run(wide, tmp_path / "new", "--do_train", "--grow_vocab",
               init_checkpoint=first, learning_rate=0)
  assert result.returncode == 0, result.stderr
  assert "word_embeddings from %d to %d rows" % (
      len(tiny.TOKENS), len(tiny.TOKENS) + 2) in result.stderr
  for name in ("bert/embeddings/word_embeddings",
               "cls/predictions/output_bias"):
    old = tf.train.load_variable(str(first), name)
    new = tf.train.load_variable(str(tmp_path / "new"), name)
    assert len(new) == len(old) + 2
    np.testing.assert_array_equal(new[:len(old)], old)
  # The run goes on without the flag, and the larger model is not cut back.
  result = run(wide, tmp_path / "new", "--do_train", num_train_steps=3)
  assert result.returncode == 0, result.stderr
  tiny.assert_fails(
      run(folder, tmp_path / "small", "--do_train", "--grow_vocab",
          init_checkpoint=tmp_path / "new"),
      "the model's vocab_size is %d" % len(tiny.TOKENS),
      "has %d rows" % (len(tiny.TOKENS) + 2))


def test_a_sentencepiece_model_is_out_of_scope(folder, tmp_path):
  tiny.write(tmp_path / "30k-clean.model", "x")
  tiny.assert_fails(
      run(folder, tmp_path / "out", "--do_train",
          vocab_file=tmp_path / "30k-clean.model"),
      "30k-clean.model is a SentencePiece file", "out of scope")
  tiny.write_config(tmp_path, layout="google", vocab_size=30000)
  tiny.assert_fails(
      run(folder, tmp_path / "out", "--do_train",
          bert_config_file=tmp_path / "config.json"),
      "vocab_size 30000 is the config of a SentencePiece model",
      "out of scope")
  # Nor where nobody knows the records' vocabulary.
  (tmp_path / "plain.tfrecord").write_bytes(
      (folder / "train.tfrecord").read_bytes())
  with pytest.raises(ValueError, match="SentencePiece model"):
    run_pretraining.find_vocab_file(
        None, [str(tmp_path / "plain.tfrecord")],
        modeling.BertConfig.from_json_file(str(tmp_path / "config.json")))


def test_a_run_goes_on_only_with_its_own_config(folder, tmp_path):
  with tf.Graph().as_default(), tf.Session() as session:
    tf.train.get_or_create_global_step()
    session.run(tf.global_variables_initializer())
    tf.train.Saver().save(session, str(tmp_path / "model.ckpt"), 5)
  config = modeling.BertConfig(**tiny.CONFIG)
  checkpoint_utils.write_text(str(tmp_path / "albert_config.json"),
                             config.to_json_string())
  checkpoint_utils.check_resume_config(config, str(tmp_path))
  config.hidden_size = 32
  with pytest.raises(ValueError, match='hidden_size "32".* says "16"; .*anothe'
                     'r --output_dir'):
    checkpoint_utils.check_resume_config(config, str(tmp_path))
  # As a checkpoint to start from, its shapes are compared later.
  checkpoint_utils.check_init_config(config, str(tmp_path / "model.ckpt-5"))


def test_a_vocabulary_of_another_size(folder, tmp_path):
  tiny.write_config(tmp_path, vocab_size=21128)
  tiny.assert_fails(
      run(folder, tmp_path / "out", "--do_train",
          bert_config_file=tmp_path / "config.json"),
      str(len(tiny.TOKENS)), "21128")
  assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("switches,flags,parts", [
    ([], {}, ["--do_train"]),
    (["--do_trian"], {}, ["do_trian"]),
    (["--do_eval", "False"], {}, ['what does "False" belong to']),
    (["--do_eval"], {}, ["there is no checkpoint"]),
    (["--do_train"], {"init_checkpoint": "missing/model.ckpt"},
     ["there is no checkpoint missing/model.ckpt"]),
    (["--do_train", "--use_tpu"], {}, ["--tpu_name"]),
    (["--do_train", "--use_tpu", "--bucket_by_length"], {},
     ["--bucket_by_length makes batches of many lengths", "--use_tpu"]),
    (["--do_train"], {"learning_rate": "auto", "optimizer": "adamw"},
     ["--learning_rate=auto is LAMB's rule, but --optimizer is adamw"]),
    (["--do_train"], {"learning_rate": "high"}, ["from 0 on or auto"]),
    (["--do_train"], {"eval_every_steps": 1}, ["needs --eval_input_file"]),
    (["--do_eval"], {"eval_every_steps": 1}, ["--do_train is not given"]),
    (["--do_train"], {"early_stopping_evals": 1},
     ["--early_stopping_evals needs --eval_every_steps"]),
    (["--do_train"], {"max_seq_length": 64}, ["max_position_embeddings 32"])])
def test_flags_that_cannot_work(folder, tmp_path, switches, flags, parts):
  tiny.assert_fails(run(folder, tmp_path / "out", *switches, **flags), *parts)


def test_something_that_is_no_record_file(folder, tmp_path):
  tiny.write(tmp_path / "text.tfrecord", "今天天气很好。" * 50)
  with pytest.raises(ValueError, match="text.tfrecord is not a TFRecord"):
    run_pretraining.check_input_files(
        [str(tmp_path / "text.tfrecord")],
        modeling.BertConfig(**tiny.CONFIG), LENGTH, PREDICTIONS)


def test_a_checkpoint_that_is_cut_off(tmp_path):
  with tf.Graph().as_default(), tf.Session() as session:
    tf.get_variable("a", [3])
    session.run(tf.global_variables_initializer())
    checkpoint = tf.train.Saver().save(session, str(tmp_path / "model.ckpt"))
  assert checkpoint_utils.check_init_checkpoint(checkpoint) == checkpoint
  assert checkpoint_utils.check_init_checkpoint(
      checkpoint + ".index") == checkpoint
  index = tmp_path / "model.ckpt.index"
  index.write_bytes(index.read_bytes()[:20])
  with pytest.raises(ValueError, match="model.ckpt cannot be read"):
    checkpoint_utils.check_init_checkpoint(checkpoint)


@pytest.mark.parametrize("content", ["{bad", "[1]", '{"files": 3}'])
def test_metadata_of_something_else_is_named(tmp_path, content):
  tiny.write(tmp_path / "metadata.json", content)
  with pytest.raises(ValueError, match="metadata.json is not a file that"):
    run_pretraining.read_metadata(str(tmp_path / "train.tfrecord"))


def test_files_of_different_pair_tasks_do_not_mix():
  assert run_pretraining.pair_task_of([None, {"sentence_pair_task": "sop"}]
                                      ) == "sop"
  with pytest.raises(ValueError, match="nsp and sop"):
    run_pretraining.pair_task_of([None, {"sentence_pair_task": "nsp"}])


# ------------------------------------------------------------ model and input


def batches(folder, is_training, batch_size, count=None,
            name="train.tfrecord"):
  with tf.Graph().as_default(), tf.Session() as session:
    dataset = run_pretraining.input_fn_builder(
        [str(folder / name)], LENGTH, PREDICTIONS, is_training,
        seed=1)({"batch_size": batch_size})
    tensors = tf.data.make_one_shot_iterator(dataset).get_next()
    result = []
    while count is None or len(result) < count:
      try:
        result.append(session.run(tensors))
      except tf.errors.OutOfRangeError:
        break
    return result


def test_evaluation_input_has_every_record_once(folder):
  found = batches(folder, False, 4)
  real = np.concatenate([batch["is_real_example"] for batch in found])
  assert list(real) == [1] * 11 + [0]
  assert found[-1]["masked_lm_weights"][-1].sum() == 0
  assert found[0]["input_ids"].dtype == np.int32
  assert found[0]["input_ids"].shape == (4, LENGTH)
  # A batch size that divides needs no padding.
  assert sum(batch["is_real_example"].sum()
             for batch in batches(folder, False, 11)) == 11


def test_compressed_files_have_the_same_records(folder, tmp_path):
  packed = tmp_path / "train.tfrecord.gz"
  packed.write_bytes(gzip.compress((folder / "train.tfrecord").read_bytes()))
  plain = str(folder / "train.tfrecord")
  for is_training in (False, True):
    expected = batches(folder, is_training, 4, count=3)
    found = batches(tmp_path, is_training, 4, count=3, name=packed.name)
    assert len(found) == len(expected) == 3
    for left, right in zip(expected, found):
      for name, values in left.items():
        np.testing.assert_array_equal(values, right[name])
  assert run_pretraining.compression_type([str(packed)]) == "GZIP"
  with pytest.raises(ValueError, match="train.tfrecord.gz is compressed and"
                     " .*train.tfrecord is not"):
    run_pretraining.expand_input_files("%s,%s" % (plain, packed))


def test_training_input_is_shuffled_and_never_ends(folder):
  found = batches(folder, True, 4, count=9)
  again = batches(folder, True, 4, count=9)
  for first, second in zip(found, again):
    np.testing.assert_array_equal(first["input_ids"], second["input_ids"])
  assert "is_real_example" not in found[0]
  assert all(len(batch["input_ids"]) == 4 for batch in found)


def per_example_losses(folder, crop):
  """S and the model's losses in a batch that is padded to twice its length."""
  with tf.Graph().as_default(), tf.Session() as session:
    tf.set_random_seed(1)
    features = tf.data.make_one_shot_iterator(run_pretraining.input_fn_builder(
        [str(folder / "train.tfrecord")], LENGTH, PREDICTIONS, False)(
            {"batch_size": 3})).get_next()
    names = ["input_ids", "input_mask", "segment_ids"]
    features.update({name: tf.pad(features[name], [[0, 0], [0, LENGTH]])
                     for name in names})
    if crop:
      features = input_utils.crop(features, names)
    config = modeling.BertConfig(**tiny.CONFIG)
    model = modeling.BertModel(config, False, features["input_ids"],
                               features["input_mask"], features["segment_ids"])
    masked_lm = run_pretraining.get_masked_lm_output(
        config, model.get_sequence_output(), model.get_embedding_table(),
        model.get_embedding_table_2(), features["masked_lm_positions"],
        features["masked_lm_ids"], features["masked_lm_weights"])
    next_sentence = run_pretraining.get_next_sentence_output(
        config, model.get_pooled_output(), features["next_sentence_labels"])
    session.run(tf.global_variables_initializer())
    return session.run([tf.shape(features["input_ids"])[1],
                        masked_lm.per_example_loss,
                        next_sentence.per_example_loss])


def test_losses_are_the_same_cropped_and_padded(folder):
  padded = per_example_losses(folder, False)
  cropped = per_example_losses(folder, True)
  assert (padded[0], cropped[0]) == (2 * LENGTH, LENGTH)
  for expected, found in zip(padded[1:], cropped[1:]):
    assert len(expected) == len(found) and len(set(expected)) > 1
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_training_that_crops(folder, tmp_path):
  result = run(folder, tmp_path, "--do_train", "--do_eval",
               "--bucket_by_length")
  assert result.returncode == 0, result.stderr
  assert "step 2/2" in result.stderr and "without padding)" in result.stderr
  assert json.loads((tmp_path / "eval_results.json").read_text())[
      "eval_records"] == 11


def evaluate(folder, batch_size):
  """Metrics of a fixed model, by batch size."""
  options = types.SimpleNamespace(
      use_tpu=False, tpu_name=None, master=None, log_steps=1, seed=3,
      output_dir=str(folder / "model"), save_checkpoints_steps=10,
      keep_checkpoint_max=1, iterations_per_loop=1, num_tpu_cores=8,
      num_gpus=0, use_xla=None)
  estimator = estimator_utils.make_estimator(
      run_pretraining.model_fn_builder(
          modeling.BertConfig(**tiny.CONFIG), None, 1e-3, 1, 0, False, False),
      options, 4, batch_size)
  if not tf.train.latest_checkpoint(options.output_dir):
    estimator.train(run_pretraining.input_fn_builder(
        [str(folder / "train.tfrecord")], LENGTH, PREDICTIONS, True),
                    max_steps=1)
  return estimator.evaluate(run_pretraining.input_fn_builder(
      [str(folder / "train.tfrecord")], LENGTH, PREDICTIONS, False), steps=None)


def test_metrics_do_not_depend_on_the_batch_size(folder):
  whole, padded = evaluate(folder, 11), evaluate(folder, 4)
  for key in ("masked_lm_loss", "masked_lm_accuracy", "next_sentence_loss",
              "next_sentence_accuracy"):
    assert padded[key] == pytest.approx(whole[key], rel=1e-5)
  assert whole["masked_lm_loss"] == pytest.approx(np.log(len(tiny.TOKENS)),
                                                  rel=0.05)


def test_weights_of_the_pair_task():
  config = modeling.BertConfig(**tiny.CONFIG)
  with tf.Graph().as_default(), tf.Session() as session:
    pooled = tf.constant(np.random.RandomState(0).randn(3, 16), tf.float32)
    output = run_pretraining.get_next_sentence_output(
        config, pooled, tf.constant([[0], [1], [1]]),
        tf.constant([1.0, 1.0, 0.0]))
    session.run(tf.global_variables_initializer())
    loss, per_example, log_probs = session.run(list(output))
  assert loss == pytest.approx(per_example[:2].mean())
  np.testing.assert_allclose(per_example, -log_probs[[0, 1, 2], [0, 1, 1]],
                             rtol=1e-5)


def test_step_checkpoints_leave_other_files_alone(tmp_path):
  for name in ("albert_model.ckpt.index", "model.ckpt-20.index",
               "model.ckpt-3.index", "model.ckpt-best.index"):
    (tmp_path / name).write_bytes(b"")
  assert checkpoint_utils.step_checkpoints(str(tmp_path)) == [
      (3, os.path.join(str(tmp_path), "model.ckpt-3")),
      (20, os.path.join(str(tmp_path), "model.ckpt-20"))]
