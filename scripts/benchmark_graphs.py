"""The process of one candidate of `benchmark.py train|forward|classify|...`.

  python scripts/benchmark_graphs.py '{"work": "train", ...}'

Builds the graph that the json object asks for, warms it up, and says so in one
line of json. Then each line of its standard input is a number of steps to run;
the answer is one line of json with the seconds they took. It ends with its
input. `Candidate` in benchmark.py is the other end.

The graph is either that of a checkout of this project or that of a peer: the
folder of albert_zh, or that of google-research/bert (which also comes as a
package). They are written for TensorFlow 1; on 2.x they get a stand-in for the
module `tensorflow`.
"""

import importlib
import inspect
import json
import os
import platform
import sys
import time
import types

import numpy as np
import tensorflow.compat.v1 as tf

NUM_LABELS = 2  # of the classifier whose logits "forward" computes
LEARNING_RATE, NUM_STEPS = 1e-4, 100000  # of the schedule of "train"
WARMUP_SECONDS = {"forward": 0.5}  # at least
EXAMPLES_WORK = ("fine_tune", "evaluate", "predict")
NUM_BATCHES = 4  # different ones, fed in turn


class GraphError(Exception):
  """A graph that cannot be built from this code; one sentence for the user."""


# ------------------------------------------------- TensorFlow 1.15's namespace


def install_stand_in():
  """Makes `import tensorflow` give what code for TensorFlow 1.15 expects.

  That is tensorflow.compat.v1, `tf.layers.dense` where it is gone, and of
  tf.contrib what the peers' graphs and imports use. Does nothing on 1.15.
  """
  real = sys.modules["tensorflow"]
  if tf.__version__.startswith("1."):
    return
  contrib = types.ModuleType("tensorflow.contrib")
  contrib.layers = types.SimpleNamespace(layer_norm=_contrib_layer_norm)
  contrib.tpu = types.SimpleNamespace(
      CrossShardOptimizer=tf.tpu.CrossShardOptimizer)
  contrib.cluster_resolver = types.SimpleNamespace()
  contrib.data = types.SimpleNamespace()
  try:
    dense = tf.layers.dense
  except AttributeError:  # from TensorFlow 2.16 on
    dense = _dense
  stand_in = _StandIn("tensorflow", {
      "contrib": contrib, "layers": types.SimpleNamespace(dense=dense)})
  stand_in.__path__ = real.__path__  # for imports of modules below it
  sys.modules["tensorflow"] = stand_in
  sys.modules["tensorflow.contrib"] = contrib
  for name, value in vars(contrib).items():
    if isinstance(value, types.SimpleNamespace):
      sys.modules["tensorflow.contrib." + name] = value


class _StandIn(types.ModuleType):
  """A module whose attributes are some of its own, then compat.v1's."""

  def __init__(self, name, own):
    super(_StandIn, self).__init__(name)
    self.__dict__.update(own)

  def __getattr__(self, name):
    return getattr(tf, name)


def _contrib_layer_norm(inputs, begin_norm_axis=1, begin_params_axis=-1,
                        scope=None):
  """tf.contrib.layers.layer_norm, as far as BERT's code uses it."""
  assert begin_norm_axis == begin_params_axis == -1, "only the last axis"
  width = inputs.shape.as_list()[-1:]
  with tf.variable_scope(scope, "LayerNorm"):
    beta = tf.get_variable("beta", width, initializer=tf.zeros_initializer())
    gamma = tf.get_variable("gamma", width, initializer=tf.ones_initializer())
    mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
    return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)


def _dense(inputs, units, activation=None, kernel_initializer=None, name=None):
  """tf.layers.dense of a matrix, as far as BERT's code uses it."""
  with tf.variable_scope(name, "dense"):
    kernel = tf.get_variable("kernel", [inputs.shape.as_list()[-1], units],
                             initializer=kernel_initializer)
    bias = tf.get_variable("bias", [units],
                           initializer=tf.zeros_initializer())
  output = tf.nn.bias_add(tf.matmul(inputs, kernel), bias)
  return output if activation is None else activation(output)


# --------------------------------------------------------------------- modules


def import_from(folder, names):
  """Imports modules from a folder of scripts or from a package.

  Args:
    folder: path; where it has an __init__.py, it is a package.
    names: list of strings.

  Returns:
    List of modules.

  Raises:
    GraphError: one is missing, or one that it imports.
  """
  folder = os.path.abspath(folder)
  # Neither this script's folder nor modules of the same names come first.
  sys.path[0] = folder
  prefix = ""
  if os.path.exists(os.path.join(folder, "__init__.py")):
    sys.path[0], prefix = os.path.split(folder)
    prefix += "."
  modules = []
  for name in names:
    try:
      modules.append(importlib.import_module(prefix + name))
    except ImportError as error:
      raise GraphError("%s of %s cannot be imported: %s" %
                       (name, folder, error)) from error
  return modules


