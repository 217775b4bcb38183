"""Tests of the tasks' readers, the features, the predictions, the metrics."""

import json
import logging
import os
import subprocess
import sys

import numpy as np
import pytest

import classifier_utils as cu

BOM = b"\xef\xbb\xbf"
IDS = {"[PAD]": 0, "[CLS]": 101, "[SEP]": 102}


class CharTokenizer(object):
  """A token a character, its id the code point."""

  def tokenize(self, text):
    return list(text)

  def convert_tokens_to_ids(self, tokens):
    return [IDS[token] if token in IDS else ord(token) for token in tokens]


def write(folder, name, content):
  """Writes a file from bytes, a string, or a list of JSON objects."""
  if isinstance(content, list):
    content = "".join(json.dumps(row, ensure_ascii=False) + "\n"
                      for row in content)
  if isinstance(content, str):
    content = content.encode("utf-8")
  path = os.path.join(str(folder), name)
  with open(path, "wb") as writer:
    writer.write(content)
  return path


def read(path):
  with open(path, "rb") as reader:
    return reader.read().decode("utf-8")


def triples(examples):
  return [(example.text_a, example.text_b, example.label)
          for example in examples]


def get(task_name, folder, split="train", **options):
  return cu.get_processor(task_name, **options).get_examples(
      str(folder), split)


def error_of(function, *args, **kwargs):
  with pytest.raises(cu.DataError) as caught:
    function(*args, **kwargs)
  assert isinstance(caught.value, ValueError)
  message = str(caught.value)
  assert "\n" not in message
  return message


# ------------------------------------------------------------- the two tsv sets


@pytest.mark.parametrize("name", ["lcqmc", "lcqmc_pair", "LCQMC"])
def test_lcqmc(tmp_path, name):
  write(tmp_path, "train.txt",
        "text_a\ttext_b\tlabel\n今天好吗\t今天好不好\t1\n你在哪\t吃了没\t0\n")
  examples = get(name, tmp_path)
  assert triples(examples) == [("今天好吗", "今天好不好", "1"),
                               ("你在哪", "吃了没", "0")]
  assert [example.guid for example in examples] == ["train-0", "train-1"]
  assert [example.example_id for example in examples] == [None, None]
  assert cu.get_processor(name).get_labels() == ["0", "1"]


def test_f1_wrong_label_names_file_line_and_allowed(tmp_path):
  content = ("text_a\ttext_b\tlabel\n今天好吗\t今天好不好\t1\n坏\t坏\t%d\n"
             "你在哪\t吃了没\t0\n")
  path = write(tmp_path, "train.txt", content % 2)
  assert error_of(get, "lcqmc", tmp_path) == (
      "%s: line 3: label 2, allowed 0 and 1" % path)
  assert os.listdir(str(tmp_path)) == ["train.txt"]
  write(tmp_path, "train.txt", content % 1)
  assert [label for _, _, label in triples(get("lcqmc", tmp_path))] == [
      "1", "1", "0"]


def test_lcqmc_without_header(tmp_path):
  write(tmp_path, "train.txt", "甲\t乙\t0\n丙\t丁\t1\n")
  assert triples(get("lcqmc", tmp_path)) == [
      ("甲", "乙", "0"), ("丙", "丁", "1")]


@pytest.mark.parametrize("label, problem", [
    ("2", "label 2, allowed 0 and 1"), ("", "label is empty, expected a label")])
def test_wrong_label_in_first_line_is_no_header(tmp_path, label, problem):
  path = write(tmp_path, "train.txt", "甲\t乙\t%s\n丙\t丁\t1\n" % label)
  assert error_of(get, "lcqmc", tmp_path) == "%s: line 1: %s" % (path, problem)


@pytest.mark.parametrize("header", ["text_a\ttext_b", "text_a\ttext_b\tlabel"])
def test_f3_test_file_without_labels(tmp_path, header):
  write(tmp_path, "test.txt", header + "\n甲\t乙\n丙\t丁\n")
  assert triples(get("lcqmc", tmp_path, "test")) == [
      ("甲", "乙", None), ("丙", "丁", None)]


