"""Tests of the table: every task's own files, and what is wrong with others."""

import json
import logging
import os
import zipfile

import numpy as np
import pytest

import classifier_tasks as ct
import classifier_utils as cu
from test_classifier_utils import BOM
from test_classifier_utils import error_of
from test_classifier_utils import get
from test_classifier_utils import read
from test_classifier_utils import triples
from test_classifier_utils import write


def write_files(folder, files):
  """Writes files from a dict of names, which may have folders in them."""
  for name, content in files.items():
    path = os.path.join(str(folder), name)
    if not os.path.isdir(os.path.dirname(path)):
      os.makedirs(os.path.dirname(path))
    write(os.path.dirname(path), os.path.basename(path), content)


PAIRS = "今天好吗\t\"今天\"好不好\t1\n你在哪\t吃了没\t0\n"
PAIR_TRIPLES = [("今天好吗", "\"今天\"好不好", "1"), ("你在哪", "吃了没", "0")]
CLUE_PAIR = [{"sentence1": "甲", "sentence2": "乙", "label": "0"}]
TNEWS = [{"label": "102", "label_desc": "news_entertainment",
          "sentence": "江疏影甜甜圈自拍", "keywords": "江疏影"}]
IFLYTEK = [{"label": "110", "label_des": "社区超市", "sentence": "应用"}]
OCNLI = {"level": "medium", "sentence1": "甲", "sentence2": "乙",
         "label": "neutral", "label0": "neutral", "label1": "neutral",
         "label2": None, "genre": "gov", "prem_id": "gov_2", "id": 7}
WSC = [{"target": {"span2_index": 4, "span1_index": 0, "span1_text": "小明",
                   "span2_text": "他"},
        "label": "true", "idx": 3, "text": "小明告诉他走了"}]
CSL = [{"id": 1, "abst": "摘要", "keyword": ["水声", "带宽"], "label": "0"}]
COPA = [{"premise": "天黑了", "choice0": "灯亮了", "choice1": "花开了",
         "question": "effect", "label": 0}]
XNLI_DEV = ("language\tgold_label\tsentence1\tsentence2\tpairID\n"
            "ar\tneutral\tx\ty\t0\nzh\tneutral\t从 概念 上\t看\t1\n")


def lines(rows):
  return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


