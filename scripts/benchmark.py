"""Measures speed and memory, against another code in the same run.

  python scripts/benchmark.py train --config=tiny --peer_dir=../albert_zh
  python scripts/benchmark.py forward --config=tiny --peer_dir=../albert_zh
  python scripts/benchmark.py lengths --input_file='pretrain/*.tfrecord'
  python scripts/benchmark.py classify --config=tiny
  python scripts/benchmark.py memory --config=base --batch_sizes=8,16
  python scripts/benchmark.py data --input_file=demo_data/corpus/news.txt \\
      --peer_dir=../albert_zh

`train` makes whole steps of pre-training (forward, backward, clipping, LAMB),
`forward` a classifier's logits, both from full sequences of random tokens in
memory. Each candidate (this code in each of --precision, other checkouts of
it by --code_dir, and the float32 graph of --peer_dir) is a process of its own;
after its warm-up it runs blocks of steps in turn with the others, so that what
else the machine does hits all alike. A ratio is the median over the rounds;
where other work makes it vary, the ratio of CPU time says more.

`lengths` trains on records with and without --bucket_by_length. `classify`
fine-tunes on real short texts, evaluates and predicts them, with and without it,
and converts them on one core and on all. `memory` makes steps of training with
what saves memory, one process after the other, and says how much each had at
its peak, TensorFlow's own included. Texts of `classify`: python
scripts/prepare_demo_data.py thucnews

`data` creates records with the flags of albert_zh's README (length 512, 51
predictions, whole words, dupe_factor 10) from the first --megabytes of a text,
on one core, in turn with the script of --peer_dir; then, from all of it, on one
core and on two. Text: python scripts/prepare_demo_data.py corpus --sources=news

Compare ratios: the figures of one machine say little about another, nor do
those of one hour about the next. Each figure is the median of --repeats runs.
"""

import argparse
import collections
import glob
import importlib
import os
import platform
import re
import statistics
import struct
import sys
import tempfile
import time

from benchmark_processes import BenchmarkError
from benchmark_processes import OutOfMemory
from benchmark_processes import ROOT
from benchmark_processes import log
from benchmark_processes import measure
from benchmark_processes import run_in_turn

PRECISIONS = ("float32", "bfloat16", "float16")
# Of --bucket_by_length: `input_utils.WINDOW_STEPS`, which needs TensorFlow.
WINDOW_STEPS = 64
SCRIPT = "create_pretraining_data.py"
Run = collections.namedtuple("Run", [
    "seconds", "instances", "main_bytes", "worker_bytes"])


def count_records(path):
  """The number of records of an uncompressed TFRecord file."""
  count, size = 0, os.path.getsize(path)
  with open(path, "rb") as reader:
    while reader.tell() < size:
      length = struct.unpack("<Q", reader.read(8))[0]
      reader.seek(length + 8, os.SEEK_CUR)
      count += 1
  return count


def describe_machine(packages):
  """The lines that say where figures are from."""
  cpu = platform.processor()
  try:
    with open("/proc/cpuinfo") as reader:
      cpu = [line.split(":")[1].strip() for line in reader
             if line.startswith("model name")][0]
  except (OSError, IndexError):
    pass
  versions = [f"Python {platform.python_version()}"]
  for name in packages:
    try:
      module = importlib.import_module(name)
      versions.append(f"{name} {getattr(module, '__version__', '')}".strip())
    except ImportError:
      pass
  return [f"machine: {len(os.sched_getaffinity(0))} cores, {cpu}",
          "versions: " + ", ".join(versions)]


def cpu_bfloat16():
  """What of the CPU's instructions for bfloat16 there is, as a line."""
  try:
    with open("/proc/cpuinfo") as reader:
      flags = re.search(r"^flags\s*:(.*)$", reader.read(), re.M).group(1).split()
  except (OSError, AttributeError):
    return "bfloat16: /proc/cpuinfo does not say whether this CPU has it"
  found = [flag for flag in ("avx512_bf16", "amx_bf16") if flag in flags]
  return "bfloat16: the CPU has " + (
      ", ".join(found) or "neither avx512_bf16 nor amx_bf16, expect it slower")


# -------------------------------------------------------------- train, forward