def test_training_file_has_to_have_labels(tmp_path):
  path = write(tmp_path, "train.txt", "text_a\ttext_b\n甲\t乙\n")
  assert error_of(get, "lcqmc", tmp_path) == (
      "%s: line 1: found 2 tab-separated columns, expected 3 (text_a, text_b "
      "and label)" % path)


def test_sentence_pair(tmp_path):
  write(tmp_path, "train_0827.tsv", "label\ta\tb\n1\t甲\t乙\n")
  write(tmp_path, "dev_0827.tsv", "0\t甲\t乙\n")
  write(tmp_path, "test_0827.tsv", "a\tb\n甲\t乙\n")
  processor = cu.SentencePairClassificationProcessor()
  folder = str(tmp_path)
  assert triples(processor.get_train_examples(folder)) == [("甲", "乙", "1")]
  assert triples(processor.get_dev_examples(folder)) == [("甲", "乙", "0")]
  assert triples(processor.get_test_examples(folder)) == [("甲", "乙", None)]


def test_extra_tab(tmp_path):
  path = write(tmp_path, "dev.txt", "a\tb\tlabel\n甲\t乙\t1\n甲\t\t乙\t1\n")
  assert error_of(get, "lcqmc", tmp_path, "dev") == (
      "%s: line 3: found 4 tab-separated columns, expected 3 (text_a, text_b "
      "and label)" % path)


# --------------------------------------------------------------------- CLUE


CLUE = [
    ("afqmc", {"sentence1": "甲", "sentence2": "乙", "label": "0"},
     [("甲", "乙", "0")]),
    ("tnews", {"label": "102", "label_desc": "news_entertainment",
               "sentence": "江疏影甜甜圈自拍", "keywords": "江疏影"},
     [("江疏影甜甜圈自拍", None, "102")]),
    ("iflytek", {"label": 118, "label_des": "其他", "sentence": "应用"},
     [("应用", None, "118")]),
    ("cmnli", {"sentence1": "甲", "sentence2": "乙", "label": "neutral"},
     [("甲", "乙", "neutral")]),
    ("csl", {"id": 1, "abst": "摘要", "keyword": ["水声", "带宽"], "label": "0"},
     [("水声 带宽", "摘要", "0")]),
    ("wsc", {"target": {"span2_index": 4, "span1_index": 0,
                        "span1_text": "小明", "span2_text": "他"},
             "label": True, "text": "小明告诉他走了"},
     [("_小明_告诉[他]走了", None, "true")]),
    ("copa", {"premise": "天黑了", "choice0": "灯亮了", "choice1": "花开了",
              "question": "effect", "label": 0},
     [("天黑了", "灯亮了", "1"), ("天黑了", "花开了", "0")]),
    ("copa", {"premise": "天黑了", "choice0": "灯坏了", "choice1": "花开了",
              "question": "cause", "label": 1},
     [("灯坏了", "天黑了", "0"), ("花开了", "天黑了", "1")]),
    ("xnli", {"premise": "甲", "hypo": "乙", "label": "entailment"},
     [("甲", "乙", "entailment")]),
]


@pytest.mark.parametrize("name, row, expected", CLUE)
def test_clue(tmp_path, name, row, expected):
  row = dict(row)
  write(tmp_path, "train.json", [row])
  assert triples(get(name, tmp_path)) == expected
  del row["label"]
  write(tmp_path, "test.json", [row])
  assert triples(get(name, tmp_path, "test")) == [
      expected_triple[:2] + (None,) for expected_triple in expected]
  row["label"] = "200"
  path = write(tmp_path, "dev.json", [row])
  message = error_of(get, name, tmp_path, "dev")
  assert message.startswith("%s: line 1: label 200, allowed " % path)


def test_labels_of_the_table():
  def labels(name):
    return cu.processors[name]().get_labels()

  assert labels("tnews") == [
      "100", "101", "102", "103", "104", "106", "107", "108", "109", "110",
      "112", "113", "114", "115", "116"]
  assert labels("iflytek") == [str(label) for label in range(119)]
  assert labels("cmnli") == labels("xnli") == [
      "contradiction", "entailment", "neutral"]
  assert labels("wsc") == ["true", "false"]
  assert cu.TnewsProcessor().get_labels() == labels("tnews")


