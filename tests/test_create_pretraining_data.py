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
import tokenization

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
  return data.LineTokenizer(tokenizer, data.Segmenter(), whole_words=True)


def words_of(segment):
  """The words as lists of token positions."""
  return [list(range(begin, end)) for run in data.word_runs(
      segment.tokens, segment.starts) for begin, end in run]


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


@pytest.mark.parametrize("text,expected", [
    # A word is where the segmenter put it, not wherever its characters are.
    ("大学生活很美好，大学生很多",
     [[0, 1], [2, 3], [4], [5, 6], [7], [8, 9, 10], [11, 12]]),
    # Words have any length.
    ("他一心一意地工作", [[0], [1, 2, 3, 4], [5], [6, 7]]),
    # Spaces, accents and pieces: tokens are matched by their characters.
    ("我爱  iPhone12 cafés", [[0], [1], [2, 3], [4, 5]])])
def test_words_are_the_segmenters(line_tokenizer, text, expected):
  assert words_of(line_tokenizer(text)) == expected


def test_word_starts_keeps_pieces_with_their_word():
  assert data.word_starts(
      ["caf", "##e", "好"], [(0, 3), (3, 4), (4, 5)], ["caf", "é", "好"]) == [
          True, False, True]


def test_user_dictionary(tmp_path):
  dictionary = tmp_path / "words.txt"
  dictionary.write_text("很美好呀 1000 n\n", encoding="utf-8")
  assert "很美好呀" in data.Segmenter(str(dictionary))("生活很美好呀")
  assert "很美好呀" not in data.Segmenter()("生活很美好呀")


def test_segmenters_cache_is_private(tmp_path, monkeypatch):
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
  data.Segmenter()
  folder = tmp_path / "chinese_albert"
  assert [path.name for path in folder.iterdir()] == ["jieba.cache"]
  assert folder.stat().st_mode & 0o077 == 0


def test_segments_cut_off_words_stay_masked_alone(vocab_words):
  # 灸 was inside a word whose beginning was cut off.
  b = data.Segment(["针", "灸", "好"], [True, False, True],
                   ["针", "灸", "好"]).cut(1, None)
  whole = data.join_segments([
      data.segment_from_tokens(["[CLS]", "我", "[SEP]"]), b,
      data.segment_from_tokens(["[SEP]"])])
  assert words_of(whole) == [[1], [3], [4]]
  seen = set()
  for seed in range(200):
    _, positions, _ = data.create_masked_lm_predictions(
        whole.tokens, 0.2, 1, vocab_words, random.Random(seed),
        starts=whole.starts)
    assert len(positions) == 1
    seen.update(positions)
  assert seen == {1, 3, 4}


def test_legacy_labels_are_albert_zhs(tokenizer):
  # 大学生 is one of the words, so it is marked wherever it stands; 一心一意
  # is longer than three characters and never marked.
  words = ["大学", "生活", "，", "大学生", "一心一意"]
  tokens = list("大学生活，大学生一心一意")
  assert data.legacy_subword_labels(tokens, words, tokenizer.vocab) == [
      "大", "##学", "##生", "活", "，", "大", "##学", "##生", "一", "心", "一",
      "意"]
  assert data.legacy_subword_labels(["大", "学"], ["大学"], {"大", "学"}) == [
      "大", "学"]


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


def test_without_whole_words_the_segmenter_is_not_run(tokenizer):
  def fails(text):
    raise AssertionError("segmented %s" % text)

  segment = data.LineTokenizer(tokenizer, fails)("今天天气很好")
  assert segment.starts == [True] * 6


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
  special = [data.segment_from_tokens([t]) for t in ("[CLS]", "[SEP]")]
  whole = data.join_segments([special[0], a, special[1], b, special[1]])
  border = whole.tokens.index("[SEP]")

  def mask(seed, prob=0.3, cap=20):
    return data.create_masked_lm_predictions(
        whole.tokens, prob, cap, vocab_words, random.Random(seed),
        starts=whole.starts, ngram=3)

  assert len({str(mask(7)) for _ in range(5)}) == 1
  runs = data.word_runs(whole.tokens, whole.starts)
  assert all(end <= border for _, end in runs[0])
  assert all(begin > border for begin, _ in runs[1])
  weights = data.ngram_weights(3)
  for seed in range(4000):
    words = data.select_words(runs, 2, random.Random(seed), weights)
    assert len({begin < border for begin, _ in words}) == 1 or sum(
        end - begin for begin, end in words) == 2
    assert border not in mask(seed, 0.2, 2)[1]


@pytest.mark.parametrize("favor_shorter,expected", [
    (True, [6 / 11, 3 / 11, 2 / 11]), (False, [2 / 11, 3 / 11, 6 / 11])])
def test_ngram_lengths_are_drawn_by_weight(favor_shorter, expected):
  weights = data.ngram_weights(3, favor_shorter)
  rng = random.Random(3)
  counts = collections.Counter(
      data._draw_length(10, weights, rng) for _ in range(20000))
  for length, share in enumerate(expected, start=1):
    assert abs(counts[length] / 20000 - share) < 0.015
  assert {data._draw_length(2, weights, rng) for _ in range(100)} == {1, 2}


