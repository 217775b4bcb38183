"""What both runners share: the Estimator seam, flags, run configuration."""

import collections
import contextlib
import importlib
import importlib.util
import json
import logging
import os
import sys
import threading
import time
import types

from absl import flags
from absl import logging as absl_logging
import tensorflow.compat.v1 as tf

import bert_utils

# ----------------------------------------------------------- TensorFlow's seam
#
# The only place that knows which TensorFlow runs. The Estimator belongs to
# TensorFlow 1.15 and up to 2.15. Since 2.16 it is a package of its own, whose
# last release (2.15.0) imports modules that TensorFlow no longer has. Nothing
# in them is used by training, evaluation, prediction and export on CPUs and
# GPUs of one machine, so stand-ins of their names are enough there. What does
# need them, several machines and TPUs, is refused: see `built_in_estimator`.


class UnsupportedTensorFlowError(ImportError):
  """This TensorFlow cannot run the project; the message says which can."""


def check_tensorflow(version, has_estimator_package, python=None):
  """Raises an error where this TensorFlow, as installed, cannot work.

  Args:
    version: string, such as "2.15.1".
    has_estimator_package: bool, whether tensorflow-estimator is installed;
      asked for since 2.16 only, others bring it.
    python: (int, int), the Python that the advice is for; default this one.

  Raises:
    UnsupportedTensorFlowError: one sentence on what to install.
  """
  numbers = tuple(int(part) for part in version.split(".")[:2])
  if numbers != (1, 15) and numbers < (2, 12):
    raise UnsupportedTensorFlowError(
        "TensorFlow %s is installed; this project runs on 1.15 and on 2.12 and"
        " later: %s" % (version, _what_to_install(python)))
  if numbers >= (2, 16) and not has_estimator_package:
    raise UnsupportedTensorFlowError(
        "TensorFlow %s comes without the Estimator, which is a package of its"
        " own since 2.16: pip install tensorflow-estimator==2.15.0" % version)


def _what_to_install(python=None):
  """The pip command of a TensorFlow for a Python, as in requirements.txt."""
  python = python or sys.version_info[:2]
  if python < (3, 8):
    return 'pip install tensorflow==1.15.5 "numpy<1.19" "protobuf<3.21"'
  if python < (3, 9):
    return "pip install tensorflow==2.13.1"
  if python < (3, 12):
    return "pip install tensorflow==2.15.1"
  return "pip install tensorflow==2.21.0 tensorflow-estimator==2.15.0"


def built_in_estimator():
  """Whether the Estimator is TensorFlow's own, with nothing left out.

  Only then are there the modules for several machines (TF_CONFIG) and for TPUs:
  on TensorFlow 1.15 and 2.12 to 2.15.

  Returns:
    bool.
  """
  return hasattr(tf, "estimator")


def _stand_in(name, **attributes):
  """Puts a module where an import looks for it, unless TensorFlow has it."""
  if importlib.util.find_spec(name) is not None:
    return
  module = types.ModuleType(name, "Stand-in by estimator_utils.py.")
  vars(module).update(attributes)
  sys.modules[name] = module
  package, _, last = name.rpartition(".")
  setattr(importlib.import_module(package), last, module)


def _left_out(name):
  """A class that can be named and subclassed; making an object says why not."""
  def refuse(self, *unused_args, **unused_kwargs):
    raise NotImplementedError(
        "TensorFlow %s has no %s any more; several machines and TPUs need"
        " TensorFlow 2.12 to 2.15, or 1.15" % (tf.__version__, name))
  return type(name, (object,), {"__init__": refuse})


def _init_run_config(config, tf_config):
  """RunConfig's part of a strategy, for one process.

  Args:
    config: RunConfig under construction.
    tf_config: dict, the TF_CONFIG variable.

  Raises:
    NotImplementedError: TF_CONFIG names a cluster.
  """
  if tf_config.get("cluster"):
    _left_out("distribute coordinator of the Estimator")()
  # pylint: disable=protected-access
  config._distribute_coordinator_mode = None
  config._init_distributed_setting_from_environment_var(tf_config)
  config._maybe_overwrite_session_config_for_distributed_training()


