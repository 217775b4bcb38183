"""Chinese ALBERT: configuration, model and building blocks.

Needs TensorFlow 1.15 or any 2.x (graph code by `tensorflow.compat.v1`) and
`bert_utils.py`; nothing else, so that other projects can import it.

  config = modeling.BertConfig.from_json_file("albert_config_tiny.json")
  model = modeling.BertModel(config, is_training=False, input_ids=input_ids)
  pooled_output = model.get_pooled_output()

What ALBERT changes in BERT (Lan et al., https://arxiv.org/abs/1909.11942) and
what is an option here: embeddings of E columns that are projected to H ones
(`embedding_size`), layers that share their weights (`shared_type`); besides,
the norm stands after the residual sum as in BERT or before each block
(`ln_type`; Xiong et al., https://arxiv.org/abs/2002.04745). Whose checkpoints
fit is an option too (`layout`): albert_zh's, google-research/albert's, or
those of plain BERT, which is the same model without ALBERT's changes.

Letters in the comments on shapes:
  B  batch size             H  hidden size            N  attention heads
  S  sequence length        E  embedding size         D  size of a head, H / N
  F  S of the queries       V  vocabulary size        P  predictions a sequence
  T  S of the keys          I  intermediate size
"""

import collections
import copy
import difflib
import functools
import itertools
import json
import math
import numbers

import tensorflow.compat.v1 as tf

# Some are imported for those who take them from here, as from BERT's modeling.
from bert_utils import assert_rank  # noqa: F401
from bert_utils import gather_indexes
from bert_utils import get_assignment_map_from_checkpoint  # noqa: F401
from bert_utils import get_shape_list
from bert_utils import reshape_from_matrix
from bert_utils import reshape_to_matrix

LN_TYPES = ("postln", "preln")
SHARED_TYPES = ("all", "attention", "ffn", "none")
LAYOUTS = ("zh", "google", "bert")

# A default that depends on the layout; None has a meaning of its own.
_BY_LAYOUT = object()

# Keys of the peers' json files that no code reads, theirs or ours.
_IGNORED_KEYS = frozenset([
    "directionality", "pooler_fc_size", "pooler_num_attention_heads",
    "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type",
    "net_structure_type", "gap_size", "num_memory_blocks",
    "down_scale_factor"])


class BertConfig(object):
  """Configuration of a model: every key, its default and its meaning."""

  def __init__(self, vocab_size, hidden_size=768, num_hidden_layers=12,
               num_attention_heads=12, intermediate_size=3072,
               hidden_act="gelu", hidden_dropout_prob=0.1,
               attention_probs_dropout_prob=0.1, max_position_embeddings=512,
               type_vocab_size=16, initializer_range=0.02,
               embedding_size=_BY_LAYOUT, ln_type="postln",
               shared_type=_BY_LAYOUT, layout="zh", final_layer_norm=False,
               num_hidden_groups=1, inner_group_num=1):
    """Constructs a configuration; its sizes are checked by `validate`.

    Args:
      vocab_size: int, V, number of tokens in the vocabulary.
      hidden_size: int, H, width of the encoder and of the pooler.
      num_hidden_layers: int, number of encoder layers.
      num_attention_heads: int, N, attention heads of each layer.
      intermediate_size: int, I, width inside the feed-forward block.
      hidden_act: string or function, activation of the feed-forward block.
      hidden_dropout_prob: float, dropout after embeddings and projections.
      attention_probs_dropout_prob: float, dropout of attention probabilities.
      max_position_embeddings: int, longest sequence that has positions.
      type_vocab_size: int, number of segment types.
      initializer_range: float, standard deviation of initial weights.
      embedding_size: int, E, width of the token embeddings before they are
        projected to `hidden_size`; default 128. The layout "bert" projects
        nothing: None (or `hidden_size`) there.
      ln_type: "postln" (norm after each residual sum, as BERT) or "preln"
        (norm before each block). None means "postln".
      shared_type: which weights the layers share: "all", "attention", "ffn"
        or "none". None means "none". Default "all", in the layout "bert"
        "none"; the layout "google" has `num_hidden_groups` instead.
      layout: how variables are named and embeddings built: "zh" (as
        albert_zh), "google" (google-research/albert) or "bert" (plain BERT).
      final_layer_norm: bool, pre-LN only: a closing norm over the encoder's
        output. albert_zh's pre-LN checkpoints have none.
      num_hidden_groups: int, layout "google": the layers are divided into so
        many groups; those of a group share their weights.
      inner_group_num: int, layout "google": blocks of attention and
        feed-forward, each with its own weights, in every layer.
    """
    self.vocab_size = vocab_size
    self.hidden_size = hidden_size
    self.num_hidden_layers = num_hidden_layers
    self.num_attention_heads = num_attention_heads
    self.intermediate_size = intermediate_size
    self.hidden_act = hidden_act
    self.hidden_dropout_prob = hidden_dropout_prob
    self.attention_probs_dropout_prob = attention_probs_dropout_prob
    self.max_position_embeddings = max_position_embeddings
    self.type_vocab_size = type_vocab_size
    self.initializer_range = initializer_range
    self.embedding_size = embedding_size
    if embedding_size is _BY_LAYOUT:
      self.embedding_size = None if layout == "bert" else 128
    self.ln_type = ln_type
    self.shared_type = shared_type
    if shared_type is _BY_LAYOUT:
      self.shared_type = "none" if layout == "bert" else "all"
    self.layout = layout
    self.final_layer_norm = final_layer_norm
    self.num_hidden_groups = num_hidden_groups
    self.inner_group_num = inner_group_num
    self._validate_choices()

  @classmethod
  def from_dict(cls, json_object):
    """Constructs a `BertConfig` from a dict of parameters.

    A key that is not known is kept as an attribute and warned of, with the
    nearest known key. A missing `layout` is inferred from the keys.

    Args:
      json_object: dict, key -> value.

    Returns:
      BertConfig; in the layout "google" an AlbertConfig.

    Raises:
      ValueError: a choice (`ln_type`, `shared_type`, `layout`) is not known.
    """
    if "layout" in json_object:
      layout = json_object["layout"]
    else:
      layout = infer_layout(json_object)
      tf.logging.info("layout of the model config, inferred: %s", layout)
    config_class = AlbertConfig if layout == "google" else cls
    config = config_class(vocab_size=None, layout=layout)
    known = set(config.__dict__)
    for key, value in json_object.items():
      if key not in known and key not in _IGNORED_KEYS:
        near = difflib.get_close_matches(key, sorted(known), n=1)
        tf.logging.warning(
            "unknown key \"%s\" in the model config has no effect%s", key,
            "; did you mean \"%s\"?" % near[0] if near else "")
      setattr(config, key, value)
    config._validate_choices()
    return config

  @classmethod
  def from_json_file(cls, json_file):
    """Constructs a `BertConfig` from a json file.

    Args:
      json_file: path, local or remote.

    Returns:
      BertConfig.

    Raises:
      ValueError: the file is missing, or is not a json object.
    """
    if not tf.gfile.Exists(json_file):
      raise ValueError("there is no model config at %s" % json_file)
    try:
      with tf.gfile.GFile(json_file, "r") as reader:
        json_object = json.loads(reader.read())
    except (ValueError, tf.errors.OpError) as error:
      raise ValueError("the model config %s is not valid json: %s" %
                       (json_file, error)) from error
    if not isinstance(json_object, dict):
      raise ValueError("the model config %s must be a json object, {...}" %
                       json_file)
    return cls.from_dict(json_object)

  def to_dict(self):
    """Serializes this instance to a dict."""
    return copy.deepcopy(self.__dict__)

  def to_json_string(self):
    """Serializes this instance to a json string that ends in a newline."""
    # numpy's numbers, which the sizes may be, become plain ones.
    return json.dumps(self.to_dict(), indent=2, sort_keys=True,
                      default=lambda number: number.item()) + "\n"

  def validate(self):
    """Raises a ValueError unless a model can be built from these values."""
    self._validate_choices()
    self._validate_layout()
    sizes = ["vocab_size", "hidden_size", "num_hidden_layers",
             "num_attention_heads", "intermediate_size",
             "max_position_embeddings", "type_vocab_size",
             "num_hidden_groups", "inner_group_num"]
    for key in sizes + ["embedding_size"] * (self.layout != "bert"):
      value = getattr(self, key)
      if (isinstance(value, bool) or not isinstance(value, numbers.Integral)
          or value < 1):
        raise ValueError("%s in the model config must be a positive integer,"
                         " found %r" % (key, value))
    if self.hidden_size % self.num_attention_heads != 0:
      raise ValueError(
          "hidden_size %d in the model config is not a multiple of"
          " num_attention_heads %d" % (self.hidden_size,
                                       self.num_attention_heads))
    for key in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
      value = getattr(self, key)
      if value is not None and not (isinstance(value, numbers.Real) and
                                    0 <= value < 1):
        raise ValueError("%s in the model config must be at least 0 and below"
                         " 1, found %r" % (key, value))
    if self.final_layer_norm and self.ln_type != "preln":
      raise ValueError("final_layer_norm in the model config goes with"
                       " ln_type \"preln\" only, found \"%s\"" % self.ln_type)
    get_activation(self.hidden_act)

  def _validate_layout(self):
    """Raises a ValueError for a key that the layout would not honour."""
    if self.layout == "google":
      neutral = {"shared_type": ("all",)}
    else:
      neutral = {"num_hidden_groups": (1,), "inner_group_num": (1,)}
    if self.layout == "bert":
      neutral["embedding_size"] = (None, self.hidden_size)
    for key, values in sorted(neutral.items()):
      if getattr(self, key) not in values:
        raise ValueError(
            "%s %r in the model config means nothing in the layout \"%s\";"
            " leave the key out or use another layout" % (
                key, getattr(self, key), self.layout))

  def _validate_choices(self):
    """Checks the keys that name a choice; None becomes the name it means."""
    if self.ln_type is None:
      self.ln_type = "postln"
    if self.shared_type is None:
      self.shared_type = "none"
    _check_choice("ln_type", self.ln_type, LN_TYPES)
    _check_choice("shared_type", self.shared_type, SHARED_TYPES)
    _check_choice("layout", self.layout, LAYOUTS)


