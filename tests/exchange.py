"""What one TensorFlow writes and all others must read.

  python tests/exchange.py FOLDER

writes into FOLDER/<python>-<tensorflow>: a TFRecord, a pre-training checkpoint
after two steps, a classifier with its SavedModel, and expected.json with the
figures that came out here. `check_pretraining`, `check_classifier` and
`check_saved_model` read such a folder, in whatever TensorFlow runs them, and
compare. scripts/test_matrix.sh lets all versions meet in one folder.
"""

import json
import os
import shutil
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for _folder in (ROOT, os.path.join(ROOT, "scripts")):
  if _folder not in sys.path:
    sys.path.insert(0, _folder)

import tensorflow.compat.v1 as tf

import similarity
import tiny

LENGTH, PREDICTIONS = 16, 4
# A document of one record: whatever order a version reads in, it is the same.
ONE_RECORD = "今天天气很好。\n我们去公园玩。\n"
FIVE_RECORDS = "\n".join([
    ONE_RECORD, "你在哪？\n我在公园看书。\n", "他在写信。\n她在看书。\n",
    "你好吗？\n我很好。\n", "我们在看书。\n你去公园吗？\n"])
TRAIN = [("今天好吗", "今天好不好", "1"), ("你在哪", "看书了吗", "0"),
         ("我们去玩", "我们去公园玩", "1"), ("天气很好", "他在写信", "0")]
TEXTS = [("今天好", "好吗"), ("他", "她在写信")]
# Other kernels and other orders of summing up, over three steps.
TOLERANCE = 1e-4


def write(folder):
  """Writes everything; `folder` must not exist.

  Args:
    folder: string.

  Raises:
    RuntimeError: a script failed.
  """
  os.makedirs(folder)
  tiny.write_vocab(folder)
  tiny.write_config(folder, initializer_range=0.2)
  _write_records(folder, "train", ONE_RECORD)
  _write_records(folder, "eval", FIVE_RECORDS)
  _pretrain(folder, "pretraining", 2)
  shutil.copytree(os.path.join(folder, "pretraining"),
                  os.path.join(folder, "third_step"))
  expected = {"tensorflow": tf.__version__,
              "python": "%d.%d" % sys.version_info[:2],
              "pretraining": _pretrain(folder, "third_step", 3)}
  shutil.rmtree(os.path.join(folder, "third_step"))
  _fine_tune(folder)
  expected["probabilities"] = _predict(folder, "classifier")
  _remove_logs(folder)
  # Last: what has it is complete.
  tiny.write(os.path.join(folder, "expected.json"), json.dumps(expected))


def read_expected(folder):
  """Returns the dict that `write` noted."""
  with open(os.path.join(folder, "expected.json")) as reader:
    return json.load(reader)


def version(text):
  """"2.15.1" as something to compare with: (2, 15)."""
  return tuple(int(part) for part in text.split(".")[:2])


def check_pretraining(folder, scratch):
  """The third step from the checkpoint and its slots, on the TFRecord.

  Args:
    folder: string, of `write`.
    scratch: string, a folder that is not there yet.
  """
  shutil.copytree(folder, scratch)
  found = _pretrain(scratch, "pretraining", 3)
  expected = read_expected(folder)["pretraining"]
  assert sorted(found) == sorted(expected)
  for name, value in expected.items():
    np.testing.assert_allclose(found[name], value, rtol=TOLERANCE, err_msg=name)


def check_classifier(folder):
  """The classifier's probabilities from its checkpoint."""
  np.testing.assert_allclose(_predict(folder, "classifier"),
                             read_expected(folder)["probabilities"],
                             atol=TOLERANCE)


def check_saved_model(folder):
  """The same from its SavedModel."""
  np.testing.assert_allclose(_predict(folder, "saved_model"),
                             read_expected(folder)["probabilities"],
                             atol=TOLERANCE)


def _write_records(folder, name, text):
  tiny.write(os.path.join(folder, name + ".txt"), text)
  _run("create_pretraining_data.py",
       input_file=os.path.join(folder, name + ".txt"),
       output_file=os.path.join(folder, name + ".tfrecord"),
       vocab_file=os.path.join(folder, "vocab.txt"), max_seq_length=LENGTH,
       max_predictions_per_seq=PREDICTIONS, dupe_factor=1, segmenter="none",
       short_seq_prob=0.0)


def _pretrain(folder, output, steps):
  """Trains to a step and evaluates; returns what evaluation found."""
  output_dir = os.path.join(folder, output)
  _run("run_pretraining.py", "--do_train", "--do_eval",
       input_file=os.path.join(folder, "train.tfrecord"),
       eval_input_file=os.path.join(folder, "eval.tfrecord"),
       bert_config_file=os.path.join(folder, "config.json"),
       vocab_file=os.path.join(folder, "vocab.txt"), output_dir=output_dir,
       max_seq_length=LENGTH, train_batch_size=1,
       max_predictions_per_seq=PREDICTIONS, eval_batch_size=2,
       num_train_steps=steps, num_warmup_steps=1, learning_rate=0.01)
  with open(os.path.join(output_dir, "eval_results.json")) as reader:
    results = json.load(reader)
  return {name: results[name] for name in (
      "global_step", "loss", "masked_lm_loss", "next_sentence_loss",
      "masked_lm_accuracy", "next_sentence_accuracy")}


def _fine_tune(folder):
  data_dir = os.path.join(folder, "data")
  os.makedirs(data_dir)
  for name in ("train", "dev", "test"):
    tiny.write(os.path.join(data_dir, name + ".txt"), "".join(
        "\t".join(row) + "\n" for row in [("text_a", "text_b", "label")] +
        TRAIN))
  _run("run_classifier.py", "--do_train", "--do_export", task_name="lcqmc",
       data_dir=data_dir, output_dir=os.path.join(folder, "classifier"),
       export_dir=os.path.join(folder, "saved_model"),
       vocab_file=os.path.join(folder, "vocab.txt"),
       bert_config_file=os.path.join(folder, "config.json"),
       max_seq_length=LENGTH, train_batch_size=2, num_train_epochs=1,
       learning_rate=0.01)


def _predict(folder, model):
  classifier = similarity.Classifier(os.path.join(folder, model))
  try:
    return classifier.predict(TEXTS).tolist()
  finally:
    classifier.close()


def _remove_logs(folder):
  """Leaves what others read, without the paths of this machine."""
  shutil.rmtree(os.path.join(folder, "data"))
  for path, _, names in os.walk(folder):
    for name in names:
      whole = os.path.join(path, name)
      if name.startswith(("events.out", "graph.pbtxt", "model.ckpt-0",
                          "eval_results")) or (
                              name.endswith((".meta", ".tf_record",
                                             "debug_info.pb"))):
        os.remove(whole)
      elif name == "metadata.json":
        with open(whole, encoding="utf-8") as reader:
          text = reader.read()
        tiny.write(whole, text.replace(folder + os.sep, ""))


def _run(script, *switches, **flags):
  result = tiny.run_script(script, *switches, **flags)
  if result.returncode:
    raise RuntimeError("%s failed: %s" % (script, result.stderr[-3000:]))


if __name__ == "__main__":
  write(os.path.join(sys.argv[1], "%d.%d-%s" % (
      sys.version_info[0], sys.version_info[1], tf.__version__)))
