"""Converts, slims, averages, inspects and compares checkpoints.

  CONVERT=scripts/convert_checkpoint.py
  python $CONVERT to_hf output/base --output_dir=output/hf
  python $CONVERT from_hf output/hf --output_dir=output/tf
  python $CONVERT to_bert output/base --output_dir=output/bert
  python $CONVERT to_google output/base --output_dir=output/google
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
import pickle
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
    if bert_utils.checkpoint_exists(path):
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
    except (RuntimeError, IndexError, tf.errors.OpError) as error:
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
          f" {plural(len(source.names), 'variable')},"
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
  for name in sorted(donor.slots):
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
  layouts = [bert_utils.describe_layout(each.shapes)
             for each in (last, source)]
  if layouts[0] != layouts[1]:
    raise bert_utils.InputError(
        f"{last.prefix} and {source.prefix} are not of one model: their layouts"
        f" are {layouts[0]} and {layouts[1]}")
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


# --------------------------------------------- to plain BERT, to google's layout


def to_bert(args):
  """A plain BERT equal to a post-LN ALBERT, as google-research/bert has it."""
  return to_layout(args, "bert", "plain BERT", "bert_model.ckpt")


def to_google(args):
  """A model of google's layout, E = H, equal to one of albert_zh's."""
  return to_layout(args, "google", "a model of google's layout",
                   "albert_model.ckpt")


def to_layout(args, layout, target, name):
  """Writes the equal model of another layout; returns what it says."""
  source = Checkpoint(args.checkpoint)
  config = source.config(args.config_file)
  vocab_file = find_vocab(source.folder, args.vocab_file, config.vocab_size)
  check_model(source, config)
  refuse_preln(config, target)
  if config.layout == layout and (layout == "google" or is_plain_bert(config)):
    raise bert_utils.InputError(
        f"the checkpoint {source.prefix} is {target} already; slim copies it"
        " without optimizer slots, to_hf makes a Hugging Face model of it")
  new_config, variables = with_one_width(config, source.read_all(), layout,
                                         target)
  write_model(args.output_dir, name, variables, new_config, vocab_file,
              source.folder)
  return [f"{os.path.join(args.output_dir, name)}: layout {layout},"
          f" embeddings of {config.hidden_size} columns,"
          f" {plural(new_config.num_hidden_layers, 'layer')}"
          f" ({bert_utils.describe_sharing(variables)}),"
          f" {plural(count_values(variables), 'parameter')} (before:"
          f" {source.num_parameters():,}); heads: "
          + (", ".join(heads_of(variables)) or "none")] + left_out(source)


def count_values(arrays):
  return sum(array.size for name, array in arrays.items() if name != STEP)


def left_out(source, names=()):
  """What a conversion did not take along, as lines of text."""
  parts = list(names)
  if source.slots:
    parts.append(f"{plural(len(source.slots), 'optimizer slot')}"
                 f" ({slot_kinds(source)})")
  return [f"left out: {', '.join(parts)}"] if parts else []


def is_plain_bert(config):
  return (config.layout == "bert" and config.shared_type == "none" and
          config.ln_type == "postln")


def refuse_preln(config, target):
  """Raises an InputError if norms stand where the target has none."""
  if config.ln_type != "postln":
    raise bert_utils.InputError(
        f"a pre-LN model cannot become {target}: its norms stand before each"
        " block, there they stand after each sum, and no weights make the one"
        " the other")


def with_one_width(config, variables, layout, target):
  """The model without a factorized table that computes what a model computes.

  albert_zh's layout projects tokens to H columns and adds segments and
  positions, of H columns, then: with the product for a table that is BERT, and
  google's layout where E is H. Layers that share weights are repeated in BERT,
  and go on sharing them in google's layout if they share all.

  Args:
    config: BertConfig.
    variables: dict, name -> array.
    layout: "bert" or "google".
    target: string, what it is to become, for the messages.

  Returns:
    (BertConfig, dict of its variables); repeated arrays are not copied.

  Raises:
    InputError: there is none.
  """
  refuse_preln(config, target)
  if config.layout == "google" and config.embedding_size != config.hidden_size:
    raise bert_utils.InputError(
        f"a model of the layout \"google\" cannot become {target}: it"
        f" normalizes its embeddings at {config.embedding_size} columns and"
        f" maps them to {config.hidden_size} afterwards; there the norm stands"
        " last")
  # Every inner group of every layer is a layer there.
  blocks = modeling.layer_scopes(config)
  groups = different(blocks)
  values = {key: getattr(config, key) for key in BERT_KEYS}
  values.update(layout=layout, num_hidden_layers=len(blocks))
  if layout == "google":
    values.update(embedding_size=config.hidden_size,
                  num_hidden_groups=len(groups))
  new_config = modeling.BertConfig(**values)
  if layout == "google" and layer_groups(new_config)[1] != [
      groups.index(block) for block in blocks]:
    raise bert_utils.InputError(
        f"{len(blocks)} layers with weights of their own cannot become"
        f" {target}: google-research/albert's rounding gives one group to two"
        " of them")
  result = {name: array for name, array in variables.items()
            if not name.startswith(ENCODER)}
  for ours, theirs in zip(blocks, modeling.layer_scopes(new_config)):
    for old, new in zip(layer_variables(ours), layer_variables(theirs)):
      result[new] = variables[old]
  if config.layout == "zh":
    projection = result.pop(WORDS + "_2")
    result[WORDS] = np.matmul(
        result[WORDS], projection, dtype=np.float64).astype(projection.dtype)
  return new_config, result


def different(values):
  """The different values of a list, in the order in which they occur."""
  found = []
  for value in values:
    if value not in found:
      found.append(value)
  return found


# ---------------------------------------------------- Hugging Face: the names

# What a module's variables are called here, there, and whether transposed.
DENSE = (("/kernel", ".weight", True), ("/bias", ".bias", False))
NORM = (("/gamma", ".weight", False), ("/beta", ".bias", False))
TABLE = (("", ".weight", False),)
# For each module of a layer: LayerScopes' field and what stands below it, its
# kind, the name in transformers' BERT, the name in its ALBERT.
LAYER_MODULES = (
    ("attention_self", "/query", DENSE, "attention.self.query",
     "attention.query"),
    ("attention_self", "/key", DENSE, "attention.self.key", "attention.key"),
    ("attention_self", "/value", DENSE, "attention.self.value",
     "attention.value"),
    ("attention_output", "", DENSE, "attention.output.dense",
     "attention.dense"),
    ("attention_norm", "", NORM, "attention.output.LayerNorm",
     "attention.LayerNorm"),
    ("intermediate", "", DENSE, "intermediate.dense", "ffn"),
    ("output", "", DENSE, "output.dense", "ffn_output"),
    ("output_norm", "", NORM, "output.LayerNorm", "full_layer_layer_norm"))

# A variable here, its name there, and whether it is transposed.
Pair = collections.namedtuple("Pair", ["name", "hf_name", "transposed"])


def module_pairs(scope, kind, hf_module):
  return [Pair(scope + ours, hf_module + theirs, transposed)
          for ours, theirs, transposed in kind]


def layer_pairs(scopes, hf_layer, family):
  """The Pairs of one layer, by its LayerScopes and its name there."""
  return [pair for field, below, kind, bert, albert in LAYER_MODULES
          for pair in module_pairs(
              ENCODER + getattr(scopes, field) + below, kind,
              hf_layer + (albert if family == "albert" else bert))]


def layer_variables(scopes):
  """Names of one layer's variables, in one order for all layouts."""
  return [pair.name for pair in layer_pairs(scopes, "", "bert")]