# One row for each form: the task, the split, a file, the examples, then a file
# of the same form with a fault in it, and what is said about that.
FORMS = [
    ("lcqmc", "train", "train.txt", "text_a\ttext_b\tlabel\n" + PAIRS,
     PAIR_TRIPLES, PAIRS + "\n甲\t乙\t丙\t1\n",
     "line 4: found 4 tab-separated columns, expected 3"),
    ("lcqmc_pair", "dev", "dev.tsv", BOM + PAIRS.replace("\n", "\r\n\r\n")
     .encode("utf-8"), PAIR_TRIPLES, PAIRS + "甲\t乙\n",
     "line 3: found 2 tab-separated columns, expected 3"),
    ("sentence_pair", "test", "test_0827.tsv", "label\ta\tb\n1\t甲\t乙\n",
     [("甲", "乙", "1")], "label\ta\tb\n3\t甲\t乙\n",
     "line 2: label 3, allowed 0 and 1"),
    # The header's names count, in whatever order they are.
    ("bq", "train", "train.tsv", "label\tsentence1\tsentence2\n1\t甲\t乙\n",
     [("甲", "乙", "1")], "sentence1\tsentence2\tlabel\n甲\t乙\tx\n",
     "line 2: label x, allowed 0 and 1"),
    ("pawsx", "dev", "zh/dev_2k.tsv",
     "id\tsentence1\tsentence2\tlabel\n1\t\"甲\t乙\t0\n", [("\"甲", "乙", "0")],
     "id\tsentence1\tsentence2\n1\t甲\t乙\n",
     "line 1: the header has no column label, only id, sentence1 and"),
    ("pawsx", "train", "train.tsv", PAIRS, PAIR_TRIPLES, PAIRS + "甲\t乙\t2\n",
     "line 3: label 2, allowed 0 and 1"),
    ("xnli", "train", "train.json",
     [{"premise": "甲", "hypo": "乙", "label": "entailment"}],
     [("甲", "乙", "entailment")],
     [{"premise": "甲", "hypothesis": "乙", "label": "entailment"}],
     "line 1: there is no hypo among the fields"),
    ("xnli", "train", "multinli/multinli.train.zh.tsv",
     "premise\thypo\tlabel\n从 概念 上\t看\tcontradictory\n",
     [("从 概念 上", "看", "contradiction")],
     "premise\thypo\tlabel\n甲\t乙\tcontra\n",
     "line 2: label contra, allowed contradiction, entailment and neutral"),
    ("xnli", "dev", "xnli.dev.tsv", XNLI_DEV, [("从 概念 上", "看", "neutral")],
     XNLI_DEV.replace("language", "lang"),
     "line 2: there is no language among the fields"),
    ("xnli", "test", "test.tsv", "text_a\ttext_b\tlabel\n甲\t乙\tneutral\n",
     [("甲", "乙", "neutral")], "甲\t乙\tneutral\n\t\t\t\n",
     "line 2: found 4 tab-separated columns, expected 3"),
    ("chnsenticorp", "train", "train.tsv", "label\ttext_a\n1\t\"房间\"好\n",
     [("\"房间\"好", None, "1")], "label\ttext_a\n1\t房间\t好\n",
     "line 2: found 3 tab-separated columns, expected 2 (label and text)"),
    ("chnsenticorp", "dev", "dev.tsv", "qid\tlabel\ttext_a\n0\t1\t房间好\n",
     [("房间好", None, "1")], "qid\tlabel\ttext_a\n0\t\t房间好\n",
     "line 2: label is empty, expected a label"),
    ("chnsenticorp", "test", "test.tsv", "qid\ttext_a\n0\t房间好\n",
     [("房间好", None, None)], "qid\ttext_a\n0\n",
     "line 2: found 1 tab-separated columns, expected 2 (id and text)"),
    ("thucnews", "train", "train.tsv", "label\ttext\n体育\t进球\n财经\t股票\n",
     [("进球", None, "体育"), ("股票", None, "财经")], "体育\t进球\n",
     "line 1: the header has no column text, only 体育 and 进球"),
    ("thucnews", "train", "train.txt", "词汇阅读是关键\t3\n股票\t0\n",
     [("词汇阅读是关键", None, "3"), ("股票", None, "0")], "股票\t0\n词汇\n",
     "line 2: found 1 tab-separated columns, expected 2 (text and label)"),
    ("thucnews", "train", "cnews.train.txt", "体育\t进球\n财经\t股票\n",
     [("进球", None, "体育"), ("股票", None, "财经")], "体育\t进球\n财经 股票\n",
     "line 2: found 1 tab-separated columns, expected 2 (label and text)"),
    ("inews", "train", "train.txt",
     "1_!_00005a3efe934a19_!_标题_!_正文\t好\n0_!_0a_!_题_!_\n",
     [("标题", "正文\t好", "1"), ("题", "", "0")],
     "1_!_00005a3efe934a19_!_标题_!_正文\n1_!_标题_!_正文\n",
     "line 2: found 3 _!_-separated columns, expected 4 (label, id, title and "
     "body)"),
    ("inews", "dev", "dev.txt", "2_!_标题_!_正文\n", [("标题", "正文", "2")],
     "3_!_标题_!_正文\n", "line 1: label 3, allowed 0, 1 and 2"),
    ("inews", "test", "test.tsv", "label\ttitle\tbody\n1\t标题\t\"正文\n",
     [("标题", "\"正文", "1")], "label\ttitle\ttext\n1\t标题\t正文\n",
     "line 1: the header has no column body, only label, title and text"),
    ("afqmc", "train", "afqmc_public/train.json",
     BOM + lines(CLUE_PAIR).replace("\"0\"", "0").encode("utf-8"),
     [("甲", "乙", "0")], [{"sentence1": "甲", "label": "0"}],
     "line 1: there is no sentence2 among the fields"),
    ("tnews", "train", "train.json", TNEWS, [("江疏影甜甜圈自拍", None, "102")],
     lines(TNEWS) + lines(TNEWS).replace("102", "105"),
     "line 2: label 105, allowed 100, 101, 102, 103, 104, 106"),
    ("tnews10", "train", "train.json", TNEWS,
     [("江疏影甜甜圈自拍", None, "102")], lines(TNEWS) + "{\n",
     "line 2: not JSON at character 2"),
    ("iflytek", "train", "train.json", IFLYTEK, [("应用", None, "110")],
     lines(IFLYTEK).replace("\"110\"", "119"), "line 1: label 119, allowed 0, "),
    ("cmnli", "train", "train.json",
     [dict(CLUE_PAIR[0], label="-"), dict(CLUE_PAIR[0], label="neutral")],
     [("甲", "乙", "neutral")], CLUE_PAIR, "line 1: label 0, allowed contra"),
    ("ocnli", "train", "OCNLI-master/data/ocnli/train.50k.json",
     [dict(OCNLI, label="-"), OCNLI], [("甲", "乙", "neutral")],
     [dict(OCNLI, label=None)], "line 1: label is empty, expected a label"),
    ("csl", "train", "train.json", CSL, [("水声 带宽", "摘要", "0")],
     [dict(CSL[0], keyword="水声 带宽")],
     "line 1: keyword is '水声 带宽', expected a list of strings"),
    ("wsc", "train", "train.json", WSC, [("_小明_告诉[他]走了", None, "true")],
     [dict(WSC[0], text="他")], "line 1: span1_text is '小明', but the text has"),
    ("cluewsc2020", "dev", "dev.json", WSC,
     [("_小明_告诉[他]走了", None, "true")], [dict(WSC[0], label="yes")],
     "line 1: label yes, allowed true and false"),
    ("wsc10", "dev", "dev.json", WSC, [("_小明_告诉[他]走了", None, "true")],
     [dict(WSC[0], target=None)], "line 1: target is None, expected an object"),
    ("copa", "train", "train.json", COPA,
     [("天黑了", "灯亮了", "1"), ("天黑了", "花开了", "0")],
     [dict(COPA[0], question="why")], "line 1: question is 'why', expected"),
    ("fewclue_eprstmt", "train", "eprstmt/train_0.json",
     [{"id": 23, "sentence": "外包装", "label": "Positive"}],
     [("外包装", None, "Positive")],
     [{"id": 23, "sentence": "外包装", "label": "positive"}],
     "line 1: label positive, allowed Negative and Positive"),
    ("fewclue_csldcp", "train", "train_0.json",
     [{"content": "菊花", "label": "园艺学", "id": 1},
      {"content": "水力", "label": "水利工程", "id": 2}],
     [("菊花", None, "园艺学"), ("水力", None, "水利工程")],
     [{"sentence": "菊花", "label": "园艺学", "id": 1},
      {"sentence": "水力", "label": "水利工程", "id": 2}],
     "line 1: there is no content among the fields"),
    ("fewclue_tnews", "dev", "dev_0.json", TNEWS,
     [("江疏影甜甜圈自拍", None, "102")], [dict(TNEWS[0], label=1)],
     "line 1: label 1, allowed 100"),
    ("fewclue_iflytek", "dev", "dev_0.json", IFLYTEK, [("应用", None, "110")],
     "[]\n", "line 1: found a JSON list, expected one object a line"),
    ("fewclue_ocnli", "train", "train_0.json", [OCNLI],
     [("甲", "乙", "neutral")], [dict(OCNLI, sentence1=None)],
     "line 1: sentence1 is None, expected a text"),
    ("fewclue_bustm", "test_public", "test_public.json", CLUE_PAIR,
     [("甲", "乙", "0")], lines(CLUE_PAIR) + lines([dict(CLUE_PAIR[0], label=2)]),
     "line 2: label 2, allowed 0 and 1"),
    ("fewclue_csl", "train", "train_0.json", CSL, [("水声 带宽", "摘要", "0")],
     [{"keyword": ["水声"], "label": "0"}], "line 1: there is no abst among"),
    ("fewclue_cluewsc", "test", "test.json", WSC,
     [("_小明_告诉[他]走了", None, "true")], [{"text": "甲"}],
     "line 1: there is no target among the fields"),
    ("tsv", "train", "train.tsv", "label\ttext\na\t\"甲\nb\t乙\"\n",
     [("\"甲", None, "a"), ("乙\"", None, "b")], "label\ttext\na\t甲\t乙\n",
     "line 2: found 3 tab-separated columns, expected 2"),
    ("csv", "train", "train.csv",
     BOM + "label,text\r\na,\"甲,\n\"\"乙\"\"\"\r\n\r\nb,丙\r\n".encode("utf-8"),
     [("甲,\n\"乙\"", None, "a"), ("丙", None, "b")],
     "label,text\na,\"甲\n乙\"\nb,丙,丁\n",
     "line 4: found 3 comma-separated columns, expected 2"),
    ("jsonl", "train", "train.jsonl",
     [{"text": "甲", "label": 1}, {"text": "乙", "label": 2}],
     [("甲", None, "1"), ("乙", None, "2")], "{\"text\": \"甲\"}\n",
     "line 1: there is no label among the fields, which are text"),
]