def _add_stand_ins():
  """Stand-ins of all modules that the package imports and TensorFlow lacks."""
  _stand_in("tensorflow.python.distribute.estimator_training",
            init_run_config=_init_run_config,
            should_run_distribute_coordinator=lambda config: False)
  # Named in annotations, base classes and isinstance() of the TPU embedding,
  # which this project does not use, and in a TPU's shutdown hooks.
  names = ["TPUEmbedding", "EnqueueData", "TableConfig", "FeatureConfig"] + [
      kind + "Parameters" for kind in (
          "Adagrad", "Adam", "Ftrl", "Momentum", "ProximalAdagrad", "RMSProp",
          "StochasticGradientDescent")]
  _stand_in("tensorflow.python.tpu.tpu_embedding",
            **{name: _left_out(name) for name in names})
  _stand_in("tensorflow.python.tpu.tpu_embedding_gradient")
  names = ["ShutdownLameWorkers", "ShutdownAllWorkers", "ResetComputation",
           "GracefulShutdownHook", "start_worker_watchdog"]
  _stand_in("tensorflow.python.tpu.session_support",
            **{name: _left_out(name) for name in names})


def _add_export_names():
  """Lets the decorators of the package register their public names."""
  exports = importlib.import_module("tensorflow.python.util.tf_export")
  if hasattr(exports, "ESTIMATOR_API_NAME"):
    return
  exports.ESTIMATOR_API_NAME = "estimator"
  for table, ending in ((exports.API_ATTRS, ""), (exports.API_ATTRS_V1, "_v1")):
    # The same kind of pair as the other entries: where on a symbol its public
    # names are noted, and where on a module its constants.
    pair = type(table[exports.TENSORFLOW_API_NAME])
    table["estimator"] = pair("_estimator_api_names" + ending,
                              "_estimator_api_constants" + ending)


def _load_estimator():
  """The Estimator API (`tf.estimator` of 1.x) of this TensorFlow.

  Returns:
    module.

  Raises:
    UnsupportedTensorFlowError: this TensorFlow cannot work.
  """
  check_tensorflow(tf.__version__,
                   importlib.util.find_spec("tensorflow_estimator") is not None)
  if built_in_estimator():
    return tf.estimator
  try:
    _add_stand_ins()
    _add_export_names()
    return importlib.import_module(
        "tensorflow_estimator.python.estimator.api._v1.estimator")
  except (ImportError, AttributeError) as error:
    # Private names: a later TensorFlow may have dropped more of them.
    raise UnsupportedTensorFlowError(
        "the Estimator does not import on TensorFlow %s (%s); the newest that"
        " it was tested on is 2.21: %s" % (
            tf.__version__, error, _what_to_install())) from error


def _print_sentence_alone(kind, value, traceback):
  """For `sys.excepthook`: a wrong TensorFlow is told without a traceback."""
  if issubclass(kind, UnsupportedTensorFlowError):
    sys.stderr.write("error: %s\n" % value)
  else:
    sys.__excepthook__(kind, value, traceback)


try:
  estimator = _load_estimator()
except UnsupportedTensorFlowError:
  # A script ends here; a program that imports this file can catch the error.
  sys.excepthook = _print_sentence_alone
  raise

# Whether this TensorFlow trains on several machines (TF_CONFIG).
HAS_MULTI_WORKER = built_in_estimator()

# Whether `tf.function` can compile with XLA on a CPU.
HAS_JIT = not tf.__version__.startswith("1.")


def set_up_logging():
  """Logs at INFO, every line once, without TensorFlow's advice to move on.

  Every Estimator call warns several times that it is deprecated: among that,
  nobody finds the warning that matters.
  """
  absl_logging.set_verbosity(absl_logging.INFO)
  tf.logging.set_verbosity(tf.logging.INFO)
  logger = logging.getLogger("tensorflow")
  logger.propagate = False  # absl's handler would print each line again
  if not any(isinstance(f, _DeprecationFilter) for f in logger.filters):
    logger.addFilter(_DeprecationFilter())


class _DeprecationFilter(logging.Filter):
  """Drops TensorFlow's deprecation warnings."""

  def filter(self, record):
    message = record.getMessage()
    return not ("is deprecated and will be removed" in message or
                "is deprecated. Please use" in message)


# ---------------------------------------------------------------------- flags

# What --precision means for the activations; weights are always float32.
PRECISIONS = collections.OrderedDict([
    ("float32", tf.float32), ("bfloat16", tf.bfloat16),
    ("float16", tf.float16)])