def make_spec(args, work, **changes):
  """The json object of a candidate, from the arguments.

  Args:
    args: object with the command's options as attributes.
    work: "train" or "forward".
    **changes: what it has beyond these, or instead.

  Returns:
    dict, see `benchmark_graphs.build`.

  Raises:
    BenchmarkError: no batch could be made of these.
  """
  spec = dict(
      work=work, is_peer=False, code_dir=ROOT,
      config_file=config_path(args.config), batch_size=args.batch_size,
      max_seq_length=args.max_seq_length,
      max_predictions=args.max_predictions, precision="float32",
      recompute_activations=False, gradient_accumulation_steps=1)
  spec.update(changes)
  if spec["max_predictions"] >= spec["max_seq_length"]:
    raise BenchmarkError(
        f"--max_predictions {spec['max_predictions']} must be less than the"
        f" length, {spec['max_seq_length']}")
  if spec["batch_size"] % spec["gradient_accumulation_steps"]:
    raise BenchmarkError(
        f"a batch of {spec['batch_size']} cannot be cut into"
        f" --gradient_accumulation_steps {spec['gradient_accumulation_steps']}"
        " equal parts")
  return spec


def config_path(config):
  """The path of a config: a file, or one of albert_config by its size."""
  shipped = os.path.join(ROOT, "albert_config", f"albert_config_{config}.json")
  for path in (config, shipped):
    if os.path.isfile(path):
      return os.path.abspath(path)
  raise BenchmarkError(f"--config {config} is neither a json file nor the size"
                       " of one in albert_config, such as tiny or base")


def candidate_specs(args, work, **changes):
  """What to measure: name -> (interpreter, spec); the base of ratios first.

  Raises:
    BenchmarkError: a folder holds no code.
  """
  for flag, folder in [("peer_dir", args.peer_dir)] + [
      ("code_dir", folder) for folder in args.code_dir]:
    if folder and not os.path.isfile(os.path.join(folder, "modeling.py")):
      raise BenchmarkError(f"--{flag} {folder} has no modeling.py")
  specs = collections.OrderedDict()
  if args.peer_dir:
    specs["peer float32"] = (args.peer_python, make_spec(
        args, work, is_peer=True, code_dir=os.path.abspath(args.peer_dir),
        **changes))
  for folder in args.code_dir + [None]:
    for precision in args.precision:
      name = f"{folder} {precision}" if folder else precision
      specs[name] = (sys.executable, make_spec(
          args, work, code_dir=os.path.abspath(folder or ROOT),
          precision=precision, **changes))
  return specs


def ratios(base, own):
  """How many times as fast as `base`: a round's ratios, sorted."""
  return sorted(theirs / ours for theirs, ours in zip(base, own))


def speed_table(specs, args):
  """Runs candidates in turn; returns the lines of their table."""
  measured = run_in_turn(specs, args.repeats, args.steps, args.block_seconds)
  base = measured[0]
  lines = [f"| candidate | examples/s | ms a step | ratio to {base.name}: median"
           " (quartiles) | ratio by CPU time | peak memory, MB | on |",
           "|---|---|---|---|---|---|---|"]
  for each in measured:
    by_time = ratios(base.seconds, each.seconds)
    quarter = len(by_time) // 4
    middle = statistics.median(each.seconds)
    examples = each.spec.get("step_examples", each.spec["batch_size"])
    cells = [each.name, f"{examples / middle:.2f}",
             f"{1e3 * middle:.1f}",
             f"{statistics.median(by_time):.2f}"
             f" ({by_time[quarter]:.2f}-{by_time[-1 - quarter]:.2f})",
             f"{statistics.median(ratios(base.cpu_seconds, each.cpu_seconds)):.2f}",
             f"{each.peak_bytes / 1e6:.0f}", each.versions]
    lines.append("| " + " | ".join(cells) + " |")
  return lines


def benchmark_train(args):
  """Steps of pre-training; returns the lines of the report."""
  specs = candidate_specs(
      args, "train", recompute_activations=args.recompute_activations,
      gradient_accumulation_steps=args.gradient_accumulation_steps)
  title = (f"Training {args.config}, batch {args.batch_size}, length"
           f" {args.max_seq_length}, {args.max_predictions} predictions,"
           f" {args.repeats} rounds:")
  return describe_machine([]) + [cpu_bfloat16(), "", title, ""] + speed_table(
      specs, args)


