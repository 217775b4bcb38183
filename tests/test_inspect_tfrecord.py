"""What inspect_tfrecord.py shows and counts, and that it finds each fault."""

import gzip
import json
import os

import pytest
import tensorflow.compat.v1 as tf

import create_pretraining_data as data
import inspect_tfrecord
import tiny
import tokenization

LENGTH, PREDICTIONS = 16, 4
TOKENS = tiny.TOKENS + ["the", "sing", "##ing", "2019", "##气", "\u2028"]
IDS = {token: index for index, token in enumerate(TOKENS)}
FORM = "a record has other features than it should have"
DAMAGED = "a file is damaged, or no TFRecord file"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
  """The current folder: it has the vocabulary `vocab.txt`."""
  monkeypatch.chdir(tmp_path)
  tiny.write_vocab(tmp_path, TOKENS)
  return tmp_path


def instance(text_a, text_b, masked=(), order=0):
  """A TrainingInstance of blank-separated tokens.

  `masked` has (position, label) pairs; what stands there is what is seen.
  """
  a, b = text_a.split(" "), text_b.split(" ") if text_b else []
  tokens = ["[CLS]"] + a + ["[SEP]"] + (b + ["[SEP]"] if b else [])
  segments = [0] * (len(a) + 2) + ([1] * (len(b) + 1) if b else [])
  return data.TrainingInstance(
      tokens, segments, [position for position, _ in masked],
      [label for _, label in masked], order)


def good():
  return instance("今 天 [MASK] 气 很 好", "我 们 她 公 园",
                  [(3, "天"), (5, "很"), (10, "去")])


def write(examples, names=("train.tfrecord",), **metadata):
  """Writes records and right metadata, but for what is given otherwise."""
  tokenizer = tokenization.FullTokenizer("vocab.txt")
  count = data.write_instance_to_example_files(
      examples, tokenizer, LENGTH, PREDICTIONS, list(names))
  values = {
      "max_seq_length": LENGTH, "max_predictions_per_seq": PREDICTIONS,
      "vocab_size": len(TOKENS), "instances": count,
      "vocab_hash": tokenization.vocab_hash(tokenizer.vocab),
      "vocab_file": os.path.abspath("vocab.txt"),
      "predictions": sum(len(each.masked_lm_labels) for each in examples),
      "instances_labelled_1": sum(each.is_random_next for each in examples)}
  values.update(metadata)
  data.write_metadata(list(names), {
      key: value for key, value in values.items() if value is not None})


def features(**changes):
  """The features of a good record, by hand: lists of numbers."""
  # [CLS] 今 天 [MASK] 很 [SEP] 我 们 [MASK] [SEP], and 6 of padding.
  ids = [IDS[token] for token in
         "[CLS] 今 天 [MASK] 很 [SEP] 我 们 [MASK] [SEP]".split()]
  values = {
      "input_ids": ids + [0] * 6, "input_mask": [1] * 10 + [0] * 6,
      "segment_ids": [0] * 6 + [1] * 4 + [0] * 6,
      "masked_lm_positions": [3, 4, 8, 0],
      "masked_lm_ids": [IDS["气"], IDS["很"], IDS["去"], 0],
      "masked_lm_weights": [1.0, 1.0, 1.0, 0.0],
      "next_sentence_labels": [1]}
  values.update(changes)
  return values


def put(name, index, value):
  """A change of one number of a good record's feature."""
  values = list(features()[name])
  values[index] = value
  return {name: values}


def serialized(values):
  feature = {}
  for name, numbers in values.items():
    if numbers is not None:
      make = (data.create_float_feature if isinstance(numbers[0], float)
              else data.create_int_feature)
      feature[name] = make(numbers)
  return tf.train.Example(
      features=tf.train.Features(feature=feature)).SerializeToString()


def write_raw(records, name="foreign.tfrecord", compression=""):
  """Writes records, dicts of features or bytes, without metadata."""
  options = tf.io.TFRecordOptions(compression_type=compression)
  with tf.io.TFRecordWriter(name, options) as writer:
    for record in records:
      writer.write(record if isinstance(record, bytes) else serialized(record))