def _check_choice(key, value, choices):
  if value not in choices:
    raise ValueError("%s in the model config must be one of %s, found %r" %
                     (key, ", ".join(choices), value))


class AlbertConfig(BertConfig):
  """The layout "google" with google-research/albert's arguments and defaults.

  Those are of its xxlarge model; `down_scale_factor` has no effect, as there.
  """

  def __init__(self, vocab_size, embedding_size=128, hidden_size=4096,
               num_hidden_layers=12, num_hidden_groups=1,
               num_attention_heads=64, intermediate_size=16384,
               inner_group_num=1, down_scale_factor=1, hidden_act="gelu",
               hidden_dropout_prob=0, attention_probs_dropout_prob=0,
               max_position_embeddings=512, type_vocab_size=2,
               initializer_range=0.02, layout="google", **options):
    """Constructs a configuration; arguments as BertConfig's."""
    super(AlbertConfig, self).__init__(
        vocab_size, hidden_size, num_hidden_layers, num_attention_heads,
        intermediate_size, hidden_act, hidden_dropout_prob,
        attention_probs_dropout_prob, max_position_embeddings,
        type_vocab_size, initializer_range, embedding_size,
        layout=layout, num_hidden_groups=num_hidden_groups,
        inner_group_num=inner_group_num, **options)
    self.down_scale_factor = down_scale_factor

  @classmethod
  def from_dict(cls, json_object):
    """As BertConfig's, but the layout "google" need not be inferred."""
    return super(AlbertConfig, cls).from_dict(
        dict({"layout": "google"}, **json_object))


def infer_layout(json_object):
  """Says which family's keys a config without `layout` has.

  Args:
    json_object: dict, the keys of a config file.

  Returns:
    "google" for google-research/albert's, "bert" for plain BERT's, else "zh".
  """
  if "num_hidden_groups" in json_object:
    return "google"
  if not {"embedding_size", "ln_type", "shared_type"} & set(json_object):
    return "bert"
  return "zh"


