"""Measures speed and memory, against another code in the same run.

  python scripts/benchmark.py train --config=tiny --peer_dir=../albert_zh
  python scripts/benchmark.py forward --config=tiny --peer_dir=../albert_zh
  python scripts/benchmark.py data --input_file=demo_data/corpus/news.txt \\
      --peer_dir=../albert_zh

`train` makes whole steps of pre-training (forward, backward, clipping, LAMB),
`forward` a classifier's logits, both from full sequences of random tokens in
memory. Each candidate (this code in each of --precision, other checkouts of
it by --code_dir, and the float32 graph of --peer_dir) is a process of its own;
after its warm-up it runs blocks of steps in turn with the others, so that what
else the machine does hits all alike. A ratio is the median over the rounds.

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
import json
import os
import platform
import re
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPT = "create_pretraining_data.py"
Run = collections.namedtuple("Run", [
    "seconds", "instances", "main_bytes", "worker_bytes"])


class BenchmarkError(Exception):
  """What stops the run; its text is the whole message for the user."""


class OutOfMemory(Exception):
  """A candidate that needs more than it may."""


def log(message):
  print(message, file=sys.stderr, flush=True)


# ------------------------------------------------------------------- processes


def peak_memory(pid):
  """Peak resident bytes of a process and of the largest below it, by now."""
  def peak(pid):
    try:
      with open(f"/proc/{pid}/status") as reader:
        for line in reader:
          if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    except (OSError, ValueError):
      pass  # it has just ended
    return 0

  def children(pid):
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
      try:
        with open(path) as reader:
          yield from map(int, reader.read().split())
      except OSError:
        pass

  return peak(pid), max(map(peak, children(pid)), default=0)


def measure(command, cores, log_file):
  """Runs a command on some cores.

  Args:
    command: list of strings.
    cores: list of ints.
    log_file: path for its output.

  Returns:
    (seconds, peak bytes of the process, peak bytes of its largest child).
  """
  with open(log_file, "wb") as writer:
    begin = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=writer, stderr=subprocess.STDOUT, cwd=ROOT,
        env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3"),
        preexec_fn=lambda: os.sched_setaffinity(0, cores))
    main_bytes = worker_bytes = 0
    while process.poll() is None:
      # Seldom, as it takes time itself: the kernel keeps the peak.
      now = peak_memory(process.pid)
      main_bytes = max(main_bytes, now[0])
      worker_bytes = max(worker_bytes, now[1])
      try:
        process.wait(0.25)
      except subprocess.TimeoutExpired:
        pass
    seconds = time.perf_counter() - begin
  if process.returncode:
    with open(log_file, encoding="utf-8", errors="replace") as reader:
      end = "".join(reader.readlines()[-15:])
    raise BenchmarkError(f"{' '.join(command)} ended with exit code"
                         f" {process.returncode}:\n{end}")
  return seconds, main_bytes, worker_bytes


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


class Candidate(object):
  """A process that holds a graph and runs steps of it when it is told to."""

  def __init__(self, name, python, spec, folder, max_bytes=None):
    """Starts the process; it builds its graph and warms up meanwhile.

    Args:
      name: string, for the table.
      python: path of its interpreter.
      spec: dict, see `benchmark_graphs.build`.
      folder: path, where its log goes.
      max_bytes: number, memory above which it is ended, or None.
    """
    self.name = name
    self.spec = spec
    self._max_bytes = max_bytes
    self._log = tempfile.NamedTemporaryFile(dir=folder)
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3")
    self._process = subprocess.Popen(
        [python, os.path.join(ROOT, "scripts", "benchmark_graphs.py"),
         json.dumps(spec)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
        universal_newlines=True, env=environment)

  def ready(self):
    """Waits for the warm-up; returns the seconds of a step."""
    answer = self._answer()
    self.versions = answer["versions"]
    return answer["seconds"]

  def run(self, steps):
    """Runs steps; returns the seconds of one of them."""
    self._process.stdin.write(f"{steps}\n")
    self._process.stdin.flush()
    return self._answer()["seconds"] / steps

  def _answer(self):
    while not select.select([self._process.stdout], [], [], 0.5)[0]:
      if self._max_bytes and self.peak_bytes() > self._max_bytes:
        raise OutOfMemory(f"more than {self._max_bytes / 1e9:.1f} GB")
    line = self._process.stdout.readline()
    if line:
      return json.loads(line)
    code = self._process.wait()
    with open(self._log.name, encoding="utf-8", errors="replace") as reader:
      end = "".join(reader.readlines()[-15:])
    raise BenchmarkError(f"{self.name} ended with exit code {code}:\n{end}")

  def peak_bytes(self):
    """Its largest resident memory up to now, TensorFlow's own included."""
    return peak_memory(self._process.pid)[0]

  def close(self):
    self._process.kill()
    self._process.communicate()
    self._log.close()


def make_spec(args, work, **changes):
  """The json object of a candidate, from the arguments."""
  return dict(dict(
      work=work, is_peer=False, code_dir=ROOT,
      config_file=config_path(args.config), batch_size=args.batch_size,
      max_seq_length=args.max_seq_length,
      max_predictions=args.max_predictions, precision="float32",
      recompute_activations=False, gradient_accumulation_steps=1), **changes)


