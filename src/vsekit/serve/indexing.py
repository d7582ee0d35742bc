"""The process that indexes for a server: what it is to do comes in as lines of JSON, how it goes on goes out as such.

    in    {"place": …, "model": …, "watch": true, "trust": false}, then {"folder": PATH} for each folder that is asked for
    out   {"ready": true}, {"done": 120, "total": 3000}, {"say": …}, {"report": …}, {"error": …, "remedy": …}

It ends when its input does, that is with the server, however that ends; what was indexed is kept.
"""

from __future__ import annotations

import _thread
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

from vsekit.errors import UserError
from vsekit.outside import trusting
from vsekit.progress import Bar, Progress
from vsekit.search.walk import Source, source_of

TELL_SECONDS = 0.5
ASK_SECONDS = 0.5


def tell(**line: Any) -> None:
    print(json.dumps(line), flush=True)


class Told(Progress):
    """Progress as lines."""

    def say(self, text: str) -> None:
        tell(say=text)

    @contextmanager
    def bar(self, name: str, unit: str = "") -> Iterator[Bar]:
        last = 0.0

        def show(done: int, total: int | None, note: str) -> None:
            nonlocal last
            if time.monotonic() - last >= TELL_SECONDS:
                last = time.monotonic()
                tell(done=done, total=total or 0)

        yield Bar(show)


class Asked:
    """Folders that are asked for. A thread reads them; when there are no more to come, the main one is interrupted."""

    def __init__(self) -> None:
        self._folders: SimpleQueue[str] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._folders.put(json.loads(line)["folder"])
        _thread.interrupt_main()

    def __call__(self, wait: float = 0.0) -> list[Source]:
        """Those that came since; what can't be looked into is told."""
        found = []
        with suppress(Empty):
            while True:
                folder = self._folders.get(timeout=wait) if wait else self._folders.get_nowait()
                try:
                    found.append(source_of(folder, format="photos"))
                except UserError as error:
                    tell(error=error.what, remedy=error.remedy)
                wait = 0.0
        return found


def run(settings: dict[str, Any], asked: Asked) -> None:
    from vsekit.search.indexing import index
    from vsekit.search.models import load_search_model
    from vsekit.search.stores import open_store
    from vsekit.search.watching import remembered, watch

    with open_store(settings["place"]) as store:
        place = store.location  # of a folder of pictures, the index inside it
        sources: Sequence[Source] = remembered(store) if settings["watch"] else []
        name = settings["model"] or store.header["model"]
    progress = Told()
    model = load_search_model(name)
    tell(ready=True)
    if settings["watch"]:
        for report in watch(model, sources, place, more=asked, export=True, progress=progress):
            tell(report=report.as_dict())
    while True:
        for source in asked(ASK_SECONDS):
            tell(report=index(model, source, place, export=True, progress=progress).as_dict())


def main() -> None:
    with suppress(AttributeError, OSError):  # where there is such a thing: who searches goes first
        os.nice(5)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a server in the background of a shell ignores it
    settings = json.loads(sys.stdin.readline())
    try:
        with trusting(settings["trust"]):
            run(settings, Asked())
    except UserError as error:
        tell(error=error.what, remedy=error.remedy)
        sys.exit(2)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
