"""The pipeline's instances are the local script's."""

import gzip
import json
import os
import struct
import subprocess
import sys

import pytest

pytest.importorskip("apache_beam")

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VOCAB_FILE = os.path.join(ROOT, "albert_config", "vocab.txt")
LOCAL = "create_pretraining_data.py"
BEAM = os.path.join("scripts", "create_pretraining_data_beam.py")


def run(script, *flags):
  return subprocess.run(
      [sys.executable, os.path.join(ROOT, script), "--vocab_file=" + VOCAB_FILE,
       "--max_seq_length=32"] + list(flags), stdout=subprocess.PIPE,
      stderr=subprocess.PIPE, encoding="utf-8")


def read_records(folder):
  """The records of all files of a folder; TensorFlow need not be there."""
  records = []
  for path in folder.glob("pretrain.tfrecord*"):
    content = path.read_bytes()
    if ".gz" in path.name:
      content = gzip.decompress(content)
    while content:
      end = 12 + struct.unpack("<Q", content[:8])[0]
      records.append(content[12:end])
      content = content[end + 4:]
  return records


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  """Files of several documents; one is compressed, one is of another form."""
  folder = tmp_path_factory.mktemp("corpus")
  documents = ["第%d天我们去公园玩，天气很好。\n他说：“比赛%d号开始！”\n" % (i, i * i)
               for i in range(40)]
  (folder / "a.txt").write_text("\n".join(documents[:20]), encoding="utf-8")
  with gzip.open(str(folder / "b.txt.gz"), "wb") as writer:
    writer.write(("\ufeff" + "\n".join(documents[20:]) + "\n好\n").encode("utf-8"))
  return folder


@pytest.mark.parametrize("flags", [
    ("--do_whole_word_mask", "--ngram=2", "--dupe_factor=3", "--gzip"),
    ("--sentence_pair_task=none", "--dupe_factor=2", "--random_seed=5")])
def test_the_instances_are_the_local_scripts(tmp_path, corpus, flags):
  flags = flags + ("--input_file=%s/*" % corpus, "--num_shards=2")
  for script, name in ((LOCAL, "local"), (BEAM, "beam")):
    result = run(script, "--output_dir=%s" % (tmp_path / name), *flags)
    assert result.returncode == 0, result.stderr
  local, pipeline = (read_records(tmp_path / name) for name in ("local", "beam"))
  assert len(local) > 80
  assert sorted(local) == sorted(pipeline)
  metadata = [json.loads((tmp_path / name / "metadata.json").read_text())
              for name in ("local", "beam")]
  assert sorted(metadata[0].pop("instances_per_file")) and (
      metadata[0] == metadata[1])


def test_neighbours_are_of_different_documents(tmp_path, corpus):
  result = run(BEAM, "--output_dir=%s" % (tmp_path / "out"), "--num_shards=1",
               "--input_file=%s/*" % corpus, "--dupe_factor=10",
               "--sentence_pair_task=none", "--masked_lm_prob=0")
  assert result.returncode == 0, result.stderr
  records = read_records(tmp_path / "out")
  # Unmasked, the ten uses of a document are ten equal records.
  repeats = sum(first == second for first, second in zip(records, records[1:]))
  assert repeats < len(records) / 5


@pytest.mark.parametrize("flags,message", [
    (["--input_file={}/none*"], "no file matches"),
    (["--input_file={}/*", "--runer=DirectRunner"], "knows --runer=Direct"),
    (["--input_file={}/*", "--sentence_pair_task=nsp"], "use create_pretrain"),
    (["--input_file=-"], "a pipeline reads files"),
    (["--input_file={}/*", "--text_field=x", "--input_format=jsonl"],
     "line 1 is not a JSON object")])
def test_mistakes(tmp_path, corpus, flags, message):
  result = run(BEAM, "--output_dir=%s" % (tmp_path / "out"),
               *[flag.format(corpus) for flag in flags])
  assert result.returncode != 0
  assert message in result.stderr.splitlines()[-1]
  assert not (tmp_path / "out" / "metadata.json").exists()
