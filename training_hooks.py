"""What a training run does at every step besides training: progress lines,
TensorBoard scalars, stopping where it makes no sense to go on, checkpoints when
the process is told to end, and keeping the best one of several evaluations.
"""

import contextlib
import json
import os
import signal
import threading
import time

import numpy as np
import tensorflow.compat.v1 as tf

import bert_utils
import checkpoint_utils
import estimator_utils

HISTORY_NAME = "eval_history.tsv"

# Metrics by which a checkpoint may be the best, and whether more is better.
BEST_METRICS = {"masked_lm_accuracy": True, "next_sentence_accuracy": True,
                "masked_lm_loss": False, "next_sentence_loss": False,
                "loss": False}

# float16: the loss scale is halved each time, and has then long been tiny.
MAX_SKIPS_IN_A_ROW = 50

# Published by a model, and used for figures instead of being shown as they are.
SLOTS, TOKENS = "tokens_per_example", "real_tokens_per_example"
LOSS_SCALE, SKIPPED_STEPS = "loss_scale", "skipped_steps"
_SCOPE = "training_log/"


def publish(tensors):
  """Gives scalars the names by which the training hooks find them.

  Args:
    tensors: dict, key -> scalar Tensor; "loss", "learning_rate" and
      "gradient_norm" must be among them. With "loss_scale" (float16) a step
      whose gradient is not finite is one that was skipped.
  """
  # An absolute scope: the hooks look in one place, whoever built the model.
  with tf.name_scope(_SCOPE):
    for key, tensor in tensors.items():
      tf.identity(tf.cast(tensor, tf.float32), name=key)


def publish_lengths(input_mask):
  """Publishes how many tokens an example has, padding included and not.

  Args:
    input_mask: int Tensor [B, S].
  """
  shape = tf.shape(input_mask)
  real = tf.reduce_sum(tf.cast(input_mask, tf.float32))
  publish({SLOTS: shape[1], TOKENS: real / tf.cast(shape[0], tf.float32)})


def _published(keys, optional=()):
  """Tensors by key; of the optional ones, those that the model has."""
  graph = tf.get_default_graph()
  tensors = {key: graph.get_tensor_by_name("%s%s:0" % (_SCOPE, key))
             for key in keys}
  for key in optional:
    try:
      tensors[key] = graph.get_tensor_by_name("%s%s:0" % (_SCOPE, key))
    except KeyError:
      continue
  return tensors


class _StepHook(tf.train.SessionRunHook):
  """Counts the steps: a global step read beside the update may be either.

  With a loss scale, one whose gradient is not finite is none.
  """

  def begin(self):
    self._step_tensor = tf.train.get_global_step()

  def after_create_session(self, session, coord):
    del coord
    self._step = int(session.run(self._step_tensor))

  def after_run(self, run_context, run_values):
    del run_context
    values = run_values.results
    if LOSS_SCALE not in values or np.isfinite(values["gradient_norm"]):
      self._step += 1


# -------------------------------------------------------------------- the start


class StartHook(tf.train.SessionRunHook):
  """Logs what is about to be trained, when its graph is there."""

  def __init__(self, lines, start_step):
    """Makes the hook.

    Args:
      lines: list of strings, what is known before.
      start_step: int, the step that the input begins at.
    """
    self._lines = lines
    self._start_step = start_step

  def begin(self):
    self._step_tensor = tf.train.get_global_step()
    if self._lines:
      lines = self._lines + [
          "parameters: {:,}".format(estimator_utils.count_parameters())]
      tf.logging.info("\n  ".join(["***** Training *****"] + lines))

  def after_create_session(self, session, coord):
    del coord
    step = int(session.run(self._step_tensor))
    if step != self._start_step:
      # A session that TensorFlow made anew within the process, after it had
      # lost a worker.
      tf.logging.warning(
          "training is at step %d, but its input begins as of step %d: the"
          " order of the data is not that of an uninterrupted run; to have it,"
          " end this run and start it again", step, self._start_step)