def test_f4_byte_order_mark_blank_line_integer_label(tmp_path):
  write(tmp_path, "train.json", BOM +
        u'{"sentence1":"甲","sentence2":"乙","label":1}\r\n\r\n'.encode("utf-8"))
  assert triples(get("afqmc", tmp_path)) == [("甲", "乙", "1")]


def test_f5_submission_has_the_ids_of_the_input(tmp_path):
  write(tmp_path, "test.json", [
      {"id": 7, "sentence1": "甲", "sentence2": "乙"},
      {"id": 3, "sentence1": "丙", "sentence2": "丁"}])
  examples = get("afqmc", tmp_path, "test")
  assert [example.guid for example in examples] == ["test-7", "test-3"]
  path = str(tmp_path / "afqmc_predict.json")
  cu.write_predictions(path, examples, ["1", "0"], "afqmc")
  assert read(path) == '{"id": 7, "label": "1"}\n{"id": 3, "label": "0"}\n'


def test_cmnli_drops_and_counts_rows_without_label(tmp_path, caplog):
  rows = [{"sentence1": "甲", "sentence2": "乙", "label": "-"},
          {"sentence1": "丙", "sentence2": "丁", "label": "neutral"}]
  write(tmp_path, "train.json", rows)
  write(tmp_path, "test.json", rows)
  with caplog.at_level(logging.INFO, logger="absl"):
    assert triples(get("cmnli", tmp_path)) == [("丙", "丁", "neutral")]
  assert ("1 examples from 1 rows, 0 blank lines skipped, 1 rows without a "
          "valid label dropped") in caplog.text
  # A submission needs every row.
  assert triples(get("cmnli", tmp_path, "test")) == [
      ("甲", "乙", None), ("丙", "丁", "neutral")]


@pytest.mark.parametrize("spans, marked", [
    # 他说小明走了: the pronoun comes first.
    ((2, "小明", 0, "他"), "[他]说_小明_走了"),
    ((0, "他说", 2, "小明"), "_他说_[小明]走了"),
    ((0, "他说小明走了", 2, "小明"), "_他说[小明]走了_"),
])
def test_wsc_marks(tmp_path, spans, marked):
  target = dict(zip(
      ("span1_index", "span1_text", "span2_index", "span2_text"), spans))
  write(tmp_path, "train.json",
        [{"text": "他说小明走了", "target": target, "label": "false"}])
  assert triples(get("wsc", tmp_path)) == [(marked, None, "false")]


@pytest.mark.parametrize("name, change, problem", [
    ("wsc", {"target": {"span1_index": 1, "span1_text": "小明",
                        "span2_index": 4, "span2_text": "他"}},
     "span1_text is '小明', but the text has '明告' at span1_index 1"),
    ("wsc", {"target": {"span1_index": 0}},
     "expected an object with the number span1_index and the string "
     "span1_text"),
    ("csl", {"keyword": "水声"},
     "keyword is '水声', expected a list of strings"),
    ("copa", {"question": "why"},
     "question is 'why', expected effect or cause"),
    ("afqmc", {"sentence2": None}, "sentence2 is None, expected a text"),
    ("afqmc", {"label": [1]}, "label is [1], expected a string or a number"),
    ("afqmc", {"label": None}, "label is empty, expected a label"),
])
def test_malformed_fields(tmp_path, name, change, problem):
  row = dict([entry[1] for entry in CLUE if entry[0] == name][0], label="1")
  if name == "wsc":
    row["label"] = "true"
  path = write(tmp_path, "train.json", [row, dict(row, **change)])
  message = error_of(get, name, tmp_path)
  assert message.startswith("%s: line 2: " % path)
  assert problem in message


def test_missing_key(tmp_path):
  path = write(tmp_path, "train.json",
               [{"sentence1": "甲", "text": "乙", "label": "1"}])
  assert error_of(get, "afqmc", tmp_path) == (
      "%s: line 1: there is no sentence2 among the fields, which are "
      "sentence1, text and label" % path)