class BertModel(object):
  """The encoder: embeddings, transformer layers, pooler.

  Example:

    # Already converted into the ids of word pieces:
    input_ids = tf.constant([[31, 51, 99], [15, 5, 0]])
    input_mask = tf.constant([[1, 1, 1], [1, 1, 0]])
    token_type_ids = tf.constant([[0, 0, 1], [0, 0, 0]])

    config = modeling.BertConfig(vocab_size=21128, hidden_size=312,
        num_hidden_layers=4, num_attention_heads=12, intermediate_size=1248)
    model = modeling.BertModel(config=config, is_training=True,
        input_ids=input_ids, input_mask=input_mask,
        token_type_ids=token_type_ids)
    pooled_output = model.get_pooled_output()  # [2, 312]
  """

  def __init__(self, config, is_training, input_ids, input_mask=None,
               token_type_ids=None, use_one_hot_embeddings=False, scope=None,
               compute_dtype=tf.float32, output_positions=None,
               dropout_seed=None, recompute_activations=False,
               compile_gelu=False):
    """Builds the graph of the model.

    Args:
      config: BertConfig.
      is_training: bool; False switches every dropout off.
      input_ids: int32 Tensor [B, S].
      input_mask: int32 Tensor [B, S], 1 for tokens and 0 for padding;
        default ones.
      token_type_ids: int32 Tensor [B, S], segment of each token; default
        zeros.
      use_one_hot_embeddings: bool; look tokens up by a matrix product with
        one-hot rows (faster on TPU) instead of `tf.gather`.
      scope: string, variable scope; default "bert".
      compute_dtype: tf.float32, tf.bfloat16 or tf.float16: type of the
        encoder's activations and products, and of `get_sequence_output`.
        Variables, embeddings, norms, softmax and the pooler, and so
        `get_pooled_output`, stay float32.
      output_positions: int32 Tensor [B, P], or None. Given, the last layer is
        computed only where it is read: at the first token and at these
        positions (`get_output_at_positions`). P may be 0.
      dropout_seed: int32 Tensor [2], or None. Given, what is dropped depends
        on nothing but the seed and the place in the model.
      recompute_activations: bool; in training, keep only what goes into a
        layer and compute the rest again for its gradients: less memory, more
        time. Needs gradients by `tf.gradients`, in a graph.
      compile_gelu: bool; in training, have XLA make one loop of the ops of
        the activation gelu. For CPUs: faster, and the first step of each
        shape takes a moment longer. Needs TensorFlow 2, and in a
        `tf.while_loop` its control flow (`tf.enable_control_flow_v2`).

    Raises:
      ValueError: the config is invalid, a tensor has another rank than 2, or
        the type is none of these.
    """
    config = copy.deepcopy(config)
    config.validate()
    compute_dtype = _check_compute_dtype(compute_dtype)
    if not is_training:
      config.hidden_dropout_prob = 0.0
      config.attention_probs_dropout_prob = 0.0

    batch_size, seq_length = get_shape_list(input_ids, expected_rank=2)
    if input_mask is None:
      input_mask = tf.ones([batch_size, seq_length], dtype=tf.int32)
    if token_type_ids is None:
      token_type_ids = tf.zeros([batch_size, seq_length], dtype=tf.int32)
    for name, tensor in (("input_mask", input_mask),
                         ("token_type_ids", token_type_ids)):
      # Another shape could broadcast, and mask what it should not.
      if (tensor.shape.ndims != 2 or
          not tensor.shape.is_compatible_with(input_ids.shape)):
        raise ValueError("%s has the shape %s, expected that of input_ids, %s"
                         % (name, tensor.shape, input_ids.shape))

    with tf.variable_scope(scope, default_name="bert"):
      with tf.variable_scope("embeddings"):
        self._build_embeddings(config, input_ids, token_type_ids,
                               use_one_hot_embeddings, dropout_seed)
      with tf.variable_scope("encoder"):
        self._build_encoder(config, is_training, input_mask, compute_dtype,
                            dropout_seed,
                            recompute_activations and is_training,
                            compile_gelu)
        self._has_positions = output_positions is not None
        if self._has_positions:
          first = tf.zeros([batch_size, 1], tf.int32)
          self._read_output = self._last_layer(
              tf.concat([first, output_positions], axis=1))  # [B, 1 + P, H]
        else:
          self._read_output = self.sequence_output  # [B, S, H]

      # A segment is represented by its first token, [CLS], passed through a
      # dense layer that is pre-trained with the segment-level task.
      with tf.variable_scope("pooler"):
        first_token_tensor = tf.squeeze(self._read_output[:, 0:1, :],
                                        axis=1)  # [B, H]
        self.pooled_output = dense(
            tf.cast(first_token_tensor, tf.float32), config.hidden_size,
            tf.tanh, config.initializer_range)

  def _build_embeddings(self, config, input_ids, token_type_ids,
                        use_one_hot_embeddings, dropout_seed):
    """Sets `word_embedding_output`, `embedding_output` and the tables.

    albert_zh projects tokens to H and adds segments and positions then;
    google adds them at E, and the encoder projects the sum.
    """
    lookup = dict(
        input_ids=input_ids,
        vocab_size=config.vocab_size,
        embedding_size=config.embedding_size or config.hidden_size,
        initializer_range=config.initializer_range,
        use_one_hot_embeddings=use_one_hot_embeddings)
    self.embedding_table_2 = None
    if config.layout == "zh":
      (self.word_embedding_output, self.embedding_table,
       self.embedding_table_2) = embedding_lookup_factorized(
           hidden_size=config.hidden_size, **lookup)
    else:
      self.word_embedding_output, self.embedding_table = embedding_lookup(
          **lookup)
    output = embedding_postprocessor(
        input_tensor=self.word_embedding_output,
        use_token_type=True,
        token_type_ids=token_type_ids,
        token_type_vocab_size=config.type_vocab_size,
        initializer_range=config.initializer_range,
        max_position_embeddings=config.max_position_embeddings,
        dropout_prob=0.0)
    self.embedding_output = dropout(output, config.hidden_dropout_prob,
                                    dropout_seed)

  def _build_encoder(self, config, is_training, input_mask, compute_dtype,
                     dropout_seed, recompute, compile_gelu):
    """Builds all layers but the last; sets what builds that one."""
    input_tensor = self.embedding_output
    if input_tensor.dtype == tf.float32:  # else a variable getter chose it
      input_tensor = tf.cast(input_tensor, compute_dtype)
    if input_tensor.shape.as_list()[-1] != config.hidden_size:
      mapped = dense(reshape_to_matrix(input_tensor), config.hidden_size, None,
                     config.initializer_range, "embedding_hidden_mapping_in")
      input_tensor = reshape_from_matrix(mapped, get_shape_list(input_tensor))
    activation = get_activation(config.hidden_act)
    if is_training and activation is gelu:
      activation = _gelu_to_train(compile_gelu)
    self._earlier_layers, last_layer = _encoder(
        config.ln_type, layer_scopes(config), input_tensor,
        _mask_to_bias(tf.expand_dims(input_mask, axis=1)),
        config.num_attention_heads, config.intermediate_size,
        activation, config.hidden_dropout_prob,
        config.attention_probs_dropout_prob, config.initializer_range,
        dropout_seed=dropout_seed, recompute=recompute)
    self._last_layer, self._sequence_output = last_layer, None
    if config.final_layer_norm:
      with tf.variable_scope("final_layer_norm"):
        weights = _norm_variables(config.hidden_size)
      self._last_layer = lambda positions=None: _normalize(
          last_layer(positions), weights)

  @property
  def sequence_output(self):
    """As `get_sequence_output`."""
    if self._sequence_output is None:
      self._sequence_output = self._last_layer()
    return self._sequence_output

  @property
  def all_encoder_layers(self):
    """As `get_all_encoder_layers`."""
    return self._earlier_layers + [self.sequence_output]

  def get_pooled_output(self):
    """float32 Tensor [B, H]: the first token through the pooler."""
    return self.pooled_output

  def get_sequence_output(self):
    """Float Tensor [B, S, H]: the output of the last layer.

    With `output_positions`, the first call builds what they left out (with
    draws of its own where there is dropout).
    """
    return self.sequence_output

  def get_output_at_positions(self):
    """Float Tensor [B, P, H]: the last layer's at `output_positions`.

    Raises:
      ValueError: the model was built without them.
    """
    if not self._has_positions:
      raise ValueError("get_output_at_positions needs a model that was built"
                       " with output_positions, found None")
    return self._read_output[:, 1:]

  def get_all_encoder_layers(self):
    """List of float Tensors [B, S, H]: the output of every layer.

    In the layout "google", of every inner group of every layer.
    """
    return self.all_encoder_layers

  def get_word_embedding_output(self):
    """Float Tensor [B, S, H]: token embeddings only ("google": [B, S, E])."""
    return self.word_embedding_output

  def get_embedding_output(self):
    """Float Tensor [B, S, H] ("google": [B, S, E]): the encoder's input.

    That is the sum of token, segment and position embeddings after layer
    normalization and dropout.
    """
    return self.embedding_output

  def get_embedding_table(self):
    """Float Variable [V, E] ("bert": [V, H]): the token embeddings."""
    return self.embedding_table

  def get_embedding_table_2(self):
    """Float Variable [E, H]: projects token embeddings to the hidden size.

    None in the other layouts than "zh".
    """
    return self.embedding_table_2


def _check_compute_dtype(compute_dtype):
  """The type as a DType; a ValueError unless products can be made in it."""
  dtype = tf.as_dtype(compute_dtype)
  if dtype not in (tf.float32, tf.bfloat16, tf.float16):
    raise ValueError("compute_dtype must be tf.float32, tf.bfloat16 or"
                     " tf.float16, found %s" % dtype.name)
  return dtype


# google-research/albert's name; the layout is the config's.
AlbertModel = BertModel


# ----------------------------------------------------------------- embeddings


def embedding_lookup(input_ids, vocab_size, embedding_size=128,
                     initializer_range=0.02,
                     word_embedding_name="word_embeddings",
                     use_one_hot_embeddings=False):
  """Looks up token embeddings.

  Args:
    input_ids: int32 Tensor [B, S] (or [B, S, 1]).
    vocab_size: int, V.
    embedding_size: int, E.
    initializer_range: float, standard deviation of the initial values.
    word_embedding_name: string, name of the table.
    use_one_hot_embeddings: bool; a matrix product instead of `tf.gather`.

  Returns:
    (float Tensor [B, S, E], the table [V, E]).
  """
  if input_ids.shape.ndims == 3:
    input_ids = tf.squeeze(input_ids, axis=-1)
  embedding_table = tf.get_variable(
      name=word_embedding_name,
      shape=[vocab_size, embedding_size],
      initializer=create_initializer(initializer_range))
  if not use_one_hot_embeddings:
    return tf.gather(embedding_table, input_ids), embedding_table
  input_shape = get_shape_list(input_ids, expected_rank=2)
  one_hot_ids = tf.one_hot(tf.reshape(input_ids, [-1]), depth=vocab_size,
                           dtype=embedding_table.dtype.base_dtype)
  output = tf.matmul(one_hot_ids, embedding_table)  # [B * S, E]
  return (tf.reshape(output, input_shape + [embedding_size]),
          embedding_table)


