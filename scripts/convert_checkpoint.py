"""Converts, slims, averages, inspects and compares checkpoints.

  CONVERT=scripts/convert_checkpoint.py
  python $CONVERT to_hf output/base --output_dir=output/hf
  python $CONVERT from_hf output/hf --output_dir=output/tf
  python $CONVERT to_bert output/base --output_dir=output/bert
  python $CONVERT slim output/base --output_dir=output/slim
  python $CONVERT add_slots output/slim --slots_from=output/base \\
      --output_dir=output/full
  python $CONVERT average output/base/model.ckpt-{10,20} --output_dir=output/mean
  python $CONVERT inspect output/base
  python $CONVERT compare output/base output/slim

A checkpoint is a prefix, such as output/base/model.ckpt-20, or a folder, which
stands for its latest. Config and vocabulary are those beside it, unless flags
name others. Each output is a new folder with all three, which is complete or
not there at all. What cannot be converted exactly is refused: the outputs of
the new model are those of the old one.

compare ends with 1 where it finds a difference, with 2 where it cannot compare.
"""

import argparse
import collections
import contextlib
import glob
import json
import os
import shutil
import sys

import numpy as np
# Else what TensorFlow finds in the machine is told before what it is asked for.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow.compat.v1 as tf

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if ROOT not in sys.path:
  sys.path.insert(0, ROOT)

import bert_utils
import modeling
import tokenization

CONFIG_NAME, BERT_CONFIG_NAME = "albert_config.json", "bert_config.json"
VOCAB_NAME, CLASSIFIER_NAME = "vocab.txt", "classifier.json"
CONFIG_NAMES = (CONFIG_NAME, BERT_CONFIG_NAME, "config.json")
VOCAB_NAMES = (VOCAB_NAME, "vocab_chinese.txt")
# What google-research/bert's config has.
BERT_KEYS = ("vocab_size", "hidden_size", "num_hidden_layers",
             "num_attention_heads", "intermediate_size", "hidden_act",
             "hidden_dropout_prob", "attention_probs_dropout_prob",
             "max_position_embeddings", "type_vocab_size", "initializer_range")
# By optimizer, the names of the slots that it keeps for each variable.
OPTIMIZER_SLOTS = {"lamb": ("lamb_m", "lamb_v"), "adamw": ("adam_m", "adam_v")}
NO_SLOTS = ("beta1_power", "beta2_power")  # the optimizer's, of no variable
STEP = "global_step"
MAX_SHOWN = 10

WORDS = "bert/embeddings/word_embeddings"
EMBEDDINGS, ENCODER = "bert/embeddings/", "bert/encoder/"
MLM, PAIR = "cls/predictions/", "cls/seq_relationship/"
CLASSIFIER = ("output_weights", "output_bias")
MAPPING = ENCODER + "embedding_hidden_mapping_in"


def log(text):
  print(text, file=sys.stderr)


def plural(count, noun):
  return f"{count:,} {noun}{'' if count == 1 else 's'}"


def some(names):
  """Names in one line, the first few if there are many."""
  names = list(names)
  more = f" and {len(names) - 3} more" if len(names) > 3 else ""
  return ", ".join(names[:3]) + more


# ------------------------------------------------- a checkpoint, what is beside


def find_checkpoint(path):
  """The prefix of the checkpoint that a path, a prefix or a folder, means.

  Raises:
    InputError: there is none, or a folder has several and no latest.
  """
  if not os.path.isdir(path):
    for ending in (".index", ".meta", ".data-00000-of-00001"):
      if path.endswith(ending):
        path = path[:-len(ending)]
    if tf.train.checkpoint_exists(path):
      return path
    raise bert_utils.InputError(
        f"there is no checkpoint {path} (its files would be {path}.index and"
        f" {path}.data-00000-of-00001)")
  latest = tf.train.latest_checkpoint(path)
  if latest:
    return latest
  # Downloaded ones come without the file that says which is the latest.
  found = sorted(glob.glob(os.path.join(glob.escape(path), "*.index")))
  if len(found) == 1:
    return found[0][:-len(".index")]
  if found:
    raise bert_utils.InputError(
        f"the folder {path} has {len(found)} checkpoints and does not say which"
        f" is the latest; give one, such as {found[-1][:-len('.index')]}")
  if glob.glob(os.path.join(glob.escape(path), "*.safetensors")):
    raise bert_utils.InputError(
        f"the folder {path} has a Hugging Face model and no TensorFlow"
        " checkpoint; from_hf makes one of it")
  raise bert_utils.InputError(f"the folder {path} has no checkpoint, *.index")


