from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.search.stores.reference import DIM, Reference, picture, vectors
from tests.search.stores.test_embedded import IMAGES, TEXTS
from tests.search.stores.test_stores import agree, whole

from vsekit.errors import UserError
from vsekit.search.filters import parse
from vsekit.search.stores import open_store
from vsekit.search.stores.base import UnreachableError
from vsekit.search.stores.milvus import MilvusStore, collection, indexes
from vsekit.search.stores.milvus import store as milvus
from vsekit.search.stores.milvus.client import Client
from vsekit.search.stores.milvus.collection import MARKER, NEW, Collection, split
from vsekit.search.stores.milvus.indexes import INDEXES, Index
from vsekit.search.stores.milvus.lease import WRITER, Lease

Place = Callable[[str], str]


def test_an_address_is_split_into_the_clients_own_and_the_collection() -> None:
    assert split("milvus://host:19531/photos") == ({"uri": "http://host:19531"}, "photos")
    assert split("milvus://me:p%40w@host/photos?secure=true") == (
        {"uri": "https://host:19530", "user": "me", "password": "p@w"},
        "photos",
    )
    for wrong in ("milvus://host:19530", "milvus:///photos", "milvus://host/a-b", 'milvus://host/a"b'):
        with pytest.raises(UserError, match="can't read"):
            split(wrong)


class Killed(BaseException):
    pass


class Dying:
    """A client whose process dies before its n-th call of some methods."""

    def __init__(self, client: Any, calls: int, *methods: str) -> None:
        self.client, self.left, self.methods = client, calls, methods

    def __getattr__(self, name: str) -> Any:
        if name in self.methods:
            if self.left == 0:
                raise Killed
            self.left -= 1
        return getattr(self.client, name)


@pytest.mark.slow
def test_a_writer_killed_between_any_two_steps_leaves_the_state_before_or_after(
    place_of: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "PAGE", 8)  # so that a write takes several steps
    place, before = place_of("milvus"), Reference()
    with open_store(place, create=DIM) as store:
        for target in (store, before):
            target.write([picture(i, n=i) for i in range(20)], vectors(20))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    calls, finished = 0, False
    states = []
    while not finished:
        after = Reference(before)
        change = ([picture(i, n=100 + calls) for i in range(5, 25)], vectors(20, seed=calls), ["p0001", "p0002"])
        after.write(*change)
        killed = MilvusStore(place)
        writes = ("insert", "delete", "alter_collection_properties")
        killed._collection.client = Dying(killed._collection.client, calls, *writes)
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: dead.pid)
            try:
                killed.write(*change)
                finished = True
            except Killed:
                pass
        reader = MilvusStore(place)
        states.append("after" if reader.items(["p0005"])[0].meta == after["p0005"][0].meta else "before")
        whole(reader, after if states[-1] == "after" else before)
        reader.close()
        with open_store(place) as writer:  # clears up
            for target in (writer, before):
                target.write([picture(i, n=i) for i in range(20)], vectors(20), [f"p{i:04d}" for i in range(20, 25)])
            whole(writer, before)
            assert isinstance(writer, MilvusStore)
            assert len(writer._collection.strong('key > ""')) == 20  # and nothing that does not count
        calls += 1
    assert states == sorted(states, reverse=True)  # the marker is one step: before it, then after it
    assert {"before", "after"} == set(states)


@pytest.mark.slow
def test_a_rebuild_killed_between_any_two_steps_leaves_the_old_index_or_the_new_one(
    place_of: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, before = place_of("milvus"), Reference()
    with open_store(place, create=DIM) as store:
        for target in (store, before):
            target.write([picture(i, n=i) for i in range(5)], vectors(5))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    steps = ("create_collection", "create_partition", "create_index", "load_collection", "rename_collection")
    states: list[str] = []
    while not states or states[-1] == "before":
        killed = MilvusStore(place)
        killed._collection.client = Dying(killed._collection.client, len(states), *steps, "drop_collection")
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: dead.pid)
            with pytest.raises(Killed):
                killed.rebuild(4)
        with open_store(place) as reader:
            states.append("before" if reader.dim == DIM else "after")
            if states[-1] == "before":
                whole(reader, before)
            else:
                assert (reader.dim, reader.count(), reader.header) == (4, 0, {})
    # Two partitions, two indexes, and a name for each of both collections come before the old one is dropped.
    assert len(states) >= 8
    with open_store(place, create=DIM, rebuild=True) as writer:  # goes over what was left
        writer.write([picture(7)], vectors(1))
    with open_store(place) as reader:
        assert [item.id for item in reader.all_items()] == ["p0007"]
        assert isinstance(reader, MilvusStore)
        names = reader._collection.client.list_collections()
        assert [name for name in names if name.startswith(split(place)[1])] == [split(place)[1]]