def embedding_lookup_factorized(input_ids, vocab_size, hidden_size,
                                embedding_size=128, initializer_range=0.02,
                                word_embedding_name="word_embeddings",
                                use_one_hot_embeddings=False):
  """Looks up token embeddings of E columns and projects them to H.

  V * E + E * H parameters stand in place of V * H.

  Args:
    input_ids: as in `embedding_lookup`, like all that is not listed here.
    hidden_size: int, H.
    word_embedding_name: string, name of the table; the projection's has "_2"
      appended.

  Returns:
    (float Tensor [B, S, H], the table [V, E], the projection [E, H]).
  """
  embeddings, embedding_table = embedding_lookup(
      input_ids, vocab_size, embedding_size, initializer_range,
      word_embedding_name, use_one_hot_embeddings)
  project_variable = tf.get_variable(
      name=word_embedding_name + "_2",
      shape=[embedding_size, hidden_size],
      initializer=create_initializer(initializer_range))
  embeddings_shape = get_shape_list(embeddings)
  output = tf.matmul(reshape_to_matrix(embeddings),
                     project_variable)  # [B * S, H]
  return (reshape_from_matrix(output, embeddings_shape), embedding_table,
          project_variable)


def embedding_postprocessor(input_tensor, use_token_type=False,
                            token_type_ids=None, token_type_vocab_size=16,
                            token_type_embedding_name="token_type_embeddings",
                            use_position_embeddings=True,
                            position_embedding_name="position_embeddings",
                            initializer_range=0.02,
                            max_position_embeddings=512, dropout_prob=0.1):
  """Adds segment and position embeddings, then norm and dropout.

  Args:
    input_tensor: float Tensor [B, S, width].
    use_token_type: bool, whether to add embeddings of `token_type_ids`.
    token_type_ids: int32 Tensor [B, S]; needed with `use_token_type`.
    token_type_vocab_size: int, number of segment types.
    token_type_embedding_name: string, name of the table.
    use_position_embeddings: bool, whether to add position embeddings.
    position_embedding_name: string, name of the table.
    initializer_range: float, standard deviation of the initial values.
    max_position_embeddings: int, rows of the position table; S may be
      shorter, never longer.
    dropout_prob: float, dropout of the result.

  Returns:
    float Tensor [B, S, width].

  Raises:
    ValueError: `token_type_ids` is missing, or S is too long.
  """
  batch_size, seq_length, width = get_shape_list(input_tensor, expected_rank=3)
  output = input_tensor

  if use_token_type:
    if token_type_ids is None:
      raise ValueError("`token_type_ids` must be given if `use_token_type` is")
    token_type_table = tf.get_variable(
        name=token_type_embedding_name,
        shape=[token_type_vocab_size, width],
        initializer=create_initializer(initializer_range))
    # So few rows: a product with one-hot rows beats a gather everywhere.
    one_hot_ids = tf.one_hot(
        tf.reshape(token_type_ids, [-1]), depth=token_type_vocab_size,
        dtype=token_type_table.dtype.base_dtype)
    token_type_embeddings = tf.matmul(one_hot_ids, token_type_table)
    output += tf.reshape(token_type_embeddings,
                         [batch_size, seq_length, width])

  if use_position_embeddings:
    position_table = tf.get_variable(
        name=position_embedding_name,
        shape=[max_position_embeddings, width],
        initializer=create_initializer(initializer_range))
    with tf.control_dependencies(
        _assert_length_fits(seq_length, max_position_embeddings)):
      # Positions are 0, 1, ..., S - 1 in every sequence: a slice does, and
      # one of first rows is not even copied.
      position_embeddings = position_table[:seq_length]
    output += tf.expand_dims(position_embeddings, axis=0)  # [1, S, width]

  return layer_norm_and_dropout(output, dropout_prob)


def _assert_length_fits(seq_length, max_position_embeddings):
  """Checks S now where it is known, else by the returned assertions."""
  message = ("the sequence is longer than max_position_embeddings %d in the"
             " model config" % max_position_embeddings)
  if isinstance(seq_length, int):
    if seq_length > max_position_embeddings:
      raise ValueError("%s: length %d; use a shorter max_seq_length" %
                       (message, seq_length))
    return []
  return [tf.assert_less_equal(seq_length, max_position_embeddings,
                               message=message)]


# ------------------------------------------------------------------ attention


def create_attention_mask_from_input_mask(from_tensor, to_mask):
  """Creates a 3D attention mask from a 2D mask of the keys.

  Args:
    from_tensor: Tensor [B, F, ...].
    to_mask: int32 Tensor [B, T], 1 for what may be attended to.

  Returns:
    float Tensor [B, F, T].
  """
  batch_size, from_seq_length = get_shape_list(
      from_tensor, expected_rank=[2, 3])[:2]
  to_seq_length = get_shape_list(to_mask, expected_rank=2)[1]
  to_mask = tf.cast(
      tf.reshape(to_mask, [batch_size, 1, to_seq_length]), tf.float32)
  # Every query of a sequence sees the same keys; padded queries do too, their
  # outputs are not used.
  return tf.ones([batch_size, from_seq_length, 1], tf.float32) * to_mask


def _mask_to_bias(attention_mask):
  """Turns a mask [B, F or 1, T] into what is added to attention scores.

  Masked keys get -10000, which leaves them a weight of 0 after the softmax.

  Returns:
    float32 Tensor [B, 1, F or 1, T]; the second axis is for the heads.
  """
  attention_mask = tf.expand_dims(attention_mask, axis=1)
  return (1.0 - tf.cast(attention_mask, tf.float32)) * -10000.0


# A dense layer's variables: kernel [in, out] and bias [out].
Dense = collections.namedtuple("Dense", ["kernel", "bias"])


def _dense_variables(input_width, units, initializer_range, dtype):
  """A dense layer in the current scope: float32 variables, cast to `dtype`."""
  kernel = tf.get_variable(
      "kernel", [input_width, units],
      initializer=create_initializer(initializer_range))
  bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
  return Dense(tf.cast(kernel, dtype), tf.cast(bias, dtype))


def _project(input_tensor, weights, activation=None):
  """Applies a dense layer to the rows of a matrix [rows, in]."""
  output = tf.nn.bias_add(tf.matmul(input_tensor, weights.kernel),
                          weights.bias)
  return output if activation is None else activation(output)


def dense(input_tensor, units, activation=None, initializer_range=0.02,
          name="dense"):
  """A fully connected layer; its variables are `<name>/{kernel,bias}`.

  Args:
    input_tensor: float Tensor [rows, in].
    units: int, width of the output.
    activation: function of a Tensor, or None for a linear layer.
    initializer_range: float, standard deviation of the initial kernel.
    name: string, variable scope.

  Returns:
    float Tensor [rows, units].
  """
  with tf.variable_scope(name):
    weights = _dense_variables(input_tensor.shape.as_list()[-1], units,
                               initializer_range,
                               input_tensor.dtype.base_dtype)
  return _project(input_tensor, weights, activation)


def _attention_variables(from_width, to_width, units, initializer_range,
                         dtype):
  """Creates `query`, `key` and `value` in the current scope, in this order."""
  weights = []
  for name, width in (("query", from_width), ("key", to_width),
                      ("value", to_width)):
    with tf.variable_scope(name):
      weights.append(
          _dense_variables(width, units, initializer_range, dtype))
  return weights


