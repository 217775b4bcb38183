"""Documents, pairs, words and masks, on the small inputs where peers fail."""

import collections
import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import create_pretraining_data as data
import instance_utils
import tokenization
import word_segmentation

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VOCAB_FILE = os.path.join(ROOT, "albert_config", "vocab.txt")


@pytest.fixture(scope="module")
def tokenizer():
  return tokenization.FullTokenizer(VOCAB_FILE)


@pytest.fixture(scope="module")
def vocab_words(tokenizer):
  return list(tokenizer.vocab)


@pytest.fixture(scope="module")
def line_tokenizer(tokenizer):
  return data.LineTokenizer(tokenizer, word_segmentation.Segmenter(), whole_words=True)


def as_document(*sentences):
  return [data.segment_from_tokens(list(sentence)) for sentence in sentences]


def pairs_of(document, length, short_seq_prob=0.0, task="sop", seed=0,
             others=(), **options):
  """Token lists of the instances of a document, and their labels."""
  instances = data.create_instances_from_document(
      [document] + list(others), 0, length, short_seq_prob, 0.0, 20, ["字"],
      random.Random(seed), sentence_pair_task=task, **options)
  return [("".join(instance.tokens), instance.is_random_next)
          for instance in instances]


def create(tmp_path, texts, *flags, **kwargs):
  """Runs the script on files of the given contents."""
  for name, text in texts.items():
    (tmp_path / name).write_bytes(
        text if isinstance(text, bytes) else text.encode("utf-8"))
  arguments = collections.OrderedDict([
      ("input_file", str(tmp_path / "*.txt")),
      ("output_file", str(tmp_path / "out.tfrecord")),
      ("vocab_file", VOCAB_FILE), ("max_seq_length", 32), ("dupe_factor", 1)])
  arguments.update(kwargs)
  return subprocess.run(
      [sys.executable, os.path.join(ROOT, "create_pretraining_data.py")] +
      ["--%s=%s" % item for item in arguments.items()] + list(flags),
      stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
      encoding="utf-8")


def read_records(path, length=32, predictions=20):
  """All records of a file as dicts of arrays."""
  records = []
  for record in tf.python_io.tf_record_iterator(str(path)):
    feature = tf.train.Example.FromString(record).features.feature
    assert sorted(feature) == [
        "input_ids", "input_mask", "masked_lm_ids", "masked_lm_positions",
        "masked_lm_weights", "next_sentence_labels", "segment_ids"]
    values = {}
    for name, value in feature.items():
      kind = ("float_list" if name == "masked_lm_weights" else "int64_list")
      assert value.WhichOneof("kind") == kind
      values[name] = np.array(getattr(value, kind).value)
      size = (1 if name == "next_sentence_labels" else
              predictions if name.startswith("masked_lm") else length)
      assert len(values[name]) == size
    records.append(values)
  return records


def original_text(record, tokenizer):
  """The record's tokens with the masks filled in again."""
  ids = record["input_ids"].copy()
  count = int(record["masked_lm_weights"].sum())
  ids[record["masked_lm_positions"][:count]] = record["masked_lm_ids"][:count]
  return "".join(tokenizer.convert_ids_to_tokens(
      ids[:record["input_mask"].sum()]))


# ----------------------------------------------------------------------- words


def test_segments_cut_off_words_stay_masked_alone(vocab_words):
  # 灸 was inside a word whose beginning was cut off.
  tokens = ["[CLS]", "我", "[SEP]", "灸", "好", "[SEP]"]
  starts = [True, True, True, False, True, True]
  seen = set()
  for seed in range(200):
    _, positions, _ = data.create_masked_lm_predictions(
        tokens, 0.2, 1, vocab_words, random.Random(seed), starts=starts)
    assert len(positions) == 1
    seen.update(positions)
  assert seen == {1, 3, 4}


