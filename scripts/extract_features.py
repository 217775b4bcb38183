"""Writes the vectors that a checkpoint gives texts: of tokens or of sentences.

  python scripts/extract_features.py --init_checkpoint=output/tiny \\
      --input_file=texts.txt --output_file=vectors.npz
  python scripts/extract_features.py --init_checkpoint=albert/model.ckpt-best \\
      --vectors=tokens --layers=-1,-2 --output_file=vectors.jsonl < texts.txt

A text is a line, two texts with a tab between them are a pair. --vectors:
  mean    a vector a text, the mean over its tokens, [CLS] and [SEP] included
  cls     a vector a text, that of [CLS]
  tokens  a vector a token, [CLS] and [SEP] included

vectors.npz has an array for each layer, "layer_-1" and so on: [texts, H], and
`lines`, the number of each text's line. Of tokens it has [tokens, H], `tokens`,
and `offsets`: text i has the rows offsets[i] to offsets[i + 1].
vectors.jsonl has an object a text: line, text_a, text_b of a pair, tokens where
they have vectors, and vectors by layer.

The checkpoint may be of any layout, of pre-training or of a classifier. Its
config and vocabulary are looked for beside it.
"""

import argparse
import collections
import json
import os
import sys

import numpy as np
# Else what TensorFlow finds in the machine is told before what it is asked for.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow.compat.v1 as tf

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if ROOT not in sys.path:
  sys.path.insert(0, ROOT)

from build_vocab import at_least
from build_vocab import boolean
import checkpoint_utils
import estimator_utils
import modeling
import run_classifier
import similarity
import tokenization

# Files beside a checkpoint that say how its text was treated.
CASING_FILES = (run_classifier.CLASSIFIER_NAME, "metadata.json")


# ---------------------------------------------------------- model and its files


# What a tool runs: the path of a checkpoint, its BertConfig and FullTokenizer,
# and the length of the longest input.
Model = collections.namedtuple(
    "Model", ["checkpoint", "bert_config", "tokenizer", "max_seq_length"])


def read_model(options, never_split=()):
  """Finds and checks a checkpoint, its config and its vocabulary.

  Args:
    options: object with the values of `add_model_arguments` as attributes.
    never_split: tokens that stay whole, see `tokenization.FullTokenizer`.

  Returns:
    Model.

  Raises:
    ValueError: something is missing or does not fit together.
  """
  checkpoint = checkpoint_utils.check_init_checkpoint(options.init_checkpoint)
  if not checkpoint:
    raise ValueError("--init_checkpoint is empty; give a checkpoint")
  folder = os.path.dirname(checkpoint)
  config_file = options.bert_config_file or find_config(folder)
  bert_config = modeling.BertConfig.from_json_file(config_file)
  bert_config.validate()
  checkpoint_utils.check_init_config(bert_config, checkpoint, name_flags=False)
  vocab_file = options.vocab_file or os.path.join(folder,
                                                  checkpoint_utils.VOCAB_NAME)
  if not options.vocab_file and not tf.gfile.Exists(vocab_file):
    raise ValueError("there is no %s beside the checkpoint %s; give its"
                     " vocabulary by --vocab_file" % (
                         checkpoint_utils.VOCAB_NAME, checkpoint))
  checkpoint_utils.check_wordpiece(vocab_file, bert_config)
  tokenizer = tokenization.FullTokenizer(
      vocab_file, _casing(options.do_lower_case, folder),
      never_split=never_split)
  tokenization.validate_vocab(tokenizer.vocab, bert_config.vocab_size,
                              vocab_file, config_file)
  longest = bert_config.max_position_embeddings
  max_seq_length = options.max_seq_length or longest
  if max_seq_length > longest:
    raise ValueError("--max_seq_length %d is more than max_position_embeddings"
                     " %d in %s" % (max_seq_length, longest, config_file))
  return Model(checkpoint, bert_config, tokenizer, max_seq_length)


def find_config(folder):
  """The path of the model config in a checkpoint's folder.

  Published checkpoints have it as bert_config.json, albert_config_tiny.json
  and the like.

  Raises:
    ValueError: there is none, or there are several.
  """
  path = os.path.join(folder, checkpoint_utils.CONFIG_NAME)
  if tf.gfile.Exists(path):
    return path
  found = sorted(tf.gfile.Glob(os.path.join(folder, "*config*.json")))
  if len(found) == 1:
    return found[0]
  raise ValueError(
      "%s has %s; give the checkpoint's by --bert_config_file" % (
          folder or "the folder", "the model configs %s" % " and ".join(
              map(os.path.basename, found)) if found else "no model config"))