@pytest.mark.parametrize("line, problem", [
    ("{'sentence': '甲'}", "line 3: not JSON at character 2"),
    ("[1]", "line 3: found a JSON list, expected one object a line"),
    ("[" * 100000, "line 3: JSON nested too deep, expected one object a line"),
])
def test_malformed_json(tmp_path, line, problem):
  path = write(tmp_path, "train.json",
               '{"sentence": "甲", "label": "100"}\n\n%s\n' % line)
  assert error_of(get, "tnews", tmp_path).startswith(
      "%s: %s" % (path, problem))


# --------------------------------------------------------------- free formats


def test_tsv_by_name(tmp_path, caplog):
  write(tmp_path, "train.tsv",
        BOM + "label\tid\ttext\r\n体育\ta\t\"进球\r\n \r\n财经\tb\t股票\r\n"
        .encode("utf-8"))
  write(tmp_path, "dev.tsv", "label\ttext\n娱乐\t电影\n")
  write(tmp_path, "test.tsv", "text\n电影\n")
  processor = cu.get_processor("tsv")
  with caplog.at_level(logging.INFO, logger="absl"):
    examples = processor.get_train_examples(str(tmp_path))
  assert "2 examples from 2 rows, 1 blank lines skipped" in caplog.text
  assert triples(examples) == [("\"进球", None, "体育"), ("股票", None, "财经")]
  assert [example.example_id for example in examples] == ["a", "b"]
  assert processor.get_labels() == ["体育", "财经"]
  assert triples(processor.get_test_examples(str(tmp_path))) == [
      ("电影", None, None)]
  assert error_of(processor.get_dev_examples, str(tmp_path)) == (
      "%s: line 2: label 娱乐, allowed 体育 and 财经 (the labels in %s)" %
      (tmp_path / "dev.tsv", tmp_path / "train.tsv"))


def test_labels_are_found_without_reading_the_training_examples(tmp_path):
  write(tmp_path, "train.tsv", "text\tlabel\n甲\t10\n乙\t9\n丙\t-1\n")
  write(tmp_path, "dev.tsv", "text\tlabel\n丁\t9\n")
  processor = cu.get_processor("tsv")
  assert "found in its training file" in error_of(processor.get_labels)
  assert triples(processor.get_dev_examples(str(tmp_path))) == [
      ("丁", None, "9")]
  assert processor.get_labels() == ["-1", "9", "10"]
  assert cu.get_processor("tsv").get_labels(str(tmp_path)) == [
      "-1", "9", "10"]


def test_given_labels_need_no_training_file(tmp_path):
  write(tmp_path, "test.tsv", "text\tlabel\n甲\tb\n")
  processor = cu.get_processor("tsv")
  processor.set_labels(["b", "a"])
  assert processor.get_labels() == ["b", "a"]
  assert triples(processor.get_test_examples(str(tmp_path))) == [
      ("甲", None, "b")]
  processor = cu.get_processor("afqmc")
  processor.set_labels(["0", "1"])
  assert error_of(processor.set_labels, ["1", "0"]) == (
      "task afqmc has the labels 0 and 1, not 1 and 0")


@pytest.mark.parametrize("has_header, header", [(None, ""), (True, "x\ty\n")])
def test_tsv_by_position(tmp_path, has_header, header):
  write(tmp_path, "train.tsv", header + "a\t甲\t乙\nb\t丙\t丁\n")
  write(tmp_path, "test.tsv", header + "甲\t乙\n")
  processor = cu.get_processor("tsv", text_a_column=1, text_b_column="2",
                               label_column=0, has_header=has_header)
  assert triples(processor.get_train_examples(str(tmp_path))) == [
      ("甲", "乙", "a"), ("丙", "丁", "b")]
  assert triples(processor.get_test_examples(str(tmp_path))) == [
      ("甲", "乙", None)]