def options_of(function, wanted, where):
  """Those options that a function has.

  Args:
    function: a function or class.
    wanted: dict, name -> (value, value that means without it).
    where: path, for the message.

  Returns:
    dict, name -> value.

  Raises:
    GraphError: an option that is wanted is not there.
  """
  known = inspect.signature(function).parameters
  for name, (value, neutral) in wanted.items():
    if name not in known and value != neutral:
      raise GraphError("%s of the code in %s has no %s, wanted is %s" %
                       (function.__name__, where, name, value))
  return {name: value for name, (value, _) in wanted.items() if name in known}


# ---------------------------------------------------------------------- graphs


def random_batch(spec, vocab_size, seed):
  """A batch of full sequences: feature name -> array.

  Args:
    spec: dict with batch_size B, max_seq_length S, max_predictions P.
    vocab_size: int.
    seed: int.

  Returns:
    dict; as the records of run_pretraining.py, and `label_ids` [B].
  """
  rng = np.random.RandomState(seed)
  size, length = spec["batch_size"], spec["max_seq_length"]
  predictions = spec["max_predictions"]

  def ids(bound, *shape):
    return rng.randint(0, bound, shape).astype(np.int32)

  positions = [np.sort(1 + rng.permutation(length - 1)[:predictions])
               for _ in range(size)]
  return {
      "input_ids": ids(vocab_size, size, length),
      "input_mask": np.ones([size, length], np.int32),
      "segment_ids": np.tile(np.arange(length) >= length // 2,
                             [size, 1]).astype(np.int32),
      "masked_lm_positions": np.array(positions, np.int32),
      "masked_lm_ids": ids(vocab_size, size, predictions),
      "masked_lm_weights": np.ones([size, predictions], np.float32),
      "next_sentence_labels": ids(2, size, 1),
      "label_ids": ids(NUM_LABELS, size)}


def our_training(spec, features):
  """The training step of a checkout of this project, as its runner makes it.

  Args:
    spec: dict.
    features: dict, name -> Tensor.

  Returns:
    (op of the step, loss).
  """
  modeling, pretraining, estimator_utils = import_from(
      spec["code_dir"], ["modeling", "run_pretraining", "estimator_utils"])
  config = modeling.BertConfig.from_json_file(spec["config_file"])
  compiles_gelu = hasattr(estimator_utils, "compiles_gelu") and (
      estimator_utils.compiles_gelu(
          types.SimpleNamespace(use_tpu=False, use_xla=None)))
  options = options_of(pretraining.model_fn_builder, {
      "precision": (spec["precision"], "float32"),
      "recompute_activations": (spec["recompute_activations"], False),
      "gradient_accumulation_steps": (spec["gradient_accumulation_steps"], 1),
      "compile_gelu": (compiles_gelu, False),
  }, spec["code_dir"])
  model_fn = pretraining.model_fn_builder(
      config, None, LEARNING_RATE, NUM_STEPS, NUM_STEPS // 10, use_tpu=False,
      use_one_hot_embeddings=False, optimizer="lamb", **options)
  made = model_fn(features, None, "train", {"batch_size": spec["batch_size"]})
  return made.train_op, made.loss


def our_forward(spec, features):
  """The classifier of a checkout of this project; returns (op, logits)."""
  modeling, classifier = import_from(
      spec["code_dir"], ["modeling", "run_classifier"])
  config = modeling.BertConfig.from_json_file(spec["config_file"])
  options = options_of(classifier.create_model, {
      "compute_dtype": (tf.as_dtype(spec["precision"]), tf.float32),
  }, spec["code_dir"])
  output = classifier.create_model(
      config, False, features["input_ids"], features["input_mask"],
      features["segment_ids"], None, NUM_LABELS, False, **options)
  return tf.no_op(), output.logits


