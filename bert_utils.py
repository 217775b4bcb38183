"""Shape helpers, row gathering and checkpoint matching: what every model needs.

`modeling.py` re-exports the shape helpers under the names that BERT's users
import from there.
"""

import collections
import re

import tensorflow.compat.v1 as tf


class InputError(ValueError):
  """An input is at fault; the message alone is enough to act on."""


def get_shape_list(tensor, expected_rank=None, name=None):
  """Returns the shape of a tensor, static dimensions where they are known.

  Args:
    tensor: Tensor of any type.
    expected_rank: int or list of ints; a tensor of another rank is an error.
    name: string used in that error's message; default the tensor's name.

  Returns:
    List with one entry a dimension: an int, or a scalar int32 Tensor where
    the graph does not know the size.

  Raises:
    ValueError: the rank is not an expected one.
  """
  if expected_rank is not None:
    assert_rank(tensor, expected_rank, name)
  shape = tensor.shape.as_list()
  unknown = [axis for axis, size in enumerate(shape) if size is None]
  if unknown:
    dynamic_shape = tf.shape(tensor)
    for axis in unknown:
      shape[axis] = dynamic_shape[axis]
  return shape


def reshape_to_matrix(input_tensor):
  """Reshapes a Tensor of rank >= 2 to [rows, last dimension]."""
  rank = input_tensor.shape.ndims
  if rank < 2:
    raise ValueError(
        "reshape_to_matrix needs a tensor of rank 2 or more, got the shape %s"
        % input_tensor.shape)
  if rank == 2:
    return input_tensor
  return tf.reshape(input_tensor, [-1, input_tensor.shape[-1]])


def reshape_from_matrix(output_tensor, orig_shape_list):
  """Undoes `reshape_to_matrix`; the last dimension may have changed.

  Args:
    output_tensor: Tensor [rows, width].
    orig_shape_list: the shape before, as `get_shape_list` returned it.

  Returns:
    Tensor with the leading dimensions of `orig_shape_list` and that width.
  """
  if len(orig_shape_list) == 2:
    return output_tensor
  width = get_shape_list(output_tensor)[-1]
  return tf.reshape(output_tensor, orig_shape_list[:-1] + [width])


def assert_rank(tensor, expected_rank, name=None):
  """Raises a ValueError unless the tensor has (one of) the expected rank(s)."""
  ranks = [expected_rank] if isinstance(expected_rank, int) else expected_rank
  if tensor.shape.ndims not in ranks:
    raise ValueError(
        "tensor `%s` in scope `%s` has rank %s (shape %s), expected %s" % (
            name or _tensor_name(tensor), tf.get_variable_scope().name,
            tensor.shape.ndims, tensor.shape,
            " or ".join(str(rank) for rank in ranks)))


def _tensor_name(tensor):
  """Name of a graph tensor; eager tensors of TensorFlow 2 have none."""
  return tensor.op.name if hasattr(tensor, "graph") else "eager tensor"


def gather_indexes(sequence_tensor, positions):
  """Gathers the vectors at the given positions of every sequence.

  Args:
    sequence_tensor: float Tensor [B, S, width].
    positions: int32 Tensor [B, P].

  Returns:
    float Tensor [B * P, width].
  """
  batch_size, seq_length, width = get_shape_list(
      sequence_tensor, expected_rank=3)
  first_rows = tf.reshape(tf.range(0, batch_size) * seq_length, [-1, 1])
  rows = tf.reshape(positions + first_rows, [-1])
  return tf.gather(tf.reshape(sequence_tensor, [-1, width]), rows)


# ------------------------------------------------------------ checkpoints

# assignment_map: OrderedDict, variable name in the checkpoint -> in the graph.
# missing: trainable variables of the graph that the checkpoint lacks.
# unexpected: variables of the checkpoint that the graph lacks; optimizer slots
#   and step counters are not among them.
# mismatched: (name, shape in the graph, shape in the checkpoint).
# copied: OrderedDict, name in the graph -> in the checkpoint, of hidden groups
#   that the checkpoint lacks and that start from its group 0.
# grown: (name, shape in the graph, shape in the checkpoint) of the tables that
#   get more rows than the checkpoint has.
CheckpointMatch = collections.namedtuple(
    "CheckpointMatch",
    ["assignment_map", "missing", "unexpected", "mismatched", "copied",
     "grown"])