class Checkpoint(object):
  """A TensorFlow checkpoint: its variables by name, and what lies beside.

  Attributes:
    prefix, folder: paths.
    shapes: OrderedDict, name -> list, in the order of names.
    slots: set of the names that belong to an optimizer.
    names: list of the other names.
  """

  def __init__(self, path):
    self.prefix = find_checkpoint(path)
    self.folder = os.path.dirname(self.prefix)
    try:
      self._reader = tf.train.load_checkpoint(self.prefix)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
      raise self._damaged(error) from error
    self.shapes = collections.OrderedDict(
        sorted(self._reader.get_variable_to_shape_map().items()))
    self.dtypes = self._reader.get_variable_to_dtype_map()
    # A slot is named below its variable: <variable>/lamb_m.
    self.slots = {name for name in self.shapes
                  if os.path.basename(name) in NO_SLOTS or
                  os.path.dirname(name) in self.shapes}
    self.names = [name for name in self.shapes if name not in self.slots]

  def _damaged(self, error):
    reason = str(getattr(error, "message", error)).split("\n")[0]
    return bert_utils.InputError(
        f"the checkpoint {self.prefix} cannot be read, it may be cut off; copy"
        f" it again ({reason})")

  def read(self, name):
    """The array of a variable."""
    try:
      return np.asarray(self._reader.get_tensor(name))
    except (RuntimeError, tf.errors.OpError) as error:
      raise self._damaged(error) from error

  def read_all(self, names=None):
    """Dict of the arrays of some variables; default all but slots."""
    return {name: self.read(name)
            for name in (self.names if names is None else names)}

  @property
  def step(self):
    return int(self.read(STEP)) if STEP in self.shapes else None

  def num_parameters(self):
    return sum(int(np.prod(self.shapes[name])) for name in self.names
               if name != STEP)

  def find_config(self, config_file=None):
    """Path of the config, given or beside the checkpoint; None without."""
    if config_file:
      return config_file
    paths = [os.path.join(self.folder, name) for name in CONFIG_NAMES]
    # albert_zh's zips have albert_config_<size>.json.
    others = glob.glob(os.path.join(glob.escape(self.folder), "*config*.json"))
    paths += others if len(others) == 1 else []
    return next((path for path in paths if os.path.exists(path)), None)

  def config(self, config_file=None):
    """The BertConfig; a missing one is an InputError."""
    path = self.find_config(config_file)
    if path is None:
      raise bert_utils.InputError(
          f"no config lies beside the checkpoint {self.prefix}"
          f" ({', '.join(CONFIG_NAMES)}); give it as --config_file")
    return modeling.BertConfig.from_json_file(path)


def find_vocab(folder, vocab_file, vocab_size):
  """Path of the vocabulary, which is checked against the config's size."""
  names = [vocab_file] if vocab_file else [
      os.path.join(folder, name) for name in VOCAB_NAMES]
  path = next((name for name in names if os.path.exists(name)), None)
  if path is None and vocab_file:
    raise bert_utils.InputError(f"--vocab_file: there is no file {vocab_file}")
  if path is None:
    pieces = glob.glob(os.path.join(glob.escape(folder), "*.model"))
    if pieces:
      raise bert_utils.InputError(
          f"{pieces[0]} is a SentencePiece model, as Google's English models"
          " have it; only WordPiece vocabularies (vocab.txt) are read here")
    raise bert_utils.InputError(
        f"no vocabulary lies in the folder {folder or '.'}"
        f" ({', '.join(VOCAB_NAMES)}); give it as --vocab_file")
  tokenization.validate_vocab(tokenization.load_vocab(path), vocab_size, path)
  return path