def define_flags():
  """Defines the flags that every runner has."""
  flags.DEFINE_string(
      "bert_config_file", None,
      "Json file of the model config; it specifies the architecture.")
  flags.DEFINE_alias("albert_config_file", "bert_config_file")
  flags.DEFINE_string(
      "output_dir", None,
      "Folder for checkpoints, logs and results; made if need be.")
  flags.DEFINE_string(
      "init_checkpoint", None,
      "Checkpoint to start from; without it, weights are initialized anew.")
  flags.DEFINE_bool(
      "allow_partial_init", False,
      "Start even if --init_checkpoint lacks encoder variables or has others,"
      " or a config of another kind stands beside it.")
  flags.DEFINE_bool(
      "init_from_group0", False,
      "Layout google: hidden groups that --init_checkpoint lacks start from its"
      " group 0.")
  flags.DEFINE_bool(
      "grow_vocab", False,
      "Let the config's vocab_size be more than that of --init_checkpoint: its"
      " rows are copied, the others initialized anew.")
  flags.DEFINE_integer("save_checkpoints_steps", 1000,
                       "Steps between two checkpoints.", lower_bound=1)
  flags.DEFINE_integer("keep_checkpoint_max", 20,
                       "How many checkpoints to keep; 0 keeps all.",
                       lower_bound=0)
  flags.DEFINE_integer("log_steps", 100,
                       "Steps between two lines of training progress.",
                       lower_bound=1)
  flags.DEFINE_bool("bucket_by_length", None,
                    "Make batches of sequences of similar lengths and crop"
                    " their padding; not for TPUs and XLA. Default: in"
                    " run_classifier.py wherever it works, else not.")
  flags.DEFINE_integer("seed", 12345,
                       "Seed of initial weights, shuffling and dropout.")
  flags.DEFINE_integer("iterations_per_loop", 1000,
                       "TPU: steps in each call of the device.", lower_bound=1)
  flags.DEFINE_bool("use_tpu", False, "Whether to run on a TPU.")
  flags.DEFINE_string("tpu_name", None,
                      "TPU: name or grpc://ip:8470 address; needed unless"
                      " --master is given.")
  flags.DEFINE_string("tpu_zone", None, "TPU: its zone, if not this one.")
  flags.DEFINE_string("gcp_project", None,
                      "TPU: its project, if not this one.")
  flags.DEFINE_string("master", None, "Address of a TensorFlow master.")
  flags.DEFINE_integer("num_tpu_cores", 8, "TPU: number of cores, all hosts'.",
                       lower_bound=1)
  flags.DEFINE_integer(
      "num_gpus", 0,
      "GPUs of this machine to train on; 0 trains on one device, a GPU if"
      " TensorFlow finds any. Several machines: see docs/distributed.md.",
      lower_bound=0)
  flags.DEFINE_bool("require_gpu", False,
                    "Whether to stop at the start where there is no GPU.")
  flags.DEFINE_integer(
      "gradient_accumulation_steps", 1,
      "Into how many parts, one after the other, a device divides its share of"
      " --train_batch_size, to save memory.", lower_bound=1)
  flags.DEFINE_bool(
      "recompute_activations", False,
      "Compute the encoder layers' activations again in the backward pass"
      " instead of keeping them, to save memory.")
  flags.DEFINE_enum(
      "precision", "float32", list(PRECISIONS),
      "Type of activations and products; weights stay float32. float16, for"
      " GPUs, scales the loss.")
  flags.DEFINE_bool(
      "use_xla", None,
      "GPU: whether XLA compiles the whole graph; default no. CPU: whether it"
      " compiles the activation gelu in training; default yes. A TPU always"
      " compiles.")


class RateParser(flags.FloatParser):
  """A learning rate: a finite number from 0 on, or one of some words."""

  def __init__(self, *words):
    super(RateParser, self).__init__()
    self._words = words

  def parse(self, argument):
    if argument in self._words:
      return argument
    try:
      rate = super(RateParser, self).parse(argument)
    except ValueError:
      rate = -1.0
    if not 0.0 <= rate < float("inf"):
      raise ValueError("it must be a number from 0 on%s" % "".join(
          " or " + word for word in self._words))
    return rate


