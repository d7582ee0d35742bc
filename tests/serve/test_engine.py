"""An index that changes under the server: it is noticed, and no request is dropped."""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.serve.conftest import serving
from tests.serve.fake import COLOURS, DIM, SHAPES, ColourModel

import vsekit.serve.engine as engine
from vsekit.errors import UserError
from vsekit.search.calibration import calibrate
from vsekit.search.items import Item
from vsekit.search.opening import followed
from vsekit.search.query import Query
from vsekit.search.searcher import Answer, Ask, Searcher
from vsekit.search.stores import open_store
from vsekit.search.stores.embedded import views
from vsekit.serve import batching
from vsekit.serve.limits import Limits
from vsekit.serve.metrics import Metrics


class OtherModel(ColourModel):
    fingerprint, name = "0ddba11", "other"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "WATCH_SECONDS", 0.02)
    monkeypatch.setattr(engine.Engine.look, "__defaults__", (0.0,))


def fill(place: Path, count: int, model: ColourModel, *, header: bool = True, calibrated: bool = False) -> None:
    with open_store(place, create=DIM) as store:
        texts = [f"{colour} {shape} {n}" for n in range(count) for colour in COLOURS for shape in SHAPES][:count]
        items = [Item(f"p{n:04d}", "image", picture=f"p{n:04d}") for n in range(count)]
        store.write(items, model.encode_texts(texts))
        if header:
            calibration = {"calibration": calibrate(store, model)} if calibrated else {}  # type: ignore[arg-type]
            store.set_header({"model": model.name, "fingerprint": model.fingerprint, **calibration})


def exchange(one: Path, other: Path) -> None:
    """At no moment there is none: renameat2 with RENAME_EXCHANGE."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.renameat2(-100, bytes(one), -100, bytes(other), 2) == 0, os.strerror(ctypes.get_errno())


def load(place: Path) -> Callable[[], Searcher]:
    def made() -> Searcher:
        store = open_store(place)
        model = {kind.fingerprint: kind for kind in (ColourModel, OtherModel)}[store.header["fingerprint"]]()
        return Searcher(store, model)  # type: ignore[arg-type]

    return made


def search(client: httpx.Client) -> httpx.Response:
    return client.post("/api/search", json={"query": "red circle", "top": 500})


def until(client: httpx.Client, reached: Callable[[httpx.Response], bool]) -> httpx.Response:
    """The first answer that is as wanted; whoever waits for ever is stopped by the test's own limit."""
    for _ in range(1000):
        if reached(answer := search(client)):
            return answer
        time.sleep(0.02)
    raise AssertionError(f"still {answer.status_code} {answer.text[:500]}")


def test_a_server_started_while_an_index_is_made_judges_by_the_finished_one(tmp_path: Path) -> None:
    fill(tmp_path / "index", 5, ColourModel())
    with serving(None, load=load(tmp_path / "index")) as client:  # type: ignore[arg-type]
        assert {hit["match"] for hit in search(client).json()["hits"]} == {None}
        fill(tmp_path / "index", 300, ColourModel(), calibrated=True)
        answer = until(client, lambda answer: answer.json()["hits"][0]["match"] is not None)
        assert len(answer.json()["hits"]) == 300
        with open_store(tmp_path / "index") as store:
            hits = Searcher(store, ColourModel()).search("red circle", top=500).hits  # type: ignore[arg-type]
        assert [hit["match"] for hit in answer.json()["hits"]] == [hit.match for hit in hits]


@pytest.mark.parametrize("other", [ColourModel, OtherModel])
def test_another_index_in_its_place_is_served_and_no_request_is_dropped(
    other: type[ColourModel], tmp_path: Path
) -> None:
    place, statuses, stop = tmp_path / "index", set(), threading.Event()
    fill(place, 20, ColourModel())
    fill(tmp_path / "new", 7, other())
    with serving(None, load=load(place)) as client:  # type: ignore[arg-type]

        def ask() -> None:
            while not stop.is_set():
                statuses.add(search(client).status_code)

        asking = threading.Thread(target=ask)
        asking.start()
        exchange(place, tmp_path / "new")
        answer = until(client, lambda answer: answer.status_code == 200 and len(answer.json()["hits"]) == 7)
        stop.set()
        asking.join()
        assert statuses == {200}
        assert answer.json()["hits"][0]["id"].startswith("p")
        assert client.get("/readyz").json() == {"status": "ok"}


