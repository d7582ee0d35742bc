"""The embedded store's SQLite database: its tables, a connection for each thread, snapshots and transactions.

    about       key, value: the format, the size of vectors, the header, the number of the last write (generation)
    items       row, id, kind, slot of its vector, doc: the item as JSON
    meta        field, value, row; for filters
    tally       field, value, pictures; for `Store.fields`
    kinds       kind, its file of vectors, slots that count, living ones; its approximate index and how hard to look
    dead        kind, slot
    checksums   file, start, bytes, sha256; of every byte that counts (`files`)
    lost        id, kind, doc of items whose vectors were damaged (`mending`)
    words       what items say in words (`words`)

What SQLite finds wrong with the file or the disk is told as a UserError. A database in WAL mode needs a file of shared
memory beside it even for reading; where that can't be made (a disk that is full or read-only, a folder of somebody else) it
is opened for reading only.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from vsekit.errors import UserError
from vsekit.search.stores.base import UnreachableError
from vsekit.search.stores.embedded import beside

DATABASE = "index.db"
SCHEMA = """
create table about (key text primary key, value text not null);
create table items (row integer primary key, id text not null unique, kind text not null, slot integer not null,
    doc text not null);
create unique index slots on items (kind, slot);
create table meta (field text not null, value not null, row integer not null, primary key (field, value, row))
    without rowid;
create table tally (field text not null, value not null, pictures integer not null, primary key (field, value))
    without rowid;
create table kinds (kind text primary key, file text not null, slots integer not null, living integer not null,
    ann text, covered integer not null, probes integer not null, depth integer not null, recall real);
create table dead (kind text not null, slot integer not null, primary key (kind, slot)) without rowid;
"""
#: Indexes made before it was thought of get it from their next writer.
CHECKSUMS = """
create table if not exists checksums (file text not null, start integer not null, bytes integer not null,
    sha256 blob not null, primary key (file, start)) without rowid
