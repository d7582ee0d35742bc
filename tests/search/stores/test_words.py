"""Words in every store, against a loop over all items."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.search.stores.reference import DIM, picture, vectors

from vsekit.search.filters import And, Not, Or, parse
from vsekit.search.items import Item, Kind
from vsekit.search.stores import Store, copy_index, open_store
from vsekit.search.words import Holds, Phrase, holds, stream, words_of

STORES = ["embedded", "postgres", pytest.param("milvus", marks=pytest.mark.slow)]
Place = Callable[[str], str]
#: What a query language might read as its own, and letters from everywhere.
SAID = [
    "dog", "Dog", "dogs", "a dog", "NOT dog", "dog OR cat", "NEAR(dog cat)", "dog*", "^dog", "words:dog", "it's", "c'est",
    "\\dog", "dog & cat", "dog <-> cat", "x100", "X-100", "日本", "本日", "Café", "cafe", "naïve", "Straße", "12.50", "12 50",
    "😀 dog", "ไทย", "%dog%", "_dog_", "AND", "dog:*", "ab", "ba",
]  # fmt: skip
PHRASES = [phrase for phrase in dict.fromkeys(map(words_of, SAID)) if phrase]


@pytest.fixture(scope="module", params=STORES)
def kind_of_store(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def location(kind_of_store: str, place_of: Place) -> str:
    return place_of(kind_of_store)


@pytest.fixture
def store(location: str) -> Iterator[Store]:
    with open_store(location, create=DIM) as store:
        store.write([], np.empty((0, DIM)), [item.id for item in store.all_items()])
        yield store


def made(seed: int, pictures: int = 30) -> list[Item]:
    """Pictures and captions that say things at random."""
    rng = random.Random(seed)
    items = []
    for number in range(pictures):
        meta = {"name": f"{rng.choice(SAID)}_{number}.jpg", "year": number % 3}
        if rng.random() < 0.5:
            meta |= {"written": f"{rng.choice(SAID)} {rng.choice(SAID)}", "folder": f"{rng.choice(SAID)}/x"}
        items.append(replace(picture(number), meta=meta))
        for at in range(rng.randrange(3)):
            text = " ".join(rng.choices(SAID, k=3))
            items.append(
                Item(f"p{number:04d}#{at}", "caption", "/x.jpg", text, f"p{number:04d}", meta={"year": number % 3})
            )
    return items


def holding(items: list[Item], phrase: Phrase, kind: Kind) -> set[str]:
    own = {item.id for item in items if item.kind == kind and holds(stream(item), phrase)}
    if kind == "caption":
        return own
    pictures = {item.id for item in items if item.kind == "image"}
    return own | {item.picture for item in items if item.kind == "caption" and holds(stream(item), phrase)} & pictures


def agree(store: Store, items: list[Item]) -> None:
    known = {item.id: item for item in items}
    kinds: tuple[Kind, ...] = ("image", "caption")
    for kind in kinds:
        together = store.held(PHRASES, 1000, kind=kind)
        assert all(set(together.get(phrase, [])) == holding(items, phrase, kind) for phrase in PHRASES)
    for phrase in PHRASES:
        for kind in kinds:
            expected = holding(items, phrase, kind)
            assert set(store.holders(phrase, 1000, kind=kind)) == expected, phrase
            assert store.count(kind, Holds(phrase)) == len(expected)
            (found,) = store.search(vectors(1, seed=5), 1000, kind=kind, filter=Holds(phrase))
            assert set(found.ids) == expected
    one, two = PHRASES[0], PHRASES[4]
    wide = And((Or((Holds(one), Holds(two))), Not(Holds(PHRASES[1])), parse("year >= 1")))
    expected = (holding(items, one, "image") | holding(items, two, "image")) - holding(items, PHRASES[1], "image")
    expected = {id for id in expected if known[id].meta["year"] >= 1}  # type: ignore[operator]
    (found,) = store.search(vectors(1), 1000, kind="image", filter=wide)
    assert set(found.ids) == expected
    assert {item.id for item in store.latest(1000, filter=wide)} == expected


@pytest.mark.parametrize("seed", [0, 1])
def test_items_are_found_by_the_words_they_hold_through_writes_updates_and_deletions(store: Store, seed: int) -> None:
    assert store.lacks_words is None
    items = made(seed)
    store.write(items, vectors(len(items), seed))
    agree(store, items)
    renamed = [replace(item, meta={**item.meta, "name": "a dog.png"}) for item in items[:5] if item.kind == "image"]
    store.update(renamed)
    store.mark([renamed[0].id], {"favourite": True})
    gone = {item.id for item in items[10:15]}
    replaced = [replace(item, text=f"{item.text} cat dog") for item in items[20:24]]
    store.write(replaced, vectors(len(replaced), 9), list(gone))
    now = {item.id: item for item in items} | {item.id: item for item in (*renamed, *replaced)}
    agree(store, [item for id, item in now.items() if id not in gone])


def test_no_more_holders_are_given_than_asked_for(store: Store) -> None:
    items = [replace(picture(i), meta={"name": "dog.jpg"}) for i in range(9)]
    store.write(items, vectors(9))
    found = store.holders(("dog",), 4, kind="image")
    assert len(found) == len(set(found)) == 4
    assert {item.id for item in items} >= set(found)


def test_a_caption_finds_its_picture_once_and_only_one_that_is_there(store: Store) -> None:
    owner = replace(picture(1), meta={"name": "dog.jpg"})
    captions = [Item(f"{owner.id}#{i}", "caption", "", "a dog", owner.id) for i in range(3)]
    orphan = Item("gone#0", "caption", "", "a dog", "gone")
    store.write([owner, *captions, orphan], vectors(5))
    assert store.holders(("dog",), 10, kind="image") == [owner.id]
    assert len(store.holders(("dog",), 10, kind="caption")) == 4


def test_words_that_were_in_nothing_are_found_once_another_has_written_them(store: Store, location: str) -> None:
    with open_store(location) as reader:
        for _ in range(2):
            assert not any(reader.held([("dog",), ("cat",)], 10, kind="image").values())
        store.write([replace(picture(1), meta={"name": "dog.jpg"})], vectors(1))
        assert reader.held([("dog",), ("cat",)], 10, kind="image").get(("dog",)) == [picture(1).id]
        assert not any(reader.held([("dog",), ("cat",)], 10, kind="caption").values())
        store.update([replace(picture(1), meta={"name": "cat.jpg"})])
        found = reader.held([("dog",), ("cat",)], 10, kind="image")
        assert (found.get(("dog",), []), found.get(("cat",), [])) == ([], [picture(1).id])


def test_a_copy_holds_the_same_words(store: Store, place_of: Place) -> None:
    items = made(3)
    store.write(items, vectors(len(items)))
    target = place_of("embedded")
    copy_index(store, target)
    with open_store(target) as copy:
        agree(copy, items)


def test_an_index_made_anew_holds_no_old_words(kind_of_store: str, place_of: Place) -> None:
    place = place_of(kind_of_store)
    with open_store(place, create=DIM) as store:
        store.write([replace(picture(1), meta={"name": "dog.jpg"})], vectors(1))
        store.rebuild(DIM)
        assert store.holders(("dog",), 10, kind="image") == []
        store.write([replace(picture(2), meta={"name": "dog.jpg"})], vectors(1))
        assert store.holders(("dog",), 10, kind="image") == [picture(2).id]


def test_an_index_made_before_there_were_words_says_so_and_gets_them_from_its_next_writer(
    kind_of_store: str, place_of: Place, without_words: Callable[[str], None]
) -> None:
    place, items = place_of(kind_of_store), made(4)
    with open_store(place, create=DIM) as store:
        store.write(items, vectors(len(items)))
    without_words(place)
    with open_store(place) as old:
        assert "vse index" in str(old.lacks_words)
        assert old.holders(("dog",), 10, kind="image") == []
        assert old.count("image") == 30
        old.mark([items[0].id], {"favourite": True})
    with open_store(place, create=DIM) as store:
        store.lock()
        assert store.lacks_words is None
        agree(store, items)
        np.testing.assert_array_equal(store.vectors([items[0].id]), vectors(len(items))[:1])


@pytest.fixture
def without_words(kind_of_store: str) -> Callable[[str], None]:
    """Takes all words out of an index."""
    import sqlite3
    from pathlib import Path

    def embedded(place: str) -> None:
        with sqlite3.connect(Path(place) / "index.db") as connection:
            connection.execute("drop table words")
            connection.execute("delete from about where key = 'words'")
            connection.execute("update about set value = value + 1 where key = 'generation'")

    def postgres(place: str) -> None:
        import psycopg

        from vsekit.search.stores.postgres.statements import split

        address, table = split(place)
        with psycopg.connect(address) as connection:
            connection.execute(f'alter table "{table}" drop column words, drop column picture')
            connection.execute(f"""delete from "{table}_about" where key = 'words'""")

    def milvus(place: str) -> None:
        """Rows as they were written before, which say nothing of words."""
        from vsekit.search.stores.milvus import words
        from vsekit.search.stores.milvus.collection import reach

        with pytest.MonkeyPatch.context() as patch, open_store(place) as store:
            patch.setattr(words, "stored", lambda item: [])
            items = list(store.all_items())
            store.write(items, store.vectors([item.id for item in items]))
        collection = reach(place)
        collection.set_marker({name: value for name, value in collection.marker().items() if name != "words"})
        collection.client.close()

    return {"embedded": embedded, "postgres": postgres, "milvus": milvus}[kind_of_store]
