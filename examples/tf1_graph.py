"""ALBERT in a TensorFlow 1 graph of your own, with weights of a checkpoint.

  python examples/tf1_graph.py --bert_config_file=tiny/albert_config.json \\
      --vocab_file=tiny/vocab.txt --init_checkpoint=tiny/albert_model.ckpt \\
      今天天气很好

Runs on TensorFlow 1.15 and 2.x. From this project it needs modeling.py,
bert_utils.py and, for text, tokenization.py.
"""

import argparse
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import modeling
import tokenization


def build_graph(config, checkpoint):
  """Adds the encoder to the default graph, where yours goes on.

  Args:
    config: modeling.BertConfig.
    checkpoint: path of a checkpoint, of pre-training or fine-tuning.

  Returns:
    (dict name -> placeholder [B, S], dict name -> output Tensor).

  Raises:
    ValueError: the checkpoint lacks variables of the encoder.
  """
  inputs = {name: tf.placeholder(tf.int32, [None, None], name)
            for name in ("input_ids", "input_mask", "token_type_ids")}
  model = modeling.BertModel(config, is_training=False, **inputs)
  outputs = {"sequence_output": model.get_sequence_output(),  # [B, S, H]
             "pooled_output": model.get_pooled_output()}  # [B, H]

  # Before your own layers: what is trainable here is the encoder.
  variables = tf.trainable_variables()
  assignment, _ = modeling.get_assignment_map_from_checkpoint(
      variables, checkpoint)
  if len(assignment) != len(variables):
    raise ValueError("%s has %d of the %d variables of the model; is the config"
                     " its own?" % (checkpoint, len(assignment),
                                    len(variables)))
  tf.train.init_from_checkpoint(checkpoint, assignment)
  return inputs, outputs


def build_own_layer(pooled_output, num_labels):
  """A layer on top, as an example: logits float Tensor [B, labels]."""
  with tf.variable_scope("own_layer"):
    return modeling.dense(pooled_output, num_labels, None, 0.02)


def text_inputs(tokenizer, text):
  """The arrays [1, S] of one text, by the names of the placeholders."""
  tokens = ["[CLS]"] + tokenizer.tokenize(text) + ["[SEP]"]
  input_ids = np.array([tokenizer.convert_tokens_to_ids(tokens)], np.int32)
  return {"input_ids": input_ids, "input_mask": np.ones_like(input_ids),
          "token_type_ids": np.zeros_like(input_ids)}


def main():
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  for name in ("bert_config_file", "vocab_file", "init_checkpoint"):
    parser.add_argument("--" + name, required=True)
  parser.add_argument("text")
  args = parser.parse_args()

  tf.disable_v2_behavior()  # on TensorFlow 2: graphs, as in TensorFlow 1
  tokenizer = tokenization.FullTokenizer(args.vocab_file)
  config = modeling.BertConfig.from_json_file(args.bert_config_file)
  inputs, outputs = build_graph(config, args.init_checkpoint)
  logits = build_own_layer(outputs["pooled_output"], num_labels=2)
  with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    arrays = text_inputs(tokenizer, args.text)
    pooled_output, logits = session.run(
        [outputs["pooled_output"], logits],
        {inputs[name]: array for name, array in arrays.items()})
  print("pooled_output:", " ".join("%.5f" % x for x in pooled_output[0, :8]))
  print("shape of the untrained logits:", logits.shape)


if __name__ == "__main__":
  main()
