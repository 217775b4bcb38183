"""The processes that benchmark.py measures: started, watched, told to run."""

import collections
import glob
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class BenchmarkError(Exception):
  """What stops the run; its text is the whole message for the user."""


class OutOfMemory(Exception):
  """A candidate needs more than it may have."""


# What a candidate did: its name, its spec, Python and TensorFlow it ran on,
# seconds of a step in each round, those of all its cores together, and peak
# resident bytes.
Measured = collections.namedtuple(
    "Measured", ["name", "spec", "versions", "seconds", "cpu_seconds",
                 "peak_bytes"])


def log(message):
  print(message, file=sys.stderr, flush=True)


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
    self.versions = None  # known when it is ready
    self._max_bytes = max_bytes
    self._log = tempfile.NamedTemporaryFile(dir=folder)
    self._process = subprocess.Popen(
        [python, os.path.join(ROOT, "scripts", "benchmark_graphs.py"),
         json.dumps(spec)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
        universal_newlines=True,
        env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3"))

  def ready(self):
    """Waits for the warm-up; returns the seconds of a step."""
    answer = self._answer()
    self.versions = answer["versions"]
    return answer["seconds"]

  def run(self, steps):
    """Runs steps; returns seconds of one of them, and those of all cores."""
    self._process.stdin.write(f"{steps}\n")
    self._process.stdin.flush()
    answer = self._answer()
    return answer["seconds"] / steps, answer["cpu_seconds"] / steps

  def _answer(self):
    """Waits for the next line of json; returns its dict."""
    while not select.select([self._process.stdout], [], [], 0.5)[0]:
      if self._max_bytes and self.peak_bytes() > self._max_bytes:
        raise OutOfMemory(f"more than {self._max_bytes / 1e9:.1f} GB")
    line = self._process.stdout.readline()
    answer = json.loads(line) if line else {}
    if "error" in answer:
      raise BenchmarkError(f"{self.name}: {answer['error']}")
    if answer:
      return answer
    code = self._process.wait()
    if code == -signal.SIGKILL:  # by the kernel, which had none left
      raise OutOfMemory("more than there is")
    with open(self._log.name, encoding="utf-8", errors="replace") as reader:
      end = "".join(reader.readlines()[-15:])
    raise BenchmarkError(f"{self.name} ended with exit code {code}:\n{end}")

  def peak_bytes(self):
    """Its largest resident memory up to now, TensorFlow's own included."""
    return peak_memory(self._process.pid)[0]

  def close(self):
    """Ends the process."""
    self._process.kill()
    self._process.communicate()
    self._log.close()


def run_in_turn(specs, repeats, steps, block_seconds, max_bytes=None):
  """Runs candidates in turn.

  Args:
    specs: dict, name -> (interpreter, spec).
    repeats: int, rounds.
    steps: int, steps of a block; None for as many as fill block_seconds.
    block_seconds: float, how long the slowest candidate's block lasts.
    max_bytes: number, memory that each may have, or None.

  Returns:
    List of Measured.

  Raises:
    BenchmarkError: a candidate could not be built or ended.
    OutOfMemory: a candidate had more than max_bytes.
  """
  candidates = []
  with tempfile.TemporaryDirectory() as folder:
    try:
      slowest = 0
      for name, (python, spec) in specs.items():
        # One after the other: warming up together would take longer.
        candidates.append(Candidate(name, python, spec, folder, max_bytes))
        slowest = max(slowest, candidates[-1].ready())
      steps = steps or max(1, round(block_seconds / slowest))
      rounds = collections.OrderedDict((name, []) for name in specs)
      for repeat in range(repeats):
        for candidate in candidates:
          rounds[candidate.name].append(candidate.run(steps))
        log(f"  round {repeat + 1} of {repeats}, steps {steps}, ms a step: " +
            ", ".join(f"{name} {1e3 * each[-1][0]:.1f}"
                      for name, each in rounds.items()))
      return [Measured(each.name, each.spec, each.versions,
                       *zip(*rounds[each.name]), each.peak_bytes())
              for each in candidates]
    finally:
      for candidate in candidates:
        candidate.close()