def family_of(config):
  return "albert" if config.layout == "google" else "bert"


def hf_pairs(config, layers):
  """The Pairs of a model that transformers has, in the order of its modules.

  Args:
    config: BertConfig of the layout "google" or of a plain BERT.
    layers: list of (name of a layer there, its LayerScopes here).

  Returns:
    List of Pairs: embeddings, layers, pooler, all heads.
  """
  family = family_of(config)
  pairs = []
  for table in ("word_embeddings", "position_embeddings",
                "token_type_embeddings"):
    pairs += module_pairs(EMBEDDINGS + table, TABLE,
                          f"{family}.embeddings.{table}")
  pairs += module_pairs(EMBEDDINGS + "LayerNorm", NORM,
                        f"{family}.embeddings.LayerNorm")
  if family == "albert":
    pairs += module_pairs(MAPPING, DENSE,
                          "albert.encoder.embedding_hidden_mapping_in")
  for name, scopes in layers:
    pairs += layer_pairs(scopes, name, family)
  return pairs + head_pairs(family)


def bert_layers(config):
  return [(f"bert.encoder.layer.{layer}.", scopes)
          for layer, scopes in enumerate(modeling.layer_scopes(config))]


def albert_layers(groups):
  """Layers for `hf_pairs` of groups, each the list of its LayerScopes."""
  return [(f"albert.encoder.albert_layer_groups.{number}.albert_layers.{inner}.",
           scopes)
          for number, group in enumerate(groups)
          for inner, scopes in enumerate(group)]