def test_tsv_positions_that_are_not_there(tmp_path):
  path = write(tmp_path, "train.tsv", "a\t甲\nb\t乙\n")
  assert error_of(get, "tsv", tmp_path, text_a_column=5, label_column=0) == (
      "%s: line 1: there is no 5 among the fields, which are 0 and 1" %
      path)


@pytest.mark.parametrize("header, problem", [
    ("text\tclass", "the header has no column label, only text and class"),
    ("label\tlabel", "the column 'label' is there more than once"),
])
def test_tsv_headers(tmp_path, header, problem):
  path = write(tmp_path, "train.tsv", header + "\n甲\t乙\n")
  message = error_of(get, "tsv", tmp_path)
  assert message.startswith("%s: line 1: %s" % (path, problem))


def test_jsonl(tmp_path):
  write(tmp_path, "train.jsonl", [
      {"a": "甲\u2028乙", "b": 5, "y": True}, {"a": "丙", "b": "丁", "y": False}])
  processor = cu.get_processor("jsonl", text_a_column="a", text_b_column="b",
                               label_column="y")
  assert triples(processor.get_train_examples(str(tmp_path))) == [
      ("甲\u2028乙", "5", "true"), ("丙", "丁", "false")]
  assert processor.get_labels() == ["false", "true"]


def test_one_label_is_too_few(tmp_path):
  write(tmp_path, "train.tsv", "text\tlabel\n甲\t1\n")
  assert "has the label 1 only, expected two or more" in error_of(
      get, "tsv", tmp_path)


@pytest.mark.parametrize("name, options, problem", [
    ("afqcm", {}, "there is no task afqcm, did you mean afqmc?"),
    ("afqmc", {"text_a_column": "a"}, "task afqmc has its own columns"),
    ("afqmc", {"has_header": True}, "task afqmc has its own columns"),
    ("jsonl", {"has_header": True}, "has_header is for the tasks tsv and csv"),
    ("tsv", {"text_a_column": 1}, "the columns 1 and label are in part names"),
    ("tsv", {"has_header": False}, "the columns text and label are names"),
])
def test_options_that_do_not_fit(name, options, problem):
  assert error_of(cu.get_processor, name, **options).startswith(problem)


# -------------------------------------------------------------------- readers


def test_line_separators_inside_texts_do_not_end_lines(tmp_path):
  write(tmp_path, "train.txt", "甲\u2028乙\t丙\x85丁\x0b\t1\n戊\u2029\t己\t0")
  assert triples(get("lcqmc", tmp_path)) == [
      ("甲\u2028乙", "丙\x85丁\x0b", "1"), ("戊\u2029", "己", "0")]


def test_a_line_of_tabs_is_a_row(tmp_path):
  write(tmp_path, "test.txt", "a\tb\n\t\n甲\t乙\n")
  assert triples(get("lcqmc", tmp_path, "test")) == [
      ("", "", None), ("甲", "乙", None)]


def test_bytes_that_are_not_utf8(tmp_path):
  path = write(tmp_path, "train.txt",
               "甲\t乙\t1\n".encode("utf-8") + "中文\t乙\t1\n".encode("gbk"))
  assert error_of(get, "lcqmc", tmp_path) == (
      "%s: line 2: byte 0xd6 at 0 is not UTF-8; convert the file to UTF-8" %
      path)


def test_missing_file(tmp_path):
  assert error_of(get, "afqmc", tmp_path, "dev") == (
      "there is no dev file of task afqmc in %s: expected dev.json, found none; "
      "the set is described at https://github.com/CLUEbenchmark/CLUE" % tmp_path)


@pytest.mark.parametrize("content", ["", "\n\n", "text\tlabel\n"])
def test_file_without_examples(tmp_path, content):
  path = write(tmp_path, "train.tsv", content)
  assert error_of(get, "tsv", tmp_path).startswith(
      "%s has no examples, expected at least one row" % path)