def benchmark_forward(args):
  """A classifier's logits; returns the lines of the report."""
  lines = describe_machine([]) + [cpu_bfloat16()]
  for batch_size in args.batch_sizes:
    lines += ["", f"Logits {args.config}, batch {batch_size}, length"
              f" {args.max_seq_length}, {args.repeats} rounds:", ""]
    lines += speed_table(
        candidate_specs(args, "forward", batch_size=batch_size), args)
  return lines


# --------------------------------------------------------------------- lengths


def benchmark_lengths(args):
  """Training on records with and without length buckets; returns lines.

  A block is a window of buckets: all candidates train on the same records in
  it, so that its time says what a token that is no padding costs.
  """
  input_files = sorted(glob.glob(args.input_file))
  if not input_files:
    raise BenchmarkError(f"--input_file: no file matches {args.input_file}")
  args.steps = WINDOW_STEPS
  specs = collections.OrderedDict(
      (name, (sys.executable, make_spec(
          args, "train", code_dir=ROOT, precision=precision,
          input_files=[os.path.abspath(path) for path in input_files],
          bucket_by_length=buckets)))
      for precision in args.precision for name, buckets in (
          (precision, False), (f"{precision}, buckets", True)))
  return describe_machine([]) + [
      cpu_bfloat16(), "", f"Training {args.config} on {args.input_file}, batch"
      f" {args.batch_size}, length {args.max_seq_length}, {args.repeats} rounds"
      f" of {args.steps} steps:", ""] + speed_table(specs, args)


# -------------------------------------------------------------------- classify


def benchmark_classify(args):
  """Work on labelled texts with and without length buckets; returns lines."""
  train_file = os.path.join(args.data_dir, "train.tsv")
  if not os.path.isfile(train_file):
    raise BenchmarkError(f"--data_dir {args.data_dir} has no train.tsv: python"
                         " scripts/prepare_demo_data.py thucnews makes one")
  lines = describe_machine(["numpy"]) + [cpu_bfloat16()]
  lines += conversion_table(args)
  with tempfile.TemporaryDirectory() as folder:
    for work, title in (("fine_tune", "a step of training"),
                        ("evaluate", "a pass of evaluation"),
                        ("predict", "a pass of prediction")):
      args.steps = WINDOW_STEPS if work == "fine_tune" else 1
      per_pass = {} if work == "fine_tune" else {
          "step_examples": args.num_examples}
      specs = collections.OrderedDict(
          (name, (sys.executable, make_spec(
              args, work, precision=precision, data_dir=args.data_dir,
              vocab_file=args.vocab_file, output_dir=folder, warmup_steps=1,
              num_examples=args.num_examples, bucket_by_length=buckets,
              **per_pass)))
          for precision in args.precision for name, buckets in (
              (f"{precision}, padded to {args.max_seq_length}", False),
              (f"{precision}, by length", True)))
      lines += ["", f"{args.config}, the first {args.num_examples} texts of"
                f" {train_file}, batch {args.batch_size}, a step is {title},"
                f" {args.repeats} rounds of {args.steps}:", ""]
      lines += speed_table(specs, args)
  return lines


def conversion_table(args):
  """Conversion of texts on one core and on all; returns lines.

  The set is converted several times over, to be as large as others are.
  """
  sys.path.insert(0, ROOT)
  import classifier_utils
  import feature_utils
  import tokenization
  processor = classifier_utils.get_processor("tsv")
  examples = processor.get_train_examples(args.data_dir) * args.copies
  settings = feature_utils.Settings(processor.get_labels(), args.max_seq_length,
                                    "single", "head", None)
  tokenizer = tokenization.FullTokenizer(args.vocab_file)

  def run(cores):
    begin = time.perf_counter()
    for _ in feature_utils.convert(examples, settings, tokenizer, cores):
      pass
    return time.perf_counter() - begin

  cores = len(os.sched_getaffinity(0))
  seconds = {1: [], cores: []}
  for _ in range(args.repeats):
    for number, each in seconds.items():
      each.append(run(number))
  lines = ["", f"Conversion of {len(examples)} examples ({args.copies} times the"
           f" set), {args.repeats} rounds:", "",
           "| processes | seconds | examples/s | ratio |", "|---|---|---|---|"]
  for number, each in seconds.items():
    ratio = statistics.median(ratios(seconds[1], each))
    middle = statistics.median(each)
    lines.append(f"| {number} | {middle:.2f} | {len(examples) / middle:.0f} |"
                 f" {ratio:.2f} |")
  return lines