def lowered(flat: int, bytes: int) -> list[Index]:
    """The table of indexes for fewer vectors."""
    return [index._replace(above=above) for index, above in zip(INDEXES, (-1, flat, bytes), strict=True)]


@pytest.mark.parametrize(
    ("now", "size", "then"),
    [
        ("FLAT", 0, "FLAT"),
        ("FLAT", 200_000, "FLAT"),
        ("FLAT", 200_001, "IVF_FLAT"),
        ("IVF_FLAT", 5_000_000, "IVF_FLAT"),
        ("FLAT", 5_000_001, "IVF_SQ8"),
        ("IVF_FLAT", 10, "IVF_FLAT"),
        ("IVF_SQ8", 300_000, "IVF_SQ8"),
    ],
)
def test_the_index_is_chosen_by_size_and_never_a_smaller_one(now: str, size: int, then: str) -> None:
    assert indexes.wanted(INDEXES, indexes.named(now), size).name == then


@pytest.mark.slow
@pytest.mark.parametrize(("name", "table"), [("IVF_FLAT", lowered(2000, 9999)), ("IVF_SQ8", lowered(1000, 2000))])
def test_text_queries_find_99_percent_of_the_true_best_in_an_indexed_collection(
    place_of: Place, name: str, table: list[Index]
) -> None:
    place = place_of("milvus")
    with MilvusStore(place, 64, table=table) as store:
        store.set_header({"sample_queries": TEXTS[300:400].tolist()})
        store.write([picture(i, half=i % 2, name=f"{i}") for i in range(4000)], IMAGES[:4000])
    with MilvusStore(place) as store:
        index = indexes.named(name)
        assert indexes.present(store._collection) == name
        assert store._collection.marker()["effort"]["image"] in (*index.tried, index.lists)
        numbers = np.arange(4000)
        ends = np.array([str(i).endswith("7") for i in numbers])
        for filter, allowed in (
            (None, numbers >= 0),
            (parse("half = 1"), numbers % 2 == 1),
            (parse('name like "%7"'), ends),
        ):
            found = store.search(TEXTS[:40], 10, kind="image", filter=filter)
            scores = np.where(allowed, TEXTS[:40] @ IMAGES[:4000].T, -np.inf)
            truth = [{f"p{i:04d}" for i in row} for row in np.argsort(-scores, axis=1)[:, :10]]
            assert np.mean([len(true & set(answer.ids)) / 10 for true, answer in zip(truth, found)]) >= 0.99


