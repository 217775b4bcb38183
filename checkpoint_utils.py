"""Checkpoints and what stands beside them: starting from one, whether it fits
the model, going on from it, and the files of a run's folder.
"""

import json
import os
import re

import numpy as np
import tensorflow.compat.v1 as tf

import bert_utils
import modeling
import tokenization

CONFIG_NAME = "albert_config.json"
VOCAB_NAME = "vocab.txt"
BEST_FOLDER = "best"  # below a run's folder, for its best checkpoint


# ----------------------------------------------------- starting from one


def init_from_checkpoint(init_checkpoint, use_tpu, allow_partial=False,
                         init_from_group0=False, grow_vocab=False,
                         name_flags=True):
  """Makes the trainable variables start from a checkpoint.

  Args:
    init_checkpoint: path or None.
    use_tpu: bool; a TPU wants the assignment in a scaffold function.
    allow_partial: bool; encoder variables without match are a warning then.
    init_from_group0: bool; hidden groups that the checkpoint lacks start from
      its group 0.
    grow_vocab: bool; the checkpoint's vocabulary may be smaller: its rows are
      copied, the others initialized anew.
    name_flags: bool; whether the caller has flags of these names, which its
      user may be told of.

  Returns:
    A scaffold function for a TPU's spec, or None.

  Raises:
    InputError: layout, sharing or shapes differ, or the encoder does not
      match.
  """
  if not init_checkpoint:
    return None
  tvars = tf.trainable_variables()
  names = [bert_utils.variable_name(var) for var in tvars]
  layout = bert_utils.describe_layout(names).split()[0]
  _check_layout(layout, init_checkpoint, init_from_group0)
  _log_checkpoint(init_checkpoint)
  match = bert_utils.match_checkpoint(tvars, init_checkpoint, init_from_group0,
                                      grow_vocab)
  bert_utils.check_shapes(match, init_checkpoint, name_flags)
  _log_match(match, init_checkpoint)
  message = _encoder_difference(names, match, init_checkpoint,
                                init_from_group0, name_flags)
  _refuse(message, allow_partial, name_flags)

  def assign():
    if match.assignment_map:
      tf.train.init_from_checkpoint(init_checkpoint, match.assignment_map)
    for name, source in match.copied.items():
      # Each by itself: a source may be there once in a map.
      tf.train.init_from_checkpoint(init_checkpoint, {source: name})
    grown = {name: stored[0] for name, _, stored in match.grown}
    for var in tf.trainable_variables():
      name = bert_utils.variable_name(var)
      if name in grown:
        _init_first_rows(var, name, grown[name], init_checkpoint)

  if not use_tpu:
    assign()
    return None

  def scaffold_fn():
    assign()
    return tf.train.Scaffold()

  return scaffold_fn


def _init_first_rows(var, name, num_rows, init_checkpoint):
  """Makes a table's first rows start from the smaller one of a checkpoint."""
  with tf.device("/cpu:0"):  # where all checkpoints are read
    first_rows = tf.raw_ops.RestoreV2(
        prefix=init_checkpoint, tensor_names=[name], shape_and_slices=[""],
        dtypes=[var.dtype.base_dtype])[0]
    first_rows.set_shape([num_rows] + var.shape.as_list()[1:])
  # Under a tf.distribute strategy, each device's copy.
  for copy in tf.distribute.get_strategy().experimental_local_results(var):
    value = tf.concat([first_rows, copy.initial_value[num_rows:]], axis=0)
    # No public function sets it after the variable was made;
    # tf.train.init_from_checkpoint, too, does it in this way.
    copy._initializer_op = copy.assign(value, read_value=False)


def _check_layout(layout, init_checkpoint, init_from_group0=False):
  """Raises an InputError if a checkpoint is of another known layout."""
  if init_from_group0 and layout not in ("google", "none"):
    raise bert_utils.InputError(
        "--init_from_group0 goes with the layout \"google\", but the model is"
        " of the layout \"%s\", which has no groups; leave the flag out" %
        layout)
  found = bert_utils.describe_layout(
      dict(tf.train.list_variables(init_checkpoint)))
  if "none" in (layout, found.split()[0]) or layout == found.split()[0]:
    return
  advice = "use a config of the checkpoint's layout or another checkpoint"
  if found.startswith("fast"):
    advice = "no config builds that one, use another checkpoint"
  raise bert_utils.InputError(
      "the model is of the layout \"%s\", but the checkpoint %s is of the"
      " layout %s; %s" % (layout, init_checkpoint, found, advice))


