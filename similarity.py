"""Classifies texts or pairs with a trained classifier: load once, predict many.

In Python, with the output folder of `run_classifier.py`:

  classifier = similarity.Classifier("output")
  classifier.labels                                  # ["0", "1"]
  classifier.predict([("今天好吗", "今天好不好")])   # float array [1, 2]

As a command, with texts as arguments or a line each on standard input; the two
texts of a pair are separated by a tab:

  python similarity.py --model_dir=output < pairs.txt

prints a line for each: label, its probability, the text.
"""

import os
import sys
import threading

from absl import app
from absl import flags
import numpy as np
import tensorflow.compat.v1 as tf

import classifier_utils
import estimator_utils
import modeling
import run_classifier
import tokenization

FLAGS = flags.FLAGS


class Classifier(object):
  """A trained classifier in memory; may be used from several threads."""

  def __init__(self, model_dir, checkpoint=None, batch_size=32):
    """Loads the model.

    Args:
      model_dir: path, an output folder of `run_classifier.py`. Its best
        checkpoint on dev is taken if there is one, else its latest.
      checkpoint: path of another checkpoint of that run, or None.
      batch_size: int, how many texts go through the model at once.

    Raises:
      ValueError: the folder is not such a folder, or has no checkpoint.
    """
    settings = run_classifier.read_classifier(model_dir)
    self.labels = settings["labels"]
    self.max_seq_length = settings["max_seq_length"]
    self.batch_size = batch_size
    self.checkpoint = checkpoint or run_classifier.best_checkpoint(model_dir)
    self.tokenizer = tokenization.FullTokenizer(
        os.path.join(model_dir, estimator_utils.VOCAB_NAME),
        settings["do_lower_case"])
    bert_config = modeling.BertConfig.from_json_file(
        os.path.join(model_dir, estimator_utils.CONFIG_NAME))
    tokenization.validate_vocab(self.tokenizer.vocab, bert_config.vocab_size,
                                os.path.join(model_dir,
                                             estimator_utils.VOCAB_NAME))
    graph = tf.Graph()
    with graph.as_default():
      self._inputs = {
          name: tf.placeholder(tf.int32, [None, None], name)
          for name in ("input_ids", "input_mask", "segment_ids")}
      self._probabilities = run_classifier.create_model(
          bert_config, False, labels=None, num_labels=len(self.labels),
          use_one_hot_embeddings=False, **self._inputs).probabilities
      self._session = tf.Session(graph=graph)
      tf.train.Saver().restore(self._session, self.checkpoint)

  def predict(self, texts):
    """Predicts texts.

    Args:
      texts: list of strings, or of pairs (text_a, text_b).

    Returns:
      float array [number of texts, number of labels], rows in order; each
      sums to 1.
    """
    rows = [np.zeros([0, len(self.labels)], np.float32)]
    for begin in range(0, len(texts), self.batch_size):
      batch = self._features(texts[begin:begin + self.batch_size])
      rows.append(self._session.run(
          self._probabilities,
          {self._inputs[name]: value for name, value in batch.items()}))
    return np.concatenate(rows)

  def predict_labels(self, texts):
    """Predicts texts; returns a list of (label, its probability)."""
    probabilities = self.predict(texts)
    best = probabilities.argmax(axis=-1)
    return [(self.labels[index], float(row[index]))
            for index, row in zip(best, probabilities)]

  def _features(self, texts):
    """Arrays of a batch, only as long as its longest text."""
    features = []
    for index, text in enumerate(texts):
      text_a, text_b = (text, None) if isinstance(text, str) else text
      features.append(classifier_utils.convert_single_example(
          index, classifier_utils.InputExample(
              "text %d" % index, text_a, text_b),
          self.labels, self.max_seq_length, self.tokenizer))
    length = max(sum(feature.input_mask) for feature in features)
    return {name: np.array([getattr(feature, name)[:length]
                            for feature in features], np.int32)
            for name in self._inputs}

  def close(self):
    """Frees the session; the object cannot predict any more."""
    self._session.close()


class BertSim(object):
  """Similarity of sentence pairs by the peers' names.

    sim = BertSim(model_dir="lcqmc_output")
    sim.start_model()
    sim.predict_sentences([("我喜欢妈妈做的汤", "妈妈做的汤我很喜欢喝")])
  """

  def __init__(self, batch_size=128, model_dir="output"):
    """Takes the settings; `start_model`, or the first prediction, loads."""
    self.batch_size = batch_size
    self.model_dir = model_dir
    self._classifier = None
    self._lock = threading.Lock()

  def start_model(self):
    """Loads the model unless it is loaded."""
    with self._lock:
      if self._classifier is None:
        self._classifier = Classifier(self.model_dir,
                                      batch_size=self.batch_size)

  def predict_sentences(self, sentences):
    """Probabilities of a list of pairs: float array [n, 2], rows in order."""
    self.start_model()
    return self._classifier.predict(sentences)


def read_texts(lines):
  """Texts of lines, pairs where a line has a tab; blank lines are skipped.

  Raises:
    ValueError: a line has more than one tab.
  """
  texts = []
  for number, line in enumerate(lines, start=1):
    fields = line.rstrip("\r\n").split("\t")
    if len(fields) > 2:
      raise ValueError("line %d has %d tabs, expected a text or two texts with"
                       " one tab between them" % (number, len(fields) - 1))
    if line.strip():
      texts.append(fields[0] if len(fields) == 1 else tuple(fields))
  return texts


def main(arguments):
  estimator_utils.set_up_logging()
  with estimator_utils.exit_on(estimator_utils.BAD_INPUT):
    classifier = Classifier(FLAGS.model_dir, FLAGS.checkpoint,
                            FLAGS.batch_size)
    texts = read_texts(arguments[1:] or
                       sys.stdin.buffer.read().decode("utf-8").split("\n"))
    predicted = classifier.predict_labels(texts)
  for text, (label, probability) in zip(texts, predicted):
    fields = [text] if isinstance(text, str) else list(text)
    line = "\t".join([label, "%.4f" % probability] + fields) + "\n"
    sys.stdout.buffer.write(line.encode("utf-8"))


def define_flags():
  """Defines this script's flags."""
  flags.DEFINE_string("model_dir", "output",
                      "Output folder of run_classifier.py.")
  flags.DEFINE_string("checkpoint", None,
                      "Checkpoint of that run; default the best on dev.")
  flags.DEFINE_integer("batch_size", 32, "Texts in a batch.", lower_bound=1)


if __name__ == "__main__":
  define_flags()
  app.run(main)
