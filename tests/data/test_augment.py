from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vsekit.data.augment import disturb_words, drop_regions
from vsekit.encoders.base import Tokens

PAD, START, END, UNKNOWN, MASK = range(5)
SPECIALS = {PAD, START, END, MASK}
VOCABULARY = 50


def sentences(lengths: list[int], framed: bool = True) -> Tokens:
    """Words 5, 6, 7 … between <start> and <end>."""
    ids = torch.full((len(lengths), max(lengths)), PAD)
    for row, n in zip(ids, lengths):
        row[:n] = torch.arange(5, 5 + n) % VOCABULARY
        if framed:
            row[0], row[n - 1] = START, END
    return Tokens(ids, torch.tensor(lengths))


def disturb(tokens: Tokens, p: float, seed: int = 0) -> Tokens:
    return disturb_words(tokens, p, VOCABULARY, MASK, SPECIALS, torch.Generator().manual_seed(seed))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.floats(0, 1), st.integers(0, 2**31))
def test_dropping_only_ever_drops_and_never_all(sizes: list[int], p: float, seed: int) -> None:
    mask = torch.arange(9) < torch.tensor(sizes)[:, None]
    kept = drop_regions(mask, p, torch.Generator().manual_seed(seed))
    assert kept.dtype == torch.bool
    assert not (kept & ~mask).any()
    assert kept.any(1).all()


def test_regions_are_dropped_with_probability_p_and_the_survivor_is_any() -> None:
    mask = torch.ones(4000, 36, dtype=torch.bool)
    generator = torch.Generator().manual_seed(0)
    assert drop_regions(mask, 0.2, generator).double().mean() == pytest.approx(0.8, abs=0.005)
    assert drop_regions(mask, 0.0, generator).all()
    survivors = drop_regions(mask, 1.0, generator)
    assert (survivors.sum(1) == 1).all()
    assert survivors.sum(0).min() > 60  # 111 on average


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.booleans(), st.floats(0, 1), st.integers(0, 2**31))
def test_sentences_stay_sentences(lengths: list[int], framed: bool, p: float, seed: int) -> None:
    before = sentences([max(n, 2) for n in lengths] if framed else lengths, framed)
    after = disturb(before, p, seed)
    assert after.ids.shape == (len(lengths), int(after.lengths.max()))
    assert (after.lengths >= 1).all()
    assert (after.lengths <= before.lengths).all()
    for ids, n in zip(after.ids, after.lengths):
        words = ids[:n]
        assert ((words >= 0) & (words < VOCABULARY)).all()
        if framed:
            assert words[0] == START
            assert words[-1] == END
            assert not torch.isin(words[1:-1], torch.tensor([PAD, START, END])).any()


def test_a_sentence_of_words_alone_is_never_deleted_whole() -> None:
    before = sentences([1, 2] * 100, framed=False)
    after = disturb(before, 1.0)
    assert (after.lengths >= 1).all()
    untouched = (after.ids[:, 0] == before.ids[:, 0]) & (after.lengths == 1)
    assert untouched.any()  # those of which all words were to go


def test_nothing_is_touched_with_probability_zero() -> None:
    before = sentences([7, 2, 4])
    after = disturb(before, 0.0)
    assert torch.equal(after.ids, before.ids)
    assert torch.equal(after.lengths, before.lengths)


def test_of_the_touched_half_is_masked_a_tenth_replaced_and_four_tenths_deleted() -> None:
    word = 7
    before = Tokens(torch.full((1000, 40), word), torch.full((1000,), 40))
    after = disturb(before, 0.2)
    valid = torch.arange(after.ids.shape[1]) < after.lengths[:, None]
    ids, total = after.ids[valid], 1000 * 40
    replaced = ids[(ids != word) & (ids != MASK)]
    assert (total - len(ids)) / total == pytest.approx(0.2 * 0.4, abs=0.005)
    assert (ids == MASK).double().sum() / total == pytest.approx(0.2 * 0.5, abs=0.005)
    assert len(replaced) / total == pytest.approx(0.2 * 0.1, abs=0.003)
    assert set(replaced.tolist()) == set(range(VOCABULARY)) - SPECIALS - {word}


def test_kept_words_keep_their_order() -> None:
    words = torch.arange(VOCABULARY, VOCABULARY + 30).repeat(20, 1)  # no replacement looks like one of these
    for ids, n in zip(*disturb(Tokens(words, torch.full((20,), 30)), 0.5)):
        kept = ids[:n][ids[:n] >= VOCABULARY].tolist()
        assert 5 < len(kept) < 25
        assert kept == sorted(set(kept))


def test_the_generator_decides() -> None:
    before = sentences([30, 20])
    assert torch.equal(disturb(before, 0.5, 1).ids, disturb(before, 0.5, 1).ids)
    assert not torch.equal(disturb(before, 0.5, 1).ids, disturb(before, 0.5, 2).ids)