def run(capsys, *arguments):
  """Runs the script; returns (exit code, output, errors)."""
  code = inspect_tfrecord.main(list(arguments))
  captured = capsys.readouterr()
  return code, captured.out, captured.err


def report(capsys, *arguments):
  """The exit code, and the report as a dict."""
  code, out, _ = run(capsys, "--json", *arguments)
  return code, json.loads(out)


def check(capsys, *arguments):
  """What --check finds: a dict of kinds, with count and examples."""
  if not [name for name in arguments if name.startswith("--vocab_file")]:
    arguments += ("--vocab_file=vocab.txt",)
  code, found = report(capsys, "--check", *arguments)
  assert code == int(bool(found["problems"]))
  return {each["kind"]: (each["count"], each["examples"])
          for each in found["problems"]}


# -------------------------------------------------------------------- instances


def test_an_instance_as_a_person_reads_it(capsys):
  write([good()])
  code, out, _ = run(capsys, "train.tfrecord", "--no_statistics")
  assert code == 0
  assert out == (
      "train.tfrecord, record 1: 14 of 16 tokens (88%), 3 of 4 predictions,"
      " label 0: in order\n"
      "  A  今天[MASK→天]气[很=很]好\n"
      "  B  我们[她→去]公园\n")


def test_words_of_letters_pieces_and_peers_labels(capsys):
  write([instance("the sing ##ing 2019 天", "the [MASK] [MASK] [UNK] \u2028 气",
                  [(8, "sing"), (9, "##ing"), (12, "##气")])])
  _, out, _ = run(capsys, "train.tfrecord", "--no_statistics")
  assert out.split("\n")[1:3] == [
      "  A  the singing 2019天",
      "  B  the [MASK→sing][MASK→##ing][UNK]\\u2028[气=##气]"]


@pytest.mark.parametrize("task,order,words", [
    ("sop", 1, "swapped"), ("nsp", 0, "follows"), ("nsp", 1, "random"),
    ("none", 0, "no second segment")])
def test_order_labels_in_words(capsys, task, order, words):
  write([instance("今 天", "很 好" if task != "none" else "", order=order)],
        sentence_pair_task=task)
  _, out, _ = run(capsys, "train.tfrecord", "--no_statistics")
  assert f"label {order}: {words}\n" in out
  assert ("  B  很好" in out) == (task != "none")


def shown(capsys, *arguments):
  _, out, _ = run(capsys, "a.tfrecord", "b.tfrecord", "--no_statistics",
                  *arguments)
  return [line.split(":")[0].replace(".tfrecord, record ", "")
          for line in out.split("\n") if "record" in line]


def test_which_instances_are_shown(capsys, monkeypatch):
  monkeypatch.setattr(inspect_tfrecord, "BATCH_SIZE", 2)
  write([good()] * 10, ["a.tfrecord", "b.tfrecord"])
  assert shown(capsys) == ["a1", "a2", "a3"]
  assert shown(capsys, "--num_instances=2", "--skip=4") == ["a5", "b1"]
  assert shown(capsys, "--num_instances=0") == []
  samples = [shown(capsys, f"--random_seed={seed}", "--skip=1")
             for seed in range(20)]
  assert samples[7] == shown(capsys, "--random_seed=7", "--skip=1")
  assert all(len(set(sample)) == 3 and sample == sorted(sample)
             for sample in samples)
  assert len(set(sum(samples, []))) == 9 and "a1" not in sum(samples, [])


def test_skipping_everything_is_an_error(capsys):
  write([good()] * 2)
  code, _, err = run(capsys, "train.tfrecord", "--skip=2")
  assert code == 1
  assert "--skip is 2, but there are only 2 readable records" in err


def test_without_statistics_no_more_is_read_than_shown(capsys, monkeypatch):
  monkeypatch.setattr(inspect_tfrecord, "BATCH_SIZE", 1)
  write_raw([features()] * 3 + [b"\xff"])
  arguments = ("foreign.tfrecord", "--vocab_file=vocab.txt")
  assert run(capsys, *arguments, "--no_statistics")[0] == 0
  assert run(capsys, *arguments)[0] == 1


# ------------------------------------------------------------------- statistics


