"""Tests of build_vocab.py, on corpora and vocabularies of a few lines."""

import collections
import glob
import gzip
import io
import lzma
import os
import re
import subprocess
import sys
import types

import pytest

import build_vocab
import tiny
import tokenization

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# Three slots, and not at the start only.
GROWABLE = ["[PAD]", "[unused1]", "[unused2]", "[UNK]", "[CLS]", "[SEP]",
            "[MASK]", "今", "天", "好", "a", "##b", "##c", "cafe", "[unused3]"]


@pytest.fixture
def needs_tokenizers():
  return pytest.importorskip("tokenizers")


def run(command, **flags):
  """Runs the command in this process; returns its exit code."""
  return build_vocab.main([command] + [
      "--%s=%s" % item for item in sorted(flags.items())])


def read_tokens(path):
  with io.open(str(path), encoding="utf-8", newline="") as reader:
    text = reader.read()
  assert text.endswith("\n") and "\r" not in text
  return text[:-1].split("\n")


def train(tmp_path, text, **flags):
  """Returns the vocabulary that a corpus gives, as a list of tokens."""
  tiny.write(tmp_path / "corpus.txt", text)
  flags = dict({"input_file": tmp_path / "corpus.txt", "num_unused": 0,
                "output_file": tmp_path / "vocab.txt"}, **flags)
  assert run("train", **flags) == 0
  return read_tokens(flags["output_file"])


def grow(tmp_path, words=None, corpus=None, **flags):
  """Returns the exit code for words, a corpus, or both."""
  if "vocab_file" not in flags:
    flags["vocab_file"] = tiny.write_vocab(tmp_path, GROWABLE)
  flags = dict({"output_file": tmp_path / "grown.txt"}, **flags)
  if words is not None:
    tiny.write(tmp_path / "words.txt", "".join(word + "\n" for word in words))
    flags["words_file"] = tmp_path / "words.txt"
  if corpus is not None:
    tiny.write(tmp_path / "corpus.txt", corpus)
    flags["input_file"] = tmp_path / "corpus.txt"
  return run("grow", **flags)


def assert_error(capsys, *parts):
  """One line on stderr is the error and has all the parts; none on stdout."""
  captured = capsys.readouterr()
  errors = [line for line in captured.err.split("\n")
            if line.startswith("build_vocab.py: error: ")]
  assert len(errors) == 1 and not captured.out, captured
  assert "Traceback" not in captured.err
  for part in parts:
    assert part in errors[0]


def refusal(text, do_lower_case=True):
  with pytest.raises(build_vocab.Refused) as caught:
    build_vocab.find_token(text, tokenization.BasicTokenizer(do_lower_case))
  return str(caught.value)


# What the tokenizer can produce.


@pytest.mark.parametrize("text,do_lower_case,token", [
    ("covid", True, "covid"), ("COVID", True, "covid"),
    ("COVID", False, "COVID"), ("Café", True, "cafe"), ("Café", False, "Café"),
    ("5g", True, "5g"), ("蛏", True, "蛏"), ("😀", True, "😀"),
    ("##ing", True, "##ing"), ("##ING", True, "##ing"), ("##😀", True, "##😀"),
    ("##é", True, "##e"), ("“", True, "“"), ("。", True, "。"), ("₿", True, "₿"),
    ("ΟΔΟΣ", True, "οδος"), ("##ΟΣ", True, "##ος"), ("##Σ", True, "##ς"),
    ("한국", True, "\u1112\u1161\u11ab\u1100\u116e\u11a8"),
    ("한국", False, "한국")])
def test_find_token(text, do_lower_case, token):
  basic_tokenizer = tokenization.BasicTokenizer(do_lower_case)
  assert build_vocab.find_token(text, basic_tokenizer) == token
  # And the tokenizer does produce it.
  vocab = {piece: index for index, piece in enumerate(SPECIAL + ["a", token])}
  word = "a" + text[2:] if text.startswith("##") else text
  tokens = tokenization.WordpieceTokenizer(vocab).tokenize_words(
      basic_tokenizer.tokenize(word))
  assert tokens[-1] == token


