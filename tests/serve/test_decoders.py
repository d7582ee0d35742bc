from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from tests.serve.conftest import serving

from vsekit.data.decoding import PictureError, decode
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


def test_a_process_that_had_much_memory_ends_and_idle_servers_have_none(decoders: Decoders) -> None:
    fresh = Decoders(10**8)
    assert fresh._idle == []
    fresh.thumbnail(png(40, 30), 20)
    assert len(fresh._idle) == 1
    fresh.thumbnail(png(9000, 8000), 20)  # 216 MB of pixels, and as much again on the way
    assert fresh._idle == []
    fresh.close()


def test_a_decoder_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.0)
    slow = Decoders(10**8)
    with pytest.raises(PictureError, match="too long"):
        slow.thumbnail(png(6000, 6000), 20)
    slow.close()


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
