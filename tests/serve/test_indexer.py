"""Indexing beside a server: a real process, a real index, and what clients may ask of it."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("fastapi")

from tests.models.conftest import VIEW, WORDS, settings
from tests.serve.conftest import serving
from tests.serve.fake import generated

from vsekit.errors import UserError
from vsekit.models.model import VSE
from vsekit.search.indexing import index
from vsekit.search.models import load_search_model
from vsekit.search.opening import load_searcher
from vsekit.search.searcher import Searcher
from vsekit.search.stores import check_index, open_store
from vsekit.search.watching import remembered
from vsekit.serve.indexer import Indexer, _names
from vsekit.serve.run import bind, serve

LIMIT = 300.0


def picture(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(0, 256, (24, 30, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)


def until(true: Callable[[], Any]) -> Any:
    """What it gives, once it gives something."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not so within {LIMIT} seconds")


class Place:
    """A model, an index of one picture, and folders."""

    def __init__(self, folder: Path) -> None:
        self.photos, self.scans, self.index = folder / "photos", folder / "scans", folder / "index"
        torch.manual_seed(0)
        VSE(settings(), WORDS, VIEW).save(folder / "run" / "model")
        picture(self.photos / "1.png", 1)
        picture(self.scans / "2.png", 2)
        index(load_search_model(folder / "run"), self.photos, self.index, export=True)

    @contextmanager
    def served(self, **options: Any) -> Iterator[httpx.Client]:
        token = options.pop("token", None)
        self.indexer = Indexer(str(self.index), **options)
        searcher = load_searcher(open_store(self.index))
        with serving(searcher, indexer=self.indexer, token=token) as client:
            yield client


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def told(client: httpx.Client) -> dict[str, Any]:
    answer = client.get("/api/indexing")
    assert answer.status_code == 200, answer.text
    return answer.json()


def names(client: httpx.Client) -> set[str]:
    return {item["name"] for item in client.get("/api/items").json()["items"]}


@pytest.mark.slow
def test_a_watched_index_is_current_on_the_server_without_a_restart(place: Place) -> None:
    with place.served(watch=True) as client:
        until(lambda: told(client)["state"] == "current")
        before = told(client)
        assert (before["pictures"], before["folders"]) == (1, [])
        picture(place.photos / "new.png", 3)
        until(lambda: names(client) == {"1.png", "new.png"})
        after = until(lambda: (found := told(client))["changes"] > before["changes"] and found)
        assert (after["state"], after["pictures"]) == ("current", 2)
        (place.photos / "1.png").rename(place.photos / "moved.png")
        until(lambda: names(client) == {"moved.png", "new.png"})
        process = place.indexer._process
        assert process is not None
    assert process.returncode == 0
    assert check_index(place.index).damage == []


@pytest.mark.slow
def test_a_folder_of_pictures_with_its_index_inside_is_watched_by_its_name(place: Place) -> None:
    """As `vse index photos` and then `vse serve photos --watch` have it."""
    place.index.rename(place.photos / ".vsekit-index")
    place.index = place.photos
    with place.served(watch=True) as client:
        assert until(lambda: (now := told(client))["state"] in ("current", "failed") and now)["error"] is None
        picture(place.photos / "new.png", 3)
        until(lambda: names(client) == {"1.png", "new.png"})


@pytest.mark.slow
def test_an_allowed_folder_is_indexed_when_asked_and_the_process_ends(place: Place) -> None:
    with place.served(allowed=[place.scans, place.photos]) as client:
        first = told(client)
        assert first["state"] == "idle"
        assert first["folders"] == [
            {"number": 0, "name": "scans", "indexed": False},
            {"number": 1, "name": "photos", "indexed": True},
        ]
        assert client.post("/api/indexing", json={"folder": 2}).status_code == 404
        assert client.post("/api/indexing", json={"folder": -1}).status_code == 422
        assert client.post("/api/indexing", json={"folder": "/etc"}).status_code == 422
        assert client.post("/api/indexing", json={}).status_code == 422
        elsewhere = client.post("/api/indexing", json={"folder": 0}, headers={"Origin": "https://elsewhere.example"})
        assert elsewhere.status_code == 403
        assert place.indexer._process is None
        asked = client.post("/api/indexing", json={"folder": 0})
        assert asked.status_code == 202
        assert asked.json()["state"] == "starting"
        until(lambda: names(client) == {"1.png", "2.png"})
        found = until(lambda: (now := told(client))["state"] == "idle" and now)
        assert found["changes"] == 1
        assert found["folders"][0]["indexed"] is True
        process = place.indexer._process
        assert process is not None
        assert process.wait(LIMIT) == 0
        # The picture itself is shown, since its folder is one of the index now.
        (item,) = [one for one in client.get("/api/items").json()["items"] if one["name"] == "2.png"]
        until(lambda: client.get(item["picture_url"]).status_code == 200)