@pytest.mark.parametrize("text,reason", [
    ("疫苗", build_vocab.CHINESE), ("b超", build_vocab.CHINESE),
    ("##苗", build_vocab.CHINESE), ("新冠 covid", build_vocab.CHINESE),
    ("c++", build_vocab.PUNCTUATION), ("wi-fi", build_vocab.PUNCTUATION),
    ("[NEW]", build_vocab.PUNCTUATION), ("##.", build_vocab.PUNCTUATION),
    ("##", build_vocab.PUNCTUATION), ("u. s.", build_vocab.PUNCTUATION),
    ("team lead", build_vocab.BLANK), ("a\u3000b", build_vocab.BLANK),
    ("\u200b", build_vocab.NOTHING), ("\u0301", build_vocab.NOTHING),
    ("##\u0301", build_vocab.NOTHING), ("\ufffd", build_vocab.NOTHING),
    ("x" * 201, build_vocab.TOO_LONG)])
def test_what_the_tokenizer_cannot_produce(text, reason):
  assert refusal(text) == reason


def test_the_longest_word():
  basic_tokenizer = tokenization.BasicTokenizer()
  assert build_vocab.find_token("x" * 200, basic_tokenizer) == "x" * 200


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_every_character_of_a_word_is_a_token_for_the_tokenizer(do_lower_case):
  basic_tokenizer = tokenization.BasicTokenizer(do_lower_case)
  # The basic plane, without surrogates; a step that meets all of its blocks.
  for code in list(range(0, 0xd800, 7)) + list(range(0xe000, 0x10000, 7)):
    for word in basic_tokenizer.tokenize(chr(code)):
      build_vocab.check_tokens([word], basic_tokenizer)


def test_check_tokens_names_what_would_never_be_used():
  basic_tokenizer = tokenization.BasicTokenizer()
  with pytest.raises(build_vocab.VocabError, match="'b超' would never be used"):
    build_vocab.check_tokens(["a", "b超"], basic_tokenizer)
  with pytest.raises(build_vocab.VocabError, match="makes 'a' of it"):
    build_vocab.check_tokens(["A"], basic_tokenizer)


def test_missing_pieces():
  vocab = {"a", "##b", "##c", "xy"}
  assert build_vocab.missing_pieces("abc", vocab) == []
  assert build_vocab.missing_pieces("axc", vocab) == ["##x"]
  assert build_vocab.missing_pieces("bb", vocab) == ["b"]
  # x and ##y are not there, but nobody misses them.
  assert build_vocab.missing_pieces("xyb", vocab) == []
  assert build_vocab.missing_pieces("xyz", vocab) == ["##z"]


# Counting.


def test_counter_forgets_rare_words_but_no_pieces():
  counter = build_vocab.WordCounter(build_vocab.character_pieces, max_words=4)
  words = ["ab"] * 5 + ["bc"] * 4 + ["ca"] + ["xa"] + ["xb"] + ["xc"]
  for word in words:
    counter.add([word])
  assert counter.words == {"ab": 5, "bc": 4, "xc": 1}
  assert counter.forgotten == 1
  expected = collections.Counter(
      piece for word in words for piece in build_vocab.character_pieces(word))
  assert counter.pieces() == expected
  assert counter.pieces() == expected  # Asking changes nothing.


def test_counter_leaves_out_words_that_are_too_long():
  counter = build_vocab.WordCounter(build_vocab.character_pieces)
  counter.add(["ab", "x" * 201, "y" * 200])
  assert counter.words == {"ab": 1, "y" * 200: 1}
  counter.add([])
  assert sum(counter.words.values()) == 2


def test_coverage(tmp_path):
  tiny.write(tmp_path / "corpus.txt", "今天 abc，\n\nacb ad\n")
  corpus = build_vocab.Corpus(types.SimpleNamespace(
      input_file=str(tmp_path / "corpus.txt"), output_file="vocab.txt",
      on_bad_line="error"), tokenization.BasicTokenizer())
  vocab = {token: index for index, token in enumerate(GROWABLE)}
  assert build_vocab.measure(corpus, [vocab, dict(vocab, ad=99)]) == [
      (11, 10, 2), (11, 10, 1)]
  assert build_vocab.describe(build_vocab.Coverage(11, 10, 2)) == (
      "10 tokens, 0.909 a character, 2 of them [UNK] (20.000 %)")
  assert "0 of them [UNK] (0.000 %)" in build_vocab.describe(
      build_vocab.Coverage(0, 0, 0))