def describe_run(latest, init_checkpoint, step, num_train_steps, batch_size,
                 num_records, learning_rate, optimizer, num_warmup_steps,
                 parts=""):
  """What a training starts from and is going to do, in lines.

  Args:
    latest: path of the checkpoint that it goes on from, or None.
    init_checkpoint: path of the checkpoint that its weights are from, or None.
    step: int, steps that were made.
    num_train_steps: int.
    batch_size: int, examples of one update, on all devices together.
    num_records: int, of all workers.
    learning_rate: float.
    optimizer: string.
    num_warmup_steps: int.
    parts: string, how the batch is put together.

  Returns:
    List of strings.
  """
  if latest:
    source = "restored from %s, step %d" % (latest, step)
  elif init_checkpoint:
    source = "weights of %s, step 0" % init_checkpoint
  else:
    source = "fresh initial weights, step 0"
  steps_per_epoch = num_records / batch_size
  return [
      "from: %s, to step %d" % (source, num_train_steps),
      "records: %d, %.1f steps an epoch, %.2f epochs from step 0 to the end" % (
          num_records, steps_per_epoch, num_train_steps / steps_per_epoch),
      "batch size: %d%s" % (batch_size, parts),
      "learning rate: %g, %s, %d steps of warm-up" % (
          learning_rate, optimizer, num_warmup_steps)]


def batch_parts(options):
  """How the flags put a batch together, in words; "" where they do not."""
  parts = ["%d %s" % (number, word) for number, word in (
      (getattr(options, "num_gpus", None) or 1, "GPUs"),
      (getattr(options, "gradient_accumulation_steps", None) or 1,
       "micro-batches")) if number > 1]
  return " (on each worker %s)" % " x ".join(parts) if parts else ""


# ------------------------------------------------------------------- each step


class StopOnNonFiniteHook(_StepHook):
  """Stops training at the first loss or gradient norm that is not finite.

  The bad update is made by then, and the checkpoint of its step may be written:
  what is not good is removed, so that the latest checkpoint is a good one.
  With a loss scale (float16) such a step was skipped: it is counted, and only
  many in a row stop the run.
  """

  def __init__(self, model_dir, is_chief=True):
    self._model_dir = model_dir
    self._is_chief = is_chief

  def begin(self):
    super(StopOnNonFiniteHook, self).begin()
    self._tensors = _published(["loss", "learning_rate", "gradient_norm"],
                               [LOSS_SCALE])
    self._skips_in_a_row = 0

  def before_run(self, run_context):
    del run_context
    return tf.train.SessionRunArgs(self._tensors)

  def after_run(self, run_context, run_values):
    super(StopOnNonFiniteHook, self).after_run(run_context, run_values)
    values = run_values.results
    if np.isfinite(values["loss"]) and np.isfinite(values["gradient_norm"]):
      self._skips_in_a_row = 0
      return
    if LOSS_SCALE in values:
      self._skip(values)
      return
    checkpoint = (last_good_checkpoint(self._model_dir, self._step)
                  if self._is_chief else
                  tf.train.latest_checkpoint(self._model_dir))
    raise FloatingPointError(
        "training diverged at step %d: loss %s, gradient norm %s, learning"
        " rate %g; the last checkpoint of finite weights is %s; restart from it,"
        " or from an earlier one if the loss had been rising, with a lower"
        " --learning_rate or a longer --num_warmup_steps" % (
            self._step - 1, values["loss"], values["gradient_norm"],
            values["learning_rate"], checkpoint or "none"))

  def _skip(self, values):
    self._skips_in_a_row += 1
    tf.logging.info(
        "update %d in a row is skipped: loss %s, gradient norm %s at loss scale"
        " %g", self._skips_in_a_row, values["loss"], values["gradient_norm"],
        values[LOSS_SCALE])
    if self._skips_in_a_row >= MAX_SKIPS_IN_A_ROW:
      raise FloatingPointError(
          "training diverged: the last %d updates were all skipped, loss %s,"
          " gradient norm %s, learning rate %g, loss scale %g; the last"
          " checkpoint is %s; use --precision=float32 or bfloat16, or a lower"
          " --learning_rate" % (
              self._skips_in_a_row, values["loss"], values["gradient_norm"],
              values["learning_rate"], values[LOSS_SCALE],
              tf.train.latest_checkpoint(self._model_dir) or "none"))


def last_good_checkpoint(model_dir, bad_step):
  """Removes the latest checkpoints as far as they are bad.

  Args:
    model_dir: path.
    bad_step: int; a checkpoint of this step or a later one is bad, and so is
      one with numbers that are not finite: an update too large may overflow
      before any loss tells.

  Returns:
    Path of the latest checkpoint that is good, or None.
  """
  good = checkpoint_utils.step_checkpoints(model_dir)
  removed = []
  while good and (good[-1][0] >= bad_step or checkpoint_utils.first_non_finite(good[-1][1])):
    removed.append(good.pop()[1])
  if removed:
    tf.logging.warning("removed, as its weights are of no use: %s",
                       ", ".join(removed))
    # The list first: it must never name what is gone.
    if good:
      checkpoint_utils.write_checkpoint_state(model_dir,
                                              [path for _, path in good])
    else:
      tf.gfile.Remove(os.path.join(model_dir, "checkpoint"))
    for path in removed:
      tf.train.remove_checkpoint(path)
  return good[-1][1] if good else None