def _log_checkpoint(init_checkpoint):
  """Logs what kind of checkpoint it is, and what of a training it holds."""
  shapes = dict(tf.train.list_variables(init_checkpoint))
  step = "no global_step"
  if "global_step" in shapes:
    step = "global_step %d" % checkpoint_step(init_checkpoint)
  tf.logging.info(
      "checkpoint %s: layout %s; %s; %s, %s", init_checkpoint,
      bert_utils.describe_layout(shapes), bert_utils.describe_sharing(shapes),
      bert_utils.describe_slots(shapes), step)


def _log_match(match, init_checkpoint):
  """Logs what came from the checkpoint and what did not."""
  num_matched = len(match.assignment_map) + len(match.copied) + len(match.grown)
  tf.logging.info(
      "checkpoint %s: %d variables matched, %d missing (initialized anew), %d"
      " unexpected (not used)", init_checkpoint, num_matched,
      len(match.missing), len(match.unexpected))
  for name, source in match.copied.items():
    tf.logging.info("  from group 0: %s is %s", name, source)
  for name, wanted, stored in match.grown:
    tf.logging.info("  grown: %s from %d to %d rows (the last %d initialized"
                    " anew)", name, stored[0], wanted[0], wanted[0] - stored[0])
  for kind, names in (("missing", match.missing),
                      ("unexpected", match.unexpected)):
    for name in names:
      tf.logging.info("  %s: %s", kind, name)


def _encoder_difference(names, match, init_checkpoint, init_from_group0,
                        name_flags):
  """What of the encoder did not match, in words; None if all of it did."""
  encoder = [name for name in names if "/encoder/" in name]
  missing = [name for name in match.missing if name in encoder]
  # What stands below a variable of the model is a slot of some optimizer.
  unexpected = [name for name in match.unexpected if "/encoder/" in name
                and os.path.dirname(name) not in match.assignment_map]
  if init_from_group0:  # the other groups are left out as one asked
    unexpected = [name for name in unexpected if "/group_" not in name or
                  "/group_0/" in name]
  if not missing and not unexpected:
    return None
  difference = _sharing_message(bert_utils.find_sharing(names),
                                init_checkpoint, init_from_group0, name_flags)
  if difference:
    return difference
  message = "%d of %d encoder variables matched the checkpoint %s" % (
      len(encoder) - len(missing), len(encoder), init_checkpoint)
  if len(missing) == len(encoder):
    stored = [name for name, _ in tf.train.list_variables(init_checkpoint)]
    return message + (", whose layout looks like %s; give a checkpoint of the"
                      " model's layout" % bert_utils.describe_layout(stored))
  return message + (
      ", which has %d others; the first that %s is %s; make the config's"
      " num_hidden_layers, shared_type, num_hidden_groups, inner_group_num or"
      " final_layer_norm the checkpoint's" % (
          len(unexpected), "it lacks" if missing else "the model lacks",
          (missing or unexpected)[0]))


def _sharing_message(wanted, init_checkpoint, init_from_group0, name_flags):
  """Where the layers share other weights than the checkpoint's, in words.

  Args:
    wanted: dict, the model's `bert_utils.find_sharing`.
    init_checkpoint: path.
    init_from_group0: bool; other numbers of groups are fine then.
    name_flags: bool; see `init_from_checkpoint`.

  Returns:
    string, or None where nothing differs.
  """
  if init_from_group0:
    wanted = {key: value for key, value in wanted.items()
              if key != "num_hidden_groups"}
  difference = bert_utils.sharing_difference(
      wanted, [name for name, _ in tf.train.list_variables(init_checkpoint)])
  if not difference:
    return None
  ours, theirs, keys = difference
  advice = "set %s in the config as the checkpoint has it" % keys
  if name_flags and keys == "num_hidden_groups":
    advice += ", give --init_from_group0"
  return ("the model has %s, but the checkpoint %s has %s; %s or use another"
          " checkpoint" % (ours, init_checkpoint, theirs, advice))


