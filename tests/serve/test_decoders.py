from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import httpx
import numpy as np
import pytest
from PIL import Image
from tests.serve.conftest import serving

from vsekit.data.decoding import PictureError, decode
from vsekit.data.views import ViewSettings, resized
from vsekit.search.searcher import Searcher
from vsekit.serve import decoders as module
from vsekit.serve.decoders import Decoders


def png(width: int, height: int) -> io.BytesIO:
    out = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (min(height, 64), min(width, 64), 3), dtype=np.uint8)
    Image.fromarray(noise).resize((width, height)).save(out, "PNG")
    return out


def test_a_picture_comes_back_as_the_one_door_decodes_it(decoders: Decoders) -> None:
    for picture in (png(40, 30), png(301, 200)):
        here = decode(picture.getvalue(), 16)
        assert decoders.picture(picture, 16).tobytes() == here.tobytes()
        assert decoders.picture(picture, None).size == here.size


@pytest.mark.parametrize("keep_aspect", [False, True])
def test_a_view_has_the_pixels_of_the_square_it_makes_and_no_more(keep_aspect: bool, decoders: Decoders) -> None:
    view = ViewSettings.model_validate({"kind": "1C", "resize": 48, "pixels": 32, "keep_aspect": keep_aspect})
    picture = png(900, 700)
    square = resized(decode(picture.getvalue(), 48), view)
    found = decoders.picture(picture, 48, view)
    np.testing.assert_array_equal(np.asarray(found), square)
    np.testing.assert_array_equal(resized(found, view), square)  # so the model sees what it saw before


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSEGV])
def test_a_picture_that_kills_its_decoder_is_refused_and_the_next_is_read(
    end: signal.Signals, decoders: Decoders, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoders.thumbnail(png(40, 30), 20)
    deaths: list[int] = []
    exchange = module._exchange

    def killed(worker, file, asked):  # type: ignore[no-untyped-def]
        deaths.append(worker.pid)
        os.kill(worker.pid, end)
        worker.wait()
        return exchange(worker, file, asked)

    with monkeypatch.context() as patch:
        patch.setattr(module, "_exchange", killed)
        with pytest.raises(PictureError, match="decoder"):
            decoders.thumbnail(png(40, 30), 20)
    assert len(deaths) == 2  # the first may have been idle for too long, and is no proof
    assert decoders.thumbnail(png(40, 30), 20)
    for pid in deaths:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.slow
def test_a_picture_that_takes_more_memory_than_there_is_is_refused_and_memory_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BYTES_A_PIXEL", 0)
    monkeypatch.setattr(module, "ROOM", 400 * 2**20)
    tight = Decoders(150_000_000)
    try:
        with pytest.raises(PictureError) as error:
            tight.picture(png(11_000, 11_000), None)
        assert error.value.kind in ("memory", "broken")
        assert tight.thumbnail(png(40, 30), 20)
    finally:
        tight.close()


@pytest.mark.slow
def test_a_process_that_had_much_memory_ends_and_idle_servers_have_none(decoders: Decoders) -> None:
    fresh = Decoders(10**8)
    assert fresh._idle == []
    fresh.thumbnail(png(40, 30), 20)
    assert len(fresh._idle) == 1
    fresh.thumbnail(png(9000, 8000), 20)  # 216 MB of pixels, and as much again on the way
    assert fresh._idle == []
    fresh.close()


def test_a_decoder_that_takes_too_long_is_ended_and_the_picture_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = Decoders(10**8)
    slow.thumbnail(png(40, 30), 20)  # one is idle, which might have ended by itself: reason to try again
    monkeypatch.setattr(module, "SECONDS", 0.0)
    started: list[int] = []
    monkeypatch.setattr(Decoders, "_started", lambda self: started.append(1))
    with pytest.raises(PictureError, match="longer than 0 seconds"):
        slow.thumbnail(png(2000, 2000), 20)
    assert not started
    slow.close()


def test_uploads_that_take_long_hold_up_no_item_and_no_thumbnail(
    searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, go = Decoders._ask, threading.Event()

    def stuck(self: Decoders, file: BinaryIO, asked: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        if asked["task"] == "pixels":
            with self._free:
                assert go.wait(30)
        return ask(self, file, asked)

    monkeypatch.setattr(Decoders, "_ask", stuck)
    with serving(searcher) as client, ThreadPoolExecutor(12) as clients:
        url, files = f"{client.base_url}/api/search/picture", {"file": png(40, 30).getvalue()}
        uploads = [clients.submit(httpx.post, url, files=files, timeout=60) for _ in range(12)]
        while "vsekit_requests_in_flight 13.0" not in client.get("/metrics").text:
            pass
        try:
            assert client.get("/api/items/p000003").status_code == 200
            assert client.get("/api/items/p000003/thumbnail").status_code == 200
        finally:
            go.set()
        assert [upload.result().status_code for upload in uploads] == [200] * 12


def test_many_at_once_have_two_processes(decoders: Decoders) -> None:
    made: list[bytes] = []
    threads = [threading.Thread(target=lambda: made.append(decoders.thumbnail(png(300, 200), 50))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert len(set(made)) == 1
    assert len(decoders._idle) <= module.WORKERS


def test_an_upload_that_kills_its_decoder_costs_one_answer(
    searcher: Searcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with serving(searcher) as client:
        send: Callable[[], httpx.Response] = lambda: client.post(  # noqa: E731
            "/api/search/picture", files={"file": png(40, 30).getvalue()}
        )
        assert send().status_code == 200
        with monkeypatch.context() as patch:
            patch.setattr(module, "_whole", lambda stdout, length: (_ for _ in ()).throw(OSError("ended")))
            answer = send()
        assert answer.status_code == 415
        assert answer.json()["remedy"]
        assert send().status_code == 200


def test_a_decoder_is_warmed_once_and_anew_after_it_has_ended() -> None:
    few = Decoders(10**8)
    try:
        assert few.cold
        few.warm()
        few.warm()
        (first,) = few._idle
        assert not few.cold
        assert few.thumbnail(png(40, 30), 20)
        assert few._idle == [first]
        first.kill()
        first.wait()
        assert few.cold
        few.warm()
        (second,) = few._idle
        assert second.pid != first.pid
        assert first.stdin is not None
        assert first.stdin.closed
    finally:
        few.close()
    few.warm()
    assert few._idle == []
    assert not few.cold


def test_a_server_has_a_decoder_before_the_first_picture_is_asked_for(
    searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    begin = Decoders._started

    def counted(decoders: Decoders) -> object:
        worker = begin(decoders)
        started.append(worker.pid)
        return worker

    monkeypatch.setattr(Decoders, "_started", counted)
    with serving(searcher) as client:
        (hit, *_) = client.post("/api/search", json={"query": "red", "top": 1}).json()["hits"]
        while not started:
            time.sleep(0.01)
        os.kill(started[0], signal.SIGKILL)
        os.waitid(os.P_PID, started[0], os.WEXITED | os.WNOWAIT)
        assert client.post("/api/search", json={"query": "blue", "top": 1}).status_code == 200
        assert client.get(hit["thumbnail"]).status_code == 200
        assert len(started) > 1


def test_a_decoder_that_nobody_asks_ends_by_itself() -> None:
    """Its pipe stays open, and nothing comes."""
    code = "import vsekit.serve.decoder as decoder; decoder.IDLE_SECONDS = 0.2; decoder.main()"
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", code, str(2**33)], stdin=subprocess.PIPE, env=paths) as process:
        assert process.wait(120) == 0
