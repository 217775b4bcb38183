"""What both runners share: the Estimator seam, flags, run configuration."""

import contextlib
import importlib
import importlib.util
import logging
import os
import sys
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
  flags.DEFINE_integer("num_tpu_cores", 8, "TPU: number of cores.",
                       lower_bound=1)


# What is the user's to mend: in the checks that come before any work, and
# later on, where a plain ValueError would be a fault of the code.
BAD_INPUT = (ValueError, OSError, tf.errors.OpError)
BAD_RUN = (bert_utils.InputError, FloatingPointError)


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


# ------------------------------------------------------------------ Estimator


def check_tpu_flags(use_tpu, tpu_name, master, paths):
  """Raises a ValueError where a TPU could not work, before waiting for it.

  Args:
    use_tpu: bool.
    tpu_name: string or None.
    master: string or None.
    paths: dict, flag name -> path that the TPU's host must reach.
  """
  if not use_tpu:
    return
  if not tpu_name and not master:
    raise ValueError("--use_tpu needs --tpu_name (or --master)")
  for flag, path in paths.items():
    if path and not path.startswith("gs://"):
      raise ValueError("a TPU reads and writes Google Cloud Storage only: --%s"
                       " must start with gs://, found %s" % (flag, path))


def make_estimator(model_fn, options, train_batch_size, eval_batch_size,
                   predict_batch_size=None):
  """Makes the TPUEstimator, which runs on CPU and GPU too.

  Args:
    model_fn: function of (features, labels, mode, params).
    options: object with the values of `define_flags` as attributes.
    train_batch_size: int, global.
    eval_batch_size: int, global.
    predict_batch_size: int, global, or None.

  Returns:
    TPUEstimator; its params have "batch_size".
  """
  cluster = None
  if options.use_tpu and options.tpu_name:
    cluster = tf.distribute.cluster_resolver.TPUClusterResolver(
        options.tpu_name, zone=options.tpu_zone or None,
        project=options.gcp_project or None)
  # Progress is the business of `TrainingLogHook`; the TPU's own loop, which
  # it cannot look into, logs by itself.
  log_step_count_steps = options.log_steps if options.use_tpu else None
  run_config = estimator.tpu.RunConfig(
      cluster=cluster,
      master=options.master,
      model_dir=options.output_dir,
      tf_random_seed=options.seed,
      save_checkpoints_steps=options.save_checkpoints_steps,
      keep_checkpoint_max=options.keep_checkpoint_max,
      log_step_count_steps=log_step_count_steps,
      tpu_config=estimator.tpu.TPUConfig(
          iterations_per_loop=options.iterations_per_loop,
          num_shards=options.num_tpu_cores,
          per_host_input_for_training=(
              estimator.tpu.InputPipelineConfig.PER_HOST_V2)))
  return estimator.tpu.TPUEstimator(
      use_tpu=options.use_tpu,
      model_fn=model_fn,
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