def peer_training(spec, features):
  """The training step of a peer; returns (op of the step, loss)."""
  modeling, pretraining, optimization = import_from(
      spec["code_dir"], ["modeling", "run_pretraining", "optimization"])
  config = modeling.BertConfig.from_json_file(spec["config_file"])
  model = modeling.BertModel(
      config=config, is_training=True, input_ids=features["input_ids"],
      input_mask=features["input_mask"],
      token_type_ids=features["segment_ids"], use_one_hot_embeddings=False)
  tables = [model.get_embedding_table()]
  if hasattr(model, "get_embedding_table_2"):  # BERT projects nothing
    tables.append(model.get_embedding_table_2())
  arguments = [config, model.get_sequence_output()] + tables + [
      features[name] for name in ("masked_lm_positions", "masked_lm_ids",
                                  "masked_lm_weights")]
  masked_lm_loss = pretraining.get_masked_lm_output(*arguments)[0]
  loss = masked_lm_loss + pretraining.get_next_sentence_output(
      config, model.get_pooled_output(), features["next_sentence_labels"])[0]
  train_op = optimization.create_optimizer(
      loss, LEARNING_RATE, NUM_STEPS, NUM_STEPS // 10, False)
  return train_op, loss


def peer_forward(spec, features):
  """The classifier of a peer; returns (op, logits)."""
  modeling, classifier = import_from(
      spec["code_dir"], ["modeling", "run_classifier"])
  config = modeling.BertConfig.from_json_file(spec["config_file"])
  output = classifier.create_model(
      config, False, features["input_ids"],
      features["input_mask"], features["segment_ids"], features["label_ids"],
      NUM_LABELS, False)
  return tf.no_op(), output[2]


BUILDERS = {("train", False): our_training, ("train", True): peer_training,
            ("forward", False): our_forward, ("forward", True): peer_forward}


def run_on_records(spec):
  """Builds our training on record files; as `build`."""
  pretraining, = import_from(spec["code_dir"], ["run_pretraining"])
  dataset = pretraining.input_fn_builder(
      spec["input_files"], spec["max_seq_length"], spec["max_predictions"],
      is_training=True, seed=1, bucket_by_length=spec["bucket_by_length"])(
          {"batch_size": spec["batch_size"]})
  iterator = tf.data.make_initializable_iterator(dataset)
  fetches = our_training(spec, iterator.get_next())
  session = tf.Session()
  session.run([tf.global_variables_initializer(), iterator.initializer])
  call = session.make_callable(list(fetches))
  return lambda: call()[1]


def run_on_examples(spec):
  """Builds our fine-tuning, evaluation or prediction on examples; as `build`.

  A step of "fine_tune" is one of training; of "evaluate" and "predict" it is a
  pass over all examples, from the file on.
  """
  inputs, = import_from(spec["code_dir"], ["classifier_features"])
  feature_file, options = convert_examples(spec)
  is_training = spec["work"] == "fine_tune"
  make_input = inputs.train_input_fn if is_training else inputs.predict_input_fn
  iterator = tf.data.make_initializable_iterator(
      make_input(feature_file, options)({"batch_size": spec["batch_size"]}))
  fetches = classifier_fetches(spec, feature_file.num_labels,
                               iterator.get_next())
  initializers = [iterator.initializer, tf.local_variables_initializer()]
  session = tf.Session()
  session.run([tf.global_variables_initializer()] + initializers)
  call = session.make_callable(fetches)
  if is_training:
    return lambda: call()[1]

  def run_pass():
    session.run(initializers)
    results = []
    try:
      while True:
        results.append(call())
    except tf.errors.OutOfRangeError:
      pass
    if spec["work"] == "evaluate":
      return results[-1]
    return inputs.collect_outputs(feature_file, np.concatenate(results))

  return run_pass


def convert_examples(spec):
  """The first examples of a training set as features.

  Args:
    spec: dict.

  Returns:
    (FeatureFile, options for the functions of classifier_features).
  """
  tasks, tokenization, inputs = import_from(
      spec["code_dir"],
      ["classifier_utils", "tokenization", "classifier_features"])
  options = types.SimpleNamespace(
      task_name="tsv", max_seq_length=spec["max_seq_length"],
      do_lower_case=True, long_text="head", long_text_stride=None,
      num_workers=1, use_tpu=False, use_xla=False, seed=1,
      bucket_by_length=spec["bucket_by_length"])
  processor = tasks.get_processor(options.task_name)
  examples = processor.get_train_examples(spec["data_dir"])
  feature_file = inputs.convert_split(
      examples[:spec["num_examples"]], processor.get_labels(), options,
      spec["output_dir"], "train",
      tokenization.FullTokenizer(spec["vocab_file"]))
  return feature_file, options


def classifier_fetches(spec, num_labels, features):
  """What to run for a batch of examples: Tensors and ops.

  Args:
    spec: dict.
    num_labels: int.
    features: dict, name -> Tensor.

  Returns:
    [op of the step, loss], or the metrics by now, or the probabilities.
  """
  modeling, classifier = import_from(
      spec["code_dir"], ["modeling", "run_classifier"])
  model_fn = classifier.model_fn_builder(
      modeling.BertConfig.from_json_file(spec["config_file"]), num_labels,
      None, LEARNING_RATE, NUM_STEPS, NUM_STEPS // 10, use_tpu=False,
      use_one_hot_embeddings=False, precision=spec["precision"])
  mode = {"fine_tune": "train", "evaluate": "eval", "predict": "infer"}
  made = model_fn(features, None, mode[spec["work"]], {})
  if spec["work"] == "fine_tune":
    return [made.train_op, made.loss]
  if spec["work"] == "evaluate":
    metric_fn, tensors = made.eval_metrics
    return [update for _, update in metric_fn(*tensors).values()]
  return made.predictions["probabilities"]


def build(spec):
  """Builds the graph of a candidate.

  Args:
    spec: dict: work ("train" or "forward"; or one of EXAMPLES_WORK, see
      `run_on_examples`), is_peer, code_dir, config_file, batch_size,
      max_seq_length, max_predictions, precision, recompute_activations,
      gradient_accumulation_steps; warmup_steps, 2. For "train" also
      input_files, a list of paths, and bucket_by_length: records to train on
      in place of random ids. EXAMPLES_WORK has data_dir (of a task
      tsv), num_examples, vocab_file, output_dir (of the features) and
      bucket_by_length.

  Returns:
    Function that runs one step and returns its loss or logits.

  Raises:
    GraphError: the code lacks what is asked for.
  """
  with open(spec["config_file"], encoding="utf-8") as reader:
    vocab_size = json.load(reader)["vocab_size"]
  tf.set_random_seed(1)
  if spec["work"] in EXAMPLES_WORK:
    return run_on_examples(spec)
  if spec.get("input_files"):
    return run_on_records(spec)
  batches = [random_batch(spec, vocab_size, seed)
             for seed in range(NUM_BATCHES)]
  features = {name: tf.placeholder(value.dtype, value.shape, name)
              for name, value in batches[0].items()}
  fetches = BUILDERS[spec["work"], spec["is_peer"]](spec, features)
  session = tf.Session()
  session.run(tf.global_variables_initializer())
  names = sorted(features)
  call = session.make_callable(list(fetches), [features[n] for n in names])
  fed = [[batch[name] for name in names] for batch in batches]
  steps = iter(range(sys.maxsize))

  def run_step():
    return call(*fed[next(steps) % NUM_BATCHES])[1]

  return run_step


# --------------------------------------------------------------------- process


def run_steps(run_step, number):
  """Runs steps; returns their seconds, those of all cores, the last result."""
  begin, begin_cpu = time.perf_counter(), time.process_time()
  for _ in range(number):
    result = run_step()
  return (time.perf_counter() - begin, time.process_time() - begin_cpu, result)


def warm_up(run_step, spec):
  """Runs the first steps, which are slower; returns the last one's seconds."""
  run_steps(run_step, 1)
  least = WARMUP_SECONDS.get(spec["work"], 0.0)
  begin = time.perf_counter()
  done = 0
  while (done < spec.get("warmup_steps", 2) or
         time.perf_counter() - begin < least):
    seconds, _, result = run_steps(run_step, 1)
    done += 1
  if not np.all(np.isfinite(result)):
    raise GraphError("the result is not finite after %d steps" % (done + 1))
  return seconds


def main():
  spec = json.loads(sys.argv[1])
  # What the modules print must not come between the answers.
  answers = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)

  def answer(**values):
    answers.write(json.dumps(values) + "\n")
    answers.flush()

  if spec["is_peer"]:
    install_stand_in()
    tf.disable_v2_behavior()
  # Variables and loops are those that this project's runners have.
  tf.disable_eager_execution()
  tf.logging.set_verbosity(tf.logging.ERROR)
  try:
    run_step = build(spec)
    seconds = warm_up(run_step, spec)
  except GraphError as error:
    answer(error=str(error))
    sys.exit(1)
  answer(seconds=seconds,
         versions="Python %s, TensorFlow %s" % (platform.python_version(),
                                                tf.__version__))
  for line in sys.stdin:
    seconds, cpu_seconds, _ = run_steps(run_step, int(line))
    answer(seconds=seconds, cpu_seconds=cpu_seconds)


if __name__ == "__main__":
  main()
