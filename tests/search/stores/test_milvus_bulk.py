"""Bulk insert into a real Milvus with local storage, which reads the files that a large write leaves for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.search.stores.reference import DIM, Reference, caption, picture, vectors
from tests.search.stores.test_milvus import Dying, Killed
from tests.search.stores.test_stores import agree, whole

from vsekit.errors import UserError
from vsekit.search.filters import parse
from vsekit.search.items import Item
from vsekit.search.stores import copy_index, open_store
from vsekit.search.stores.milvus import MilvusStore, bulk

Place = Callable[[str], str]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "LEAST", 10)
    monkeypatch.setattr(bulk, "BATCH", 60)


class Counted:
    """A client whose calls of `insert` are counted."""

    def __init__(self, client: Any) -> None:
        self.client, self.rows = client, 0

    def insert(self, name: str, rows: list[Any], **options: Any) -> Any:
        self.rows += len(rows)
        return self.client.insert(name, rows, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


def filled(place: Path) -> tuple[str, Reference]:
    """An embedded index of pictures and captions, and what it holds."""
    reference = Reference()
    items: list[Item] = [picture(i, n=i, name=f"é{i}'\"") for i in range(100)] + [caption(i) for i in range(50)]
    with open_store(place, create=DIM) as store:
        for target in (store, reference):
            target.write(items, vectors(150))
        store.set_header({"model": "tiny"})
    return str(place), reference


def test_an_address_may_name_a_folder_for_files() -> None:
    assert bulk.folder_of("milvus://host/photos") is None
    assert bulk.folder_of("milvus://host/photos?secure=true&bulk=/shared/files") == "/shared/files"
    assert bulk._as_the_server_names_it("/shared/files/a.parquet") == "/shared/files/a.parquet"
    assert bulk._as_the_server_names_it("s3://a-bucket/vsekit/a.parquet") == "vsekit/a.parquet"


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_a_copy_through_files_holds_what_its_source_does_and_leaves_no_file(place_of: Place, tmp_path: Path) -> None:
    source, reference = filled(tmp_path / "embedded")
    place = place_of("milvus")
    (tmp_path / "files").mkdir()
    with MilvusStore(f"{place}?bulk={tmp_path / 'files'}", DIM) as target, open_store(source) as store:
        counted = target._collection.client = Counted(target._collection.client)  # type: ignore[assignment]
        assert target.batch == 60
        target.write(list(store.all_items()), store.vectors([item.id for item in store.all_items()]))
        assert counted.rows == 0
        whole(target, reference)
        # Later writes go row by row: few, or of items that are there.
        for write in (
            ([picture(500, n=500)], vectors(1, seed=1)),
            ([picture(i, n=-i) for i in range(30)], vectors(30, seed=2)),
        ):
            target.write(*write)
            reference.write(*write)
        assert counted.rows == 31
        whole(target, reference)
    assert list((tmp_path / "files").iterdir()) == []
    with open_store(place) as reader:  # of whom nobody asks for a folder
        whole(reader, reference)
        agree(reader, reference, parse("n >= 40"))


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_vse_index_copy_goes_through_files_in_several_batches(place_of: Place, tmp_path: Path) -> None:
    source, reference = filled(tmp_path / "embedded")
    place = f"{place_of('milvus')}?bulk={tmp_path}"
    with open_store(source) as store:
        assert copy_index(store, place) == 150
        assert copy_index(store, place) == 150  # it is there already
    with open_store(place) as copy:
        whole(copy, reference)
        assert copy.header == {"model": "tiny"}
        assert isinstance(copy, MilvusStore)
        assert copy._collection.marker()["generation"] == 3  # batches of 60, 60 and 30
    assert not list(tmp_path.glob("*.parquet"))


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_a_folder_that_can_t_be_used_is_a_mistake_with_a_remedy_and_nothing_is_written(
    place_of: Place, tmp_path: Path
) -> None:
    place, reference = place_of("milvus"), Reference()
    (tmp_path / "file").touch()
    for folder, said in (
        (f"{tmp_path}/file", "can't write to"),
        ("memory://elsewhere", "Milvus did not take the files"),  # which this process has, and no server
    ):
        with open_store(f"{place}?bulk={folder}", create=DIM) as store:
            with pytest.raises(UserError, match=said) as error:
                store.write([picture(i) for i in range(100, 120)], vectors(20))
            assert "?bulk=" in str(error.value)
            whole(store, reference)
            store.write([picture(3)], vectors(1))  # and the store goes on
            reference.write([picture(3)], vectors(1))
            whole(store, reference)


@pytest.mark.slow
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("moment", ["waiting", "before it is seen", "before it counts"])
def test_a_writer_killed_in_a_bulk_insert_leaves_the_state_before_and_the_next_one_clears_up(
    moment: str, place_of: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, before = place_of("milvus"), Reference()
    with open_store(place, create=DIM) as store:
        for target in (store, before):
            target.write([picture(i, n=i) for i in range(200, 205)], vectors(5))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    killed = MilvusStore(f"{place}?bulk={tmp_path}")

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: dead.pid)
        if moment == "waiting":
            patched.setattr(killed, "_renewed", die)
        elif moment == "before it is seen":
            killed._collection.client = Dying(killed._collection.client, 0, "refresh_load")  # type: ignore[assignment]
        else:
            patched.setattr(killed._collection, "await_rows", die)
        with pytest.raises(Killed):
            killed.write([picture(i, n=i) for i in range(30)], vectors(30))
    with open_store(place) as reader:
        whole(reader, before)
    with open_store(place) as writer:  # it is under the same generation that these rows come
        for target in (writer, before):
            target.write([picture(i, n=100 + i) for i in range(5)], vectors(5, seed=3))
        whole(writer, before)
        assert isinstance(writer, MilvusStore)
        assert len(writer._collection.strong('key > ""')) == 10
    with open_store(place) as reader:
        whole(reader, before)