class RateListParser(flags.ArgumentParser):
  """Learning rates between commas, all of them different."""

  def parse(self, argument):
    if not isinstance(argument, str):
      return list(argument)
    parser = RateParser()
    rates = [parser.parse(part.strip()) for part in argument.split(",")]
    if len(set(rates)) < len(rates):
      raise ValueError("each rate must be there once")
    return rates

  def flag_type(self):
    return "comma separated list of numbers"


# What is the user's to mend: in the checks that come before any work, and
# later on, where a plain ValueError would be a fault of the code.
BAD_INPUT = (ValueError, OSError, tf.errors.OpError)
BAD_RUN = (bert_utils.InputError, FloatingPointError, tf.errors.DataLossError)


@contextlib.contextmanager
def exit_on(errors):
  """Ends the process with the message alone: a traceback would hide it.

  Args:
    errors: tuple of classes, `BAD_INPUT` or `BAD_RUN`.
  """
  try:
    yield
  except errors as error:
    message = getattr(error, "message", None) or str(error)
    if isinstance(error, tf.errors.DataLossError):
      message = ("an input file is cut off or damaged (%s); python"
                 " scripts/inspect_tfrecord.py --check FILES says which" %
                 message.splitlines()[0])
    sys.exit("%s: error: %s" % (os.path.basename(sys.argv[0]), message))


def check_no_arguments(arguments):
  """Raises a ValueError for what belongs to no flag.

  `--do_eval False` sets the flag and leaves "False" over; a glob without
  quotes leaves all files but the first.

  Args:
    arguments: list of strings, as `main` gets it.
  """
  if len(arguments) > 1:
    raise ValueError("what does \"%s\" belong to? Values go with their flag,"
                     " --flag=value, and globs into quotes" %
                     " ".join(arguments[1:]))


# -------------------------------------------------------------------- devices


def check_tpu_flags(use_tpu, tpu_name, master, paths):
  """Raises a ValueError where a TPU could not work, before waiting for it.

  Args:
    use_tpu: bool.
    tpu_name: string or None.
    master: string or None.
    paths: dict, flag name -> path (or comma list of them) that the TPU's host
      must reach.
  """
  if not use_tpu:
    return
  if not tpu_name and not master:
    raise ValueError("--use_tpu needs --tpu_name (or --master)")
  for flag, value in paths.items():
    for path in (value or "").split(","):
      if path and not path.strip().startswith("gs://"):
        raise ValueError(
            "a TPU reads and writes Google Cloud Storage only: --%s must start"
            " with gs://, found %s" % (flag, path))


# A process among those that train together, by TF_CONFIG. `workers` are the
# addresses of all of them, the chief first; `index` is this one's place.
Cluster = collections.namedtuple("Cluster", ["workers", "index"])

_TF_CONFIG_FORM = (
    'it must be like {"cluster": {"chief": ["host1:2222"], "worker":'
    ' ["host2:2222"]}, "task": {"type": "worker", "index": 0}}')


def read_cluster(tf_config=None):
  """Reads which processes train together, and which of them this one is.

  Args:
    tf_config: string, json; default the environment variable TF_CONFIG.

  Returns:
    Cluster, or None where this process trains by itself.

  Raises:
    ValueError: TF_CONFIG is not what it must be.
  """
  if tf_config is None:
    tf_config = os.environ.get("TF_CONFIG", "")
  if not tf_config.strip():
    return None
  try:
    config = json.loads(tf_config)
  except ValueError as error:
    raise ValueError("TF_CONFIG is not valid json (%s), found %s; %s" % (
        error, tf_config, _TF_CONFIG_FORM)) from error
  cluster = config.get("cluster") if isinstance(config, dict) else config
  task = config.get("task", {}) if isinstance(config, dict) else {}
  if not cluster and isinstance(config, dict):
    return None  # as some clouds set it for a single machine
  _check_cluster(cluster, task, tf_config)
  kind, index = task["type"], int(task["index"])
  chiefs = cluster.get("chief", [])
  workers = list(chiefs) + list(cluster.get("worker", []))
  return Cluster(workers, index + (len(chiefs) if kind == "worker" else 0))