def _casing(do_lower_case, folder):
  """Whether to lower-case: as told, as the checkpoint's run did, or True."""
  for name in CASING_FILES:
    path = os.path.join(folder, name)
    if do_lower_case is None and tf.gfile.Exists(path):
      with tf.gfile.GFile(path, "r") as reader:
        do_lower_case = json.loads(reader.read()).get("do_lower_case")
  return True if do_lower_case is None else do_lower_case


# -------------------------------------------------------------------- features


def layer_indices(layers, bert_config):
  """Checks which layers are asked for.

  Args:
    layers: list of ints, from 0, or from -1 for the last.
    bert_config: BertConfig.

  Returns:
    The list, each once.

  Raises:
    ValueError: the model has no such layer.
  """
  count = bert_config.num_hidden_layers * bert_config.inner_group_num
  for layer in layers:
    if not -count <= layer < count:
      raise ValueError("--layers: %d is no layer of the model, which has 0 to"
                       " %d, or from the last one -1 to -%d" % (
                           layer, count - 1, count))
  return list(collections.OrderedDict.fromkeys(layers))


def encoder_function(model, layers, vectors):
  """The checkpoint's encoder as a function of padded batches.

  Args:
    model: Model.
    layers: list of ints.
    vectors: "mean", "cls" or "tokens".

  Returns:
    SessionFunction; its outputs are float arrays "layer_<i>", [B, H], of
    tokens [B, S, H].
  """
  def build(input_ids, input_mask, segment_ids):
    outputs = modeling.BertModel(
        model.bert_config, False, input_ids, input_mask,
        segment_ids).get_all_encoder_layers()
    return {"layer_%d" % layer: reduce_vectors(outputs[layer], input_mask,
                                               vectors)
            for layer in layers}

  return similarity.checkpoint_function(build, model.checkpoint)


def reduce_vectors(sequence_output, input_mask, vectors):
  """Makes sentence vectors of token vectors.

  Args:
    sequence_output: float Tensor [B, S, H].
    input_mask: int32 Tensor [B, S].
    vectors: "mean", "cls" or "tokens".

  Returns:
    float Tensor [B, H]; for "tokens" `sequence_output`.
  """
  if vectors == "tokens":
    return sequence_output
  if vectors == "cls":
    return sequence_output[:, 0]
  weights = tf.cast(tf.expand_dims(input_mask, axis=-1), tf.float32)
  return (tf.reduce_sum(sequence_output * weights, axis=1) /
          tf.reduce_sum(weights, axis=1))


# line: int; text: string or pair; tokens: list of strings, None of sentence
# vectors; vectors: dict, "layer_<i>" -> float array [H] or [tokens, H].
TextVectors = collections.namedtuple(
    "TextVectors", ["line", "text", "tokens", "vectors"])


def extract(model, function, numbered, batch_size, with_tokens):
  """Yields the TextVectors of texts, in order.

  Args:
    model: Model.
    function: SessionFunction of `encoder_function`.
    numbered: iterator of (line number, text).
    batch_size: int.
    with_tokens: bool, whether the vectors are those of tokens.
  """
  num_cut = num_texts = 0
  for part in similarity.in_parts(numbered,
                                  similarity.BATCHES_AT_ONCE * batch_size):
    features = similarity.text_features(
        [text for _, text in part], model.max_seq_length, model.tokenizer)
    rows = similarity.run_in_batches(function, features, batch_size)
    num_texts += len(part)
    for (line, text), feature, row in zip(part, features, rows):
      ids, tokens = feature["input_ids"], None
      num_cut += len(ids) == model.max_seq_length and _is_cut(
          text, len(ids), model.tokenizer)
      if with_tokens:
        tokens = model.tokenizer.convert_ids_to_tokens(ids)
        row = {name: array[:len(ids)] for name, array in row.items()}
      yield TextVectors(line, text, tokens, row)
  if num_cut:
    tf.logging.warning("%d of %d texts were longer than %d tokens, and their"
                       " rest was left out", num_cut, num_texts,
                       model.max_seq_length)


def _is_cut(text, length, tokenizer):
  """Whether a text has more tokens than `length`, special ones included."""
  texts = [text] if isinstance(text, str) else text
  return length < 1 + sum(
      len(tokens) + 1 for tokens in map(tokenizer.tokenize, texts) if tokens)