def _split_heads(input_tensor, batch_size, seq_length, parts, num_heads,
                 size_per_head):
  """Splits joined projections [B * S, parts * N * D] into parts and heads.

  Returns:
    List of `parts` float Tensors [B, N, S, D].
  """
  output = tf.reshape(
      input_tensor, [batch_size, seq_length, parts, num_heads, size_per_head])
  output = tf.transpose(output, [2, 0, 3, 1, 4])  # [parts, B, N, S, D]
  return tf.unstack(output, num=parts, axis=0)


def _attend(query, key, value, attention_bias, dropout_prob, drop):
  """Scaled dot-product attention of every head.

  Args:
    query: float Tensor [B, N, F, D]; key and value: [B, N, T, D].
    attention_bias: float32 Tensor that broadcasts to [B, N, F, T], or None.
    dropout_prob: float, dropout of the attention probabilities.
    drop: function (Tensor, probability) -> Tensor.

  Returns:
    float Tensor [B * F, N * D].
  """
  num_heads, from_seq_length, size_per_head = get_shape_list(query)[1:]
  # Scaling the query costs F * D products a head, scaling scores F * T.
  query = query * (1.0 / math.sqrt(size_per_head))
  scores = tf.matmul(query, key, transpose_b=True)  # [B, N, F, T]
  # The softmax stays in float32 whatever the activations are.
  scores = tf.cast(scores, tf.float32)
  if attention_bias is not None:
    scores += attention_bias
  probs = tf.cast(tf.nn.softmax(scores), value.dtype)
  # Whole keys are dropped for a query, as in the original Transformer.
  probs = drop(probs, dropout_prob)
  context = tf.matmul(probs, value)  # [B, N, F, D]
  context = tf.transpose(context, [0, 2, 1, 3])  # [B, F, N, D]
  return tf.reshape(context, [-1, num_heads * size_per_head])


def _attend_once(tensor, attention_bias, row, qkv, num_heads, dropout_prob,
                 drop):
  """Attention of one row of each sequence, without all rows' keys and values.

  With the query q of a head, its part of the kernels W_k and W_v, and the
  sequence X: q (X W_k)' = (q W_k') X', and P (X W_v) = (P X) W_v. That needs
  N products of a row and a kernel a sequence where keys need S. The key's bias
  adds the same to all scores of a query, which the softmax ignores.

  Args:
    tensor: float Tensor [B, S, H], X.
    attention_bias: float32 Tensor [B, 1, 1, S].
    row: float Tensor [B, H], the rows that attend.
    qkv: QueryKeyValue.
    num_heads: int, N.
    dropout_prob: float, dropout of the attention probabilities.
    drop: function (Tensor, probability) -> Tensor.

  Returns:
    float Tensor [B, H].
  """
  width = get_shape_list(tensor)[2]
  size_per_head = width // num_heads
  # 1 where a column belongs to a head; the products skip the other heads so.
  own = tf.one_hot([column // size_per_head for column in range(width)],
                   num_heads, axis=0, dtype=tensor.dtype)  # [N, H]
  query = _project(row, Dense(qkv.query, qkv.joined.bias[:width]))
  query *= 1.0 / math.sqrt(size_per_head)
  query = reshape_to_matrix(tf.expand_dims(query, axis=1) * own)  # [B * N, H]
  query = tf.reshape(tf.matmul(query, qkv.key, transpose_b=True),
                     [-1, num_heads, width])
  scores = tf.matmul(query, tensor, transpose_b=True)  # [B, N, S]
  scores = tf.cast(scores, tf.float32) + tf.squeeze(attention_bias, axis=1)
  probs = drop(tf.cast(tf.nn.softmax(scores), tensor.dtype), dropout_prob)
  context = tf.matmul(reshape_to_matrix(tf.matmul(probs, tensor)),
                      qkv.value)  # [B * N, H]
  # After dropout, their sum is not 1.
  sums = tf.reduce_sum(tf.cast(probs, tf.float32), axis=-1, keepdims=True)
  context = tf.reshape(context, [-1, num_heads, width]) + (
      tf.cast(sums, tensor.dtype) * qkv.joined.bias[2 * width:])
  return tf.reduce_sum(context * own, axis=1)


def attention_layer(from_tensor, to_tensor, attention_mask=None,
                    num_attention_heads=1, size_per_head=512, query_act=None,
                    key_act=None, value_act=None,
                    attention_probs_dropout_prob=0.0, initializer_range=0.02,
                    do_return_2d_tensor=False, batch_size=None,
                    from_seq_length=None, to_seq_length=None):
  """Multi-headed attention from `from_tensor` to `to_tensor`.

  Vaswani et al., https://arxiv.org/abs/1706.03762, section 3.2. The variables
  are `{query,key,value}/{kernel,bias}` in the current scope. The output
  projection is not part of it.

  Args:
    from_tensor: float Tensor [B, F, width] or [B * F, width].
    to_tensor: float Tensor [B, T, width] or [B * T, width].
    attention_mask: Tensor [B, F, T] of 1 (attend) and 0 (do not), or None.
    num_attention_heads: int, N.
    size_per_head: int, D.
    query_act: function, activation of the query projection, or None.
    key_act: function, activation of the key projection, or None.
    value_act: function, activation of the value projection, or None.
    attention_probs_dropout_prob: float, dropout of the probabilities.
    initializer_range: float, standard deviation of the initial kernels.
    do_return_2d_tensor: bool, return [B * F, N * D] instead of [B, F, N * D].
    batch_size: int, B; needed with 2D inputs only.
    from_seq_length: int, F; needed with 2D inputs only.
    to_seq_length: int, T; needed with 2D inputs only.

  Returns:
    float Tensor [B, F, N * D], or [B * F, N * D].

  Raises:
    ValueError: ranks differ, or sizes are missing.
  """
  from_shape = get_shape_list(from_tensor, expected_rank=[2, 3])
  to_shape = get_shape_list(to_tensor, expected_rank=[2, 3])
  if len(from_shape) != len(to_shape):
    raise ValueError("`from_tensor` and `to_tensor` must have the same rank,"
                     " found %d and %d" % (len(from_shape), len(to_shape)))
  if len(from_shape) == 3:
    batch_size, from_seq_length = from_shape[:2]
    to_seq_length = to_shape[1]
  elif batch_size is None or from_seq_length is None or to_seq_length is None:
    raise ValueError("with 2D tensors, `batch_size`, `from_seq_length` and"
                     " `to_seq_length` must all be given")

  weights = _attention_variables(
      from_shape[-1], to_shape[-1], num_attention_heads * size_per_head,
      initializer_range, from_tensor.dtype.base_dtype)
  from_tensor_2d = reshape_to_matrix(from_tensor)
  to_tensor_2d = reshape_to_matrix(to_tensor)

  heads = []
  for tensor, seq_length, dense_weights, activation in (
      (from_tensor_2d, from_seq_length, weights[0], query_act),
      (to_tensor_2d, to_seq_length, weights[1], key_act),
      (to_tensor_2d, to_seq_length, weights[2], value_act)):
    heads += _split_heads(
        _project(tensor, dense_weights, activation), batch_size, seq_length,
        1, num_attention_heads, size_per_head)
  bias = None if attention_mask is None else _mask_to_bias(attention_mask)
  context = _attend(heads[0], heads[1], heads[2], bias,
                    attention_probs_dropout_prob, dropout)
  if do_return_2d_tensor:
    return context
  return tf.reshape(context, [batch_size, from_seq_length,
                              num_attention_heads * size_per_head])


# ---------------------------------------------------------------- transformer


def gelu(x):
  """Gaussian error linear unit, Hendrycks & Gimpel, tanh form.

  0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))),
  https://arxiv.org/abs/1606.08415.

  Args:
    x: float Tensor.

  Returns:
    Tensor of the same shape and type.
  """
  # In this form, oneDNN makes one op of it and of the product before it.
  return 0.5 * x * (1.0 + tf.tanh(
      math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))))


