"""Exports a trained model: SavedModel, and if asked for TensorFlow Lite, ONNX.

  python scripts/export_model.py --init_checkpoint=output \\
      --export_dir=output/export
  python scripts/export_model.py --init_checkpoint=output \\
      --export_dir=export --formats=tflite,tflite_int8,tflite_float16,onnx \\
      --test_file=texts.txt
  python scripts/export_model.py --model=encoder --init_checkpoint=albert_tiny \\
      --export_dir=encoder

The folder is a SavedModel, which plain TensorFlow loads without this project.
Its signature serving_default takes input_ids, input_mask and segment_ids, int32
[batch, length], and gives by --model:
  classifier  probabilities and logits [batch, labels]; of a regression, both
              are its value [batch, 1]
  encoder     sequence_output [batch, length, H], pooled_output [batch, H]
  masked_lm   log_probs [batch, length, V]: of every token in every place

A text longer than --max_seq_length is cut before, or read in windows, as
classifier.json says (long_text); `similarity.py` does so.

Beside it stand vocab.txt, albert_config.json, export.json (lengths, casing,
names), of a classifier classifier.json with the labels, and for --formats:
  tflite          model.tflite, float32
  tflite_int8     model_int8.tflite, weights of 8 bits (dynamic range)
  tflite_float16  model_float16.tflite, weights of 16 bits
  onnx            model.onnx (pip install tf2onnx)

Every file is loaded again and compared. The table of it has the size, the
largest difference (probabilities; a regression's value, relative where it is
above 1; vectors of an encoder), in how many places the best label or token is
the same (of a multi-label classifier, whether a label is at least as probable
as not), and the median time of one text at --max_seq_length, of all but the
SavedModel on one core. Without --test_file the texts are random tokens.
"""

import argparse
import collections
import importlib
import json
import os
import sys
import time

import numpy as np
# Else what TensorFlow finds in the machine is told before what it is asked for.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf2
import tensorflow.compat.v1 as tf

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for path in (ROOT, os.path.join(ROOT, "scripts")):
  if path not in sys.path:
    sys.path.insert(0, path)

import benchmark
import bert_utils
from build_vocab import at_least
from build_vocab import boolean
import checkpoint_utils
import classifier_model
import estimator_utils
import extract_features
import modeling
import run_classifier
import run_pretraining
import similarity

SIGNATURE = "serving_default"
EXPORT_NAME = "export.json"
# Format -> file beside saved_model.pb.
FILES = collections.OrderedDict([
    ("tflite", "model.tflite"), ("tflite_int8", "model_int8.tflite"),
    ("tflite_float16", "model_float16.tflite"), ("onnx", "model.onnx")])
# The same arithmetic in another program. What rounds weights is only reported.
LARGEST_DELTA = {"saved_model": 1e-4, "tflite": 1e-3, "onnx": 1e-3}
ONNX_OPSET = 13
NUM_RANDOM_TEXTS = 16
NUM_TIMED_RUNS = 20


# ------------------------------------------------------------------ the model


# What is exported. kind: "classifier", "encoder" or "masked_lm"; model: the
# Model of `extract_features.read_model`; vocab_file: path; classifier: dict,
# what classifier.json says, None of the other kinds.
Source = collections.namedtuple(
    "Source", ["kind", "model", "vocab_file", "classifier"])


def read_source(options):
  """Finds and checks the checkpoint and what belongs to it.

  Args:
    options: object with the command's arguments as attributes. The folder of a
      classifier stands for its best checkpoint on dev.

  Returns:
    Source.

  Raises:
    ValueError: something is missing or does not fit together.
  """
  if options.model != "classifier":
    model = extract_features.read_model(options)
    return Source(options.model, model, _vocab_file(options, model), None)
  options = argparse.Namespace(**vars(options))
  if tf.gfile.IsDirectory(options.init_checkpoint):
    settings = run_classifier.read_classifier(options.init_checkpoint)
    options.init_checkpoint = run_classifier.best_checkpoint(
        options.init_checkpoint)
  else:
    options.init_checkpoint = checkpoint_utils.check_init_checkpoint(
        options.init_checkpoint)
    settings = run_classifier.read_classifier(
        os.path.dirname(options.init_checkpoint) or ".")
  if options.max_seq_length is None:
    options.max_seq_length = settings["max_seq_length"]
  model = extract_features.read_model(options)
  return Source("classifier", model, _vocab_file(options, model), dict(
      settings, max_seq_length=model.max_seq_length,
      do_lower_case=_lower_cases(model)))