def test_remote_paths_go_through_tensorflow(tmp_path):
  folder = "file://%s" % tmp_path
  write(tmp_path, "train.txt", BOM + "甲\t乙\t0\r\n".encode("utf-8"))
  examples = get("lcqmc", folder)
  assert triples(examples) == [("甲", "乙", "0")]
  cu.write_predictions(folder + "/out.json", examples, ["0"], "lcqmc")
  assert read(str(tmp_path / "out.json")) == '{"id": 0, "label": "0"}\n'
  assert "in %s: expected dev.txt or dev.tsv, found out.json and" % folder in (
      error_of(get, "lcqmc", folder, "dev"))
  os.mkdir(str(tmp_path / "inner"))
  write(tmp_path / "inner", "dev_0827.tsv", "1\t丙\t丁\n")
  assert triples(get("sentence_pair", folder, "dev")) == [("丙", "丁", "1")]
  assert "there is no folder" in error_of(get, "lcqmc", folder + "/x", "dev")


def test_a_subclass_may_read_its_own_file(tmp_path):
  path = write(tmp_path, "x.tsv", "甲\t乙\n\n丙\t丁\n")
  assert cu.DataProcessor._read_tsv(path) == [["甲", "乙"], ["丙", "丁"]]


def test_no_tensorflow_for_local_files():
  code = ("import sys, classifier_utils\n"
          "assert 'tensorflow' not in sys.modules")
  subprocess.check_call(
      [sys.executable, "-c", code],
      cwd=os.path.dirname(os.path.abspath(cu.__file__)))


# ------------------------------------------------------------------- features


def features_of(text_a, text_b=None, label=None, length=8):
  return cu.convert_single_example(
      0, cu.InputExample("dev-4", text_a, text_b, label), ["a", "b"], length,
      CharTokenizer())


def test_single_text():
  features = features_of("xy", label="b")
  assert features.input_ids == [101, 120, 121, 102, 0, 0, 0, 0]
  assert features.input_mask == [1, 1, 1, 1, 0, 0, 0, 0]
  assert features.segment_ids == [0] * 8
  assert features.label_id == 1
  assert features.is_real_example is True
  assert features_of("xyzxyz", length=5).input_ids == [101, 120, 121, 122, 102]


def test_pair():
  features = features_of("xy", "z", length=7)
  assert features.input_ids == [101, 120, 121, 102, 122, 102, 0]
  assert features.input_mask == [1, 1, 1, 1, 1, 1, 0]
  assert features.segment_ids == [0, 0, 0, 0, 1, 1, 0]
  assert features.label_id == 0
  # The longer one is cut first.
  assert features_of("xyx", "z", length=5).input_ids == [
      101, 120, 102, 122, 102]


def test_padding_example():
  features = cu.convert_single_example(0, cu.PaddingInputExample(), ["a"], 3,
                                       CharTokenizer())
  assert features.input_ids == features.input_mask == [0, 0, 0]
  assert features.segment_ids == [0, 0, 0]
  assert (features.label_id, features.is_real_example) == (0, False)


def test_unknown_label():
  assert error_of(features_of, "x", label="c") == (
      "example 0 (dev-4) has the label c, allowed are a and b")


@pytest.mark.parametrize("text_b, length, least", [(None, 2, 3), ("y", 4, 5)])
def test_length_without_room(text_b, length, least):
  assert error_of(features_of, "x", text_b, length=length) == (
      "max_seq_length is %d, but example 0 (dev-4) needs at least %d for its "
      "special tokens and one token of each text" % (length, least))


def test_truncate_seq_pair():
  tokens_a, tokens_b = list("abcd"), list("xyz")
  cu.truncate_seq_pair(tokens_a, tokens_b, 5)
  # 4+3: a; 3+3: b, as of two of the same length.
  assert (tokens_a, tokens_b) == (list("abc"), list("xy"))


def test_f1_f2_cache_name():
  def name(text="甲", label="1", split="train", labels=("0", "1"), length=32,
           vocab="v", lower=True):
    examples = [cu.InputExample("train-0", text, "乙", label),
                cu.PaddingInputExample()]
    return cu.features_cache_name("LCQMC", split, examples, labels, length,
                                  vocab, lower)

  assert name() == name()
  assert name().startswith("lcqmc.train.32.")
  assert name().endswith(".tf_record")
  others = [name(text="丙"), name(label="0"), name(split="dev"),
            name(labels=("1", "0")), name(length=64), name(vocab="w"),
            name(lower=False)]
  assert len(set(others + [name()])) == 8


