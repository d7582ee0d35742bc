"""The state of each kind of item that readers look at: its vectors mapped, its dead slots, its approximate index."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vsekit.errors import UserError
from vsekit.seals import CHECKED
from vsekit.search.items import Kind
from vsekit.search.stores import inverted
from vsekit.search.stores.base import UnreachableError
from vsekit.search.stores.embedded import files
from vsekit.search.stores.embedded.database import Database
from vsekit.search.stores.embedded.nearest import View

AT_HAND = 2**25  # bytes of vectors that are searched in a few milliseconds


class Views:
    """dim: gives the size of the vectors, or UserError where it is another by now."""

    def __init__(self, folder: Path, database: Database, dim: Callable[[], int]) -> None:
        self.folder, self._database, self._dim = folder, database, dim
        self._guard = threading.RLock()
        self._views: dict[str, View] = {}
        self._checked: dict[str, int] = {}  # bytes of a file that were found to be what was written

    def get(self, connection: sqlite3.Connection, kind: Kind) -> View:
        """In a snapshot; FileNotFoundError where a file that it names is gone."""
        sql = "select file, slots, living, ann, covered, probes, depth from kinds where kind = ?"
        file, slots, living, ann, covered, probes, depth = connection.execute(sql, (kind,)).fetchone()
        key = (file, slots, living, ann)
        with self._guard:
            old = self._views.get(kind)
            if old is not None and old.key == key:
                return old
        dim = self._dim()
        try:
            vectors = files.map_vectors(self.folder / file, slots, dim)
            self._check(connection, file, vectors.nbytes)
        finally:
            self._database.check_place()  # the file is found by its name
        rows = connection.execute("select slot from dead where kind = ? order by slot", (kind,))
        dead = np.fromiter((slot for (slot,) in rows), dtype=np.int64)
        if ann is None:
            index = None
        elif old is not None and old.key[3] == ann:
            index = old.ann
        else:
            index = self._approximate(connection, ann)
        view = View(key, vectors, living, dead, index, covered, probes, depth)
        with self._guard:
            self._views[kind] = view
        return view

    def at_hand(self, kind: Kind) -> bool:
        """See `Store.at_hand`; by what was looked at last."""
        view = self._views.get(kind)
        return view is not None and view.ann is None and view.vectors.nbytes <= AT_HAND

    def check(self, connection: sqlite3.Connection) -> None:
        """UserError where vectors are lost or not what was written; FileNotFoundError where a file is gone."""
        dim = self._dim()
        for file, slots in connection.execute("select file, slots from kinds where slots > 0").fetchall():
            files.check_length(self.folder / file, slots, dim)
            self._check(connection, file, slots * files.width(file, dim))

    def clear(self) -> None:
        with self._guard:
            self._views.clear()
            self._checked.clear()

    def _check(self, connection: sqlite3.Connection, file: str, size: int) -> None:
        """UserError where a file of vectors is not what was written. Each byte is read once; of more than `CHECKED`, only
        `vse index check` reads all."""
        checked = self._checked.get(file, 0)
        if not checked < size <= CHECKED or not files.has_checksums(connection):
            return
        if any(files.damaged(connection, self.folder, file, checked)):
            raise UnreachableError(
                "this file of vectors is damaged: it is not what was written",
                file=self.folder / file,
                remedy=files.VECTORS_REMEDY,
            )
        self._checked[file] = size

    def _approximate(self, connection: sqlite3.Connection, file: str) -> Any:
        checked = (self.folder / file).stat().st_size <= CHECKED and files.has_checksums(connection)
        if checked and any(files.damaged(connection, self.folder, file)):
            (self.folder / file).stat()  # where it is gone, that is what is wrong
            raise UserError("this file is damaged", file=self.folder / file, remedy=files.APPROXIMATE_REMEDY)
        return inverted.load(self.folder / file)