def _gelu_to_train(compiled):
  """Returns a `gelu` with half the passes over memory when differentiated.

  By 1 + tanh(u) = 2 sigmoid(2 u), it is x s with s = sigmoid(c x + d x^3), and
  its derivative is s + x (c + 3 d x^2) s (1 - s). In float32, because other
  elementwise ops are slow on CPU.

  Args:
    compiled: bool, whether XLA makes one loop of the value's ops and one of
      the derivative's. That is one pass each, and only x is kept between them.
  """
  c = 2.0 * math.sqrt(2.0 / math.pi)
  d = c * 0.044715

  def parts(x):
    x = tf.cast(x, tf.float32)
    square = tf.square(x)
    return x, square, tf.sigmoid(x * (c + d * square))

  def value(x):
    wide, _, s = parts(x)
    return tf.cast(wide * s, x.dtype)

  def derivative(x, output_gradient):
    wide, square, s = parts(x)
    inner = tf.raw_ops.SigmoidGrad(y=s, dy=wide * (c + 3.0 * d * square))
    return tf.cast(tf.cast(output_gradient, tf.float32) * (s + inner), x.dtype)

  if compiled:
    value, derivative = [
        tf.function(function, autograph=False, jit_compile=True)
        for function in (value, derivative)]

  @tf.custom_gradient
  def apply(x):
    # Not compiled, grappler computes the equal parts of both once.
    return value(x), functools.partial(derivative, x)

  return apply


def transformer_model(input_tensor, attention_mask=None, hidden_size=768,
                      num_hidden_layers=12, num_attention_heads=12,
                      intermediate_size=3072, intermediate_act_fn=gelu,
                      hidden_dropout_prob=0.1,
                      attention_probs_dropout_prob=0.1, initializer_range=0.02,
                      do_return_all_layers=False,
                      share_parameter_across_layers=True, shared_type=None,
                      adapter_fn=None):
  """Post-LN transformer encoder: norm(x + block(x)), as BERT's.

  Args:
    input_tensor: float Tensor [B, S, H].
    attention_mask: Tensor [B, S, S] of 1 (attend) and 0 (do not), or None.
    hidden_size: int, H; a multiple of the heads.
    num_hidden_layers: int.
    num_attention_heads: int, N.
    intermediate_size: int, I.
    intermediate_act_fn: function of a Tensor, or None for none.
    hidden_dropout_prob: float.
    attention_probs_dropout_prob: float.
    initializer_range: float, standard deviation of the initial kernels.
    do_return_all_layers: bool, return every layer's output, not the last.
    share_parameter_across_layers: bool: "all" or "none" of `shared_type`.
    shared_type: "all", "attention", "ffn" or "none"; default by
      `share_parameter_across_layers`.
    adapter_fn: function (projection, layer_idx, part) -> Tensor of the same
      shape, or None. It gets the attention's output projection (part
      "attention") and the feed-forward block's (part "output"), float Tensor
      [B * S, H], before it is added to the residual, and may create
      variables: it is called in the scope `layer_<i>/<part>/adapter`.

  Returns:
    float Tensor [B, S, H], or a list of them.

  Raises:
    ValueError: sizes do not fit or an argument is not known.
  """
  if shared_type is None:
    shared_type = "all" if share_parameter_across_layers else "none"
  return _public_transformer(
      "postln", shared_type, input_tensor, attention_mask, hidden_size,
      num_hidden_layers, do_return_all_layers, num_attention_heads,
      intermediate_size, intermediate_act_fn, hidden_dropout_prob,
      attention_probs_dropout_prob, initializer_range, adapter_fn)


def prelln_transformer_model(input_tensor, attention_mask=None,
                             hidden_size=768, num_hidden_layers=12,
                             num_attention_heads=12, intermediate_size=3072,
                             intermediate_act_fn=gelu, hidden_dropout_prob=0.1,
                             attention_probs_dropout_prob=0.1,
                             initializer_range=0.02,
                             do_return_all_layers=False,
                             share_parameter_across_layers=True,
                             shared_type="all", adapter_fn=None):
  """Pre-LN transformer encoder: x + block(norm(x)).

  There is no norm after the last layer (`final_layer_norm` of the config adds
  one in `BertModel`). The norms have the names of the post-LN ones, so that a
  checkpoint does not say which it is.

  Args:
    input_tensor: as in `transformer_model`, like all that is not listed here.
    share_parameter_across_layers: bool; False is `shared_type` "none".
    shared_type: "all", "attention", "ffn", "none" or None, which is "none".

  Returns:
    float Tensor [B, S, H], or a list of them.

  Raises:
    ValueError: sizes do not fit or an argument is not known.
  """
  if shared_type is None or not share_parameter_across_layers:
    shared_type = "none"
  return _public_transformer(
      "preln", shared_type, input_tensor, attention_mask, hidden_size,
      num_hidden_layers, do_return_all_layers, num_attention_heads,
      intermediate_size, intermediate_act_fn, hidden_dropout_prob,
      attention_probs_dropout_prob, initializer_range, adapter_fn)


def _public_transformer(ln_type, shared_type, input_tensor, attention_mask,
                        hidden_size, num_hidden_layers, do_return_all_layers,
                        num_attention_heads, *encoder_args):
  """What both public transformers do around `_encoder`."""
  width = get_shape_list(input_tensor, expected_rank=3)[2]
  if width != hidden_size:
    raise ValueError(
        "the width of the input, %s, is not hidden_size %d: layers add their"
        " output to their input" % (width, hidden_size))
  if hidden_size % num_attention_heads != 0:
    raise ValueError("hidden_size %d is not a multiple of num_attention_heads"
                     " %d" % (hidden_size, num_attention_heads))
  _check_choice("shared_type", shared_type, SHARED_TYPES)
  bias = None if attention_mask is None else _mask_to_bias(attention_mask)
  layers, last_layer = _encoder(
      ln_type, _zh_layers(num_hidden_layers, shared_type), input_tensor, bias,
      num_attention_heads, *encoder_args)
  layers.append(last_layer())
  return layers if do_return_all_layers else layers[-1]


# Variable scopes of one layer, relative to the encoder's. Layers whose scopes
# are equal share their weights.
LayerScopes = collections.namedtuple(
    "LayerScopes", ["attention_self", "attention_output", "attention_norm",
                    "intermediate", "output", "output_norm"])


def layer_scopes(config):
  """The LayerScopes of every layer, by the config's layout."""
  num_layers = config.num_hidden_layers
  if config.layout == "google":
    # The quotient first, as the peer has it: its rounding decides the group.
    groups = [int(layer / num_layers * config.num_hidden_groups)
              for layer in range(num_layers)]
    return [_google_scopes(group, inner_group) for group in groups
            for inner_group in range(config.inner_group_num)]
  # Plain BERT's names are those of albert_zh's layers that share nothing.
  return _zh_layers(num_layers, config.shared_type)


def _google_scopes(group, inner_group):
  """Scopes of an inner group in google-research/albert's layout."""
  block = "transformer/group_%d/inner_group_%d/" % (group, inner_group)
  return LayerScopes(
      attention_self=block + "attention_1/self",
      attention_output=block + "attention_1/output/dense",
      attention_norm=block + "LayerNorm",
      intermediate=block + "ffn_1/intermediate/dense",
      output=block + "ffn_1/intermediate/output/dense",
      output_norm=block + "LayerNorm_1")


