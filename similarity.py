"""Classifies texts or pairs with a trained classifier: load once, predict many.

In Python, with the output folder of `run_classifier.py` or a SavedModel:

  classifier = similarity.Classifier("output")
  classifier.labels                                  # ["0", "1"]
  classifier.predict([("今天好吗", "今天好不好")])   # float array [1, 2]

As a command, with texts as arguments, in a file, or a line each on standard
input; the two texts of a pair are separated by a tab:

  python similarity.py --model_dir=output --input_file=pairs.txt
  python similarity.py --model_dir=output --top_k=3 --json < pairs.txt
  python similarity.py --model_dir=output            # asks, on a terminal

prints a line for each: label, its probability (for each of --top_k), the text.
A multi-label classifier answers with all labels that are at least as probable
as not, which may be none, and a regression with its value.
"""

import contextlib
import itertools
import json
import os
import sys
import threading

from absl import app
from absl import flags
import numpy as np
import tensorflow.compat.v1 as tf

import bert_utils
import checkpoint_utils
import classifier_model
import classifier_utils
import estimator_utils
import modeling
import run_classifier
import tokenization

FLAGS = flags.FLAGS

INPUT_NAMES = ("input_ids", "input_mask", "segment_ids")

# Of a multi-label classifier, what makes a label part of the answer.
THRESHOLD = 0.5

# A long input is sorted by length, and answered, so many batches at a time.
BATCHES_AT_ONCE = 64


# ---------------------------------------------------------------- the function


class SessionFunction(object):
  """A loaded graph: arrays in, arrays out; may be called from many threads."""

  def __init__(self, session, inputs, outputs):
    """Takes what was loaded.

    Args:
      session: Session, with all variables initialized.
      inputs: dict, name -> Tensor to feed.
      outputs: dict, name -> Tensor to fetch.
    """
    self._session = session
    self._inputs = inputs
    self._outputs = outputs
    session.graph.finalize()  # No call can make it larger.

  def __call__(self, arrays):
    """Runs the graph.

    Args:
      arrays: dict, name -> array, for every input.

    Returns:
      dict, name -> array, of every output.
    """
    return self._session.run(self._outputs, {
        self._inputs[name]: array for name, array in arrays.items()})

  def close(self):
    """Frees the session; the object cannot be called any more."""
    self._session.close()


def checkpoint_function(build_fn, checkpoint, input_names=INPUT_NAMES,
                        advice=""):
  """Builds a graph, once, with the weights of a checkpoint.

  Args:
    build_fn: function of int32 Tensors [B, n], with the input names as
      keywords; returns a dict of Tensors.
    checkpoint: path of a checkpoint.
    input_names: sequence of strings.
    advice: string, what to do where the checkpoint lacks a head.

  Returns:
    SessionFunction.

  Raises:
    InputError: the checkpoint does not have the variables of the graph.
  """
  graph = tf.Graph()
  with graph.as_default():
    inputs = {name: tf.placeholder(tf.int32, [None, None], name)
              for name in input_names}
    outputs = build_fn(**inputs)
    checkpoint_utils.init_from_checkpoint(checkpoint, use_tpu=False,
                                         name_flags=False)
    missing = bert_utils.match_checkpoint(
        tf.trainable_variables(), checkpoint).missing
    if missing:
      raise bert_utils.InputError(
          "the checkpoint %s lacks %d variables of the model, the first is %s%s"
          % (checkpoint, len(missing), missing[0], advice and "; " + advice))
    initializer = tf.global_variables_initializer()
  session = tf.Session(graph=graph)
  session.run(initializer)
  return SessionFunction(session, inputs, outputs)


def is_saved_model(folder):
  """Whether a folder is a SavedModel."""
  return any(tf.gfile.Exists(os.path.join(folder, "saved_model" + ending))
             for ending in (".pb", ".pbtxt"))


def saved_model_function(folder):
  """Loads a SavedModel, of TensorFlow 1 or 2, by its default signature.

  Args:
    folder: path; the signature has the inputs input_ids, input_mask and
      segment_ids, each [B, S], and the output probabilities [B, outputs].

  Returns:
    SessionFunction.

  Raises:
    ValueError: it cannot be read, or has another signature.
  """
  session = tf.Session(graph=tf.Graph())
  with session.graph.as_default():
    try:
      signatures = tf.saved_model.load(session, ["serve"], folder).signature_def
    except (RuntimeError, OSError, tf.errors.OpError) as error:
      raise ValueError("the SavedModel %s cannot be loaded: %s" % (
          folder, getattr(error, "message", error))) from error
  signature = signatures.get("serving_default")
  found = (["%s" % sorted(side) for side in (signature.inputs,
                                             signature.outputs)]
           if signature else ["nothing", "nothing"])
  if not signature or set(signature.inputs) != set(INPUT_NAMES) or (
      "probabilities" not in signature.outputs):
    raise ValueError(
        "the SavedModel %s is no classifier of this project: its signature"
        " serving_default takes %s and gives %s, expected %s and"
        " ['probabilities']" % (folder, found[0], found[1],
                                sorted(INPUT_NAMES)))
  tensor = session.graph.get_tensor_by_name
  return SessionFunction(
      session,
      {name: tensor(info.name) for name, info in signature.inputs.items()},
      {"probabilities": tensor(signature.outputs["probabilities"].name)})