# ---------------------------------------------------------------------- memory


def variant_changes(variant, gradient_accumulation_steps):
  """What a variant of `memory` changes in a spec.

  Args:
    variant: string, parts joined by "+": a precision, "recompute",
      "accumulate"; or "plain".
    gradient_accumulation_steps: int, what "accumulate" means.

  Returns:
    dict.

  Raises:
    BenchmarkError: a part is none of these.
  """
  meanings = {
      "plain": {}, "float32": {}, "bfloat16": {"precision": "bfloat16"},
      "recompute": {"recompute_activations": True},
      "accumulate": {
          "gradient_accumulation_steps": gradient_accumulation_steps}}
  changes = {}
  for part in variant.split("+"):
    if part not in meanings:
      raise BenchmarkError(f"--variants {variant}: {part} is none of"
                           f" {', '.join(meanings)}")
    changes.update(meanings[part])
  return changes


def available_bytes():
  """The memory that the machine could give to a process now."""
  with open("/proc/meminfo") as reader:
    return 1024 * int(re.search(r"MemAvailable:\s*(\d+)",
                                reader.read()).group(1))


def memory_row(args, name, spec, plain):
  """Measures one variant; returns (the line of the table, Measured or None)."""
  where = f"| {spec['batch_size']} x {spec['max_seq_length']} | {name} |"
  limit = args.max_gb * 1e9 if args.max_gb else 0.85 * available_bytes()
  try:
    measured, = run_in_turn({name: (sys.executable, spec)}, args.repeats,
                            1, 0.0, limit)
  except OutOfMemory as error:
    return f"{where} {error} | | | |", None
  cpu_seconds = statistics.median(measured.cpu_seconds)
  columns = [f"{measured.peak_bytes / 1e9:.2f} GB", "",
             f"{statistics.median(measured.seconds):.2f} s", ""]
  if plain:
    columns[1] = f"{measured.peak_bytes / plain.peak_bytes:.2f}"
    columns[3] = f"{cpu_seconds / statistics.median(plain.cpu_seconds):.2f}"
  return " ".join([where, " | ".join(columns), "|"]), measured


def benchmark_memory(args):
  """Peak memory of training, one process after the other; returns lines."""
  variants = collections.OrderedDict(
      (name, variant_changes(name, args.gradient_accumulation_steps))
      for name in args.variants)
  lines = describe_machine([]) + [
      cpu_bfloat16(), "",
      f"Training {args.config}, {args.max_predictions} predictions; accumulate:"
      f" {args.gradient_accumulation_steps} micro-batches; ratios to"
      f" {args.variants[0]}:", "",
      "| batch x length | variant | peak memory | ratio | a step | ratio of CPU"
      " time |",
      "|---|---|---|---|---|---|"]
  for length in args.lengths:
    for batch_size in args.batch_sizes:
      args.batch_size, args.max_seq_length = batch_size, length
      plain = None
      for index, (name, changes) in enumerate(variants.items()):
        spec = make_spec(args, "train", warmup_steps=1, **changes)
        line, measured = memory_row(args, name, spec, plain)
        log(line)
        lines.append(line)
        plain = plain if index else measured
  return lines


# ------------------------------------------------------------------------ data


def first_documents(path, num_bytes):
  """The documents of a text that make up the first bytes of it, as bytes."""
  with open(path, "rb") as reader:
    text = reader.read(num_bytes)
    rest = reader.read(2**20).split(b"\n\n")[0]
  return text + rest + b"\n"


def data_command(python, folder, text, output, flags=()):
  return [python, os.path.join(folder, SCRIPT), f"--input_file={text}",
          f"--output_file={output}",
          f"--vocab_file={ROOT}/albert_config/vocab.txt",
          "--do_whole_word_mask=True", "--max_seq_length=512",
          "--max_predictions_per_seq=51", "--masked_lm_prob=0.10",
          "--dupe_factor=10", *flags]


def create_records(folder, command_of, cores):
  """Runs a command that writes to a path; returns a Run."""
  output = os.path.join(folder, "records")
  seconds, main_bytes, worker_bytes = measure(
      command_of(output), cores, os.path.join(folder, "log"))
  instances = count_records(output)
  os.remove(output)
  return Run(seconds, instances, main_bytes, worker_bytes)


