"""Indexing beside a server, in a process of its own (`vsekit.serve.indexing`), so that answers stay quick.

With `watch` the process lives as long as the server and keeps the index current. Without, it is started when somebody asks for
one of the allowed folders, and ends when it is done. The index itself is what both share: the server sees what was written.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.responses import Response

from vsekit.search.stores.base import Store
from vsekit.serve.description import problems
from vsekit.serve.engine import Engine
from vsekit.serve.items import json_answer
from vsekit.serve.problems import ProblemError
from vsekit.serve.schemas import FolderOut, IndexingIn, IndexingOut

LOG = logging.getLogger("vsekit.serve")
END_SECONDS = 20.0
CHANGES = ("added", "changed", "renamed", "removed", "repaired", "new_captions")
STOPPED = "indexing stopped; the server's log says why"

State = Literal["off", "idle", "starting", "indexing", "current", "failed"]


class Indexer:
    """What is being indexed, and what may be.

    Args:
        place: of the index.
        watch: keep it current, from `start` on.
        allowed: folders that clients may have indexed, by their number.
        model: where the model of the index is, if it has moved.
        trust: see `vsekit.outside.trusting`.
    """

    def __init__(
        self,
        place: str,
        *,
        watch: bool = False,
        allowed: Sequence[Path] = (),
        model: str | None = None,
        trust: bool = False,
    ) -> None:
        self.watch, self.allowed = watch, [folder.expanduser().resolve() for folder in allowed]
        self._settings = {"place": place, "watch": watch, "model": model, "trust": trust}
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._ending = False
        self._waiting = 0  # folders that were asked for and are not done
        self._known: dict[str, Any] = {"state": "idle" if allowed else "off"}

    def start(self) -> None:
        """Begins to watch, where that is wanted."""
        if self.watch:
            with self._lock:
                self._begin()

    def ask(self, number: int | None) -> None:
        """Has an allowed folder indexed; IndexError for another number. None: tries again after a failure."""
        folder = None if number is None else self.allowed[number]
        with self._lock:
            process = self._begin()
            if folder is not None and process.stdin is not None:
                self._waiting += 1
                self._known |= {"state": "starting" if self._known["state"] != "indexing" else "indexing"}
                print(json.dumps({"folder": str(folder)}), file=process.stdin, flush=True)

    def state(self, store: Store) -> IndexingOut:
        roots = set(store.header.get("roots", []))
        names = _names(self.allowed)
        folders = [
            FolderOut(number=i, name=name, indexed=folder.as_posix() in roots)
            for i, (folder, name) in enumerate(zip(self.allowed, names))
        ]
        with self._lock:
            known = dict(self._known)
        for word in ("error", "remedy", "note"):
            known[word] = self._private(known.get(word), roots)
        return IndexingOut(**known, pictures=store.count("image"), folders=folders)

    def close(self) -> None:
        """Lets what is being written be finished."""
        with self._lock:
            self._ending, process = True, self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _begin(self) -> subprocess.Popen[str]:
        """The process, started where there is none."""
        if self._process is None or self._process.poll() is not None:
            command = [sys.executable, "-m", "vsekit.serve.indexing"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._waiting = 0
            self._known = {"state": "starting", "changes": self._known.get("changes", 0)}
            print(json.dumps(self._settings), file=self._process.stdin, flush=True)
            threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        return self._process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                told = json.loads(line)
            except ValueError:  # some package prints
                continue
            with self._lock:
                self._take(told, process)
        code = process.wait()
        with self._lock:
            if self._process is process and not self._ending and (code or self.watch):
                LOG.warning("indexing ended with %d: %s", code, self._known.get("error", "no reason given"))
                self._known = {"error": STOPPED, **self._known, "state": "failed", "done": 0, "total": 0}

    def _take(self, told: dict[str, Any], process: subprocess.Popen[str]) -> None:
        """One line of the process."""
        rest: State = "current" if self.watch else "idle"
        if "total" in told:
            self._known |= {"state": "indexing", "done": told["done"], "total": told["total"]}
        elif "report" in told:
            report = told["report"]
            self._waiting = max(0, self._waiting - 1)
            changes = self._known.get("changes", 0) + any(report[name] for name in CHANGES)
            self._known = {"state": rest, "changes": changes, "broken": len(report["broken"])}
            if not self.watch and not self._waiting and process.stdin is not None:
                process.stdin.close()
        elif "say" in told:
            LOG.info("indexing: %s", told["say"])
            self._known["note"] = told["say"]
        elif "error" in told:
            self._waiting = max(0, self._waiting - 1)
            self._known |= {"state": rest, "error": told["error"], "remedy": told.get("remedy")}

    def _private(self, text: str | None, roots: set[str]) -> str | None:
        """Without where things lie on this machine."""
        for folder in sorted({*roots, *map(str, self.allowed), str(self._settings["place"])}, key=len, reverse=True):
            text = text and text.replace(folder, Path(folder).name)
        return text


def _names(folders: Sequence[Path]) -> list[str]:
    """What people call them: as much of the path's end as tells them apart."""
    names = []
    for folder in folders:
        parts = folder.parts
        count = next(
            n for n in range(1, len(parts) + 1)
            if n == len(parts) or sum(other.parts[-n:] == parts[-n:] for other in folders) == 1
        )  # fmt: skip
        names.append("/".join(parts[-count:]))
    return names


def add_indexing(app: FastAPI, engine: Engine, indexer: Indexer) -> None:
    @app.get(
        "/api/indexing", operation_id="indexing", tags=["server"], response_model=IndexingOut, responses=problems(),
        summary="How far indexing is, and what may be indexed",
    )  # fmt: skip
    async def indexing() -> Response:
        return json_answer(await engine.read(indexer.state, engine.searcher.store))

    @app.post(
        "/api/indexing", operation_id="index", tags=["server"], status_code=202, response_model=IndexingOut,
        responses=problems(403, 404, 413, 422), summary="Index an allowed folder, or try again",
    )  # fmt: skip
    async def index(body: IndexingIn) -> Response:
        if not (indexer.allowed or indexer.watch):
            raise ProblemError(403, "this server indexes nothing", "Start it with vse serve --allow FOLDER.")
        if body.folder is None and not indexer.watch:
            raise ProblemError(422, "no folder is named", "Send the number of one that may be indexed.")
        try:
            await engine.read(indexer.ask, body.folder)
        except IndexError:
            raise ProblemError(404, "there is no such folder", "GET /api/indexing lists those that may be.") from None
        return json_answer(await engine.read(indexer.state, engine.searcher.store), 202)