# -------------------------------------------------------------------- batches


def text_features(texts, max_seq_length, tokenizer):
  """What the model gets of each text, without padding.

  Args:
    texts: list of strings, or of pairs (text_a, text_b).
    max_seq_length: int; longer texts are truncated.
    tokenizer: FullTokenizer.

  Returns:
    List of dicts, input name -> list of ints.

  Raises:
    ValueError: something is neither a text nor a pair.
  """
  return text_windows(texts, max_seq_length, tokenizer)[0]


def text_windows(texts, max_seq_length, tokenizer, long_text="head",
                 stride=None):
  """What the model gets of each text, or of each window of a long one.

  Args:
    texts: list of strings, or of pairs (text_a, text_b).
    max_seq_length: int.
    tokenizer: FullTokenizer.
    long_text: string, as `classifier_utils.convert_example` has it; so is the
      next.
    stride: int or None.

  Returns:
    (list of dicts, input name -> list of ints without padding; list of as many
    ints, the number of the text that each is of).

  Raises:
    ValueError: something is neither a text nor a pair.
  """
  if isinstance(texts, str):
    raise ValueError("expected a list of texts, found the text %r" % texts)
  features, numbers = [], []
  for index, text in enumerate(texts):
    text_a, text_b = _as_pair(index, text)
    windows = classifier_utils.convert_example(
        index, classifier_utils.InputExample("text %d" % index, text_a, text_b),
        [], max_seq_length, tokenizer, long_text=long_text, stride=stride)
    for window in windows:
      length = sum(window.input_mask)
      features.append({name: getattr(window, name)[:length]
                       for name in INPUT_NAMES})
      numbers.append(index)
  return features, numbers


def _as_pair(index, text):
  pair = (text, None) if isinstance(text, str) else text
  if (not isinstance(pair, (tuple, list)) or len(pair) != 2 or
      not isinstance(pair[0], str) or
      not isinstance(pair[1], (str, type(None)))):
    raise ValueError("text %d is %r, expected a string or a pair of strings" %
                     (index, text))
  return pair


def padded_batches(features, batch_size):
  """Puts rows of about the same length together: little padding.

  Args:
    features: list of dicts, name -> list of ints, with "input_ids" and all of
      the same names.
    batch_size: int, the most rows of a batch.

  Yields:
    (indices into `features`, dict, name -> int32 array [rows, longest]). The
    longest come first: what does not fit into memory shows at once.
  """
  order = sorted(range(len(features)),
                 key=lambda index: -len(features[index]["input_ids"]))
  for begin in range(0, len(order), batch_size):
    indices = order[begin:begin + batch_size]
    arrays = {}
    for name in features[indices[0]]:
      rows = [features[index][name] for index in indices]
      arrays[name] = np.zeros([len(rows), max(map(len, rows))], np.int32)
      for array, row in zip(arrays[name], rows):
        array[:len(row)] = row
    yield indices, arrays


def run_in_batches(function, features, batch_size):
  """Calls a function on padded batches.

  Args:
    function: function of a dict of arrays that returns a dict of arrays.
    features: as for `padded_batches`.
    batch_size: int.

  Returns:
    List of dicts, output name -> array, one for each of `features`, in order.
  """
  rows = [None] * len(features)
  for indices, arrays in padded_batches(features, batch_size):
    outputs = function(arrays)
    for place, index in enumerate(indices):
      rows[index] = {name: array[place] for name, array in outputs.items()}
  return rows


# ----------------------------------------------------------------- classifier