def test_statistics(capsys):
  write([good(), good(), instance("天 天 [UNK] 气", "天", [
      (1, "气"), (2, "天"), (3, "天"), (4, "气")], order=1)],
        ["a.tfrecord", "b.tfrecord"])
  code, found = report(capsys, "a.tfrecord", "b.tfrecord")
  statistics = found["statistics"]
  assert code == 0 and len(found["instances"]) == 3 and not found["problems"]
  frequent = statistics.pop("frequent_tokens")
  # 2 x 11 tokens and 5: 天 4 and 3 of them, 气 2 and 2.
  assert list(frequent.items())[:2] == [("天", 0.259259), ("气", 0.148148)]
  assert "[CLS]" not in frequent and "[MASK]" not in frequent
  assert statistics == {
      "files": 2, "files_without_metadata": 0, "records": 3,
      "max_seq_length": {"16": 3}, "max_predictions_per_seq": {"4": 3},
      "length": {"mean": 12.0, "median": 14.0, "max": 14}, "fill": 0.75,
      "predictions": {"mean": 3.333, "median": 3.0, "max": 4},
      "predictions_at_cap": 0.333333, "predictions_per_token": 0.277778,
      "masked_inputs": {"[MASK]": 0.2, "kept": 0.4, "replaced": 0.4},
      "labels": {"0": 0.666667, "1": 0.333333}, "unknown_share": 0.0,
      "length_histogram": {"1-2": 0, "3-4": 0, "5-6": 0, "7-8": 1, "9-10": 0,
                           "11-12": 0, "13-14": 2, "15-16": 0}}


def test_unknown_tokens_and_the_median_between_two(capsys):
  write([instance("[UNK] 天", "气 好"), instance("天 天 [MASK]", "好 好 好",
                                                [(3, "[UNK]")])])
  statistics = report(capsys, "train.tfrecord")[1]["statistics"]
  assert statistics["unknown_share"] == 0.2
  assert statistics["length"]["median"] == 8.0


def test_labels_of_albert_zh_count_as_kept(capsys):
  write([instance("天 气", "气 好", [(2, "##气"), (4, "好")])])
  statistics = report(capsys, "train.tfrecord")[1]["statistics"]
  assert statistics["masked_inputs"] == {
      "[MASK]": 0.0, "kept": 0.5, "replaced": 0.5}
  assert statistics["frequent_tokens"] == {"好": 0.5, "天": 0.25, "气": 0.25}


def test_statistics_on_the_terminal(capsys):
  write([good()] * 3)
  _, out, _ = run(capsys, "train.tfrecord", "--num_instances=0")
  lines = out.split("\n")
  assert "records                  3" in lines
  assert "fill                     87.50%" in lines
  assert "length                   mean 14.0, median 14.0, max 14" in lines
  assert "labels                   0 100.00%" in lines
  assert "  length 13-14                 3 " + "#" * 40 in lines


# -------------------------------------------------------------------- the check


def test_right_records_pass(capsys):
  write([good()] * 5, ["a.tfrecord", "b.tfrecord"],
        instances_per_file=[3, 2], compression="")
  code, out, err = run(capsys, ".", "--check")
  assert code == 0
  assert "the check found nothing wrong" in out
  assert "vocab.txt, as metadata.json has it" in err


