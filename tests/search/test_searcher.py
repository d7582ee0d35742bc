from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.search.memory import CountingModel, MemoryStore, store_of

from vsekit.errors import UserError
from vsekit.search.items import Item
from vsekit.search.query import Query, Term, parse
from vsekit.search.searcher import CACHED_TEXTS, Answer, Ask, Searcher

COLOURS = {"red": (255, 0, 0), "orange": (255, 90, 0), "green": (0, 255, 0), "teal": (0, 200, 200), "blue": (0, 0, 255)}


def picture(colour: str) -> Image.Image:
    return Image.new("RGB", (4, 4), COLOURS[colour])


@pytest.fixture
def model() -> CountingModel:
    return CountingModel()


@pytest.fixture
def store(model: CountingModel) -> MemoryStore:
    captions = {"red#0": ("red", "red wall"), "blue#0": ("blue", "blue wall"), "green#0": ("green", "a green wall")}
    return store_of(model, {colour: picture(colour) for colour in COLOURS}, captions)


@pytest.fixture
def searcher(store: MemoryStore, model: CountingModel) -> Searcher:
    return Searcher(store, model)  # type: ignore[arg-type]


def ids(answer) -> list[str]:  # type: ignore[no-untyped-def]
    return [hit.item.id for hit in answer.hits]


def test_words_find_pictures_in_the_order_of_their_scores(searcher: Searcher) -> None:
    answer = searcher.search("red")
    assert ids(answer)[:2] == ["red", "orange"]
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)
    assert answer.hits[0].score == pytest.approx(1)


def test_pages_follow_one_another_and_say_when_there_is_more(searcher: Searcher) -> None:
    whole = ids(searcher.search("red blue", top=5))
    first, second = searcher.search("red blue", top=3), searcher.search("red blue", top=3, offset=3)
    assert ids(first) + ids(second) == whole
    assert (first.more, second.more) == (True, False)
    assert searcher.search("red", top=5).more is False


def test_sums_move_the_answer(searcher: Searcher) -> None:
    assert ids(searcher.search('"red" + 0.4*"green"'))[0] == "orange"
    assert ids(searcher.search('"green" + "blue" - "red"'))[0] == "teal"


def test_an_item_asks_for_others_and_is_not_its_own_answer(searcher: Searcher) -> None:
    assert ids(searcher.like("red"))[0] == "orange"
    assert "red" not in ids(searcher.like("red", top=10))
    assert "red" not in ids(searcher.search('item:red + "blue"', top=10))
    assert searcher.like("red", top=4).more is False


def test_a_picture_finds_captions_that_carry_their_picture(searcher: Searcher) -> None:
    hit = searcher.by_picture(picture("red"), kind="caption").hits[0]
    assert (hit.item.text, hit.item.picture) == ("red wall", "red")
    assert ids(searcher.like("blue", kind="caption"))[0] == "blue#0"


def test_a_caption_of_the_index_asks_for_pictures(searcher: Searcher) -> None:
    assert ids(searcher.like("red#0"))[0] == "red"
    assert "red#0" not in ids(searcher.like("red#0", kind="caption"))


def every_ask() -> list[Ask]:
    queries = [
        parse("red"), parse("blue"), parse('"red" + 0.4*"green"'), parse('item:red - "blue"'), Query.of("item", "blue#0"),
        Query.of("picture", picture("teal")), Query((Term(1, "picture", picture("red")), Term(0.5, "text", "blue"))),
    ]  # fmt: skip
    options: list[dict[str, Any]] = [
        {},
        {"top": 2},
        {"top": 2, "offset": 1},
        {"kind": "caption"},
        {"filter": "has year"},
    ]
    return [Ask(query, **chosen) for chosen in options for query in queries]


def test_many_asks_are_answered_as_each_alone(searcher: Searcher) -> None:
    asks = every_ask()
    together = searcher.search_many(asks)
    for ask, answer in zip(asks, together, strict=True):
        alone = searcher.search(
            ask.query, top=ask.top, offset=ask.offset, kind=ask.kind, filter=ask.filter, rerank=ask.rerank
        )
        assert isinstance(answer, Answer)
        assert (answer.hits, answer.verdict, answer.more) == (alone.hits, alone.verdict, alone.more)