class Classifier(object):
  """A trained classifier in memory; may be used from several threads.

  `checkpoint` is the path of the weights, None where they are a SavedModel's;
  `labels` (none of a regression), `max_seq_length`, `task_type` ("single",
  "multi" or "regression"), `long_text` and `long_text_stride` (what becomes of
  longer texts) are those of the training, `num_outputs` is how many numbers it
  gives for a text.
  """

  def __init__(self, model_dir, checkpoint=None, batch_size=32, function=None):
    """Loads the model.

    Args:
      model_dir: path, an output folder of `run_classifier.py`, of which the
        best checkpoint on dev is taken if there is one, else the latest; or a
        SavedModel, with the classifier.json and vocab.txt of that folder.
      checkpoint: path of another checkpoint of that run, or None.
      batch_size: int, how many texts go through the model at once.
      function: what computes instead of the folder's own weights: a function
        of {"input_ids": ..., "input_mask": ..., "segment_ids": int32 array
        [B, S]} that returns {"probabilities": float array [B, outputs]} and
        stands calls from several threads; or None.

    Raises:
      ValueError: the folder is not such a folder, or has no checkpoint.
    """
    settings = run_classifier.read_classifier(model_dir)
    self.labels = settings["labels"]
    self.max_seq_length = settings["max_seq_length"]
    # Files of earlier versions do not say it: they cut the end off.
    self.long_text = settings.get("long_text", "head")
    self.long_text_stride = settings.get("long_text_stride")
    self._model_options = classifier_model.predictor_options(settings)
    self.task_type = self._model_options["task_type"]
    self.num_outputs = self._model_options["num_labels"]
    self.batch_size = batch_size
    self.checkpoint = None
    vocab_file = os.path.join(model_dir, checkpoint_utils.VOCAB_NAME)
    checkpoint_utils.check_wordpiece(vocab_file)
    self.tokenizer = tokenization.FullTokenizer(vocab_file,
                                                settings["do_lower_case"])
    tokenization.validate_vocab(self.tokenizer.vocab, vocab_file=vocab_file)
    if function is None and is_saved_model(model_dir):
      if checkpoint:
        raise ValueError("%s is a SavedModel, which has its own weights; leave"
                         " out the checkpoint %s" % (model_dir, checkpoint))
      function = saved_model_function(model_dir)
    elif function is None:
      if checkpoint and not bert_utils.checkpoint_exists(checkpoint):
        raise ValueError(
            "there is no checkpoint %s; give one without its ending, such as"
            " %s" % (checkpoint, os.path.join(model_dir, "model.ckpt-1000")))
      self.checkpoint = checkpoint or run_classifier.best_checkpoint(model_dir)
      function = self._restore(model_dir, vocab_file)
    self._function = function

  def _restore(self, model_dir, vocab_file):
    """The function of the folder's config and `self.checkpoint`."""
    config_file = os.path.join(model_dir, checkpoint_utils.CONFIG_NAME)
    bert_config = modeling.BertConfig.from_json_file(config_file)
    tokenization.validate_vocab(self.tokenizer.vocab, bert_config.vocab_size,
                                vocab_file, config_file)
    checkpoint_utils.check_init_config(bert_config, self.checkpoint,
                                      name_flags=False)

    def build(input_ids, input_mask, segment_ids):
      return {"probabilities": run_classifier.create_model(
          bert_config, False, input_ids, input_mask, segment_ids, labels=None,
          use_one_hot_embeddings=False, **self._model_options).probabilities}

    return checkpoint_function(
        build, self.checkpoint,
        advice="give a checkpoint that run_classifier.py wrote")

  def predict(self, texts):
    """Predicts texts.

    Args:
      texts: list of strings, or of pairs (text_a, text_b).

    Returns:
      float array [number of texts, num_outputs], rows in order: probabilities
      in the order of the labels, or the value of a regression. Those of single
      labels sum to 1.

    Raises:
      ValueError: something is neither a text nor a pair, or the model has
        another number of labels than classifier.json.
    """
    features, numbers = text_windows(
        texts, self.max_seq_length, self.tokenizer, self.long_text,
        self.long_text_stride)
    rows = run_in_batches(self._function, features, self.batch_size)
    sums = np.zeros([len(texts), self.num_outputs])
    for number, row in zip(numbers, rows):
      if len(row["probabilities"]) != self.num_outputs:
        raise ValueError(
            "the model gives %d probabilities, but classifier.json has %d"
            " labels%s; it is of another model" % (
                len(row["probabilities"]), len(self.labels),
                " and is of a regression" * (self.task_type == "regression")))
      sums[number] += row["probabilities"]
    counts = np.bincount(np.array(numbers, np.int64), minlength=len(texts))
    return (sums / counts[:, np.newaxis]).astype(np.float32)

  def predict_top(self, texts, top_k):
    """Predicts texts; returns the best labels of each.

    Args:
      texts: as for `predict`.
      top_k: int, how many labels; no more than there are.

    Returns:
      List, in order, of lists of (label, its probability), the best first.

    Raises:
      ValueError: also of a regression, which has no labels.
    """
    if self.task_type == "regression":
      raise ValueError("the classifier is of a regression: it has a value for"
                       " each text, and no labels of which %d could be the best"
                       % top_k)
    probabilities = self.predict(texts)
    best = np.argsort(-probabilities, axis=-1, kind="stable")[:, :top_k]
    return [[(self.labels[index], float(row[index])) for index in indices]
            for indices, row in zip(best, probabilities)]

  def predict_labels(self, texts):
    """Predicts texts; returns the answer to each.

    Args:
      texts: as for `predict`.

    Returns:
      List, in order: of single labels (label, its probability); of multiple
      ones a list of them, the best first, as far as they are at least as
      probable as not; of a regression its value, a float.
    """
    if self.task_type == "regression":
      return [float(value) for value in self.predict(texts)[:, 0]]
    if self.task_type == "single":
      return [best[0] for best in self.predict_top(texts, 1)]
    return [[(label, probability) for label, probability in best
             if probability >= THRESHOLD]
            for best in self.predict_top(texts, len(self.labels))]

  def answer(self, texts, top_k=None):
    """What the command prints of texts.

    Args:
      texts: as for `predict`.
      top_k: int, how many labels; None for `predict_labels`.

    Returns:
      List, in order, of lists of (label, its probability); of a regression,
      of floats.
    """
    if top_k is not None:
      return self.predict_top(texts, top_k)
    answers = self.predict_labels(texts)
    if self.task_type == "single":
      return [[best] for best in answers]
    return answers

  def close(self):
    """Frees the session; the object cannot predict any more."""
    if hasattr(self._function, "close"):
      self._function.close()


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