def _zh_layers(num_layers, shared_type):
  """Scopes of all layers in albert_zh's layout."""
  layers = []
  for index in range(num_layers):
    own = "_%d" % index
    layer = "layer" + own if shared_type == "none" else "layer_shared"
    ffn = own if shared_type == "attention" else ""
    attention = "%s/attention%s" % (layer, own if shared_type == "ffn" else "")
    layers.append(LayerScopes(
        attention_self=attention + "/self",
        attention_output=attention + "/output/dense",
        attention_norm=attention + "/output/LayerNorm",
        intermediate="%s/intermediate%s/dense" % (layer, ffn),
        output="%s/output%s/dense" % (layer, ffn),
        output_norm="%s/output%s/LayerNorm" % (layer, ffn)))
  return layers


# Kernels of query, key and value, and the three side by side as one Dense: one
# product, not three.
QueryKeyValue = collections.namedtuple(
    "QueryKeyValue", ["query", "key", "value", "joined"])

# A layer's weights, each a Dense or a Norm; `qkv` is a QueryKeyValue.
LayerWeights = collections.namedtuple(
    "LayerWeights", ["qkv", "attention_output", "attention_norm",
                     "intermediate", "output", "output_norm"])

# What is the same for all layers.
_LayerOptions = collections.namedtuple(
    "_LayerOptions", ["ln_type", "num_heads", "activation", "hidden_dropout",
                      "attention_dropout", "adapter_fn"])


def _encoder_weights(ln_type, layer_scopes, width, intermediate_size,
                     initializer_range, dtype):
  """Creates the variables of all layers; shared ones are prepared once.

  Returns:
    List of LayerWeights, one a layer.
  """
  created = {}

  def in_scope(scope, create_fn, *args):
    if scope not in created:
      with tf.variable_scope(scope):
        created[scope] = create_fn(*args)
    return created[scope]

  def qkv():
    query, key, value = _attention_variables(
        width, width, width, initializer_range, dtype)
    kernels = [query.kernel, key.kernel, value.kernel]
    return QueryKeyValue(*kernels, joined=Dense(
        tf.concat(kernels, axis=1),
        tf.concat([query.bias, key.bias, value.bias], axis=0)))

  def dense_in(scope, input_width, units):
    return in_scope(scope, _dense_variables, input_width, units,
                    initializer_range, dtype)

  layers = []
  for scopes in layer_scopes:
    weights = {}
    # The order in which a reader of the graph meets them, as in the peers.
    for names in (("attention_norm", "qkv", "attention_output"),
                  ("output_norm", "intermediate", "output")):
      for name in names if ln_type == "preln" else names[1:] + names[:1]:
        scope = scopes.attention_self if name == "qkv" else getattr(
            scopes, name)
        if name == "qkv":
          weights[name] = in_scope(scope, qkv)
        elif name.endswith("norm"):
          weights[name] = in_scope(scope, _norm_variables, width)
        else:
          weights[name] = dense_in(
              scope, intermediate_size if name == "output" else width,
              intermediate_size if name == "intermediate" else width)
    layers.append(LayerWeights(**weights))
  return layers


def _encoder(ln_type, layer_scopes, input_tensor, attention_bias,
             num_attention_heads, intermediate_size, intermediate_act_fn,
             hidden_dropout_prob, attention_probs_dropout_prob,
             initializer_range, adapter_fn=None, dropout_seed=None,
             recompute=False):
  """The one transformer behind all norm positions, sharings and layouts.

  Args:
    ln_type: "postln" or "preln".
    layer_scopes: list of LayerScopes, one a layer.
    input_tensor: float Tensor [B, S, H].
    attention_bias: float32 Tensor [B, 1, S or 1, S], or None.
    dropout_seed: int32 Tensor [2], or None.
    recompute: bool; not with an adapter.
    The others: see `transformer_model`.

  Returns:
    (list of float Tensors [B, S, H], of every layer but the last,
     function that builds the last layer: None -> float Tensor [B, S, H],
     or int32 Tensor [B, F] of the positions that are read -> [B, F, H]).
  """
  batch_size, seq_length, width = get_shape_list(input_tensor, expected_rank=3)
  layers = _encoder_weights(ln_type, layer_scopes, width, intermediate_size,
                            initializer_range, input_tensor.dtype.base_dtype)
  options = _LayerOptions(
      ln_type, num_attention_heads, intermediate_act_fn, hidden_dropout_prob,
      attention_probs_dropout_prob, adapter_fn)

  if recompute and dropout_seed is None and (
      hidden_dropout_prob or attention_probs_dropout_prob):
    # Drawn once a step, so that a layer drops the same when computed again.
    dropout_seed = tf.random_uniform([2], maxval=2**31 - 1, dtype=tf.int32)
  dropouts = itertools.count(1)  # 0 is that of the embeddings

  def run_layer(index, tensor, positions=None):
    numbers = [next(dropouts) for _ in range(3)]

    def build(tensor, bias, seed, weights):
      dropper = _Dropper(seed, numbers)
      return _layer(options, index, tensor, bias, weights,
                    [batch_size, seq_length], positions, dropper)

    arguments = tensor, attention_bias, dropout_seed, layers[index]
    with tf.name_scope("layer_%d" % index):
      # The last layer's few rows are kept: they cost little.
      if recompute and positions is None:
        return _recomputed(build, *arguments)
      return build(*arguments)

  # A matrix all the way: reshapes cost little on CPU and GPU, much on TPU.
  tensor = reshape_to_matrix(input_tensor)  # [B * S, H]
  outputs = []
  for index in range(len(layers) - 1):
    tensor = run_layer(index, tensor)
    outputs.append(tf.reshape(tensor, [batch_size, seq_length, width]))

  def last_layer(positions=None):
    length = seq_length if positions is None else get_shape_list(positions)[1]
    output = run_layer(len(layers) - 1, tensor, positions)
    return tf.reshape(output, [batch_size, length, width])

  return outputs, last_layer


def _recomputed(function, *arguments):
  """The function's value; its inside is computed again for the gradients.

  Args:
    function: function of the arguments that uses no other tensors with
      gradients, and no variables.
    *arguments: nests of Tensors and None.

  Returns:
    float Tensor.
  """
  nest = tf.nest

  @tf.custom_gradient
  def call(*tensors):
    def gradient(output_gradient):
      # Not before the gradient arrives; nor can grappler, that merges equal
      # ops, take the forward pass's: copies are other inputs than theirs.
      with tf.control_dependencies([output_gradient]):
        copies = [tf.identity(tensor) for tensor in tensors]
      output = function(*unflatten(copies))
      gradients = iter(tf.gradients(
          output, [copy for copy in copies if copy.dtype.is_floating],
          output_gradient))
      return [next(gradients) if copy.dtype.is_floating else None
              for copy in copies]
    return function(*unflatten(tensors)), gradient

  flat = nest.flatten(list(arguments))

  def unflatten(tensors):
    tensors = iter(tensors)
    return nest.pack_sequence_as(
        list(arguments),
        [None if item is None else next(tensors) for item in flat])

  return call(*[tf.convert_to_tensor(item) for item in flat
                if item is not None])


def _layer(options, layer_idx, tensor, attention_bias, weights, shape,
           positions, dropper):
  """One layer: attention and feed-forward, a norm and a residual sum each.

  Args:
    options: _LayerOptions.
    layer_idx: int, for the adapter.
    tensor: float Tensor [B * S, H].
    attention_bias: float32 Tensor [B, 1, S or 1, S], or None.
    weights: LayerWeights.
    shape: [B, S].
    positions: int32 Tensor [B, F], at which the output is read, or None.
    dropper: _Dropper.

  Returns:
    float Tensor [B * S, H], or [B * F, H].
  """
  def before(x, norm):
    return _normalize(x, norm) if options.ln_type == "preln" else x

  def after(x, projection, norm, part):
    projection = dropper.drop(projection, options.hidden_dropout)
    x += _adapt(projection, options.adapter_fn, layer_idx, part)
    return _normalize(x, norm) if options.ln_type == "postln" else x

  block_input = before(tensor, weights.attention_norm)
  context = _self_attention(options, block_input, attention_bias, weights.qkv,
                            shape, positions, dropper)
  if positions is not None:
    tensor = _gather_rows(tensor, shape, positions)
  tensor = after(tensor, _project(context, weights.attention_output),
                 weights.attention_norm, "attention")
  intermediate = _project(before(tensor, weights.output_norm),
                          weights.intermediate, options.activation)
  return after(tensor, _project(intermediate, weights.output),
               weights.output_norm, "output")