# train: the characters.


def test_reserved_tokens_as_in_the_chinese_vocabulary():
  shipped = list(tokenization.load_vocab(
      os.path.join(tiny.ROOT, "albert_config", "vocab.txt")))
  assert build_vocab.reserved_tokens(99) == shipped[:104]
  assert build_vocab.reserved_tokens(0) == SPECIAL
  assert build_vocab.reserved_tokens(2) == [
      "[PAD]", "[unused1]", "[unused2]"] + SPECIAL[1:]


def choose(counts, *arguments):
  return build_vocab.choose_characters(collections.Counter(counts), *arguments)


def test_characters_by_frequency():
  counts = {"好": 9, "e": 2, "##e": 5, "x": 1, "##x": 1, "天": 1, "##z": 4}
  # z, too, is a token where it begins a word; ##x is too rare.
  assert choose(counts, 99, 2) == (["好", "e", "z", "x", "##e", "##z"], 0)
  # ##e is more frequent than z: what is left out is z, and x.
  assert choose(counts, 3, 2) == (["好", "e", "##e"], 2)
  assert choose(counts, 99, 1) == (
      ["好", "e", "z", "x", "天", "##e", "##z", "##x"], 0)
  assert choose(counts, 99, 2, 2) == (["好", "e", "##e"], 2)
  assert choose({"b": 1, "a": 1, "c": 1}, 2, 1) == (["a", "b"], 1)


def test_train(tmp_path, capsys, needs_tokenizers):
  tokens = train(tmp_path, "今天好，今天好。\n\nLow lów lower new\n天",
                 num_unused=2)
  assert tokens == [
      "[PAD]", "[unused1]", "[unused2]"] + SPECIAL[1:] + [
          "w", "l", "o", "天", "e", "今", "好", "##w", "##o", "##e",
          "lo", "low"]
  captured = capsys.readouterr()
  assert captured.out.split("\n") == [
      "%s: 19 tokens" % (tmp_path / "vocab.txt"),
      "  special 5, [unused] 2, characters 7, ## characters 3,"
      " longer pieces 2",
      "  fewer than --vocab_size=21128: nothing else occurs"
      " --min_frequency=2 times",
      # lower needs ##r, new needs n; both marks occur once.
      "corpus: 23 characters, 13 tokens, 0.565 a character, 4 of them [UNK]"
      " (30.769 %)",
      "the model's config needs \"vocab_size\": 19", ""]
  assert "counting words: reading" in captured.err


def test_train_keeps_to_the_size(tmp_path, capsys, needs_tokenizers):
  text = "low lower lowest newer newest wider 天\n" * 3
  everything = train(tmp_path, text)
  assert len(everything) > 35
  for size in (22, 30, 35):
    tokens = train(tmp_path, text, vocab_size=size)
    assert tokens == everything[:size]
  assert "fewer than" not in capsys.readouterr().out.split("vocab.txt")[-1]
  # There is room for three of the tokens of eleven characters.
  assert train(tmp_path, text, vocab_size=8) == SPECIAL + ["e", "w", "##e"]
  assert "characters left out that occur --min_frequency=2 times: 9; raise" in (
      capsys.readouterr().out)


def test_train_limit_alphabet(tmp_path, capsys, needs_tokenizers):
  text = "好好好好天天天今今 " + "ab " * 9
  assert train(tmp_path, text, limit_alphabet=3) == SPECIAL + [
      "a", "b", "好", "##b", "ab"]
  assert ": 2; raise --vocab_size or --limit_alphabet to" in capsys.readouterr().out