def casing(folder, do_lower_case=None):
  """Whether text is lower-cased: as given, as noted in the folder, or True."""
  for name in (CLASSIFIER_NAME, "metadata.json", "tokenizer_config.json"):
    path = os.path.join(folder, name)
    if do_lower_case is None and os.path.exists(path):
      do_lower_case = read_json(path).get("do_lower_case")
  return True if do_lower_case is None else do_lower_case


def read_json(path):
  """The object of a json file; anything else is an InputError."""
  try:
    with open(path, encoding="utf-8") as reader:
      values = json.load(reader)
  except ValueError as error:
    raise bert_utils.InputError(f"{path} is not valid json: {error}") from error
  if not isinstance(values, dict):
    raise bert_utils.InputError(f"{path} must be a json object, {{...}}")
  return values


def write_json(path, values):
  with open(path, "w", encoding="utf-8") as writer:
    json.dump(values, writer, ensure_ascii=False, indent=2, sort_keys=True)
    writer.write("\n")


@contextlib.contextmanager
def new_folder(path):
  """Yields a folder that gets the name `path` when all has been written."""
  path = os.path.abspath(path)
  if os.path.exists(path):
    raise bert_utils.InputError(
        f"--output_dir: {path} exists already; give the name of a new folder")
  temporary = f"{path}.tmp-{os.getpid()}"
  os.makedirs(temporary)
  try:
    yield temporary
    os.rename(temporary, path)
  except BaseException:
    shutil.rmtree(temporary)
    raise


def write_checkpoint(folder, name, variables):
  """Writes arrays, with their types, as a checkpoint and as the latest.

  Args:
    folder: path.
    name: string, such as "model.ckpt-20".
    variables: dict, name -> array.
  """
  names = sorted(variables)
  with tf.Graph().as_default(), tf.Session() as session:
    tensors = [tf.placeholder(tf.as_dtype(variables[key].dtype),
                              variables[key].shape) for key in names]
    # No variables are made, whose initial values would need the memory again.
    save = tf.raw_ops.SaveV2(
        prefix=os.path.join(folder, name), tensor_names=names,
        shape_and_slices=[""] * len(names), tensors=tensors)
    session.run(save, {tensor: variables[key]
                       for tensor, key in zip(tensors, names)})
  with open(os.path.join(folder, "checkpoint"), "w") as writer:
    writer.write(f'model_checkpoint_path: "{name}"\n'
                 f'all_model_checkpoint_paths: "{name}"\n')


def write_model(output_dir, name, variables, config, vocab_file, origin):
  """Writes a checkpoint's folder: variables, config, vocabulary.

  Args:
    output_dir: path, does not exist yet.
    name: string, of the checkpoint.
    variables: dict, name -> array.
    config: BertConfig.
    vocab_file: path.
    origin: folder whose classifier.json, if there is one, still holds.
  """
  with new_folder(output_dir) as folder:
    write_checkpoint(folder, name, variables)
    with open(os.path.join(folder, CONFIG_NAME), "w") as writer:
      writer.write(config.to_json_string())
    if config.layout == "bert":
      # The name and the keys that google-research/bert and its users expect.
      write_json(os.path.join(folder, BERT_CONFIG_NAME),
                 {key: getattr(config, key) for key in BERT_KEYS})
    shutil.copyfile(vocab_file, os.path.join(folder, VOCAB_NAME))
    classifier = os.path.join(origin, CLASSIFIER_NAME)
    if os.path.exists(classifier):
      shutil.copyfile(classifier, os.path.join(folder, CLASSIFIER_NAME))


# --------------------------------------------- slim, add_slots, average


