"""Words, and which tokens begin them."""

import os
import random
import sys

import pytest

import tokenization
import word_segmentation as words
from corpus_utils import DataError

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VOCAB_FILE = os.path.join(ROOT, "albert_config", "vocab.txt")


@pytest.fixture(scope="module")
def tokenizer():
  return tokenization.FullTokenizer(VOCAB_FILE)


@pytest.fixture(scope="module")
def line_tokenizer(tokenizer):
  return words.LineTokenizer(tokenizer, words.Segmenter(), whole_words=True)


def words_of(segment):
  """The words as lists of token positions."""
  found = []
  for position, start in enumerate(segment.starts):
    if start:
      found.append([])
    found[-1].append(position)
  return found


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
  assert words.word_starts(
      ["caf", "##e", "好"], [(0, 3), (3, 4), (4, 5)], ["caf", "é", "好"]) == [
          True, False, True]


def test_user_dictionary(tmp_path):
  dictionary = tmp_path / "words.txt"
  dictionary.write_text("很美好呀 1000 n\n", encoding="utf-8")
  assert "很美好呀" in words.Segmenter(str(dictionary))("生活很美好呀")
  assert "很美好呀" not in words.Segmenter()("生活很美好呀")


def test_segmenters_cache_is_private(tmp_path, monkeypatch):
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
  words.Segmenter()
  folder = tmp_path / "chinese_albert"
  assert [path.name for path in folder.iterdir()] == ["jieba.cache"]
  assert folder.stat().st_mode & 0o077 == 0


def test_legacy_labels_are_albert_zhs(tokenizer):
  # 大学生 is one of the words, so it is marked wherever it stands; 一心一意
  # is longer than three characters and never marked.
  line_words = ["大学", "生活", "，", "大学生", "一心一意"]
  tokens = list("大学生活，大学生一心一意")
  assert words.legacy_subword_labels(tokens, line_words, tokenizer.vocab) == [
      "大", "##学", "##生", "活", "，", "大", "##学", "##生", "一", "心", "一",
      "意"]
  assert words.legacy_subword_labels(["大", "学"], ["大学"], {"大", "学"}) == [
      "大", "学"]


def test_without_whole_words_the_segmenter_is_not_run(tokenizer):
  def fails(text):
    raise AssertionError("segmented %s" % text)

  segment = words.LineTokenizer(tokenizer, fails)("今天天气很好")
  assert segment.starts == [True] * 6


def by_characters(tokenizer, segmenter, line):
  """Which tokens begin a word, by the characters of all of them."""
  tokens, offsets = tokenizer.tokenize_with_offsets(line)
  return tokens, words.word_starts(tokens, offsets, segmenter(line))


def test_lines_give_the_same_word_by_word_as_as_a_whole(tokenizer):
  # Cut anywhere, also inside of numbers and of Latin words.
  rng = random.Random(1)

  def segmenter(text):
    pieces = []
    cuts = random.Random(text)
    while text:
      size = cuts.randint(1, 4)
      pieces.append(text[:size])
      text = text[size:]
    return pieces

  line_tokenizer = words.LineTokenizer(tokenizer, segmenter, True)
  letters = "我们大学，。：“”……—a1B9é.%+ \u3000\u200bＡ\u0301ΣあİＮBA"
  for _ in range(3000):
    line = "".join(rng.choice(letters) for _ in range(rng.randint(0, 12)))
    segment = line_tokenizer(line)
    assert (segment.tokens, segment.starts) == by_characters(
        tokenizer, segmenter, line), line


def test_rust_words_are_jiebas_in_chinese_text(tokenizer):
  pytest.importorskip("rjieba")
  with open(os.path.join(ROOT, "data", "sample_corpus.txt"),
            encoding="utf-8") as reader:
    lines = [line.strip() for line in reader if line.strip()]
  jieba, rust = words.make_segmenter("jieba"), words.make_segmenter("rjieba")
  for line in lines:
    assert by_characters(tokenizer, jieba, line) == by_characters(
        tokenizer, rust, line)


def test_rust_user_dictionary(tmp_path):
  pytest.importorskip("rjieba")
  dictionary = tmp_path / "words.txt"
  dictionary.write_text("很美好呀 1000 n\n", encoding="utf-8")
  assert "很美好呀" in words.make_segmenter("rjieba", str(dictionary))(
      "生活很美好呀")
  assert "很美好呀" not in words.make_segmenter("rjieba")("生活很美好呀")


def test_a_missing_package_is_named(monkeypatch):
  monkeypatch.setitem(sys.modules, "rjieba", None)
  with pytest.raises(DataError, match="pip install rjieba"):
    words.make_segmenter("rjieba")


def test_pretokenized_words(tokenizer):
  line_tokenizer = words.LineTokenizer(
      tokenizer, words.make_segmenter("pretokenized"), True)
  segment = line_tokenizer("大学生 活  很\u3000美好呀")
  assert segment.tokens == list("大学生活很美好呀")
  assert words_of(segment) == [[0, 1, 2], [3], [4], [5, 6, 7]]


def test_segmenter_none(tokenizer):
  assert words.make_segmenter("none") is None
  segment = words.LineTokenizer(tokenizer, None, True)("大学 unaffable")
  assert segment.starts == [not token.startswith("##")
                            for token in segment.tokens]
  assert not all(segment.starts)


def test_user_dictionaries_are_checked(tmp_path):
  dictionary = tmp_path / "words.txt"
  dictionary.write_text("\ufeff云计算 5\n\n 创新办 3 i \n台中\n凱特琳 nz\n",
                        encoding="utf-8")
  assert words.read_user_dict(str(dictionary)) == [
      ("云计算", 5, None), ("创新办", 3, "i"), ("台中", None, None),
      ("凱特琳", None, "nz")]
  dictionary.write_text("云计算 5\n很 美好 5\n", encoding="utf-8")
  with pytest.raises(DataError, match="words.txt, line 2 is \"很 美好 5\""):
    words.read_user_dict(str(dictionary))