_SLOT = re.compile(
    r"(^|/)(global_step|(lamb|adam)_[mv]|Adam(_1)?|beta[12]_power)$")


def variable_name(variable):
  """Name of a variable as checkpoints have it: no `:0`, no `/replica_<n>`.

  Args:
    variable: Variable, or its name.
  """
  return re.sub(r"(/replica_\d+)?(:\d+)?$", "",
                getattr(variable, "name", variable))


def checkpoint_exists(prefix):
  """Whether there are files of a checkpoint.

  `tf.train.checkpoint_exists` of TensorFlow 1.15 raises where not even their
  folder is there.

  Args:
    prefix: path, without an ending.

  Returns:
    bool.
  """
  try:
    return tf.train.checkpoint_exists(prefix)
  except tf.errors.NotFoundError:
    return False


def match_checkpoint(tvars, init_checkpoint, init_from_group0=False,
                     grow_vocab=False):
  """Compares trainable variables with what a checkpoint holds.

  Args:
    tvars: list of variables of the graph.
    init_checkpoint: path of a checkpoint (prefix or folder).
    init_from_group0: bool; a hidden group that the checkpoint lacks takes the
      variables of its group 0.
    grow_vocab: bool; the checkpoint's vocabulary may be smaller.

  Returns:
    CheckpointMatch.
  """
  stored = collections.OrderedDict(tf.train.list_variables(init_checkpoint))
  wanted = collections.OrderedDict(
      (variable_name(var), var.shape.as_list()) for var in tvars)
  match = CheckpointMatch(
      collections.OrderedDict(), [],
      [name for name in stored
       if name not in wanted and not _SLOT.search(name)],
      [], collections.OrderedDict(), [])
  sources = collections.OrderedDict((name, name) for name in stored
                                    if name in wanted)
  for name in wanted:
    source = re.sub(r"/group_\d+/", "/group_0/", name)
    if name in stored:
      continue
    if init_from_group0 and source in stored:
      sources[name] = source
    else:
      match.missing.append(name)
  for name, source in sources.items():
    shapes = name, wanted[name], list(stored[source])
    if shapes[1] == shapes[2]:
      target = match.assignment_map if name == source else match.copied
      target[name] = source
    elif grow_vocab and _lacks_rows(*shapes):
      match.grown.append(shapes)
    else:
      match.mismatched.append(shapes)
  return match


def _lacks_rows(name, wanted, stored):
  """Whether a table of the vocabulary only has too few rows."""
  return (_row_key(name) == "vocab_size" and wanted[1:] == stored[1:] and
          wanted[0] > stored[0])


def get_assignment_map_from_checkpoint(tvars, init_checkpoint, num_of_group=0):
  """The variables that `tf.train.init_from_checkpoint` can take from it.

  Args:
    tvars: list of variables of the graph.
    init_checkpoint: path of a checkpoint.
    num_of_group: int; above 0, as google-research/albert has it, a list of
      maps is returned: a name has one place in a map, but with more than one
      group a variable of group 0 may go into each of them.

  Returns:
    (OrderedDict name -> name of those on both sides, or a list of
     `num_of_group` of them, a hidden group each,
     dict of the initialized names, with and without `:0`, -> 1).

  Raises:
    InputError: a variable has another shape in the checkpoint.
  """
  match = match_checkpoint(tvars, init_checkpoint, num_of_group > 1)
  check_shapes(match, init_checkpoint)
  maps = [collections.OrderedDict() for _ in range(max(num_of_group, 1))]
  initialized = {}
  for pairs in (match.assignment_map, match.copied):
    for name, source in pairs.items():
      group = re.search(r"/group_(\d+)/", name)
      index = int(group.group(1)) if group else 0
      if index >= len(maps):
        if name != source:
          continue  # Map 0 has that source already, for group 0 itself.
        index = 0
      maps[index][source] = name
      initialized[name] = 1
      initialized[name + ":0"] = 1
  return (maps if num_of_group else maps[0]), initialized


