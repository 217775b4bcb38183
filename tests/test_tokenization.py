"""Tokens, offsets, vocabularies: compared with a slow tokenizer written here."""

import hashlib
import os
import pickle
import random
import subprocess
import sys
import unicodedata

import pytest

import tokenization

ROOT = os.path.dirname(os.path.abspath(tokenization.__file__))

# Whatever has gone wrong in some tokenizer, and some letters to go with it.
PLAIN = list("aabbeiAEIzZ09 好中国 ,.-$`[]#")
TRICKY = [
    "\u0130", "\u03a3", "\u03c3", "\u0391", "\u00df", "\u1e9e",  # lower-casing
    "\u00e9", "\u00c5", "\u212b", "\u1ec7", "e\u0301", "\u0301", "\u0323",
    "\u0308\u0301", "\u20dd", "\u0345",  # accents and marks that are kept
    "\ud55c", "\uae00", "\u1100\u1161", "\u30ac", "\u304b\u3099",  # jamo, kana
    "\0", "\x01", "\x0b", "\x0c", "\x1c", "\x7f", "\x85", "\ufffd",  # dropped
    "\u200b", "\u200d", "\u200e", "\u2060", "\ufeff", "\u00ad", "\u034f",
    "\t", "\n", "\r", "\u00a0", "\u2003", "\u2028", "\u2029", "\u3000",
    "\u037e", "\u0387", "\u1fef", "\u2260", "\u226e",  # hidden punctuation
    "\u201c", "\u2014", "\u2026", "\uff0c", "\u3002", "\uff21", "\u2460",
    "\uf900", "\ufa0e", "\U0002f800", "\U00020000", "\U0002a6df", "\u3400",
    "\U0001f600", "\U00010400", "\U0001d11e", "\ud800", "\ue000", "\U000e0001",
]
# Marks that are not accents but that NFD sorts.
SORTED_MARKS = ["\u302e", "\u1b44", "\U0001d165", "\U0001d16d", "\U0001d15e"]

PIECES = (
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] +
    list("abei09好中,.-$`[]#") + ["ab", "##ab", "ei", "##bb", "##i0"] +
    ["##" + char for char in "abei0"] + ["cls", "mask", "\u00e9", "##\u00e9"] +
    ["\u03c3", "##\u03c3", "##\u03c2", "\u03b1", "##\u03b1", "\u00df", "=", "<"] +
    ["\u1112", "##\u1161", "##\u11ab", "\u1100", "##\u1100", "i\u0307", "##\u0307"])


@pytest.fixture(name="make")
def make_fixture(tmp_path):
  """Returns a maker of FullTokenizers over a list of tokens."""
  def make(tokens=PIECES, **options):
    path = tmp_path / "vocab.txt"
    path.write_bytes("".join(token + "\n" for token in tokens).encode("utf-8"))
    return tokenization.FullTokenizer(str(path), **options)
  return make


def write(tmp_path, data):
  path = tmp_path / "vocab.txt"
  path.write_bytes(data)
  return str(path)


# The reference: every character is a cell [character, span] that is carried,
# one step at a time, through what BERT does with whole strings. What one
# character of the text becomes shares its span, a list [begin, end].