@pytest.mark.parametrize(
    "name, split, file_name, content, expected, malformed, problem", FORMS,
    ids=["%s-%s" % (form[0], form[2].replace("/", "-")) for form in FORMS])
def test_every_form(tmp_path, name, split, file_name, content, expected,
                    malformed, problem):
  write_files(tmp_path, {file_name: content})
  assert triples(get(name, tmp_path, split)) == expected
  write_files(tmp_path, {file_name: malformed})
  assert error_of(get, name, tmp_path, split).startswith(
      "%s: %s" % (os.path.join(str(tmp_path), file_name), problem))


def test_no_task_is_forgotten():
  assert {form[0] for form in FORMS} == set(ct.TASKS)
  for task in ct.TASKS.values():
    forms = {layout.format for layout in task.layouts}
    assert forms <= set(ct._READERS), task.name
    assert task.metric in cu.METRICS[task.task_type]
    for figure in task.published:
      assert figure.source and 40 < figure.test < 100
      assert figure.dev is None or 40 < figure.dev < 100


def test_pairs_and_single_texts():
  assert [name for name in ct.TASKS if cu.is_pair(ct.TASKS[name])] == [
      "lcqmc", "lcqmc_pair", "sentence_pair", "bq", "pawsx", "xnli", "inews",
      "afqmc", "cmnli", "ocnli", "csl", "copa", "fewclue_ocnli",
      "fewclue_bustm", "fewclue_csl"]


def test_published_figures():
  figures = {figure.model: figure for figure in ct.TASKS["iflytek"].published}
  assert figures["ALBERT-tiny"] == ct.Published(
      "ALBERT-tiny", 48.76, 48.71, "CLUE README")
  assert figures["ALBERT-xxlarge"].test == 62.89
  assert ct.TASKS["wsc"].published[-1].test == 61.54
  assert ct.TASKS["bq"].published == ()


def test_a_new_task_is_one_entry(tmp_path, monkeypatch):
  monkeypatch.setitem(ct.TASKS, "weather", ct.Task(
      "weather", (ct.Layout(
          "delimited", {"train": ("w.tsv",), "test": ("t.tsv",)}, "place",
          "sky", "rain"),),
      ("dry", "wet"), ct._plain, submission="w.json"))
  write(tmp_path, "w.tsv", "sky\train\tplace\n云\twet\t北京\n")
  write(tmp_path, "t.tsv", "place\tsky\n上海\t晴\n")
  assert triples(get("weather", tmp_path)) == [("北京", "云", "wet")]
  processor = cu.get_processor("weather")
  examples = processor.get_test_examples(str(tmp_path))
  path = processor.write_submission(str(tmp_path), examples, [[0.9, 0.1]])
  assert read(path) == '{"id": 0, "label": "dry"}\n'
  assert os.path.basename(path) == "w.json"
  assert error_of(get, "weather", tmp_path, "dev") == (
      "task weather has no split dev, only train and test")