def test_train_cased(tmp_path, needs_tokenizers):
  tokens = train(tmp_path, "Él él El", do_lower_case=False, min_frequency=1)
  assert set(tokens[5:]) == {"É", "é", "E", "l", "##l", "Él", "él", "El"}
  assert train(tmp_path, "Él él El")[5:] == ["e", "l", "##l", "el"]


def test_trained_tokens_fit_the_tokenizer(tmp_path, needs_tokenizers):
  text = ("今天は2021年ですよ。ＡＰＰ한국 한국어 naïve ΟΔΟΣ οδος ΣΑΣ 😀😀😃 🇨🇳 ﷺ "
          "𠮷野家 İstanbul ǅ Ⅷ ½ 豈豈 c++ C++ covid-19 COVID-19 [MASK] a\u0323\u0307\n")
  for do_lower_case in (True, False):
    tokens = train(tmp_path, text * 2, min_frequency=1,
                   do_lower_case=do_lower_case)
    tokenizer = tokenization.FullTokenizer(
        str(tmp_path / "vocab.txt"), do_lower_case)
    build_vocab.check_tokens(tokens[5:], tokenizer.basic_tokenizer)
    assert "[UNK]" not in tokenizer.tokenize(text)
    # The words occur twice each, so that each is one token in the end.
    words = tokenizer.basic_tokenizer.tokenize(text)
    assert tokenizer.tokenize(text) == words
    # The package's own WordPiece splits words into the same pieces.
    other = needs_tokenizers.Tokenizer(needs_tokenizers.models.WordPiece(
        tokenizer.vocab, unk_token="[UNK]"))
    for word in words + [word + "天x" for word in words] + ["ανοδο", "lstan"]:
      assert other.encode(word).tokens == (
          tokenizer.wordpiece_tokenizer.tokenize_words([word]))


def test_train_learns_nothing_from_words_that_are_unknown(tmp_path,
                                                          needs_tokenizers):
  # The q occurs once, so that abq will always be [UNK].
  assert train(tmp_path, "abq ab b")[5:] == ["b", "a", "##b"]
  assert train(tmp_path, "abb ab b")[5:] == ["b", "a", "##b", "ab"]


def test_same_input_same_file(tmp_path, needs_tokenizers):
  # Many pairs of the same frequency, between which hash tables would decide.
  text = "\n".join("%s%s %s%s" % (a, b, b, a) for a in "abcdefghij"
                   for b in ("klmn", "opqr", "stuv", "wxyz"))
  expected = train(tmp_path, text, vocab_size=90, min_frequency=1)
  assert len(expected) == 90
  for seed in "123":
    path = str(tmp_path / seed)
    subprocess.check_call(
        [sys.executable, os.path.join(tiny.ROOT, "scripts", "build_vocab.py"),
         "train", "--input_file=%s" % (tmp_path / "corpus.txt"),
         "--output_file=%s" % path, "--vocab_size=90", "--num_unused=0",
         "--min_frequency=1"], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(os.environ, PYTHONHASHSEED=seed, RAYON_NUM_THREADS=seed))
    assert read_tokens(path) == expected


def test_counts_beyond_the_trainers_are_scaled(tmp_path, monkeypatch,
                                               needs_tokenizers):
  text = "ab " * 40 + "cd " * 20 + "ef " * 3
  assert train(tmp_path, text)[-3:] == ["ab", "cd", "ef"]
  monkeypatch.setattr(build_vocab, "MAX_PAIRS", 25)  # of 126
  # ef is left out by its fed frequency, 3 // 6.
  assert train(tmp_path, text)[-2:] == ["ab", "cd"]
  # And so is the least frequency.
  assert train(tmp_path, text, min_frequency=20)[-2:] == ["ab", "cd"]
  assert [len(words) for words in build_vocab.repeated_words(
      {"b": 9000, "a": 3}, 2)] == [1, 4096, 404]