def slim(args):
  """A checkpoint without its optimizer's slots."""
  source = Checkpoint(args.checkpoint)
  config = source.config(args.config_file)
  vocab_file = find_vocab(source.folder, args.vocab_file, config.vocab_size)
  check_model(source, config)
  name = os.path.basename(source.prefix)
  write_model(args.output_dir, name, source.read_all(), config, vocab_file,
              source.folder)
  return [f"{os.path.join(args.output_dir, name)}:"
          f" {plural(len(source.names), 'variable')} of"
          f" {plural(source.num_parameters(), 'parameter')}, unchanged;"
          f" {plural(len(source.slots), 'variable')} of the optimizer left out"
          f" ({slot_kinds(source)})"]


def slot_kinds(checkpoint):
  """The names of a checkpoint's slots, each once, in a line."""
  kinds = sorted({os.path.basename(name) for name in checkpoint.slots})
  return ", ".join(kinds) or "it had none"


def add_slots(args):
  """A checkpoint that training goes on from: with slots, and a step."""
  source = Checkpoint(args.checkpoint)
  config = source.config(args.config_file)
  vocab_file = find_vocab(source.folder, args.vocab_file, config.vocab_size)
  check_model(source, config)
  if source.slots:
    raise bert_utils.InputError(
        f"the checkpoint {source.prefix} has slots already"
        f" ({slot_kinds(source)}); training goes on from it as it is")
  variables = source.read_all()
  trained = [name for name in source.names if name != STEP]
  if args.slots_from:
    donor = Checkpoint(args.slots_from)
    slots = read_slots(donor, source, trained)
    what = f"from {donor.prefix}"
  else:
    slots = {f"{name}/{slot}": np.zeros_like(variables[name])
             for name in trained for slot in OPTIMIZER_SLOTS[args.optimizer]}
    what = "all zero, as at the start of a training"
  variables.update(slots)
  variables.setdefault(STEP, np.zeros([], np.int64))
  name = f"model.ckpt-{int(variables[STEP])}"
  write_model(args.output_dir, name, variables, config, vocab_file,
              source.folder)
  return [f"{os.path.join(args.output_dir, name)}:"
          f" {plural(len(source.names), 'variable')}, unchanged;"
          f" {plural(len(slots), 'variable')} of the optimizer {what}; training"
          f" goes on at step {int(variables[STEP])}"]


def read_slots(donor, source, trained):
  """The slots of another checkpoint; each must fit a trained variable."""
  if not donor.slots:
    raise bert_utils.InputError(
        f"--slots_from: the checkpoint {donor.prefix} has no optimizer slots;"
        " give one that training has written")
  owners = collections.Counter()
  for name in donor.slots:
    owner = os.path.dirname(name)
    if os.path.basename(name) in NO_SLOTS:
      continue
    owners[owner] += 1
    if source.shapes.get(owner) != donor.shapes[name]:
      raise bert_utils.InputError(
          f"--slots_from: {donor.prefix} has {name} of shape"
          f" {donor.shapes[name]}, but {owner} in {source.prefix} is"
          f" {source.shapes.get(owner, 'missing')}; give a checkpoint of the"
          " same model")
  without = [name for name in trained if name not in owners]
  if without:
    raise bert_utils.InputError(
        f"--slots_from: {donor.prefix} has no slots for {some(without)}; give a"
        " checkpoint of the same model")
  return donor.read_all(sorted(donor.slots))


def average(args):
  """The mean of every variable over some checkpoints of one model."""
  sources = [Checkpoint(path) for path in args.checkpoints]
  if len(sources) < 2:
    raise bert_utils.InputError(
        f"average needs two checkpoints or more, found {sources[0].prefix}"
        " only")
  # Steps may be missing; of equal ones, the one given last is the last.
  last = max(enumerate(sources),
             key=lambda entry: (entry[1].step or 0, entry[0]))[1]
  config = last.config(args.config_file)
  vocab_file = find_vocab(last.folder, args.vocab_file, config.vocab_size)
  check_model(last, config)
  for source in sources:
    check_same_model(last, source, config, args.config_file)
  variables = {name: mean_of(sources, last, name) for name in last.names}
  name = os.path.basename(last.prefix)
  write_model(args.output_dir, name, variables, config, vocab_file, last.folder)
  step = f"step {last.step}" if STEP in last.shapes else "no step"
  return ([f"{os.path.join(args.output_dir, name)}: mean of"
           f" {plural(len(variables), 'variable')} over"
           f" {plural(len(sources), 'checkpoint')}, {step} as the last has it;"
           " no optimizer slots"] +
          [f"  {source.prefix}" + (f", step {source.step}" if source.step
                                   is not None else "")
           for source in sources])