def head_pairs(family):
  """The Pairs of the pooler and of the heads."""
  pooler, transform, bias, pair_head = {
      "albert": ("albert.pooler", "predictions.", "predictions.bias",
                 "sop_classifier.classifier"),
      "bert": ("bert.pooler.dense", "cls.predictions.transform.",
               "cls.predictions.bias", "cls.seq_relationship")}[family]
  return (module_pairs("bert/pooler/dense", DENSE, pooler) +
          module_pairs(MLM + "transform/dense", DENSE, transform + "dense") +
          module_pairs(MLM + "transform/LayerNorm", NORM,
                       transform + "LayerNorm") +
          [Pair(MLM + "output_bias", bias, False),
           Pair(PAIR + "output_weights", pair_head + ".weight", False),
           Pair(PAIR + "output_bias", pair_head + ".bias", False),
           Pair(CLASSIFIER[0], "classifier.weight", False),
           Pair(CLASSIFIER[1], "classifier.bias", False)])


def layer_groups(config):
  """Which layers of the layout "google" share their weights.

  Returns:
    (list of the groups that layers use, each the list of its LayerScopes;
     list with the index in it for every layer).
  """
  size, scopes = config.inner_group_num, modeling.layer_scopes(config)
  blocks = [scopes[start:start + size]
            for start in range(0, len(scopes), size)]
  groups = different(blocks)
  return groups, [groups.index(block) for block in blocks]


def hf_layer_groups(num_layers, num_groups):
  """The group of every layer as transformers computes it.

  google computes int(layer / num_layers * num_groups), which rounds to others
  for a few pairs of numbers, such as 18 layers in 14 groups.
  """
  return [int(layer / (num_layers / num_groups)) for layer in range(num_layers)]


# ----------------------------------------------------- Hugging Face: the files

# The activation here -> there. transformers' "gelu" is another function.
ACTIVATIONS = {"gelu": "gelu_new", "relu": "relu", "tanh": "tanh",
               "linear": "linear"}
HF_ACTIVATIONS = dict({theirs: ours for ours, theirs in ACTIVATIONS.items()},
                      gelu_pytorch_tanh="gelu", gelu_fast="gelu")
# Same keys, same meaning; the others are made from what they depend on.
SHARED_KEYS = tuple(key for key in BERT_KEYS if key != "hidden_act")
GROUP_KEYS = ("embedding_size", "num_hidden_groups", "inner_group_num")
EPSILON = 1e-12
WEIGHTS_NAME, TORCH_NAME = "model.safetensors", "pytorch_model.bin"
SAFETENSORS_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8",
                     "I32": "<i4", "BF16": "<u2"}


def write_safetensors(path, tensors):
  """Writes float32 arrays in the safetensors format.

  The format is a length (8 bytes), so much json, and then the arrays' bytes.
  Nothing but numpy is needed for it.

  Args:
    path: path.
    tensors: OrderedDict, name -> array.
  """
  header, end = collections.OrderedDict(), 0
  header["__metadata__"] = {"format": "pt"}
  for name, tensor in tensors.items():
    start, end = end, end + 4 * tensor.size
    header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                    "data_offsets": [start, end]}
  text = json.dumps(header).encode("utf-8")
  text += b" " * (-len(text) % 8)
  with open(path, "wb") as writer:
    writer.write(np.array(len(text), "<u8").tobytes() + text)
    for tensor in tensors.values():
      writer.write(np.ascontiguousarray(tensor, "<f4").tobytes())


