"""Shows what a pre-training checkpoint expects where a text has [MASK].

  python scripts/fill_mask.py --init_checkpoint=output/tiny "今天[MASK]气很好"
  python scripts/fill_mask.py --init_checkpoint=output/tiny --top_k=3 --json \\
      --input_file=texts.txt

Texts are arguments, or lines of a file or of standard input; two texts with a
tab between them are a pair. Prints a line for each candidate: the number of the
[MASK] in the text, the token, its probability, and the text with the token in
this one place. With --json, a line is an object a text: text_a, text_b of a
pair, and masks, a list of candidates for each [MASK].

Several [MASK] of a text are predicted independently of each other.
"""

import argparse
import os
import sys

# Else what TensorFlow finds in the machine is told before what it is asked for.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow.compat.v1 as tf

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if ROOT not in sys.path:
  sys.path.insert(0, ROOT)

from build_vocab import at_least
import estimator_utils
import extract_features
import modeling
import run_pretraining
import similarity

MASK = "[MASK]"


class MaskFiller(object):
  """A masked language model in memory; may be used from several threads."""

  def __init__(self, model, top_k=5, batch_size=32):
    """Loads the model.

    Args:
      model: Model of `extract_features.read_model`, whose tokenizer never
        splits [MASK].
      top_k: int, candidates for each [MASK].
      batch_size: int, how many texts go through the model at once.

    Raises:
      ValueError: the checkpoint does not fit, or has no masked-LM head.
    """
    config = model.bert_config
    if top_k > config.vocab_size:
      raise ValueError("--top_k %d is more than the %d tokens of the vocabulary"
                       % (top_k, config.vocab_size))

    def build(masked_lm_positions, **inputs):
      return _candidates(config, masked_lm_positions, top_k, **inputs)

    self.model = model
    self.batch_size = batch_size
    self._mask_id = model.tokenizer.vocab[MASK]
    self._function = similarity.checkpoint_function(
        build, model.checkpoint,
        similarity.INPUT_NAMES + ("masked_lm_positions",),
        advice="give one of pre-training, with its masked-LM head")

  def fill(self, texts):
    """Finds candidates.

    Args:
      texts: list of strings, or of pairs (text_a, text_b), with [MASK].

    Returns:
      List, an element a text, of lists, an element a [MASK], of lists of
      (token, probability), the most probable first.

    Raises:
      ValueError: a text has no [MASK], or one that is truncated away.
    """
    features = similarity.text_features(
        texts, self.model.max_seq_length, self.model.tokenizer)
    for text, feature in zip(texts, features):
      positions = [position for position, token_id in
                   enumerate(feature["input_ids"])
                   if token_id == self._mask_id]
      self._check_masks(text, len(positions))
      feature["masked_lm_positions"] = positions
    rows = similarity.run_in_batches(self._function, features,
                                     self.batch_size)
    # What is behind a text's own positions is padding.
    return [[self._named(ids, probabilities) for _, ids, probabilities in zip(
        feature["masked_lm_positions"], row["ids"], row["probabilities"])]
            for feature, row in zip(features, rows)]

  def _check_masks(self, text, num_found):
    """Raises a ValueError unless the model sees every [MASK] of a text."""
    num_masks = sum(part.count(MASK) for part in _parts(text))
    if not num_masks:
      raise ValueError("the text %r has no %s; write one where a token is to be"
                       " found" % (text, MASK))
    if num_found < num_masks:
      raise ValueError(
          "the text %r is longer than %d tokens, and %d of its %d %s are"
          " truncated away; give a shorter one" % (
              text, self.model.max_seq_length, num_masks - num_found,
              num_masks, MASK))

  def _named(self, ids, probabilities):
    tokens = self.model.tokenizer.convert_ids_to_tokens(ids.tolist())
    return list(zip(tokens, probabilities.tolist()))


def _candidates(bert_config, masked_lm_positions, top_k, input_ids, input_mask,
                segment_ids):
  """The tensors: ids and probabilities [B, P, top_k] of the best tokens."""
  model = modeling.BertModel(bert_config, False, input_ids, input_mask,
                             segment_ids)
  # There is no label to compare with, and no loss is fetched.
  masked_lm = run_pretraining.get_masked_lm_output(
      bert_config, model.get_sequence_output(), model.get_embedding_table(),
      model.get_embedding_table_2(), masked_lm_positions,
      label_ids=tf.zeros_like(masked_lm_positions),
      label_weights=tf.zeros_like(masked_lm_positions, dtype=tf.float32))
  best = tf.nn.top_k(tf.exp(masked_lm.log_probs), top_k)
  shape = tf.concat([tf.shape(masked_lm_positions), [top_k]], axis=0)
  return {"ids": tf.reshape(best.indices, shape),
          "probabilities": tf.reshape(best.values, shape)}


def _parts(text):
  return [text] if isinstance(text, str) else list(text)


# ---------------------------------------------------------------------- output


def replace_mask(text, number, token):
  """A text, a pair with a tab, with a token in place of one [MASK].

  Args:
    text: string or pair.
    number: int, which [MASK], from 0 through both texts of a pair.
    token: string; a piece "##ed" loses its mark.

  Returns:
    string.
  """
  pieces = "\t".join(_parts(text)).split(MASK)
  token = token[2:] if token.startswith("##") else token
  return (MASK.join(pieces[:number + 1]) + token +
          MASK.join(pieces[number + 1:]))


def format_candidates(text, masks, as_json):
  """What is printed of a text: UTF-8 bytes; see the head of this file."""
  if as_json:
    return similarity.json_line(dict(similarity.text_fields(text), masks=[
        [{"token": token, "probability": round(probability, 6)}
         for token, probability in candidates] for candidates in masks]))
  return "".join(
      "%d\t%s\t%.4f\t%s\n" % (number + 1, token, probability,
                              replace_mask(text, number, token))
      for number, candidates in enumerate(masks)
      for token, probability in candidates).encode("utf-8")


# ------------------------------------------------------------------------ main


def parse_arguments(argv):
  parser = argparse.ArgumentParser(
      allow_abbrev=False, description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("texts", nargs="*", metavar="TEXT",
                      help="texts with [MASK]")
  extract_features.add_model_arguments(parser)
  parser.add_argument("--top_k", type=at_least(1), default=5,
                      help="candidates for each [MASK] (5)")
  parser.add_argument("--json", action="store_true",
                      help="print JSON, an object a text")
  return parser.parse_args(argv)


def main(argv=None):
  args = parse_arguments(argv)
  estimator_utils.set_up_logging()
  with estimator_utils.exit_on(estimator_utils.BAD_INPUT):
    model = extract_features.read_model(args, never_split=(MASK,))
    filler = MaskFiller(model, args.top_k, args.batch_size)
    with similarity.open_texts(args.texts, args.input_file) as numbered:
      with similarity.open_output(None) as writer:
        for part in similarity.in_parts(
            numbered, similarity.BATCHES_AT_ONCE * args.batch_size):
          texts = [text for _, text in part]
          for text, masks in zip(texts, filler.fill(texts)):
            writer.write(format_candidates(text, masks, args.json))
  return 0


if __name__ == "__main__":
  sys.exit(main())
