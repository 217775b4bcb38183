"""Flags on devices, batches and clusters: what is refused, and what it means."""

import json
import types

import pytest
import tensorflow.compat.v1 as tf

import bert_utils
import estimator_utils


def options(**changes):
  values = dict(
      use_tpu=False, tpu_name=None, num_gpus=0, require_gpu=False, num_tpu_cores=8,
      do_train=True, gradient_accumulation_steps=1, precision="float32",
      recompute_activations=False, use_xla=False, train_batch_size=32,
      eval_batch_size=8, seed=1)
  values.update(changes)
  return types.SimpleNamespace(**values)


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
  monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.fixture
def gpus(monkeypatch):
  """A function that says how many GPUs there are to be found."""
  def pretend(count):
    monkeypatch.setattr(estimator_utils, "list_gpus",
                        lambda: ["/gpu:%d" % i for i in range(count)])
  pretend(0)
  return pretend


def tf_config(task=("worker", 1), **cluster):
  cluster = cluster or {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
  return json.dumps({"cluster": cluster,
                     "task": {"type": task[0], "index": task[1]}})


# ------------------------------------------------------------------- devices


@pytest.mark.parametrize("found,changes,parts", [
    (0, dict(require_gpu=True), ["--require_gpu", "no GPU"]),
    (0, dict(num_gpus=1), ["--num_gpus is 1", "finds 0"]),
    (2, dict(num_gpus=3), ["--num_gpus is 3", "finds 2"]),
    (2, dict(num_gpus=2, train_batch_size=33),
     ["--train_batch_size 33", "a multiple of 2: 2 GPUs"]),
    (0, dict(gradient_accumulation_steps=3),
     ["--train_batch_size 32", "a multiple of 3", "1 CPU",
      "--gradient_accumulation_steps 3"]),
    (4, dict(num_gpus=4, gradient_accumulation_steps=16),
     ["a multiple of 64: 4 GPUs"])])
def test_devices_that_are_not_there(gpus, found, changes, parts):
  gpus(found)
  with pytest.raises(ValueError) as error:
    estimator_utils.check_devices(options(**changes))
  for part in parts:
    assert part in str(error.value)


def test_devices_that_are_there(gpus):
  estimator_utils.check_devices(options())
  # A batch that nobody trains with may be of any size.
  estimator_utils.check_devices(options(
      do_train=False, gradient_accumulation_steps=3))
  gpus(2)
  estimator_utils.check_devices(options(
      num_gpus=2, require_gpu=True, gradient_accumulation_steps=16))


needs_tpu_estimator = pytest.mark.skipif(
    not estimator_utils.HAS_MULTI_WORKER, reason="refused before, by version")


@needs_tpu_estimator
@pytest.mark.parametrize("changes,parts", [
    (dict(num_gpus=2), ["--num_gpus and --use_tpu"]),
    (dict(require_gpu=True), ["--require_gpu and --use_tpu"]),
    (dict(precision="float16"), ["--precision=float16", "bfloat16"]),
    (dict(use_xla=True), ["--use_xla", "always compiles"]),
    (dict(train_batch_size=36), ["--train_batch_size 36", "8 TPU cores"]),
    (dict(num_tpu_cores=256, eval_batch_size=256),
     ["--train_batch_size 32", "a multiple of 256"]),
    (dict(eval_batch_size=12), ["--eval_batch_size 12", "--num_tpu_cores 8"]),
    (dict(predict_batch_size=4), ["--predict_batch_size 4"])])
def test_flags_that_contradict_a_tpu(changes, parts):
  with pytest.raises(ValueError) as error:
    estimator_utils.check_devices(options(use_tpu=True, **changes))
  for part in parts:
    assert part in str(error.value)
  estimator_utils.check_devices(options(use_tpu=True, precision="bfloat16"))


@needs_tpu_estimator
def test_a_tpu_and_a_cluster(monkeypatch):
  monkeypatch.setenv("TF_CONFIG", tf_config())
  with pytest.raises(ValueError, match="a cluster of 3 and --use_tpu"):
    estimator_utils.check_devices(options(use_tpu=True))


def test_what_an_old_estimator_is_needed_for(monkeypatch, gpus):
  monkeypatch.setattr(estimator_utils, "HAS_MULTI_WORKER", False)
  with pytest.raises(ValueError, match="--use_tpu needs .* up to 2.15"):
    estimator_utils.check_devices(options(use_tpu=True))
  monkeypatch.setenv("TF_CONFIG", tf_config())
  with pytest.raises(ValueError, match="a cluster of 3, .* up to 2.15"):
    estimator_utils.check_devices(options(train_batch_size=33))


def test_paths_of_a_tpu():
  check = estimator_utils.check_tpu_flags
  check(False, None, None, {"output_dir": "out"})
  check(True, "tpu", None, {"output_dir": "gs://b/out", "input_file":
                            "gs://b/a*, gs://b/c*", "init_checkpoint": None})
  with pytest.raises(ValueError, match="--use_tpu needs --tpu_name"):
    check(True, None, None, {})
  with pytest.raises(ValueError, match="--input_file must start with gs://, "
                     "found data/c"):
    check(True, "tpu", None, {"input_file": "gs://b/a,data/c"})


# ------------------------------------------------------------------- workers


def test_who_is_who_in_a_cluster(monkeypatch):
  assert estimator_utils.read_cluster() is None
  assert estimator_utils.is_chief()
  for text in ("", "{}", '{"environment": "cloud", "task": {}}'):
    assert estimator_utils.read_cluster(text) is None
  assert estimator_utils.read_cluster(tf_config()) == (["a:1", "b:1", "c:1"], 2)
  assert estimator_utils.read_cluster(
      tf_config(("chief", "0"))) == (["a:1", "b:1", "c:1"], 0)
  # Without a chief, the first worker is it.
  assert estimator_utils.read_cluster(
      tf_config(("worker", 1), worker=["b:1", "c:1"])) == (["b:1", "c:1"], 1)
  for task, chief in ((("chief", 0), True), (("worker", 0), False)):
    monkeypatch.setenv("TF_CONFIG", tf_config(task))
    assert estimator_utils.is_chief() is chief


@pytest.mark.parametrize("text,parts", [
    ("{cluster", ["not valid json", "found {cluster", "it must be like"]),
    ("[1]", ["TF_CONFIG is [1]", "it must be like"]),
    ('{"cluster": ["a:1"]}', ["it must be like"]),
    ('{"cluster": {"worker": "a:1"}}', ["it must be like"]),
    ('{"cluster": {"chief": ["a:1"]}, "task": 3}', ["it must be like"]),
    ('{"cluster": {"chief": ["a:1"]}}', ["task None None", "1 chief"]),
    (tf_config(("worker", 2)), ["task worker 2", "1 chief and 2 worker"]),
    (tf_config(("chief", 0), worker=["a:1"]), ["task chief 0", "1 worker"]),
    (tf_config(("evaluator", 0)), ["evaluator", "--do_eval without"]),
    (tf_config(ps=["a:1"], worker=["b:1", "c:1"]), ["ps", "only chief and"]),
    (tf_config(chief=["a:1", "b:1"], worker=["c:1", "d:1"]), ["2 chiefs"]),
    (tf_config(worker=["a:1", "b"]), ["address b,", "host:port"]),
    (tf_config(worker=["a:1", "a:1"]), ["address a:1 more than once"]),
    (tf_config(worker=["a:1", "b:99999"]), ["address b:99999", "host:port"]),
    (tf_config(task=(["worker"], 0)), ["task", "its cluster has"])])
def test_clusters_that_cannot_be(text, parts):
  with pytest.raises(ValueError) as error:
    estimator_utils.read_cluster(text)
  for part in parts:
    assert part in str(error.value)


@needs_tpu_estimator
def test_batches_of_a_cluster(monkeypatch, gpus):
  monkeypatch.setenv("TF_CONFIG", tf_config())
  with pytest.raises(ValueError, match="--train_batch_size 32 .* multiple of 3:"
                     " 3 CPUs of 3 workers"):
    estimator_utils.check_devices(options())
  estimator_utils.check_devices(options(train_batch_size=33))
  gpus(4)
  with pytest.raises(ValueError, match="multiple of 12: 12 GPUs of 3 workers"):
    estimator_utils.check_devices(options(train_batch_size=33))
  with pytest.raises(ValueError, match="--num_gpus is 2, .* finds, 4"):
    estimator_utils.check_devices(options(num_gpus=2, train_batch_size=36))


# ------------------------------------------------------------------- dropout


def test_dropout_seeds_are_all_different(monkeypatch):
  found = []
  with tf.Graph().as_default(), tf.Session() as session:
    step = tf.train.get_or_create_global_step()
    ids = tf.zeros([2, 3], tf.int32)
    index = tf.placeholder(tf.int32, [])
    assert estimator_utils.dropout_seed(None, 0, ids, False) is None
    seeds = {}
    for worker in (0, 1):
      monkeypatch.setenv("TF_CONFIG", tf_config(
          ("worker", worker), worker=["a:1", "b:1"]))
      for seed in (1, 2, 2 ** 31 - 1):
        seeds[worker, seed] = estimator_utils.dropout_seed(
            seed, index, ids, False)
    session.run(tf.global_variables_initializer())
    for count in (0, 1):
      session.run(step.assign(count))
      for part in (0, 1, 7):
        found += [tuple(seed) for seed in session.run(
            list(seeds.values()), {index: part})]
    # The same again.
    assert tuple(session.run(seeds[0, 1], {index: 7})) in found
  assert len(set(found)) == len(found) == 2 * 3 * 2 * 3
  assert {seed[1] for seed in found} == {0, 1}


def test_dropout_seeds_of_a_tpu_come_from_what_it_reads():
  with tf.Graph().as_default(), tf.Session() as session:
    tf.train.get_or_create_global_step()
    seeds = [estimator_utils.dropout_seed(5, 0, tf.constant(ids), True)
             for ids in ([[1, 2]], [[1, 3]], [[1, 2]])]
    session.run(tf.global_variables_initializer())
    first, second, third = [tuple(seed) for seed in session.run(seeds)]
  assert first != second
  assert first == third


# ------------------------------------------------------------------- session


@pytest.mark.parametrize("use_xla", [None, True, False])
def test_on_a_cpu_xla_compiles_the_activation_only(use_xla):
  settings = options(use_xla=use_xla)
  config = estimator_utils._session_config(settings, None)
  assert config.graph_options.optimizer_options.global_jit_level == (
      tf.OptimizerOptions.DEFAULT)
  assert config.allow_soft_placement
  assert estimator_utils.model_options(settings)["compile_gelu"] is (
      estimator_utils.HAS_JIT and use_xla is not False)


def test_loops_of_version_1_call_no_compiled_functions(monkeypatch, gpus):
  assert estimator_utils.compiles_gelu(options(use_xla=None)) is (
      estimator_utils.HAS_JIT)
  monkeypatch.setattr(tf, "control_flow_v2_enabled", lambda: False)
  assert not estimator_utils.compiles_gelu(options(use_xla=None))


def test_on_a_gpu_xla_compiles_all_where_it_is_asked_to(gpus):
  gpus(1)
  for use_xla, level in ((True, tf.OptimizerOptions.ON_1),
                         (False, tf.OptimizerOptions.DEFAULT),
                         (None, tf.OptimizerOptions.DEFAULT)):
    settings = options(use_xla=use_xla)
    config = estimator_utils._session_config(settings, None)
    assert config.graph_options.optimizer_options.global_jit_level == level
    assert estimator_utils.model_options(settings)["compile_gelu"] is False
    estimator_utils.check_devices(settings)


def test_xla_where_only_gpus_have_it(monkeypatch, gpus):
  monkeypatch.setattr(estimator_utils, "HAS_JIT", False)
  estimator_utils.check_devices(options())
  with pytest.raises(ValueError, match="--use_xla: .* compiles on GPUs only"):
    estimator_utils.check_devices(options(use_xla=True))
  gpus(1)
  estimator_utils.check_devices(options(use_xla=True))


def test_a_step_that_does_not_come_is_told(monkeypatch):
  told = []
  monkeypatch.setattr(tf.logging, "warning",
                      lambda message, *args: told.append(message % args))
  cluster = estimator_utils.Cluster(["a:1", "b:1"], 1)
  hook = estimator_utils.LostWorkerHook(cluster, seconds=0.05)
  hook.after_create_session(None, None)
  hook._thread.join(0.5)  # which it does not: nobody ends it
  hook.end(None)
  hook._thread.join(10)
  assert not hook._thread.is_alive()
  assert told
  assert "a:1, b:1, this is number 1" in told[0]


def test_a_second_session_means_that_a_worker_is_lost():
  cluster = estimator_utils.Cluster(["a:1", "b:1"], 0)
  hook = estimator_utils.LostWorkerHook(cluster)
  hook.after_create_session(None, None)
  with pytest.raises(bert_utils.InputError, match="connection to another worker"
                     " is lost; .* a:1, b:1, this is number 0"):
    hook.after_create_session(None, None)
  hook.end(None)


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "fast"])
def test_rates_that_are_none(text):
  with pytest.raises(ValueError, match="from 0 on or auto"):
    estimator_utils.RateParser("auto").parse(text)


def test_rates():
  assert estimator_utils.RateParser("auto").parse("auto") == "auto"
  assert estimator_utils.RateParser().parse("5e-5") == 5e-5
  with pytest.raises(ValueError, match="from 0 on$"):
    estimator_utils.RateParser().parse("auto")


def test_a_damaged_input_file_is_said_in_one_sentence(capsys):
  with pytest.raises(SystemExit, match="cut off or damaged .truncated record"):
    with estimator_utils.exit_on(estimator_utils.BAD_RUN):
      raise tf.errors.DataLossError(None, None, "truncated record at 7")
