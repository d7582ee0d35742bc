"""The same claims for every store, against brute force."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.search.stores.reference import DIM, Reference, caption, filters, metas, picture, vectors

from vsekit.errors import UserError
from vsekit.search.filters import Filter, parse
from vsekit.search.items import Item, Kind
from vsekit.search.stores import Store, copy_index, open_store
from vsekit.search.stores.rows import summary

STORES = ["embedded", "halves", "postgres", pytest.param("milvus", marks=pytest.mark.slow)]
Place = Callable[[str], str]


@pytest.fixture(scope="module", params=STORES)
def kind_of_store(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def location(kind_of_store: str, place_of: Place) -> str:
    return place_of(kind_of_store)


@pytest.fixture(scope="module")
def worn_location(kind_of_store: str, place_of: Place) -> str:
    return place_of(kind_of_store)


@pytest.fixture
def store(worn_location: str) -> Iterator[Store]:
    """Empty, but other tests were here: their remains must not matter, and servers take seconds to make a new one."""
    with open_store(worn_location, create=DIM) as store:
        store.write([], np.empty((0, DIM)), [item.id for item in store.all_items()])
        store.set_header({})
        yield store


def agree(store: Store, reference: Reference, filter: Filter | None = None, top: int = 7) -> None:
    """Everything a store says of its contents, beside the reference."""
    queries = vectors(3, seed=99)
    kinds: tuple[Kind, ...] = ("image", "caption")
    for kind in kinds:
        found = store.search(queries, top, kind=kind, filter=filter)
        for query, answer in zip(queries, found):
            expected = reference.search(query, top, kind, filter)
            assert answer.ids == [id for id, _ in expected]
            assert answer.scores.tolist() == [score for _, score in expected]
    passing = [item for item, _ in reference.values() if filter is None or filter.matches(item.meta)]
    assert store.count(filter=filter) == len(passing)
    assert store.count("image", filter) == sum(item.kind == "image" for item in passing)


def whole(store: Store, reference: Reference) -> None:
    agree(store, reference)
    ids = sorted(reference)
    assert list(store.all_items()) == [reference[id][0] for id in ids]
    assert store.items(ids[::-1]) == [reference[id][0] for id in ids[::-1]]
    np.testing.assert_array_equal(store.vectors(ids), np.array([reference[id][1] for id in ids]).reshape(-1, DIM))
    assert store.fields() == summary(item.meta for item, _ in reference.values() if item.kind == "image")


def test_an_empty_store_finds_nothing_and_says_so(store: Store) -> None:
    assert store.header == {}
    whole(store, Reference())
    assert store.items([]) == []
    assert store.vectors([]).shape == (0, DIM)
    assert store.search(np.empty((0, DIM), dtype=np.float32), 3, kind="image") == []


def test_adding_replacing_deleting_and_updating_agree_with_brute_force(store: Store) -> None:
    reference = Reference()
    items = [picture(i, year=2000 + i % 7, camera="X100" if i % 3 else "Z") for i in range(40)]
    items += [caption(i, lang="en") for i in range(40)]
    for target in (store, reference):
        target.write(items, vectors(80))
    whole(store, reference)
    changed = [picture(i, year=1990, flag=i % 2 == 0) for i in (3, 5, 8)]
    for target in (store, reference):  # replaces, adds and deletes at once; one of those deleted is not there
        target.write([*changed, picture(77)], vectors(4, seed=1), ["p0001", "p0002#0", "nobody"])
    whole(store, reference)
    renamed = replace(reference["p0004"][0], path="/elsewhere/ü.jpg", meta={"year": 1.5, "new": "x"})
    store.update([renamed])
    reference["p0004"] = (renamed, reference["p0004"][1])
    whole(store, reference)


def test_ties_are_by_id_however_many(store: Store) -> None:
    items = [picture(i) for i in np.random.default_rng(0).permutation(60).tolist()]
    store.write(items, np.tile(vectors(1), (60, 1)))
    store.write([picture(13), picture(2)], np.tile(vectors(1), (2, 1)))
    for top in (1, 5, 40, 59, 60, 100):
        (found,) = store.search(vectors(1), top, kind="image")
        assert found.ids == [f"p{i:04d}" for i in range(min(top, 60))]


def test_batches_of_queries_answer_as_single_ones(store: Store) -> None:
    store.write([picture(i) for i in range(50)], vectors(50))
    queries = vectors(9, seed=3)
    together = store.search(queries, 5, kind="image")
    for query, found in zip(queries, together):
        (alone,) = store.search(query[None], 5, kind="image")
        assert found.ids == alone.ids
        assert found.scores.tolist() == alone.scores.tolist()


def test_what_a_store_adds_to_what_it_found_is_what_it_would_say_itself(store: Store) -> None:
    store.write([picture(i, year=2000 + i % 7) for i in range(300)], vectors(300))
    store.write([picture(5)], vectors(1, seed=9), ["p0007"])
    for filter in (None, parse("year >= 2003")):
        for top in (3, 200):
            (found,) = store.search(vectors(1, seed=3), top, kind="image", filter=filter)
            assert found.items in (None, store.items(found.ids))
            assert found.among in (None, store.count("image", filter))


def test_the_last_of_an_id_counts_and_an_item_both_written_and_deleted_stays(store: Store) -> None:
    store.write([picture(1, n=1), picture(1, n=2)], vectors(2), ["p0001"])
    assert store.items(["p0001"]) == [picture(1, n=2)]
    np.testing.assert_array_equal(store.vectors(["p0001"])[0], vectors(2)[1])
    assert store.count() == 1


def test_an_item_may_change_its_kind(store: Store) -> None:
    store.write([picture(1, year=1)], vectors(1))
    store.write([replace(picture(1), kind="caption")], vectors(1))
    assert (store.count("image"), store.count("caption"), store.fields()) == (0, 1, {})
    assert store.search(vectors(1), 3, kind="image")[0].ids == []


def test_unknown_ids_are_key_errors_and_change_nothing(store: Store) -> None:
    store.write([picture(1)], vectors(1))
    for ask in (store.items, store.vectors):
        with pytest.raises(KeyError, match="nobody"):
            ask(["p0001", "nobody"])
    with pytest.raises(KeyError, match="nobody"):
        store.update([picture(1, year=3), replace(picture(2), id="nobody")])
    assert store.items(["p0001"]) == [picture(1)]


def test_odd_ids_paths_texts_and_metadata_come_back_as_they_were(store: Store) -> None:
    odd = ["ünï/日本 \U0001f600.jpg", "a'b\"c\\d", "100%_*", "a", "a#1", "a-", "A", "\uffff", "_", "a/b?c=d&e"]
    items = [Item(id, "image", f"/x/{id}\udcff", f"{id}\0", id, meta={id: id, "n": 0.1}) for id in odd]
    store.write(items, vectors(len(odd)))
    assert [item.id for item in store.all_items()] == sorted(odd)
    assert store.items(odd) == items
    store.write([], np.empty((0, DIM)), odd[:3])
    assert store.count() == len(odd) - 3


def test_metadata_that_no_json_holds_is_cleaned(store: Store) -> None:
    meta = {"a": "x\0y", "b": "\udcff", "c": float("nan"), "d": float("inf"), "e": 2.0, "f": 2**70, "g": True}
    store.write([picture(1, **meta)], vectors(1))
    assert store.items(["p0001"])[0].meta == {"a": "xy", "b": "\ufffd", "e": 2, "f": float(2**70), "g": True}


def test_wrong_vectors_are_refused_and_nothing_is_written(store: Store) -> None:
    for wrong in (vectors(2), vectors(1, dim=DIM + 1), np.full((1, DIM), np.nan)):
        with pytest.raises(ValueError):
            store.write([picture(1)], wrong)
    with pytest.raises(ValueError):
        store.search(vectors(1, dim=DIM + 1), 3, kind="image")
    assert store.count() == 0


def test_an_index_opened_again_holds_what_was_written(location: str) -> None:
    header = {"model": "x", "fingerprint": "ü", "calibration": {"a": [0.25, 1e-9]}}
    reference = Reference()
    reference.write([picture(i, n=i) for i in range(30)], vectors(30))
    with open_store(location, create=DIM) as store:
        store.write([item for item, _ in reference.values()], vectors(30))
        store.set_header(header)
    for create in (None, DIM):
        with open_store(location, create=create) as store:
            assert (store.header, store.dim, store.location) == (header, DIM, location)
            whole(store, reference)
    with pytest.raises(UserError, match="not of 9"):
        open_store(location, create=9)


def test_an_index_that_is_not_there_is_a_mistake_with_a_remedy(location: str) -> None:
    with pytest.raises(UserError, match="there is no index"):
        open_store(f"{location}x")


def test_a_reader_sees_what_the_writer_has_committed_and_a_second_writer_is_refused(store: Store) -> None:
    with open_store(store.location) as reader:
        reference = Reference()
        for turn in range(3):
            items = [picture(i, turn=turn) for i in range(turn, turn + 10)]
            for target in (store, reference):
                target.write(items, vectors(10, seed=turn), [f"p{turn:04d}"] if turn else [])
            whole(reader, reference)
        store.set_header({"turn": 3})
        assert reader.header == {"turn": 3}
        with pytest.raises(UserError, match="writing to"):
            reader.write([picture(1)], vectors(1))
    with open_store(store.location) as reader:
        whole(reader, reference)


def test_a_store_that_was_closed_lets_another_write(store: Store) -> None:
    store.write([picture(1)], vectors(1))
    store.close()
    with open_store(store.location) as second:
        second.write([picture(2)], vectors(1))
        assert second.count() == 2


def test_all_items_goes_on_while_its_reader_writes(store: Store) -> None:
    store.write([picture(i) for i in range(20)], vectors(20))
    seen = []
    for item in store.all_items("image"):
        seen.append(item.id)
        if len(seen) % 8 == 0:
            store.write([picture(100 + len(seen))], vectors(1), [item.id])
    assert [id for id in seen if id < "p0020"] == [f"p{i:04d}" for i in range(20)]


FILTERS = [
    "year >= 2003", "year < 2003", "year <= 2003", "year > 2002.5", "year = 2004", "year != 2004", "year in (2001, 2005)",
    'camera = "X100"', 'camera != "X100"', 'camera < "Y"', 'camera >= "X100"', "has camera", "not has camera",
    'name contains "5"', 'name like "%7.jp_"', 'name not like "1%"', 'camera not in ("X100")', "flag = true",
    "flag != true", "not flag = true", 'year = "2004"', "camera > 3", '(year >= 2003 or flag = true) and camera = "X100"',
    'not (year >= 2003 and name contains "1")', "year = 1900",
]  # fmt: skip


def test_filters_of_every_operator_agree_with_brute_force(store: Store) -> None:
    reference = Reference()
    items: list[Item] = []
    for i in range(60):
        meta: dict[str, str | int | float | bool] = {"year": 2000 + i % 7, "name": f"{i}.jpg"}
        meta |= {"camera": ["X100", "Z"][i % 2]} if i % 3 else {}
        meta |= {"flag": i % 4 == 0} if i % 5 else {}
        items += [picture(i, **meta), caption(i, **meta)]
    for target in (store, reference):
        target.write(items, vectors(len(items)))
    for text in FILTERS:
        agree(store, reference, parse(text))


def test_every_filter_means_what_matches_says(kind_of_store: str, place_of: Place) -> None:
    with open_store(place_of(kind_of_store), create=DIM) as store:
        written: list[Item] = []

        @settings(max_examples=15 if kind_of_store == "milvus" else 60, deadline=None)
        @given(st.lists(metas, min_size=1, max_size=12), st.lists(filters, min_size=1, max_size=6))
        def agrees(some: list[dict[str, str | int | float | bool]], asked: list[Filter]) -> None:
            items = [picture(i, **meta) for i, meta in enumerate(some)]
            store.write(items, vectors(len(items)), [item.id for item in written])
            written[:] = items
            for filter in asked:
                expected = [item.id for item in items if filter.matches(item.meta)]
                assert store.count("image", filter) == len(expected), filter
                (found,) = store.search(vectors(1), 100, kind="image", filter=filter)
                assert sorted(found.ids) == expected, filter

        agrees()


@pytest.mark.parametrize("target", STORES)
def test_a_copy_in_any_other_store_is_the_same_index(kind_of_store: str, target: str, place_of: Place) -> None:
    reference = Reference()
    items = [picture(i, year=2000 + i, ok=i % 2 == 0) for i in range(25)] + [caption(i) for i in range(25)]
    reference.write(items, vectors(50))
    there, seen = place_of(target), []
    with open_store(place_of(kind_of_store), create=DIM) as source:
        source.write(items, vectors(50))
        source.set_header({"model": "m"})
        assert copy_index(source, there, lambda done, total: seen.append((done, total)), batch=20) == 50
        assert copy_index(source, there) == 50  # killed after its last write, typed again
        source.write([picture(1, year=1900, ok=False)], vectors(2)[1:])
        with pytest.raises(UserError, match="there is an index already"):
            copy_index(source, there)
        source.write(items[1:2], vectors(50)[1:2])
    assert seen == [(20, 50), (40, 50), (50, 50)]
    with open_store(there) as copy:
        assert copy.header == {"model": "m"}
        whole(copy, reference)


class Counted:
    """A store that remembers how many items were taken from it, at most, before their vectors were asked for."""

    def __init__(self, store: Store) -> None:
        self.store, self.held, self.most = store, 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def all_items(self) -> Iterator[Item]:
        for item in self.store.all_items():
            self.held += 1
            self.most = max(self.most, self.held)
            yield item

    def vectors(self, ids: Sequence[str]) -> np.ndarray:
        assert len(ids) == self.held
        self.held = 0
        return self.store.vectors(ids)


def test_a_copy_reads_no_more_than_a_batch_at_a_time(tmp_path: Path) -> None:
    with open_store(tmp_path / "index", create=DIM) as source:
        source.write([picture(i) for i in range(500)], vectors(500))
        source.set_header({"model": "m"})
        counted = Counted(source)
        assert copy_index(counted, tmp_path / "copy", batch=60) == 500  # type: ignore[arg-type]
        assert counted.most == 60


def test_a_rebuilt_index_is_empty_and_holds_vectors_of_another_size(location: str) -> None:
    with open_store(location, create=DIM) as store:
        store.write([picture(1, year=2000), caption(1)], vectors(2))
        store.set_header({"model": "m"})
    with open_store(location, create=4, rebuild=True) as store:
        assert (store.dim, store.count(), store.header, store.fields()) == (4, 0, {}, {})
        store.write([picture(2)], vectors(1, dim=4))
    with open_store(location) as store:
        assert (store.dim, [item.id for item in store.all_items()]) == (4, ["p0002"])
        np.testing.assert_array_equal(store.vectors(["p0002"]), vectors(1, dim=4))
        assert store.search(vectors(1, dim=4), 3, kind="image")[0].ids == ["p0002"]


def test_an_index_that_is_being_written_is_not_rebuilt_and_goes_on(location: str) -> None:
    with open_store(location, create=DIM) as writer:
        writer.lock()
        for dim in (DIM, 4):
            with pytest.raises(UserError, match="writing to"):
                open_store(location, create=dim, rebuild=True)
        reference = Reference()
        for target in (writer, reference):
            target.write([picture(i) for i in range(5)], vectors(5))
        whole(writer, reference)
    with open_store(location) as reader:
        whole(reader, reference)


def test_who_opened_an_index_before_it_was_rebuilt_is_told_so(location: str) -> None:
    with open_store(location, create=DIM) as store:
        store.write([picture(1)], vectors(1))
    with open_store(location) as reader:
        with open_store(location, create=4, rebuild=True) as store:
            store.write([picture(2)], vectors(1, dim=4))
        with pytest.raises(UserError, match="made anew"):
            reader.search(vectors(1), 3, kind="image")
        with pytest.raises(UserError, match="made anew"):
            reader.write([picture(3)], vectors(1))
    with open_store(location) as store:
        assert store.count() == 1
