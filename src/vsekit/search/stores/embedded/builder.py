"""Building the embedded store's approximate index (`vsekit.search.stores.approximate`) in the background.

Any process that opens an index builds what a killed writer could not; one at a time, by a lock of their own. Nothing waits
for it but the `close` of a writer: until it is there, search is exact.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from vsekit import system
from vsekit.errors import UserError
from vsekit.files import atomic_path
from vsekit.search.items import Kind
from vsekit.search.stores import approximate, exact
from vsekit.search.stores.embedded import files, seal
from vsekit.search.stores.embedded.database import Database
from vsekit.search.stores.embedded.nearest import View
from vsekit.search.stores.rows import KINDS

LOCK = "builder.lock"
LARGE = 1_000_000  # vectors, from which an index is built again only when they have doubled, as long as more are being written


class Builder:
    """view: of a kind, in a snapshot. above: with no more vectors of a kind than this, there is nothing to build."""

    def __init__(
        self, folder: Path, database: Database, view: Callable[[sqlite3.Connection, Kind], View], above: int
    ) -> None:
        self.folder, self._database, self._view, self._above = folder, database, view, above
        self.thread: threading.Thread | None = None

    def start_where_due(self, share: float = 0.25) -> None:
        """Starts building what is missing, unless somebody does already. share: of what is covered, that may be missing."""
        if self.thread is not None and self.thread.is_alive():
            return
        if any(self._due(kind, share) for kind in KINDS):
            self.thread = threading.Thread(target=self._build, args=(share,), name="vsekit index", daemon=True)
            self.thread.start()

    def join(self) -> None:
        if self.thread is not None:
            self.thread.join()

    def start_between_writes(self) -> None:
        """The same, for who goes on writing: building takes as long as the index is large, so a large one is built seldom."""
        with self._database.snapshot() as connection:
            covered = connection.execute("select max(covered) from kinds").fetchone()[0]
        self.start_where_due(0.25 if covered < LARGE else 1.0)

    def _due(self, kind: str, share: float) -> bool:
        with self._database.snapshot() as connection:
            sql = "select slots, living, covered from kinds where kind = ?"
            slots, living, covered = connection.execute(sql, (kind,)).fetchone()
        return bool(living > self._above and slots - covered > share * covered)

    def _build(self, share: float) -> None:
        import faiss

        if not hasattr(faiss, "OnDiskInvertedLists"):  # faiss for Windows; search stays exact
            return
        faiss.omp_set_num_threads(1)  # of this thread: the other cores are for encoding and searching
        # Another builds, or the disk is full or can't be written: search stays exact.
        with suppress(OSError, UserError), system.locked(self.folder / LOCK):
            for kind in KINDS:
                if self._due(kind, share):
                    self._build_kind(kind)

    def _build_kind(self, kind: Kind) -> None:
        with self._database.snapshot() as connection:
            view = self._view(connection, kind)
            other = self._view(connection, next(k for k in KINDS if k != kind))
            header = json.loads(self._database.about("header") or "{}")
        slots = np.setdiff1d(np.arange(len(view.vectors)), view.dead, assume_unique=True)
        queries = approximate.sample_queries(view.vectors, slots, other.vectors, header)
        truth = exact.true_best(view.vectors, queries, approximate.TOP, slots)
        name = f"{kind}-{os.urandom(4).hex()}.ivf"
        with atomic_path(self.folder / name) as temporary:
            index = approximate.build(view.vectors, slots, temporary)
            effort = approximate.effort(index, view.vectors, queries, truth)
        seal.remove(self.folder)
        with self._database.transaction() as connection:
            old = connection.execute("select file, ann from kinds where kind = ?", (kind,)).fetchone()
            current = old[0] == view.key[0]  # not compacted or rebuilt meanwhile
            if current:
                connection.execute(
                    "update kinds set ann = ?, covered = ?, probes = ?, depth = ?, recall = ? where kind = ?",
                    (name, len(view.vectors), *effort, kind),
                )
                if files.has_checksums(connection):
                    files.forget(connection, old[1])
                    files.remember_whole(connection, self.folder, name)
        useless = old[1] if current else name
        if useless:
            system.remove(self.folder / useless)


def tidy(folder: Path, database: Database) -> None:
    """Removes files that a killed process left: nobody names them any more, or yet."""
    with suppress(OSError), system.locked(folder / LOCK):  # who builds has files that are not named yet
        with database.snapshot() as connection:
            named = {name for row in connection.execute("select file, ann from kinds") for name in row}
        for path in folder.iterdir():
            if path.suffix in (*files.TYPES, ".ivf", ".tmp") and path.name not in named:
                system.remove(path)