def test_a_thread_that_is_new_to_the_index_sees_the_one_that_took_its_place(tmp_path: Path) -> None:
    place = tmp_path / "index"
    fill(place, 20, ColourModel())
    fill(tmp_path / "new", 7, OtherModel())
    old = load(place)()
    identity = old.store.identity()
    exchange(place, tmp_path / "new")
    with ThreadPoolExecutor(1) as thread:  # without a connection to what was there
        new = thread.submit(followed, old, identity, load(place)).result()
    assert (new.model.fingerprint, new.store.count("image")) == (OtherModel.fingerprint, 7)
    shutil.rmtree(place)
    with ThreadPoolExecutor(1) as thread, pytest.raises(UserError):
        thread.submit(followed, new, "", load(place)).result()


def test_a_deleted_index_is_not_ready_until_there_is_one_again(tmp_path: Path) -> None:
    place = tmp_path / "index"
    fill(place, 20, ColourModel())
    with serving(None, load=load(place)) as client:  # type: ignore[arg-type]
        shutil.rmtree(place)
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
        assert str(tmp_path) not in answer.text
        answer = until(client, lambda answer: answer.status_code != 200)
        assert answer.status_code == 503
        assert "retry-after" in answer.headers
        assert client.get("/healthz").status_code == 200
        assert "vsekit_ready 0.0" in client.get("/metrics").text
        fill(place, 3, OtherModel(), header=False)  # on its way: nothing says yet which model it is of
        assert client.get("/readyz").status_code == 503
        fill(place, 9, OtherModel())
        until(client, lambda answer: answer.status_code == 200 and len(answer.json()["hits"]) == 9)
        assert client.get("/readyz").status_code == 200


def test_a_look_that_began_before_a_request_failed_does_not_count_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index may have been exchanged while it looked: the request looks again."""
    fill(tmp_path / "index", 5, ColourModel())
    begun, go, looks = threading.Event(), threading.Event(), []

    def current(served: engine.Engine, old: Searcher) -> Searcher:
        looks.append(old)
        begun.set()
        assert go.wait(60)
        return old

    async def two_looks() -> None:
        served = engine.Engine(load(tmp_path / "index"), Limits(), Metrics(dict), pytest.fail)
        monkeypatch.setattr(engine, "WATCH_SECONDS", 3600)
        await served.start()
        monkeypatch.setattr(engine.Engine, "_current", current)
        first = asyncio.create_task(served.look(0.0))
        assert await asyncio.to_thread(begun.wait, 60)
        second = asyncio.create_task(served.look(0.0))
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(first, second)
        served.close()

    asyncio.run(two_looks())
    assert len(looks) == 2


def test_a_few_words_for_a_small_index_are_answered_in_the_loop_and_all_else_by_the_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "index", 5, ColourModel())
    monkeypatch.setattr(batching, "QUICK", math.inf)  # however busy the machine is
    words, where = Query.of("text", "red"), []

    async def ask() -> None:
        served = engine.Engine(load(tmp_path / "index"), Limits(), Metrics(dict), pytest.fail)
        await served.start()
        search_many = served.searcher.search_many

        def noted(asks: list[Ask]) -> list[Answer | Exception]:
            where.append(threading.current_thread() is threading.main_thread())
            return search_many(asks)

        monkeypatch.setattr(served.searcher, "search_many", noted)
        await served.answer(Ask(words))  # nothing is known of how long it takes
        for asked in (
            Ask(words),
            Ask(words, filter="year = 2020"),
            Ask(words, top=300),
            Ask(Query.of("item", "p0001")),
        ):
            await served.answer(asked)
        await served.answer(Ask(Query.of("text", "red " * 100)))
        monkeypatch.setattr(views, "AT_HAND", 0)
        await served.answer(Ask(words))
        served.close()

    asyncio.run(ask())
    assert where == [False, True, False, False, False, False, False]