def _vocab_file(options, model):
  return options.vocab_file or os.path.join(os.path.dirname(model.checkpoint),
                                            checkpoint_utils.VOCAB_NAME)


def _lower_cases(model):
  return bool(model.tokenizer.basic_tokenizer.do_lower_case)


def build_outputs(source, input_ids, input_mask, segment_ids):
  """Builds the graph of a model, without dropout.

  Args:
    source: Source.
    input_ids: int32 Tensor [B, S].
    input_mask: int32 Tensor [B, S].
    segment_ids: int32 Tensor [B, S].

  Returns:
    OrderedDict, output name -> float Tensor; see the head of this file.
  """
  config = source.model.bert_config
  if source.kind == "classifier":
    output = run_classifier.create_model(
        config, False, input_ids, input_mask, segment_ids, labels=None,
        use_one_hot_embeddings=False,
        **classifier_model.predictor_options(source.classifier))
    return collections.OrderedDict([("probabilities", output.probabilities),
                                    ("logits", output.logits)])
  model = modeling.BertModel(config, False, input_ids, input_mask, segment_ids)
  if source.kind == "encoder":
    return collections.OrderedDict([
        ("sequence_output", model.get_sequence_output()),
        ("pooled_output", model.get_pooled_output())])
  return collections.OrderedDict([
      ("log_probs", _log_probs(config, model, input_ids))])


def _log_probs(config, model, input_ids):
  """Log probabilities [B, S, V] in every place, not in the masked ones only."""
  batch_size, seq_length = bert_utils.get_shape_list(input_ids)
  positions = tf.tile(tf.expand_dims(tf.range(seq_length), axis=0),
                      [batch_size, 1])
  # There is no label to compare with; what a loss needs is left behind.
  output = run_pretraining.get_masked_lm_output(
      config, model.get_sequence_output(), model.get_embedding_table(),
      model.get_embedding_table_2(), positions,
      label_ids=tf.zeros_like(positions),
      label_weights=tf.zeros_like(positions, dtype=tf.float32))
  return tf.reshape(output.log_probs,
                    [batch_size, seq_length, config.vocab_size])


def checkpoint_function(source):
  """The model with the checkpoint's weights: what exports are compared with.

  Raises:
    InputError: the checkpoint does not have the variables of the model.
  """
  advice = {"classifier": "give a checkpoint that run_classifier.py wrote",
            "encoder": "give one of the whole encoder",
            "masked_lm": "give one of pre-training, with its masked-LM head"}
  return similarity.checkpoint_function(
      lambda **inputs: build_outputs(source, **inputs),
      source.model.checkpoint, advice=advice[source.kind])


class ExportGraph(object):
  """A graph with the weights loaded, and nothing of the checkpoint's path."""

  def __init__(self, source, shape=(None, None)):
    """Builds it and takes the weights.

    Args:
      source: Source, of a checkpoint that has all variables.
      shape: (batch size, length), None where each call may have another.
    """
    reader = tf.train.load_checkpoint(source.model.checkpoint)
    self.session = tf.Session(graph=tf.Graph())
    with self.session.graph.as_default():
      self.inputs = {name: tf.placeholder(tf.int32, shape, name)
                     for name in similarity.INPUT_NAMES}
      self.outputs = {
          name: tf.identity(tensor, name=name) for name, tensor in
          build_outputs(source, **self.inputs).items()}
      for variable in tf.trainable_variables():
        variable.load(reader.get_tensor(bert_utils.variable_name(variable)),
                      self.session)

  def save(self, folder):
    """Writes a SavedModel into a folder that does not exist yet."""
    with self.session.graph.as_default():
      signature = tf.saved_model.predict_signature_def(self.inputs,
                                                       self.outputs)
      builder = tf.saved_model.Builder(folder)
      builder.add_meta_graph_and_variables(
          self.session, ["serve"], {SIGNATURE: signature},
          clear_devices=True, strip_default_attrs=True)
      builder.save()

  def frozen(self):
    """The graph up to the outputs as a GraphDef, variables as constants."""
    return tf.graph_util.convert_variables_to_constants(
        self.session, self.session.graph.as_graph_def(),
        [tensor.op.name for tensor in self.outputs.values()])

  def close(self):
    self.session.close()


