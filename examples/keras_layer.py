"""ALBERT as a Keras layer on TensorFlow 2, with weights of a checkpoint.

  python examples/keras_layer.py --bert_config_file=tiny/albert_config.json \\
      --vocab_file=tiny/vocab.txt --init_checkpoint=tiny/albert_model.ckpt \\
      今天天气很好

Runs eagerly, in `tf.function` and in `Model.fit`, on TensorFlow 2 with Keras 2:
tested on 2.15. From this project it needs modeling.py, bert_utils.py and, for
text, tokenization.py.
"""

import argparse
import os
import sys

import tensorflow as tf

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import bert_utils
import modeling
import tokenization


class AlbertLayer(tf.keras.layers.Layer):
  """The encoder: ids in, {"sequence_output", "pooled_output"} out.

  `modeling.BertModel` makes its variables by `tf.compat.v1.get_variable`; the
  decorator below keeps them as weights of the layer, so that the second call
  finds those of the first.
  """

  def __init__(self, config, **options):
    """Takes the configuration.

    Args:
      config: modeling.BertConfig.
      **options: of every Keras layer, such as `name` and `trainable`.
    """
    super().__init__(**options)
    self._config = config

  @tf.compat.v1.keras.utils.track_tf1_style_variables
  def call(self, inputs, training=False):
    """Runs the encoder.

    Args:
      inputs: dict of int32 Tensors [B, S]: input_ids and, if they are not all
        ones and all zeros, input_mask and token_type_ids.
      training: bool, whether to drop out.

    Returns:
      dict: sequence_output [B, S, H], pooled_output [B, H].
    """
    # Without a name the scope of the second call would be "bert_1", with
    # variables of its own.
    model = modeling.BertModel(
        self._config, bool(training), inputs["input_ids"],
        inputs.get("input_mask"), inputs.get("token_type_ids"), scope="bert")
    return {"sequence_output": model.get_sequence_output(),
            "pooled_output": model.get_pooled_output()}

  def load_checkpoint(self, checkpoint):
    """Gives the weights the values of a checkpoint.

    Args:
      checkpoint: path of a checkpoint, of pre-training or fine-tuning.

    Raises:
      ValueError: the checkpoint lacks variables, or has other shapes.
    """
    if not self.weights:
      # One call with any ids creates the variables.
      self({"input_ids": tf.zeros([1, 1], tf.int32)})
    match = bert_utils.match_checkpoint(self.weights, checkpoint)
    bert_utils.check_shapes(match, checkpoint)
    if match.missing:
      raise ValueError("%s has %d of the %d variables of the model; is the"
                       " config its own?" % (
                           checkpoint, len(match.assignment_map),
                           len(self.weights)))
    reader = tf.train.load_checkpoint(checkpoint)
    for variable in self.weights:
      variable.assign(reader.get_tensor(bert_utils.variable_name(variable)))


def build_classifier(config, checkpoint, num_labels):
  """A Keras model on top of the layer, as an example.

  Args:
    config: modeling.BertConfig.
    checkpoint: path.
    num_labels: int.

  Returns:
    (AlbertLayer, tf.keras.Model: {"input_ids", "input_mask"} -> logits).
  """
  layer = AlbertLayer(config, name="albert")
  layer.load_checkpoint(checkpoint)
  inputs = {name: tf.keras.Input([None], dtype=tf.int32, name=name)
            for name in ("input_ids", "input_mask")}
  logits = tf.keras.layers.Dense(num_labels)(layer(inputs)["pooled_output"])
  return layer, tf.keras.Model(inputs, logits)


def main():
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  for name in ("bert_config_file", "vocab_file", "init_checkpoint"):
    parser.add_argument("--" + name, required=True)
  parser.add_argument("text")
  args = parser.parse_args()

  tokenizer = tokenization.FullTokenizer(args.vocab_file)
  config = modeling.BertConfig.from_json_file(args.bert_config_file)
  layer, model = build_classifier(config, args.init_checkpoint, num_labels=2)
  tokens = ["[CLS]"] + tokenizer.tokenize(args.text) + ["[SEP]"]
  input_ids = tf.constant([tokenizer.convert_tokens_to_ids(tokens)])
  inputs = {"input_ids": input_ids, "input_mask": tf.ones_like(input_ids)}
  pooled_output = tf.function(layer)(inputs)["pooled_output"].numpy()
  print("pooled_output:", " ".join("%.5f" % x for x in pooled_output[0, :8]))
  print("shape of the untrained logits:", model(inputs).numpy().shape)


if __name__ == "__main__":
  main()