def _refuse(message, allow_partial, name_flags):
  """Raises an InputError with a message, or logs it; None is no message."""
  if message and not allow_partial:
    raise bert_utils.InputError(
        message + (" (or --allow_partial_init to go on)" if name_flags else ""))
  if message:
    tf.logging.warning(message)


# What two models of equal variables may still differ in.
_INVISIBLE_KEYS = ("ln_type", "num_attention_heads", "num_hidden_layers",
                   "hidden_act")
_VISIBLE_KEYS = ("layout", "vocab_size", "embedding_size", "hidden_size",
                 "intermediate_size", "max_position_embeddings",
                 "type_vocab_size", "shared_type", "final_layer_norm",
                 "num_hidden_groups", "inner_group_num")


def check_init_config(bert_config, init_checkpoint, allow_partial=False,
                      init_from_group0=False, grow_vocab=False,
                      name_flags=True):
  """Compares a config with the checkpoint to start from.

  Its variables tell layout, sharing and sizes. Norm position, heads, activation
  and (with shared weights) layers leave no trace in them, a wrong pair would
  load and be useless: those are compared with the config beside it.

  Args:
    bert_config: BertConfig.
    init_checkpoint: path of a checkpoint, or None.
    allow_partial: bool; a difference in sharing or a key is a warning then.
    init_from_group0: bool, see `init_from_checkpoint`.
    grow_vocab: bool, see `init_from_checkpoint`.
    name_flags: bool, see `init_from_checkpoint`.

  Raises:
    ValueError: the layout, the sharing, a size or a key differs.
  """
  if not init_checkpoint:
    if init_from_group0 or grow_vocab:
      raise ValueError("--%s needs --init_checkpoint" % (
          "init_from_group0" if init_from_group0 else "grow_vocab"))
    return
  _check_layout(bert_config.layout, init_checkpoint, init_from_group0)
  bert_utils.check_rows(_row_tables(bert_config, init_checkpoint),
                        init_checkpoint, name_flags, grow_vocab)
  _refuse(_sharing_message(_config_sharing(bert_config), init_checkpoint,
                           init_from_group0, name_flags),
          allow_partial, name_flags)
  message = _config_difference(bert_config, os.path.dirname(init_checkpoint),
                               _INVISIBLE_KEYS)
  _refuse(message and message + "; use that config", allow_partial, name_flags)


def _row_tables(bert_config, init_checkpoint):
  """Word and position table as (name, shape in the model, in the checkpoint).

  Only those of the model's width: another one is told by more variables.
  """
  rows = {"word_embeddings": bert_config.vocab_size,
          "position_embeddings": bert_config.max_position_embeddings}
  widths = (bert_config.hidden_size, bert_config.embedding_size)
  return [(name, [rows[os.path.basename(name)], shape[1]], list(shape))
          for name, shape in tf.train.list_variables(init_checkpoint)
          if os.path.basename(name) in rows and len(shape) == 2 and
          os.path.basename(os.path.dirname(name)) == "embeddings" and
          shape[1] in widths]


def _config_sharing(bert_config):
  """What `bert_utils.find_sharing` would say of a config's variables."""
  if bert_config.layout != "google":
    return {"shared_type": bert_config.shared_type,
            "num_hidden_layers": bert_config.num_hidden_layers}
  keys = {"inner_group_num": bert_config.inner_group_num}
  if bert_config.num_hidden_groups <= bert_config.num_hidden_layers:
    keys["num_hidden_groups"] = bert_config.num_hidden_groups
  return keys


_SENTENCEPIECE = ("SentencePiece models, such as Google's English ALBERT, are"
                  " out of scope")