class TrainingLogHook(_StepHook):
  """Logs means since the last line, speed and time to go; TensorBoard too."""

  def __init__(self, keys, log_steps, num_train_steps, batch_size,
               tokens_per_example, model_dir, steps_per_epoch=None):
    """Makes the hook.

    Args:
      keys: list of the published scalars to log, in order.
      log_steps: int, steps between two lines.
      num_train_steps: int, where training ends.
      batch_size: int, global.
      tokens_per_example: int, slots of a sequence, where the model publishes
        no lengths.
      model_dir: path, where TensorBoard's events go.
      steps_per_epoch: float or None.
    """
    self._keys = list(keys)
    self._log_steps = log_steps
    self._num_train_steps = num_train_steps
    self._batch_size = batch_size
    self._tokens_per_example = tokens_per_example
    self._model_dir = model_dir
    self._steps_per_epoch = steps_per_epoch

  def begin(self):
    super(TrainingLogHook, self).begin()
    self._tensors = _published(
        self._keys, [SLOTS, TOKENS, LOSS_SCALE, SKIPPED_STEPS])
    self._writer = tf.summary.FileWriterCache.get(self._model_dir)

  def after_create_session(self, session, coord):
    super(TrainingLogHook, self).after_create_session(session, coord)
    self._start()

  def _start(self):
    self._start_time = time.time()
    self._sums = dict.fromkeys(self._tensors, 0.0)
    self._count = self._finite_count = 0
    self._logged_step = self._step

  def before_run(self, run_context):
    del run_context
    return tf.train.SessionRunArgs(self._tensors)

  def after_run(self, run_context, run_values):
    super(TrainingLogHook, self).after_run(run_context, run_values)
    values = run_values.results
    self._count += 1
    self._last = values
    if np.isfinite(values["loss"]) and np.isfinite(values["gradient_norm"]):
      self._finite_count += 1  # a skipped step would make all means nan
      for key in self._sums:
        self._sums[key] += float(values[key])
    if self._step > self._logged_step and (
        self._step % self._log_steps == 0 or
        self._step == self._num_train_steps):
      self._log()

  def _log(self):
    seconds = max(time.time() - self._start_time, 1e-9)
    means = {key: total / max(1, self._finite_count)
             for key, total in self._sums.items()}
    for key in ("learning_rate", LOSS_SCALE, SKIPPED_STEPS):
      if key in means:  # the figure of now, not a mean
        means[key] = float(self._last[key])
    slots = means.pop(SLOTS, self._tokens_per_example)
    real = means.pop(TOKENS, None)
    shown = ["%s %.4g" % (key, means[key]) for key in self._keys]
    shown += ["%s %g" % (key, means[key]) for key in (LOSS_SCALE, SKIPPED_STEPS)
              if key in means]
    steps_per_second = self._count / seconds
    examples = steps_per_second * self._batch_size
    means.update(examples_per_second=examples,
                 tokens_per_second=examples * slots)
    speed = "%.1f examples/s, %.0f tokens/s" % (examples, examples * slots)
    if real is not None:
      means["real_tokens_per_second"] = examples * real
      speed += " (%.0f without padding)" % (examples * real)
    if self._steps_per_epoch:
      means["epoch"] = self._step / self._steps_per_epoch
    tf.logging.info(
        "step %d/%d%s | %s | %s, ETA %s", self._step, self._num_train_steps,
        " epoch %.2f" % means["epoch"] if "epoch" in means else "",
        ", ".join(shown), speed,
        _hours((self._num_train_steps - self._step) / steps_per_second))
    self._writer.add_summary(tf.Summary(value=[
        tf.Summary.Value(tag="train/" + key, simple_value=value)
        for key, value in means.items()]), self._step)
    self._start()

  def end(self, session):
    del session
    if self._step > self._logged_step:
      self._log()
    self._writer.flush()