def config_path(config):
  """The path of a config: a file, or one of albert_config by its size."""
  shipped = os.path.join(ROOT, "albert_config", f"albert_config_{config}.json")
  for path in (config, shipped):
    if os.path.isfile(path):
      return os.path.abspath(path)
  raise BenchmarkError(f"--config {config} is neither a json file nor the size"
                       " of one in albert_config, such as tiny or base")


def check_arguments(args):
  """Raises a BenchmarkError for what no candidate could be made of."""
  if args.max_predictions >= args.max_seq_length:
    raise BenchmarkError(
        f"--max_predictions {args.max_predictions} must be less than"
        f" --max_seq_length {args.max_seq_length}")
  for flag, folder in [("peer_dir", args.peer_dir)] + [
      ("code_dir", folder) for folder in args.code_dir]:
    if folder and not os.path.isfile(os.path.join(folder, "modeling.py")):
      raise BenchmarkError(f"--{flag} {folder} has no modeling.py")


def candidate_specs(args, work, **changes):
  """What to measure: name -> (interpreter, spec); the base of ratios first."""
  specs = collections.OrderedDict()
  if args.peer_dir:
    specs["peer float32"] = (args.peer_python, make_spec(
        args, work, is_peer=True, code_dir=os.path.abspath(args.peer_dir),
        **changes))
  for folder in args.code_dir + [ROOT]:
    for precision in args.precision:
      name = precision if folder == ROOT else f"{folder} {precision}"
      specs[name] = (sys.executable, make_spec(
          args, work, code_dir=os.path.abspath(folder), precision=precision,
          **changes))
  return specs


def run_in_turn(specs, repeats, steps, block_seconds):
  """Runs candidates in turn.

  Args:
    specs: dict, name -> (interpreter, spec).
    repeats: int, rounds.
    steps: int, steps of a block; None for as many as fill block_seconds.
    block_seconds: float.

  Returns:
    (list of Candidates, now ended; dict, name -> list of seconds of a step,
    one for each round; dict, name -> peak bytes).
  """
  candidates = []
  with tempfile.TemporaryDirectory() as folder:
    try:
      slowest = 0
      for name, (python, spec) in specs.items():
        # One after the other: warming up together would take longer.
        candidates.append(Candidate(name, python, spec, folder))
        slowest = max(slowest, candidates[-1].ready())
      steps = steps or max(1, round(block_seconds / slowest))
      seconds = collections.OrderedDict((name, []) for name in specs)
      for repeat in range(repeats):
        for candidate in candidates:
          seconds[candidate.name].append(candidate.run(steps))
        log(f"  round {repeat + 1} of {repeats}, {steps} steps each, ms: " +
            ", ".join(f"{name} {1e3 * each[-1]:.1f}"
                      for name, each in seconds.items()))
      peaks = {each.name: each.peak_bytes() for each in candidates}
    finally:
      for candidate in candidates:
        candidate.close()
  return candidates, seconds, peaks


def speed_table(specs, args):
  """Runs candidates in turn; returns the lines of their table."""
  candidates, seconds, peaks = run_in_turn(
      specs, args.repeats, args.steps, args.block_seconds)
  base = candidates[0].name
  lines = [f"| candidate | examples/s | ms a step | ratio to {base}: median"
           " (quartiles) | peak memory, MB | on |", "|---|---|---|---|---|---|"]
  for candidate in candidates:
    name = candidate.name
    ratios = sorted(b / own for b, own in zip(seconds[base], seconds[name]))
    middle = statistics.median(seconds[name])
    low, high = (ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4])
    lines.append(
        f"| {name} | {candidate.spec['batch_size'] / middle:.2f} |"
        f" {1e3 * middle:.1f} | {statistics.median(ratios):.2f}"
        f" ({low:.2f}-{high:.2f}) | {peaks[name] / 1e6:.0f} |"
        f" {candidate.versions} |")
  return lines


def benchmark_train(args):
  """Steps of pre-training; returns the lines of the report."""
  check_arguments(args)
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
  check_arguments(args)
  lines = describe_machine([]) + [cpu_bfloat16()]
  for batch_size in args.batch_sizes:
    lines += ["", f"Logits {args.config}, batch {batch_size}, length"
              f" {args.max_seq_length}, {args.repeats} rounds:", ""]
    lines += speed_table(
        candidate_specs(args, "forward", batch_size=batch_size), args)
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


def add_speed_arguments(parser, block_seconds):
  """Adds what `train` and `forward` have in common."""
  def comma_list(text):
    return text.split(",")

  add = parser.add_argument
  add("--config", default="tiny",
      help="json file, or the size of one in albert_config")
  add("--max_seq_length", type=int, default=128)
  add("--precision", type=comma_list, default=["float32"],
      help="comma list of float32, bfloat16")
  add("--peer_dir", help="folder of albert_zh, or of a package like"
      " google-research/bert or google-research/albert")
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
  forward.add_argument(
      "--batch_sizes", default=[1, 32], help="comma list",
      type=lambda text: [int(size) for size in text.split(",")])
  data = commands.add_parser("data", help="creation of pre-training data")
  data.set_defaults(run=benchmark_data)
  add = data.add_argument
  add("--input_file", default=os.path.join(ROOT, "demo_data", "corpus",
                                           "news.txt"))
  add("--megabytes", type=float, default=2.0, help="for the comparison")
  add("--segmenters", type=lambda text: text.split(","),
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