# ------------------------------------------------------------ texts and output


def read_texts(lines):
  """Texts of lines, pairs where a line has a tab; blank lines are skipped.

  Raises:
    ValueError: a line has more than one tab.
  """
  return [text for _, text in numbered_texts(lines)]


def numbered_texts(lines, source=""):
  """Yields (number, text) of lines, as `read_texts` does.

  Args:
    lines: iterable of strings, or of UTF-8 bytes.
    source: string, what the messages name before the line.

  Raises:
    ValueError: a line has more than one tab, or is not UTF-8.
  """
  for number, line in enumerate(lines, start=1):
    where = "%sline %d" % (source and source + ", ", number)
    if isinstance(line, bytes):
      try:
        line = line.decode("utf-8" if number > 1 else "utf-8-sig")
      except UnicodeDecodeError as error:
        raise ValueError("%s is not UTF-8; convert it, as iconv -f gb18030 -t"
                         " utf-8 does" % where) from error
    fields = line.rstrip("\r\n").split("\t")
    if len(fields) > 2:
      raise ValueError("%s has %d tabs, expected a text or two texts with one"
                       " tab between them" % (where, len(fields) - 1))
    if line.strip():
      yield number, fields[0] if len(fields) == 1 else tuple(fields)


@contextlib.contextmanager
def open_texts(arguments, input_file):
  """Opens what a command was given to read.

  Args:
    arguments: list of strings, texts; or empty.
    input_file: path, or None, which is standard input.

  Yields:
    Iterator of (line number, text).

  Raises:
    ValueError: both are given, or there is no such file.
  """
  if arguments and input_file:
    raise ValueError("there are texts as arguments and --input_file %s; give"
                     " one of them" % input_file)
  if arguments:
    yield numbered_texts(arguments)
  elif not input_file:
    yield numbered_texts(sys.stdin.buffer, "standard input")
  elif not tf.gfile.Exists(input_file) or tf.gfile.IsDirectory(input_file):
    raise ValueError("--input_file: there is no file %s" % input_file)
  else:
    with tf.gfile.GFile(input_file, "rb") as reader:
      yield numbered_texts(reader, input_file)


@contextlib.contextmanager
def open_output(output_file):
  """Opens a file that gets its name when it is complete, or standard output.

  Args:
    output_file: path, or None, which is standard output.

  Yields:
    Writer of bytes.
  """
  if not output_file:
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()
    return
  temporary = output_file + ".tmp"
  try:
    with open(temporary, "wb") as writer:
      yield writer
    os.replace(temporary, output_file)
  finally:
    if os.path.exists(temporary):
      os.remove(temporary)


def check_output_file(output_file):
  """Raises a ValueError, before any work, for a file in no folder."""
  folder = os.path.dirname(output_file or "")
  if folder and not os.path.isdir(folder):
    raise ValueError("--output_file %s: there is no folder %s; make it first" %
                     (output_file, folder))