@pytest.mark.parametrize("changes,kind,place", [
    (put("input_ids", 2, len(TOKENS)), "input_ids is outside the vocabulary",
     "input_ids[2] is %d" % len(TOKENS)),
    (put("input_ids", 2, -1), "input_ids is outside", "input_ids[2] is -1"),
    (put("masked_lm_ids", 1, 99), "masked_lm_ids is outside",
     "masked_lm_ids[1] is 99"),
    (put("input_mask", 4, 0), "input_mask is not ones, then zeros",
     "input_mask[4] is 0"),
    (put("input_mask", 4, 2), "input_mask is not ones", "input_mask[4] is 2"),
    (put("input_ids", 7, 0), "input_ids has [PAD] in the text",
     "input_ids[7] is 0"),
    (put("input_ids", 12, 9), "input_ids has [PAD] in the text, or something",
     "input_ids[12] is 9"),
    (put("input_ids", 0, IDS["天"]), "input_ids has no [CLS]", "input_ids[0]"),
    (put("input_ids", 1, IDS["[CLS]"]), "input_ids has no [CLS] at the"
     " beginning, or one elsewhere", "input_ids[1]"),
    (put("input_ids", 5, IDS["天"]), "input_ids has no [SEP]", "input_ids[5]"),
    (put("input_ids", 9, IDS["天"]), "input_ids has no [SEP]", "input_ids[9]"),
    (put("input_ids", 7, IDS["[SEP]"]), "input_ids has no [SEP] where a"
     " segment ends, or one elsewhere", "input_ids[7]"),
    (put("segment_ids", 9, 2), "segment_ids is neither 0 nor 1",
     "segment_ids[9] is 2"),
    (put("segment_ids", 7, 0), "segment_ids does not begin with 0, or falls",
     "segment_ids[7] is 0"),
    (put("segment_ids", 12, 1), "segment_ids is not 0 on padding",
     "segment_ids[12] is 1"),
    (put("masked_lm_positions", 2, 12), "masked_lm_positions is not inside",
     "masked_lm_positions[2] is 12"),
    (put("masked_lm_positions", 3, 16), "masked_lm_positions is not inside",
     "masked_lm_positions[3] is 16"),
    ({"masked_lm_positions": [3, 8, 4, 0]}, "masked_lm_positions is not larger",
     "masked_lm_positions[2] is 4"),
    (put("masked_lm_positions", 1, 3), "masked_lm_positions is not larger than"
     " the one before", "masked_lm_positions[1] is 3"),
    (dict(put("masked_lm_positions", 2, 9), **put(
        "masked_lm_ids", 2, IDS["[SEP]"])), "masked_lm_positions is on [CLS]",
     "masked_lm_positions[2] is 9"),
    (dict(put("masked_lm_positions", 0, 0), **put(
        "masked_lm_ids", 0, IDS["[CLS]"])), "masked_lm_positions is on [CLS]"
     " or [SEP]", "masked_lm_positions[0] is 0"),
    (put("masked_lm_weights", 1, 0.0), "masked_lm_weights is not 1 for the",
     "masked_lm_weights[1] is 0.0"),
    (put("masked_lm_weights", 0, 0.5), "masked_lm_weights is not 1 for the"
     " predictions, then 0", "masked_lm_weights[0] is 0.5"),
    ({"next_sentence_labels": [2]}, "next_sentence_labels is neither 0 nor 1",
     "next_sentence_labels[0] is 2"),
])
def test_a_wrong_value(capsys, changes, kind, place):
  write_raw([features(), features(**changes), features()])
  found = check(capsys, "foreign.tfrecord")
  assert len(found) == 1, found
  (name, (count, examples)), = found.items()
  assert name.startswith(kind)
  assert count == 1 and len(examples) == 1
  assert examples[0].startswith("foreign.tfrecord, record 2: " + place)


@pytest.mark.parametrize("record,message", [
    (features(input_mask=[1] * 8), "input_mask has 8 values in a int64_list,"
     " expected 16 in a int64_list"),
    (features(masked_lm_weights=[1.0] * 5), "masked_lm_weights has 5 values in"
     " a float_list, expected 4 in a float_list"),
    (features(next_sentence_labels=[0, 1]), "next_sentence_labels has 2 values"
     " in a int64_list, expected 1 in a int64_list"),
    (features(token_boundary=[0]), "token_boundary has 1 values in a"
     " int64_list, expected 16 in a int64_list"),
    (features(segment_ids=[0.0] * 16), "segment_ids has 16 values in a"
     " float_list, expected 16 in a int64_list"),
    (features(masked_lm_ids=None), "masked_lm_ids has no values in a list,"
     " expected 4 in a int64_list"),
    (b"\xff\xff", "it is no tf.train.Example"),
])
@pytest.mark.parametrize("position", [0, 2])
def test_a_record_of_another_form(capsys, monkeypatch, record, message,
                                  position):
  monkeypatch.setattr(inspect_tfrecord, "BATCH_SIZE", 2)
  records = [features(), features(), features()]
  records.insert(position, record)
  write_raw(records)
  assert list(check(capsys, "foreign.tfrecord")) == [FORM]
  code, found = report(capsys, "foreign.tfrecord", "--vocab_file=vocab.txt")
  assert code == 1  # without --check too
  assert found["statistics"]["records"] == 3
  example, = found["problems"][0]["examples"]
  assert example == f"foreign.tfrecord, record {position + 1}: {message}"