def _check_cluster(cluster, task, tf_config):
  """Raises a ValueError unless the parts of TF_CONFIG fit together."""
  if (not isinstance(cluster, dict) or not isinstance(task, dict) or
      not all(isinstance(addresses, list) and addresses and
              all(isinstance(address, str) for address in addresses)
              for addresses in cluster.values())):
    raise ValueError("TF_CONFIG is %s, but %s" % (tf_config, _TF_CONFIG_FORM))
  others = sorted(set(cluster) - {"chief", "worker"})
  if others or task.get("type") == "evaluator":
    raise ValueError(
        "TF_CONFIG has the task type %s, but only chief and worker train here;"
        " for an evaluation on the side, run --do_eval without TF_CONFIG" % (
            ", ".join(others) or "evaluator"))
  if len(cluster.get("chief", ["one"])) != 1:
    raise ValueError("TF_CONFIG has %d chiefs, but there is one: the others"
                     " are workers" % len(cluster["chief"]))
  addresses = sum(cluster.values(), [])
  for address in addresses:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
      raise ValueError("TF_CONFIG has the address %s, but it must be host:port"
                       % address)
    if addresses.count(address) > 1:
      raise ValueError("TF_CONFIG has the address %s more than once: every"
                       " process needs its own" % address)
  kind, index = str(task.get("type")), str(task.get("index"))
  if kind not in cluster or not index.isdigit() or (
      int(index) >= len(cluster[kind])):
    raise ValueError(
        "TF_CONFIG says that this is the task %s %s, but its cluster has %s" % (
            kind, index, " and ".join(
                "%d %s" % (len(cluster[name]), name)
                for name in sorted(cluster))))


def is_chief():
  """Whether this process writes what there is one of for all workers."""
  cluster = read_cluster()
  return cluster is None or cluster.index == 0


def list_gpus():
  """Names of the GPUs that TensorFlow finds here, as strategies want them."""
  found = tf.config.experimental.list_physical_devices("GPU")
  return ["/gpu:%d" % index for index in range(len(found))]


def check_devices(options):
  """Checks the flags on devices and batches against what there is.

  Args:
    options: object with the runner's flags as attributes.

  Raises:
    ValueError: says which flag asks for what is not there, or which two
      contradict each other.
  """
  cluster = read_cluster()
  if options.tpu_name and not options.use_tpu:
    tf.logging.warning("--tpu_name %s is not used: --use_tpu is not given",
                       options.tpu_name)
  if options.use_tpu:
    _check_tpu(options, cluster)
    num_replicas, where = options.num_tpu_cores, "TPU cores"
  else:
    num_replicas, where = _check_machines(options, cluster)
  if not options.do_train:
    return
  steps = options.gradient_accumulation_steps
  if options.train_batch_size % (num_replicas * steps):
    raise ValueError(
        "--train_batch_size %d is for all devices together; it must be a"
        " multiple of %d: %d %s, --gradient_accumulation_steps %d" % (
            options.train_batch_size, num_replicas * steps, num_replicas,
            where, steps))
  tf.logging.info(
      "training on %d %s: global batch %d, %d on each%s", num_replicas, where,
      options.train_batch_size, options.train_batch_size // num_replicas,
      " in %d parts" % steps if steps > 1 else "")


def _check_tpu(options, cluster):
  """Raises a ValueError for flags that contradict --use_tpu."""
  if not HAS_MULTI_WORKER:
    raise ValueError(
        "--use_tpu needs an Estimator that TensorFlow has up to 2.15, this is"
        " %s: pip install tensorflow==2.15.1" % tf.__version__)
  for flag in ("num_gpus", "require_gpu"):
    if getattr(options, flag):
      raise ValueError("--%s and --use_tpu contradict each other: the TPU"
                       " trains" % flag)
  if cluster:
    raise ValueError("TF_CONFIG names a cluster of %d and --use_tpu is given:"
                     " a TPU pod is one --tpu_name; unset TF_CONFIG" %
                     len(cluster.workers))
  if options.precision == "float16":
    raise ValueError("--precision=float16 is for GPUs: on a TPU, take"
                     " --precision=bfloat16")
  if options.use_xla:
    raise ValueError("--use_xla means nothing with --use_tpu, which always"
                     " compiles with XLA; leave it out")
  for flag in ("eval_batch_size", "predict_batch_size"):
    size = getattr(options, flag, None)
    if size and size % options.num_tpu_cores:
      raise ValueError("--%s %d is for all cores together; it must be a"
                       " multiple of --num_tpu_cores %d" % (
                           flag, size, options.num_tpu_cores))


