"""Masks of many instances at once, and the arrays that they are made from."""

import collections

import numpy as np
import pytest

import instance_utils
from corpus_utils import DataError


def make_words(lengths_of_runs, num=1):
  """`num` instances of [CLS] and runs of words of such lengths, each + [SEP]."""
  starts, special = [True], [True]
  for run in lengths_of_runs:
    for length in run:
      starts += [True] + [False] * (length - 1)
      special += [False] * length
    starts.append(True)
    special.append(True)
  starts, special = (np.array([row] * num, bool) for row in (starts, special))
  return starts, special, np.full(num, starts.shape[1])


def keys_of(num, seed=1):
  return instance_utils.hash_keys(np.arange(num).astype(np.uint64), seed)


def test_the_generator_is_splitmix64():
  # The first outputs of SplitMix64 with the seed 1234567.
  key = np.array([1234567], np.uint64)
  expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
  assert [int(instance_utils.hash_keys(key, purpose)[0])
          for purpose in range(3)] == expected
  steps = instance_utils.hash_keys(key, 0, np.arange(3))
  assert len(set(steps.tolist())) == 3 and steps[0] == expected[0]
  draws = instance_utils.uniform(keys_of(100000), 0)
  assert 0 <= draws.min() and draws.max() < 1
  assert abs(draws.mean() - 0.5) < 0.005


def test_words_are_found_between_special_tokens():
  #           C  a  a  b  S  c  d  d  S  0
  starts = np.array([[1, 1, 0, 1, 1, 0, 1, 0, 1, 0],
                     [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]], bool)
  special = np.array([[1, 0, 0, 0, 1, 0, 0, 0, 1, 0],
                      [0] * 10], bool)
  words = instance_utils.find_words(starts, special, np.array([9, 5]))
  assert words.rows.tolist() == [0, 0, 0, 0, 1, 1]
  assert words.begins.tolist() == [1, 3, 5, 6, 0, 3]
  assert words.ends.tolist() == [3, 4, 6, 8, 3, 5]
  assert words.run_ends.tolist() == [2, 2, 4, 4, 6, 6]
  assert words.firsts.tolist() == [0, 4, 6]


def select_one_by_one(spans, run_ends, budget, key, weights):
  """`select_words` of a single instance, word by word."""
  order = list(range(len(spans)))
  taken, left = [False] * len(spans), budget

  def uniform(purpose, step):
    return float(instance_utils.uniform(
        np.array([key], np.uint64), purpose, step)[0])

  for step in range(len(spans)):
    if not left:
      break
    other = step + int(uniform(0, step) * (len(spans) - step))
    order[step], order[other] = order[other], order[step]
    first = order[step]
    length, available = 1, min(len(weights), run_ends[first] - first)
    draw = uniform(1, step) * sum(weights[:available])
    while length < available and draw >= sum(weights[:length]):
      length += 1
    for end in range(first + length, first, -1):
      size = spans[end - 1][1] - spans[first][0]
      if size <= left and not any(taken[first:end]):
        taken[first:end] = [True] * (end - first)
        left -= size
        break
  return taken


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 0.5, 0.25)])
def test_many_at_once_are_chosen_as_one_by_one(weights):
  rng = np.random.RandomState(5)
  num, length = 60, 40
  starts = rng.rand(num, length) < 0.6
  special = rng.rand(num, length) < 0.05
  lengths = rng.randint(1, length + 1, num)
  words = instance_utils.find_words(starts, special, lengths)
  budgets, keys = rng.randint(0, 15, num), keys_of(num)
  chosen, ends = instance_utils.select_words(words, budgets, keys, weights)
  for row in range(num):
    part = slice(words.firsts[row], words.firsts[row + 1])
    spans = list(zip(words.begins[part].tolist(), words.ends[part].tolist()))
    expected = select_one_by_one(
        spans, [end - part.start for end in words.run_ends[part].tolist()],
        int(budgets[row]), int(keys[row]), weights)
    if any(expected):
      assert chosen[part].tolist() == expected
    elif spans and budgets[row]:  # no word fits: the beginning of one
      [at] = np.flatnonzero(chosen[part])
      assert ends[part][at] - spans[at][0] == budgets[row]


def test_an_instance_is_masked_as_it_would_be_alone():
  starts, special, lengths = make_words([[1, 2, 1, 3], [2, 2, 1]], num=9)
  lengths = np.array([14, 15, 9, 15, 3, 12, 1, 15, 15])
  keys = keys_of(9)
  masks = instance_utils.choose_masks(starts, special, lengths, keys, 0.4, 5,
                                      ngram=2)
  for row in range(9):
    alone = instance_utils.choose_masks(
        starts[row:row + 1], special[row:row + 1], lengths[row:row + 1],
        keys[row:row + 1], 0.4, 5, ngram=2)
    here = masks.rows == row
    assert alone.positions.tolist() == masks.positions[here].tolist()
    assert alone.actions.tolist() == masks.actions[here].tolist()
    assert alone.replacements.tolist() == masks.replacements[here].tolist()
    assert masks.counts[row] == len(alone.positions)
    assert (alone.positions < lengths[row]).all()


def test_every_word_is_chosen_equally_often():
  starts, special, lengths = make_words([[1] * 20], num=20000)
  words = instance_utils.find_words(starts, special, lengths)
  chosen, _ = instance_utils.select_words(
      words, np.full(20000, 4), keys_of(20000))
  shares = chosen.reshape(20000, 20).mean(axis=0)
  assert abs(shares - 0.2).max() < 0.012


@pytest.mark.parametrize("favor_shorter,expected", [
    (True, [6 / 11, 3 / 11, 2 / 11]), (False, [2 / 11, 3 / 11, 6 / 11])])
def test_ngram_lengths_are_drawn_by_weight(favor_shorter, expected):
  weights = instance_utils.ngram_weights(3, favor_shorter)
  lengths = instance_utils._draw_lengths(
      np.full(20000, 10), weights, keys_of(20000), 0)
  counts = collections.Counter(lengths.tolist())
  for length, share in enumerate(expected, start=1):
    assert abs(counts[length] / 20000 - share) < 0.015
  assert set(instance_utils._draw_lengths(
      np.full(100, 2), weights, keys_of(100), 0)) == {1, 2}


def test_ngrams_mask_neighbouring_words():
  starts, special, lengths = make_words([[1] * 100])
  words = instance_utils.find_words(starts, special, lengths)
  chosen, _ = instance_utils.select_words(words, np.array([3]), keys_of(1),
                                          (0.0, 0.0, 1.0))
  begins = words.begins[chosen].tolist()
  assert begins == list(range(begins[0], begins[0] + 3))


def test_long_sentences_are_cut_where_words_begin():
  starts = [True, True, True, False, True, True, True, True, True]
  assert instance_utils.split_long_sentence(starts, 6) == [2, 5, 8, 9]
  assert instance_utils.split_long_sentence(starts, 9) == [9]
  # One word fills it all.
  assert instance_utils.split_long_sentence([True] + [False] * 6, 6) == [
      3, 6, 7]
  assert instance_utils.split_long_sentence([], 6) == []


def test_replacement_words():
  assert instance_utils.replacement_words(
      ["[PAD]", "[unused7]", "##我", "我", "<S>", "[MASK]", "nba"]) == [
          "我", "nba"]
  with pytest.raises(DataError, match="vocabulary of 2 tokens has none"):
    instance_utils.replacement_words(["[PAD]", "##我"])
