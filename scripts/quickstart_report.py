"""Prints what `quickstart.sh` did, from the files that it left.

  python scripts/quickstart_report.py output/quickstart

Ends with a non-zero exit when the result is not what it should be: the loss
did not fall, or the classifier does not clearly beat the majority class.
"""

import io
import json
import os
import re
import sys


def read(*path):
  with io.open(os.path.join(*path), encoding="utf-8") as reader:
    return reader.read()


def losses(log):
  """(step, MLM loss) of each progress line of a pre-training log."""
  return [(int(step), float(loss)) for step, loss in re.findall(
      r"step (\d+)/\d+ .*?masked_lm_loss ([\d.]+)", log)]


def report(folder):
  """The report's lines, and whether the result is what it should be."""
  metadata = json.loads(read(folder, "records", "metadata.json"))
  train_set = [entry for entry in
               [metadata] + metadata.get("other_data_sets", [])
               if entry["files"] == ["train.tfrecord"]][0]
  steps = losses(read(folder, "pretraining.log"))
  evaluation = json.loads(read(folder, "pretraining", "eval_results.json"))
  test = json.loads(read(folder, "classifier", "test_results.json"))
  predictions = [line.split("\t") for line in
                 read(folder, "predictions.log").splitlines()
                 if line.count("\t") == 2]
  majority = test["majority_class_accuracy"]
  lines = [
      "Records: %d instances of %d documents, %d masked tokens." % (
          train_set["instances"], train_set["documents"],
          train_set["predictions"]),
      "Pre-training, masked-LM loss by step: %s." % ", ".join(
          "%d: %.2f" % step for step in steps),
      "On held-out documents: masked-LM loss %.2f, accuracy %.3f." % (
          evaluation["masked_lm_loss"], evaluation["masked_lm_accuracy"]),
      "Classifier on %d test texts: accuracy %.3f, macro-F1 %.3f (the largest"
      " class alone: %.3f)." % (test["num_examples"], test["accuracy"],
                                test["macro_f1"], majority),
      "Predictions:"]
  lines += ["  %s (%s)  %s" % tuple(fields) for fields in predictions]
  lines += [
      "", "Look next at:",
      "  %s/pretraining.log       losses, speed, variables" % folder,
      "  %s/classifier/test_results.txt   every figure of the test" % folder,
      "  %s/classifier/best/      the model: python similarity.py"
      " --model_dir=%s/classifier" % (folder, folder),
      "  README.md                your own text and labels, larger models"]
  passed = (steps[-1][1] < steps[0][1] - 0.5 and len(predictions) == 4 and
            test["accuracy"] > majority + 0.2)
  return lines, passed


def main(arguments):
  if len(arguments) != 2:
    sys.exit("usage: quickstart_report.py FOLDER")
  lines, passed = report(arguments[1])
  print("\n".join(lines))
  if not passed:
    sys.exit("quickstart_report.py: error: the loss did not fall by 0.5, or"
             " the classifier is not 0.2 better than the largest class; see"
             " the logs in %s" % arguments[1])


if __name__ == "__main__":
  main(sys.argv)
