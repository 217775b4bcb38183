"""Tokenized documents to pre-training instances: segments, and masks.

A document becomes a `TokenizedDocument`; `plan_pairs` chooses the spans of it
that are instances; `choose_masks` chooses the tokens of instances to predict,
for many of them at once. `InstanceCreator` puts them together, on arrays.

Letters: N instances, S max_seq_length, P max_predictions_per_seq, W words.
"""

import bisect
import collections
import random
import re

import numpy as np

import corpus_utils
import tfrecord_utils
from corpus_utils import DataError

PAIR_TASKS = ("sop", "nsp", "none")


# ------------------------------------------------------------------- documents


class TokenizedDocument(collections.namedtuple(
    "TokenizedDocument", ["tokens", "starts", "labels", "bounds"])):
  """The tokens of a document, one after the other, and where sentences are.

  tokens, starts, labels: as in a Segment.
  bounds: list of ints, sentence i is [bounds[i], bounds[i + 1]).
  """
  __slots__ = ()


def tokenize_document(lines, line_tokenizer, max_num_tokens, counts):
  """Tokenizes the lines of a document.

  Args:
    lines: list of strings, a sentence each.
    line_tokenizer: function from a line to a Segment.
    max_num_tokens: int, tokens that an instance has room for; a longer
      sentence is taken apart, so that nothing of it is lost.
    counts: collections.Counter, updated.

  Returns:
    TokenizedDocument; None, and counted, for one of fewer than two tokens.
  """
  document = join_sentences(map(line_tokenizer, lines), max_num_tokens)
  counts["documents"] += 1
  counts["sentences"] += len(lines)
  counts["tokens"] += len(document.tokens)
  counts["unknown_tokens"] += document.tokens.count("[UNK]")
  if len(document.tokens) < 2:
    counts["dropped_documents"] += 1
    return None
  return document


def join_sentences(sentences, max_num_tokens):
  """Joins sentences, an iterable of Segments, to a TokenizedDocument."""
  document = TokenizedDocument([], [], [], [0])
  for sentence in sentences:
    offset = len(document.tokens)
    document.tokens.extend(sentence.tokens)
    document.starts.extend(sentence.starts)
    document.labels.extend(sentence.labels)
    document.bounds.extend(offset + end for end in split_long_sentence(
        sentence.starts, max_num_tokens))
  return document