def check_wordpiece(vocab_file, bert_config=None):
  """Refuses SentencePiece: this project's vocabularies are WordPiece ones.

  Args:
    vocab_file: path of a vocabulary, or None.
    bert_config: BertConfig or None; that of Google's English models is known
      by its vocab_size.

  Raises:
    ValueError: the vocabulary or the config is of a SentencePiece model.
  """
  exists = bool(vocab_file) and tf.gfile.Exists(vocab_file)
  if exists and _is_sentencepiece(vocab_file):
    raise ValueError(
        "%s is a SentencePiece file, not a WordPiece vocabulary with a token a"
        " line; %s: use a Chinese model with its vocab.txt" % (
            vocab_file, _SENTENCEPIECE))
  size = bert_utils.SENTENCEPIECE_VOCAB_SIZE
  if (bert_config is None or bert_config.layout != "google" or
      bert_config.vocab_size != size):
    return
  if not exists or len(tokenization.load_vocab(vocab_file)) != size:
    raise ValueError(
        "the layout \"google\" with vocab_size %d is the config of a"
        " SentencePiece model; %s: use a Chinese model's config or, for a"
        " WordPiece vocabulary of that size, give it by --vocab_file" % (
            size, _SENTENCEPIECE))


def _is_sentencepiece(path):
  """Whether a file is a SentencePiece model or its list of pieces."""
  if path.endswith((".model", ".spiece", ".spm")):
    return True
  with tf.gfile.GFile(path, "rb") as reader:
    start = reader.read(200)
  # The model starts with a field of its first piece, the list has scores.
  return b"<unk>" in start and (
      start.startswith(b"\n") or
      re.match(br"[^\t\n]+\t-?[0-9.]+\r?\n", start) is not None)


def check_resume_config(bert_config, output_dir):
  """Compares a config with that of the run whose checkpoints are there.

  Raises:
    ValueError: the layout or a key differs.
  """
  latest = tf.train.latest_checkpoint(output_dir)
  if latest is None:
    return
  _check_layout(bert_config.layout, latest)
  message = _config_difference(bert_config, output_dir,
                               _VISIBLE_KEYS + _INVISIBLE_KEYS)
  if message:
    raise ValueError("%s; to go on with that run use its config, for a new"
                     " one another --output_dir" % message)


# By what the variables of an optimizer's moments end in.
_SLOT_ENDINGS = {"adamw": "/adam_m", "lamb": "/lamb_m",
                 "lamb_google": "/adam_m"}


def check_resume_optimizer(optimizer, precision, output_dir):
  """Compares how to train with how the checkpoints there were trained.

  Args:
    optimizer: string in `optimization.OPTIMIZERS`.
    precision: string in `estimator_utils.PRECISIONS`.
    output_dir: path.

  Raises:
    ValueError: the checkpoint lacks variables that training would restore.
  """
  latest = tf.train.latest_checkpoint(output_dir)
  if latest is None:
    return
  names = [name for name, _ in tf.train.list_variables(latest)]
  start = ("; go on as it was, or start a new run from it: --init_checkpoint=%s"
           " with another --output_dir" % latest)
  if not any(name.endswith(_SLOT_ENDINGS[optimizer]) for name in names):
    raise ValueError("--optimizer is %s, but the checkpoint %s has %s%s" % (
        optimizer, latest, bert_utils.describe_slots(names), start))
  if precision == "float16" and "loss_scale/scale" not in names:
    raise ValueError("--precision is float16, but the checkpoint %s was trained"
                     " in another and has no loss scale%s" % (latest, start))


def _config_beside(folder):
  """Path of the config in a checkpoint's folder; None if one cannot tell.

  Published checkpoints have it as bert_config.json, albert_config_tiny.json
  and the like.
  """
  path = os.path.join(folder, CONFIG_NAME)
  if tf.gfile.Exists(path):
    return path
  found = [path for name in ("albert_config*.json", "bert_config*.json")
           for path in tf.gfile.Glob(os.path.join(folder, name))]
  return found[0] if len(found) == 1 else None