# ---------------------------------------------------------------- predictions


def test_predictions(tmp_path):
  path = str(tmp_path / "tnews_predict.json")
  examples = [cu.InputExample("test-x", "甲", example_id="x"),
              cu.InputExample("test-1", "乙")]
  cu.write_predictions(path, examples, ["100", "101"], "tnews")
  assert read(path) == ('{"id": "x", "label": "100", "label_desc": ""}\n'
                        '{"id": 1, "label": "101", "label_desc": ""}\n')
  cu.write_predictions(path, examples, ["体育", "财经"], "tsv")
  assert read(path).startswith('{"id": "x", "label": "体育"}\n')
  assert "there are 1 predictions" in error_of(
      cu.write_predictions, path, examples, ["体育"], "tsv")
  assert read(path).startswith('{"id": "x", "label": "体育"}\n')
  assert os.listdir(str(tmp_path)) == ["tnews_predict.json"]


def test_probabilities(tmp_path):
  path = str(tmp_path / "test_results.tsv")
  cu.write_probabilities(path, np.array([[0.25, 0.75], [0.1, 0.9]], np.float32))
  assert read(path) == "0.25\t0.75\n0.1\t0.9\n"


# -------------------------------------------------------------------- metrics


def test_metrics_by_hand():
  # c is never there, d never predicted nor there.
  metrics = cu.compute_metrics([0, 0, 0, 1, 1], [0, 0, 1, 1, 2],
                               ["a", "b", "c", "d"])
  assert metrics["num_examples"] == 5
  assert metrics["accuracy"] == pytest.approx(3 / 5)
  assert metrics["majority_class_accuracy"] == pytest.approx(3 / 5)
  assert metrics["confusion_matrix"] == [
      [2, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
  zero = {"precision": 0, "recall": 0, "f1": 0, "support": 0}
  assert metrics["per_class"]["a"] == pytest.approx(
      {"precision": 1, "recall": 2 / 3, "f1": 0.8, "support": 3})
  assert metrics["per_class"]["b"] == pytest.approx(
      {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 2})
  assert metrics["per_class"]["c"] == metrics["per_class"]["d"] == zero
  assert metrics["macro_f1"] == pytest.approx((0.8 + 0.5) / 4)
  json.dumps(metrics)


@pytest.mark.parametrize("true, predicted, problem", [
    ([], [], "got 0 true and 0 predicted labels"),
    ([0, 1], [0], "got 2 true and 1 predicted labels"),
    ([0, 2], [0, 1], "label ids run from 0 to 2, expected 0 to 1"),
    ([0, 1], [-1, 1], "label ids run from -1 to 1, expected 0 to 1"),
])
def test_metrics_of_wrong_ids(true, predicted, problem):
  assert error_of(cu.compute_metrics, true, predicted,
                  ["a", "b"]).startswith(problem)


def test_format_metrics():
  text = cu.format_metrics(cu.compute_metrics(
      np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), ["体育", "x"]))
  assert text == """\
accuracy 0.7500 (majority class 0.5000), macro-F1 0.7333, 4 examples

label  precision  recall      f1  support
体育      1.0000  0.5000  0.6667        2
x         0.6667  1.0000  0.8000        2

true \\ predicted  体育  x
体育                 1  1
x                    0  2
"""


def test_format_metrics_of_many_classes():
  labels = [str(label) for label in range(21)]
  true = list(range(21)) + [3] * 4 + [5] * 2
  predicted = list(range(1, 21)) + [0] + [7] * 4 + [6] * 2
  text = cu.format_metrics(cu.compute_metrics(true, predicted, labels))
  lines = text.split("\n\n")[2].splitlines()
  assert len(lines) == 11
  assert [line.split() for line in lines[:4]] == [
      ["true", "predicted", "count"], ["3", "7", "4"], ["5", "6", "3"],
      ["0", "1", "1"]]
