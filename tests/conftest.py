"""Puts the repository's root on the import path of every test."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for path in (os.path.join(ROOT, "scripts"), ROOT):
  if path not in sys.path:
    sys.path.insert(0, path)

# Quiet logs of TensorFlow's C++ part; a failing test still shows its own.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