@pytest.mark.parametrize("alive", [True, False])
def test_what_is_found_while_a_writer_loads_the_collection_anew_may_be_a_part_and_is_asked_for_again(
    alive: bool,
) -> None:
    """Where the writer has died nobody loads it, and what there is is given at once."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    process, until = os.getpid() if alive else ended.pid, time.time() + 60
    properties = {
        MARKER: json.dumps({**NEW, "paused": until}),
        WRITER: f"{socket.gethostname()} {process}-made-up {until}",
    }
    client: Any = SimpleNamespace(describe_collection=lambda name: {"properties": properties})
    there: list[str] = []

    def ask() -> list[str]:
        there.append("row")
        if len(there) == 2:
            properties[MARKER] = json.dumps(NEW)  # the writer has finished
        return list(there)

    assert len(Collection(client, "c").whole(lambda marker: ask())) == (2 if alive else 1)


@pytest.mark.slow
def test_a_collection_that_grows_gets_other_indexes_and_who_searches_meanwhile_waits(place_of: Place) -> None:
    place, there, answers, wrong = place_of("milvus"), 1000, [0], []
    ended = threading.Event()

    def search() -> None:
        with open_store(place) as reader:
            while not ended.is_set():
                least = there
                found = int(reader.search(IMAGES[5:6], 1, kind="image")[0].ids[0][1:])
                if found != 5 or reader.count() < least:
                    wrong.append(found)
                answers[0] += 1

    seen, table, reading = [], lowered(1500, 3000), threading.Thread(target=search)
    for end in (1000, 2000, 4000):
        with MilvusStore(place, 64, table=table) as store:
            first = 0 if end == 1000 else end // 2
            store.write([picture(i, n=i) for i in range(first, end)], IMAGES[first:end])
            there = end
        if end == 1000:
            reading.start()
        with MilvusStore(place) as store:
            seen.append((indexes.present(store._collection), store._collection.marker()["index"], store.count()))
    before = answers[0]
    while answers[0] < before + 2 and reading.is_alive():
        time.sleep(0.01)
    ended.set()
    reading.join()
    assert seen == [("FLAT", "FLAT", 1000), ("IVF_FLAT", "IVF_FLAT", 2000), ("IVF_SQ8", "IVF_SQ8", 4000)]
    assert not wrong
    assert answers[0] >= before + 2  # it went on to the end


@pytest.mark.slow
def test_a_change_of_index_killed_between_any_two_steps_is_gone_on_with_by_the_next_writer(
    place_of: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    steps = ("release_collection", "drop_index", "create_index", "load_collection", "alter_collection_properties")
    table, best = lowered(1500, 9999), [f"p{i:04d}" for i in np.argsort(-(IMAGES[:2000] @ IMAGES[7]))[:3]]
    for calls in (1, 2, 3, 4, 6, 99):  # the last one ends
        place = place_of("milvus")
        killed = MilvusStore(place, 64, table=table)
        killed.write([picture(i, n=i) for i in range(2000)], IMAGES[:2000])
        killed._collection.client = Dying(killed._collection.client, calls, *steps)
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: dead.pid)
            killed._lease = Lease()
            killed._collection.client.client.alter_collection_properties(killed._collection.name, {WRITER: ""})
            killed._lease.renew(Collection(killed._collection.client.client, killed._collection.name))
            try:
                killed.close()
                finished = True
            except Killed:
                finished = False
        assert finished == (calls == 99)
        with open_store(place) as reader:
            assert reader.search(IMAGES[7:8], 3, kind="image")[0].ids == best
        with MilvusStore(place, table=table) as writer:
            writer.write([picture(7, n=7)], IMAGES[7:8])
        with MilvusStore(place) as reader:
            assert indexes.present(reader._collection) == "IVF_FLAT"
            assert reader._collection.marker()["effort"]["image"] >= 8
            assert reader.search(IMAGES[7:8], 3, kind="image")[0].ids == best
            reader._collection.client.drop_collection(reader._collection.name)


@pytest.mark.slow
def test_a_collection_made_with_hnsw_can_be_read_and_its_next_writer_gives_it_another_index(place_of: Place) -> None:
    place = place_of("milvus")
    with MilvusStore(place, DIM) as store:
        store.write([picture(i, n=i) for i in range(30)], vectors(30))
        made, name = store._collection, store._collection.name
        made.set_marker({key: value for key, value in made.marker().items() if key != "index"})
        made.client.release_collection(name)
        made.client.drop_index(name, "vector")
        settings = made.client.prepare_index_params()
        before = {"M": 24, "efConstruction": 200}
        settings.add_index("vector", index_type="HNSW", metric_type="IP", params=before)
        made.client.create_index(name, settings)
        made.client.load_collection(name)
    reference = Reference()
    reference.write([picture(i, n=i) for i in range(30)], vectors(30))
    with MilvusStore(place) as reader:
        assert indexes.present(reader._collection) == "HNSW"
        whole(reader, reference)
    with open_store(place) as writer:
        for target in (writer, reference):
            target.write([picture(40)], vectors(1, seed=4))
    with MilvusStore(place) as reader:
        assert indexes.present(reader._collection) == "FLAT"
        whole(reader, reference)


@pytest.mark.slow
def test_a_large_write_is_several_and_pages_are_joined(place_of: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "PAGE", 7)
    monkeypatch.setattr(milvus, "WHOLE", 20)
    reference = Reference()
    with open_store(place_of("milvus"), create=DIM) as store:
        for target in (store, reference):
            target.write([picture(i, n=i) for i in range(65)], vectors(65))
            target.write([], np.empty((0, DIM)), [f"p{i:04d}" for i in range(30)])
        whole(store, reference)
        agree(store, reference, parse('n != 40 and not n contains "x"'))


@pytest.mark.slow
def test_a_collection_of_others_and_a_server_that_is_not_there_are_refused(place_of: Place) -> None:
    place = place_of("milvus")
    with MilvusStore(place_of("milvus"), DIM) as store:
        _, name = split(place)
        store._collection.client.create_collection(name, dimension=DIM)
        with pytest.raises(UserError, match="not made by vsekit"):
            open_store(place, create=DIM)
    with pytest.raises(UserError, match="can't reach Milvus"):
        open_store("milvus://127.0.0.1:1/none")


def test_what_milvus_raises_is_told_with_a_remedy() -> None:
    exceptions = pytest.importorskip("pymilvus.exceptions")

    class Ended:
        def describe_collection(self, name: str) -> None:
            raise exceptions.MilvusException(message="server unavailable")

    with pytest.raises(UnreachableError, match=r"server unavailable\n.*same command goes on"):
        Collection(Client(Ended()), "photos").marker()
