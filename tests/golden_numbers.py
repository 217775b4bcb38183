"""Reads the golden numbers and loads their weights into a graph."""

import json
import os

import numpy as np
import tensorflow.compat.v1 as tf

import bert_utils

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")


def load(name):
  """Returns (the json's dict, {kind: {name: array}}) of a golden file.

  Args:
    name: string, the file's name without its ending.

  Returns:
    (dict, dict): the arrays' kinds are what stands before the colon of their
    names: "w" weights, "in" inputs, "out" outputs, "grad" gradients.
  """
  with open(os.path.join(_FOLDER, name + ".json"), encoding="utf-8") as reader:
    info = json.load(reader)
  arrays = {}
  path = os.path.join(_FOLDER, name + ".npz")
  if os.path.exists(path):
    with np.load(path) as stored:
      for key in stored.files:
        kind, _, rest = key.partition(":")
        arrays.setdefault(kind, {})[rest] = stored[key]
  return info, arrays


def assign(session, weights):
  """Gives every trainable variable its golden value; all must be named."""
  session.run(tf.global_variables_initializer())
  variables = {bert_utils.variable_name(var): var
               for var in tf.trainable_variables()}
  assert sorted(variables) == sorted(weights)
  for name, value in weights.items():
    variables[name].load(value, session)