def median_runs(repeats, candidates):
  """Runs candidates in turn; returns the run of median time of each."""
  runs = collections.OrderedDict((name, []) for name in candidates)
  for repeat in range(repeats):
    for name, run in candidates.items():
      runs[name].append(run())
      log(f"  run {repeat + 1} of {repeats}, {name}:"
          f" {runs[name][-1].seconds:.2f} s")
  return {name: sorted(each, key=lambda run: run.seconds)[len(each) // 2]
          for name, each in runs.items()}


def data_table(results, base):
  """Lines of a table; ratios of instances/s to those of `base`."""
  lines = ["| run | seconds | instances | instances/s | ratio | peak memory,"
           " MB: main, largest worker |", "|---|---|---|---|---|---|"]
  for name, run in results.items():
    rate = run.instances / run.seconds
    ratio = rate / (results[base].instances / results[base].seconds)
    lines.append(f"| {name} | {run.seconds:.2f} | {run.instances} | {rate:.0f} |"
                 f" {ratio:.2f} | {run.main_bytes / 1e6:.0f},"
                 f" {run.worker_bytes / 1e6:.0f} |")
  return lines


def benchmark_data(args):
  """Creation of pre-training data; returns the lines of the report."""
  if not os.path.isfile(args.input_file):
    raise BenchmarkError(
        f"there is no text {args.input_file}: python"
        " scripts/prepare_demo_data.py corpus --sources=news makes one")
  if args.peer_dir and not os.path.isfile(os.path.join(args.peer_dir, SCRIPT)):
    raise BenchmarkError(f"--peer_dir {args.peer_dir} has no {SCRIPT}")
  cores = sorted(os.sched_getaffinity(0))
  lines = describe_machine(["jieba", "rjieba", "numpy"])
  text = os.path.abspath(args.input_file)
  with tempfile.TemporaryDirectory() as folder:
    part = os.path.join(folder, "part.txt")
    with open(part, "wb") as writer:
      writer.write(first_documents(text, int(args.megabytes * 1e6)))

    def ours(path, segmenter, num_cores):
      return lambda: create_records(folder, lambda output: data_command(
          sys.executable, ROOT, path, output, [f"--segmenter={segmenter}"]),
                                    cores[:num_cores])

    candidates = {name: ours(part, name, 1) for name in args.segmenters}
    if args.peer_dir:
      candidates = {args.peer_dir: lambda: create_records(
          folder, lambda output: data_command(
              args.peer_python, os.path.abspath(args.peer_dir), part, output),
          cores[:1]), **candidates}
    size = os.path.getsize(part) / 1e6
    lines += ["", f"The first {size:.1f} MB of {args.input_file}, one core:", ""]
    lines += data_table(median_runs(args.repeats, candidates),
                        next(iter(candidates)))
    for segmenter in args.segmenters if len(cores) > 1 else ():
      size = os.path.getsize(text) / 1e6
      lines += ["", f"All {size:.1f} MB, {segmenter}:", ""]
      candidates = {"one core": ours(text, segmenter, 1),
                    "two cores": ours(text, segmenter, 2)}
      lines += data_table(median_runs(args.repeats, candidates), "one core")
  return lines


def comma_list(text):
  return text.split(",")


def precision_list(text):
  """A comma list of precisions, checked."""
  for precision in text.split(","):
    if precision not in PRECISIONS:
      raise argparse.ArgumentTypeError(
          f"{precision!r} is none of {', '.join(PRECISIONS)}")
  return text.split(",")


def int_list(text):
  return [int(part) for part in text.split(",")]


def add_speed_arguments(parser, block_seconds):
  """Adds what `train` and `forward` have in common."""
  add = parser.add_argument
  add("--config", default="tiny",
      help="json file, or the size of one in albert_config")
  add("--max_seq_length", type=int, default=128)
  add("--precision", type=precision_list, default=["float32"],
      help=f"comma list of {', '.join(PRECISIONS)}")
  add("--peer_dir", help="folder of albert_zh or google-research/bert")
  add("--peer_python", default=sys.executable, help="what it runs on")
  add("--code_dir", action="append", default=[],
      help="another checkout of this project, to compare with; repeatable")
  add("--repeats", type=int, default=10, help="rounds")
  add("--steps", type=int, help="steps of a block; default by time")
  add("--block_seconds", type=float, default=block_seconds,
      help="how long a block of the slowest candidate lasts")


def parse_arguments(argv):
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  commands = parser.add_subparsers(dest="command", metavar="command")
  commands.required = True
  train = commands.add_parser("train", help="steps of pre-training")
  train.set_defaults(run=benchmark_train)
  add_speed_arguments(train, block_seconds=3.0)
  train.add_argument("--batch_size", type=int, default=32)
  train.add_argument("--max_predictions", type=int, default=20)
  train.add_argument("--recompute_activations", action="store_true")
  train.add_argument("--gradient_accumulation_steps", type=int, default=1)
  forward = commands.add_parser("forward", help="logits of a classifier")
  forward.set_defaults(run=benchmark_forward, batch_size=None,
                       max_predictions=0)
  add_speed_arguments(forward, block_seconds=1.0)
  forward.add_argument("--batch_sizes", type=int_list, default=[1, 32],
                       help="comma list")
  lengths = commands.add_parser(
      "lengths", help="training with and without --bucket_by_length")
  lengths.set_defaults(run=benchmark_lengths, block_seconds=0.0)
  add = lengths.add_argument
  add("--input_file", required=True, help="records, a path or glob")
  add("--config", default="tiny",
      help="json file, or the size of one in albert_config")
  add("--max_seq_length", type=int, default=512, help="of the records")
  add("--max_predictions", type=int, default=51, help="of the records")
  add("--batch_size", type=int, default=8)
  add("--precision", type=precision_list, default=["float32"],
      help=f"comma list of {', '.join(PRECISIONS)}")
  add("--repeats", type=int, default=3, help="rounds")
  classify = commands.add_parser(
      "classify", help="fine-tuning, evaluation and prediction of real texts"
      " with and without --bucket_by_length")
  classify.set_defaults(run=benchmark_classify, block_seconds=0.0,
                        max_predictions=0)
  add = classify.add_argument
  add("--data_dir", default=os.path.join(ROOT, "demo_data", "thucnews"),
      help="folder with the train.tsv of a task tsv")
  add("--config", default="tiny",
      help="json file, or the size of one in albert_config")
  add("--vocab_file", default=os.path.join(ROOT, "albert_config", "vocab.txt"))
  add("--max_seq_length", type=int, default=128)
  add("--batch_size", type=int, default=32)
  add("--num_examples", type=int, default=32 * WINDOW_STEPS,
      help="of the set's first")
  add("--copies", type=int, default=10,
      help="how many times over the set is converted")
  add("--precision", type=precision_list, default=["float32"],
      help=f"comma list of {', '.join(PRECISIONS)}")
  add("--repeats", type=int, default=3, help="rounds")
  memory = commands.add_parser("memory", help="peak memory of training")
  memory.set_defaults(run=benchmark_memory)
  add = memory.add_argument
  add("--config", default="tiny",
      help="json file, or the size of one in albert_config")
  add("--batch_sizes", type=int_list, default=[32], help="comma list")
  add("--lengths", type=int_list, default=[128], help="comma list")
  add("--max_predictions", type=int, default=20)
  add("--variants", type=comma_list,
      default=["plain", "recompute", "accumulate", "bfloat16"],
      help="comma list of plain, recompute, accumulate, bfloat16, or several of"
      " them joined by +; ratios are to the first")
  add("--gradient_accumulation_steps", type=int, default=4,
      help="what accumulate means")
  add("--max_gb", type=float, help="where to give a variant up; default 85 %% of"
      " the memory that is free")
  add("--repeats", type=int, default=2, help="steps after the first two")
  data = commands.add_parser("data", help="creation of pre-training data")
  data.set_defaults(run=benchmark_data)
  add = data.add_argument
  add("--input_file", default=os.path.join(ROOT, "demo_data", "corpus",
                                           "news.txt"))
  add("--megabytes", type=float, default=2.0, help="for the comparison")
  add("--segmenters", type=comma_list,
      default=["jieba", "rjieba"], help="comma list; rjieba is optional")
  add("--peer_dir", help=f"folder of another {SCRIPT} with the same flags")
  add("--peer_python", default=sys.executable, help="what it runs on")
  add("--repeats", type=int, default=3)
  return parser.parse_args(argv)


def main(argv=None):
  args = parse_arguments(argv)
  try:
    print("\n".join(args.run(args)))
  except (BenchmarkError, OSError) as error:
    sys.exit(f"benchmark.py: error: {error}")


if __name__ == "__main__":
  main()
