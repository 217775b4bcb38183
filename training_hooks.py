"""What a training run does at every step besides training: progress lines,
TensorBoard scalars, stopping where it makes no sense to go on.
"""

import time

import numpy as np
import tensorflow.compat.v1 as tf


def publish(tensors):
  """Gives scalars the names by which the training hooks find them.

  Args:
    tensors: dict, key -> scalar Tensor; "loss", "learning_rate" and
      "gradient_norm" must be among them.
  """
  # An absolute scope: the hooks look in one place, whoever built the model.
  with tf.name_scope("training_log/"):
    for key, tensor in tensors.items():
      tf.identity(tf.cast(tensor, tf.float32), name=key)


def _published(keys):
  graph = tf.get_default_graph()
  return {key: graph.get_tensor_by_name("training_log/%s:0" % key)
          for key in keys}


class StopOnNonFiniteHook(tf.train.SessionRunHook):
  """Stops training at the first loss or gradient norm that is not finite.

  The gradient is looked at too, and before checkpoints are written: so no
  checkpoint holds the weights of the bad update.
  """

  def __init__(self, model_dir):
    self._model_dir = model_dir

  def begin(self):
    self._tensors = _published(["loss", "learning_rate", "gradient_norm"])
    self._tensors["step"] = tf.train.get_global_step()

  def before_run(self, run_context):
    del run_context
    return tf.train.SessionRunArgs(self._tensors)

  def after_run(self, run_context, run_values):
    del run_context
    values = run_values.results
    if np.isfinite(values["loss"]) and np.isfinite(values["gradient_norm"]):
      return
    raise FloatingPointError(
        "training diverged at step %d: loss %s, gradient norm %s, learning"
        " rate %g; the last checkpoint is %s; restart from it with a lower"
        " --learning_rate or a longer --num_warmup_steps" % (
            values["step"], values["loss"], values["gradient_norm"],
            values["learning_rate"],
            tf.train.latest_checkpoint(self._model_dir) or "none"))


class TrainingLogHook(tf.train.SessionRunHook):
  """Logs means since the last line, speed and time to go; TensorBoard too."""

  def __init__(self, keys, log_steps, num_train_steps, batch_size,
               tokens_per_example, model_dir, steps_per_epoch=None):
    """Makes the hook.

    Args:
      keys: list of the published scalars to log, in order.
      log_steps: int, steps between two lines.
      num_train_steps: int, where training ends.
      batch_size: int, global.
      tokens_per_example: int, slots of a sequence.
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
    self._tensors = _published(self._keys)
    self._step_tensor = tf.train.get_global_step()
    self._writer = tf.summary.FileWriterCache.get(self._model_dir)

  def after_create_session(self, session, coord):
    del coord
    self._start(session.run(self._step_tensor))

  def _start(self, step):
    self._first_step = step
    self._start_time = time.time()
    self._sums = dict.fromkeys(self._keys, 0.0)
    self._count = 0

  def before_run(self, run_context):
    del run_context
    return tf.train.SessionRunArgs((self._tensors, self._step_tensor))

  def after_run(self, run_context, run_values):
    values, _ = run_values.results
    for key in self._keys:
      self._sums[key] += float(values[key])
    self._count += 1
    # The step in run_values may have been read before this update.
    step = self._first_step + self._count
    if step % self._log_steps == 0 or step == self._num_train_steps:
      self._log(int(run_context.session.run(self._step_tensor)))

  def _log(self, step):
    seconds = max(time.time() - self._start_time, 1e-9)
    means = {key: total / self._count for key, total in self._sums.items()}
    steps_per_second = self._count / seconds
    means["examples_per_second"] = steps_per_second * self._batch_size
    means["tokens_per_second"] = (
        means["examples_per_second"] * self._tokens_per_example)
    eta = int((self._num_train_steps - step) / steps_per_second)
    epoch = ("" if not self._steps_per_epoch else
             " epoch %.2f" % (step / self._steps_per_epoch))
    tf.logging.info(
        "step %d/%d%s | %s | %.1f examples/s, %.0f tokens/s, ETA %d:%02d:%02d",
        step, self._num_train_steps, epoch,
        ", ".join("%s %.4g" % (key, means[key]) for key in self._keys),
        means["examples_per_second"], means["tokens_per_second"],
        eta // 3600, eta // 60 % 60, eta % 60)
    self._writer.add_summary(tf.Summary(value=[
        tf.Summary.Value(tag="train/" + key, simple_value=value)
        for key, value in means.items()]), step)
    self._start(step)

  def end(self, session):
    step = int(session.run(self._step_tensor))
    if self._count and step > self._first_step:
      self._log(step)
    self._writer.flush()


def make_hooks(keys, options, num_train_steps, batch_size,
                   tokens_per_example, steps_per_epoch=None):
  """The hooks of a training run; on a TPU none can look inside its loop."""
  if options.use_tpu:
    return []
  return [
      StopOnNonFiniteHook(options.output_dir),
      TrainingLogHook(keys, options.log_steps, num_train_steps, batch_size,
                      tokens_per_example, options.output_dir,
                      steps_per_epoch)]