def test_train_reads_folders_globs_and_compressed_files(tmp_path,
                                                        needs_tokenizers):
  expected = train(tmp_path, "今天好\nab ab\n")
  folder = tmp_path / "folder"
  folder.mkdir()
  with gzip.open(str(folder / "1.txt.gz"), "wb") as writer:
    writer.write("今天好\n".encode("utf-8"))
  with lzma.open(str(folder / "2.txt.xz"), "wb") as writer:
    writer.write(b"ab\n\nab")
  for pattern in (str(folder), str(folder / "*.txt.*"),
                  "%s,%s" % tuple(sorted(glob.glob(str(folder / "*"))))):
    path = str(tmp_path / "other.txt")
    assert run("train", input_file=pattern, output_file=path,
               num_unused=0) == 0
    assert read_tokens(path) == expected


# train: errors.


def test_train_without_the_package(tmp_path, capsys, monkeypatch):
  monkeypatch.setitem(sys.modules, "tokenizers", None)
  assert run("train", input_file=tmp_path / "no", output_file="vocab.txt") == 1
  assert_error(capsys, "pip install 'tokenizers>=0.13'")


@pytest.mark.parametrize("flags,parts", [
    ({"vocab_size": 104}, ("--vocab_size=104", "104 special", "--num_unused")),
    ({"input_file": "-"}, ("standard input", "more than once")),
    ({"input_file": "none*"}, ("no file matches none*",)),
    ({"min_frequency": 9}, ("corpus.txt", "--min_frequency=9")),
])
def test_train_says_what_is_wrong(tmp_path, capsys, flags, parts,
                                  needs_tokenizers):
  tiny.write(tmp_path / "corpus.txt", "今天天气好\n")
  assert run("train", **dict({"input_file": tmp_path / "corpus.txt",
                              "output_file": tmp_path / "out" / "vocab.txt"},
                             **flags)) == 1
  assert_error(capsys, *parts)
  assert not glob.glob(str(tmp_path / "out" / "*"))


def test_output_that_cannot_be(tmp_path, capsys, needs_tokenizers):
  tiny.write(tmp_path / "corpus.txt", "今天天气好\n")
  flags = {"input_file": tmp_path / "corpus.txt"}
  assert run("train", output_file=tmp_path, **flags) == 1
  assert_error(capsys, "is a folder")
  assert run("train", output_file=tmp_path / "corpus.txt", **flags) == 1
  assert_error(capsys, "is one of the files of --input_file")
  assert run("train", output_file=tmp_path / "corpus.txt" / "x", **flags) == 1
  assert_error(capsys, "its folder cannot be made")


def test_bad_lines(tmp_path, capsys, needs_tokenizers):
  (tmp_path / "corpus.txt").write_bytes(b"ab\n\xff\xfe\nab\n")
  tiny.write(tmp_path / "vocab.txt", "old\n")
  flags = {"input_file": tmp_path / "corpus.txt",
           "output_file": tmp_path / "vocab.txt", "num_unused": 0}
  assert run("train", **flags) == 1
  assert_error(capsys, "corpus.txt, line 2 is not UTF-8", "--on_bad_line=skip")
  assert read_tokens(tmp_path / "vocab.txt") == ["old"]
  assert sorted(os.listdir(str(tmp_path))) == ["corpus.txt", "vocab.txt"]
  assert run("train", on_bad_line="skip", **flags) == 0
  assert read_tokens(tmp_path / "vocab.txt") == SPECIAL + [
      "a", "b", "##b", "ab"]
  assert "lines left out, as they are not UTF-8: 1" in capsys.readouterr().err


def test_a_vocabulary_that_is_not_valid_is_not_written(tmp_path):
  path = str(tmp_path / "vocab.txt")
  for tokens, message in ((["a"] + SPECIAL, "PAD"),
                          (SPECIAL + ["a", "a"], "repeats the token 'a'"),
                          (SPECIAL + ["a\nb"], "7 tokens")):
    with pytest.raises(ValueError, match=message):
      build_vocab.write_vocab(path, tokens)
    assert os.listdir(str(tmp_path)) == []
  assert list(build_vocab.write_vocab(path, SPECIAL + ["\u2028"])) == (
      SPECIAL + ["\u2028"])
  assert os.listdir(str(tmp_path)) == ["vocab.txt"]


@pytest.mark.parametrize("flag", [
    "--vocab_size=many", "--min_frequency=0", "--num_unused=-1",
    "--do_lower_case=maybe", "--limit_alphabet=0", "--size=3"])
