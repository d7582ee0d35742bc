from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.search.memory import MemoryStore

from vsekit.search.fusion import AGREES, DEPTH, HELPS, LEADS, MOST_TERMS, Spoken, fused, spoken, terms_of
from vsekit.search.items import Item, Kind
from vsekit.search.stores.base import Found
from vsekit.search.words import Phrase, holds, stream


class Wordy(MemoryStore):
    """The slow and obvious store, with words."""

    lacks_words = None

    def holders(self, phrase: Phrase, most: int, *, kind: Kind) -> list[str]:
        return [item.id for item in self.all_items(kind) if holds(stream(item), phrase)][:most]


def store_with(*names: str) -> Wordy:
    store = Wordy(2)
    items = [Item(f"p{i}", "image", meta={"name": name}) for i, name in enumerate(names)]
    store.write(items, np.zeros((len(items), 2), np.float32))
    return store


def read(text: str) -> Sequence[str]:
    """A model that knows every word of letters but acme."""
    return ["<unk>"] if text == "acme" else [text]


def ranking(*ids: str) -> Found:
    return Found(list(ids), np.linspace(1, 0.1, len(ids), dtype=np.float32))


NOTHING = Found([], np.empty(0, np.float32))


def test_terms_are_what_spaces_separate_but_ordinary_words() -> None:
    assert terms_of("a photo of the T-shirt in IMG_1234.jpg, the T-shirt") == [("t", "shirt"), ("img", "1234", "jpg")]
    assert terms_of("of the !!!") == []
    assert len(terms_of(" ".join(f"w{i}" for i in range(100)))) == MOST_TERMS


def test_the_share_of_a_query_is_by_how_rare_its_terms_are() -> None:
    said = spoken(store_with("dog", "dog", "dog cat", "x"), "dog cat", "image", read)
    dog, cat = log(1 + 1.5 / 3.5), log(1 + 3.5 / 1.5)
    assert said
    assert said.shares == pytest.approx({"p0": dog / (dog + cat), "p1": dog / (dog + cat), "p2": 1.0})
    assert set(said.leading) == {"p2"}
    assert not said.specific


def test_one_ordinary_word_of_a_sentence_does_not_lead() -> None:
    said = spoken(store_with("running sale", "x", "y"), "a dog running on grass", "image", read)
    assert said
    assert not said.leading
    unheard, heard = log(1 + 3.5 / 0.5), log(1 + 2.5 / 1.5)
    assert said.shares == pytest.approx({"p0": heard / (heard + 2 * unheard)})


@pytest.mark.parametrize("query", ["a letter of acme about the roof", "the letter 4711 about the roof"])
def test_names_and_numbers_lead_whatever_else_is_asked(query: str) -> None:
    said = spoken(store_with("acme_4711.png", "letter", "x"), query, "image", read)
    assert said
    assert (set(said.leading), said.specific) == ({"p0"}, True)


def test_a_number_that_nobody_holds_keeps_nobody_from_leading() -> None:
    said = spoken(store_with("acme.png", "x"), "acme 1234", "image", read)
    assert said
    assert set(said.leading) == {"p0"}


def test_a_query_whose_words_nobody_holds_has_none() -> None:
    assert spoken(store_with("x"), "a dog", "image", read) is None
    assert spoken(store_with("x"), "", "image", read) is None
    assert spoken(MemoryStore(2), "x", "image", read) is None


def reciprocal(rank: int | None) -> float:
    return 0.0 if rank is None else 1 / (60 + rank)


@given(
    st.permutations("abcdefgh"),
    st.dictionaries(st.sampled_from("abcdxyz"), st.sampled_from([0.2, 0.5, 1.0]), min_size=1),
    st.booleans(),
    st.booleans(),
)
def test_fusion_is_the_sum_of_reciprocal_ranks(
    order: list[str], shares: dict[str, float], specific: bool, sure: bool
) -> None:
    found = ranking(*order)
    outside = sorted(set(shares) & set("xyz"))
    others = Found(outside, np.full(len(outside), 0.05, np.float32))
    leading = {id for id, share in shares.items() if share == 1}
    values = dict(zip([*found.ids, *others.ids], [*found.scores.tolist(), *others.scores.tolist()]))
    words = sorted(shares, key=lambda id: (-shares[id], -values[id], id))
    expected = {}
    for id in values:
        leads = LEADS if specific or not sure else AGREES
        weight = 0 if id not in shares else leads if id in leading else HELPS * shares[id]
        vector = order.index(id) + 1 if id in order else None
        expected[id] = reciprocal(vector) + weight * reciprocal(words.index(id) + 1 if id in words else None)
    got = fused(Spoken(shares, leading, specific, []), found, others, sure)
    assert sorted(got.ids) == sorted(expected)
    assert [expected[id] for id in got.ids] == pytest.approx(sorted(expected.values(), reverse=True))
    assert got.scores.tolist() == [values[id] for id in got.ids]


def test_pages_are_the_same_however_deep_the_vectors_were_asked() -> None:
    ids = [f"v{i:04d}" for i in range(1000)]
    values = np.linspace(1, 0, 1000, dtype=np.float32)
    shares = {"v0005": 0.4, "v0500": 1.0, "v0900": 0.3}
    said = Spoken(shares, {"v0500"}, True, [])

    def asked(depth: int) -> list[str]:
        others = [i for i, id in enumerate(ids) if id in shares and i >= depth]
        return fused(
            said, Found(ids[:depth], values[:depth]), Found([ids[i] for i in others], values[others]), True
        ).ids

    whole = asked(1000)
    for depth in (DEPTH, 250, 600, 950):
        assert asked(depth)[: depth - len(shares)] == whole[: depth - len(shares)]
    assert whole[0] == "v0500"
    assert sorted(whole) == ids


def test_words_alone_answer_where_the_vectors_have_nothing() -> None:
    said = Spoken({"a": 1.0, "b": 0.5}, {"a"}, True, [])
    assert fused(said, NOTHING, Found(["b", "a"], np.zeros(2, np.float32)), False).ids == ["a", "b"]