def read_safetensors(path):
  """Dict, name -> array, of a file in the safetensors format.

  Raises:
    InputError: it is no such file, is cut off, or has a type of another kind.
  """
  try:
    with open(path, "rb") as reader:
      length = int(np.frombuffer(reader.read(8), "<u8")[0])
      if length > os.path.getsize(path):
        raise ValueError("its header is longer than the file")
      header = json.loads(reader.read(length).decode("utf-8"))
    header.pop("__metadata__", None)
    data = np.memmap(path, np.uint8, "r", offset=8 + length)
    tensors = {}
    for name, entry in header.items():
      start, end = entry["data_offsets"]
      array = np.frombuffer(data[start:end].tobytes(),
                            SAFETENSORS_TYPES[entry["dtype"]])
      if entry["dtype"] == "BF16":  # the upper half of a float32
        array = (array.astype(np.uint32) << 16).view(np.float32)
      tensors[name] = array.reshape(entry["shape"])
    return tensors
  except (ValueError, KeyError, IndexError, TypeError) as error:
    raise bert_utils.InputError(
        f"{path} cannot be read as safetensors, it may be cut off; copy it"
        f" again ({error!r})") from error


def read_torch(path):
  """Dict, name -> array, of a file that torch.save wrote."""
  try:
    import torch
  except ImportError as error:
    raise bert_utils.InputError(
        f"{path} is read with PyTorch, which is not installed: pip install"
        f" torch, or save the model as {WEIGHTS_NAME}") from error
  try:
    # Without code in it, which a pickle of a stranger may have.
    tensors = torch.load(path, map_location="cpu", weights_only=True)
  except (RuntimeError, EOFError, LookupError, ValueError, TypeError,
          AttributeError, pickle.UnpicklingError) as error:  # what junk raises
    raise bert_utils.InputError(
        f"{path} cannot be read by PyTorch, it may be cut off; copy it again"
        f" ({str(error).split('.')[0]})") from error
  return {name: (tensor.float() if tensor.is_floating_point() else tensor)
          .numpy() for name, tensor in tensors.items()}


def read_hf_weights(folder):
  """Dict, name -> array, of a Hugging Face model, in one file or several."""
  for name, read in ((WEIGHTS_NAME, read_safetensors), (TORCH_NAME, read_torch)):
    path, index = os.path.join(folder, name), os.path.join(
        folder, name + ".index.json")
    if os.path.exists(path):
      return read(path)
    if os.path.exists(index):
      tensors = {}
      for part in sorted(set(read_json(index)["weight_map"].values())):
        tensors.update(read(os.path.join(folder, part)))
      return tensors
  raise bert_utils.InputError(
      f"the folder {folder} has neither {WEIGHTS_NAME} nor {TORCH_NAME}: give"
      " the folder of a Hugging Face model")


# ----------------------------------------------------------- to Hugging Face


def to_hf(args):
  """A Hugging Face model (transformers) that is equal to a checkpoint."""
  source = Checkpoint(args.checkpoint)
  config = source.config(args.config_file)
  vocab_file = find_vocab(source.folder, args.vocab_file, config.vocab_size)
  check_model(source, config)
  family = args.model_type or family_of(config)
  target = f"a Hugging Face {family.upper()}"
  refuse_preln(config, target)
  variables = source.read_all()
  if family != family_of(config) or not (config.layout == "google" or
                                         is_plain_bert(config)):
    config, variables = with_one_width(
        config, variables, "google" if family == "albert" else "bert", target)
  layers, layer_keys = (
      albert_layers_to_hf(config) if config.layout == "google"
      else (bert_layers(config), {}))
  tensors, names_left = hf_tensors(config, layers, variables)
  values = dict(hf_config(config, variables, source.folder, vocab_file),
                **layer_keys)
  lower = casing(source.folder, args.do_lower_case)
  write_hf(args.output_dir, tensors, values, lower, vocab_file)
  lines = [f"{args.output_dir}: {values['architectures'][0]},"
           f" {plural(len(tensors), 'tensor')} of"
           f" {plural(count_values(tensors), 'parameter')}; heads: "
           + (", ".join(heads_of(variables)) or "none")
           + f"; do_lower_case {lower}"]
  if layer_keys.get("num_hidden_groups", 0) > config.num_hidden_groups:
    lines.append(f"{layer_keys['num_hidden_groups']} groups of one layer each:"
                 " transformers would not divide them as google does")
  return lines + left_out(source, names_left)