def _config_difference(bert_config, folder, keys):
  """What differs from the config in a folder, in words; None if nothing."""
  path = _config_beside(folder)
  if path is None:
    return None
  stored = modeling.BertConfig.from_json_file(path)
  for key in keys:
    ours, theirs = getattr(bert_config, key), getattr(stored, key)
    if ours != theirs:
      return ("the model config has %s \"%s\", but %s beside the checkpoint"
              " says \"%s\"" % (key, ours, path, theirs))
  return None


def check_plain_path(flag, path):
  """Raises a ValueError where TensorFlow would not find a path's checkpoints.

  It looks for them with a pattern, in which some characters mean something
  else: what is saved in such a folder is not found again.

  Args:
    flag: string, its name, for the message.
    path: string or None.
  """
  for character in "[*?\\":
    if character in (path or ""):
      raise ValueError(
          "--%s %s has a %s, which TensorFlow takes for a part of a pattern when"
          " it looks for checkpoints; give a path without any of [ * ? \\" % (
              flag, path, character))


def check_init_checkpoint(init_checkpoint):
  """Returns the checkpoint's prefix; a folder stands for its latest.

  Raises:
    ValueError: there is no checkpoint.
  """
  if not init_checkpoint:
    return None
  check_plain_path("init_checkpoint", init_checkpoint)
  if tf.gfile.IsDirectory(init_checkpoint):
    latest = tf.train.latest_checkpoint(init_checkpoint)
    if latest is None:
      raise ValueError("--init_checkpoint: there is no checkpoint in the"
                       " folder %s" % init_checkpoint)
    init_checkpoint = latest
  for ending in (".index", ".data-00000-of-00001"):
    if init_checkpoint.endswith(ending):
      init_checkpoint = init_checkpoint[:-len(ending)]
  if not bert_utils.checkpoint_exists(init_checkpoint):
    raise ValueError(
        "--init_checkpoint: there is no checkpoint %s (its files would end in"
        " .index and .data-00000-of-00001)" % init_checkpoint)
  try:
    tf.train.list_variables(init_checkpoint)
  except (ValueError, RuntimeError, tf.errors.OpError) as error:
    raise ValueError(
        "--init_checkpoint: %s cannot be read, it may be cut off; copy it again"
        " (%s)" % (init_checkpoint, getattr(error, "message", error))
        ) from error
  spoilt = first_non_finite(init_checkpoint)
  if spoilt:
    raise ValueError(
        "--init_checkpoint: %s is spoilt, its variable %s has numbers that are"
        " not finite; take an earlier checkpoint" % (init_checkpoint, spoilt))
  return init_checkpoint


def checkpoint_step(checkpoint):
  """The global step that a checkpoint holds; 0 where it holds none."""
  reader = tf.train.load_checkpoint(checkpoint)
  if not reader.has_tensor("global_step"):
    return 0
  return int(reader.get_tensor("global_step"))


def batches_read(checkpoint):
  """How many batches a training had read at a checkpoint; None is at none.

  One for each step and, with float16, for each that was skipped.
  """
  if checkpoint is None:
    return 0
  reader = tf.train.load_checkpoint(checkpoint)
  skipped = 0
  if reader.has_tensor("loss_scale/skipped_steps"):
    skipped = int(reader.get_tensor("loss_scale/skipped_steps"))
  return checkpoint_step(checkpoint) + skipped


def latest_step(folder):
  """How many steps were made by a folder's latest checkpoint.

  Returns:
    (step, path); (0, None) where there is no checkpoint.
  """
  latest = tf.train.latest_checkpoint(folder)
  return (checkpoint_step(latest) if latest else 0), latest


def write_checkpoint_state(folder, names):
  """Writes a folder's list of checkpoints, by which the latest is found.

  The list has names without a folder, so that the folder may be moved; what
  `tf.train.update_checkpoint_state` writes of an absolute path has one.

  Args:
    folder: path.
    names: list of checkpoint prefixes in it, the latest last.
  """
  quoted = [json.dumps(os.path.basename(name)) for name in names]
  write_text(os.path.join(folder, "checkpoint"), "".join(
      ["model_checkpoint_path: %s\n" % quoted[-1]] +
      ["all_model_checkpoint_paths: %s\n" % name for name in quoted]))