def in_parts(texts, size):
  """Yields lists of `size` items of an iterator, and one of the rest."""
  part = list(itertools.islice(texts, size))
  while part:
    yield part
    part = list(itertools.islice(texts, size))


def text_fields(text):
  """A text, or a pair, as a dict for JSON: text_a and, of a pair, text_b."""
  if isinstance(text, str):
    return {"text_a": text}
  return {"text_a": text[0], "text_b": text[1]}


def json_line(fields):
  """A dict as a line of UTF-8 JSON."""
  return (json.dumps(fields, ensure_ascii=False) + "\n").encode("utf-8")


# ----------------------------------------------------------------------- main


def format_prediction(text, best, as_json):
  """What is printed of a text.

  Args:
    text: string, or a pair.
    best: list of (label, its probability); or a float, a regression's value.
    as_json: bool.

  Returns:
    UTF-8 bytes, a line.
  """
  is_value = isinstance(best, float)
  if as_json and is_value:
    return json_line(dict(text_fields(text), value=round(best, 6)))
  if as_json:
    return json_line(dict(text_fields(text), predictions=[
        {"label": label, "probability": round(probability, 6)}
        for label, probability in best]))
  fields = ["%.4f" % best] if is_value else [
      field for label, probability in best
      for field in (label, "%.4f" % probability)]
  fields += [text] if isinstance(text, str) else text
  return ("\t".join(fields) + "\n").encode("utf-8")


def answer_lines(classifier, lines, writer, top_k, as_json):
  """Answers each line before the next is read; a wrong line is told."""
  for line in lines:
    try:
      texts = read_texts([line])
      best = classifier.answer(texts, top_k)
    except ValueError as error:
      tf.logging.error("%s", str(error).replace("line 1", "the line", 1))
      continue
    for text, labels in zip(texts, best):
      writer.write(format_prediction(text, labels, as_json))
    writer.flush()


def _prompted(lines, is_terminal):
  """The lines of a terminal, each asked for."""
  lines = iter(lines)
  while True:
    if is_terminal:
      sys.stderr.write("text, or two texts with a tab between them (Ctrl-D"
                       " ends)> ")
      sys.stderr.flush()
    line = next(lines, None)
    if line is None:
      return
    yield line


def main(arguments):
  estimator_utils.set_up_logging()
  with estimator_utils.exit_on(estimator_utils.BAD_INPUT):
    options, texts = FLAGS, arguments[1:]
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    interactive = options.interactive or (
        is_terminal and not texts and not options.input_file)
    if options.interactive and (texts or options.input_file):
      raise ValueError("--interactive reads standard input; leave out %s" % (
          "the texts" if texts else "--input_file"))
    check_output_file(options.output_file)
    classifier = Classifier(options.model_dir, options.checkpoint,
                            options.batch_size)
    if options.top_k and classifier.task_type == "regression":
      raise ValueError("--top_k is for labels, but --model_dir %s is of a"
                       " regression; leave it out" % options.model_dir)
    with open_output(options.output_file) as writer:
      if interactive:
        answer_lines(classifier, _prompted(sys.stdin.buffer, is_terminal),
                     writer, options.top_k, options.json)
        return
      with open_texts(texts, options.input_file) as numbered:
        for part in in_parts(numbered, BATCHES_AT_ONCE * options.batch_size):
          part = [text for _, text in part]
          for text, best in zip(part, classifier.answer(part, options.top_k)):
            writer.write(format_prediction(text, best, options.json))


def define_flags():
  """Defines this script's flags."""
  flags.DEFINE_string("model_dir", "output",
                      "Output folder of run_classifier.py, or a SavedModel"
                      " with classifier.json and vocab.txt in its folder.")
  flags.DEFINE_string("checkpoint", None,
                      "Checkpoint of that run; default the best on dev.")
  flags.DEFINE_string("input_file", None,
                      "Texts, a line each; default the arguments, or else"
                      " standard input.")
  flags.DEFINE_string("output_file", None,
                      "Where the answers go; default standard output.")
  flags.DEFINE_bool("interactive", False,
                    "Answer each line of standard input before the next is"
                    " read; default on a terminal.")
  flags.DEFINE_integer("top_k", None,
                       "How many labels of each text; default the best, of a"
                       " multi-label classifier all of probability 0.5 or more.",
                       lower_bound=1)
  flags.DEFINE_bool("json", False, "Print JSON, an object a line.")
  flags.DEFINE_integer("batch_size", 32, "Texts in a batch.", lower_bound=1)


if __name__ == "__main__":
  define_flags()
  app.run(main)