# --------------------------------------------------- files, headers, variants


def test_test_files_without_header_lose_no_row(tmp_path):
  write(tmp_path, "test.tsv", "甲\t乙\n丙\t丁\n")
  assert triples(get("bq", tmp_path, "test")) == [
      ("甲", "乙", None), ("丙", "丁", None)]
  write(tmp_path, "test.tsv", "query\ttitle\n丙\t丁\n")
  assert triples(get("bq", tmp_path, "test")) == [("丙", "丁", None)]


@pytest.mark.parametrize("line, expected", [
    ("标题_!_正文", ("标题", "正文", None)),
    ("00ab_!_标题_!_正文", ("标题", "正文", None)),
    ("1_!_标题_!_正文", ("标题", "正文", "1")),
    ("1_!_00ab_!_标题_!_正文", ("标题", "正文", "1")),
])
def test_inews_test_files(tmp_path, line, expected):
  write(tmp_path, "test.txt", line + "\n")
  assert triples(get("inews", tmp_path, "test")) == [expected]


def test_what_was_found_where_a_file_is_missing(tmp_path):
  write_files(tmp_path, {"Train.json": "", "other/x.json": "", ".hidden": "",
                         "__MACOSX/train.json": ""})
  assert error_of(get, "afqmc", tmp_path) == (
      "there is no train file of task afqmc in %s: expected train.json, found "
      "other/ and Train.json; the set is described at "
      "https://github.com/CLUEbenchmark/CLUE" % tmp_path)
  with zipfile.ZipFile(str(tmp_path / "afqmc_public.zip"), "w") as bundle:
    bundle.writestr("x", "")
  assert error_of(get, "afqmc", tmp_path).endswith(
      "; afqmc_public.zip itself can be given as the folder")
  assert error_of(get, "lcqmc", tmp_path / "no").startswith(
      "there is no folder %s, expected one with train.txt or train.tsv, the "
      "train file of task lcqmc; the set is" % (tmp_path / "no"))


def test_two_folders_inside_are_one_too_many(tmp_path):
  write_files(tmp_path, {"a/train.json": CLUE_PAIR, "b/train.json": CLUE_PAIR})
  assert error_of(get, "afqmc", tmp_path) == (
      "%s has more than one train file of task afqmc, %s and %s; give the "
      "folder of one of them" % (tmp_path, tmp_path / "a" / "train.json",
                                 tmp_path / "b" / "train.json"))
  write(tmp_path, "train.json", [dict(CLUE_PAIR[0], sentence1="丙")])
  assert triples(get("afqmc", tmp_path)) == [("丙", "乙", "0")]


def test_a_folder_with_files_of_the_task_is_not_completed_from_inside(tmp_path):
  write_files(tmp_path, {"train.json": CLUE_PAIR, "old/dev.json": CLUE_PAIR})
  assert "expected dev.json, found old/ and train.json" in error_of(
      get, "afqmc", tmp_path, "dev")
  os.remove(str(tmp_path / "train.json"))
  assert len(get("afqmc", tmp_path, "dev")) == 1


def test_both_releases_of_xnli_side_by_side(tmp_path):
  write_files(tmp_path, {
      "XNLI-MT-1.0/multinli/multinli.train.zh.tsv":
          "premise\thypo\tlabel\n甲\t乙\tneutral\n",
      "XNLI-1.0/xnli.dev.tsv": XNLI_DEV})
  assert len(get("xnli", tmp_path)) == len(get("xnli", tmp_path, "dev")) == 1


@pytest.mark.parametrize("inner", ["", "afqmc_public/"])
def test_a_zip_file_is_a_folder(tmp_path, inner):
  path = str(tmp_path / "afqmc_public.zip")
  with zipfile.ZipFile(path, "w") as bundle:
    bundle.writestr("__MACOSX/._train.json", "x")
    bundle.writestr(inner + "train.json", lines(CLUE_PAIR))
    bundle.writestr(inner + "dev.json", lines(CLUE_PAIR) + "x\n")
  assert triples(get("afqmc", path)) == [("甲", "乙", "0")]
  assert error_of(get, "afqmc", path, "dev").startswith(
      "%s/%sdev.json: line 2: not JSON" % (path, inner))
  assert "in %s: expected test.json, found %s" % (
      path, inner or "dev.json and train.json") in error_of(
          get, "afqmc", path, "test")
  write(tmp_path, "afqmc_public.zip", "no zip")
  assert error_of(get, "afqmc", path).startswith(
      "%s cannot be read as a zip file (" % path)


def test_versions_of_tnews(tmp_path):
  for number, name in enumerate(["test", "test1.0", "test1.1"]):
    write(tmp_path, name + ".json", [{"id": number, "sentence": "甲"}])
  ids = lambda name: [example.example_id
                      for example in get(name, tmp_path, "test")]
  assert ids("tnews") == [2] and ids("tnews10") == [1]
  os.remove(str(tmp_path / "test1.1.json"))
  assert ids("tnews") == [0]
  os.remove(str(tmp_path / "test1.0.json"))
  assert ids("tnews10") == [0]