@pytest.mark.parametrize("whole_words", [True, False])
def test_labels_are_the_tokens_that_stood_there(tokenizer, vocab_words,
                                                line_tokenizer, whole_words):
  if not whole_words:
    line_tokenizer = data.LineTokenizer(tokenizer)
  text = "今天天气很好我们出去玩"
  segment = line_tokenizer(text)
  tokens = ["[CLS]"] + segment.tokens + ["[SEP]"]
  starts = [True] + segment.starts + [True]
  for seed in range(20):
    output, positions, labels = data.create_masked_lm_predictions(
        tokens, 0.9, 20, vocab_words, random.Random(seed), starts=starts)
    assert labels == [tokens[position] for position in positions]
    assert positions == sorted(set(positions))
    assert all(output[i] == tokens[i] for i in range(len(tokens))
               if i not in positions)


# --------------------------------------------------------------------- masking


def test_shares_and_replacements(vocab_words):
  tokens = ["[CLS]"] + ["我"] * 200 + ["[SEP]"]
  counts = collections.Counter()
  for seed in range(300):
    output, positions, labels = data.create_masked_lm_predictions(
        tokens, 0.15, 40, vocab_words, random.Random(seed))
    assert len(positions) == 30 and set(labels) == {"我"}
    counts.update(output[position] for position in positions)
  total = sum(counts.values())
  assert abs(counts.pop("[MASK]") / total - 0.8) < 0.02
  assert abs(counts.pop("我") / total - 0.1) < 0.02
  assert not [token for token in counts if token.startswith(("##", "[unused"))
              or token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "<S>", "<T>")]


@pytest.mark.parametrize("per_word", [True, False])
def test_draw_per_word_or_per_token(vocab_words, per_word):
  tokens = ["[CLS]"] + list("一心一意") * 20 + ["[SEP]"]
  starts = [True] + [True, False, False, False] * 20 + [True]
  mixed = total = 0
  for seed in range(50):
    output, positions, _ = data.create_masked_lm_predictions(
        tokens, 0.3, 40, vocab_words, random.Random(seed), starts=starts,
        mask_per_word=per_word)
    for word in range(1, 81, 4):
      if word in positions:
        masks = [output[i] == "[MASK]" for i in range(word, word + 4)]
        mixed += len(set(masks)) > 1
        total += 1
  # Of four independent draws, 1 - 0.8^4 - 0.2^4 = 59 % are not all alike.
  assert mixed == 0 if per_word else 0.5 < mixed / total < 0.68


def test_number_of_predictions(vocab_words):
  def count(length, prob, cap):
    tokens = ["[CLS]"] + ["我"] * (length - 2) + ["[SEP]"]
    return len(data.create_masked_lm_predictions(
        tokens, prob, cap, vocab_words, random.Random(1))[1])

  assert count(100, 0.15, 20) == 15
  assert count(100, 0.15, 10) == 10
  assert count(4, 0.01, 20) == 1
  assert count(100, 0.0, 20) == 0


def test_a_word_that_does_not_fit_is_cut_only_if_no_word_fits(vocab_words):
  tokens = ["[CLS]", "研", "究", "生", "[SEP]"]
  starts = [True, True, False, False, True]
  for seed in range(20):
    _, positions, labels = data.create_masked_lm_predictions(
        tokens, 0.9, 1, vocab_words, random.Random(seed), starts=starts)
    assert (positions, labels) == ([1], ["研"])
  tokens.insert(4, "好")
  starts.insert(4, True)
  for seed in range(20):
    assert data.create_masked_lm_predictions(
        tokens, 0.9, 1, vocab_words, random.Random(seed), starts=starts
        )[1] == [4]


