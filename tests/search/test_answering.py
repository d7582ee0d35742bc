"""Answers to which words have something to say."""

from __future__ import annotations

import pytest
from tests.search.memory import CountingModel, MemoryStore, store_of
from tests.search.test_fusion import Wordy
from tests.search.test_searcher import COLOURS, picture

from vsekit.errors import UserError
from vsekit.search.asking import Answer, Ask
from vsekit.search.items import Item, Said
from vsekit.search.query import parse
from vsekit.search.searcher import Searcher

NAMES = {"red": "wall_4711.png", "orange": "dog.png", "green": "IMG_0042.jpg", "teal": "x.png", "blue": "y.png"}


@pytest.fixture
def store() -> Wordy:
    model = CountingModel()
    plain = store_of(model, {colour: picture(colour) for colour in COLOURS}, {"blue#0": ("blue", "zebra crossing")})
    store = Wordy(model.dim, plain.header)
    items = [Item(id, "image", picture=id, meta={"name": name, "n": i}) for i, (id, name) in enumerate(NAMES.items())]
    store.write(items, plain.vectors([item.id for item in items]))
    store.write([plain.known["blue#0"]], plain.vectors(["blue#0"]))
    return store


@pytest.fixture
def searcher(store: Wordy) -> Searcher:
    return Searcher(store, CountingModel())  # type: ignore[arg-type]


def ids(answer: Answer) -> list[str]:
    return [hit.item.id for hit in answer.hits]


def test_a_name_leads_over_what_the_vectors_like_and_says_where_it_stands(searcher: Searcher) -> None:
    answer = searcher.search("green wall 4711")
    assert ids(answer)[0] == "red"
    assert answer.hits[0].said == (Said("file name", ("wall", "4711")),)
    assert ids(answer)[1] == "green"
    assert answer.hits[1].said == ()


def test_a_word_that_no_model_knows_is_found_without_a_vector(searcher: Searcher) -> None:
    answer = searcher.search("IMG_0042")
    assert ids(answer) == ["green"]
    assert answer.hits[0].said == (Said("file name", ("img 0042",)),)
    with pytest.raises(UserError, match="no direction"):
        searcher.search("IMG_0043")


def test_exact_words_find_what_holds_them_and_nothing_else(searcher: Searcher) -> None:
    assert ids(searcher.search('"dog"')) == ["orange"]
    assert ids(searcher.search('"Dog.png" blue wall')) == ["orange"]
    answer = searcher.search('"png" blue')
    assert ids(answer)[0] == "blue"
    assert sorted(ids(answer)) == ["blue", "orange", "red", "teal"]
    assert answer.verdict is None
    assert searcher.search('"4711 png" "wall"').hits[0].said == (Said("file name", ("4711 png", "wall")),)


def test_exact_words_that_nothing_holds_are_said_to_be_missing(searcher: Searcher) -> None:
    answer = searcher.search('"png wall" red')
    assert answer.hits == []
    assert answer.verdict == 'No picture here has the words "png wall".'


def test_filters_pages_and_hiding_hold_for_what_words_find(searcher: Searcher, store: Wordy) -> None:
    assert "red" not in ids(searcher.search("wall 4711", filter="n > 0"))
    assert ids(searcher.search('"png"', filter="n > 2")) == ids(searcher.search('"png" red', filter="n > 2"))[::1]
    whole = ids(searcher.search("green wall 4711", top=5))
    parts = [searcher.search("green wall 4711", top=2, offset=at) for at in (0, 2, 4)]
    assert [id for part in parts for id in ids(part)] == whole
    assert [part.more for part in parts] == [True, True, False]
    store.mark(["red"], {"hidden": True})
    hidden = Searcher(store, CountingModel())  # type: ignore[arg-type]
    assert "red" not in ids(hidden.search("green wall 4711"))
    assert hidden.search('"4711"').hits == []


def test_a_verdict_does_not_contradict_words(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    from vsekit.search.calibration import Calibration, Judged

    monkeypatch.setattr(
        Calibration, "judge", lambda self, v, scores, *rest: Judged([0.1] * len(scores), ["none"] * len(scores))
    )
    assert str(searcher.search("green").verdict).startswith("Nothing here matches")
    named = searcher.search("green 4711")
    assert named.verdict is None
    assert [hit.match for hit in named.hits[:2]] == ["likely", "none"]
    assert searcher.search('"dog"').verdict is None


def test_many_asks_are_answered_as_if_alone(searcher: Searcher) -> None:
    texts = ["green wall 4711", '"dog"', "red", '"png" blue', "IMG_0042", '"nowhere"', "red"]
    together = searcher.search_many([Ask(parse(text), top=3) for text in texts])
    for text, answer in zip(texts, together):
        assert isinstance(answer, Answer)
        alone = searcher.search(text, top=3)
        assert (answer.hits, answer.verdict, answer.more) == (alone.hits, alone.verdict, alone.more)


def test_a_store_without_words_is_searched_by_vectors_and_says_so_when_words_must_be_exact() -> None:
    model = CountingModel()
    plain = store_of(model, {colour: picture(colour) for colour in COLOURS})
    searcher = Searcher(plain, model)  # type: ignore[arg-type]
    assert isinstance(plain, MemoryStore)
    assert ids(searcher.search("red dog"))[0] == "red"
    with pytest.raises(UserError, match="this store does not search words"):
        searcher.search('"red"')


def test_words_of_a_sum_are_not_looked_for(searcher: Searcher) -> None:
    assert ids(searcher.search('"green" + "wall"'))[0] == "green"
    assert all(hit.said == () for hit in searcher.search('"red" + "dog"').hits)