# ------------------------------------------------------------------- functions
#
# Each loader returns a function: dict of int32 arrays [B, S] by input name ->
# dict of arrays by output name.


def load_saved_model(folder):
  """Loads a SavedModel by its signature."""
  session = tf.Session(graph=tf.Graph())
  with session.graph.as_default():
    signature = tf.saved_model.load(
        session, ["serve"], folder).signature_def[SIGNATURE]
  tensors = [{name: session.graph.get_tensor_by_name(info.name)
              for name, info in side.items()}
             for side in (signature.inputs, signature.outputs)]
  return similarity.SessionFunction(session, *tensors)


def load_tflite(path):
  """Loads a TensorFlow Lite model by its signature."""
  interpreter = tf2.lite.Interpreter(path, num_threads=1)
  interpreter.allocate_tensors()
  runner = interpreter.get_signature_runner(SIGNATURE)
  return lambda arrays: runner(**arrays)


def load_onnx(path):
  """Loads an ONNX model; None where onnxruntime is not installed."""
  try:
    onnxruntime = importlib.import_module("onnxruntime")
  except ImportError:
    return None
  options = onnxruntime.SessionOptions()
  options.intra_op_num_threads = 1
  session = onnxruntime.InferenceSession(path, options,
                                         providers=["CPUExecutionProvider"])
  names = [output.name for output in session.get_outputs()]
  return lambda arrays: dict(zip(names, session.run(names, arrays)))


# ------------------------------------------------------------------ conversion


def check_packages(formats):
  """Raises a ValueError, before any work, for a package that is missing."""
  if any(name.startswith("tflite") for name in formats) and (
      int(tf2.__version__.split(".")[0]) < 2):
    raise ValueError("--formats: TensorFlow Lite needs TensorFlow 2, this is"
                     " %s" % tf2.__version__)
  if "onnx" in formats:
    try:
      importlib.import_module("tf2onnx")
    except ImportError as error:
      raise ValueError("--formats: onnx needs tf2onnx; pip install tf2onnx"
                       " onnxruntime (%s)" % error) from error


def write_tflite(saved_model, path, name):
  """Converts a SavedModel.

  Only built-in operations are allowed: an interpreter alone runs the result.

  Args:
    saved_model: path.
    path: path of the file to write.
    name: "tflite", "tflite_int8" or "tflite_float16".
  """
  converter = tf2.lite.TFLiteConverter.from_saved_model(
      saved_model, signature_keys=[SIGNATURE])
  converter.target_spec.supported_ops = [tf2.lite.OpsSet.TFLITE_BUILTINS]
  if name != "tflite":
    converter.optimizations = [tf2.lite.Optimize.DEFAULT]
  if name == "tflite_float16":
    converter.target_spec.supported_types = [tf.float16]
  with open(path, "wb") as writer:
    writer.write(converter.convert())


def write_onnx(graph, path):
  """Converts an ExportGraph into an ONNX file of the same names."""
  convert = importlib.import_module("tf2onnx.convert")
  onnx_model, _ = convert.from_graph_def(
      graph.frozen(), opset=ONNX_OPSET,
      input_names=[tensor.name for tensor in graph.inputs.values()],
      output_names=[tensor.name for tensor in graph.outputs.values()])
  names = {tensor.name: name for side in (graph.inputs, graph.outputs)
           for name, tensor in side.items()}
  # tf2onnx keeps TensorFlow's ":0", which no caller should have to know.
  for value in list(onnx_model.graph.input) + list(onnx_model.graph.output):
    value.name = names.get(value.name, value.name)
  for node in onnx_model.graph.node:
    for side in (node.input, node.output):
      side[:] = [names.get(name, name) for name in side]
  with open(path, "wb") as writer:
    writer.write(onnx_model.SerializeToString())


# ------------------------------------------------------------------ comparison


# A line of the table. delta, same, places and milliseconds are None where the
# file could not be run; same and places where nothing is decided.
Row = collections.namedtuple("Row", ["name", "num_bytes", "delta", "same",
                                     "places", "milliseconds"])


