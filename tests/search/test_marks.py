"""What people say of pictures, while an index is brought up to date."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.search.memory import CountingModel, MemoryStore, store_of
from tests.search.test_searcher import COLOURS
from tests.search.test_searcher import picture as coloured

from vsekit.progress import Progress
from vsekit.search.indexing import index
from vsekit.search.models import VSEModel
from vsekit.search.searcher import Searcher
from vsekit.search.stores import open_store

Write = Callable[..., Path]


@pytest.mark.parametrize("name", ["memory", "embedded"])
def test_marks_outlive_indexing(tiny: VSEModel, picture: Write, tmp_path: Path, name: str) -> None:
    kept, moved, changed = picture("kept.png", 1), picture("moved.png", 2), picture("changed.png", 3)
    place = MemoryStore(tiny.dim) if name == "memory" else str(tmp_path / "index")
    index(tiny, tmp_path / "photos", place)
    store = place if isinstance(place, MemoryStore) else open_store(place)
    ids = {Path(item.path).name: item.id for item in store.all_items("image")}
    store.mark(list(ids.values()), {"favourite": True})
    store.mark([ids["kept.png"]], {"hidden": True})
    moved.rename(moved.with_name("elsewhere.png"))
    picture("changed.png", 4)
    picture("copy.png", 1)
    os.utime(kept, (1, 1))
    index(tiny, tmp_path / "photos", place)
    marks = {Path(item.path).name: item.marks for item in store.all_items("image")}
    store.close()
    loved = {"favourite": True}
    assert marks == {
        "kept.png": {**loved, "hidden": True},
        "elsewhere.png": loved,
        "changed.png": loved,
        "copy.png": {},
    }
    assert changed.exists()


def test_marks_outlive_an_index_made_anew(tiny: VSEModel, picture: Write, tmp_path: Path) -> None:
    """Even where it is killed, and where a picture comes back later."""
    picture("a.png", 1), picture("b.png", 2)
    away = picture("away.png", 3)
    place = str(tmp_path / "index")
    index(tiny, tmp_path / "photos", place)
    with open_store(place) as store:
        ids = {Path(item.path).name: item.id for item in store.all_items("image")}
        store.mark([ids["a.png"], ids["away.png"]], {"favourite": True})
    away.rename(tmp_path / "away.png")
    open_store(place, create=tiny.dim).close()
    with pytest.raises(ZeroDivisionError):
        index(tiny, tmp_path / "photos", place, rebuild=True, progress=_Broken())
    index(tiny, tmp_path / "photos", place)
    (tmp_path / "away.png").rename(away)
    index(tiny, tmp_path / "photos", place)
    with open_store(place) as store:
        marks = {Path(item.path).name: item.marks for item in store.all_items("image")}
        assert "marks" not in store.header
    assert marks == {"a.png": {"favourite": True}, "b.png": {}, "away.png": {"favourite": True}}


class _Broken(Progress):
    """Ends what shows it anything."""

    def bar(self, *arguments: object, **options: object) -> Any:
        raise ZeroDivisionError


def test_an_old_index_gets_its_dates_from_the_next_indexing(tiny: VSEModel, picture: Write, tmp_path: Path) -> None:
    picture("a.png", 1)
    store = MemoryStore(tiny.dim)
    index(tiny, tmp_path / "photos", store)
    (item,) = store.all_items("image")
    new = dict(item.meta)
    old = {name: value for name, value in new.items() if name not in ("dated", "orientation", "type")}
    store.update([replace(item, meta=old)])
    report = index(tiny, tmp_path / "photos", store)
    assert (report.unchanged, report.encoded) == (1, 0)
    assert store.items([item.id])[0].meta == new


def test_hidden_pictures_and_their_captions_are_left_out() -> None:
    model = CountingModel()
    captions = {"red#0": ("red", "red wall"), "blue#0": ("blue", "blue wall")}
    store = store_of(model, {colour: coloured(colour) for colour in COLOURS}, captions)
    searcher = Searcher(store, model)  # type: ignore[arg-type]
    assert searcher.search("red").hits[0].item.id == "red"
    store.mark(["red"], {"hidden": True})
    assert searcher.search("red").hits[0].item.id == "orange"
    assert [hit.item.id for hit in searcher.search("red wall", kind="caption").hits] == ["blue#0"]
    assert [hit.item.id for hit in searcher.search("red", filter="hidden = true").hits] == ["red"]
    assert searcher.search("red", filter='name = "x"').verdict is not None
    store.mark(["red"], {"hidden": False})
    assert searcher.search("red").hits[0].item.id == "red"