def _check_machines(options, cluster):
  """Checks GPUs and cluster; returns the number of replicas, and of what."""
  gpus = list_gpus()
  tf.logging.info("TensorFlow %s finds %d GPUs and %d CPU cores",
                  tf.__version__, len(gpus), os.cpu_count())
  if options.require_gpu and not gpus:
    raise ValueError(
        "--require_gpu: TensorFlow %s finds no GPU on this machine; check"
        " nvidia-smi, CUDA_VISIBLE_DEVICES and that a TensorFlow for CUDA is"
        " installed" % tf.__version__)
  if options.use_xla and not gpus and not HAS_JIT:
    raise ValueError("--use_xla: TensorFlow %s compiles on GPUs only, and finds"
                     " none; leave it out" % tf.__version__)
  if options.precision == "float16" and not gpus:
    tf.logging.warning("--precision=float16 on a CPU is many times slower than"
                       " float32; it is for GPUs")
  if options.num_gpus > len(gpus):
    raise ValueError("--num_gpus is %d, but TensorFlow %s finds %d on this"
                     " machine" % (options.num_gpus, tf.__version__, len(gpus)))
  if cluster is None:
    if options.num_gpus > 1:
      return options.num_gpus, "GPUs"
    return 1, "GPU" if gpus else "CPU"
  if not HAS_MULTI_WORKER:
    raise ValueError(
        "TF_CONFIG names a cluster of %d, but several machines need an"
        " Estimator that TensorFlow has up to 2.15, this is %s: pip install"
        " tensorflow==2.15.1" % (len(cluster.workers), tf.__version__))
  if options.num_gpus and options.num_gpus != len(gpus):
    raise ValueError(
        "--num_gpus is %d, but a worker by TF_CONFIG takes all GPUs that it"
        " finds, %d; hide the others by CUDA_VISIBLE_DEVICES" % (
            options.num_gpus, len(gpus)))
  tf.logging.info("worker %d of %d, %s", cluster.index, len(cluster.workers),
                  "the chief" if cluster.index == 0 else
                  "the chief is %s" % cluster.workers[0])
  return (len(cluster.workers) * max(1, len(gpus)),
          "%s of %d workers" % ("GPUs" if gpus else "CPUs",
                                len(cluster.workers)))


def make_strategy(options):
  """The `tf.distribute` strategy of the flags and of TF_CONFIG.

  Args:
    options: object with the values of `define_flags` as attributes.

  Returns:
    tf.distribute.Strategy, or None for one device, and for a TPU.
  """
  if options.use_tpu:
    return None
  if read_cluster():
    # Eager mode would start a server of its own at the worker's address.
    tf.disable_eager_execution()
    return tf.distribute.experimental.MultiWorkerMirroredStrategy()
  if options.num_gpus > 1:
    return tf.distribute.MirroredStrategy(list_gpus()[:options.num_gpus])
  return None


def dropout_seed(seed, micro_batch, input_ids, use_tpu):
  """What a micro-batch's dropout is drawn from.

  A function of the run's seed, the replica, the micro-batch and the step, so
  that a run that goes on from a checkpoint draws what one without a break
  would have drawn.

  Args:
    seed: int, or None.
    micro_batch: int, or int32 Tensor [].
    input_ids: int32 Tensor [B, S]; on a TPU, where a shard does not know its
      number, what it reads tells it from the others.
    use_tpu: bool.

  Returns:
    int32 Tensor [2]; None without a seed.
  """
  if seed is None:
    return None
  if use_tpu:
    replica = tf.reduce_sum(input_ids)
  else:
    # Before TensorFlow 2, the number counts within a worker.
    cluster = read_cluster()
    replica = (tf.distribute.get_replica_context().replica_id_in_sync_group +
               256 * (cluster.index if cluster else 0))
  # Any mixture will do that tells all triples apart: the generator scrambles.
  mixed = _wrap_int32(seed * 1000003) + tf.cast(replica, tf.int32) * 65521
  step = tf.cast(tf.train.get_or_create_global_step(), tf.int32)
  return tf.stack([mixed + micro_batch, step])


def _wrap_int32(number):
  """An integer modulo 2^32, as int32 arithmetic has it."""
  return (number + 2 ** 31) % 2 ** 32 - 2 ** 31


# ------------------------------------------------------------------ Estimator