def test_ngrams_are_repeatable_and_stay_in_their_segment(line_tokenizer,
                                                         vocab_words):
  a, b = line_tokenizer("今天天气很好"), line_tokenizer("我们出去玩吧")
  tokens = ["[CLS]"] + a.tokens + ["[SEP]"] + b.tokens + ["[SEP]"]
  starts = [True] + a.starts + [True] + b.starts + [True]

  def mask(seed, prob=0.3, cap=20):
    return data.create_masked_lm_predictions(
        tokens, prob, cap, vocab_words, random.Random(seed), starts=starts,
        ngram=3)

  assert len({str(mask(7)) for _ in range(5)}) == 1
  border = tokens.index("[SEP]")
  for seed in range(4000):
    positions = mask(seed, 0.2, 2)[1]
    assert border not in positions and len(positions) == 2
    # Two tokens of both segments: then each is a word of one character.
    if positions[0] < border < positions[1]:
      assert all(starts[i] and starts[i + 1] for i in positions)


def test_a_vocabulary_without_ordinary_tokens_is_an_error():
  with pytest.raises(data.DataError, match="vocabulary of 2 tokens"):
    for seed in range(100):
      data.create_masked_lm_predictions(
          ["[CLS]", "我", "[SEP]"], 0.5, 1, ["[PAD]", "##我"],
          random.Random(seed))


# ----------------------------------------------------------------------- pairs


def test_the_tail_of_a_document_is_kept():
  document = as_document("一" * 20, "二" * 20, "三" * 5)
  text = "".join(text for text, _ in pairs_of(document, 32))
  assert text.count("三") == 5 and "一" in text and "二" in text


@pytest.mark.parametrize("lengths", [
    (20, 5, 20), (10, 3, 28, 2), (5, 20, 20), (20, 8, 20), (1,) * 7, (2,),
    (60, 1), (1, 60), (29,), (5, 1), (200,), (30, 30, 30)])
@pytest.mark.parametrize("short_seq_prob", [0.0, 1.0])
def test_every_sentence_is_in_some_instance(lengths, short_seq_prob):
  letters = "一二三四五六七"
  document = instance_utils.join_sentences(
      [data.segment_from_tokens([letters[i]] * length)
       for i, length in enumerate(lengths)], 29)
  for seed in range(20):
    pairs = pairs_of(document, 32, short_seq_prob, seed=seed)
    text = "".join(pair for pair, _ in pairs)
    assert set(letters[:len(lengths)]) <= set(text)
    for pair, _ in pairs:
      a, b, rest = pair.replace("[CLS]", "").split("[SEP]")
      assert a and b and not rest
      assert len(a) + len(b) <= 29


def test_order_label_says_whether_the_segments_were_swapped():
  document = as_document("一一一", "二二二")
  seen = set()
  for seed in range(40):
    [(text, swapped)] = pairs_of(document, 32, seed=seed)
    assert text == ("[CLS]二二二[SEP]一一一[SEP]" if swapped else
                    "[CLS]一一一[SEP]二二二[SEP]")
    seen.add(swapped)
  assert seen == {True, False}


def test_a_single_sentence_is_split_at_a_clause_mark():
  document = as_document("今天天气很好，我们去玩。")
  parts = {frozenset(text.replace("[CLS]", "").split("[SEP]")[:2])
           for seed in range(10) for text, _ in pairs_of(document, 32,
                                                         seed=seed)}
  assert parts == {frozenset(["今天天气很好，", "我们去玩。"])}
  [(text, _)] = pairs_of(as_document("今天天气"), 32)
  assert {len(part) for part in text[5:].split("[SEP]")[:2]} == {2}


def test_next_sentence_prediction():
  document = as_document("一一", "二二", "三三")
  other = as_document("四四", "五五")
  labels = collections.Counter()
  for seed in range(60):
    for text, is_random in pairs_of(document, 20, task="nsp", seed=seed,
                                    others=[other]):
      a, b = text.replace("[CLS]", "").split("[SEP]")[:2]
      assert set(a) <= set("一二三")
      assert set(b) <= (set("四五") if is_random else set("一二三"))
      labels[is_random] += 1
  assert labels[True] > 20 and labels[False] > 20


def test_without_a_pair_task_there_is_one_segment():
  document = as_document("一" * 8, "二" * 8, "三" * 4)
  assert pairs_of(document, 20, task="none") == [
      ("[CLS]" + "一" * 8 + "二" * 8 + "[SEP]", False),
      ("[CLS]三三三三[SEP]", False)]