def mean_of(sources, last, name):
  """The mean, computed in float64; what is no float is the last's."""
  value = last.read(name)
  if not tf.as_dtype(value.dtype).is_floating:
    return value
  total = np.zeros(value.shape, np.float64)
  for source in sources:
    total += source.read(name).astype(np.float64)
  return (total / len(sources)).astype(value.dtype)


def check_same_model(last, source, config, config_file):
  """Raises an InputError unless two checkpoints are of one model."""
  for name in sorted(set(last.names) | set(source.names)):
    if last.shapes.get(name) != source.shapes.get(name):
      raise bert_utils.InputError(
          f"{last.prefix} and {source.prefix} are not of one model: {name} is"
          f" {last.shapes.get(name, 'missing')} and"
          f" {source.shapes.get(name, 'missing')}")
  path = source.find_config(config_file)
  other = modeling.BertConfig.from_json_file(path) if path else config
  for key in ("layout", "ln_type", "num_hidden_layers", "num_attention_heads",
              "hidden_act"):
    ours, theirs = getattr(config, key), getattr(other, key)
    if ours != theirs:
      raise bert_utils.InputError(
          f"{last.prefix} and {source.prefix} are not of one model: {key} in"
          f" their configs is {ours} and {theirs}")


# ------------------------------------------------------- inspect and compare


def inspect(args):
  """What a checkpoint has in it, as lines of text."""
  source = Checkpoint(args.checkpoint)
  types = collections.Counter(tf.as_dtype(source.dtypes[name]).name
                              for name in source.names if name != STEP)
  lines = [source.prefix,
           "  layout     " + bert_utils.describe_layout(source.shapes),
           "  blocks     " + (some(encoder_blocks(source.names)) or "none"),
           f"  variables  {sum(types.values())} of"
           f" {plural(source.num_parameters(), 'parameter')}, "
           + ", ".join(sorted(types)),
           "  heads      " + (", ".join(heads_of(source.shapes)) or "none"),
           f"  slots      {len(source.slots)} ({slot_kinds(source)})",
           f"  step       {'none' if source.step is None else source.step}",
           "  not finite " + (some(not_finite(source)) or "none")]
  path = source.find_config(args.config_file)
  if path:
    config = modeling.BertConfig.from_json_file(path)
    try:
      check_model(source, config)
      fits = "fits"
    except bert_utils.InputError as error:
      fits = f"does not fit: {error}"
    lines.append(f"  config     {path}, layout {config.layout}, {config.ln_type},"
                 f" {plural(config.num_hidden_layers, 'layer')}: {fits}")
  else:
    lines.append("  config     none beside it; only a config tells norm"
                 " position, heads and how often shared layers run")
  width = max(len(name) for name in source.names)
  return lines + [f"{name:{width}}  {source.shapes[name]}"
                  for name in source.names]


def encoder_blocks(names):
  """The scopes of the encoder that have weights of their own."""
  blocks = collections.OrderedDict()
  for name in names:
    if name.startswith(ENCODER) and not name.startswith(MAPPING):
      parts = name[len(ENCODER):].split("/")
      blocks["/".join(parts[1:3] if parts[0] == "transformer"
                      else parts[:1])] = True
  return list(blocks)


def heads_of(names):
  """The heads among a model's variables, in words."""
  heads = (("masked LM", MLM + "output_bias"),
           ("sentence pair", PAIR + "output_bias"),
           ("classifier", CLASSIFIER[0]))
  return [head for head, name in heads if name in names]


