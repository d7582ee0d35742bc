"""The embedded store: one folder with a SQLite database (`database`) and, for each kind of item, a file of vectors (`files`).

A write appends its vectors first; then one transaction says that they count. So a kill leaves the state before or after
it. Nobody ever writes to a slot that counts, so readers map the file and need no lock. A replaced or deleted item leaves a
dead slot; when a quarter is dead, the living move to a new file. Above `approximate_above` vectors of a kind, search is
approximate (`builder`, `nearest`).
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from vsekit import system
from vsekit.errors import UserError
from vsekit.search.exported import damage
from vsekit.search.filters import Filter
from vsekit.search.items import Item, Kind
from vsekit.search.stores.base import Checked, Found
from vsekit.search.stores.embedded import builder, files, mending, place, seal, tables, words
from vsekit.search.stores.embedded.browsing import Browsing
from vsekit.search.stores.embedded.builder import Builder
from vsekit.search.stores.embedded.database import CHECKSUMS, DATABASE, Database
from vsekit.search.stores.embedded.filter import condition
from vsekit.search.stores.embedded.lock import WriterLock
from vsekit.search.stores.embedded.nearest import View, candidates
from vsekit.search.stores.embedded.views import Views
from vsekit.search.stores.rows import KINDS, checked, from_doc, scores

Result = TypeVar("Result")

FEW_DEAD = 1000  # dead slots that are never worth a new file


class EmbeddedStore(Browsing):
    """See the module. Other threads may search at the same time.

    Args:
        folder: of the index, or a folder of pictures that was indexed into itself (`place`).
        create: the size of the vectors, to make an index where there is none.
        rebuild: forget what is there, whatever the size of its vectors.
        approximate_above: with more vectors of a kind than this, search is approximate.
        dtype: of its vectors: "float32" (a new index), or "float16" for half the disk, where a cosine changes by up to 0.0005.
    """

    dtypes = ("float32", "float16")

    def __init__(
        self,
        folder: Path | str,
        create: int | None = None,
        *,
        rebuild: bool = False,
        approximate_above: int = 200_000,
        dtype: str | None = None,
    ) -> None:
        self.folder = Path(folder) if create is not None else place.find(folder)
        self.location = str(self.folder)
        self.approximate_above = approximate_above
        self._guard = threading.RLock()
        self._passing: OrderedDict[tuple[Any, ...], np.ndarray] = OrderedDict()
        self._closed = self._unsealed = False
        self._lock = WriterLock(self.folder)
        self._database = Database(self.folder)
        self._views = Views(self.folder, self._database, self._same_dim)
        self._builder = Builder(self.folder, self._database, self._views.get, approximate_above)
        try:
            self._open(create, rebuild, dtype)
        except BaseException:
            self._lock.release()
            self._database.close()
            raise

    def _open(self, create: int | None, rebuild: bool, dtype: str | None) -> None:
        if create is not None:
            place.make(self.folder)
            ending = files.ending(dtype or "float32")
            self._database.create(create, {kind: f"{kind}-0{ending}" for kind in KINDS})
        self.dim = self._database.dim()
        if rebuild and create is not None:
            self.rebuild(create, dtype)
        elif create not in (None, self.dim):
            raise UserError(
                f"this index holds vectors of {self.dim}, not of {create}",
                file=self.folder,
                remedy="It was made with another model. Use that one, or another folder.",
            )
        if dtype not in (None, self.dtype):
            raise UserError(
                f"this index holds vectors in {self.dtype}, not in {dtype}",
                file=self.folder,
                remedy="Make it anew with --rebuild, or copy it to another place: vse index copy SOURCE TARGET --dtype …",
            )
        if create is None:  # else a writer is coming, who may repair
            seal.check(self.folder, self._database)
            self._retrying(self._views.check)
            self._builder.start_where_due()

    # The writer's lock, and writing

    def lock(self) -> None:
        if self._lock.held:
            self._lock.check()
            return
        self._take()
        try:
            self._same_dim()
            self._retrying(lambda connection: files.check_lengths(connection, self.folder, self.dim))
            with self._database.transaction() as connection:
                connection.execute(CHECKSUMS)
                files.complete(connection, self.folder, self.dim)
                words.make(connection)
            builder.tidy(self.folder, self._database)
            self._builder.start_where_due()
        except BaseException:
            self._lock.release()
            raise

    def _take(self) -> None:
        """The lock, and no more. From now on the database changes."""
        self._lock.take()
        try:
            seal.check(self.folder, self._database)
            self._unseal()
        except BaseException:
            self._lock.release()
            raise

    def _unseal(self) -> None:
        seal.remove(self.folder)
        self._unsealed = True

    def _seal(self) -> None:
        """What this store has changed, unless another is the writer, who will."""
        if not self._unsealed:
            return
        with suppress(UserError):  # another writes, or the disk is full: it stays as it is
            if not self._lock.held:
                self._lock.take()
            seal.put(self.folder, self._database, self.folder / builder.LOCK)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """The one writer's transaction. The lock is kept until the store is closed."""
        self.lock()
        with self._database.transaction() as connection:
            yield connection
            connection.execute("update about set value = value + 1 where key = 'generation'")

    @property
    def header(self) -> dict[str, Any]:
        header: dict[str, Any] = json.loads(self._database.about("header") or "{}")
        return header

    def set_header(self, header: Mapping[str, Any]) -> None:
        with self._writing() as connection:
            connection.execute("update about set value = ? where key = 'header'", (json.dumps(dict(header)),))

    @property
    def dtype(self) -> str:
        """Of the vectors in its files: "float32" or "float16"."""
        with self._database.snapshot() as connection:
            (file,) = connection.execute("select file from kinds where kind = ?", KINDS[:1]).fetchone()
        return files.dtype_of(file).name

    def rebuild(self, dim: int, dtype: str | None = None) -> None:
        if not self._lock.held:
            self._lock.take()  # and no more: what is there may be of another size, or damaged
            self._unseal()
        self._lock.check()
        with self._database.transaction() as connection:
            connection.execute(CHECKSUMS)
            tables.clear(connection, dim, files.ending(dtype or self.dtype))
            connection.execute("update about set value = value + 1 where key = 'generation'")
        self.dim = dim
        self._views.clear()
        builder.tidy(self.folder, self._database)

    def identity(self) -> str:
        database = place.find(self.folder) / DATABASE
        status = database.stat()
        changed = f" {status.st_mtime_ns} {status.st_size}" * self._database.fixed  # else changes are seen
        return f"{status.st_dev}-{status.st_ino} {self._database.dim()}{changed}"

    def repair(self) -> list[Item]:
        """Reads all vectors."""
        if not self._lock.held:
            self._take()
        self._lock.check()
        self._same_dim()
        with self._database.transaction() as connection:
            stale = mending.put_aside(connection, self.folder, self.dim)
            files.complete(connection, self.folder, self.dim)
            words.make(connection)
            connection.execute("update about set value = value + ? where key = 'generation'", (bool(stale),))
            items = mending.lost(connection)
        for name in stale:
            system.remove(self.folder / name)
        return items

    def write(self, items: Sequence[Item], vectors: np.ndarray, deleted: Sequence[str] = ()) -> None:
        items, vectors = checked(items, vectors, self.dim)
        with self._writing() as connection:
            slots = np.empty(len(items), dtype=np.int64)
            for kind in KINDS:
                rows = [i for i, item in enumerate(items) if item.kind == kind]
                if rows:
                    slots[rows] = files.append(connection, self.folder, kind, vectors[rows])
            tables.put(connection, items, slots.tolist(), deleted)
            mending.found_again(connection, [*deleted, *(item.id for item in items)])
            stale = [file for k in KINDS if (file := files.compact(connection, self.folder, k, self.dim, FEW_DEAD))]
        for name in stale:
            system.remove(self.folder / name)
        self._builder.start_between_writes()

    def update(self, items: Sequence[Item]) -> None:
        with self._writing() as connection:
            tables.update(connection, items)

    # Reading

    def _same_dim(self) -> int:
        """UserError where the index was made anew for vectors of another size."""
        dim = self._database.dim()
        if dim != self.dim:
            raise UserError(
                f"this index was made anew: it holds vectors of {dim} now, not of {self.dim}",
                file=self.folder,
                remedy="Open it again, with its new model.",
            )
        return dim

    def _retrying(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """A file that a snapshot names may have been replaced before it was opened; the next snapshot names another."""
        missing = ""
        for _ in range(5):
            try:
                with self._database.snapshot() as connection:
                    return work(connection)
            except FileNotFoundError as error:
                missing = str(error.filename)
        remedy = files.APPROXIMATE_REMEDY if missing.endswith(".ivf") else files.VECTORS_REMEDY
        raise UserError("this file of the index is missing", file=missing, remedy=remedy)

    def items(self, ids: Sequence[str]) -> list[Item]:
        with self._database.snapshot() as connection:
            rows = tables.rows(connection, ids)
        return [from_doc(id, rows[id][1], rows[id][3]) for id in ids]

    def vectors(self, ids: Sequence[str]) -> np.ndarray:
        def read(connection: sqlite3.Connection) -> np.ndarray:
            rows = tables.rows(connection, ids)
            views: dict[str, View] = {kind: self._views.get(connection, kind) for kind in KINDS}
            result = np.empty((len(ids), self.dim), dtype=np.float32)
            for i, id in enumerate(ids):
                _, kind, slot, _ = rows[id]
                result[i] = views[kind].vectors[slot]
            return result

        return self._retrying(read)

    def all_items(self, kind: Kind | None = None) -> Iterator[Item]:
        with self._database.own_snapshot() as connection:
            sql = "select id, kind, doc from items" + " where kind = ?" * (kind is not None) + " order by id"
            for row in connection.execute(sql, (kind,) if kind else ()):
                yield from_doc(*row)

    def count(self, kind: Kind | None = None, filter: Filter | None = None) -> int:
        params: list[object] = [kind]
        sql = "select sum(living) from kinds where kind = coalesce(?, kind)"
        if filter is not None:
            passing, given = condition(filter)
            sql, params = f"select count(*) from items where {passing} and kind = coalesce(?, kind)", [*given, kind]
        with self._database.explained():
            return int(self._database.connection().execute(sql, params).fetchone()[0])

    @classmethod
    def check(cls, location: str) -> Checked:
        folder = place.find(location)
        found = mending.check(folder)
        return found._replace(damage=[*found.damage, *damage(folder)])

    def damaged(self) -> list[files.Damage]:
        """What of the vectors and of the approximate indexes is not as it was written. Reads them all."""
        with self._database.snapshot() as connection:
            return list(mending.damage(connection, self.folder, self.dim))

    # Searching

    def search(self, queries: np.ndarray, top: int, *, kind: Kind, filter: Filter | None = None) -> list[Found]:
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.dim:
            raise ValueError(f"queries of shape {queries.shape} for vectors of {self.dim}")

        def look(connection: sqlite3.Connection) -> list[Found]:
            view = self._views.get(connection, kind)
            rows = None if filter is None else self._passing_slots(connection, kind, filter)
            among = view.living if rows is None else len(rows)
            answers = []
            for query, found in zip(queries, candidates(view, queries, top, rows, self.approximate_above)):
                values = scores(query, view.vectors[found])
                if len(found) > top:  # only those that may be among the best need be read
                    inside = values >= np.partition(values, -top)[-top]
                    found, values = found[inside], values[inside]
                answers.append(Found(*tables.ranked_at(connection, kind, found, values, top), among))
            return answers

        return self._retrying(look)

    def at_hand(self, kind: Kind) -> bool:
        return self._views.at_hand(kind)

    def _passing_slots(self, connection: sqlite3.Connection, kind: str, filter: Filter) -> np.ndarray:
        key = (self._database.about("generation"), kind, repr(filter))
        with self._guard:
            if key in self._passing:
                self._passing.move_to_end(key)
                return self._passing[key]
        passing, params = condition(filter)
        sql = f"select slot from items where {passing} and kind = ?"
        slots = np.fromiter((slot for (slot,) in connection.execute(sql, [*params, kind])), dtype=np.int64)
        slots.sort()
        with self._guard:
            self._passing[key] = slots
            while len(self._passing) > 8:
                self._passing.popitem(last=False)
        return slots

    def close(self) -> None:
        """Waits for the approximate index where this process has written."""
        if self._closed:
            return
        self._closed = True
        self._builder.join()
        if self._lock.held:
            self._builder.start_where_due(0.1)
            self._builder.join()
        self._seal()
        self._lock.release()
        self._database.close()
        self._views.clear()