def test_files_of_one_set_have_one_shape(capsys):
  write_raw([features()], "a.tfrecord")
  longer = {name: values + [0] * 16 for name, values in features().items()
            if name in ("input_ids", "input_mask", "segment_ids")}
  write_raw([features(**longer)], "b.tfrecord")
  assert check(capsys, "a.tfrecord", "b.tfrecord") == {FORM: (1, [
      "b.tfrecord, record 1: input_ids has 32 values in a int64_list, expected"
      " 16 in a int64_list"])}
  assert check(capsys, "b.tfrecord") == {}


def test_few_examples_and_the_count(capsys, monkeypatch):
  monkeypatch.setattr(inspect_tfrecord, "BATCH_SIZE", 2)
  wrong = features(next_sentence_labels=[3])
  write_raw([wrong] + [features()] + [wrong] * 9)
  code, out, err = run(capsys, "foreign.tfrecord", "--check",
                       "--vocab_file=vocab.txt", "--num_instances=0")
  assert code == 1
  assert out.endswith(
      "\n\nwrong, 10 times: next_sentence_labels is neither 0 nor 1\n" +
      "".join(f"  foreign.tfrecord, record {number}: next_sentence_labels[0]"
              " is 3\n" for number in (1, 3, 4)))
  assert "error: 10 things are wrong" in err


def test_peers_records_are_right(capsys):
  # A replaced token may be any, labels may have ##, and of google's writer
  # there is one more feature.
  write_raw([
      features(**put("input_ids", 3, IDS["[SEP]"])),
      features(**put("input_ids", 8, 0)),
      features(**put("masked_lm_ids", 0, IDS["##气"])),
      features(token_boundary=[0] * 16)])
  arguments = ("foreign.tfrecord", "--check", "--vocab_file=vocab.txt")
  code, out, err = run(capsys, *arguments)
  assert code == 0
  assert "天[[SEP]→气]" in out and "天[MASK→##气]" in out
  assert "files without metadata   1\n" in out
  assert "no metadata.json describes foreign.tfrecord" in err


@pytest.mark.parametrize("task,right", [
    ("sop", False), ("nsp", False), ("none", True)])
def test_number_of_segments(capsys, task, right):
  write([instance("今 天 天 气", "", [(1, "今")])], sentence_pair_task=task)
  number = 1 if right else 2
  wrong = f"segment_ids is not of {number} segments"
  assert list(check(capsys, "train.tfrecord")) == ([] if right else [wrong])
  write([good()], sentence_pair_task=task)
  assert list(check(capsys, "train.tfrecord")) == ([wrong] if right else [])


# ---------------------------------------------------------------- damaged files


def damage(name, cut=None, flip=None):
  with open(name, "rb") as reader:
    content = bytearray(reader.read())
  if flip is not None:
    content[flip] ^= 0x55
  with open(name, "wb") as writer:
    writer.write(content[:cut])
  return len(content)


@pytest.mark.parametrize("batch_size", [2, 512])
@pytest.mark.parametrize("rest,message", [
    (-1, "truncated record"), (-30, "truncated record"),
    # TensorFlow itself takes this for the end of the file.
    (5, "5 bytes are left that are not read as a record")])
def test_a_truncated_file(capsys, monkeypatch, batch_size, rest, message):
  monkeypatch.setattr(inspect_tfrecord, "BATCH_SIZE", batch_size)
  write_raw([features()] * 8)
  size = os.path.getsize("foreign.tfrecord") // 8
  damage("foreign.tfrecord", cut=5 * size + rest)
  number = 5 if rest > 0 else 4
  found = check(capsys, "foreign.tfrecord")
  assert list(found) == [DAMAGED]
  assert found[DAMAGED][1][0].startswith(
      f"foreign.tfrecord, after record {number}: {message}")
  code, found = report(capsys, "foreign.tfrecord", "--vocab_file=vocab.txt")
  assert code == 1 and found["statistics"]["records"] == number