_SHAPE_KEYS = (
    ("embeddings/word_embeddings_2", "embedding_size or hidden_size"),
    ("embeddings/word_embeddings", "vocab_size or embedding_size"),
    ("embeddings/position_embeddings", "max_position_embeddings or hidden_size"),
    ("embeddings/token_type_embeddings", "type_vocab_size or hidden_size"),
    ("embeddings/LayerNorm/beta", "embedding_size or hidden_size"),
    ("embedding_hidden_mapping_in/kernel", "embedding_size or hidden_size"),
    ("predictions/output_bias", "vocab_size"),
    ("output_weights", "the labels of the task, or hidden_size"),
    ("output_bias", "the labels of the task"),
)

# Tables of which one config key alone says how many rows they have.
_ROW_KEYS = (
    ("embeddings/word_embeddings", "vocab_size"),
    ("predictions/output_bias", "vocab_size"),
    ("embeddings/position_embeddings", "max_position_embeddings"),
)


def _find_key(name, keys):
  """The key of the first suffix that a name ends with, or None."""
  return next((key for suffix, key in keys if name.endswith(suffix)), None)


def _row_key(name):
  return _find_key(name, _ROW_KEYS)


def check_shapes(match, init_checkpoint, name_flags=False):
  """Raises an InputError that names the config key to change, if any must be.

  Args:
    match: CheckpointMatch.
    init_checkpoint: path, for the message.
    name_flags: bool; whether the caller has a flag `--grow_vocab` to name.
  """
  if not match.mismatched:
    return
  # Another width tells more than another number of rows does.
  others = [shapes for shapes in match.mismatched
            if not _row_key(shapes[0]) or shapes[1][1:] != shapes[2][1:]]
  if not others:
    check_rows(match.mismatched, init_checkpoint, name_flags)
  name, wanted, stored = others[0]
  key = _find_key(name, _SHAPE_KEYS) or "hidden_size or intermediate_size"
  raise InputError(
      "%d variables of the checkpoint %s have other shapes than the model, the"
      " first is %s: checkpoint %s, model %s; change %s (in the config, or by"
      " another checkpoint)" % (len(match.mismatched), init_checkpoint, name,
                                stored, wanted, key))


def check_rows(tables, init_checkpoint, name_flags=False, grow_vocab=False):
  """Raises an InputError for a vocabulary or positions of another size.

  Args:
    tables: list of (name, shape in the model, shape in the checkpoint); those
      that differ in more than their rows are left to `check_shapes`.
    init_checkpoint: path, for the message.
    name_flags: bool; whether the caller has a flag `--grow_vocab` to name.
    grow_vocab: bool; the checkpoint's vocabulary may be smaller.
  """
  for name, wanted, stored in tables:
    key = _row_key(name)
    if (not key or wanted == stored or wanted[1:] != stored[1:] or
        (grow_vocab and _lacks_rows(name, wanted, stored))):
      continue
    advice = "set %s in the config to %d or use another checkpoint" % (
        key, stored[0])
    if key == "vocab_size":
      advice = "use its vocabulary and " + advice
      if stored[0] == SENTENCEPIECE_VOCAB_SIZE:
        advice += (" (one of %d may be a SentencePiece one, as Google's English"
                   " ALBERT has it: those are out of scope)" % stored[0])
      if name_flags and wanted[0] > stored[0]:
        advice += (", or give --grow_vocab to keep its rows and initialize %d"
                   " more" % (wanted[0] - stored[0]))
    raise InputError(
        "the model's %s is %d, but the checkpoint %s has %d rows in %s; %s" % (
            key, wanted[0], init_checkpoint, stored[0], name, advice))


# --------------------------------------------------- what a checkpoint is like

# Of Google's English ALBERT models, the only published ones of that size.
SENTENCEPIECE_VOCAB_SIZE = 30000


