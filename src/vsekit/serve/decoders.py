"""Decoding in processes of their own, each with a limit to its memory; see `vsekit.serve.decoder`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, BinaryIO

from PIL import Image

from vsekit import system
from vsekit.data.decoding import PictureError
from vsekit.data.views import ViewSettings

WORKERS = 2
SECONDS = 20.0  # for one picture
BYTES_A_PIXEL, ROOM = 16, 2**30  # memory of one process: for the largest picture, and for what it is itself
PIECE = 2**20


class Decoders:
    """At most `WORKERS` processes, started when they are needed or soon will be (`warm`). Threads wait for one.

    pixels: the most a picture may have.
    """

    def __init__(self, pixels: int) -> None:
        self.pixels = pixels
        self._free = threading.Semaphore(WORKERS)
        self._lock = threading.Lock()
        self._idle: list[subprocess.Popen[bytes]] = []
        self._closed = False

    @property
    def cold(self) -> bool:
        """Whether the next picture would have to wait until a process has started."""
        with self._lock:
            return not self._closed and all(worker.poll() is not None for worker in self._idle)

    def warm(self) -> None:
        """Starts a process, unless one waits or all are at work. It is ready some 0.2 s later."""
        if not self._free.acquire(blocking=False):
            return
        try:
            with self._lock:
                ended = [worker for worker in self._idle if worker.poll() is not None]
                self._idle = [worker for worker in self._idle if worker not in ended]
                wanted = not (self._idle or self._closed)
            for worker in ended:
                _end(worker)
            if wanted:
                self._keep(self._started())
        finally:
            self._free.release()

    def thumbnail(self, file: BinaryIO, size: int) -> bytes:
        """A JPEG of the upright picture, its longer side at most `size`."""
        return self._ask(file, {"task": "thumbnail", "size": size})[1]

    def picture(self, file: BinaryIO, side: int | None, view: ViewSettings | None = None) -> Image.Image:
        """What `vsekit.data.decoding.decode` gives; with a view, the square that it makes of that."""
        square = None if view is None else view.model_dump(mode="json")
        answer, content = self._ask(file, {"task": "pixels", "side": side, "view": square})
        return Image.frombuffer("RGB", tuple(answer["size"]), content)

    def for_browser(self, file: BinaryIO) -> tuple[str, bytes]:
        """The media type; and a JPEG where browsers can't show the file itself, else nothing."""
        answer, content = self._ask(file, {"task": "browser"})
        return answer.get("media_type", "image/jpeg"), content

    def _ask(self, file: BinaryIO, asked: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Raises PictureError, also where the picture cost the process its life."""
        with self._free:
            for fresh in (False, True):
                with self._lock:
                    worker = self._idle.pop() if self._idle and not fresh else None
                if worker is None and not fresh:
                    continue
                worker = worker or self._started()
                # Errors of the two kinds are those of a pipe that has ended.
                with _limited(worker) as late, suppress(OSError, ValueError):
                    answer, content = _exchange(worker, file, {**asked, "pixels": self.pixels})
                    if not answer["last"]:
                        self._keep(worker)
                    if "reason" in answer:
                        raise PictureError(answer["reason"], answer["kind"])
                    return answer, content
                if late.is_set():
                    raise PictureError(f"it took longer than {SECONDS:g} seconds to decode", "broken")
            raise PictureError("its decoder crashed", "broken")

    def _started(self) -> subprocess.Popen[bytes]:
        allow = BYTES_A_PIXEL * self.pixels + ROOM
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        return subprocess.Popen(
            [sys.executable, "-m", "vsekit.serve.decoder", str(allow)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            **system.apart(),  # Ctrl-C is the server's: it finishes what it is doing
        )

    def _keep(self, worker: subprocess.Popen[bytes]) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(worker)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            _end(worker)


@contextmanager
def _limited(worker: subprocess.Popen[bytes]) -> Iterator[threading.Event]:
    """Kills a process that takes too long, and tells that it did."""
    late = threading.Event()

    def end() -> None:
        late.set()
        worker.kill()

    clock = threading.Timer(SECONDS, end)
    clock.daemon = True
    clock.start()
    try:
        yield late
    finally:
        clock.cancel()


def _exchange(worker: subprocess.Popen[bytes], file: BinaryIO, asked: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """OSError or ValueError where the process has ended."""
    stdin, stdout = worker.stdin, worker.stdout
    assert stdin is not None
    assert stdout is not None
    try:
        length = file.seek(0, os.SEEK_END)
        file.seek(0)
        stdin.write(json.dumps({**asked, "length": length}).encode() + b"\n")
        while piece := file.read(PIECE):
            stdin.write(piece)
        stdin.flush()
        answer = json.loads(stdout.readline())
        content = _whole(stdout, answer["length"])
        if answer["last"]:
            _end(worker)
        return answer, content
    except (OSError, ValueError):
        _end(worker)
        raise


def _whole(stdout: IO[bytes], length: int) -> bytes:
    content = stdout.read(length)
    if len(content) < length:
        raise OSError("the process has ended")
    return content


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    for pipe in (worker.stdin, worker.stdout):
        with suppress(OSError):
            if pipe is not None:
                pipe.close()
    worker.wait()