def _hours(seconds):
  seconds = int(seconds)
  return "%d:%02d:%02d" % (seconds // 3600, seconds // 60 % 60, seconds % 60)


# ------------------------------------------------------------ being told to end


class Stopped(SystemExit):
  """The process was told to end and its work is saved; `code` is how to."""


class Interruption(object):
  """Whether a signal, SIGTERM or SIGINT, has told the process to end."""

  def __init__(self):
    self.signal = None
    self.can_wait = False  # whether a step runs that may end first

  def exit(self, model_dir):
    """Ends the process as the signal asks for, if one came.

    Args:
      model_dir: path of the checkpoints.

    Raises:
      Stopped: a signal came.
    """
    if self.signal is None:
      return
    tf.logging.warning(
        "stopped by %s; the latest checkpoint is %s; the same command goes on"
        " from it", _signal_name(self.signal),
        tf.train.latest_checkpoint(model_dir) or "none")
    raise Stopped(128 + self.signal)


@contextlib.contextmanager
def catch_signals():
  """Makes the first signal a note, and the second one the end.

  The first one is the end, too, as long as no session was made: there is
  nothing to save.

  Python runs a handler only after the running step. What the signals' numbers
  are written to is read at once, so that the second need not wait.

  Yields:
    Interruption.
  """
  interruption = Interruption()
  if threading.current_thread() is not threading.main_thread():
    yield interruption  # only the main thread may handle signals
    return
  reader, writer = os.pipe()
  os.set_blocking(writer, False)
  signals = (signal.SIGTERM, signal.SIGINT)

  def watch():
    while True:
      for number in os.read(reader, 1) or b"\0":
        if not number:
          return
        if number not in signals:
          continue
        if interruption.signal is not None or not interruption.can_wait:
          # Nothing to save, or no patience. Python's own way would wait for
          # TensorFlow, which may wait for other machines.
          os.write(2, b"ended by a signal\n")
          os._exit(128 + number)
        interruption.signal = number

  def note(number, frame):
    """The thread below does it; without a handler the process would end."""
    del number, frame

  old_handlers = {number: signal.signal(number, note) for number in signals}
  old_writer = signal.set_wakeup_fd(writer)
  thread = threading.Thread(target=watch, daemon=True)
  thread.start()
  try:
    yield interruption
  finally:
    signal.set_wakeup_fd(old_writer)
    for number, handler in old_handlers.items():
      signal.signal(number, handler)
    os.write(writer, b"\0")
    thread.join()
    os.close(reader)
    os.close(writer)


@contextlib.contextmanager
def exit_if_told(interruption, model_dir):
  """Ends the process after what is within, if a signal came meanwhile.

  That goes before an InputError: of several workers, those that lose the chief
  because all of them were told to end have not failed.

  Args:
    interruption: Interruption.
    model_dir: path of the checkpoints.

  Raises:
    Stopped: a signal came.
  """
  try:
    yield
  except bert_utils.InputError:
    interruption.exit(model_dir)
    raise
  interruption.exit(model_dir)


def _signal_name(number):
  return "SIGTERM" if number == signal.SIGTERM else "SIGINT"


class InterruptionHook(tf.train.SessionRunHook):
  """Ends the loop after the running step; its checkpoint is written then."""

  def __init__(self, interruption, is_chief=True):
    """Makes the hook.

    Args:
      interruption: Interruption.
      is_chief: bool. Of several workers the chief writes the checkpoint; the
        others wait for it to leave, as it may still be in a step with them.
    """
    self._interruption = interruption
    self._is_chief = is_chief
    self._said = False

  def after_create_session(self, session, coord):
    del session, coord
    self._interruption.can_wait = True

  def after_run(self, run_context, run_values):
    del run_values
    if self._interruption.signal is None or self._said:
      return
    self._said = True
    name = _signal_name(self._interruption.signal)
    if self._is_chief:
      tf.logging.warning("%s: writing a checkpoint; a second one ends at once",
                         name)
      run_context.request_stop()
    else:
      tf.logging.warning("%s: waiting for the chief to write a checkpoint; a"
                         " second one ends at once", name)


# ---------------------------------------------------------- the best checkpoint


class BestCheckpoint(object):
  """The best of several evaluations, kept in `<output_dir>/best`.

  That folder is complete: checkpoint, its state file, config, vocabulary, and
  `best.json`, by which a later process goes on. `eval_history.tsv` beside the
  checkpoints has a line for each evaluation.
  """

  def __init__(self, output_dir, metric, patience=0):
    """Makes it, from what an earlier process has left.

    Args:
      output_dir: path.
      metric: string, one of BEST_METRICS.
      patience: int, after how many evaluations without improvement to stop; 0
        never stops.

    Raises:
      ValueError: what is left is of another metric.
    """
    self._output_dir = output_dir
    self._folder = os.path.join(output_dir, checkpoint_utils.BEST_FOLDER)
    self._path = os.path.join(self._folder, "best.json")
    self._metric = metric
    self._patience = patience
    self._state = {"metric": metric, "value": None, "step": None,
                   "last_step": 0, "evaluations_since": 0}
    if tf.gfile.Exists(self._path):
      with tf.gfile.GFile(self._path, "r") as reader:
        self._state = json.loads(reader.read())
      if self._state.get("metric") != metric:
        raise ValueError(
            "--best_metric is %s, but %s keeps the best by %s; go on with that,"
            " or move the folder away" % (metric, self._path,
                                          self._state.get("metric")))

  @property
  def last_step(self):
    """The step that was evaluated last; 0 for none."""
    return self._state["last_step"]

  def should_stop(self):
    """Whether as many evaluations brought nothing better as are allowed."""
    return bool(self._patience and
                self._state["evaluations_since"] >= self._patience)

  def describe(self):
    """The best so far, in words."""
    return "%s %.6g at step %s" % (self._metric, self._state["value"],
                                   self._state["step"])

  def add(self, step, checkpoint, results):
    """Takes note of an evaluation, and keeps the checkpoint if it is the best.

    Args:
      step: int.
      checkpoint: path.
      results: dict, metric -> number.

    Raises:
      InputError: the metric is not finite.
    """
    value = float(results[self._metric])
    if not np.isfinite(value):
      raise bert_utils.InputError("the evaluation of %s has %s %s" % (
          checkpoint, self._metric, value))
    best = self._state["value"]
    higher = BEST_METRICS[self._metric]
    better = best is None or (value > best if higher else value < best)
    state = dict(self._state, last_step=step)
    if better:
      _keep(checkpoint, self._output_dir, self._folder)
      state.update(value=value, step=step, evaluations_since=0)
    else:
      state["evaluations_since"] += 1
    self._add_to_history(step, results)
    # Last: a process that ends before this evaluates the step again.
    checkpoint_utils.write_text(self._path, json.dumps(
        state, indent=2, sort_keys=True) + "\n")
    self._state = state
    tf.logging.info(
        "evaluation at step %d: %s %.6g, %s", step, self._metric, value,
        "the best so far" if better else "the best is %s" % self.describe())

  def _add_to_history(self, step, results):
    """Adds a line, or replaces that of the same step."""
    path = os.path.join(self._output_dir, HISTORY_NAME)
    keys = sorted(BEST_METRICS)
    rows = []
    if tf.gfile.Exists(path):
      with tf.gfile.GFile(path, "r") as reader:
        rows = [line for line in reader.read().splitlines()[1:]
                if int(line.split("\t")[0]) < step]
    rows.append("\t".join([str(step)] + ["%.6g" % results[key]
                                         for key in keys]))
    checkpoint_utils.write_text(
        path, "\n".join(["\t".join(["step"] + keys)] + rows) + "\n")


def _keep(checkpoint, output_dir, folder):
  """Copies a checkpoint into a folder that is complete by itself."""
  tf.gfile.MakeDirs(folder)
  for name in (checkpoint_utils.CONFIG_NAME, checkpoint_utils.VOCAB_NAME):
    checkpoint_utils.copy_beside(os.path.join(output_dir, name), folder)
  checkpoint_utils.keep_checkpoint(checkpoint, folder)


# -------------------------------------------------------------------- together


def make_hooks(keys, options, num_train_steps, batch_size,
               tokens_per_example, steps_per_epoch=None, interruption=None,
               is_chief=True):
  """The hooks of a training run; on a TPU none can look inside its loop.

  Args:
    keys: list of the published scalars to log, in order.
    options: object with the flags as attributes.
    num_train_steps: int, where training ends.
    batch_size: int, global.
    tokens_per_example: int, slots of a sequence.
    steps_per_epoch: float or None.
    interruption: Interruption or None, see `catch_signals`.
    is_chief: bool, whether this process writes the checkpoints.

  Returns:
    List of hooks.
  """
  hooks = []
  if not options.use_tpu:
    hooks = [StopOnNonFiniteHook(options.output_dir, is_chief)]
    if is_chief:
      hooks.append(TrainingLogHook(
          keys, options.log_steps, num_train_steps, batch_size,
          tokens_per_example, options.output_dir, steps_per_epoch))
  if interruption:
    hooks.append(InterruptionHook(interruption, is_chief))
  return hooks