def test_truncate_seq_pair_takes_from_both_ends_of_the_longer():
  ends = set()
  for seed in range(50):
    a, b = list("一二三四五六"), list("七八")
    data.truncate_seq_pair(a, b, 5, random.Random(seed))
    assert len(a) == 3 and b == list("七八")
    ends.add("".join(a))
  assert ends == {"一二三", "二三四", "三四五", "四五六"}


def test_instance_names_of_the_peers(vocab_words):
  instances = data.create_instances_from_document_albert(
      [[["我", "爱"], ["你", "们"]]], 0, 16, 0.0, 0.15, 2, vocab_words,
      random.Random(1))
  assert len(instances) == 1
  assert instances[0].segment_ids == [0, 0, 0, 0, 1, 1, 1]
  assert "masked_lm_positions" in str(instances[0])


# ------------------------------------------------------------------ the script


def test_a_files_end_ends_its_document(tmp_path, tokenizer):
  result = create(tmp_path, {"a.txt": "今天天气很好。\n我们去公园玩。",
                             "b.txt": "股票大跌了。\n投资者很担心。\n"})
  assert result.returncode == 0, result.stderr
  texts = [original_text(record, tokenizer)
           for record in read_records(tmp_path / "out.tfrecord")]
  assert sorted(sorted(text.replace("[CLS]", "").split("[SEP]")[:2])
                for text in texts) == [
                    ["今天天气很好。", "我们去公园玩。"],
                    ["投资者很担心。", "股票大跌了。"]]


def test_documents_of_one_line_and_what_is_dropped(tmp_path, tokenizer):
  result = create(tmp_path, {"a.txt": (
      "\ufeff今天天气很好，我们去公园玩。\n\n他在写信，她在看书。\n\n好\n")})
  assert result.returncode == 0, result.stderr
  texts = [original_text(record, tokenizer)
           for record in read_records(tmp_path / "out.tfrecord")]
  assert sorted(set("".join(texts)) - set("[CLSEP]")) == sorted(
      set("今天天气很好，我们去公园玩。他在写信，她在看书。"))
  assert len(texts) == 2
  metadata = json.loads((tmp_path / "metadata.json").read_text())
  assert metadata["documents"] == 3
  assert metadata["dropped_documents"] == 1
  assert metadata["instances"] == 2
  assert metadata["vocab_size"] == 21128
  assert metadata["files"] == ["out.tfrecord"]
  assert "dropped_documents = 1" in result.stdout
  assert metadata["vocab_file"] == VOCAB_FILE


def test_nothing_at_all_is_an_error(tmp_path):
  result = create(tmp_path, {"a.txt": "好\n\n"})
  assert result.returncode != 0
  assert "no document of two characters or more, 1 shorter" in result.stderr
  assert not (tmp_path / "out.tfrecord").exists()


TEXT = "".join("第%d天我们去公园玩，天气很好。\n他说：“NBA比赛%d号开始！”\n" % (i, i * i) +
               "\n" * (i % 3 == 0) for i in range(60))


def test_same_seed_same_bytes(tmp_path):
  written = []
  for seed, workers in ((1, 1), (1, 3), (2, 2)):
    result = create(tmp_path, {"a.txt": TEXT}, random_seed=seed, dupe_factor=2,
                    do_whole_word_mask=True, ngram=3, num_workers=workers)
    assert result.returncode == 0, result.stderr
    written.append((tmp_path / "out.tfrecord").read_bytes())
  assert written[0] == written[1] != written[2]
  assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("task", ["sop", "nsp", "none"])
