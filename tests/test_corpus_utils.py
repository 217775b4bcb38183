"""Documents of every form, and sentences."""

import collections
import gzip
import io
import json
import lzma

import pytest

import corpus_utils as corpus


def read(paths, counts=None, *args, **kwargs):
  """The documents' lines, file indices and numbers."""
  counts = collections.Counter() if counts is None else counts
  return [tuple(document) for document in corpus.read_documents(
      [str(path) for path in paths], counts, *args, **kwargs)]


def write(path, text):
  path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
  return path


def test_input_patterns(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for name in ("a.txt", "b.txt", "f[1].txt"):
    (tmp_path / name).write_text("x")
  assert corpus.expand_input_patterns("a.txt, *.txt") == [
      "a.txt", "b.txt", "f[1].txt"]
  assert corpus.expand_input_patterns("f[1].txt") == ["f[1].txt"]
  with pytest.raises(corpus.DataError, match="between its commas"):
    corpus.expand_input_patterns("a.txt,")


def test_folders_are_read_in_order_without_hidden_files(tmp_path):
  (tmp_path / "b").mkdir()
  (tmp_path / ".git").mkdir()
  for name in ("c.txt", "b/z.txt", "b/.hidden", "a.txt", ".git/x"):
    write(tmp_path / name, "x")
  assert corpus.expand_input_patterns("%s,-" % tmp_path) == [
      str(tmp_path / name) for name in ("a.txt", "c.txt", "b/z.txt")] + ["-"]
  (tmp_path / "empty").mkdir()
  with pytest.raises(corpus.DataError, match="no file matches .*empty"):
    corpus.expand_input_patterns(str(tmp_path / "empty"))


def test_lines_and_blank_lines(tmp_path):
  # U+2028 ends no line; a byte order mark is not text.
  a = write(tmp_path / "a.txt", "\ufeff一\n 二\u2028三 \r\n \n\n四")
  b = write(tmp_path / "b.txt", "\n五\n")
  assert read([a, b]) == [(["一", "二\u2028三"], 0, 0), (["四"], 0, 1),
                          (["五"], 1, 0)]


def test_a_document_a_line(tmp_path):
  path = write(tmp_path / "a.txt", "一。二。\n\n三。\n")
  assert read([path], None, "documents") == [(["一。二。"], 0, 0),
                                             (["三。"], 0, 1)]


def test_json_lines(tmp_path):
  rows = [{"title": "题", "text": "一\n\n 二 "}, {"title": "", "text": ""},
          {"title": "\ud800题", "text": "三", "id": 3}]
  path = write(tmp_path / "a.jsonl",
               "\n".join(json.dumps(row) for row in rows) + "\n\n")
  assert read([path], None, "jsonl") == [(["一", "二"], 0, 0), (["三"], 0, 1)]
  assert read([path], None, "jsonl", ["title", "text"]) == [
      (["题", "一", "二"], 0, 0), (["题", "三"], 0, 1)]


@pytest.mark.parametrize("line,reason", [
    ("{bad", "line 2 is not a JSON object with the text \"text\" \\(Expect"),
    ("[1]", "line 2 is not"), ('{"txt": "x"}', "there is no 'text'"),
    ("[" * 100000, "line 2 is not"),
    ('{"text": 3}', "not every field is a text")])
def test_bad_json_lines(tmp_path, line, reason):
  path = write(tmp_path / "a.jsonl", '{"text": "一"}\n%s\n' % line)
  with pytest.raises(corpus.DataError, match=reason) as error:
    read([path], None, "jsonl")
  assert "--text_field" in str(error.value)
  counts = collections.Counter()
  assert read([path], counts, "jsonl", on_bad_line="skip") == [(["一"], 0, 0)]
  assert counts["bad_lines"] == 1


def test_compressed_files(tmp_path):
  text = "一\n二\n\n三\n".encode("utf-8")
  plain = write(tmp_path / "a.txt", text)
  packed = [write(tmp_path / "a.txt.gz", gzip.compress(text)),
            write(tmp_path / "a.txt.xz", lzma.compress(text))]
  for path in packed:
    assert read([path]) == read([plain])


@pytest.mark.parametrize("name,pack", [("a.gz", gzip.compress),
                                       ("a.xz", lzma.compress)])
def test_damaged_compressed_files(tmp_path, name, pack):
  text = "".join("第%d句话。\n" % (i * i) for i in range(5000)).encode("utf-8")
  path = write(tmp_path / name, pack(text)[:-100])
  with pytest.raises(corpus.DataError, match="%s is cut off or damaged" % name):
    read([path])
  write(path, b"not compressed at all")
  with pytest.raises(corpus.DataError, match=name):
    read([path])


def test_standard_input(monkeypatch, tmp_path):
  with open(str(write(tmp_path / "a.txt", "一\n二\n"))) as stdin:
    monkeypatch.setattr("sys.stdin", stdin)
    assert read(["-"]) == [(["一", "二"], 0, 0)]


def test_documents_without_two_characters_are_counted():
  documents = [corpus.Document(lines, 0, i) for i, lines in enumerate(
      [["一"], ["一", "二"], ["一二"]])]
  counts = collections.Counter()
  assert list(corpus.drop_short_documents(documents, counts)) == documents[1:]
  assert counts == {"documents": 1, "sentences": 1, "dropped_documents": 1}


def test_utf16_is_recognized(tmp_path):
  path = write(tmp_path / "a.txt", "一二三\n".encode("utf-16"))
  with pytest.raises(corpus.DataError, match="iconv -f utf-16 -t utf-8"):
    read([path])


def test_closed_standard_input(monkeypatch):
  monkeypatch.setattr("sys.stdin", None)
  with pytest.raises(corpus.DataError, match="standard input is closed"):
    read(["-"])


def test_folders_that_cannot_be_read_are_named(tmp_path, monkeypatch):
  def refuses(path):
    raise PermissionError(13, "Permission denied", path)

  monkeypatch.setattr(corpus.os, "scandir", refuses)
  with pytest.raises(corpus.DataError, match="cannot be read: Permission"):
    corpus.expand_input_patterns(str(tmp_path))


def test_sentences_take_time_in_proportion():
  # Once minutes: each end went through all that followed it.
  for text in ("我们1" + "…" * 200000 + "1去。", "去" + "。" * 200000,
               "“" + "。" * 200000 + "”，他说", "去" + "（" * 200000):
    assert "".join(corpus.split_sentences(text)) == text


def test_lines_that_are_not_utf8(tmp_path):
  path = write(tmp_path / "a.txt", "一\n".encode("utf-8") * 6 +
               "中文\n".encode("gbk") + "二\n".encode("utf-8"))
  with pytest.raises(corpus.DataError, match="a.txt, line 7 is not UTF-8"):
    read([path])
  counts = collections.Counter()
  assert read([path], counts, on_bad_line="skip") == [
      (["一"] * 6 + ["二"], 0, 0)]
  assert counts["bad_lines"] == 1


def test_endless_documents_and_lines_are_taken_apart(tmp_path, monkeypatch):
  monkeypatch.setattr(corpus, "MAX_DOCUMENT_CHARACTERS", 10)
  path = write(tmp_path / "a.txt", "一二三四\n" * 6)
  counts = collections.Counter()
  assert [len(document[0]) for document in read([path], counts)] == [2, 2, 2]
  assert counts["split_documents"] == 2
  # A line is cut between characters, which have up to four bytes.
  monkeypatch.setattr(corpus, "MAX_LINE_BYTES", 16)
  text = "一é二a😀三四五六七八九😀😀十"
  for input_format in ("lines", "documents"):
    parts = read([write(path, text)], counts, input_format)
    assert "".join(line for part in parts for line in part[0]) == text
    assert len(parts) > 1
    assert {len(line.encode("utf-8")) <= 16
            for part in parts for line in part[0]} == {True}
  paragraphs = read([write(path, json.dumps({"text": "字" * 25}))], counts,
                    "jsonl")
  assert [part[0] for part in paragraphs] == [
      ["字" * 4, "字" * 4], ["字" * 4, "字" * 4], ["字" * 4, "字" * 4, "字"]]


def test_a_json_line_without_end(tmp_path, monkeypatch):
  monkeypatch.setattr(corpus, "MAX_JSON_BYTES", 1000)
  path = write(tmp_path / "a.jsonl", '{"text": "%s"}' % ("字" * 1000))
  with pytest.raises(corpus.DataError, match="a.jsonl, line 1 has more than"):
    read([path], None, "jsonl")


def test_only_a_little_of_a_file_is_in_memory():
  class Endless(io.RawIOBase):
    """Text without a line end, of which the first megabytes are read."""
    served = 0

    def readable(self):
      return True

    def readinto(self, buffer):
      self.served += len(buffer)
      buffer[:] = b"a" * len(buffer)
      return len(buffer)

  source = Endless()
  lines = corpus._limited_lines(io.BufferedReader(source, 2**16), 2**16)
  assert [next(lines)[0] for _ in range(5)] == [1] * 5
  assert source.served < 2**19


@pytest.mark.parametrize("text,sentences", [
    ("今天下雨。明天呢？晴！", ["今天下雨。", "明天呢？", "晴！"]),
    ("没有句号", ["没有句号"]),
    ("", []),
    ("  首尾空白。  下一句  ", ["首尾空白。", "下一句"]),
    ("一是公开；二是公正。", ["一是公开；", "二是公正。"]),
    ("他想了想……然后走了。", ["他想了想……", "然后走了。"]),
    # Marks pile up, and belong to the sentence before.
    ("真的？！走吧。", ["真的？！", "走吧。"]),
    ("（见附图。）下文。", ["（见附图。）", "下文。"]),
    # Not inside quotes, titles and brackets; after the closing quote.
    ("他说：“走吧。别等了。”她点头。真的？",
     ["他说：“走吧。别等了。”", "她点头。", "真的？"]),
    ("“一。‘二。’三。”四。", ["“一。‘二。’三。”", "四。"]),
    ("《谁是球王？》上映了。散场。", ["《谁是球王？》上映了。", "散场。"]),
    ("「好。走。」他说。", ["「好。走。」", "他说。"]),
    ("他说\"好。走。\"就走了。", ["他说\"好。走。\"", "就走了。"]),
    ("天黑了。\"走吧。\"他说。", ["天黑了。", "\"走吧。\"", "他说。"]),
    # A quote that is never closed protects nothing.
    ("他说：“走吧。她点头。", ["他说：“走吧。", "她点头。"]),
    ("一块5\"的屏。很小。", ["一块5\"的屏。", "很小。"]),
    # The sentence goes on.
    ("“走！”，他说。", ["“走！”，他说。"]),
    # Numbers, addresses and markup have no ends; ASCII after Chinese has.
    ("涨了3.14%。共1,000元", ["涨了3.14%。", "共1,000元"]),
    ("第1…9页。", ["第1…9页。"]),
    ("见http://a.cn/b?c=1&amp;d即可。", ["见http://a.cn/b?c=1&amp;d即可。"]),
    ("好吗?好!走", ["好吗?", "好!", "走"]),
])
def test_split_sentences(text, sentences):
  assert corpus.split_sentences(text) == sentences


def test_long_sentences_are_cut_at_the_last_comma_that_fits():
  clause = "字" * 99 + "，"
  text = clause * 7 + "完。"
  assert corpus.split_sentences(text) == [
      clause * 3, clause * 3, clause + "完。"]


def test_long_sentences_are_not_cut_inside_numbers():
  text = "字" * 100 + "，" + "数" * 150 + "1,000" + "字" * 100 + "。"
  parts = corpus.split_sentences(text)
  assert parts[0] == "字" * 100 + "，"
  assert "".join(parts) == text


def test_long_sentences_without_a_comma_that_fits():
  assert corpus.split_sentences("名" * 200 + "、" + "名" * 200) == [
      "名" * 200 + "、", "名" * 200]
  assert corpus.split_sentences("字" * 400 + "，" + "字" * 10) == [
      "字" * 400 + "，", "字" * 10]
  assert corpus.split_sentences("字" * 400) == ["字" * 400]


def test_a_long_quotation_is_split_inside():
  inner = "字" * 199 + "。"
  assert corpus.split_sentences("“" + inner * 3 + "”") == [
      "“" + inner, inner, inner + "”"]