def test_many_asks_take_one_call_of_each_encoder_and_one_search_for_the_same(
    store: MemoryStore, model: CountingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher = Searcher(store, model)  # type: ignore[arg-type]
    model.encoded.clear()
    pictures, searches = [], []
    encode_images, search = model.encode_images, store.search
    monkeypatch.setattr(model, "encode_images", lambda given: pictures.append(len(given)) or encode_images(given))
    monkeypatch.setattr(store, "search", lambda v, top, **o: searches.append(len(v)) or search(v, top, **o))
    shown = [Query.of("picture", picture("red")), Query.of("picture", picture("blue"))]
    searcher.search_many([Ask(query) for query in (parse("red"), parse('"blue" - "red"'), *shown)])
    assert model.encoded == [["red", "blue"]]
    assert pictures == [2]
    assert searches == [4]


def test_a_bad_ask_has_its_own_error_and_touches_no_other(
    searcher: Searcher, model: CountingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_images, encode_texts = model.encode_images, model.encode_texts

    def images(pictures):  # type: ignore[no-untyped-def]
        if any(picture.size == (1, 1) for picture in pictures):
            raise OSError("broken")
        return encode_images(pictures)

    def texts(given):  # type: ignore[no-untyped-def]
        if "bomb" in given:
            raise OverflowError("too long")
        return encode_texts(given)

    monkeypatch.setattr(model, "encode_images", images)
    monkeypatch.setattr(model, "encode_texts", texts)
    red = Query.of("text", "red")
    bad = [
        (Ask(Query.of("picture", Image.new("RGB", (1, 1)))), OSError),
        (Ask(Query.of("text", "bomb")), OverflowError),
        (Ask(Query.of("text", "zebra")), UserError),
        (Ask(Query.of("item", "nobody")), UserError),
        (Ask(red, filter="year >"), UserError),
        (Ask(red, top=0), UserError),
        (Ask(red, rerank=5), UserError),
    ]
    good = [Ask(red), Ask(Query.of("picture", picture("blue"))), Ask(Query.of("text", "green"))]
    answers = searcher.search_many([*(ask for ask, _ in bad), *good])
    for (_, error), answer in zip(bad, answers):
        assert isinstance(answer, error)
    assert [ids(answer)[0] for answer in answers[len(bad) :]] == ["red", "blue", "green"]


def test_a_text_is_encoded_once(searcher: Searcher, model: CountingModel) -> None:
    model.encoded.clear()
    for text in ("red", "red", '"red" - "blue"'):
        searcher.search(text)
    assert model.encoded == [["red"], ["blue"]]


def test_texts_of_one_call_are_encoded_together(searcher: Searcher, model: CountingModel) -> None:
    model.encoded.clear()
    vectors = searcher.encode_texts(["red", "blue", "red"])
    assert model.encoded == [["red", "blue"]]
    np.testing.assert_array_equal(vectors[0], vectors[2])
    assert searcher.encode_texts([]).shape == (0, model.dim)


def test_old_texts_are_forgotten(searcher: Searcher) -> None:
    searcher.encode_texts([f"red {i}" for i in range(CACHED_TEXTS + 10)])
    assert len(searcher._texts) == CACHED_TEXTS


def test_the_index_of_another_model_is_refused(store: MemoryStore) -> None:
    other = CountingModel()
    other.fingerprint = "two"
    with pytest.raises(UserError, match=r"made with another model: counting \(one\), not counting \(two\)") as error:
        Searcher(store, other)  # type: ignore[arg-type]
    assert "index the pictures again" in str(error.value)


@pytest.mark.parametrize("query", ['"red" - "red"', "zebra"])
def test_a_query_without_direction_is_refused(searcher: Searcher, query: str) -> None:
    with pytest.raises(UserError, match="no direction"):
        searcher.search(query)


def test_an_item_that_is_not_there_is_a_mistake(searcher: Searcher) -> None:
    for ask in (lambda: searcher.like("nope"), lambda: searcher.why("red", "nope")):
        with pytest.raises(UserError, match="no item 'nope'"):
            ask()


@pytest.mark.parametrize("options", [{"top": 0}, {"offset": -1}, {"rerank": -1}, {"rerank": 5}])
def test_impossible_options_are_refused(searcher: Searcher, options: dict[str, int]) -> None:
    with pytest.raises(UserError):
        searcher.search("red", **options)  # type: ignore[arg-type]


def test_an_empty_index_says_so(model: CountingModel) -> None:
    answer = Searcher(MemoryStore(model.dim), model).search("red")  # type: ignore[arg-type]
    assert (answer.hits, answer.verdict, answer.more) == ([], "This index holds no pictures.", False)


def test_filters_choose_by_metadata_and_say_when_nothing_passes(store: MemoryStore, model: CountingModel) -> None:
    store.update([Item(id_, "image", picture=id_, meta={"year": 2000 + i}) for i, id_ in enumerate(COLOURS)])
    searcher = Searcher(store, model)  # type: ignore[arg-type]
    assert ids(searcher.search("red", filter="year >= 2003")) == ["blue", "teal"]
    nothing = searcher.search("red", filter="year > 2010")
    assert (nothing.hits, nothing.verdict) == ([], "No picture passes the filter.")
    mistyped = searcher.search("red", filter="yeer > 2010").verdict
    assert mistyped == "No picture passes the filter. Nothing has a field 'yeer'; there are: year."


def test_an_item_removed_in_between_is_not_answered(store: MemoryStore, model: CountingModel) -> None:
    searcher = Searcher(store, model)  # type: ignore[arg-type]
    search = store.search

    def and_remove(*args, **options):  # type: ignore[no-untyped-def]
        found = search(*args, **options)
        if "red" in store.known:
            store.write([], np.zeros((0, model.dim)), deleted=["red"])
        return found

    store.search = and_remove  # type: ignore[method-assign]
    assert ids(searcher.search("red"))[0] == "orange"


def test_the_time_is_split(searcher: Searcher) -> None:
    timing = searcher.search("red").timing
    assert timing.encode > 0
    assert timing.search > 0
    assert timing.total >= timing.encode + timing.search


def test_threads_get_the_answers_of_one(searcher: Searcher) -> None:
    texts = ["red", "blue", "green", "red blue", '"red" + "blue"', "a red wall"] * 20
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda text: ids(searcher.search(text)), texts))
    assert together == [ids(searcher.search(text)) for text in texts]


def test_a_query_read_before_is_taken_as_it_is(searcher: Searcher) -> None:
    assert ids(searcher.search(parse("red"))) == ids(searcher.search(Query.of("text", "red")))