def not_finite(checkpoint):
  """Names of the variables, slots too, that have a NaN or an infinity."""
  return [name for name in checkpoint.shapes
          if tf.as_dtype(checkpoint.dtypes[name]).is_floating and
          not np.isfinite(checkpoint.read(name).astype(np.float64)).all()]


# `max_difference` is None where shapes or types differ.
Difference = collections.namedtuple("Difference", ["name", "max_difference"])


def compare(args):
  """What differs in two checkpoints; returns (lines, whether any does)."""
  first, second = (Checkpoint(path) for path in args.checkpoints)
  lines = [f"A {first.prefix}", f"B {second.prefix}"]
  left, right = (set(source.names if args.no_slots else source.shapes)
                 for source in (first, second))
  for letter, only in (("A", left - right), ("B", right - left)):
    if only:
      lines.append(f"only in {letter}: {plural(len(only), 'variable')}: "
                   + some(sorted(only)))
  different, largest, common = False, [], sorted(left & right)
  for name in common:
    forms = [f"{source.shapes[name]} {tf.as_dtype(source.dtypes[name]).name}"
             for source in (first, second)]
    if forms[0] != forms[1]:
      lines.append(f"{name}: {forms[0]} in A, {forms[1]} in B")
      different = True
    else:
      largest.append((max_difference(first.read(name), second.read(name)), name))
  # What is not a number differs most of all.
  largest.sort(key=lambda entry: (-np.nan_to_num(entry[0], nan=np.inf),
                                  entry[1]))
  beyond = [entry for entry in largest if not entry[0] <= args.tolerance]
  lines += [f"{name}: max |A - B| {value:.3g}"
            for value, name in beyond[:MAX_SHOWN]]
  if len(beyond) > MAX_SHOWN:
    lines.append(f"... and {plural(len(beyond) - MAX_SHOWN, 'variable')} more")
  lines.append(f"{plural(len(common), 'variable')} in both,"
               f" {len(largest) - len(beyond)} equal"
               + (f" within {args.tolerance:g}" if args.tolerance else "")
               + (f"; max |A - B| {largest[0][0]:.3g}" if largest else ""))
  return lines, bool(different or beyond or left != right)


def max_difference(ours, theirs):
  """Largest absolute difference; NaN where only one side is NaN."""
  if ours.size == 0:
    return 0.0
  if ours.dtype.kind in "OSU":
    return 0.0 if np.array_equal(ours, theirs) else np.inf
  if np.array_equal(ours, theirs):
    return 0.0
  ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
  same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
  with np.errstate(invalid="ignore"):
    return float(np.where(same, 0.0, np.abs(ours - theirs)).max())


# -------------------------------------------------- checkpoint against config


def encoder_shapes(config):
  """OrderedDict, variable -> shape, of the model that a config builds."""
  with tf.Graph().as_default():
    modeling.BertModel(config, False, tf.zeros([1, 1], tf.int32))
    return collections.OrderedDict(
        (bert_utils.variable_name(var), var.shape.as_list())
        for var in tf.trainable_variables())


def head_shapes(config):
  """Dict, variable -> shape, of the pre-training heads."""
  units = hidden = config.hidden_size
  if config.layout == "google":
    units = config.embedding_size
  return {MLM + "transform/dense/kernel": [hidden, units],
          MLM + "transform/dense/bias": [units],
          MLM + "transform/LayerNorm/beta": [units],
          MLM + "transform/LayerNorm/gamma": [units],
          MLM + "output_bias": [config.vocab_size],
          PAIR + "output_weights": [2, hidden], PAIR + "output_bias": [2]}