def _self_attention(options, tensor, attention_bias, qkv, shape, positions,
                    dropper):
  """Attention of a sequence to itself; arguments as of `_layer`.

  Returns:
    float Tensor [B * S, H], or [B * F, H] where there are positions.
  """
  batch_size, seq_length = shape
  width = get_shape_list(tensor)[-1]
  sizes = options.num_heads, width // options.num_heads
  if positions is None:
    query, key, value = _split_heads(_project(tensor, qkv.joined), batch_size,
                                     seq_length, 3, *sizes)
  elif positions.shape.as_list()[1] == 1:
    return _attend_once(
        tf.reshape(tensor, [batch_size, seq_length, width]), attention_bias,
        _gather_rows(tensor, shape, positions), qkv, options.num_heads,
        options.attention_dropout, dropper.drop)
  else:
    kernel, bias = qkv.joined
    query, = _split_heads(
        _project(_gather_rows(tensor, shape, positions),
                 Dense(qkv.query, bias[:width])),
        batch_size, get_shape_list(positions)[1], 1, *sizes)
    key, value = _split_heads(
        _project(tensor, Dense(kernel[:, width:], bias[width:])),
        batch_size, seq_length, 2, *sizes)
  return _attend(query, key, value, attention_bias, options.attention_dropout,
                 dropper.drop)


def _gather_rows(matrix, shape, positions):
  """Rows [B * F, H] of a matrix [B * S, H] at the positions [B, F]."""
  return gather_indexes(
      tf.reshape(matrix, shape + [get_shape_list(matrix)[-1]]), positions)


def _adapt(projection, adapter_fn, layer_idx, part):
  """Calls the adapter, if there is one, in a scope of its own."""
  if adapter_fn is None:
    return projection
  with tf.variable_scope("layer_%d/%s/adapter" % (layer_idx, part)):
    output = adapter_fn(projection, layer_idx, part)
  if output is None or not projection.shape.is_compatible_with(output.shape):
    raise ValueError(
        "adapter_fn must return a tensor of shape %s for layer %d, part %s;"
        " found %s" % (projection.shape, layer_idx, part,
                       getattr(output, "shape", output)))
  return output


# -------------------------------------------------------------- small helpers


_ACTIVATIONS = {"linear": None, "relu": tf.nn.relu, "gelu": gelu,
                "tanh": tf.tanh}


def get_activation(activation_string):
  """Maps a name to an activation function.

  Args:
    activation_string: "relu", "gelu", "tanh", "linear", "" or None (no
      activation); anything but a string is returned as it is.

  Returns:
    function of a Tensor, or None for a linear activation.

  Raises:
    ValueError: the name is not known.
  """
  if not isinstance(activation_string, str):
    return activation_string
  name = activation_string.lower() or "linear"
  if name not in _ACTIVATIONS:
    raise ValueError("unknown activation %r, known are %s" % (
        activation_string, ", ".join(sorted(_ACTIVATIONS))))
  return _ACTIVATIONS[name]


def dropout(input_tensor, dropout_prob, seed=None, number=0):
  """Drops elements with the given probability (not: keeps them).

  Args:
    input_tensor: float Tensor.
    dropout_prob: float; None or 0 builds nothing.
    seed: int32 Tensor [2], or None. Given, equal seeds and numbers drop equal
      elements.
    number: int, tells the dropouts of one seed apart. Those of a BertModel
      are 0, 1, 2, ...

  Returns:
    Tensor of the same shape.
  """
  if not dropout_prob:
    return input_tensor
  if seed is None:
    return tf.nn.dropout(input_tensor, rate=dropout_prob)
  # Wraps around; an odd factor keeps neighbours far from each other.
  offset = (number * 0x9E3779B1 + 2**31) % 2**32 - 2**31
  uniform = tf.random.stateless_uniform(
      tf.shape(input_tensor), seed + tf.constant([offset, 0], tf.int32))
  return tf.where(uniform >= dropout_prob,
                  input_tensor * (1.0 / (1.0 - dropout_prob)),
                  tf.zeros_like(input_tensor))


class _Dropper(object):
  """The dropouts of one layer, numbered in the order of the calls."""

  def __init__(self, seed, numbers):
    self._seed = seed
    self._numbers = iter(numbers)

  def drop(self, tensor, dropout_prob):
    return dropout(tensor, dropout_prob, self._seed, next(self._numbers))


# A layer norm's variables, each [width].
Norm = collections.namedtuple("Norm", ["beta", "gamma"])


def _norm_variables(width):
  """Creates the variables of a layer norm in the current scope."""
  beta = tf.get_variable("beta", [width], tf.float32,
                         initializer=tf.zeros_initializer())
  gamma = tf.get_variable("gamma", [width], tf.float32,
                          initializer=tf.ones_initializer())
  return Norm(beta, gamma)


def _normalize(input_tensor, weights):
  """Layer normalization of the last axis, computed in float32.

  Ba et al., https://arxiv.org/abs/1607.06450; epsilon 1e-12 as in the peers'
  float32 models.
  """
  # The casts matter where a getter hands out variables in half precision.
  return _norm_with_gradient(input_tensor, tf.cast(weights.beta, tf.float32),
                             tf.cast(weights.gamma, tf.float32))


@tf.custom_gradient
def _norm_with_gradient(input_tensor, beta, gamma):
  """Normalizes; gives gamma * normal + beta, with the gradient in few passes.

  With g the gradient of `normal`: (g - mean(g) - normal mean(g normal)) / std.
  """
  def mean(x):
    return tf.reduce_mean(x, axis=-1, keepdims=True)

  x = tf.cast(input_tensor, tf.float32)
  centered = x - mean(x)
  scale = tf.rsqrt(mean(tf.square(centered)) + 1e-12)
  normal = centered * scale

  def gradient(output_gradient):
    output_gradient = tf.cast(output_gradient, tf.float32)
    rows = list(range(x.shape.ndims - 1))
    g = output_gradient * gamma
    x_gradient = scale * (g - mean(g) - normal * mean(g * normal))
    return (tf.cast(x_gradient, input_tensor.dtype),
            tf.reduce_sum(output_gradient, rows),
            tf.reduce_sum(output_gradient * normal, rows))

  return tf.cast(normal * gamma + beta, input_tensor.dtype), gradient


def layer_norm(input_tensor, name=None):
  """Runs layer normalization on the last dimension of the tensor.

  Args:
    input_tensor: float Tensor [..., width].
    name: string, scope of `beta` and `gamma`; default "LayerNorm".

  Returns:
    Tensor of the same shape and type.
  """
  width = get_shape_list(input_tensor)[-1]
  with tf.variable_scope(name or "LayerNorm"):
    weights = _norm_variables(width)
  return _normalize(input_tensor, weights)


def layer_norm_and_dropout(input_tensor, dropout_prob, name=None):
  """Runs layer normalization followed by dropout."""
  return dropout(layer_norm(input_tensor, name), dropout_prob)


def create_initializer(initializer_range=0.02):
  """Truncated normal initializer of that standard deviation."""
  return tf.truncated_normal_initializer(stddev=initializer_range)
