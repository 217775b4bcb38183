"""Pre-trains once in each precision on the same batches; compares the losses.

  python scripts/compare_precision.py --input_file=output/train.tfrecord \\
      --bert_config_file=albert_config/albert_config_tiny_preln.json \\
      --output_dir=output/precision --train_batch_size=32

Runs run_pretraining.py with the same seed for each of --precisions, one after
the other, each into a folder of its own below --output_dir, and prints a table:
means over the --every steps up to the step that the row names. Flags that it
does not know itself go to run_pretraining.py as they are.
"""

import argparse
import glob
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KEYS = ("loss", "masked_lm_loss", "next_sentence_loss")


class CompareError(Exception):
  """What stops the comparison; its text is the whole message for the user."""


def train(precision, output_dir, args, flags):
  """Runs one pre-training, its log into a file beside its folder.

  Args:
    precision: string.
    output_dir: path, which must not be there yet.
    args: object with num_train_steps and every.
    flags: list of strings, for run_pretraining.py.

  Raises:
    CompareError: it failed.
  """
  command = [sys.executable, os.path.join(ROOT, "run_pretraining.py"),
             "--do_train", f"--precision={precision}",
             f"--output_dir={output_dir}", f"--log_steps={args.every}",
             f"--num_train_steps={args.num_train_steps}", *flags]
  print(" ".join(command), file=sys.stderr, flush=True)
  with open(output_dir + ".log", "wb") as log:
    code = subprocess.call(command, stdout=log, stderr=subprocess.STDOUT)
  if code:
    with open(output_dir + ".log", encoding="utf-8",
              errors="replace") as reader:
      end = "".join(reader.readlines()[-5:])
    raise CompareError(f"training in {precision} ended with exit code {code},"
                       f" log in {output_dir}.log:\n{end}")


def read_scalars(folder):
  """The scalars that a training wrote for TensorBoard.

  Args:
    folder: path, its output_dir.

  Returns:
    dict, step -> dict, key of KEYS -> float.
  """
  import tensorflow.compat.v1 as tf  # not for arguments that are wrong
  scalars = {}
  for path in sorted(glob.glob(os.path.join(folder, "events.out.tfevents.*"))):
    for event in tf.train.summary_iterator(path):
      for value in event.summary.value:
        if value.tag.startswith("train/"):
          scalars.setdefault(event.step, {})[
              value.tag[len("train/"):]] = value.simple_value
  return {step: {key: values[key] for key in KEYS}
          for step, values in scalars.items()
          if all(key in values for key in KEYS)}


def table(curves):
  """Lines of a table: losses by step, and how far they are from the first.

  Args:
    curves: dict, precision -> what `read_scalars` returns.

  Returns:
    List of strings.
  """
  names = list(curves)
  base = curves[names[0]]
  heads = ["step"] + [f"{name}: loss (masked-LM, pair)" for name in names]
  heads += [f"{name} - {names[0]}" for name in names[1:]]
  lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
  for step in sorted(base):
    cells = [str(step)] + [
        "{loss:.4f} ({masked_lm_loss:.4f}, {next_sentence_loss:.4f})".format(
            **curves[name][step]) for name in names]
    cells += [f"{curves[name][step]['loss'] - base[step]['loss']:+.4f}"
              for name in names[1:]]
    lines.append("| " + " | ".join(cells) + " |")
  return lines


def main(argv=None):
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
      allow_abbrev=False)
  parser.add_argument("--output_dir", required=True)
  parser.add_argument("--precisions", default="float32,bfloat16",
                      help="comma list; differences are from the first")
  parser.add_argument("--num_train_steps", type=int, default=300)
  parser.add_argument("--every", type=int, default=50,
                      help="steps between two rows")
  args, flags = parser.parse_known_args(argv)
  curves = {}
  try:
    if args.num_train_steps % args.every:
      raise CompareError(f"--num_train_steps {args.num_train_steps} is not a"
                         f" multiple of --every {args.every}")
    os.makedirs(args.output_dir, exist_ok=True)
    folders = {name: os.path.join(args.output_dir, name)
               for name in args.precisions.split(",")}
    for folder in folders.values():
      if os.path.exists(folder):
        raise CompareError(f"{folder} is there already, and training would go"
                           " on from it: remove it or name another"
                           " --output_dir")
    for precision, folder in folders.items():
      train(precision, folder, args, flags)
      curves[precision] = read_scalars(folder)
    print("\n".join(table(curves)))
  except (CompareError, OSError) as error:
    sys.exit(f"compare_precision.py: error: {error}")


if __name__ == "__main__":
  main()