def test_variants(tmp_path):
  write_files(tmp_path, {
      "train_0.json": [dict(CLUE_PAIR[0], sentence1="零")],
      "train_3.json": [dict(CLUE_PAIR[0], sentence1="三")],
      "train_few_all.json": [dict(CLUE_PAIR[0], sentence1="全")]})
  first = lambda **options: get("fewclue_bustm", tmp_path, **options)[0].text_a
  assert [first(), first(variant="3"), first(variant="few_all")] == [
      "零", "三", "全"]
  assert "expected train_4.json, found train_0.json, train_3.json and" in (
      error_of(get, "fewclue_bustm", tmp_path, variant="4"))
  assert error_of(cu.get_processor, "ocnli", variant="5k") == (
      "task ocnli has no variant 5k, expected 50k or 30k or 10k or 3k")
  assert error_of(cu.get_processor, "afqmc", variant="0") == (
      "task afqmc has no variant 0, expected none to be given")


def test_fewer_rows_than_published_are_told(tmp_path, caplog):
  write(tmp_path, "train.json", CLUE_PAIR)
  with caplog.at_level(logging.WARNING, logger="absl"):
    get("afqmc", tmp_path)
  assert ("train.json has 1 rows, but the train set of afqmc as published has "
          "34334") in caplog.text


def test_thucnews_of_a_folder_for_each_label(tmp_path):
  texts = {(label, number): "%s标题%d\n\u3000\u3000正文\n" % (label, number)
           for label in ("体育", "财经") for number in range(40)}
  write_files(tmp_path, {"THUCNews/%s/%d.txt" % key: text
                         for key, text in texts.items()})
  write_files(tmp_path, {"THUCNews/readme/about.txt": "x"})
  splits = {split: triples(get("thucnews", tmp_path, split))
            for split in ("train", "dev", "test")}
  every = splits["train"] + splits["dev"] + splits["test"]
  assert sorted(every) == sorted(
      ("%s标题%d 正文" % key, None, key[0]) for key in texts)
  assert 50 < len(splits["train"]) < 75
  for split, examples in splits.items():
    assert examples
    assert {ct.split_of_text(text) for text, _, _ in examples} == {split}
  # Their MD5, as numbers mod 100: 2, 10 and 24.
  assert [ct.split_of_text(text) for text in "戊未甲"] == [
      "test", "dev", "train"]
  assert error_of(get, "thucnews", tmp_path / "THUCNews" / "体育").startswith(
      "there is no train file of task thucnews in ")
  path = write(tmp_path / "THUCNews" / "财经", "7.txt", b"\xd6\xd0")
  assert error_of(get, "thucnews", tmp_path).startswith(
      "%s: line 1: byte 0xd6 at 0 is not UTF-8" % path)


def test_other_names_in_a_header_do_not_hide_a_column_twice(tmp_path):
  path = write(tmp_path, "train.tsv", "label\ttext_a\tsentence\n1\t甲\t乙\n")
  assert error_of(get, "chnsenticorp", tmp_path).startswith(
      "%s: line 1: the column 'text' is there more than once" % path)


# ------------------------------------------------------------------------ csv


@pytest.mark.parametrize("record, line", [("a,\"甲\nb,乙\n", 3),
                                          ("a,\"甲\"x\n", 3)])
def test_quotes_that_are_not_csv(tmp_path, record, line):
  path = write(tmp_path, "train.csv", "label,text\nb,乙\n" + record)
  assert error_of(get, "csv", tmp_path).startswith(
      "%s: line %d: the record that begins here is not CSV (" % (path, line))


def test_csv_by_position(tmp_path):
  write(tmp_path, "train.csv", "甲\u2028,a\n\"乙\",b\n")
  assert triples(get("csv", tmp_path, text_a_column=0, label_column=1)) == [
      ("甲\u2028", None, "a"), ("乙", None, "b")]
  write(tmp_path, "train.csv", "标题,类\n甲,a\n\"乙\",b\n")
  write(tmp_path, "test.csv", "标题,类\n\"丙,\"\n")
  assert triples(get("csv", tmp_path, "test", text_a_column=0, label_column=1,
                     has_header=True)) == [("丙,", None, None)]


def test_a_column_of_texts_is_no_label_column(tmp_path):
  path = write(tmp_path, "train.csv", "label,text\n" + "".join(
      "文%d,体育\n" % number for number in range(1001)))
  assert error_of(get, "csv", tmp_path) == (
      "%s has 1001 different labels in 1001 rows, expected fewer: is label the "
      "column of the labels?" % path)


# ------------------------------------------------------- many labels, numbers