def hf_tensors(config, layers, variables):
  """Names and orients a model's variables as transformers has them.

  Returns:
    (OrderedDict, name there -> array; list of the variables that have no place
     there).
  """
  if config.layout == "google":
    # google leaves the mapping out where it has nothing to do.
    variables = dict({MAPPING + "/kernel": np.eye(config.hidden_size),
                      MAPPING + "/bias": np.zeros(config.hidden_size)},
                     **variables)
  tensors, left = collections.OrderedDict(), set(variables)
  for name, hf_name, transposed in hf_pairs(config, layers):
    if name in variables:
      array = variables[name]
      tensors[hf_name] = array.T if transposed else array
      left.discard(name)
  return tensors, sorted(left)


def albert_layers_to_hf(config):
  """The layers for `hf_pairs` of an ALBERT that transformers can run.

  It takes other layers for a group than google's code for some pairs of
  numbers, and (below version 5) cannot run inner groups whose number exceeds
  that of a group's layers. Groups of one layer each say the same, with copies
  of shared weights.

  Returns:
    (layers, dict of the config's keys).
  """
  num_layers, size = config.num_hidden_layers, config.inner_group_num
  groups, indexes = layer_groups(config)
  if (hf_layer_groups(num_layers, len(groups)) != indexes or
      num_layers // len(groups) < size):
    groups = [[scopes] for scopes in modeling.layer_scopes(config)]
    num_layers, size = len(groups), 1
  return albert_layers(groups), {
      "num_hidden_layers": num_layers, "num_hidden_groups": len(groups),
      "inner_group_num": size, "embedding_size": config.embedding_size}


def hf_config(config, variables, folder, vocab_file):
  """The contents of transformers' config.json, but for ALBERT's layers."""
  values = {key: getattr(config, key) for key in SHARED_KEYS}
  for key in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
    values[key] = values[key] or 0.0
  family = family_of(config)
  vocab = tokenization.load_vocab(vocab_file)
  values.update(
      model_type=family, hidden_act=ACTIVATIONS[
          str(config.hidden_act or "linear").lower()],
      layer_norm_eps=EPSILON, pad_token_id=vocab["[PAD]"],
      torch_dtype="float32",
      architectures=[family.capitalize() + architecture_of(variables)])
  if family == "albert":
    values.update(bos_token_id=vocab["[CLS]"], eos_token_id=vocab["[SEP]"])
  if values["architectures"][0].endswith("Classification"):
    labels = labels_of(folder, len(variables[CLASSIFIER[1]]))
    values["id2label"] = {str(index): label
                          for index, label in enumerate(labels)}
    values["label2id"] = {label: index for index, label in enumerate(labels)}
  return values


def architecture_of(variables):
  """What follows "Albert" or "Bert" in the name of transformers' class."""
  if MLM + "output_bias" in variables:
    return ("ForPreTraining" if PAIR + "output_bias" in variables else
            "ForMaskedLM")
  return "ForSequenceClassification" if CLASSIFIER[0] in variables else "Model"


def labels_of(folder, count):
  """A classifier's labels: of its classifier.json, or LABEL_<n>."""
  path = os.path.join(folder, CLASSIFIER_NAME)
  labels = read_json(path).get("labels", []) if os.path.exists(path) else []
  if labels and len(labels) != count:
    raise bert_utils.InputError(
        f"{path} has {plural(len(labels), 'label')}, but the classifier"
        f" {count}; give the checkpoint in the folder it was trained in")
  return labels or [f"LABEL_{index}" for index in range(count)]


def write_hf(output_dir, tensors, values, do_lower_case, vocab_file):
  """Writes a Hugging Face model's folder."""
  with new_folder(output_dir) as folder:
    write_safetensors(os.path.join(folder, WEIGHTS_NAME), tensors)
    write_json(os.path.join(folder, "config.json"), values)
    # Else an ALBERT would be given the SentencePiece tokenizer.
    write_json(os.path.join(folder, "tokenizer_config.json"), {
        "tokenizer_class": "BertTokenizer", "do_lower_case": do_lower_case,
        "model_max_length": values["max_position_embeddings"],
        "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]",
        "sep_token": "[SEP]", "mask_token": "[MASK]"})
    shutil.copyfile(vocab_file, os.path.join(folder, VOCAB_NAME))


# --------------------------------------------------------- from Hugging Face


def from_hf(args):
  """A checkpoint, layout google or bert, equal to a Hugging Face model."""
  folder = args.model
  path = os.path.join(folder, "config.json")
  if not os.path.exists(path):
    raise bert_utils.InputError(
        f"there is no {path}: give the folder of a Hugging Face model")
  values = read_json(path)
  config = config_from_hf(values, path, args.approximate_gelu)
  vocab_file = find_vocab(folder, args.vocab_file, config.vocab_size)
  layers = (albert_layers_from_hf(config, path) if config.layout == "google"
            else bert_layers(config))
  tensors = named_as_today(read_hf_weights(folder), family_of(config))
  variables = {}
  for name, hf_name, transposed in hf_pairs(config, layers):
    if hf_name in tensors:
      array = tensors.pop(hf_name).astype(np.float32)
      variables[name] = np.ascontiguousarray(array.T if transposed else array)
  take_tied(tensors, variables, folder)
  if config.layout == "google" and config.embedding_size == config.hidden_size:
    drop_mapping(variables, folder)
  names_left = check_leftovers(tensors, family_of(config), folder)
  check_variables({name: list(array.shape)
                   for name, array in variables.items()}, config, folder)
  # Evaluation wants to know the step.
  variables[STEP] = np.zeros([], np.int64)
  name = family_of(config) + "_model.ckpt"
  write_model(args.output_dir, name, variables, config, vocab_file, folder)
  return ([f"{os.path.join(args.output_dir, name)}: layout {config.layout},"
           f" {plural(len(variables) - 1, 'variable')} of"
           f" {plural(count_values(variables), 'parameter')}; heads: "
           + (", ".join(heads_of(variables)) or "none")
           + f"; do_lower_case {casing(folder)}"] +
          ([f"left out: {', '.join(names_left)}"] if names_left else []))


def config_from_hf(values, path, approximate_gelu):
  """The BertConfig that says what a Hugging Face config says.

  Args:
    values: dict, the contents of config.json.
    path: string, for the messages.
    approximate_gelu: bool, take the other form of gelu for ours.

  Raises:
    InputError: there is none.
  """
  family = values.get("model_type") or (
      "albert" if "num_hidden_groups" in values else "bert")
  if family not in ("albert", "bert"):
    raise bert_utils.InputError(
        f"{path} has model_type \"{family}\"; \"albert\" and \"bert\" can be"
        " read")
  for key, wanted in (("position_embedding_type", "absolute"),
                      ("is_decoder", False), ("add_cross_attention", False),
                      ("layer_norm_eps", EPSILON)):
    if values.get(key, wanted) != wanted:
      raise bert_utils.InputError(
          f"{path} has {key} {values[key]!r}; the models here have {wanted!r}"
          " and nothing else, so that their outputs would differ")
  keys = SHARED_KEYS + (GROUP_KEYS if family == "albert" else ())
  missing = [key for key in keys if key not in values]
  if missing:
    raise bert_utils.InputError(f"{path} lacks the key {', '.join(missing)}")
  config = modeling.BertConfig(
      layout="google" if family == "albert" else "bert",
      hidden_act=activation_from_hf(values, family, path, approximate_gelu),
      **{key: values[key] for key in keys})
  config.validate()
  return config


def activation_from_hf(values, family, path, approximate_gelu):
  """Our name of a Hugging Face model's activation."""
  name = values.get("hidden_act", "gelu_new" if family == "albert" else "gelu")
  if name == "gelu" and approximate_gelu:
    return "gelu"
  if name == "gelu":
    raise bert_utils.InputError(
        f"{path} has hidden_act \"gelu\", which is the exact form there; here,"
        " and in the TensorFlow code of BERT and ALBERT, gelu is the tanh form"
        " (\"gelu_new\" there), and outputs would differ by about 1e-3:"
        " --approximate_gelu accepts that, and is right for weights that were"
        " trained in TensorFlow")
  if name not in HF_ACTIVATIONS:
    raise bert_utils.InputError(
        f"{path} has hidden_act {name!r}; known are"
        f" {', '.join(sorted(HF_ACTIVATIONS))}")
  return HF_ACTIVATIONS[name]


def albert_layers_from_hf(config, path):
  """The layers for `hf_pairs` of an ALBERT of transformers.

  Raises:
    InputError: google's code would divide them otherwise.
  """
  num_layers, num_groups = config.num_hidden_layers, config.num_hidden_groups
  groups, indexes = layer_groups(config)
  if num_groups > num_layers or indexes != hf_layer_groups(num_layers,
                                                           num_groups):
    raise bert_utils.InputError(
        f"{path} has {num_layers} layers in {num_groups} groups, which"
        " transformers and google-research/albert divide differently; no"
        " num_hidden_groups says the same here")
  return albert_layers(groups)


def named_as_today(tensors, family):
  """Tensors under the names that today's transformers would give them."""
  renamed = {}
  has_prefix = any(name.startswith(family + ".") for name in tensors)
  for name, tensor in tensors.items():
    if name.endswith((".gamma", ".beta")):  # published before 2019 ended
      module, _, leaf = name.rpartition(".")
      name = module + (".weight" if leaf == "gamma" else ".bias")
    if not has_prefix and name.startswith(
        ("embeddings.", "encoder.", "pooler.")):  # AlbertModel's, BertModel's
      name = f"{family}.{name}"
    renamed[name] = tensor
  return renamed


def take_tied(tensors, variables, folder):
  """Removes the tensors that are the same as others; they have to be."""
  for hf_name in ("predictions.decoder", "cls.predictions.decoder"):
    for leaf, name in (".weight", WORDS), (".bias", MLM + "output_bias"):
      tensor = tensors.pop(hf_name + leaf, None)
      if tensor is None:
        continue
      if leaf == ".bias" and name not in variables:
        variables[name] = tensor.astype(np.float32)
      elif not np.array_equal(variables.get(name), tensor.astype(np.float32)):
        raise bert_utils.InputError(
            f"{hf_name + leaf} of the model in {folder} is not the same as"
            f" {name}; the models here have one for both")


def drop_mapping(variables, folder):
  """Removes the mapping of a model of equal widths; it must do nothing."""
  kernel, bias = (variables.pop(MAPPING + leaf, None)
                  for leaf in ("/kernel", "/bias"))
  if kernel is None or bias is None:
    return
  if bias.any() or not np.array_equal(kernel, np.eye(len(bias))):
    raise bert_utils.InputError(
        f"the model in {folder} maps embeddings to the hidden size, which are"
        " of one width, by other weights than the identity; google's layout has"
        " no mapping there")


def check_leftovers(tensors, family, folder):
  """The names of what is left out; an encoder's tensor may not be among it."""
  # Positions 0, 1, 2, ... and segments 0, which some versions have stored.
  left = [name for name in sorted(tensors)
          if not name.endswith((".position_ids", ".token_type_ids"))]
  encoder = [name for name in left if name.startswith(family + ".")]
  if encoder:
    raise bert_utils.InputError(
        f"the model in {folder} has {some(encoder)}, which its config.json says"
        " nothing of; make the config that of the weights")
  return left


# ------------------------------------------------------- inspect and compare


def inspect(args):
  """What a checkpoint has in it, as lines of text."""
  source = Checkpoint(args.checkpoint)
  types = collections.Counter(tf.as_dtype(source.dtypes[name]).name
                              for name in source.names if name != STEP)
  lines = [source.prefix,
           "  layout     " + bert_utils.describe_layout(source.shapes),
           "  sharing    " + bert_utils.describe_sharing(source.names),
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


def compare(args):
  """What differs in two checkpoints; returns (lines, whether any does)."""
  first, second = (Checkpoint(path) for path in args.checkpoints)
  lines = [f"A {first.prefix}", f"B {second.prefix}"]
  left, right = ({name for name in source.shapes if name != STEP and not (
      args.model_only and name in source.slots)} for source in (first, second))
  different = left != right
  if not args.model_only and first.step != second.step:
    lines.append(f"{STEP}: {first.step} in A, {second.step} in B")
    different = True
  for letter, only in (("A", left - right), ("B", right - left)):
    if only:
      lines.append(f"only in {letter}: {plural(len(only), 'variable')}: "
                   + some(sorted(only)))
  found, common = [], sorted(left & right)
  for name in common:
    forms = [f"{source.shapes[name]} {tf.as_dtype(source.dtypes[name]).name}"
             for source in (first, second)]
    if forms[0] != forms[1]:
      lines.append(f"{name}: {forms[0]} in A, {forms[1]} in B")
      different = True
    else:
      found.append((max_difference(first.read(name), second.read(name)), name))
  text, beyond = differences_text(found, args.tolerance)
  lines += text + [
      f"{plural(len(common), 'variable')} in both,"
      f" {len(found) - beyond} equal"
      + (f" within {args.tolerance:g}" if args.tolerance else "")
      + (f"; max |A - B| {max(found, key=by_size)[0]:.3g}" if found else "")]
  return lines, bool(different or beyond)


def by_size(entry):
  """Orders (difference, name); what is not a number differs most of all."""
  return np.nan_to_num(entry[0], nan=np.inf)


def differences_text(found, limit):
  """Lines on the largest of the differences beyond a limit; how many there are.

  Args:
    found: list of (difference, name).
    limit: float.
  """
  beyond = sorted((entry for entry in found if not entry[0] <= limit),
                  key=by_size, reverse=True)
  lines = [f"{name}: max |A - B| {value:.3g}"
           for value, name in beyond[:MAX_SHOWN]]
  if len(beyond) > MAX_SHOWN:
    lines.append(f"... and {plural(len(beyond) - MAX_SHOWN, 'other variable')}")
  return lines, len(beyond)


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
        " config as --config_file, and to_google or to_bert changes the layout"
        " where another one says the same")
  check_variables({name: source.shapes[name] for name in source.names}, config,
                  source.prefix)


def check_variables(shapes, config, origin):
  """Raises an InputError unless variables are those that a config builds.

  Heads may be missing, and without one that reads it, the pooler.

  Args:
    shapes: dict, name -> list.
    config: BertConfig.
    origin: path, for the message.
  """
  wanted = encoder_shapes(config)
  needs_pooler = PAIR + "output_bias" in shapes or CLASSIFIER[0] in shapes
  missing = [name for name in wanted if name not in shapes and (
      needs_pooler or not name.startswith("bert/pooler/"))]
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
  mismatched = [(name, wanted[name], list(shape))
                for name, shape in sorted(shapes.items())
                if name in wanted and wanted[name] != list(shape)]
  bert_utils.check_shapes(bert_utils.CheckpointMatch(
      assignment_map={}, missing=[], unexpected=[], mismatched=mismatched,
      copied={}, grown=[]), origin)


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

  def command(run, checkpoint="checkpoint", output=True,
              help_text="prefix or folder of a checkpoint", **options):
    doc = run.__doc__.split("\n")[0]
    sub = commands.add_parser(run.__name__, help=doc, description=doc,
                              allow_abbrev=False)
    sub.set_defaults(run=run)
    sub.add_argument(checkpoint, help=help_text, **options)
    if run not in (compare, from_hf):
      sub.add_argument("--config_file", help="default: beside the checkpoint")
    if output:
      sub.add_argument("--vocab_file", help="default: beside the checkpoint")
      sub.add_argument("--output_dir", required=True,
                       help="folder to make; it must not exist")
    return sub.add_argument

  add = command(to_hf)
  add("--do_lower_case", type=boolean, help="how text is tokenized; default: as"
      " noted beside the checkpoint, else True")
  add("--model_type", choices=["albert", "bert"], help="which of transformers'"
      " models; default: albert for the layout google, else bert")
  add = command(from_hf, "model", help_text="folder of a Hugging Face model")
  add("--approximate_gelu", action="store_true", help="take hidden_act \"gelu\""
      " for the tanh form, which it is not there")
  command(to_bert)
  command(to_google)
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
  add("--model_only", action="store_true",
      help="leave out optimizer slots and global_step")
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
