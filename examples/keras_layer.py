"""ALBERT as a Keras layer on TensorFlow 2, with weights of a checkpoint.

  python examples/keras_layer.py --bert_config_file=tiny/albert_config.json \\
      --vocab_file=tiny/vocab.txt --init_checkpoint=tiny/albert_model.ckpt \\
      今天天气很好

Runs eagerly, in `tf.function` and in `Model.fit`, on TensorFlow 2 with Keras 2
or 3: tested on 2.12, 2.15 and 2.21. From this project it needs modeling.py,
bert_utils.py and, for text, tokenization.py.
"""

import argparse
import os
import sys
import types

import tensorflow as tf

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import bert_utils
import modeling
import tokenization


class AlbertLayer(tf.keras.layers.Layer):
  """The encoder: ids in, {"sequence_output", "pooled_output"} out.

  `modeling.BertModel` asks for its variables by `tf.compat.v1.get_variable`. A
  getter answers with weights of the layer, so that Keras knows them and every
  call finds the same.
  """

  def __init__(self, config, **options):
    """Takes the configuration.

    Args:
      config: modeling.BertConfig.
      **options: of every Keras layer, such as `name` and `trainable`.
    """
    super().__init__(**options)
    self._config = config
    # Keras 3 takes no "/" in a name: this has those of the checkpoint.
    self._weight_of = {}

  def build(self, input_shape=None):
    """Makes a weight for every variable that the model asks for."""
    asked = []

    def note(getter, name, **options):
      asked.append((name, options))
      return getter(name, **options)

    with tf.Graph().as_default():
      self._run_model(note, tf.zeros([1, 1], tf.int32))
    for name, options in asked:
      self._weight_of[name] = self.add_weight(
          name=name.replace("/", "."), shape=options["shape"],
          initializer=options["initializer"])
    self.built = True

  def call(self, inputs, training=False):
    """Runs the encoder.

    Args:
      inputs: dict of int32 Tensors [B, S]: input_ids and, if they are not all
        ones and all zeros, input_mask and token_type_ids.
      training: bool, whether to drop out.

    Returns:
      dict: sequence_output [B, S, H], pooled_output [B, H].
    """
    def find(name, **unused_options):
      weight = self._weight_of[name]
      # A weight of Keras 3 is not a variable but has one.
      return weight if isinstance(weight, tf.Variable) else weight.value

    model = self._run_model(
        find, inputs["input_ids"], inputs.get("input_mask"),
        inputs.get("token_type_ids"), bool(training))
    return {"sequence_output": model.get_sequence_output(),
            "pooled_output": model.get_pooled_output()}

  def _run_model(self, getter, input_ids, input_mask=None, token_type_ids=None,
                 is_training=False):
    # Without a name the scope of the second call would be "bert_1".
    with tf.compat.v1.variable_scope("", custom_getter=getter):
      return modeling.BertModel(self._config, is_training, input_ids,
                                input_mask, token_type_ids, scope="bert")

  def load_checkpoint(self, checkpoint):
    """Gives the weights the values of a checkpoint.

    Args:
      checkpoint: path of a checkpoint, of pre-training or fine-tuning.

    Raises:
      ValueError: the checkpoint lacks variables, or has other shapes.
    """
    if not self.built:
      self.build()
    match = bert_utils.match_checkpoint(
        [types.SimpleNamespace(name=name, shape=tf.TensorShape(weight.shape))
         for name, weight in self._weight_of.items()], checkpoint)
    bert_utils.check_shapes(match, checkpoint)
    if match.missing:
      raise ValueError("%s has %d of the %d variables of the model; is the"
                       " config its own?" % (
                           checkpoint, len(match.assignment_map),
                           len(self.weights)))
    reader = tf.train.load_checkpoint(checkpoint)
    for name, weight in self._weight_of.items():
      weight.assign(reader.get_tensor(name))


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