def keep_checkpoint(checkpoint, folder):
  """Copies a checkpoint into a folder, in place of the one that is there.

  The old one goes last: whoever looks meanwhile finds one that is whole.

  Args:
    checkpoint: path of a checkpoint.
    folder: path of a folder that exists.
  """
  prefix = os.path.join(folder, os.path.basename(checkpoint))
  for path in tf.gfile.Glob(checkpoint + ".*"):
    if not path.endswith(".meta"):
      tf.gfile.Copy(path, os.path.join(folder, os.path.basename(path)),
                    overwrite=True)
  write_checkpoint_state(folder, [prefix])
  for _, old in step_checkpoints(folder):
    if old != prefix:
      tf.train.remove_checkpoint(old)


def first_non_finite(checkpoint):
  """Name of a checkpoint's first variable that has nan or inf; else None."""
  reader = tf.train.load_checkpoint(checkpoint)
  for name, dtype in sorted(reader.get_variable_to_dtype_map().items()):
    if dtype.is_floating and not np.isfinite(
        reader.get_tensor(name).astype(np.float32)).all():
      return name
  return None


def step_checkpoints(folder):
  """All checkpoints `model.ckpt-<step>` of a folder, oldest first.

  Other `*.index` files, such as a downloaded checkpoint's, are left alone.

  Args:
    folder: path.

  Returns:
    List of (step, checkpoint prefix).
  """
  found = []
  for path in tf.gfile.Glob(os.path.join(folder, "model.ckpt-*.index")):
    prefix = path[:-len(".index")]
    step = prefix.rpartition("-")[2]
    if step.isdigit():
      found.append((int(step), prefix))
  return sorted(found)


# ------------------------------------------------------- files beside the run


def write_text(path, text):
  """Writes a small file whole or not at all: a new name, then a rename."""
  temporary = path + ".tmp"
  with tf.gfile.GFile(temporary, "w") as writer:
    writer.write(text)
  tf.gfile.Rename(temporary, path, overwrite=True)


def prepare_output_dir(output_dir, bert_config, vocab_file=None):
  """Makes the folder; puts config and vocabulary beside the checkpoints.

  Raises:
    ValueError: the folder cannot be made or written to.
  """
  try:
    tf.gfile.MakeDirs(output_dir)
    write_text(os.path.join(output_dir, CONFIG_NAME),
               bert_config.to_json_string())
    target = os.path.join(output_dir, VOCAB_NAME)
    if vocab_file and os.path.abspath(vocab_file) != os.path.abspath(target):
      tf.gfile.Copy(vocab_file, target, overwrite=True)
  except (OSError, tf.errors.OpError) as error:
    raise ValueError("--output_dir %s cannot be written to: %s" % (
        output_dir, getattr(error, "message", error))) from error


def copy_beside(path, output_dir):
  """Copies a file into a folder, if the file exists."""
  if tf.gfile.Exists(path):
    tf.gfile.Copy(path, os.path.join(output_dir, os.path.basename(path)),
                  overwrite=True)


def write_results(output_dir, name, results):
  """Writes `<name>.txt`, a line `key = value` each, and `<name>.json`.

  Args:
    output_dir: path.
    name: string, such as "eval_results".
    results: dict of numbers, strings, lists; numpy's numbers are fine.
  """
  plain = {key: _plain(value) for key, value in results.items()}
  write_text(os.path.join(output_dir, name + ".txt"), "".join(
      "%s = %s\n" % (key, plain[key]) for key in sorted(plain)))
  write_text(os.path.join(output_dir, name + ".json"),
             json.dumps(plain, ensure_ascii=False, indent=2,
                        sort_keys=True) + "\n")


def remove_results(output_dir, name):
  """Removes what `write_results` wrote, if it is there."""
  for ending in (".txt", ".json"):
    path = os.path.join(output_dir, name + ending)
    if tf.gfile.Exists(path):
      tf.gfile.Remove(path)


def _plain(value):
  """Turns numpy's scalars and arrays into what json takes."""
  if isinstance(value, (np.generic, np.ndarray)):
    return value.tolist()
  return value
