"""Looking through the pictures of every store, against brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.search.stores.reference import DIM, caption, picture, vectors

from vsekit.search.filters import Filter, parse
from vsekit.search.items import Item
from vsekit.search.stores import Store, open_store

STORES = ["embedded", "postgres", pytest.param("milvus", marks=pytest.mark.slow)]
Place = Callable[[str], str]


@pytest.fixture(scope="module", params=STORES)
def location(request: pytest.FixtureRequest, place_of: Place) -> str:
    return place_of(request.param)


@pytest.fixture
def store(location: str) -> Iterator[Store]:
    with open_store(location, create=DIM) as store:
        store.write([], np.empty((0, DIM)), [item.id for item in store.all_items()])
        yield store


def album() -> list[Item]:
    """Pictures of three years, some in the same second, some without a date or with one that is no text; and captions."""
    generator = np.random.default_rng(3)
    items = []
    for i in range(60):
        year, month, second = 2019 + i % 3, generator.integers(1, 13), generator.integers(0, 4)
        dated = {"dated": f"{year}-{month:02}-07 10:00:{second:02}"} if i % 10 else {"dated": 7} if i % 20 else {}
        items.append(picture(i, folder=f"trip/day {i % 4}" if i % 5 else "", camera="X100" if i % 2 else "Z", **dated))
        items.append(caption(i, dated="2050-01-01 00:00:00"))
    return items


def newest(items: list[Item], filter: Filter | None = None) -> list[str]:
    """The slow way: dates that are texts first, by falling date and id; then the rest by falling id."""
    passing = [i for i in items if i.kind == "image" and (filter is None or filter.matches(i.meta))]
    dates = {i.id: i.meta["dated"] if isinstance(i.meta.get("dated"), str) else "" for i in passing}
    return sorted(dates, key=lambda id: (dates[id], id), reverse=True)


@pytest.mark.parametrize("expression", [None, 'camera = "X100"', 'not has dated or dated < "2020-06"', "year = 1"])
@pytest.mark.parametrize("size", [1, 7, 100])
def test_pages_of_the_newest_join_without_gap_or_overlap(store: Store, expression: str | None, size: int) -> None:
    items = album()
    store.write(items, vectors(len(items)))
    filter = parse(expression) if expression else None
    expected = newest(items, filter)
    found: list[str] = []
    after = None
    for _ in range(len(expected) + 1):
        page = store.latest(size, after=after, filter=filter)
        assert len(page) <= size
        if not page:
            break
        found += [item.id for item in page]
        after = page[-1].place
    assert found == expected


def test_a_picture_that_comes_or_goes_meanwhile_moves_no_page(store: Store) -> None:
    items = album()
    store.write(items, vectors(len(items)))
    first = store.latest(10)
    new = replace(picture(99), meta={"dated": "2030-01-01 00:00:00"})
    store.write([new], vectors(1), [first[2].id])
    second = store.latest(10, after=first[-1].place)
    assert [item.id for item in second] == newest(items)[10:20]
    assert store.latest(1)[0].id == new.id


@pytest.mark.parametrize("expression", [None, 'camera = "X100"', 'dated >= "2020"'])
def test_tallies_count_as_a_loop_does(store: Store, expression: str | None) -> None:
    items = album()
    store.write(items, vectors(len(items)))
    filter = parse(expression) if expression else None
    for field, cut in (("folder", None), ("dated", 7), ("dated", 4), ("camera", None), ("nothing", None)):
        texts: Counter[str] = Counter()
        for item in items:
            value = item.meta.get(field)
            passes = filter is None or filter.matches(item.meta)
            if item.kind == "image" and isinstance(value, str) and value and passes:
                texts[value[:cut]] += 1
        assert store.tally(field, filter=filter, cut=cut) == sorted(texts.items())


def test_marks_are_set_found_and_taken_away(store: Store) -> None:
    items = album()
    store.write(items, vectors(len(items)))
    before = {item.id: item for item in store.all_items()}
    store.mark(["p0003", "p0004"], {"favourite": True})
    store.mark(["p0004"], {"hidden": True})
    assert store.count("image", parse("favourite = true")) == 2
    assert store.count("image", parse("not hidden = true")) == 59
    assert store.items(["p0004"])[0].marks == {"favourite": True, "hidden": True}
    assert store.fields()["favourite"] == {"type": "boolean", "count": 2, "values": [[True, 2]]}
    np.testing.assert_array_equal(store.vectors(["p0003"]), vectors(len(items))[6:7])
    store.mark(["p0003", "p0004"], {"favourite": False, "hidden": False})
    assert {item.id: item for item in store.all_items()} == before
    with pytest.raises(KeyError):
        store.mark(["p0003", "nobody"], {"hidden": True})
    assert store.items(["p0003"])[0].marks == {}


def test_another_version_after_every_change(store: Store) -> None:
    versions = [store.version()]
    store.write(album()[:4], vectors(4))
    versions.append(store.version())
    store.mark(["p0001"], {"hidden": True})
    versions.append(store.version())
    assert len(set(versions)) == 3
    assert store.version() == versions[-1]


@pytest.mark.parametrize("name", ["embedded", "postgres"])
def test_marks_are_made_beside_a_writer_who_leaves_them(name: str, place_of: Place) -> None:
    """The writer read the items before, and knows nothing of the mark."""
    place = place_of(name)
    with open_store(place, create=DIM) as writer:
        writer.write([picture(1), picture(2)], vectors(2))
        writer.lock()
        with open_store(place) as other:
            other.mark(["p0001", "p0002"], {"favourite": True})
        writer.write([picture(1, year=3)], vectors(1))
        writer.update([picture(2, year=4)])
        with open_store(place) as other:
            other.mark(["p0002"], {"favourite": False})
        writer.update([picture(2, year=4, favourite=True)])
        assert writer.items(["p0001", "p0002"]) == [picture(1, year=3, favourite=True), picture(2, year=4)]
        writer.write([], np.empty((0, DIM)), ["p0001"])
        writer.write([picture(1)], vectors(1))
        assert writer.items(["p0001"])[0].marks == {}, "a picture that was deleted comes back as a new one"


def test_pictures_that_are_new_bring_their_marks(store: Store) -> None:
    store.write([picture(1, hidden=True)], vectors(1))
    assert store.items(["p0001"])[0].marks == {"hidden": True}
