"""Measures speed and memory, against another code in the same run.

  python scripts/benchmark.py data --input_file=demo_data/corpus/news.txt \\
      --peer_dir=../albert_zh

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


def parse_arguments(argv):
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  commands = parser.add_subparsers(dest="command", metavar="command")
  commands.required = True
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