"""

#: SQLite's names of errors that a read-only or full disk gives.
UNWRITABLE = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_FULL", "SQLITE_PERM")


class Database:
    """The file `DATABASE` in a folder; made where it is not there."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / DATABASE
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._guard = threading.Lock()
        self._closed = False
        self._status: os.stat_result | None = None  # of the file that was opened first
        self._left = False
        self._ways = ["mode=rwc", "mode=ro", "immutable=1"]  # the first is the one that works

    @property
    def fixed(self) -> bool:
        """Whether it was opened as one that nobody changes."""
        return self._ways[0] == "immutable=1"

    def create(self, dim: int, kinds: dict[str, str]) -> None:
        """Makes the tables where there are none. kinds: the name of each kind's file of vectors."""
        with self.explained():
            self.connection().execute("pragma journal_mode = wal")
        with self.transaction() as connection:
            if connection.execute("select 1 from sqlite_master where name = 'about'").fetchone():
                return
            for statement in (*SCHEMA.split(";"), CHECKSUMS):
                connection.execute(statement)
            about = {"format": "vsekit index 1", "dim": str(dim), "header": "{}", "generation": "0"}
            connection.executemany("insert into about values (?, ?)", about.items())
            connection.executemany("insert into kinds values (?, ?, 0, 0, null, 0, 0, 0, null)", list(kinds.items()))

    def connection(self) -> sqlite3.Connection:
        """This thread's own."""
        if self._closed:
            raise ValueError("this store is closed")
        if not hasattr(self._local, "connection"):
            self._local.connection = self._connect()
        connection: sqlite3.Connection = self._local.connection
        return connection

    def _connect(self) -> sqlite3.Connection:
        self.check_place()
        connection = self._opened(self._ways[0])
        with self._guard:
            if self._status is None:
                self._status = self.path.stat()
                beside.enter(self._status)
        self.check_place()
        connection.execute("pragma synchronous = full")
        connection.execute("pragma cache_size = -16384")
        with self._guard:
            self._connections.append(connection)
        return connection

    def _opened(self, way: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"file:{quote(str(self.path.absolute()))}?{way}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=60,
            cached_statements=256,
        )
        try:
            connection.execute("select 1 from sqlite_master").fetchone()
            return connection
        except sqlite3.DatabaseError as error:
            connection.close()
            name = getattr(error, "sqlite_errorname", "")
            if len(self._ways) == 1 or not name.startswith(UNWRITABLE):
                raise
            if way == "mode=ro" and self._has_log():  # what is in it would be missing
                raise
            self._ways.pop(0)
            return self._opened(self._ways[0])

    def check_place(self) -> None:
        """UnreachableError where another database has taken this one's place, or none."""
        try:
            same = self._status is None or os.path.samestat(self._status, self.path.stat())
        except OSError:
            same = False
        if not same:
            raise UnreachableError(
                "this index was removed, or another one has taken its place", file=self.path, remedy="Open it again."
            )

    def _has_log(self) -> bool:
        """Whether the last writes are not in the database itself yet."""
        log = self.path.with_name(f"{self.path.name}-wal")
        return log.exists() and log.stat().st_size > 0

    @contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if (told := _told(error, self.path)) is None:
                raise
            raise told from None

    def about(self, key: str) -> str | None:
        with self.explained():
            row = self.connection().execute("select value from about where key = ?", (key,)).fetchone()
        return row and str(row[0])

    def dim(self) -> int:
        """The size of the vectors."""
        dim = self.about("dim") or ""
        if not dim.isdigit():
            raise UserError("this is no index: it does not say the size of its vectors", file=self.path)
        return int(dim)

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Reads inside see one state, whatever is written meanwhile."""
        with self.explained():
            connection = self.connection()
            if connection.in_transaction:
                yield connection
                return
            connection.execute("begin")
            try:
                yield connection
            finally:
                connection.execute("rollback")

    @contextmanager
    def own_snapshot(self) -> Iterator[sqlite3.Connection]:
        """One that writes of this thread don't end, however long it is kept."""
        with self.explained():
            connection = self._connect()
            try:
                connection.execute("begin")
                yield connection
            finally:
                with self._guard:
                    self._connections.remove(connection)
                connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """What is written inside counts when the block ends, all of it or nothing."""
        with self.explained():
            connection = self.connection()
            connection.execute("begin immediate")
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:  # SQLite itself ends it when the disk is full
                    connection.execute("rollback")
                raise
            connection.execute("commit")

    def settled(self) -> bool:
        """Puts all writes into the file itself, and says whether they are: not while somebody reads an earlier state."""
        with self.explained():
            connection = self.connection()
            connection.execute("pragma busy_timeout = 1000")
            busy, *_ = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        return not busy and not self._has_log()

    def close(self) -> None:
        self._closed = True
        with self._guard:
            for connection in self._connections:
                connection.close()
            self._connections.clear()
            if self._status is not None and not self._left:
                self._left = True
                beside.leave(self._status)


def _told(error: sqlite3.DatabaseError, path: Path) -> UserError | None:
    """The error for whoever asked; None where it is no fault of the file or the disk."""
    name = getattr(error, "sqlite_errorname", "")
    again = f"Remove the folder {path.parent} and index the pictures again."
    explanations = {
        "SQLITE_FULL": ("the disk is full", "Make room and try again; what was written before is whole."),
        "SQLITE_IOERR": (f"can't be read or written: {error}", "Is the disk full, or failing?"),
        "SQLITE_READONLY": (f"can't be written: {error}", "Are the folder and its files yours?"),
        "SQLITE_CANTOPEN": (f"can't be opened: {error}", "Are the folder and its files yours?"),
        "SQLITE_BUSY": ("another process is writing to this index", "Wait until it has finished."),
        "SQLITE_CORRUPT": (f"this index is damaged: {error}", again),
        "SQLITE_NOTADB": (f"this is no index: {error}", again),
    }
    for start, (what, remedy) in explanations.items():
        if name.startswith(start):
            return UserError(what, file=path, remedy=remedy)
    if name == "SQLITE_ERROR" and "no such" in str(error):  # table or column
        return UserError(f"this is no index: {error}", file=path, remedy=again)
    return None