# ---------------------------------------------------------------------- output


def write_jsonl(writer, texts):
  """Writes an object a line; returns the number of texts.

  Args:
    writer: writer of bytes.
    texts: iterable of TextVectors.
  """
  count = 0
  for text in texts:
    row = dict(similarity.text_fields(text.text), line=text.line, vectors={
        name[len("layer_"):]: np.round(array.astype(np.float64), 6).tolist()
        for name, array in text.vectors.items()})
    if text.tokens is not None:
      row["tokens"] = text.tokens
    writer.write(similarity.json_line(row))
    count += 1
  return count


def write_npz(writer, texts):
  """Writes the arrays; returns the number of texts. Arguments as above."""
  lines, tokens, offsets, vectors = [], [], [0], {}
  for text in texts:
    lines.append(text.line)
    for name, array in text.vectors.items():
      # A copy, so that the padding of its batch does not stay in memory.
      vectors.setdefault(name, []).append(array.copy())
    if text.tokens is not None:
      tokens += text.tokens
      offsets.append(len(tokens))
  join = np.concatenate if tokens else np.stack
  arrays = {name: join(rows) for name, rows in vectors.items()}
  if tokens:
    arrays.update(tokens=np.array(tokens), offsets=np.array(offsets, np.int64))
  if lines:
    np.savez(writer, lines=np.array(lines, np.int64), **arrays)
  return len(lines)


WRITERS = {".npz": write_npz, ".jsonl": write_jsonl}


# ------------------------------------------------------------------------ main


def layer_list(text):
  try:
    return [int(layer) for layer in text.split(",")]
  except ValueError:
    raise argparse.ArgumentTypeError(
        "found %r, expected numbers such as -1,-2" % text) from None


def output_name(text):
  if os.path.splitext(text)[1] not in WRITERS:
    raise argparse.ArgumentTypeError(
        "found %r, expected a name that ends in .npz or .jsonl" % text)
  return text


def add_model_arguments(parser):
  """What every tool needs that runs a checkpoint; see `read_model`."""
  add = parser.add_argument
  add("--init_checkpoint", required=True,
      help="checkpoint, or a folder, whose latest is taken")
  add("--bert_config_file",
      help="its config; default: the one in the checkpoint's folder")
  add("--vocab_file",
      help="its vocabulary; default: vocab.txt in the checkpoint's folder")
  add("--do_lower_case", type=boolean,
      help="lower-case the texts; default: as classifier.json or metadata.json"
      " in the checkpoint's folder says, else True")
  add("--max_seq_length", type=at_least(5),
      help="longest input, longer texts are truncated; default: the model's"
      " max_position_embeddings")
  add("--batch_size", type=at_least(1), default=32, help="texts at once (32)")
  add("--input_file", help="texts, a line each; default: standard input")


def parse_arguments(argv):
  parser = argparse.ArgumentParser(
      allow_abbrev=False, description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  add_model_arguments(parser)
  parser.add_argument("--output_file", type=output_name, required=True,
                      help="file to write, .npz or .jsonl")
  parser.add_argument("--vectors", choices=("mean", "cls", "tokens"),
                      default="mean", help="which vectors (mean)")
  parser.add_argument("--layers", type=layer_list, default=[-1],
                      help="comma list of layers, from 0 or, with =, from -1"
                      " for the last: --layers=-1,-2 (-1)")
  return parser.parse_args(argv)


def main(argv=None):
  args = parse_arguments(argv)
  estimator_utils.set_up_logging()
  with estimator_utils.exit_on(estimator_utils.BAD_INPUT):
    similarity.check_output_file(args.output_file)
    model = read_model(args)
    layers = layer_indices(args.layers, model.bert_config)
    function = encoder_function(model, layers, args.vectors)
    write = WRITERS[os.path.splitext(args.output_file)[1]]
    with similarity.open_texts([], args.input_file) as numbered:
      with similarity.open_output(args.output_file) as writer:
        count = write(writer, extract(model, function, numbered,
                                      args.batch_size,
                                      args.vectors == "tokens"))
        if not count:
          raise ValueError("there is no text in %s" % (args.input_file or
                                                       "standard input"))
  print("%d texts, %s of %d columns, layers %s: %s" % (
      count, "vectors of tokens" if args.vectors == "tokens" else
      args.vectors + " vectors", model.bert_config.hidden_size,
      ", ".join(map(str, layers)), args.output_file))
  return 0


if __name__ == "__main__":
  sys.exit(main())