def test_many_labels_of_tsv(tmp_path):
  write(tmp_path, "train.tsv",
        "text\tlabel\n甲\t财经, 体育\n乙\t体育\n丙\t\n丁\t体育,体育\n")
  write(tmp_path, "test.tsv", "text\tlabel\n戊\t\n己\t\n")
  processor = cu.get_processor("tsv", task_type="multi")
  folder = str(tmp_path)
  assert triples(processor.get_train_examples(folder)) == [
      ("甲", None, ("财经", "体育")), ("乙", None, ("体育",)), ("丙", None, ()),
      ("丁", None, ("体育",))]
  assert processor.get_labels() == ["体育", "财经"]
  assert processor.num_outputs == 2
  # Empty in every row: yet to be filled in.
  assert triples(processor.get_test_examples(folder)) == [
      ("戊", None, None), ("己", None, None)]
  write(tmp_path, "test.tsv", "text\tlabel\n戊\t\n己\t财经\n")
  assert triples(processor.get_test_examples(folder)) == [
      ("戊", None, ()), ("己", None, ("财经",))]
  write(tmp_path, "test.tsv", "text\n戊\n")
  assert triples(processor.get_test_examples(folder)) == [("戊", None, None)]


def test_many_labels_of_jsonl(tmp_path):
  write(tmp_path, "train.jsonl", [
      {"text": "甲", "label": ["a,b", 1]}, {"text": "乙", "label": []},
      {"text": "丙", "label": "c,1"}, {"text": "丁", "label": None}])
  assert [label for _, _, label in triples(
      get("jsonl", tmp_path, task_type="multi"))] == [
          ("a,b", "1"), (), ("c", "1"), ()]


@pytest.mark.parametrize("label, problem", [
    ("a,,b", "label is 'a,,b', which has an empty label between commas"),
    ({"a": 1}, "label is {'a': 1}, expected labels between commas or a list"),
    ([["a"]], "label is [['a']], expected labels between commas or a list"),
    ("c", "label c, allowed a and b"),
])
def test_many_labels_that_are_wrong(tmp_path, label, problem):
  write(tmp_path, "train.jsonl", [{"text": "甲", "label": "a,b"}])
  path = write(tmp_path, "dev.jsonl", [{"text": "甲", "label": label}])
  assert error_of(get, "jsonl", tmp_path, "dev", task_type="multi").startswith(
      "%s: line 1: %s" % (path, problem))


def test_numbers(tmp_path):
  write(tmp_path, "train.csv", "text,label\n甲,3.5\n乙,-1\n")
  write(tmp_path, "test.csv", "text,label\n丙,\n")
  processor = cu.get_processor("csv", task_type="regression")
  assert triples(processor.get_train_examples(str(tmp_path))) == [
      ("甲", None, 3.5), ("乙", None, -1.0)]
  assert triples(processor.get_test_examples(str(tmp_path))) == [
      ("丙", None, None)]
  assert processor.get_labels() == [] and processor.num_outputs == 1
  processor.set_labels([])
  assert "has the labels none, not a" in error_of(processor.set_labels, ["a"])
  for wrong in ("很好", "nan", "inf"):
    path = write(tmp_path, "train.csv", "text,label\n甲,%s\n" % wrong)
    assert error_of(get, "csv", tmp_path, task_type="regression") == (
        "%s: line 2: label is '%s', expected a number" % (path, wrong))


@pytest.mark.parametrize("name, options, problem", [
    ("afqmc", {"task_type": "multi"},
     "task afqmc is of the type single; task_type multi is for the tasks tsv"),
    ("tsv", {"task_type": "many"},
     "task_type is many, expected single or multi or regression"),
    ("tsv", {"task_type": "multi", "metric": "accuracy"},
     "metric is accuracy, but task tsv of the type multi has micro_f1 or "),
    ("afqmc", {"metric": "macro_f1"},
     "metric is macro_f1, but task afqmc of the type single has accuracy"),
])
def test_types_and_metrics_that_do_not_fit(name, options, problem):
  assert error_of(cu.get_processor, name, **options).startswith(problem)


def test_types_and_metrics_that_fit():
  metric = lambda *args, **options: (
      cu.get_processor(*args, **options).task.metric)
  assert metric("afqmc", task_type="single", metric="accuracy") == "accuracy"
  assert metric("tsv") == "accuracy"
  assert metric("tsv", metric="macro_f1") == "macro_f1"
  assert metric("tsv", task_type="multi") == "micro_f1"
  assert metric("jsonl", task_type="regression") == "spearman"


# ------------------------------------------------------- scores, submissions


def copa_examples(folder):
  write(folder, "test.json", [dict(COPA[0], id=5), dict(COPA[0], id=3, label=1),
                              dict(COPA[0], id=4, label=1)])
  return get("copa", folder, "test")


def test_copa_is_scored_a_question(tmp_path):
  examples = copa_examples(tmp_path)
  assert len(examples) == 6
  processor = cu.get_processor("copa")
  # "1" is more probable than "0" for both choices, for none, for the right one.
  outputs = np.array([[0.2, 0.8], [0.4, 0.6], [0.9, 0.1], [0.7, 0.3],
                      [0.1, 0.9], [0.8, 0.2]])
  metrics = processor.score(examples, outputs)
  assert metrics["num_examples"] == 3
  assert metrics["score"] == metrics["accuracy"] == pytest.approx(2 / 3)
  assert metrics["metric"] == "accuracy"
  assert metrics["confusion_matrix"] == [[1, 0], [1, 1]]
  # Logits of the same probabilities say the same.
  logits = np.log(outputs) + np.arange(6)[:, np.newaxis]
  assert processor.answers(examples, logits).predicted == ["0", "1", "0"]
  path = processor.write_submission(str(tmp_path), examples, outputs)
  assert read(path) == ('{"id": 5, "label": "0"}\n{"id": 3, "label": "1"}\n'
                        '{"id": 4, "label": "0"}\n')
  assert error_of(processor.answers, examples[:3], outputs[:3]) == (
      "example test-3-0 is alone, expected all the choices of its question one "
      "after the other")
  examples[3].label = None
  assert processor.score(examples, outputs) is None