@pytest.mark.slow
def test_what_goes_wrong_is_told_in_plain_words_and_can_be_tried_again(place: Place) -> None:
    with place.served(allowed=[place.scans]) as client:
        place.scans.rename(place.scans.with_name("elsewhere"))
        client.post("/api/indexing", json={"folder": 0})
        found = until(lambda: (now := told(client))["error"] and now)
        assert found["error"] == "no such folder or collection: scans"
        place.scans.with_name("elsewhere").rename(place.scans)
        client.post("/api/indexing", json={"folder": 0})
        until(lambda: names(client) == {"1.png", "2.png"})
        until(lambda: told(client)["error"] is None)


@pytest.mark.slow
def test_a_process_that_dies_is_a_failure_and_loses_nothing(place: Place) -> None:
    with place.served(watch=True) as client:
        until(lambda: told(client)["state"] == "current")
        assert place.indexer._process is not None
        os.kill(place.indexer._process.pid, signal.SIGKILL)
        found = until(lambda: (now := told(client))["state"] == "failed" and now)
        assert "indexing stopped" in found["error"]
        picture(place.photos / "new.png", 3)
        assert client.post("/api/indexing", json={}).status_code == 202
        until(lambda: names(client) == {"1.png", "new.png"})
        until(lambda: told(client)["error"] is None)


def test_a_server_that_does_not_index_says_so(tmp_path: Path) -> None:
    with serving(generated(tmp_path, 6)) as client:
        assert told(client)["state"] == "off"
        refused = client.post("/api/indexing", json={"folder": 0})
        assert refused.status_code == 403
        assert "--allow" in refused.json()["remedy"]


def test_indexing_needs_the_token_as_everything_does(tmp_path: Path) -> None:
    searcher: Searcher = generated(tmp_path, 6)
    with serving(searcher, indexer=Indexer("x", allowed=[tmp_path]), token="secret") as client:
        assert client.get("/api/indexing").status_code == 401
        assert client.post("/api/indexing", json={"folder": 0}).status_code == 401
        assert client.get("/api/indexing", headers={"Authorization": "Bearer secret"}).status_code == 200


@pytest.mark.parametrize("options", [{"host": "0.0.0.0"}, {"host": "127.0.0.1", "behind_proxy": True}])
def test_no_stranger_may_have_folders_indexed(options: dict[str, Any], tmp_path: Path) -> None:
    listener = bind("127.0.0.1", 0)
    with pytest.raises(UserError, match="everyone who reaches this machine"):
        serve(lambda: generated(tmp_path, 6), listener, indexer=Indexer("x", allowed=[tmp_path]), **options)
    listener.close()


def test_folders_are_named_by_as_much_of_their_path_as_tells_them_apart() -> None:
    folders = [Path(path) for path in ("/home/me/Pictures", "/home/you/Pictures", "/mnt/Scans")]
    assert _names(folders) == ["me/Pictures", "you/Pictures", "Scans"]


def test_what_an_index_was_made_of_is_remembered_though_it_is_away(place: Place, tmp_path: Path) -> None:
    table = tmp_path / "catalogue.csv"
    table.write_text("image,caption\nscans/2.png,a dog\n")
    index(load_search_model(tmp_path / "run"), table, place.index)
    with open_store(place.index) as store:
        walked, read = sorted(remembered(store), key=lambda source: source.collection is not None)
        assert [seen.path for seen in walked.pictures] == [str(place.photos / "1.png")]
        assert [seen.path for seen in read.pictures] == [str(place.scans / "2.png")]
        shutil.rmtree(place.photos)
        table.unlink()
        walked, read = sorted(remembered(store), key=lambda source: source.collection is not None)
        assert (walked.root, walked.folders, walked.pictures) == (str(place.photos), [str(place.photos)], [])
        assert (read.root, read.pictures) == (str(table), [])
        store.set_header({name: value for name, value in store.header.items() if name != "sources"})
        with pytest.raises(UserError, match="does not know what it was made of"):
            remembered(store)