def test_flags_that_make_no_sense(flag, capsys):
  with pytest.raises(SystemExit) as caught:
    build_vocab.main(["train", "--input_file=x", "--output_file=y", flag])
  assert caught.value.code == 2
  assert re.search("--[a-z_]+", flag).group() in capsys.readouterr().err


# grow.


def test_grow_fills_slots_and_moves_nothing(tmp_path, capsys):
  assert grow(tmp_path, ["蛏", "", " COVID ", "##ING"]) == 0
  grown = read_tokens(tmp_path / "grown.txt")
  assert grown == ["[PAD]", "蛏", "covid"] + GROWABLE[3:14] + ["##ing"]
  assert read_tokens(tmp_path / "vocab.txt") == GROWABLE
  assert capsys.readouterr().out.split("\n") == [
      "%s: 15 tokens as before, 3 of 3 [unused] slots taken, 0 left" %
      (tmp_path / "grown.txt"), "  1 蛏", "  2 covid", "  14 ##ing",
      "changed as the tokenizer does (2): COVID -> covid, ##ING -> ##ing", ""]
  tokenizer = tokenization.FullTokenizer(str(tmp_path / "grown.txt"))
  tokens = tokenizer.tokenize("蛏好 Covid Coviding")
  assert tokens == ["蛏", "好", "covid", "covid", "##ing"]
  assert tokenizer.convert_tokens_to_ids(tokens) == [1, 9, 2, 2, 14]


def test_grow_reports_what_it_does_not_take(tmp_path, capsys):
  assert grow(tmp_path, ["疫苗", "x", "CAFÉ", "X", "好", "[MASK]", "新冠", "c++",
                         "y z"]) == 0
  assert read_tokens(tmp_path / "grown.txt")[:3] == ["[PAD]", "x", "[unused2]"]
  lines = capsys.readouterr().out.split("\n")
  assert lines[0].endswith("1 of 3 [unused] slots taken, 2 left")
  assert lines[1:] == [
      "  1 x", "skipped, already in the vocabulary (3): CAFÉ, 好, [MASK]",
      "skipped, given before (1): X",
      "refused, because %s (2): 疫苗, 新冠" % build_vocab.CHINESE,
      "refused, because %s (1): c++" % build_vocab.PUNCTUATION,
      "refused, because %s (1): y z" % build_vocab.BLANK, ""]


def test_grow_a_cased_vocabulary(tmp_path, capsys):
  assert grow(tmp_path, ["CAFÉ", "Nba"], do_lower_case=False) == 0
  assert read_tokens(tmp_path / "grown.txt")[1:3] == ["CAFÉ", "Nba"]
  assert "changed" not in capsys.readouterr().out


def test_grow_with_nothing_left_to_add(tmp_path, capsys):
  assert grow(tmp_path, ["疫苗", "好"]) == 1
  assert_error(capsys, "no word is left to add",
               "already in the vocabulary (1): 好", "(1): 疫苗")
  assert not (tmp_path / "grown.txt").exists()
  # Words that are all there are no mistake: a second run is one.
  assert grow(tmp_path, ["好", "a"]) == 0
  assert read_tokens(tmp_path / "grown.txt") == GROWABLE


def test_grow_with_too_few_slots(tmp_path, capsys):
  words = ["v", "w", "x", "y", "z"]
  assert grow(tmp_path, words) == 1
  assert_error(capsys, "vocab.txt has 3 [unused] slots, but there are 5 words:"
               " 3 fit, left out would be y, z;", "--allow_partial")
  assert not (tmp_path / "grown.txt").exists()
  assert build_vocab.main([
      "grow", "--vocab_file=%s" % (tmp_path / "vocab.txt"), "--allow_partial",
      "--words_file=%s" % (tmp_path / "words.txt"),
      "--output_file=%s" % (tmp_path / "grown.txt")]) == 0
  assert read_tokens(tmp_path / "grown.txt") == (
      ["[PAD]", "v", "w"] + GROWABLE[3:14] + ["x"])
  assert "left out for want of slots (2): y, z" in capsys.readouterr().out