def test_csl_is_scored_a_row(tmp_path):
  write(tmp_path, "dev.json", CSL + [dict(CSL[0], label="1")])
  examples = get("csl", tmp_path, "dev")
  metrics = cu.get_processor("csl").score(examples, [[1, 0], [1, 0]])
  assert metrics["num_examples"] == 2 and metrics["score"] == 0.5


def test_score_of_macro_f1(tmp_path):
  write(tmp_path, "train.tsv", "text\tlabel\n甲\ta\n乙\tb\n丙\ta\n")
  processor = cu.get_processor("tsv", metric="macro_f1")
  examples = processor.get_train_examples(str(tmp_path))
  metrics = processor.score(examples, [[1, 0], [1, 0], [1, 0]])
  assert metrics["accuracy"] == pytest.approx(2 / 3)
  assert metrics["score"] == metrics["macro_f1"] == pytest.approx(0.4)


def test_score_and_submission_of_many_labels(tmp_path):
  write(tmp_path, "train.tsv", "id\ttext\tlabel\nx\t甲\ta,b\ny\t乙\tb\n")
  processor = cu.get_processor("tsv", task_type="multi")
  examples = processor.get_train_examples(str(tmp_path))
  outputs = [[0.6, 0.4], [0.1, 0.5]]
  metrics = processor.score(examples, outputs)
  assert metrics["score"] == metrics["micro_f1"] == pytest.approx(4 / 5)
  assert metrics["exact_match"] == 0.5
  assert processor.score(examples, outputs, threshold=0.4)["score"] == 1
  path = processor.write_submission(str(tmp_path), examples, outputs)
  assert read(path) == ('{"id": "x", "label": ["a"]}\n'
                        '{"id": "y", "label": ["b"]}\n')


def test_score_and_submission_of_numbers(tmp_path):
  write(tmp_path, "train.tsv", "text\tlabel\n甲\t1\n乙\t2\n丙\t4\n")
  processor = cu.get_processor("tsv", task_type="regression")
  examples = processor.get_train_examples(str(tmp_path))
  metrics = processor.score(examples, np.array([[0.5], [3.0], [9.0]]))
  assert metrics["score"] == metrics["spearman"] == pytest.approx(1)
  path = processor.write_submission(str(tmp_path), examples, [0.5, 3, 9])
  assert read(path).startswith('{"id": 0, "label": 0.5}\n')


@pytest.mark.parametrize("outputs, problem", [
    ([[1, 0]], "the outputs have the shape [1, 2], expected [2, 2]"),
    ([[1, 0, 0]] * 2, "the outputs have the shape [2, 3], expected [2, 2]"),
    ([[1, 0], [np.nan, 0]],
     "the outputs of example 1 (dev-1) are not finite: [nan, 0.0]"),
])
def test_outputs_that_do_not_fit(tmp_path, outputs, problem):
  write(tmp_path, "dev.json", CLUE_PAIR * 2)
  examples = get("afqmc", tmp_path, "dev")
  assert error_of(cu.get_processor("afqmc").score, examples,
                  outputs).startswith(problem)


@pytest.mark.parametrize("name, file_name", [
    ("afqmc", "afqmc_predict.json"), ("tnews", "tnews11_predict.json"),
    ("tnews10", "tnews10_predict.json"), ("ocnli", "ocnli_50k_predict.json"),
    ("wsc", "cluewsc11_predict.json"), ("cmnli", "cmnli_predict.json"),
    ("fewclue_tnews", "tnewsf_predict.json"), ("tsv", "tsv_predict.json"),
])
def test_names_of_submissions(name, file_name):
  assert cu.submission_name(cu.get_task(name)) == file_name


def test_zipped_submission(tmp_path):
  folder = str(tmp_path)
  write(tmp_path, "test.json", [{"id": 9, "sentence": "甲"},
                                {"id": 2, "sentence": "乙"}])
  processor = cu.get_processor("tnews")
  outputs = np.eye(15)[[2, 14]]
  examples = processor.get_test_examples(folder)
  path = processor.write_submission(folder, examples, outputs, zipped=True)
  assert os.path.basename(path) == "tnews11_predict.zip"
  content = ('{"id": 9, "label": "102", "label_desc": ""}\n'
             '{"id": 2, "label": "116", "label_desc": ""}\n')
  with zipfile.ZipFile(path) as bundle:
    assert bundle.namelist() == ["tnews11_predict.json"]
    assert bundle.read("tnews11_predict.json").decode("utf-8") == content
  assert read(os.path.join(folder, "tnews11_predict.json")) == content
  first = open(path, "rb").read()
  os.utime(os.path.join(folder, "tnews11_predict.json"), (0, 10**9))
  processor.write_submission(folder, examples, outputs, zipped=True)
  assert open(path, "rb").read() == first
  assert sorted(os.listdir(folder)) == [
      "test.json", "tnews11_predict.json", "tnews11_predict.zip"]
  assert error_of(cu.zip_files, path, ["a/x.json", "b/x.json"]).startswith(
      "there are two files of the name x.json for %s" % path)
  other = write(tmp_path, "afqmc_predict.json", "{}\n")
  with zipfile.ZipFile(cu.zip_files(os.path.join(folder, "clue.zip"), [
      os.path.join(folder, "tnews11_predict.json"), other])) as bundle:
    assert bundle.namelist() == ["tnews11_predict.json", "afqmc_predict.json"]