def test_a_corrupted_file(capsys):
  write_raw([features()] * 8)
  size = os.path.getsize("foreign.tfrecord") // 8
  damage("foreign.tfrecord", flip=3 * size + 40)
  write_raw([features()] * 2, "good.tfrecord")
  found = check(capsys, "foreign.tfrecord", "good.tfrecord")
  assert list(found) == [DAMAGED] and found[DAMAGED][0] == 1
  assert found[DAMAGED][1][0].startswith(
      "foreign.tfrecord, after record 3: corrupted record at ")


def test_files_that_are_no_records(capsys):
  tiny.write("text.tfrecord", "今天天气很好。\n" * 9)
  tiny.write("empty.tfrecord", "")
  found = check(capsys, "text.tfrecord", "empty.tfrecord")
  assert list(found) == [DAMAGED] and found[DAMAGED][0] == 2
  assert found[DAMAGED][1][0].startswith(
      "text.tfrecord, after record 0: corrupted record at 0")
  assert found[DAMAGED][1][1] == "empty.tfrecord, after record 0: it is empty"


def test_gzip_is_known_by_its_first_bytes(capsys):
  write_raw([features()] * 3, "packed.tfrecord", "GZIP")
  with open("packed.tfrecord", "rb") as reader:
    assert reader.read(2) == b"\x1f\x8b"
  assert check(capsys, "packed.tfrecord") == {}
  _, found = report(capsys, "packed.tfrecord", "--vocab_file=vocab.txt")
  assert found["statistics"]["records"] == 3


@pytest.mark.parametrize("cut", [-4, -20])
def test_a_truncated_gzip_file(capsys, cut):
  write_raw([features()] * 3, "packed.tfrecord", "GZIP")
  damage("packed.tfrecord", cut=cut)
  found = check(capsys, "packed.tfrecord")
  assert list(found) == [DAMAGED]
  assert found[DAMAGED][1][0].startswith("packed.tfrecord, after record ")


def test_a_gzip_file_of_several_members(capsys):
  # TensorFlow 1 ends with the first member: then what follows is a problem.
  write_raw([features()] * 3)
  with open("foreign.tfrecord", "rb") as reader:
    content = reader.read()
  with open("packed.tfrecord", "wb") as writer:
    writer.write(gzip.compress(content) + gzip.compress(content))
  found = check(capsys, "packed.tfrecord")
  if tf.__version__.startswith("1."):
    assert found[DAMAGED][1] == [
        f"packed.tfrecord, after record 3: {len(content)} bytes are left that"
        " are not read as a record"]
  else:
    assert found == {}


# --------------------------------------------------------------------- metadata


@pytest.mark.parametrize("key,value,found", [
    ("instances", 4, 3), ("instances_labelled_1", 2, 1), ("predictions", 9, 6),
    ("max_seq_length", 32, LENGTH), ("max_predictions_per_seq", 5, PREDICTIONS),
    ("vocab_size", 99, len(TOKENS)), ("compression", "GZIP", "")])
def test_metadata_that_does_not_fit(capsys, key, value, found):
  write([good(), good(), instance("今", "天", order=1)], **{key: value})
  kind = f"metadata.json has another {key}"
  assert check(capsys, ".") == {kind: (1, [
      f"./metadata.json: {key} is {value}, but {found} in " + (
          "vocab.txt" if key.startswith("vocab") else
          "train.tfrecord" if key.startswith(("inst", "pred")) else
          "./train.tfrecord")])}


def test_counts_of_each_file(capsys):
  write([good()] * 3, ["a.tfrecord", "b.tfrecord"], instances_per_file=[1, 2])
  found = check(capsys, ".")
  assert found == {"metadata.json has another instances_per_file": (2, [
      "./metadata.json: instances_per_file is 1, but 2 in ./a.tfrecord",
      "./metadata.json: instances_per_file is 2, but 1 in ./b.tfrecord"])}