def is_cjk(char):
  return any(low <= ord(char) <= high for low, high in [
      (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF),
      (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
      (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)])


def is_punctuation(char):
  ascii_symbol = 33 <= ord(char) <= 126 and not char.isalnum()
  return ascii_symbol or unicodedata.category(char)[0] == "P"


def is_accent(char):
  return all(unicodedata.category(each) == "Mn"
             for each in unicodedata.normalize("NFD", char.lower()))


def slow_chunks(text, strip):
  """Lists of cells between blanks and CJK; spans have the stripped accents."""
  chunks, previous = [[]], None
  for index, char in enumerate(text):
    category = unicodedata.category(char)
    span = [index, index + 1]
    if char in "\t\n\r\u2028\u2029" or category == "Zs":
      chunks.append([])
      previous = None
    elif char in "\0\ufffd" or category in ("Cc", "Cf"):
      continue
    elif strip and is_accent(char):
      chunks[-1].append([char, span])
      if previous is not None:
        previous[1] = index + 1
    else:
      if is_cjk(char):
        chunks += [[[char, span]], []]
      else:
        chunks[-1].append([char, span])
      previous = span
  return chunks


def slow_lower(cells):
  lowered = iter("".join(char for char, _ in cells).lower())
  return [[next(lowered), span] for char, span in cells for _ in char.lower()]


def slow_decompose(cells):
  word = "".join(char for char, _ in cells)
  cells = [[each, span] for char, span in cells
           for each in unicodedata.normalize("NFD", char)]
  for _ in cells:
    for k in range(len(cells) - 1):
      left, right = (unicodedata.combining(c[0]) for c in cells[k:k + 2])
      if 0 < right < left:
        cells[k:k + 2] = cells[k + 1], cells[k]
  assert "".join(char for char, _ in cells) == unicodedata.normalize("NFD", word)
  return [cell for cell in cells if unicodedata.category(cell[0]) != "Mn"]


def slow_words(text, lower=True, strip=True):
  words = []
  for chunk in slow_chunks(text, strip):
    cells = slow_lower(chunk) if lower else chunk
    cells = slow_decompose(cells) if strip else cells
    words.append([])
    for cell in cells:
      if is_punctuation(cell[0]):
        words += [[cell], []]
      else:
        words[-1].append(cell)
  return [word for word in words if word]


def slow_tokenize(text, vocab, lower=True, strip=True):
  """Returns tokens and offsets."""
  result = []
  for cells in slow_words(text, lower, strip):
    word = "".join(cell[0] for cell in cells)
    pieces, start = [], 0
    while start < len(word) <= 200:
      for end in range(len(word), start, -1):
        piece = ("##" if start else "") + word[start:end]
        if piece in vocab:
          break
      else:
        break  # No piece fits: start is short of the end.
      pieces.append((piece, cells[start:end]))
      start = end
    if start < len(word):
      pieces = [("[UNK]", cells)]
    result += pieces
  return ([piece for piece, _ in result],
          [(min(span[0] for _, span in cells), max(span[1] for _, span in cells))
           for _, cells in result])


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("strip", [True, False])
def test_random_texts_equal_the_slow_tokenizer(make, lower, strip):
  tokenizer = make(do_lower_case=lower, strip_accents=strip)
  rng = random.Random(20 + 2 * lower + strip)
  for _ in range(1500):
    alphabet = PLAIN + rng.sample(TRICKY, rng.randint(0, 12))
    text = "".join(rng.choice(alphabet) for _ in range(rng.randint(0, 30)))
    expected = slow_tokenize(text, tokenizer.vocab, lower, strip)
    assert tokenizer.tokenize_with_offsets(text) == expected, ascii(text)
    assert tokenizer.tokenize(text) == expected[0], ascii(text)


def test_marks_that_change_places(make):
  tokenizer = make()
  rng = random.Random(7)
  alphabet = PLAIN[:6] + ["\u0323", "\u0301", "\u034f", " "] + SORTED_MARKS
  for _ in range(1500):
    text = "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 12)))
    words = ["".join(cell[0] for cell in word)
             for word in slow_words(text)]
    assert tokenizer.basic_tokenizer.tokenize(text) == words, ascii(text)
    expected = slow_tokenize(text, tokenizer.vocab)
    tokens, offsets = tokenizer.tokenize_with_offsets(text)
    assert tokens == tokenizer.tokenize(text) == expected[0], ascii(text)
    for (begin, end), (least, most) in zip(offsets, expected[1]):
      assert 0 <= begin <= least < most <= end <= len(text), ascii(text)


def test_every_character_of_the_first_planes_in_a_word():
  basic = tokenization.BasicTokenizer()
  for code in list(range(0x3200)) + list(range(0xF900, 0x10500)):
    text = "a%sb" % chr(code)
    expected = ["".join(cell[0] for cell in word)
                for word in slow_words(text)]
    assert basic.tokenize(text) == expected, hex(code)


@pytest.mark.parametrize("text,tokens,offsets", [
    ("", [], []),
    (" \n\u200b\u0301", [], []),
    ("\u0130b", ["i", "##b"], [(0, 1), (1, 2)]),
    ("e\u0301i", ["ei"], [(0, 3)]),
    ("be\u0301\u200b\u0323i", ["b", "##e", "##i"], [(0, 1), (1, 5), (5, 6)]),
    ("好\u0301 \u0301中", ["好", "中"], [(0, 2), (4, 5)]),
    ("\ufeffa\u200bb\u200b", ["ab"], [(1, 4)]),
    ("\ud55c", ["\u1112", "##\u1161", "##\u11ab"], [(0, 1)] * 3),
    ("\ud55c\u0301", ["\u1112", "##\u1161", "##\u11ab"], [(0, 2)] * 3),
    ("\U0001f600 好", ["[UNK]", "好"], [(0, 1), (2, 3)]),
    ("zzz\ufffdz,好", ["[UNK]", ",", "好"], [(0, 5), (5, 6), (6, 7)]),
    ("a" * 201 + " b", ["[UNK]", "b"], [(0, 201), (202, 203)]),
    ("\u0391\u03a3 \u03a3\u03a3a",
     ["\u03b1", "##\u03c2", "\u03c3", "##\u03c3", "##a"],
     [(0, 1), (1, 2), (3, 4), (4, 5), (5, 6)]),
])
def test_offsets(make, text, tokens, offsets):
  assert make().tokenize_with_offsets(text) == (tokens, offsets)


def test_shipped_vocabulary():
  path = os.path.join(ROOT, "albert_config", "vocab.txt")
  tokenizer = tokenization.FullTokenizer(path)
  assert len(tokenizer.vocab) == len(tokenizer.inv_vocab) == 21128
  assert tokenizer.inv_vocab[343] == "\u2028"
  assert tokenizer.inv_vocab[13502] == "##\u2028"
  tokenization.validate_vocab(tokenizer.vocab, 21128)
  text = "我喜欢ALBERT模型，“引号”—破折号… iPhone12 2019年 café ①"
  tokens, offsets = tokenizer.tokenize_with_offsets(text)
  assert tokens == (
      "我 喜 欢 al ##bert 模 型 ， [UNK] 引 号 [UNK] [UNK] 破 折 号 [UNK] "
      "iphone ##12 2019 年 cafe ①").split()
  assert tokenizer.convert_ids_to_tokens(
      tokenizer.convert_tokens_to_ids(tokens)) == tokens
  parts = [text[begin:end] for begin, end in offsets]
  assert parts[3:5] == ["AL", "BERT"] and parts[-2:] == ["café", "①"]
  assert tokenizer.tokenize("\u2028") == []


def test_as_in_berts_own_tests(make):
  tokenizer = make(["[UNK]", "[CLS]", "[SEP]", "want", "##want", "##ed", "wa",
                    "un", "runn", "##ing", ","])
  tokens = tokenizer.tokenize("UNwant\u00E9d,running")
  assert tokens == ["un", "##want", "##ed", ",", "runn", "##ing"]
  assert tokenizer.convert_tokens_to_ids(tokens) == [7, 4, 5, 10, 8, 9]
  basic = tokenization.BasicTokenizer()
  assert basic.tokenize("ah\u535A\u63A8zz") == ["ah", "\u535A", "\u63A8", "zz"]
  assert basic.tokenize(" \tHeLLo!how  \n Are yoU?  ") == [
      "hello", "!", "how", "are", "you", "?"]
  cased = tokenization.BasicTokenizer(do_lower_case=False)
  assert cased.tokenize(" \tHeLLo!how  \n H\u00E9llo?") == [
      "HeLLo", "!", "how", "H\u00E9llo", "?"]
  wordpiece = tokenization.WordpieceTokenizer(vocab=tokenizer.vocab)
  assert wordpiece.tokenize("") == []
  assert wordpiece.tokenize("unwanted running") == [
      "un", "##want", "##ed", "runn", "##ing"]
  assert wordpiece.tokenize("unwantedX running") == ["[UNK]", "runn", "##ing"]


def test_character_classes():
  for char in (" ", "\t", "\r", "\n", "\u00A0"):
    assert tokenization._is_whitespace(char)
  for char in ("\u0005", "\u200b", "\x00"):
    assert tokenization._is_control(char)
  for char in ("-", "$", "`", ".", "\u3002"):
    assert tokenization._is_punctuation(char)
  for char in ("A", "\u535A", "1"):
    assert not (tokenization._is_whitespace(char) or
                tokenization._is_control(char) or
                tokenization._is_punctuation(char))
  for char in (" ", "\t", "\r", "\n", "\U0001F4A9"):
    assert not tokenization._is_control(char)
  assert tokenization._is_chinese_char(ord("\u535A"))
  assert not tokenization._is_chinese_char(ord("\u3042"))


def test_strip_accents_apart_from_lower_case():
  for lower, strip, word in [
      (True, None, "ee"), (False, None, "\u00c9\u00e9"),
      (True, False, "\u00e9\u00e9"), (False, True, "Ee")]:
    basic = tokenization.BasicTokenizer(lower, strip)
    assert basic.tokenize("\u00c9\u00e9") == [word]


def test_special_tokens_in_a_text_are_prose_by_default(make):
  assert make().tokenize("a[MASK]b") == ["a", "[", "mask", "]", "b"]


def test_never_split(make):
  tokenizer = make(never_split=("[MASK]", "[CLS]"))
  text = "[CLS]好[MASK]a\u0301[mask] [MASK][SEP]"
  tokens, offsets = tokenizer.tokenize_with_offsets(text)
  assert tokens == ["[CLS]", "好", "[MASK]", "a", "[", "mask", "]", "[MASK]",
                    "[", "[UNK]", "]"]
  assert [text[begin:end] for begin, end in offsets] == [
      "[CLS]", "好", "[MASK]", "a\u0301", "[", "mask", "]", "[MASK]",
      "[", "SEP", "]"]
  assert tokenizer.tokenize(text) == tokens
  assert tokenizer.convert_tokens_to_ids(["[MASK]"]) == [4]


def test_never_split_takes_the_longest_and_tokens_of_one_character():
  basic = tokenization.BasicTokenizer(never_split=("E", "[E1]", "[E1]2"))
  assert basic.tokenize_with_spans("x[E1]2E") == (
      ["x", "[E1]2", "E"], list(range(7)), list(range(1, 8)))


@pytest.mark.parametrize("never_split,message", [
    ("[MASK]", r"never_split is '\[MASK\]'; .* sequence of tokens"),
    (("",), "never_split is .* sequence of tokens"),
    (("[E1]", "[MASK]", "[E2]"), r"has \[E1\] \[E2\]; only tokens of .*vocab"),
])
def test_wrong_never_split(make, never_split, message):
  with pytest.raises(ValueError, match=message):
    make(never_split=never_split)


def test_text_types(make):
  assert tokenization.convert_to_unicode("好\u00e9".encode("utf-8")) == "好\u00e9"
  assert tokenization.printable_text(b"ab\xff") == "ab"
  assert make().tokenize("好a".encode("utf-8")) == ["好", "a"]
  with pytest.raises(ValueError, match="str or UTF-8 bytes, got 7"):
    make().tokenize(7)


def test_whitespace_tokenize():
  assert tokenization.whitespace_tokenize(" a  好\n") == ["a", "好"]


def test_load_vocab_splits_on_line_feeds_only(tmp_path):
  text = "\ufeff[PAD]\r\n\u2028\n a \nb\x85\x0b\r\r\n好"
  vocab = tokenization.load_vocab(write(tmp_path, text.encode("utf-8")))
  assert list(vocab.items()) == [
      ("[PAD]", 0), ("\u2028", 1), (" a ", 2), ("b\x85\x0b\r", 3), ("好", 4)]


@pytest.mark.parametrize("data,message", [
    (b"a\nb\nc\nb\n", r"vocab.txt, line 4 repeats the token 'b' of line 2"),
    (b"a\n\nb\n", r"vocab.txt, line 2 is empty"),
    (b"a\n\r\nb\n", r"vocab.txt, line 2 is empty"),
    (b"", r"vocab.txt, line 1 is empty"),
    (b"a\n\xd6\xd0\xce\xc4\n", r"vocab.txt, line 2 is not UTF-8 .*save the"),
])
def test_bad_vocab(tmp_path, data, message):
  with pytest.raises(ValueError, match=message):
    tokenization.load_vocab(write(tmp_path, data))


def test_missing_vocab(tmp_path):
  path = str(tmp_path / "none.txt")
  with pytest.raises(FileNotFoundError, match="cannot read the voc.*none.txt"):
    tokenization.load_vocab(path)


def test_validate_vocab():
  good = {token: i for i, token in enumerate(PIECES)}
  tokenization.validate_vocab(good)
  tokenization.validate_vocab(good, len(PIECES), "v.txt", "c.json")
  with pytest.raises(ValueError, match=(
      r"v.txt has %d tokens, but c.json says vocab_size 21128; take the voc"
      % len(PIECES))):
    tokenization.validate_vocab(good, 21128, "v.txt", "c.json")
  with pytest.raises(ValueError, match=r"v.txt lacks \[CLS\] \[MASK\];"):
    tokenization.validate_vocab(
        {"[PAD]": 0, "[UNK]": 1, "[SEP]": 2}, vocab_file="v.txt")
  swapped = dict(good, **{"[PAD]": 1, "[UNK]": 0})
  with pytest.raises(ValueError, match=r"\[PAD\] has the id 1 .*\(id 0\)"):
    tokenization.validate_vocab(swapped)


def test_conversion():
  vocab = {"[UNK]": 0, "a": 1}
  assert tokenization.convert_tokens_to_ids(vocab, ["a", "z"]) == [1, 0]
  assert tokenization.convert_by_vocab(vocab, iter(["z", "a"])) == [0, 1]
  assert tokenization.convert_ids_to_tokens({0: "[UNK]", 1: "a"}, [1]) == ["a"]
  with pytest.raises(KeyError) as error:
    tokenization.convert_by_vocab({"a": 0}, ["a", "好"])
  assert str(error.value) == (
      "the token '好' is not in the vocabulary of size 1; neither is [UNK], "
      "which would stand for it")
  for index in (2, -1):
    with pytest.raises(KeyError, match="the id %d is not .*size 2" % index):
      tokenization.convert_ids_to_tokens({0: "[UNK]", 1: "a"}, [0, index])


def test_vocab_hash():
  expected = hashlib.sha256("a\n好".encode("utf-8")).hexdigest()
  assert tokenization.vocab_hash({"a": 0, "好": 1}) == expected
  assert tokenization.vocab_hash({"好": 1, "a": 0}) == expected


def test_pickle_leaves_the_caches_behind(make):
  tokenizer = make(never_split=("[MASK]",))
  fresh = pickle.dumps(tokenizer)
  text = "ab好[MASK]\u00e9"
  expected = tokenizer.tokenize_with_offsets(text)
  assert tokenizer.wordpiece_tokenizer.pieces
  assert pickle.dumps(tokenizer) == fresh
  copy = pickle.loads(fresh)
  assert not copy.wordpiece_tokenizer.pieces
  assert copy.tokenize_with_offsets(text) == expected
  assert copy.wordpiece_tokenizer.vocab is copy.vocab


def test_caches_are_bounded(make, monkeypatch):
  monkeypatch.setattr(tokenization, "_MAX_CACHED", 8)
  tokenizer = make()
  pieces = tokenizer.wordpiece_tokenizer.pieces
  for word in ["a%d" % number for number in range(100)]:
    tokens, _ = tokenizer.tokenize_with_offsets(word)
    assert tokens == slow_tokenize(word, tokenizer.vocab)[0]
    assert len(pieces) <= 8
    assert len(tokenizer.basic_tokenizer._forms) <= 8
  long_word = "b" * 5000
  assert tokenizer.tokenize(long_word) == ["[UNK]"]
  assert "a99" in pieces and long_word not in pieces


@pytest.mark.parametrize("folder,lower", [
    ("chinese_L-12_H-768_A-12", True), ("cased_L-12_H-768_A-12", False)])
def test_case_matches_checkpoint(folder, lower):
  check = tokenization.validate_case_matches_checkpoint
  path = "gs://models/%s/bert_model.ckpt" % folder
  check(lower, path)
  with pytest.raises(ValueError, match="%s.*pass --do_lower_case=%s" %
                     (folder, lower)):
    check(not lower, path)
  for other in (None, "", "albert_tiny/albert_model.ckpt"):
    check(not lower, other)


def test_remote_vocab_is_read_by_tensorflow(tmp_path):
  pytest.importorskip("tensorflow")
  path = write(tmp_path, b"[UNK]\na\n")
  assert list(tokenization.load_vocab("file://" + path)) == ["[UNK]", "a"]


def test_import_does_not_load_tensorflow():
  subprocess.check_call(
      [sys.executable, "-c", "import sys, tokenization; tokenization."
       "load_vocab('albert_config/vocab.txt'); "
       "sys.exit('tensorflow' in sys.modules)"], cwd=ROOT)
