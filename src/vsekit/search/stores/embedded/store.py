"""The embedded store: one folder with a SQLite database and, for each kind of item, a file of vectors.

    index.db               items, metadata, header, and how much of each vector file counts
    image-0.f32            (slots, dim) float32, little-endian; only ever appended to
    image-7.ivf            approximate index of the first so many slots (`approximate`), above `approximate_above` vectors

Vectors are appended and synced first, then one SQLite transaction says that they count. So a kill leaves the state before
or after a write: bytes beyond what counts are overwritten by the next. Nobody ever writes to a slot that counts, so
readers map the file and need no lock. A replaced or deleted item leaves a dead slot; when a quarter is dead, the living
move to a new file. Slots that the approximate index does not cover yet are searched exactly beside it.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import sqlite3
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from vsekit.errors import UserError, missing_extra
from vsekit.files import atomic_path
from vsekit.search.filters import Filter
from vsekit.search.items import Item, Kind, Value
from vsekit.search.stores import approximate, exact
from vsekit.search.stores.base import Found, Store
from vsekit.search.stores.embedded.filter import condition, stored
from vsekit.search.stores.rows import KINDS, checked, clean_meta, from_doc, ranked, scores, to_doc

DATABASE = "index.db"
FLOAT = np.dtype("<f4")
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
CHUNK = 500  # ids in one statement
FEW_DEAD = 1000  # dead slots that are never worth a new file


@dataclass(frozen=True)
class View:
    """One kind at one moment. dead: rising slots. ann: the approximate index of the slots before `covered`, or None."""

    key: tuple[Any, ...]
    vectors: np.ndarray
    living: int
    dead: np.ndarray
    ann: Any
    covered: int
    probes: int
    depth: int


class EmbeddedStore(Store):
    """See the module. Other threads may search at the same time.

    Args:
        folder: of the index.
        create: the size of the vectors, to make an index where there is none.
        approximate_above: with more vectors of a kind than this, search is approximate.
    """

    def __init__(self, folder: Path | str, create: int | None = None, *, approximate_above: int = 200_000) -> None:
        if importlib.util.find_spec("faiss") is None:
            raise missing_extra("faiss-cpu", "search")
        self.folder = Path(folder)
        self.location = str(self.folder)
        self.approximate_above = approximate_above
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._guard = threading.RLock()
        self._views: dict[str, View] = {}
        self._passing: OrderedDict[tuple[Any, ...], np.ndarray] = OrderedDict()
        self._fields: tuple[str, dict[str, dict[str, Any]]] = ("", {})
        self._lock: TextIO | None = None
        self._builder: threading.Thread | None = None
        self._closed = False
        if create is not None:
            self._create(create)
        elif not (self.folder / DATABASE).is_file():
            raise UserError(
                "there is no index here", file=self.folder, remedy=f"Make one: vse index MODEL FOLDER --out {folder}"
            )
        try:
            dim = dict(self._connection().execute("select key, value from about")).get("dim")
        except sqlite3.DatabaseError as error:
            raise UserError(f"this is no index: {error}", file=self.folder / DATABASE) from None
        self.dim = int(dim or 0)
        if create not in (None, self.dim):
            raise UserError(
                f"this index holds vectors of {self.dim}, not of {create}",
                file=self.folder,
                remedy="It was made with another model. Use that one, or another folder.",
            )
        self._build_where_due()

    def _create(self, dim: int) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise UserError("this is a file, not a folder", file=self.folder)
        new = not (self.folder / DATABASE).exists()
        if new and self.folder.exists() and any(self.folder.iterdir()):
            raise UserError("this folder is not empty and holds no index", file=self.folder, remedy="Choose another.")
        self.folder.mkdir(parents=True, exist_ok=True)
        connection = self._connection()
        connection.execute("pragma journal_mode = wal")
        with _transaction(connection):
            if connection.execute("select 1 from sqlite_master where name = 'about'").fetchone():
                return
            for statement in SCHEMA.split(";"):
                connection.execute(statement)
            about = {"format": "vsekit index 1", "dim": str(dim), "header": "{}", "generation": "0"}
            connection.executemany("insert into about values (?, ?)", about.items())
            connection.executemany(
                "insert into kinds values (?, ?, 0, 0, null, 0, 0, 0, null)",
                [(kind, f"{kind}-0.f32") for kind in KINDS],
            )

    # Connections, snapshots and the writer's lock

    def _connection(self) -> sqlite3.Connection:
        """This thread's own."""
        if self._closed:
            raise ValueError("this store is closed")
        if not hasattr(self._local, "connection"):
            self._local.connection = self._connect()
        connection: sqlite3.Connection = self._local.connection
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.folder / DATABASE, isolation_level=None, check_same_thread=False, timeout=60, cached_statements=256
        )
        connection.execute("pragma synchronous = full")
        connection.execute("pragma cache_size = -16384")
        with self._guard:
            self._connections.append(connection)
        return connection

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """Reads inside see one state, whatever is written meanwhile."""
        connection = self._connection()
        if connection.in_transaction:
            yield connection
            return
        connection.execute("begin")
        try:
            yield connection
        finally:
            connection.execute("rollback")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """The one writer's transaction. The lock is kept until the store is closed."""
        if self._lock is None:
            lock = (self.folder / "writer.lock").open("a+")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.seek(0)
                owner = lock.read().strip() or "?"
                lock.close()
                raise UserError(
                    f"another process (number {owner}) is writing to this index",
                    file=self.folder,
                    remedy="Wait until it has finished; searching goes on meanwhile.",
                ) from None
            lock.truncate(0)
            print(os.getpid(), file=lock, flush=True)
            self._lock = lock
            self._tidy()
        connection = self._connection()
        with _transaction(connection):
            yield connection
            connection.execute("update about set value = value + 1 where key = 'generation'")

    def _tidy(self) -> None:
        """Removes files that a killed process left: nobody names them any more, or yet."""
        with suppress(OSError), (self.folder / "builder.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # who builds has files that are not named yet
            named = {name for row in self._connection().execute("select file, ann from kinds") for name in row}
            for path in self.folder.iterdir():
                if path.suffix in (".f32", ".ivf", ".tmp") and path.name not in named:
                    path.unlink()

    def _view(self, connection: sqlite3.Connection, kind: str) -> View:
        file, slots, living, ann, covered, probes, depth = connection.execute(
            "select file, slots, living, ann, covered, probes, depth from kinds where kind = ?", (kind,)
        ).fetchone()
        key = (file, slots, living, ann)
        with self._guard:
            old = self._views.get(kind)
            if old is not None and old.key == key:
                return old
        if slots:
            vectors = np.memmap(self.folder / file, dtype=FLOAT, mode="r", shape=(slots, self.dim)).view(np.ndarray)
        else:
            vectors = np.empty((0, self.dim), dtype=np.float32)
        rows = connection.execute("select slot from dead where kind = ? order by slot", (kind,))
        dead = np.fromiter((slot for (slot,) in rows), dtype=np.int64)
        if ann is None:
            index = None
        elif old is not None and old.key[3] == ann:
            index = old.ann
        else:
            index = approximate.load(self.folder / ann)
        view = View(key, vectors, living, dead, index, covered, probes, depth)
        with self._guard:
            self._views[kind] = view
        return view

    def _retrying(self, work: Any) -> Any:
        """A file that a snapshot names may have been replaced before it was opened; the next snapshot names another."""
        for _ in range(5):
            with suppress(FileNotFoundError), self._snapshot() as connection:
                return work(connection)
        raise UserError("a file of this index is missing", file=self.folder, remedy="Index again into a new folder.")

    # Header

    @property
    def header(self) -> dict[str, Any]:
        row = self._connection().execute("select value from about where key = 'header'").fetchone()
        header: dict[str, Any] = json.loads(row[0])
        return header

    def set_header(self, header: Mapping[str, Any]) -> None:
        with self._writing() as connection:
            connection.execute("update about set value = ? where key = 'header'", (json.dumps(dict(header)),))

    # Writing

    def write(self, items: Sequence[Item], vectors: np.ndarray, deleted: Sequence[str] = ()) -> None:
        items, vectors = checked(items, vectors, self.dim)
        with self._writing() as connection:
            slots = np.empty(len(items), dtype=np.int64)
            for kind in KINDS:
                rows = [i for i, item in enumerate(items) if item.kind == kind]
                if rows:
                    slots[rows] = self._append(connection, kind, vectors[rows])
            old = _rows(connection, [*deleted, *(item.id for item in items)])
            tally: Counter[tuple[str, object]] = Counter()
            for row, was, slot, doc in old.values():
                connection.execute("insert into dead values (?, ?)", (was, slot))
                connection.execute("update kinds set living = living - 1 where kind = ?", (was,))
                _forget(connection, row, was, doc, tally)
            added = {item.id for item in items}
            gone = [(old[id][0],) for id in dict.fromkeys(deleted) if id in old and id not in added]
            connection.executemany("delete from items where row = ?", gone)
            for item, slot in zip(items, slots.tolist()):
                meta = clean_meta(item.meta)
                values = (item.kind, slot, to_doc(item, meta))
                place: int | None
                if item.id in old:
                    place = old[item.id][0]
                    connection.execute("update items set kind = ?, slot = ?, doc = ? where row = ?", (*values, place))
                else:
                    place = connection.execute(
                        "insert into items (id, kind, slot, doc) values (?, ?, ?, ?)", (item.id, *values)
                    ).lastrowid
                connection.execute("update kinds set living = living + 1 where kind = ?", (item.kind,))
                _remember(connection, place, item.kind, meta, tally)
            _add_up(connection, tally)
            stale = [file for kind in KINDS if (file := self._compact(connection, kind))]
        for name in stale:
            (self.folder / name).unlink(missing_ok=True)
        self._build_where_due()

    def _append(self, connection: sqlite3.Connection, kind: str, vectors: np.ndarray) -> range:
        file, slots = connection.execute("select file, slots from kinds where kind = ?", (kind,)).fetchone()
        with open(self.folder / file, "r+b" if (self.folder / file).exists() else "w+b") as output:
            output.seek(slots * self.dim * FLOAT.itemsize)
            output.write(vectors.astype(FLOAT, copy=False).tobytes())
            output.flush()
            os.fsync(output.fileno())
        connection.execute("update kinds set slots = slots + ? where kind = ?", (len(vectors), kind))
        return range(slots, slots + len(vectors))

    def _compact(self, connection: sqlite3.Connection, kind: str) -> str | None:
        """Moves the living to a new file when a quarter is dead; gives the old file's name, for after the commit."""
        file, slots, living = connection.execute(
            "select file, slots, living from kinds where kind = ?", (kind,)
        ).fetchone()
        if slots - living <= max(slots // 4, FEW_DEAD):
            return None
        number = int(file.rpartition("-")[2].removesuffix(".f32")) + 1
        new = f"{kind}-{number}.f32"
        rows = connection.execute("select slot, row from items where kind = ? order by slot", (kind,)).fetchall()
        old = np.memmap(self.folder / file, dtype=FLOAT, mode="r", shape=(slots, self.dim))
        with atomic_path(self.folder / new) as temporary, temporary.open("wb") as output:
            for start in range(0, len(rows), exact.BLOCK):
                old[[slot for slot, _ in rows[start : start + exact.BLOCK]]].tofile(output)
        # In rising order a slot only ever moves to one that is free by then.
        moves = [(slot, row) for slot, (_, row) in enumerate(rows)]
        connection.executemany("update items set slot = ? where row = ?", moves)
        connection.execute("delete from dead where kind = ?", (kind,))
        connection.execute(
            "update kinds set file = ?, slots = living, ann = null, covered = 0, probes = 0 where kind = ?", (new, kind)
        )
        return str(file)

    def update(self, items: Sequence[Item]) -> None:
        with self._writing() as connection:
            old = _rows(connection, [item.id for item in items])
            tally: Counter[tuple[str, object]] = Counter()
            for item in {item.id: item for item in items}.values():
                if item.id not in old or old[item.id][1] != item.kind:
                    raise KeyError(item.id)
                row, kind, _, doc = old[item.id]
                _forget(connection, row, kind, doc, tally)
                meta = clean_meta(item.meta)
                connection.execute("update items set doc = ? where row = ?", (to_doc(item, meta), row))
                _remember(connection, row, kind, meta, tally)
            _add_up(connection, tally)

    # Reading

    def items(self, ids: Sequence[str]) -> list[Item]:
        with self._snapshot() as connection:
            rows = _rows(connection, ids)
        return [from_doc(id, rows[id][1], rows[id][3]) for id in ids]

    def vectors(self, ids: Sequence[str]) -> np.ndarray:
        def read(connection: sqlite3.Connection) -> np.ndarray:
            rows = _rows(connection, ids)
            views: dict[str, View] = {kind: self._view(connection, kind) for kind in KINDS}
            result = np.empty((len(ids), self.dim), dtype=np.float32)
            for i, id in enumerate(ids):
                _, kind, slot, _ = rows[id]
                result[i] = views[kind].vectors[slot]
            return result

        result: np.ndarray = self._retrying(read)
        return result

    def all_items(self, kind: Kind | None = None) -> Iterator[Item]:
        connection = self._connect()  # its own, so that writes of this thread don't end the snapshot
        try:
            connection.execute("begin")
            sql = "select id, kind, doc from items" + " where kind = ?" * (kind is not None) + " order by id"
            for row in connection.execute(sql, (kind,) if kind else ()):
                yield from_doc(*row)
        finally:
            with self._guard:
                self._connections.remove(connection)
            connection.close()

    def count(self, kind: Kind | None = None, filter: Filter | None = None) -> int:
        connection = self._connection()
        if filter is None:
            sql, params = "select sum(living) from kinds where kind = coalesce(?, kind)", [kind]
        else:
            passing, params = condition(filter)  # type: ignore[assignment]
            sql = f"select count(*) from items where {passing}"
            if kind is not None:
                sql, params = f"{sql} and kind = ?", [*params, kind]
        return int(connection.execute(sql, params).fetchone()[0])

    def fields(self) -> dict[str, dict[str, Any]]:
        with self._snapshot() as connection:
            (generation,) = connection.execute("select value from about where key = 'generation'").fetchone()
            if self._fields[0] != generation:
                self._fields = generation, _fields(connection)
        return self._fields[1]

    # Searching

    def search(self, queries: np.ndarray, top: int, *, kind: Kind, filter: Filter | None = None) -> list[Found]:
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.dim:
            raise ValueError(f"queries of shape {queries.shape} for vectors of {self.dim}")

        def look(connection: sqlite3.Connection) -> list[Found]:
            view = self._view(connection, kind)
            rows = None if filter is None else self._passing_slots(connection, kind, filter)
            slots = self._candidates(view, queries, top, rows)
            answers = []
            for query, found in zip(queries, slots):
                values = scores(query, view.vectors[found])
                if len(found) > top:  # only those that may be among the best need their ids
                    inside = values >= np.partition(values, -top)[-top]
                    found, values = found[inside], values[inside]
                answers.append(Found(*ranked(_ids(connection, kind, found), values, top)))
            return answers

        result: list[Found] = self._retrying(look)
        return result

    def _candidates(self, view: View, queries: np.ndarray, top: int, rows: np.ndarray | None) -> list[np.ndarray]:
        """For each query the slots that may be among its best; all of them where search is exact. rows: those that pass the
        filter, all living."""
        living = view.living if rows is None else len(rows)
        if not living or not len(queries) or top < 1:
            return [np.empty(0, dtype=np.int64) for _ in queries]
        if view.ann is None or not view.probes or living <= self.approximate_above or top > living // 20:
            if rows is not None and 4 * len(rows) > len(view.vectors):
                outside = np.ones(len(view.vectors), dtype=bool)
                outside[rows] = False
                return exact.best(view.vectors, queries, top, dead=outside)
            return exact.best(view.vectors, queries, top, rows=rows, dead=view.dead if rows is None else None)
        among = None
        if rows is not None or len(view.dead):
            bits = np.full(len(view.vectors), rows is None)
            bits[view.dead if rows is None else rows] = rows is not None
            among = np.packbits(bits, bitorder="little")
        # Deeper answers, and answers among fewer, lie in more groups.
        deeper = max(1.0, top / approximate.TOP)
        probes = round(view.probes * deeper**0.5 * view.living / living)
        depth = round(view.depth * deeper**0.75)
        near = approximate.candidates(view.ann, queries, probes, depth, among)
        tail = view.vectors[view.covered :]
        if rows is None:
            far = exact.best(tail, queries, top, dead=view.dead[view.dead >= view.covered] - view.covered)
        else:
            far = exact.best(tail, queries, top, rows=rows[rows >= view.covered] - view.covered)
        far = [found + view.covered for found in far]
        return [np.concatenate(pair) for pair in zip(near, far)]

    def _passing_slots(self, connection: sqlite3.Connection, kind: str, filter: Filter) -> np.ndarray:
        (generation,) = connection.execute("select value from about where key = 'generation'").fetchone()
        key = (generation, kind, repr(filter))
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

    # The approximate index

    def _build_where_due(self, share: float = 0.25) -> None:
        """Starts building in the background what is missing, unless somebody does already. share: see `_due`."""
        if self._builder is not None and self._builder.is_alive():
            return
        if any(self._due(kind, share) for kind in KINDS):
            self._builder = threading.Thread(target=self._build, args=(share,), name="vsekit index", daemon=True)
            self._builder.start()

    def _due(self, kind: str, share: float) -> bool:
        """Whether more than this share of what is covered is not."""
        slots, living, covered = (
            self._connection().execute("select slots, living, covered from kinds where kind = ?", (kind,)).fetchone()
        )
        return bool(living > self.approximate_above and slots - covered > share * covered)

    def _build(self, share: float) -> None:
        import faiss

        faiss.omp_set_num_threads(1)  # of this thread: the other cores are for encoding and searching
        with (self.folder / "builder.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return
            for kind in KINDS:
                if self._due(kind, share):
                    self._build_kind(kind)

    def _build_kind(self, kind: str) -> None:
        connection = self._connection()
        with self._snapshot():
            view = self._view(connection, kind)
            other = self._view(connection, next(k for k in KINDS if k != kind))
            header = self.header
        slots = np.setdiff1d(np.arange(len(view.vectors)), view.dead, assume_unique=True)
        index = approximate.build(view.vectors, slots)
        queries = approximate.sample_queries(view.vectors, slots, other.vectors, header)
        truth = exact.true_best(view.vectors, queries, approximate.TOP, slots)
        effort = approximate.effort(index, view.vectors, queries, truth)
        name = f"{kind}-{os.urandom(4).hex()}.ivf"
        with atomic_path(self.folder / name) as temporary:
            approximate.save(index, temporary)
        with _transaction(connection):
            old = connection.execute("select file, ann from kinds where kind = ?", (kind,)).fetchone()
            current = old[0] == view.key[0]  # not compacted meanwhile
            if current:
                connection.execute(
                    "update kinds set ann = ?, covered = ?, probes = ?, depth = ?, recall = ? where kind = ?",
                    (name, len(view.vectors), *effort, kind),
                )
        useless = old[1] if current else name
        if useless:
            (self.folder / useless).unlink(missing_ok=True)

    def close(self) -> None:
        """Waits for the approximate index where this process has written."""
        if self._closed:
            return
        if self._builder is not None:
            self._builder.join()
        if self._lock is not None:
            self._build_where_due(0.1)
            if self._builder is not None:
                self._builder.join()
            self._lock.close()
            self._lock = None
        self._closed = True
        with self._guard:
            for connection in self._connections:
                connection.close()
            self._connections.clear()
            self._views.clear()


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("begin immediate")
    try:
        yield
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")


def _rows(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, tuple[int, str, int, str]]:
    """id → row, kind, slot, doc of those that are there."""
    found = {}
    unique = list(dict.fromkeys(ids))
    for start in range(0, len(unique), CHUNK):
        part = unique[start : start + CHUNK]
        places = ", ".join("?" * len(part))
        for id, *rest in connection.execute(f"select id, row, kind, slot, doc from items where id in ({places})", part):
            found[id] = tuple(rest)
    return found


def _ids(connection: sqlite3.Connection, kind: str, slots: np.ndarray) -> list[str]:
    sql = "select id from items where kind = ? and slot = ?"
    return [connection.execute(sql, (kind, slot)).fetchone()[0] for slot in slots.tolist()]


def _entries(meta: Mapping[str, Value]) -> Iterable[tuple[str, object]]:
    return ((name, stored(value)) for name, value in meta.items())


def _remember(
    connection: sqlite3.Connection, row: int | None, kind: str, meta: Mapping[str, Value], tally: Counter[Any]
) -> None:
    connection.executemany("insert into meta values (?, ?, ?)", [(*entry, row) for entry in _entries(meta)])
    if kind == "image":
        tally.update(_entries(meta))


def _forget(connection: sqlite3.Connection, row: int, kind: str, doc: str, tally: Counter[Any]) -> None:
    meta = json.loads(doc)[-1]
    connection.executemany(
        "delete from meta where field = ? and value = ? and row = ?", [(*entry, row) for entry in _entries(meta)]
    )
    if kind == "image":
        tally.subtract(_entries(meta))


def _add_up(connection: sqlite3.Connection, tally: Counter[Any]) -> None:
    changed = [(field, value, n) for (field, value), n in tally.items() if n]
    connection.executemany(
        "insert into tally values (?, ?, ?) on conflict do update set pictures = pictures + excluded.pictures", changed
    )
    connection.executemany(
        "delete from tally where field = ? and value = ? and pictures = 0",
        [(field, value) for field, value, _ in changed],
    )


def _fields(connection: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """See `Store.fields`. Where a field's types are mixed, the commonest is described."""
    types = {"integer": "number", "real": "number", "text": "text", "blob": "boolean"}
    found: dict[str, dict[str, list[Any]]] = {}
    groups = "select field, typeof(value), sum(pictures), min(value), max(value) from tally group by 1, 2"
    for field, type, count, low, high in connection.execute(groups):
        entry = found.setdefault(field, {}).setdefault(types[type], [0, low, high])
        entry[:] = entry[0] + count, min(entry[1], low), max(entry[2], high)
    fields: dict[str, dict[str, Any]] = {}
    commonest = (
        "select value, pictures from tally where field = ? and typeof(value) = ? order by pictures desc, value limit 50"
    )
    for field, by_type in found.items():
        type, (_, low, high) = max(by_type.items(), key=lambda entry: entry[1][0])
        fields[field] = {"type": type, "count": sum(entry[0] for entry in by_type.values())}
        if type == "number":
            fields[field].update(min=low, max=high)
        else:
            rows = connection.execute(commonest, (field, "text" if type == "text" else "blob"))
            fields[field]["values"] = [[v if type == "text" else v == b"\1", n] for v, n in rows]
    return fields