def describe_layout(variables):
  """Says in words which family of models a checkpoint's variables belong to.

  Args:
    variables: dict, variable name -> shape; or names alone, which do not tell
      "fast" from "google".

  Returns:
    string, such as "zh (albert_zh)"; its first word is the config's `layout`,
    or "fast" or "none".
  """
  shapes = variables if isinstance(variables, dict) else {}
  names = list(variables)

  def has(part):
    return any(part in name for name in names)

  if any("/ffn_" in name and name.endswith("/kernel") and len(shape) == 3
         for name, shape in shapes.items()):
    return ("fast (albert_zh's modeling_google_fast, whose feed-forward kernels"
            " are cut into groups)")
  if has("encoder/transformer/group_"):
    return "google (google-research/albert)"
  if has("embeddings/word_embeddings_2"):
    return "zh (albert_zh)"
  if has("encoder/layer_"):
    return "bert (google-research/bert)"
  return "none that is known (no encoder variables of BERT or ALBERT)"


def find_sharing(names):
  """Which weights the layers of a model share, by its variables' names.

  Args:
    names: list (or dict) of variable names, of a graph or a checkpoint.

  Returns:
    OrderedDict, config key -> string or int, of the keys that the names tell:
    num_hidden_groups and inner_group_num of the layout google; shared_type
    and, unless it is "all", num_hidden_layers of the others; empty without an
    encoder.
  """
  def indices(pattern):
    return {int(found.group(1)) for found in
            (re.search("/encoder/" + pattern, name) for name in names) if found}

  groups = indices(r"transformer/group_(\d+)/")
  if groups:
    inner = indices(r"transformer/group_\d+/inner_group_(\d+)/")
    # Of more groups than layers, some have no variables.
    whole = groups == set(range(len(groups)))
    return collections.OrderedDict([
        ("num_hidden_groups",
         len(groups) if whole else "above %d" % max(groups)),
        ("inner_group_num", len(inner))])
  for shared_type, pattern in (
      ("none", r"layer_(\d+)/"),
      ("attention", r"layer_shared/intermediate_(\d+)/"),
      ("ffn", r"layer_shared/attention_(\d+)/")):
    layers = indices(pattern)
    if layers:
      return collections.OrderedDict([("shared_type", shared_type),
                                      ("num_hidden_layers", max(layers) + 1)])
  if any("/encoder/layer_shared/" in name for name in names):
    return collections.OrderedDict([("shared_type", "all")])
  return collections.OrderedDict()


def describe_sharing(names):
  """Says in words which weights the layers share, see `find_sharing`."""
  return _in_words(find_sharing(names)) or "no encoder"


def _in_words(keys):
  return ", ".join("%s %s" % item for item in keys.items())


def sharing_difference(wanted, names):
  """Compares the sharing of a model with that of a checkpoint.

  Args:
    wanted: dict of the model's keys, as `find_sharing` returns it.
    names: list of the checkpoint's variable names.

  Returns:
    (the model's keys that differ in words, the checkpoint's in words, their
    names in words), or None where nothing differs that both tell.
  """
  found = find_sharing(names)
  keys = [key for key in found
          if key in wanted and wanted[key] != found[key]]
  if "shared_type" in keys:
    keys = ["shared_type"]  # the number of layers is another question
  if not keys:
    return None
  return (_in_words(collections.OrderedDict((key, wanted[key])
                                            for key in keys)),
          _in_words(collections.OrderedDict((key, found[key])
                                            for key in keys)),
          " and ".join(keys))


def describe_slots(names):
  """Says in words which optimizer's slots a checkpoint holds.

  Args:
    names: list (or dict) of its variable names.

  Returns:
    string, such as "optimizer slots lamb_m, lamb_v of 31 variables".
  """
  slots = [name.rpartition("/")[::2] for name in names
           if re.search(r"/((lamb|adam)_[mv]|Adam(_1)?)$", name)]
  if not slots:
    return "no optimizer slots"
  return "optimizer slots %s of %d variables" % (
      ", ".join(sorted({slot for _, slot in slots})),
      len({variable for variable, _ in slots}))