@pytest.mark.parametrize("ids, problem", [
    ([1, 1], "the id 1 is that of 2 examples for "),
    ([1, None], "1 of the 2 examples for "),
])
def test_ids_of_a_submission(tmp_path, ids, problem):
  write(tmp_path, "test.json", [
      dict(CLUE_PAIR[0], id=one) if one else CLUE_PAIR[0] for one in ids])
  processor = cu.get_processor("afqmc")
  examples = processor.get_test_examples(str(tmp_path))
  assert error_of(processor.write_submission, str(tmp_path), examples,
                  [[1, 0], [0, 1]]).startswith(problem)
  assert os.listdir(str(tmp_path)) == ["test.json"]


def test_idx_is_the_id_of_wsc(tmp_path):
  write(tmp_path, "test.json", WSC + [dict(WSC[0], id=8)])
  assert [example.example_id
          for example in get("wsc", tmp_path, "test")] == [3, 8]


# -------------------------------------------------------- features and metrics


def test_label_ids_by_type():
  class Tokenizer(object):
    def tokenize(self, text):
      return list(text)

    def convert_tokens_to_ids(self, tokens):
      return [1] * len(tokens)

  def label_id(label, task_type, example_class=cu.InputExample):
    example = (cu.InputExample("g", "甲", None, label)
               if example_class is cu.InputExample else example_class())
    return cu.convert_single_example(0, example, ["a", "b"], 4, Tokenizer(),
                                     task_type).label_id

  assert label_id(("b",), "multi") == [0, 1]
  assert label_id((), "multi") == label_id(None, "multi") == [0, 0]
  assert label_id(2.5, "regression") == 2.5
  assert label_id(None, "regression") == 0.0
  assert label_id("b", "single") == 1
  padding = cu.PaddingInputExample
  assert label_id(None, "multi", padding) == [0, 0]
  assert label_id(None, "single", padding) == 0
  assert "has the label c" in error_of(label_id, ("a", "c"), "multi")


def test_cache_name_by_type():
  name = lambda **more: cu.features_cache_name(
      "tsv", "test", [cu.InputExample("g", "甲")], ["a"], 8, "v", True, **more)
  assert name() == name(task_type="single")
  assert len({name(), name(task_type="multi"),
              name(task_type="regression")}) == 3


def test_multi_label_metrics_by_hand():
  true = [[1, 1, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0]]
  predicted = [[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0]]
  metrics = cu.compute_multi_label_metrics(true, predicted, ["a", "b", "c"])
  # 3 of 4 guesses are right, 3 of 4 labels are found.
  assert metrics["micro_precision"] == metrics["micro_recall"] == 0.75
  assert metrics["micro_f1"] == 0.75
  assert metrics["per_class"]["a"] == {
      "precision": 1, "recall": 1, "f1": 1, "support": 2}
  assert metrics["per_class"]["b"] == {
      "precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 2}
  assert metrics["per_class"]["c"]["f1"] == 0
  assert metrics["macro_f1"] == pytest.approx(0.5)
  assert metrics["exact_match"] == 0.5
  json.dumps(metrics)
  text = cu.format_metrics(metrics)
  assert text.startswith("micro-F1 0.7500, macro-F1 0.5000, all labels right "
                         "0.5000, 4 examples\n\nlabel  precision")
  assert error_of(cu.compute_multi_label_metrics, true, predicted[:2],
                  ["a", "b", "c"]).startswith(
      "got true labels of the shape [4, 3] and predicted ones of [2, 3]")
  assert "at least one" in error_of(cu.compute_multi_label_metrics,
                                    np.zeros([0, 3]), np.zeros([0, 3]),
                                    ["a", "b", "c"])


def test_regression_metrics_by_hand():
  metrics = cu.compute_regression_metrics([1, 2, 3, 4], [1, 3, 3, 20])
  # Ranks 1 2 3 4 and 1 2.5 2.5 4: covariance 4.5, variances 5 and 4.5.
  assert metrics["spearman"] == pytest.approx(4.5 / (5 * 4.5)**0.5)
  # Deviations -1.5 -.5 .5 1.5 and -5.75 -3.75 -3.75 13.25.
  assert metrics["pearson"] == pytest.approx(28.5 / (5 * 236.75)**0.5)
  assert metrics["mean_squared_error"] == pytest.approx(257 / 4)
  assert metrics["mean_absolute_error"] == pytest.approx(17 / 4)
  json.dumps(metrics)
  assert cu.format_metrics(metrics).startswith("Spearman 0.9487, Pearson 0.82")
  constant = cu.compute_regression_metrics([1, 2, 3], [0.1, 0.1, 0.1])
  assert constant["pearson"] == constant["spearman"] == 0
  assert "got 2 true and 1 predicted values" in error_of(
      cu.compute_regression_metrics, [1, 2], [1])
  assert "not finite" in error_of(
      cu.compute_regression_metrics, [1, 2], [1, np.inf])