def split_long_sentence(starts, max_num_tokens):
  """Cuts a sentence that fills more than an instance, where a word begins.

  The pieces are of at most half an instance, so that two of them make one.

  Args:
    starts: list of bools, whether each token of the sentence begins a word.
    max_num_tokens: int, longest sentence that stays whole.

  Returns:
    List of ints, where the pieces end; empty for a sentence without tokens.
  """
  length = len(starts)
  if length <= max_num_tokens:
    return [length] if length else []
  ends = []
  longest = max(1, max_num_tokens // 2)
  begin = 0
  while begin < length:
    end = min(begin + longest, length)
    while end < length and end > begin + 1 and not starts[end]:
      end -= 1
    if end < length and not starts[end]:  # one word fills it all
      end = begin + longest
    ends.append(end)
    begin = end
  return ends


CLAUSE_MARKS = frozenset(u"，、；：。！？…,;:.!?")


def find_clause_ends(is_mark):
  """Where a sentence may be split: after marks such as a comma.

  Args:
    is_mark: bool array, which tokens are such marks.

  Returns:
    Sorted list of ints, positions of tokens that follow a mark.
  """
  is_mark = np.asarray(is_mark, bool)
  return (np.flatnonzero(is_mark[:-1] & ~is_mark[1:]) + 1).tolist()


# ----------------------------------------------------------------------- pairs


class Pair(collections.namedtuple("Pair", [
    "a_begin", "a_end", "b_begin", "b_end", "label", "key"])):
  """An instance before it is masked: two half-open spans of tokens.

  The second span is empty where there is no second segment. label: int, 1 for
  swapped or random segments. key: int below 2^64, seeds the instance's masks.
  """
  __slots__ = ()


def plan_pairs(documents, index, clause_ends, max_seq_length, short_seq_prob,
               rng, sentence_pair_task="sop"):
  """Chooses the segments of a document's instances.

  Args:
    documents: list of bounds: the positions, in one numbering for all of them,
      at which a document's sentences begin, and at which the last one ends.
    index: int, which document.
    clause_ends: sorted list of positions at which a sentence may be split.
    max_seq_length: int, S.
    short_seq_prob: float, probability that all instances aim at a shorter
      length, drawn from 2 .. S - 3.
    rng: random.Random of this document and repeat.
    sentence_pair_task: "sop" (segments in order or swapped), "nsp" (second
      segment from here or from another document), "none" (one segment).

  Yields:
    Pairs.
  """
  max_num_tokens = max_seq_length - (2 if sentence_pair_task == "none" else 3)
  target_length = max_num_tokens
  if rng.random() < short_seq_prob:
    target_length = rng.randint(2, max_num_tokens)
  if sentence_pair_task == "sop":
    spans = _sop_spans(documents[index], clause_ends, target_length,
                       max_num_tokens, rng)
  elif sentence_pair_task == "nsp":
    spans = _nsp_spans(documents, index, target_length, rng)
  else:
    spans = _single_spans(documents[index], target_length)
  for a_begin, a_end, b_begin, b_end, label in spans:
    length_a, length_b = a_end - a_begin, b_end - b_begin
    if length_a + length_b > max_num_tokens:
      spans = truncated_spans(length_a, length_b, max_num_tokens, rng)
      a_begin, a_end = a_begin + spans[0], a_begin + spans[1]
      b_begin, b_end = b_begin + spans[2], b_begin + spans[3]
    yield Pair(a_begin, a_end, b_begin, b_end, label, rng.getrandbits(64))


def document_rng(seed, identity, repeat):
  """The random generator of a document's n-th use.

  Args:
    seed: int.
    identity: (int, int), number of the file and of the document in it.
    repeat: int.
  """
  return random.Random("%d %d %d %d" % ((seed,) + tuple(identity) + (repeat,)))


def check_enough_documents(documents, sentence_pair_task):
  """Raises DataError if there is no other document to take sentences from."""
  if sentence_pair_task == "nsp" and len(documents) == 1:
    raise DataError(
        "--sentence_pair_task=nsp takes its random sentences from other"
        " documents of the same output file, found 1 document of two tokens or"
        " more; have more documents, or fewer output files")


def _chunks(bounds, target_length, max_num_tokens):
  """Groups sentences into chunks of about the target length.

  Only a chunk of two sentences may be longer than `max_num_tokens`: cutting it
  to that length leaves something of both. Of three, one could be lost whole.

  Yields:
    (first, end): numbers of sentences; the last chunk, and one before a long
    sentence, may be short.
  """
  first = 0
  for i in range(len(bounds) - 1):
    if i - first > 1 and bounds[i + 1] - bounds[first] > max_num_tokens:
      yield first, i
      first = i
    # One sentence makes no pair: it waits for the next, however long it is.
    if i > first and bounds[i + 1] - bounds[first] >= target_length:
      yield first, i + 1
      first = i + 1
  if first < len(bounds) - 1:
    yield first, len(bounds) - 1


def _sop_spans(bounds, clause_ends, target_length, max_num_tokens, rng):
  """Pairs of consecutive segments, in order (0) or swapped (1)."""
  for first, end in _chunks(bounds, target_length, max_num_tokens):
    if end - first == 1 and bounds[end] - bounds[first] == 1:
      # Too short to be split: it goes with the sentence before it.
      if first == 0:
        return
      first -= 1
    if end - first == 1:
      cut = _split_position(bounds[first], bounds[end], clause_ends, rng)
    else:
      cut = bounds[first + rng.randint(1, end - first - 1)]
    if rng.random() < 0.5:
      yield cut, bounds[end], bounds[first], cut, 1
    else:
      yield bounds[first], cut, cut, bounds[end], 0


def _split_position(begin, end, clause_ends, rng):
  """Where a single sentence is split: where a clause ends, or in the middle.

  Returns:
    int in begin + 1 .. end - 1.
  """
  first = bisect.bisect_right(clause_ends, begin)
  last = bisect.bisect_left(clause_ends, end)
  if first < last:
    return clause_ends[rng.randint(first, last - 1)]
  return begin + (end - begin) // 2


def _sentences_that_fill(bounds, first, target_length):
  """The end of a run of sentences that reaches the target, at least one."""
  end = first + 1
  while (end < len(bounds) - 1 and
         bounds[end] - bounds[first] < target_length):
    end += 1
  return end


def _nsp_spans(documents, index, target_length, rng):
  """BERT's pairs: the second segment follows (0) or is from elsewhere (1).

  Sentences that a random second segment displaced are used again.
  """
  bounds = documents[index]
  first = 0
  while first < len(bounds) - 1:
    end = _sentences_that_fill(bounds, first, target_length)
    num_a = rng.randint(1, end - first - 1) if end - first > 1 else 1
    begin, cut = bounds[first], bounds[first + num_a]
    if end - first == 1 or rng.random() < 0.5:
      # Sentences from a random place of another document.
      other = rng.randint(0, len(documents) - 2)
      others = documents[other + (other >= index)]
      at = rng.randint(0, len(others) - 2)
      other_end = _sentences_that_fill(others, at, target_length -
                                       (cut - begin))
      yield begin, cut, others[at], others[other_end], 1
      first += num_a
    else:
      yield begin, cut, cut, bounds[end], 0
      first = end


def _single_spans(bounds, target_length):
  """Segments alone, for training without a sentence-pair task."""
  first = 0
  for i in range(1, len(bounds)):
    # A sentence that would not fit begins the next segment.
    if i - first > 1 and bounds[i] - bounds[first] > target_length:
      yield bounds[first], bounds[i - 1], bounds[i - 1], bounds[i - 1], 0
      first = i - 1
  yield bounds[first], bounds[-1], bounds[-1], bounds[-1], 0


def truncated_spans(length_a, length_b, max_num_tokens, rng):
  """What is left of two segments that together are too long.

  The longer one loses a token, from its front or its back, until both fit.

  Returns:
    (begin of a, end of a, begin of b, end of b).
  """
  spans = [[0, length_a], [0, length_b]]
  for _ in range(length_a + length_b - max_num_tokens):
    longer = spans[0] if (spans[0][1] - spans[0][0] >
                          spans[1][1] - spans[1][0]) else spans[1]
    # From both ends, for more variety and no bias to either.
    if rng.random() < 0.5:
      longer[0] += 1
    else:
      longer[1] -= 1
  return spans[0] + spans[1]


# --------------------------------------------------------------------- masking

MASK_SHARE, KEEP_SHARE = 0.8, 0.1  # the rest becomes another token

NEVER_MASKED = frozenset(["[CLS]", "[SEP]"])
_NEVER_REPLACING = re.compile(
    r"##|\[(PAD|UNK|CLS|SEP|MASK|unused\d+)\]$|<[ST]>$")

# What a draw is for, see `uniform`.
_ORDER, _NGRAM, _ACTION, _REPLACEMENT, _SHUFFLE = range(5)

Words = collections.namedtuple("Words", [
    "rows", "begins", "ends", "run_ends", "firsts"])
Masks = collections.namedtuple("Masks", [
    "rows", "positions", "actions", "replacements", "counts"])


def hash_keys(keys, purpose, counters=0):
  """A hash of (key, purpose, counter): output of the generator SplitMix64.

  As it depends on nothing else, many instances are masked at once, and each is
  masked as it would be alone (Steele et al., Fast splittable pseudorandom
  number generators, 2014).

  Args:
    keys: uint64 array.
    purpose: int below 8.
    counters: int or int array that broadcasts with the keys.

  Returns:
    uint64 array.
  """
  # An array even of one number: overflow, which is meant, warns for scalars.
  steps = np.array(counters, np.uint64, ndmin=1) * np.uint64(8)
  z = keys + (steps + np.uint64(purpose + 1)) * np.uint64(0x9e3779b97f4a7c15)
  z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
  z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
  return z ^ (z >> np.uint64(31))


def uniform(keys, purpose, counters=0):
  """Draws from [0, 1), float64; arguments as for `hash_keys`."""
  return (hash_keys(keys, purpose, counters) >> np.uint64(11)) * 2.0**-53


def choose_masks(starts, special, lengths, keys, masked_lm_prob,
                 max_predictions_per_seq, ngram=1, favor_shorter_ngram=True,
                 mask_per_word=False):
  """Chooses the tokens to predict, and what each of them becomes.

  Args:
    starts: bool array [N, S], which tokens begin a word.
    special: bool array [N, S], which tokens are never masked.
    lengths: int array [N], number of real tokens.
    keys: uint64 array [N].
    masked_lm_prob: float, share of all tokens to predict; at least one token
      is predicted unless this is 0.
    max_predictions_per_seq: int, P, the most that are predicted.
    ngram: int, longest run of words that is masked together.
    favor_shorter_ngram: bool; runs of n words have a probability proportional
      to 1/n, or with False to 1/(ngram + 1 - n).
    mask_per_word: bool; draw the 80/10/10 once a word, not once a token.

  Returns:
    Masks of M tokens, in order: int arrays [M] of rows and positions; float64
    arrays [M] of draws from [0, 1), for what becomes of the token and, if
    another one, which; int array [N] of how many each instance has.
  """
  budgets = np.zeros(len(lengths), np.int64)
  if masked_lm_prob > 0:
    budgets = np.minimum(max_predictions_per_seq, np.maximum(
        1, np.rint(lengths * masked_lm_prob).astype(np.int64)))
  words = find_words(starts, special, lengths)
  chosen, ends = select_words(words, budgets, keys,
                              ngram_weights(ngram, favor_shorter_ngram))
  rows, begins = words.rows[chosen], words.begins[chosen]
  sizes = ends[chosen] - begins
  token_rows = np.repeat(rows, sizes)
  word_begins = np.repeat(begins, sizes)
  positions = word_begins + _count_within(sizes)
  action_counters = word_begins if mask_per_word else positions
  token_keys = keys[token_rows]
  return Masks(
      token_rows, positions, uniform(token_keys, _ACTION, action_counters),
      uniform(token_keys, _REPLACEMENT, positions),
      np.bincount(token_rows, minlength=len(lengths)))


def _count_within(sizes):
  """0, 1, ... size - 1 for each size, one after the other."""
  ends = np.cumsum(sizes)
  total = int(ends[-1]) if len(ends) else 0
  return np.arange(total) - np.repeat(ends - sizes, sizes)


def find_words(starts, special, lengths):
  """Finds the words that may be masked, in runs without a special token.

  Arguments as for `choose_masks`. The first token of an instance, and one
  after a special token, begins a word in any case.

  Returns:
    Words, W of all instances in order. int arrays: rows [W]; begins and ends
    [W], half-open spans of positions; run_ends [W], the index of the word
    after the run's last; firsts [N + 1], index of each instance's first word.
  """
  boundary = starts | special
  boundary[:, 1:] |= special[:, :-1]
  boundary[:, :1] = True
  boundary &= np.arange(boundary.shape[1]) < lengths[:, None]
  rows, begins = np.nonzero(boundary)
  new_row = np.append(True, rows[1:] != rows[:-1])
  ends = np.append(begins[1:], 0)
  last = np.append(new_row[1:], True)
  ends[last] = lengths[rows[last]]
  is_special = special[rows, begins]
  runs = np.cumsum(is_special | new_row)
  rows, begins, ends, runs = (
      values[~is_special] for values in (rows, begins, ends, runs))
  run_sizes = np.bincount(runs)
  run_ends = np.repeat(np.cumsum(run_sizes), run_sizes)
  firsts = np.append(0, np.cumsum(np.bincount(rows, minlength=len(lengths))))
  return Words(rows, begins, ends, run_ends, firsts)


def ngram_weights(ngram, favor_shorter_ngram=True):
  """Weight of each length 1 .. ngram: 1/n, or the same from the other end."""
  weights = [1.0 / n for n in range(1, ngram + 1)]
  return weights if favor_shorter_ngram else weights[::-1]


def select_words(words, budgets, keys, weights=(1.0,)):
  """Chooses words, or n-grams of words, of at most so many tokens.

  Starting points come in random order. From each, the length is drawn among
  those that the run has room for, then shortened until it fits what is left.
  Only where no word at all fits, the beginning of one is taken.

  The loop is over the starting points, each step of it for all instances.

  Args:
    words: Words.
    budgets: int array [N], most tokens to choose.
    keys: uint64 array [N].
    weights: weight of each n-gram length from 1 on.

  Returns:
    (bool array [W], which words are chosen; int array [W], where they end).
  """
  chosen = np.zeros(len(words.rows), bool)
  order = np.arange(len(words.rows))
  counts = np.diff(words.firsts)
  left = budgets.copy()
  active = np.flatnonzero((counts > 0) & (left > 0))
  step = 0
  while len(active):
    # The shuffle goes only as far as it is needed.
    here = words.firsts[active] + step
    there = here + (uniform(keys[active], _ORDER, step) *
                    (counts[active] - step)).astype(np.int64)
    first = order[there]
    order[there], order[here] = order[here], first
    lengths = _draw_lengths(words.run_ends[first] - first, weights,
                            keys[active], step)
    left[active] -= _take_ngrams(words, chosen, first, lengths, left[active])
    step += 1
    active = active[(left[active] > 0) & (counts[active] > step)]
  ends = words.ends
  empty = (counts > 0) & (budgets > 0)
  empty[words.rows[chosen]] = False
  if empty.any():
    first = order[words.firsts[:-1][empty]]
    chosen[first] = True
    ends = ends.copy()
    ends[first] = words.begins[first] + budgets[empty]
  return chosen, ends


def _draw_lengths(available, weights, keys, step):
  """Draws an n-gram's length, 1 .. available, by weight."""
  if len(weights) == 1:
    return np.ones(len(available), np.int64)
  available = np.minimum(available, len(weights))
  limits = np.cumsum(weights)
  draws = uniform(keys, _NGRAM, step) * limits[available - 1]
  return np.minimum(np.searchsorted(limits, draws, side="right") + 1,
                    available)


def _take_ngrams(words, chosen, first, lengths, left):
  """Marks the longest n-gram that is free and fits, of each starting point.

  Args:
    words: Words.
    chosen: bool array [W], updated.
    first: int array [A], starting points, all of different instances.
    lengths: int array [A], longest n-gram to take.
    left: int array [A], tokens that may be taken.

  Returns:
    int array [A], tokens that were taken.
  """
  taken = np.zeros(len(first), np.int64)
  for length in range(int(lengths.max()), 0, -1):
    at = np.flatnonzero((lengths >= length) & (taken == 0))
    sizes = words.ends[first[at] + length - 1] - words.begins[first[at]]
    free = sizes <= left[at]
    for inside in range(length):
      free &= ~chosen[first[at] + inside]
    at, sizes = at[free], sizes[free]
    for inside in range(length):
      chosen[first[at] + inside] = True
    taken[at] = sizes
  return taken


def replacement_words(vocab_words):
  """The words of a vocabulary that can stand in a text by themselves.

  Args:
    vocab_words: list of strings.

  Returns:
    List of strings, without special tokens and `##` pieces.

  Raises:
    DataError: there are none.
  """
  words = [word for word in vocab_words if not _NEVER_REPLACING.match(word)]
  if not words:
    raise DataError("the vocabulary of %d tokens has none that is neither"
                    " special nor a ## piece" % len(vocab_words))
  return words


# ------------------------------------------------- many documents, as arrays

# So many Pairs make an array, though more repeats may follow.
_MAX_PLANNED = 2**15

# A Pair, and its place among all of them.
PLAN_DTYPE = np.dtype([("order", "<u8"), ("key", "<u8"), ("spans", "<i4", 4),
                       ("label", "<i4")])

InstanceOptions = collections.namedtuple("InstanceOptions", [
    "max_seq_length", "max_predictions_per_seq", "masked_lm_prob",
    "short_seq_prob", "dupe_factor", "random_seed", "sentence_pair_task",
    "ngram", "favor_shorter_ngram", "mask_per_word"])


class InstanceCreator(object):
  """Creates instances as arrays: the functions above, for many at once."""

  plan_dtype = PLAN_DTYPE

  def __init__(self, line_tokenizer, options, split_lines=False):
    """Makes the tables.

    Args:
      line_tokenizer: LineTokenizer.
      options: InstanceOptions.
      split_lines: bool, whether lines are paragraphs, to be split into
        sentences.
    """
    vocab = line_tokenizer.tokenizer.vocab
    self._line_tokenizer = line_tokenizer
    self._to_ids = line_tokenizer.tokenizer.convert_tokens_to_ids
    self._legacy_labels = line_tokenizer.legacy_labels
    self._options = options
    self._split_lines = split_lines
    self._seed = random.Random(options.random_seed).getrandbits(64)
    self._cls, self._sep, self._mask = self._to_ids(
        ["[CLS]", "[SEP]", "[MASK]"])
    self._replacing = np.array(self._to_ids(replacement_words(list(vocab))))
    self._is_mark = np.zeros(len(vocab), bool)
    self._is_mark[[vocab[mark] for mark in CLAUSE_MARKS if mark in vocab]] = 1

  def expected_instances(self, num_documents, num_bytes):
    """About how many instances come out of text, rather more than less."""
    length = 3 * (self._options.max_seq_length - 3)  # a character's bytes
    return self._options.dupe_factor * (num_documents + num_bytes // length)

  def tokenize(self, documents):
    """Tokenizes documents and chooses the segments of their instances.

    Args:
      documents: list of corpus_utils.Documents.

    Returns:
      (tokens, plans, counts): int32 array [T, 1], an id times two plus 1 where
      a word begins, or [T, 2] with the ids of `legacy_subword_labels`; iterator
      over arrays of PLAN_DTYPE, each sorted by "order"; collections.Counter.
    """
    counts = collections.Counter()
    columns, bounds, identities, first = [[], [], []], [], [], 0
    for document in documents:
      lines = document.lines
      if self._split_lines:
        lines = [sentence for line in lines
                 for sentence in corpus_utils.split_sentences(line)]
      tokenized = tokenize_document(lines, self._line_tokenizer,
                                    self._options.max_seq_length - 3, counts)
      if tokenized is not None:
        columns[0] += self._to_ids(tokenized.tokens)
        columns[1] += tokenized.starts
        if self._legacy_labels:
          columns[2] += self._to_ids(tokenized.labels)
        bounds.append([first + bound for bound in tokenized.bounds])
        identities.append((document.file_index, document.number))
        first = bounds[-1][-1]
    ids = np.array(columns[0], np.int32)
    tokens = [ids * 2 + np.array(columns[1], np.int32)]
    if self._legacy_labels:
      tokens.append(np.array(columns[2], np.int32))
    return (np.stack(tokens, axis=1),
            self._plan(bounds, identities, ids), counts)

  def _plan(self, bounds, identities, ids):
    """Yields the Pairs of some documents, as arrays of some repeats each.

    Not all at once: of short instances of a long text there are millions.
    """
    options = self._options
    check_enough_documents(bounds, options.sentence_pair_task)
    clause_ends = find_clause_ends(self._is_mark[ids])
    pairs = []
    for repeat in range(options.dupe_factor):
      for index, identity in enumerate(identities):
        pairs.extend(plan_pairs(
            bounds, index, clause_ends, options.max_seq_length,
            options.short_seq_prob,
            document_rng(self._seed, identity, repeat),
            options.sentence_pair_task))
      if len(pairs) >= _MAX_PLANNED or repeat == options.dupe_factor - 1:
        yield self._sorted_plan(pairs)
        pairs = []

  def _sorted_plan(self, pairs):
    """Pairs as an array, in the order of their places."""
    plan = np.empty(len(pairs), PLAN_DTYPE)
    plan["spans"] = np.array([pair[:4] for pair in pairs],
                             np.int32).reshape(-1, 4)
    plan["label"] = [pair.label for pair in pairs]
    plan["key"] = np.array([pair.key for pair in pairs], np.uint64)
    plan["order"] = hash_keys(plan["key"], _SHUFFLE)
    return plan[np.argsort(plan["order"], kind="mergesort")]

  def create_batch(self, plan, segments):
    """Creates the instances of a part of a plan.

    Args:
      plan: array [N] of PLAN_DTYPE.
      segments: list of N pairs of token arrays, as `tokenize` returns them,
        of the plan's spans.

    Returns:
      (tfrecord_utils.Batch, collections.Counter).
    """
    options = self._options
    tokens, segment_ids, lengths = self._lay_out(segments)
    ids = tokens[..., 0] >> 1
    special = (ids == self._cls) | (ids == self._sep)
    masks = choose_masks(
        (tokens[..., 0] & 1).astype(bool), special, lengths,
        plan["key"], options.masked_lm_prob, options.max_predictions_per_seq,
        options.ngram, options.favor_shorter_ngram, options.mask_per_word)
    shape = [len(plan), options.max_predictions_per_seq]
    positions, labels = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    slots = masks.rows, _count_within(masks.counts)
    where = masks.rows, masks.positions
    positions[slots] = masks.positions
    labels[slots] = tokens[..., 1][where] if self._legacy_labels else ids[where]
    replacing = self._replacing[
        (masks.replacements * len(self._replacing)).astype(np.int64)]
    ids[where] = np.where(
        masks.actions < MASK_SHARE, self._mask,
        np.where(masks.actions < MASK_SHARE + KEEP_SHARE, ids[where],
                 replacing))
    counts = collections.Counter(
        instances=len(plan), instance_tokens=int(lengths.sum()),
        predictions=len(masks.rows),
        instances_labelled_1=int(plan["label"].sum()))
    return tfrecord_utils.Batch(
        input_ids=ids,
        input_mask=np.arange(options.max_seq_length) < lengths[:, None],
        masked_lm_ids=labels, masked_lm_positions=positions,
        masked_lm_weights=np.arange(shape[1]) < masks.counts[:, None],
        next_sentence_labels=plan["label"], segment_ids=segment_ids), counts

  def _lay_out(self, segments):
    """Puts [CLS] a [SEP] b [SEP] together.

    Returns:
      (int32 array [N, S, 1 or 2] of tokens, [N, S] of segment ids, [N] of
      lengths).
    """
    shape = [len(segments), self._options.max_seq_length]
    tokens = np.zeros(shape + [1 + self._legacy_labels], np.int32)
    special = [[[2 * token + 1, token][:tokens.shape[2]]]
               for token in (self._cls, self._sep)]
    segment_ids = np.zeros(shape, np.int32)
    lengths = np.zeros(shape[0], np.int64)
    for row, (a, b) in enumerate(segments):
      parts = [special[0], a, special[1]]
      if len(b):
        parts += [b, special[1]]
        segment_ids[row, len(a) + 2:len(a) + len(b) + 3] = 1
      whole = np.concatenate(parts)
      lengths[row] = len(whole)
      tokens[row, :len(whole)] = whole
    return tokens, segment_ids, lengths