def model_options(options):
  """The arguments of both `model_fn_builder`s that come from these flags.

  Args:
    options: object with the values of `define_flags` as attributes.

  Returns:
    dict.
  """
  return dict(
      gradient_accumulation_steps=options.gradient_accumulation_steps,
      recompute_activations=options.recompute_activations,
      precision=options.precision, seed=options.seed,
      compile_gelu=compiles_gelu(options))


def compiles_gelu(options):
  """Whether XLA compiles the activation in training: on CPUs, unless refused.

  On a CPU it gets nothing else, because its products are slower than oneDNN's.

  Args:
    options: object with use_tpu and use_xla (bool, or None, the default).

  Returns:
    bool.
  """
  # A loop of TensorFlow 1's kind, over micro-batches, cannot call functions.
  return (HAS_JIT and tf.control_flow_v2_enabled() and
          options.use_xla in (None, True) and
          not options.use_tpu and not list_gpus())


def add_train_scalars(scalars, train):
  """Adds what the training hooks look at to the scalars of a step.

  Args:
    scalars: dict, name -> float Tensor [].
    train: optimization.TrainOp.

  Returns:
    The same dict.
  """
  scalars.update(loss=train.loss, learning_rate=train.learning_rate,
                 gradient_norm=train.gradient_norm)
  if train.loss_scale is not None:
    scalars.update(loss_scale=train.loss_scale,
                   skipped_steps=train.skipped_steps)
  return scalars


def spec_loss(loss):
  """The loss for a spec: the Estimator adds up what the replicas have.

  Args:
    loss: float Tensor [], the whole step's, the same on each replica.

  Returns:
    float Tensor [].
  """
  return loss / tf.distribute.get_strategy().num_replicas_in_sync


class LostWorkerHook(tf.train.SessionRunHook):
  """Ends a worker when another is gone, or at least says that it waits.

  TensorFlow would make a new session, start it from the last checkpoint and
  wait for the lost worker, again and again. And where no connection breaks,
  it waits without a word.
  """

  def __init__(self, cluster, seconds=120.0):
    """Makes the hook.

    Args:
      cluster: Cluster.
      seconds: float, without a step, between two warnings.
    """
    self._cluster = cluster
    self._seconds = seconds
    self._done = threading.Event()
    self._last_step = None
    self._thread = None

  def after_create_session(self, session, coord):
    del session, coord
    if self._thread is not None:
      raise bert_utils.InputError(
          "the connection to another worker is lost; the workers are %s, this"
          " is number %d: start all of them again, they go on from the last"
          " checkpoint" % (", ".join(self._cluster.workers),
                           self._cluster.index))
    self._last_step = time.time()
    self._thread = threading.Thread(target=self._watch)
    self._thread.daemon = True
    self._thread.start()

  def after_run(self, run_context, run_values):
    del run_context, run_values
    self._last_step = time.time()

  def end(self, session):
    del session
    self._done.set()

  def _watch(self):
    while not self._done.wait(self._seconds):
      waited = time.time() - self._last_step
      if waited >= self._seconds:
        tf.logging.warning(
            "no step for %d seconds: is a worker gone or slow? The workers are"
            " %s, this is number %d; if one died, end all of them and start"
            " them again, they go on from the last checkpoint", waited,
            ", ".join(self._cluster.workers), self._cluster.index)


class TPUEstimator(estimator.tpu.TPUEstimator):
  """The TPUEstimator for all devices: TPU, CPU, GPUs, and several machines.

  An input_fn of (params, input_context) is told which of the input pipelines
  it is, on every TensorFlow and on the hosts of a TPU pod, too. (Only a class
  of this name may override members of the Estimator.)
  """

  def train(self, input_fn, hooks=None, steps=None, max_steps=None,
            saving_listeners=None):
    """As the base class; with TF_CONFIG all workers train together.

    Each has to call it. The chief writes the checkpoints.
    """
    cluster = read_cluster()
    # pylint: disable-next=protected-access
    if cluster is None or not self.config._distribute_coordinator_mode:
      return super(TPUEstimator, self).train(
          input_fn, hooks, steps, max_steps, saving_listeners)
    # Only train_and_evaluate knows several workers; it comes back here with
    # a copy of this object for this worker. No task of it evaluates.
    hooks = list(hooks or ()) + [LostWorkerHook(cluster)]
    estimator.train_and_evaluate(
        self, estimator.TrainSpec(input_fn, max_steps, hooks),
        estimator.EvalSpec(input_fn))
    return self

  def _call_input_fn(self, input_fn, mode, input_context=None):
    # TensorFlow 1.15 and TPUs do not hand it on.
    def call(params):
      context = input_context
      if "context" in params:  # a TPU's
        context = tf.distribute.InputContext(
            num_input_pipelines=params["context"].num_hosts,
            input_pipeline_id=params["context"].current_host,
            num_replicas_in_sync=params["context"].num_replicas)
      if "input_context" in input_fn.__code__.co_varnames[
          :input_fn.__code__.co_argcount]:
        return input_fn(params, input_context=context)
      return input_fn(params)

    return super(TPUEstimator, self)._call_input_fn(call, mode)