def test_an_error_does_not_name_thousands_of_words(tmp_path, capsys):
  assert grow(tmp_path, ["w%d" % i for i in range(1000)]) == 1
  assert_error(capsys, "1000 words: 3 fit", "w3, w4", "w102 and 897 more;")


def test_grow_from_a_corpus(tmp_path, capsys):
  # 气 is [UNK] three times, x and ##x make words [UNK], acb has three pieces;
  # \ue000 has no meaning of its own, and abc is to be one of the words given.
  corpus = ("今天气好，，，， 气 气 ax ax xa abc\n" + "acb " * 4 +
            "\ue000 " * 6)
  assert grow(tmp_path, ["abc"], corpus, num_words=2) == 0
  assert read_tokens(tmp_path / "grown.txt") == (
      ["[PAD]", "abc", "，"] + GROWABLE[3:14] + ["气"])
  assert capsys.readouterr().out.split("\n")[1:] == [
      "  1 abc", "  2 ， (4 in the corpus, was [UNK])",
      "  14 气 (3 in the corpus, was [UNK])", "corpus: 37 characters",
      "  before: 34 tokens, 0.919 a character, 16 of them [UNK] (47.059 %)",
      "  after:  32 tokens, 0.865 a character, 9 of them [UNK] (28.125 %)", ""]
  assert grow(tmp_path, None, corpus, num_words=3, min_pieces=3) == 0
  assert read_tokens(tmp_path / "grown.txt") == (
      ["[PAD]", "acb", "，"] + GROWABLE[3:14] + ["气"])
  assert "  1 acb (4 in the corpus, was a ##c ##b)" in capsys.readouterr().out


def test_grow_finds_the_pieces_for_want_of_which_words_are_unknown(tmp_path):
  assert grow(tmp_path, None, "ax ax axb xa xa x", num_words=9) == 0
  assert read_tokens(tmp_path / "grown.txt")[:3] == ["[PAD]", "##x", "x"]
  tokenizer = tokenization.FullTokenizer(str(tmp_path / "grown.txt"))
  assert tokenizer.tokenize("axb xb") == ["a", "##x", "##b", "x", "##b"]


def test_grow_limits_what_is_found(tmp_path):
  corpus = "气气气 风风 水"
  assert grow(tmp_path, None, corpus, num_words=1) == 0
  assert read_tokens(tmp_path / "grown.txt")[1:3] == ["气", "[unused2]"]
  assert grow(tmp_path, None, corpus, num_words=9, min_frequency=2) == 0
  assert read_tokens(tmp_path / "grown.txt")[1:3] == ["气", "风"]
  assert read_tokens(tmp_path / "grown.txt")[14] == "[unused3]"
  # Numbers are no words, however many pieces they have.
  assert grow(tmp_path, None, "今天 1 12 12", num_words=9, min_pieces=2,
              vocab_file=tiny.write_vocab(
                  tmp_path, GROWABLE + ["1", "##2"])) == 0
  assert read_tokens(tmp_path / "grown.txt")[1] == "[unused1]"


def test_grow_measures_a_corpus_without_taking_words_from_it(tmp_path, capsys):
  assert grow(tmp_path, ["气"], "气风") == 0
  assert read_tokens(tmp_path / "grown.txt")[1:3] == ["气", "[unused2]"]
  out = capsys.readouterr().out
  assert "before: 2 tokens, 1.000 a character, 2 of them [UNK]" in out
  assert "after:  2 tokens, 1.000 a character, 1 of them [UNK]" in out


def test_grow_writes_lf(tmp_path):
  (tmp_path / "crlf.txt").write_bytes(
      b"\xef\xbb\xbf" + "\r\n".join(GROWABLE).encode("utf-8"))
  assert grow(tmp_path, ["x"], vocab_file=tmp_path / "crlf.txt") == 0
  assert (tmp_path / "grown.txt").read_bytes() == "".join(
      token + "\n" for token in ["[PAD]", "x"] + GROWABLE[2:]).encode("utf-8")


