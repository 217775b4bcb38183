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
CheckpointMatch = collections.namedtuple(
    "CheckpointMatch",
    ["assignment_map", "missing", "unexpected", "mismatched"])

_SLOT = re.compile(
    r"(^|/)(global_step|(lamb|adam)_[mv]|Adam(_1)?|beta[12]_power)$")


def variable_name(variable):
  """Name of a variable as checkpoints have it: no `:0`, no `/replica_<n>`.

  Args:
    variable: Variable, or its name.
  """
  return re.sub(r"(/replica_\d+)?(:\d+)?$", "",
                getattr(variable, "name", variable))


def match_checkpoint(tvars, init_checkpoint):
  """Compares trainable variables with what a checkpoint holds.

  Args:
    tvars: list of variables of the graph.
    init_checkpoint: path of a checkpoint (prefix or folder).

  Returns:
    CheckpointMatch.
  """
  stored = collections.OrderedDict(tf.train.list_variables(init_checkpoint))
  wanted = collections.OrderedDict(
      (variable_name(var), var.shape.as_list()) for var in tvars)
  assignment_map = collections.OrderedDict()
  mismatched = []
  for name, shape in stored.items():
    if name in wanted:
      if list(shape) == wanted[name]:
        assignment_map[name] = name
      else:
        mismatched.append((name, wanted[name], list(shape)))
  return CheckpointMatch(
      assignment_map,
      [name for name in wanted if name not in stored],
      [name for name in stored
       if name not in wanted and not _SLOT.search(name)],
      mismatched)


def get_assignment_map_from_checkpoint(tvars, init_checkpoint):
  """The variables that `tf.train.init_from_checkpoint` can take from it.

  Args:
    tvars: list of variables of the graph.
    init_checkpoint: path of a checkpoint.

  Returns:
    (OrderedDict name -> name of those on both sides,
     dict of the initialized names, with and without `:0`, -> 1).

  Raises:
    InputError: a variable has another shape in the checkpoint.
  """
  match = match_checkpoint(tvars, init_checkpoint)
  check_shapes(match, init_checkpoint)
  initialized = {}
  for name in match.assignment_map:
    initialized[name] = 1
    initialized[name + ":0"] = 1
  return match.assignment_map, initialized


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


def check_shapes(match, init_checkpoint):
  """Raises an InputError that names the config key to change, if any must be.

  Args:
    match: CheckpointMatch.
    init_checkpoint: path, for the message.
  """
  if not match.mismatched:
    return
  name, wanted, stored = match.mismatched[0]
  key = "hidden_size or intermediate_size"
  for suffix, keys in _SHAPE_KEYS:
    if name.endswith(suffix):
      key = keys
      break
  raise InputError(
      "%d variables of the checkpoint %s have other shapes than the model, the"
      " first is %s: checkpoint %s, model %s; change %s (in the config, or by"
      " another checkpoint)" % (len(match.mismatched), init_checkpoint, name, stored,
                         wanted, key))


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