def _session_config(options, strategy):
  """ConfigProto of all sessions: as the Estimator's own, and what flags say."""
  config = tf.ConfigProto(allow_soft_placement=True)
  # Grappler once and not twice, as the Estimator has it.
  config.graph_options.rewrite_options.meta_optimizer_iterations = 1
  if strategy:
    cpus = sum("cpu" in device.lower()
               for device in strategy.extended.worker_devices)
    config.device_count["CPU"] = max(1, cpus)
  if options.use_xla and list_gpus():
    config.graph_options.optimizer_options.global_jit_level = (
        tf.OptimizerOptions.ON_1)
  return config


def make_estimator(model_fn, options, train_batch_size, eval_batch_size,
                   predict_batch_size=None, strategy=None):
  """Makes the Estimator, which runs on TPU, CPU, GPUs and several machines.

  Training uses all devices of the flags; evaluation and prediction, except on
  a TPU, one.

  Args:
    model_fn: function of (features, labels, mode, params).
    options: object with the values of `define_flags` as attributes.
    train_batch_size: int, global.
    eval_batch_size: int, global.
    predict_batch_size: int, global, or None.
    strategy: tf.distribute.Strategy to train with; default by the options.

  Returns:
    TPUEstimator; its params have "batch_size", that of one replica.
  """
  # Under a strategy, AutoGraph would rewrite all of the model's Python.
  plain_model_fn = tf.autograph.experimental.do_not_convert(model_fn)

  def call_model_fn(features, labels, mode, params):
    return plain_model_fn(features, labels, mode, params)

  tpu_cluster = None
  if options.use_tpu and options.tpu_name:
    tpu_cluster = tf.distribute.cluster_resolver.TPUClusterResolver(
        options.tpu_name, zone=options.tpu_zone or None,
        project=options.gcp_project or None)
  strategy = strategy or make_strategy(options)
  if strategy:
    train_batch_size //= strategy.num_replicas_in_sync
  # Progress is the business of `TrainingLogHook`; the TPU's own loop, which
  # it cannot look into, logs by itself.
  log_step_count_steps = options.log_steps if options.use_tpu else None
  run_config = estimator.tpu.RunConfig(
      cluster=tpu_cluster,
      master=options.master,
      model_dir=options.output_dir,
      tf_random_seed=options.seed,
      session_config=(None if options.use_tpu else
                      _session_config(options, strategy)),
      train_distribute=strategy,
      save_checkpoints_steps=options.save_checkpoints_steps,
      keep_checkpoint_max=options.keep_checkpoint_max,
      log_step_count_steps=log_step_count_steps,
      tpu_config=estimator.tpu.TPUConfig(
          iterations_per_loop=options.iterations_per_loop,
          num_shards=options.num_tpu_cores,
          per_host_input_for_training=(
              estimator.tpu.InputPipelineConfig.PER_HOST_V2)))
  return TPUEstimator(
      use_tpu=options.use_tpu,
      model_fn=call_model_fn,
      config=run_config,
      train_batch_size=train_batch_size,
      eval_batch_size=eval_batch_size,
      predict_batch_size=predict_batch_size)


def count_parameters():
  """Number of trainable parameters of the default graph."""
  return sum(var.shape.num_elements() for var in tf.trainable_variables())


def log_trainable_variables():
  """Logs every trainable variable with its shape, and how many there are."""
  for var in tf.trainable_variables():
    tf.logging.info("  %s, shape %s", var.name, var.shape)
  tf.logging.info("%d trainable parameters", count_parameters())