def test_another_vocabulary_than_the_records(capsys):
  write([good()])
  tiny.write("other.txt", "".join(
      token + "\n" for token in TOKENS[:5] + TOKENS[:4:-1]))
  found = check(capsys, ".", "--vocab_file=other.txt")
  (kind, (_, examples)), = found.items()
  assert kind == "metadata.json has another vocab_hash"
  assert examples[0].endswith("in other.txt")
  code, _, err = run(capsys, ".", "--vocab_file=other.txt")
  assert code == 0
  assert "./metadata.json is about another vocabulary than other.txt" in err


def test_which_vocabulary_is_taken(capsys):
  write([good()])
  assert f"vocabulary: {os.path.abspath('vocab.txt')}, as metadata.json" in run(
      capsys, ".")[2]
  tiny.write_vocab(".", TOKENS + ["new"])  # its hash does not fit any more
  _, out, err = run(capsys, ".")
  assert f"vocabulary: {inspect_tfrecord.PROJECT_VOCAB}, as no" in err
  assert "[unused" in out
  os.remove("vocab.txt")
  assert inspect_tfrecord.PROJECT_VOCAB in run(capsys, ".")[2]


# ------------------------------------------------------------------- the inputs


def test_a_folder_is_what_its_metadata_lists(capsys):
  write([good()] * 2, ["dev.tfrecord"])
  write([good()] * 3, ["a.tfrecord", "b.record"])
  write_raw([features()], "foreign.tfrecord")
  assert check(capsys, ".") == {}
  _, _, err = run(capsys, ".")
  assert ("metadata.json of . does not list, not inspected: foreign.tfrecord"
          in err)
  _, found = report(capsys, ".", "a.tfrecord", "./d*.tfrecord")
  assert found["statistics"]["files"] == 3  # each once
  assert found["statistics"]["records"] == 5
  os.remove("b.record")
  assert check(capsys, ".") == {"a file is missing": (1, [
      "./b.record is listed in metadata.json only"])}


def test_a_folder_without_metadata(capsys):
  write_raw([features()], "a.tfrecord")
  write_raw([features()], "b.tfrecord")
  tiny.write("notes.txt", "text")
  _, found = report(capsys, ".", "--vocab_file=vocab.txt")
  assert found["statistics"]["files"] == 2
  assert found["statistics"]["files_without_metadata"] == 2
  _, _, err = run(capsys, ".", "--vocab_file=vocab.txt")
  assert "no metadata.json describes ./a.tfrecord and 1 more" in err


def test_a_part_of_a_set_has_no_counts_to_compare(capsys):
  write([good()] * 3, ["a.tfrecord", "b.tfrecord"])
  code, _, err = run(capsys, "--check", "a.tfrecord")
  assert code == 0
  assert "not all files of the set are inspected, so its counts" in err
  # The other half of this set is in another folder.
  write([good()] * 3, ["a.tfrecord", "b.tfrecord"], instances=7,
        instances_per_file=[2, 1])
  code, _, err = run(capsys, "--check", ".")
  assert code == 0 and "not all files of the set are inspected" in err


@pytest.mark.parametrize("content", ["[]", "{", '{"files": 3}', '{"a": 1}'])
def test_foreign_metadata(capsys, content):
  write_raw([features()])
  tiny.write("metadata.json", content)
  code, out, err = run(capsys, "foreign.tfrecord")
  assert code == 1 and not out
  assert "metadata.json is not a file that create_pretraining_data.py" in err


@pytest.mark.parametrize("name", ["nothing.tfrecord", "no*.tfrecord", "folder"])
def test_inputs_that_are_no_files(capsys, folder, name):
  (folder / "folder").mkdir()
  code, out, err = run(capsys, name)
  assert code == 1 and not out
  assert err.startswith(
      f"inspect_tfrecord.py: error: {name} stands for no file: give")


def test_the_command():
  write([good()])
  script = os.path.join("scripts", "inspect_tfrecord.py")
  result = tiny.run_script(script, ".", "--check")
  assert result.returncode == 0, result.stderr
  assert "今天[MASK→天]气[很=很]好" in result.stdout
  assert "[MASK→气]" in tiny.run_script(script, "--help").stdout
  tiny.assert_fails(tiny.run_script(script, ".", "--num_instances=-1"),
                    "found '-1', expected 0 or more")
  tiny.assert_fails(tiny.run_script(script, ".", vocab_file="none.txt"),
                    "none.txt", "cannot read the vocabulary")