def check_model(source, config):
  """Raises an InputError unless a checkpoint is of the config's model."""
  found = bert_utils.describe_layout(source.shapes)
  if found.startswith("fast"):
    raise bert_utils.InputError(
        f"the checkpoint {source.prefix} is of the layout {found}; no other"
        " model has such kernels, so that it can be converted to none")
  if found.split()[0] != config.layout:
    raise bert_utils.InputError(
        f"the config is of the layout \"{config.layout}\", but the checkpoint"
        f" {source.prefix} is of the layout {found}; give the checkpoint's own"
        " config as --config_file")
  check_variables({name: source.shapes[name] for name in source.names}, config,
                  source.prefix)


def check_variables(shapes, config, origin, may_lack=()):
  """Raises an InputError unless variables are those that a config builds.

  Args:
    shapes: dict, name -> list.
    config: BertConfig.
    origin: path, for the message.
    may_lack: prefixes of variables that need not be there.
  """
  wanted = encoder_shapes(config)
  missing = [name for name in wanted if name not in shapes
             and not name.startswith(tuple(may_lack))]
  unexpected = [name for name in sorted(shapes)
                if name.startswith("bert/") and name not in wanted]
  if missing or unexpected:
    raise bert_utils.InputError(
        f"{origin} does not fit the config:"
        + (f" it lacks {some(missing)}" if missing else "")
        + (" and" if missing and unexpected else "")
        + (f" the config's model lacks {some(unexpected)}" if unexpected else "")
        + "; make num_hidden_layers, shared_type, num_hidden_groups,"
        " inner_group_num and final_layer_norm those of the checkpoint")
  wanted.update(head_shapes(config))
  bert_utils.check_shapes(bert_utils.CheckpointMatch({}, [], [], [
      (name, wanted[name], list(shape)) for name, shape in sorted(shapes.items())
      if name in wanted and wanted[name] != list(shape)]), origin)


def boolean(text):
  if text.lower() not in ("true", "false"):
    raise argparse.ArgumentTypeError(f"found {text!r}, expected True or False")
  return text.lower() == "true"


def tolerance(text):
  try:
    value = float(text)
  except ValueError:
    value = -1.0
  if not value >= 0:
    raise argparse.ArgumentTypeError(f"found {text!r}, expected 0 or more")
  return value


def parse_arguments(argv):
  parser = argparse.ArgumentParser(
      allow_abbrev=False, description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  commands = parser.add_subparsers(dest="command", metavar="command")
  commands.required = True

  def command(run, checkpoint="checkpoint", output=True, **options):
    doc = run.__doc__.split("\n")[0]
    sub = commands.add_parser(run.__name__, help=doc, description=doc,
                              allow_abbrev=False)
    sub.set_defaults(run=run)
    sub.add_argument(checkpoint, help="prefix or folder", **options)
    if run is not compare:
      sub.add_argument("--config_file", help="default: beside the checkpoint")
    if output:
      sub.add_argument("--vocab_file", help="default: beside the checkpoint")
      sub.add_argument("--output_dir", required=True,
                       help="folder to make; it must not exist")
    return sub.add_argument

  command(slim)
  add = command(add_slots)
  add("--slots_from", help="a checkpoint of the same training, whose slots are"
      " taken; without it they are zero")
  add("--optimizer", choices=sorted(OPTIMIZER_SLOTS), default="lamb",
      help="whose slots the zeros are; default: lamb")
  command(average, "checkpoints", nargs="+")
  command(inspect, output=False)
  add = command(compare, "checkpoints", output=False, nargs=2)
  add("--tolerance", type=tolerance, default=0.0,
      help="differences up to it count as equal; default: 0")
  add("--no_slots", action="store_true", help="leave out optimizer slots")
  return parser.parse_args(argv)


def main(argv=None):
  args = parse_arguments(argv)
  tf.logging.set_verbosity(tf.logging.ERROR)
  try:
    lines, different = args.run(args), False
    if args.command == "compare":
      lines, different = lines
  except (ValueError, OSError, tf.errors.OpError) as error:
    log("convert_checkpoint.py: error: " +
        str(getattr(error, "message", error)).split("\n")[0])
    return 2 if args.command == "compare" else 1
  print("\n".join(lines))
  return int(different)


if __name__ == "__main__":
  sys.exit(main())