def test_the_shipped_vocabulary_has_99_slots(tmp_path):
  shipped = os.path.join(tiny.ROOT, "albert_config", "vocab.txt")
  words = ["zzqx%d" % i for i in range(99)]
  assert grow(tmp_path, words, vocab_file=shipped) == 0
  assert read_tokens(tmp_path / "grown.txt") == (
      ["[PAD]"] + words + read_tokens(shipped)[100:])
  assert grow(tmp_path, words + ["zzqx99"], vocab_file=shipped) == 1


# grow: errors.


@pytest.mark.parametrize("flags,parts", [
    ({}, ("nothing to add", "--words_file", "--num_words")),
    ({"input_file": "corpus.txt"}, ("nothing to add",)),
    ({"num_words": 3}, ("--num_words=3", "give --input_file")),
    ({"words_file": "x", "min_pieces": 3}, ("--min_pieces", "--num_words")),
    ({"words_file": "x", "min_frequency": 3}, ("--min_frequency",)),
    ({"words_file": "no.txt"}, ("--words_file=no.txt is not there",)),
    ({"words_file": "x", "vocab_file": "no.txt"},
     ("cannot read the vocabulary", "no.txt")),
    ({"words_file": "x", "input_file": "none*"}, ("no file matches none*",)),
])
def test_grow_says_what_is_wrong(tmp_path, capsys, flags, parts):
  assert grow(tmp_path, **flags) == 1
  assert_error(capsys, *parts)
  assert not (tmp_path / "grown.txt").exists()


def test_grow_leaves_its_input_alone(tmp_path, capsys):
  assert grow(tmp_path, ["x"], output_file=tmp_path / "vocab.txt") == 1
  assert_error(capsys, "is --vocab_file", "write to another name")
  assert read_tokens(tmp_path / "vocab.txt") == GROWABLE


def test_words_files_and_vocabularies_that_cannot_be_used(tmp_path, capsys):
  assert grow(tmp_path, ["", " "]) == 1
  assert_error(capsys, "words.txt is empty")
  (tmp_path / "bad.txt").write_bytes(b"ok\n\xff\n")
  assert grow(tmp_path, words_file=tmp_path / "bad.txt") == 1
  assert_error(capsys, "bad.txt, line 2 is not UTF-8")
  tiny.write(tmp_path / "lacks.txt", "[PAD]\n[unused1]\n")
  assert grow(tmp_path, ["x"], vocab_file=tmp_path / "lacks.txt") == 1
  assert_error(capsys, "lacks.txt lacks [UNK]")


# The command.


def test_command_line(tmp_path):
  tiny.write(tmp_path / "words.txt", "🥟\n")
  command = [sys.executable,
             os.path.join(tiny.ROOT, "scripts", "build_vocab.py"), "grow",
             "--vocab_file", tiny.write_vocab(tmp_path, GROWABLE),
             "--words_file", str(tmp_path / "words.txt"),
             "--input_file", str(tmp_path / "words.txt"),
             "--output_file", str(tmp_path / "grown.txt"), "--do_lower_case"]
  result = subprocess.run(
      command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
      env=dict(os.environ, PYTHONIOENCODING="ascii"))
  # A terminal without the character shows its number.
  assert result.returncode == 0
  assert b"\n  1 \\U0001f95f\n" in result.stdout
  assert result.stderr.startswith(b"measuring: reading ")
  result = subprocess.run(command[:-1] + ["--num_words=9", "--words_file=no"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, check=False)
  assert result.returncode == 1 and not result.stdout
  assert result.stderr == (
      "build_vocab.py: error: --words_file=no is not there; it should be a"
      " text file with one word a line\n")


def test_progress_is_logged(tmp_path, capsys, monkeypatch):
  monkeypatch.setattr(build_vocab, "PROGRESS_CHARACTERS", 10**6)
  assert grow(tmp_path, ["x"], "a" * 500 + "\n\n" + ("b" * 499 + "\n\n") * 5000) == 0
  log = capsys.readouterr().err
  assert "measuring: 1 million characters read" in log
  assert "measuring: 2 million characters read" in log