def make_inputs(source, texts=None):
  """Inputs of one text each, padded to the source's max_seq_length.

  Args:
    source: Source.
    texts: list of strings or pairs; None for random tokens.

  Returns:
    List of dicts, input name -> int32 array [1, S].
  """
  model = source.model
  length = model.max_seq_length
  if texts is None:
    return _random_inputs(model.bert_config, length)
  inputs = []
  for feature in similarity.text_features(texts, length, model.tokenizer):
    inputs.append({
        name: np.array([values + [0] * (length - len(values))], np.int32)
        for name, values in feature.items()})
  return inputs


def _random_inputs(bert_config, length):
  """Random tokens of random lengths, the second half as another segment."""
  random = np.random.RandomState(1)
  inputs = []
  for real in random.randint(min(3, length), length + 1, NUM_RANDOM_TEXTS):
    mask = (np.arange(length) < real).astype(np.int32)
    segments = mask * (np.arange(length) >= real // 2)
    if bert_config.type_vocab_size < 2:
      segments = 0 * mask
    ids = random.randint(0, bert_config.vocab_size, length) * mask
    inputs.append({name: array[np.newaxis].astype(np.int32) for name, array in
                   zip(similarity.INPUT_NAMES, (ids, mask, segments))})
  return inputs


def compared(source, outputs, length):
  """What of a text's outputs is compared: no logits, and no padding.

  Args:
    source: Source.
    outputs: dict of arrays, of one text.
    length: int, its number of real tokens.

  Returns:
    float array; of a masked LM and of single labels, the last axis is a
    distribution.
  """
  if source.kind == "classifier":
    return outputs["probabilities"]
  if source.kind == "masked_lm":
    return np.exp(outputs["log_probs"][:, :length])
  return np.concatenate([outputs["sequence_output"][0, :length],
                         outputs["pooled_output"]])


def decisions(source, values):
  """What a model decides by its outputs.

  Args:
    source: Source.
    values: float array, of `compared`.

  Returns:
    int or bool array; None of an encoder and of a regression.
  """
  if source.kind == "encoder" or _task_type(source) == "regression":
    return None
  if _task_type(source) == "multi":
    return values >= similarity.THRESHOLD
  return np.argmax(values, axis=-1)


def _task_type(source):
  """That of a classifier, None of the other kinds."""
  return source.classifier and classifier_model.predictor_options(
      source.classifier)["task_type"]


def agreement(source, function, reference, inputs):
  """Compares two functions on texts.

  Args:
    source: Source.
    function: function of a dict of arrays.
    reference: another one.
    inputs: list of dicts, of `make_inputs`.

  Returns:
    (largest difference, how many decisions are the same, how many there are);
    (difference, None, None) where nothing is decided. The values of a
    regression, which may be of any size, differ by their share where above 1.
  """
  deltas, same, places = [], [], 0
  for arrays in inputs:
    length = int(arrays["input_mask"].sum())
    ours, theirs = [compared(source, each(arrays), length)
                    for each in (function, reference)]
    size = (np.maximum(np.abs(theirs), 1.0)
            if _task_type(source) == "regression" else 1.0)
    deltas.append((np.abs(ours - theirs) / size).max())
    decided = decisions(source, ours)
    if decided is not None:
      same.append(np.equal(decided, decisions(source, theirs)).sum())
      places += np.size(decided)
  # Unlike the built-in max, numpy's lets no NaN go under.
  delta = float(np.max(deltas))
  return (delta, int(sum(same)), places) if same else (delta, None, None)


def median_milliseconds(function, arrays):
  """The median time of a call, after two calls that are not counted."""
  times = []
  for _ in range(NUM_TIMED_RUNS + 2):
    begin = time.perf_counter()
    function(arrays)
    times.append(time.perf_counter() - begin)
  return 1000 * float(np.median(times[2:]))


def check_export(source, name, function, reference, inputs, num_bytes):
  """Compares and times what was exported; returns its Row.

  Raises:
    InputError: it computes something else.
  """
  delta, same, places = agreement(source, function, reference, inputs)
  # Written so that what is not a number does not pass either.
  if not delta <= LARGEST_DELTA.get(name, float("inf")):
    raise bert_utils.InputError(
        "the exported %s differs from the model by %.1e, more than %.0e, and"
        " is not kept; try another version of TensorFlow or of the converter"
        % (name, delta, LARGEST_DELTA[name]))
  return Row(name, num_bytes, delta, same, places,
             median_milliseconds(function, inputs[0]))


# -------------------------------------------------------------------- exporting


def check_export_dir(export_dir):
  """Raises a ValueError where something exists already."""
  if tf.gfile.Exists(export_dir):
    raise ValueError("--export_dir %s exists already and is not overwritten;"
                     " give another or remove it" % export_dir)


def export(source, export_dir, formats=(), resizable=False, texts=None):
  """Writes a folder, whole or not at all.

  Args:
    source: Source.
    export_dir: path that does not exist yet.
    formats: sequence of names in `FILES`, besides the SavedModel.
    resizable: bool; a TensorFlow Lite model takes any batch and length, not
      one text at the source's max_seq_length.
    texts: list of texts to compare on; None for random tokens.

  Returns:
    List of Rows.

  Raises:
    ValueError: the folder exists, a package is missing, or the checkpoint
      does not fit.
  """
  export_dir = export_dir.rstrip("/")
  check_export_dir(export_dir)
  check_packages(formats)
  function = checkpoint_function(source)
  temporary = "%s.tmp-%d" % (export_dir, os.getpid())
  try:
    rows = _write_all(source, temporary, formats, resizable, function,
                      make_inputs(source, texts))
    check_export_dir(export_dir)
    tf.gfile.Rename(temporary, export_dir)
  finally:
    function.close()
    for folder in (temporary, _fixed_folder(temporary)):
      if tf.gfile.Exists(folder):
        tf.gfile.DeleteRecursively(folder)
  return rows


def _fixed_folder(folder):
  """Where a SavedModel of one length stands while it is converted."""
  return folder + "-fixed"


def _write_all(source, folder, formats, resizable, function, inputs):
  """Writes and checks every file; returns the Rows."""
  graph = ExportGraph(source)
  graph.save(folder)
  if "onnx" in formats:
    write_onnx(graph, os.path.join(folder, FILES["onnx"]))
  graph.close()
  _write_beside(source, folder, formats, resizable)
  saved_model = load_saved_model(folder)
  rows = [check_export(source, "saved_model", saved_model, function, inputs,
                       _saved_model_bytes(folder))]
  converted = folder
  if not resizable and any(name.startswith("tflite") for name in formats):
    # With its sizes known, the graph has fewer and simpler operations.
    converted = _fixed_folder(folder)
    graph = ExportGraph(source, (1, source.model.max_seq_length))
    graph.save(converted)
    graph.close()
  for name in formats:
    path = os.path.join(folder, FILES[name])
    if name != "onnx":
      write_tflite(converted, path, name)
    exported = (load_onnx if name == "onnx" else load_tflite)(path)
    num_bytes = os.path.getsize(path)
    rows.append(
        check_export(source, name, exported, saved_model, inputs, num_bytes)
        if exported else Row(name, num_bytes, None, None, None, None))
  saved_model.close()
  return rows


def _write_beside(source, folder, formats, resizable):
  """Writes config, vocabulary, labels, and what a caller has to know."""
  model = source.model
  checkpoint_utils.prepare_output_dir(folder, model.bert_config)
  tf.gfile.Copy(source.vocab_file,
                os.path.join(folder, checkpoint_utils.VOCAB_NAME))
  if source.classifier:
    _write_json(os.path.join(folder, run_classifier.CLASSIFIER_NAME),
                source.classifier)
  description = {
      "model": source.kind,
      "checkpoint": os.path.basename(model.checkpoint),
      "global_step": checkpoint_utils.checkpoint_step(model.checkpoint),
      "do_lower_case": _lower_cases(model),
      "max_seq_length": model.max_seq_length,
      "inputs": list(similarity.INPUT_NAMES),
      "files": {name: FILES[name] for name in formats}}
  if any(name.startswith("tflite") for name in formats):
    description["tflite_shape"] = (
        [None, None] if resizable else [1, model.max_seq_length])
  _write_json(os.path.join(folder, EXPORT_NAME), description)


def _write_json(path, fields):
  checkpoint_utils.write_text(path, json.dumps(
      fields, ensure_ascii=False, indent=2, sort_keys=True) + "\n")


def _saved_model_bytes(folder):
  """Size of graph and weights, without the files of text beside them."""
  paths = [os.path.join(folder, "saved_model.pb")] + tf.gfile.Glob(
      os.path.join(folder, "variables", "*"))
  return sum(tf.gfile.Stat(path).length for path in paths)


def export_classifier(checkpoint, export_dir):
  """Exports a classifier as a SavedModel, for `run_classifier.py`.

  Args:
    checkpoint: path; classifier.json, config and vocabulary are beside it.
    export_dir: path that does not exist yet.

  Returns:
    List of one Row.
  """
  return export(read_source(argparse.Namespace(
      model="classifier", init_checkpoint=checkpoint, bert_config_file=None,
      vocab_file=None, do_lower_case=None, max_seq_length=None)), export_dir)


# ------------------------------------------------------------------------ main


def format_table(rows):
  """The table in Markdown, a string."""
  lines = [("format", "MB", "max delta", "same decisions", "ms a text"),
           ("---",) + 4 * ("---:",)]
  for row in rows:
    lines.append((
        row.name, "%.2f" % (row.num_bytes / 1e6),
        "not run" if row.delta is None else "%.1e" % row.delta,
        "" if row.places is None else "%d of %d" % (row.same, row.places),
        "" if row.milliseconds is None else "%.2f" % row.milliseconds))
  return "".join("| %s |\n" % " | ".join(line) for line in lines)


def format_list(text):
  names = text.split(",") if text else []
  for name in names:
    if name not in FILES:
      raise argparse.ArgumentTypeError("found %r, expected some of %s" % (
          name, ",".join(FILES)))
  return list(collections.OrderedDict.fromkeys(names))


def parse_arguments(argv):
  parser = argparse.ArgumentParser(
      allow_abbrev=False, description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  add = parser.add_argument
  add("--model", choices=("classifier", "encoder", "masked_lm"),
      default="classifier", help="what is exported (classifier)")
  add("--init_checkpoint", required=True,
      help="checkpoint, or a folder: its latest, of a classifier its best")
  add("--export_dir", required=True, help="folder to write, a new one")
  add("--formats", type=format_list, default=[],
      help="comma list, besides the SavedModel: %s" % ",".join(FILES))
  add("--max_seq_length", type=at_least(5),
      help="longest input, and the length of a TensorFlow Lite model; default:"
      " that of the classifier's training, else the model's"
      " max_position_embeddings")
  add("--tflite_shape", choices=("fixed", "resizable"), default="fixed",
      help="one text at --max_seq_length, or any batch and length, which is"
      " slower (fixed)")
  add("--test_file", help="texts to compare on, a line each, a pair with a tab"
      " between its texts; default: random tokens")
  add("--bert_config_file",
      help="the config; default: the one in the checkpoint's folder")
  add("--vocab_file",
      help="the vocabulary; default: vocab.txt in the checkpoint's folder")
  add("--do_lower_case", type=boolean,
      help="lower-case the texts; default: as classifier.json or metadata.json"
      " in the checkpoint's folder says, else True")
  return parser.parse_args(argv)


def read_test_file(test_file):
  """The texts of a file as a list; None for none."""
  if not test_file:
    return None
  if not tf.gfile.Exists(test_file) or tf.gfile.IsDirectory(test_file):
    raise ValueError("--test_file: there is no file %s" % test_file)
  with similarity.open_texts([], test_file) as numbered:
    texts = [text for _, text in numbered]
  if not texts:
    raise ValueError("--test_file: there is no text in %s" % test_file)
  return texts


def main(argv=None):
  args = parse_arguments(argv)
  estimator_utils.set_up_logging()
  with estimator_utils.exit_on(estimator_utils.BAD_INPUT):
    texts = read_test_file(args.test_file)
    source = read_source(args)
    rows = export(source, args.export_dir, args.formats,
                  args.tflite_shape == "resizable", texts)
  packages = ["tensorflow"] + ["tf2onnx", "onnxruntime"] * (
      "onnx" in args.formats)
  print("%s of %s, %s: %s\n" % (
      args.model, args.init_checkpoint,
      os.path.basename(source.model.checkpoint), args.export_dir))
  print(format_table(rows))
  print("saved_model is compared with the checkpoint, the others with it, on"
        " %s\nof at most %d tokens, a text at a time\n%s" % (
            "%d texts" % len(texts) if texts else
            "%d random texts" % NUM_RANDOM_TEXTS, source.model.max_seq_length,
            "\n".join(benchmark.describe_machine(packages))))
  return 0


if __name__ == "__main__":
  sys.exit(main())