def test_ngrams_mask_neighbouring_words():
  runs = [[(i, i + 1) for i in range(1, 101)]]
  words = data.select_words(runs, 3, random.Random(1), (0.0, 0.0, 1.0))
  begins = sorted(begin for begin, _ in words)
  assert begins == list(range(begins[0], begins[0] + 3))


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


@pytest.mark.parametrize("lengths", [(20, 5, 20), (10, 3, 28, 2), (5, 20, 20),
                                     (20, 8, 20), (1,) * 7, (2,), (60, 1), (1, 60), (29,),
                                     (5, 1), (200,), (30, 30, 30)])
@pytest.mark.parametrize("short_seq_prob", [0.0, 1.0])
def test_every_sentence_is_in_some_instance(lengths, short_seq_prob):
  letters = "一二三四五六七"
  sentences = [data.segment_from_tokens([letters[i]] * length)
               for i, length in enumerate(lengths)]
  document = [piece for sentence in sentences
              for piece in data.split_long_sentence(sentence, 29)]
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
  assert data._split_position(list("今天天气"), random.Random(0)) == 2


def test_long_sentences_are_cut_where_words_begin():
  sentence = data.Segment(list("一二三四五六七八九"),
                          [True, True, True, False, True, True, True, True,
                           True], list("一二三四五六七八九"))
  pieces = data.split_long_sentence(sentence, 6)
  assert ["".join(piece.tokens) for piece in pieces] == ["一二", "三四五",
                                                         "六七八", "九"]
  endless = data.Segment(["字"] * 7, [True] + [False] * 6, ["字"] * 7)
  assert [len(piece.tokens) for piece in data.split_long_sentence(endless, 6)
          ] == [3, 3, 1]
  assert data.split_long_sentence(data.segment_from_tokens([]), 6) == []


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
  assert "no instance came out of" in result.stderr
  assert not (tmp_path / "out.tfrecord").exists()


def test_same_seed_same_bytes(tmp_path):
  text = "".join("第%d天我们去公园玩，天气很好。\n" % i + "\n" * (i % 3 == 0)
                 for i in range(30))
  written = []
  for seed in (1, 1, 2):
    result = create(tmp_path, {"a.txt": text}, random_seed=seed, dupe_factor=2,
                    do_whole_word_mask=True, ngram=3)
    assert result.returncode == 0, result.stderr
    written.append((tmp_path / "out.tfrecord").read_bytes())
  assert written[0] == written[1] != written[2]


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
    ([], {"output_file": ""}, "expected the path of a TFRecord file"),
    ([], {"input_file": "gs://bucket/a.txt"}, "a local file"),
    ([], {"max_seq_length": 3}, "max_seq_length")])
def test_mistakes_end_the_run_at_once(tmp_path, flags, kwargs, message):
  result = create(tmp_path, {"a.txt": "今天好。\n明天好。\n"}, *flags, **kwargs)
  assert result.returncode != 0
  assert message in result.stderr + result.stdout
  assert "Traceback" not in result.stderr
  assert not (tmp_path / "out.tfrecord").exists()
  assert not (tmp_path / "out.tfrecord.tmp").exists()


def test_what_must_not_be_overwritten():
  with pytest.raises(data.DataError, match="c.txt is one of the input files"):
    data.check_output_files("./c.txt", ["c.txt"])
  with pytest.raises(data.DataError, match="metadata.json"):
    data.check_output_files("metadata.json", [])
  with pytest.raises(data.DataError, match="names a file twice"):
    data.check_output_files("a,./a", [])


@pytest.mark.parametrize("content", ["{}", "{bad", "[1]", '{"files": 3}'])
def test_metadata_of_something_else_stops_the_run_first(tmp_path, content):
  (tmp_path / "metadata.json").write_text(content)
  with pytest.raises(data.DataError, match="metadata.json is not a file that"):
    data.check_output_files(str(tmp_path / "a.tfrecord"), [])


def test_more_files_than_instances():
  with pytest.raises(data.DataError, match="1 instances for the 2 files"):
    data.write_records([b"x"], ["a", "b"])


def test_an_instance_that_is_too_long(tokenizer):
  instance = data.TrainingInstance(["[CLS]"] * 9, [0] * 9, [], [], False)
  with pytest.raises(data.DataError, match="9 tokens .*max_seq_length 8"):
    data.serialize_instance(instance, tokenizer, 8, 2)


def test_input_patterns(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for name in ("a.txt", "b.txt", "f[1].txt"):
    (tmp_path / name).write_text("x")
  assert data.expand_input_patterns("a.txt, *.txt") == [
      "a.txt", "b.txt", "f[1].txt"]
  assert data.expand_input_patterns("f[1].txt") == ["f[1].txt"]
  with pytest.raises(data.DataError, match="between its commas"):
    data.expand_input_patterns("a.txt,")


def test_a_line_that_is_not_utf8(tmp_path):
  lines = ["今天天气很好。".encode("utf-8")] * 6 + ["中文".encode("gbk")]
  text = b"\n".join(lines + lines[:2]) + b"\n"
  result = create(tmp_path, {"a.txt": text})
  assert result.returncode != 0
  assert "a.txt, line 7 is not UTF-8" in result.stderr
  result = create(tmp_path, {"a.txt": text}, on_bad_line="skip")
  assert result.returncode == 0, result.stderr
  metadata = json.loads((tmp_path / "metadata.json").read_text())
  assert metadata["bad_lines"] == 1
  assert metadata["sentences"] == 8


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