@pytest.mark.parametrize("legacy", [True, False])
def test_the_scripts_instances_are_those_of_the_functions(
    tmp_path, tokenizer, line_tokenizer, task, legacy):
  result = create(tmp_path, {"a.txt": TEXT, "b.txt": TEXT[::-1]}, dupe_factor=3,
                  do_whole_word_mask=True, ngram=2, sentence_pair_task=task,
                  legacy_subword_labels=legacy)
  assert result.returncode == 0, result.stderr
  if legacy:
    line_tokenizer = word_segmentation.LineTokenizer(
        tokenizer, word_segmentation.Segmenter(), True, True)
  instances = data.create_training_instances(
      [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")], tokenizer, 32, 3, 0.1,
      0.15, 20, random.Random(12345), task, line_tokenizer, ngram=2)
  expected = [data.serialize_instance(instance, tokenizer, 32, 20)
              for instance in instances]
  found = list(tf.python_io.tf_record_iterator(str(tmp_path / "out.tfrecord")))
  assert len(expected) > 100
  assert found != expected and sorted(found) == sorted(expected)


def test_numbered_and_compressed_shards(tmp_path):
  result = create(tmp_path, {"a.txt": TEXT}, output_file="", num_shards=3,
                  output_dir=str(tmp_path / "new" / "folder"), gzip=True)
  assert result.returncode == 0, result.stderr
  folder = tmp_path / "new" / "folder"
  metadata = json.loads((folder / "metadata.json").read_text())
  assert metadata["files"] == [
      "pretrain.tfrecord.gz-%05d-of-00003" % i for i in range(3)]
  assert sorted(path.name for path in folder.iterdir()) == [
      "metadata.json"] + metadata["files"]
  options = tf.python_io.TFRecordOptions(
      tf.python_io.TFRecordCompressionType.GZIP)
  assert [sum(1 for _ in tf.python_io.tf_record_iterator(
      str(folder / name), options)) for name in metadata["files"]
          ] == metadata["instances_per_file"]
  assert sum(metadata["instances_per_file"]) == metadata["instances"]
  assert metadata["compression"] == "GZIP"


@pytest.mark.parametrize("name,text,flags", [
    ("a.jsonl", json.dumps({"content": "今天好。明天好。\n\n后天好！"}),
     ["--input_format=jsonl", "--text_field=content"]),
    ("a.txt", "今天好。明天好。后天好！", ["--input_format=documents"]),
    ("a.txt", "今天 好 。\n明天 好 。\n后天 好 ！",
     ["--segmenter=pretokenized", "--do_whole_word_mask"])])
def test_other_forms_of_text(tmp_path, tokenizer, name, text, flags):
  result = create(tmp_path, {name: text}, *flags,
                  input_file=str(tmp_path / name))
  assert result.returncode == 0, result.stderr
  [record] = read_records(tmp_path / "out.tfrecord")
  a, b = original_text(record, tokenizer)[5:].split("[SEP]")[:2]
  assert {a + b, b + a} & {"今天好。明天好。后天好！"}
  assert json.loads((tmp_path / "metadata.json").read_text())["sentences"] == 3


def test_standard_input(tmp_path):
  arguments = [sys.executable, os.path.join(ROOT, "create_pretraining_data.py"),
               "--input_file=-", "--vocab_file=" + VOCAB_FILE,
               "--max_seq_length=32", "--dupe_factor=1"]
  files = [tmp_path / name for name in ("x", "y")]
  subprocess.run(arguments + ["--output_file=%s" % files[0]], check=True,
                 input=TEXT.encode("utf-8"), stdout=subprocess.DEVNULL)
  result = create(tmp_path, {"a.txt": TEXT}, output_file=str(files[1]))
  assert result.returncode == 0, result.stderr
  assert files[0].read_bytes() == files[1].read_bytes()


def test_a_cap_below_the_wanted_share_draws_a_warning(tmp_path):
  result = create(tmp_path, {"a.txt": TEXT}, max_seq_length=512,
                  masked_lm_prob=0.15)
  assert ("asks for 77 masked tokens in a full sequence of 512, but"
          " --max_predictions_per_seq allows 20 (3.9 %)") in result.stderr
  result = create(tmp_path, {"a.txt": TEXT}, max_seq_length=128,
                  masked_lm_prob=0.15)
  assert "masked tokens" not in result.stderr


def test_the_summary_is_right(tmp_path):
  result = create(tmp_path, {"a.txt": TEXT}, dupe_factor=2)
  summary = dict(line.split(" = ") for line in result.stdout.splitlines())
  records = read_records(tmp_path / "out.tfrecord")
  lengths = [int(record["input_mask"].sum()) for record in records]
  assert int(summary["instances"]) == len(records)
  assert int(summary["instance_tokens"]) == sum(lengths)
  assert float(summary["mean_length"]) == round(np.mean(lengths), 2)
  assert float(summary["fill"]) == round(np.mean(lengths) / 32, 4)
  predictions = sum(int(record["masked_lm_weights"].sum())
                    for record in records)
  assert int(summary["predictions"]) == predictions
  assert float(summary["predictions_per_instance"]) == round(
      predictions / len(records), 2)
  swapped = sum(int(record["next_sentence_labels"][0]) for record in records)
  assert float(summary["labelled_1_share"]) == round(swapped / len(records), 4)


def test_documents_without_end_draw_a_warning(tmp_path):
  text = "我们去公园玩。\n" * 40000
  result = create(tmp_path, {"a.txt": text})
  assert result.returncode == 0, result.stderr
  assert "are the blank lines between documents missing?" in result.stderr
  assert "split_documents = 1\n" in result.stdout


def test_records_are_shared_among_the_output_files(tmp_path):
  files = [str(tmp_path / name) for name in ("x.tfrecord", "y.tfrecord")]
  result = create(tmp_path, {"a.txt": "今天好。\n明天好。\n\n" * 5},
                  output_file=",".join(files))
  assert result.returncode == 0, result.stderr
  assert [len(read_records(path)) for path in files] == [3, 2]
  metadata = json.loads((tmp_path / "metadata.json").read_text())
  assert metadata["files"] == ["x.tfrecord", "y.tfrecord"]


def test_metadata_of_other_files_of_the_folder_is_kept(tmp_path):
  for name, length in (("one", 32), ("two", 64), ("one", 16)):
    result = create(tmp_path, {"a.txt": "今天好。\n明天好。\n"},
                    output_file=str(tmp_path / name), max_seq_length=length)
    assert result.returncode == 0, result.stderr
  metadata = json.loads((tmp_path / "metadata.json").read_text())
  assert (metadata["files"], metadata["max_seq_length"]) == (["one"], 16)
  [other] = metadata["other_data_sets"]
  assert (other["files"], other["max_seq_length"]) == (["two"], 64)


@pytest.mark.parametrize("flags,kwargs,message", [
    ([], {"input_file": "empty/*.txt"}, "no file matches empty/*.txt"),
    (["--do_whole_word_msk=True"], {}, "do_whole_word_msk"),
    ([], {"output_file": "/no/such/folder/x"},
     "the folder /no/such/folder does not exist"),
    ([], {"vocab_file": "missing.txt"}, "missing.txt"),
    ([], {"jieba_user_dict": "words.txt"}, "--jieba_user_dict"),
    ([], {"legacy_subword_labels": True}, "--legacy_subword_labels"),
    ([], {"sentence_pair_task": "nsp"}, "found 1 document"),
    (["False"], {}, 'what does "False" belong to'),
    ([], {"output_file": ","}, "expected the path of a TFRecord file"),
    ([], {"output_file": ""}, "either --output_file or --output_dir"),
    ([], {"input_file": "gs://bucket/a.txt"}, "a local file"),
    ([], {"output_file": "gs://bucket/a"}, "not a local path"),
    (["--output_dir=x"], {}, "either --output_file or --output_dir"),
    (["--num_shards=3"], {}, "--num_shards goes with --output_dir"),
    (["--non_chinese", "--segmenter=jieba"], {}, "--non_chinese means"),
    ([], {"segmenter": "pretokenized", "legacy_subword_labels": True,
          "do_whole_word_mask": True}, "--segmenter=pretokenized cannot"),
    ([], {"output_file": "{}/x,{}/y"}, "1 documents of two characters or more in the"),
    ([], {"output_file": "{}/a.txt"}, "is one of the input files"),
    ([], {"input_file": "{}", "output_file": "{}/x"}, "in a folder of the input"),
    ([], {"output_file": VOCAB_FILE}, "is one of the input files"),
    ([], {"output_file": "/dev/null"}, "is a device"),
    ([], {"masked_lm_prob": "nan"}, "--masked_lm_prob is nan"),
    ([], {"max_seq_length": 3}, "max_seq_length")])
def test_mistakes_end_the_run_at_once(tmp_path, flags, kwargs, message):
  kwargs = {name: value.replace("{}", str(tmp_path))
            if isinstance(value, str) else value
            for name, value in kwargs.items()}
  result = create(tmp_path, {"a.txt": "今天好。\n明天好。\n"}, *flags, **kwargs)
  assert result.returncode != 0
  assert message in result.stderr + result.stdout
  assert "Traceback" not in result.stderr
  assert not (tmp_path / "out.tfrecord").exists()
  assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_what_must_not_be_overwritten():
  with pytest.raises(data.DataError, match="c.txt is one of the input files"):
    data.check_output_files(["./c.txt"], ["c.txt"])
  with pytest.raises(data.DataError, match="metadata.json"):
    data.check_output_files(["metadata.json"], [])
  with pytest.raises(data.DataError, match="names a file twice"):
    data.check_output_files(["a", "./a"], [])


@pytest.mark.parametrize("content", ["{}", "{bad", "[1]", '{"files": 3}'])
def test_metadata_of_something_else_stops_the_run_first(tmp_path, content):
  (tmp_path / "metadata.json").write_text(content)
  with pytest.raises(data.DataError, match="metadata.json is not a file that"):
    data.check_output_files([str(tmp_path / "a.tfrecord")], [])


def test_more_files_than_instances(tmp_path, tokenizer):
  instance = data.TrainingInstance(["[CLS]"] * 3, [0] * 3, [], [], False)
  with pytest.raises(data.DataError, match="1 instances for the 2 files"):
    data.write_instance_to_example_files(
        [instance], tokenizer, 8, 2, [str(tmp_path / name) for name in "ab"])
  assert not list(tmp_path.iterdir())


def test_an_instance_that_is_too_long(tokenizer):
  instance = data.TrainingInstance(["[CLS]"] * 9, [0] * 9, [], [], False)
  with pytest.raises(data.DataError, match="9 tokens .*max_seq_length 8"):
    data.serialize_instance(instance, tokenizer, 8, 2)


def test_legacy_labels_in_records(tmp_path, tokenizer):
  result = create(tmp_path, {"a.txt": "大学生活很美好\n我们出去玩\n"},
                  legacy_subword_labels=True, do_whole_word_mask=True,
                  masked_lm_prob=0.9, dupe_factor=5)
  assert result.returncode == 0, result.stderr
  labels = set()
  for record in read_records(tmp_path / "out.tfrecord"):
    labels.update(tokenizer.convert_ids_to_tokens(record["masked_lm_ids"]))
  assert {"##学", "##活", "##们", "大"} <= labels
  assert not any(token.startswith("##") for record in read_records(
      tmp_path / "out.tfrecord") for token in
                 tokenizer.convert_ids_to_tokens(record["input_ids"]))


def test_cased_text(tmp_path, tokenizer):
  result = create(tmp_path, {"a.txt": "NBA 很好\n看 NBA 吧\n"}, do_lower_case=False)
  assert result.returncode == 0, result.stderr
  metadata = json.loads((tmp_path / "metadata.json").read_text())
  assert metadata["do_lower_case"] is False
  lower = len(tokenizer.tokenize("NBA"))
  assert metadata["unknown_share"] > 0 or lower == 1
