"""The PostgreSQL store: one table in a database of yours, with pgvector.

    postgresql://user@host/database?table=name       any libpq address; the table is called "vsekit" unless named

    name         id, kind, doc (the item as JSON), meta (jsonb, for filters), vector, words, picture (`words`)
    name_about   key, value: the size of vectors, the header, how hard to search

A write is one transaction. Below `approximate_above` vectors of a kind search reads them all; above, the writer's `close`
makes an HNSW index for the kind and measures, as `approximate` explains, which `hnsw.ef_search` queries from another
modality need.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vsekit.errors import UserError
from vsekit.search.filters import Filter
from vsekit.search.items import Item, Kind
from vsekit.search.stores import approximate
from vsekit.search.stores.base import Found, UnreachableError, WritingError
from vsekit.search.stores.postgres import statements, words
from vsekit.search.stores.postgres.browsing import Browsing, count_write, index_dates, marks_of
from vsekit.search.stores.postgres.connections import Connections, explained
from vsekit.search.stores.rows import KINDS, checked, clean_meta, from_doc, marked, ranked, scores, to_doc

if TYPE_CHECKING:
    from psycopg import Connection

SLACK = 16  # further candidates, since the last digits of PostgreSQL's scores are not those of `rows.scores`
LARGEST = 2000  # vectors that pgvector indexes; with larger ones search stays exact
FEW = 20_000  # that pass a filter: so many are read rather than looked for
EFFORTS = (100, 200, 400, 700, 1000)  # of hnsw.ef_search, whose most is 1000

#: How long a writer waits for another's lock.
LOCK_SECONDS = 2.0


class PostgresStore(Browsing):
    """See the module. Other threads may search at the same time.

    Args:
        location: the address, with `table=` among its parameters.
        create: the size of the vectors, to make the tables where there are none.
        rebuild: forget what is there, whatever the size of its vectors.
        approximate_above: with more vectors of a kind than this, search is approximate.
    """

    def __init__(
        self, location: str, create: int | None = None, *, rebuild: bool = False, approximate_above: int = 200_000
    ) -> None:
        self.location = location
        self.approximate_above = approximate_above
        self._writer = False
        self._fields: tuple[str, dict[str, dict[str, Any]]] = ("", {})
        address, self.table = statements.split(location)
        with statements.connect(address) as connection, explained():
            if create is not None:
                self._create(connection, create)
            elif connection.execute("select to_regclass(%s)", [f'"{self.table}_about"']).fetchone() == (None,):
                raise UnreachableError(
                    f"there is no index in the table '{self.table}' of this database",
                    remedy="Make one: vse index MODEL FOLDER --store postgresql://…?table=NAME",
                )
        self._connections = Connections(address)
        try:
            self.dim = int(self._about("dim", "0"))
            if rebuild and create is not None:
                self.rebuild(create)
            elif create not in (None, self.dim):
                raise UserError(
                    f"the index in '{self.table}' holds vectors of {self.dim}, not of {create}",
                    remedy="It was made with another model. Use that one, or another table.",
                )
        except BaseException:
            self._connections.close()
            raise

    def _create(self, connection: Connection[Any], dim: int) -> None:
        import psycopg

        with connection.transaction():
            # Two that make the same table at once would trip over each other.
            connection.execute("select pg_advisory_xact_lock(hashtext(%s))", [f"create {self.table}"])
            try:
                connection.execute("create extension if not exists vector")
            except psycopg.Error as error:
                raise UserError(
                    f"this database has no pgvector: {str(error).strip()}",
                    remedy="Install pgvector on the server, and have its administrator run: create extension vector",
                ) from None
            connection.execute(f"""
                create table if not exists "{self.table}" (id text collate "C" primary key, kind text not null,
                doc text not null, meta jsonb not null, vector vector({int(dim)}) not null)""")
            connection.execute(f"""
                create index if not exists "{self.table}_kind" on "{self.table}" (kind)""")
            index_dates(connection, self.table)
            connection.execute(f"""
                create table if not exists "{self.table}_about" (key text primary key, value text not null)""")
            about = f'insert into "{self.table}_about" values (%s, %s) on conflict do nothing'
            connection.execute(about, ["dim", str(dim)])

    @contextmanager
    def _transaction(self) -> Iterator[Connection[Any]]:
        """Of the writer. The first takes a lock that its connection keeps."""
        self.lock()
        with self._connections.write() as connection:
            yield connection
            count_write(connection, self.table)

    def identity(self) -> str:
        oid = self._value("select to_regclass(%s)::oid", [f'"{self.table}"'])
        if oid is None:
            raise UnreachableError(f"the table '{self.table}' is gone", remedy="Make it again with vse index.")
        return f"{oid} {self._about('dim', '0')}"

    def lock(self) -> None:
        first = not self._writer
        self._take_lock()
        self._same_size()
        if first:
            with self._connections.write() as connection:  # of tables made before this was thought of
                index_dates(connection, self.table)
                words.make(connection, self.table)

    def _take_lock(self) -> None:
        if not self._writer and not self._locked():
            raise WritingError(
                f"another process is writing to the index in '{self.table}'",
                remedy="Wait until it has finished; searching goes on meanwhile.",
            )
        self._writer = True

    def _same_size(self) -> None:
        dim = int(self._about("dim", "0"))
        if dim != self.dim:
            raise UserError(
                f"the index in '{self.table}' was made anew: it holds vectors of {dim} now, not of {self.dim}",
                remedy="Open it again, with its new model.",
            )

    def rebuild(self, dim: int) -> None:
        self._take_lock()
        with self._connections.write() as connection:
            generation = int(self._about("generation", "0")) + 1
            for kind in KINDS:
                connection.execute(f'drop index if exists "{self.table}_{kind}_hnsw"')
            connection.execute(f'truncate "{self.table}", "{self.table}_about"')
            connection.execute(f'alter table "{self.table}" alter column vector type vector({int(dim)})')
            about = {"dim": str(dim), "generation": str(generation)}
            for key, value in about.items():
                self._set_about(connection, key, value)
            words.make(connection, self.table)
        self.dim = dim

    def _locked(self) -> bool:
        """Tries for a moment: the server takes one to notice that a writer before this one was killed."""
        until = time.monotonic() + LOCK_SECONDS
        while True:
            with self._connections.write() as writer:
                row = writer.execute("select pg_try_advisory_lock(hashtext(%s))", [f"write {self.table}"]).fetchone()
            if row == (True,):
                return True
            if time.monotonic() > until:
                return False
            time.sleep(0.05)

    def _value(self, sql: str, params: Sequence[object] = ()) -> Any:
        row = self._connections.read(lambda connection: connection.execute(sql, params).fetchone())
        return row and row[0]

    def _about(self, key: str, default: str) -> str:
        value = self._value(f'select value from "{self.table}_about" where key = %s', [key])
        return default if value is None else str(value)

    def _set_about(self, connection: Connection[Any], key: str, value: str) -> None:
        connection.execute(
            f"""insert into "{self.table}_about" values (%s, %s) on conflict (key) do update set value = excluded.value""",
            [key, value],
        )

    @property
    def header(self) -> dict[str, Any]:
        header: dict[str, Any] = json.loads(self._about("header", "{}"))
        return header

    def set_header(self, header: Mapping[str, Any]) -> None:
        with self._transaction() as connection:
            self._set_about(connection, "header", json.dumps(dict(header)))

    def write(self, items: Sequence[Item], vectors: np.ndarray, deleted: Sequence[str] = ()) -> None:
        items, vectors = checked(items, vectors, self.dim)
        gone = set(deleted) - {item.id for item in items}
        with self._transaction() as connection:
            marks = marks_of(connection, self.table, [item.id for item in items])
            rows = []
            for item, vector in zip(items, vectors):
                meta = clean_meta(item.meta)
                if item.id in marks:
                    meta = marked(meta, marks[item.id])
                said, picture = words.vector(replace(item, meta=meta)), item.picture or item.id
                rows.append([item.id, item.kind, to_doc(item, meta), json.dumps(meta), vector, said, picture])
            connection.execute(f'delete from "{self.table}" where id = any(%s)', [sorted(gone)])
            connection.cursor().executemany(
                f"""insert into "{self.table}" (id, kind, doc, meta, vector, words, picture)
                values (%s, %s, %s, %s::jsonb, %s, %s::tsvector, %s) on conflict (id) do update set kind = excluded.kind,
                doc = excluded.doc, meta = excluded.meta, vector = excluded.vector, words = excluded.words,
                picture = excluded.picture""",
                rows,
            )

    def update(self, items: Sequence[Item]) -> None:
        with self._transaction() as connection:
            marks = marks_of(connection, self.table, [item.id for item in items])
            for item in items:
                meta = marked(clean_meta(item.meta), marks.get(item.id, {}))
                changed = connection.execute(
                    f'update "{self.table}" set doc = %s, meta = %s::jsonb where id = %s and kind = %s',
                    [to_doc(item, meta), json.dumps(meta), item.id, item.kind],
                )
                if not changed.rowcount:
                    raise KeyError(item.id)
            words.put(connection, self.table, items)

    def items(self, ids: Sequence[str]) -> list[Item]:
        sql = f'select id, kind, doc from "{self.table}" where id = any(%s)'
        rows = self._connections.read(lambda connection: connection.execute(sql, [list(ids)]).fetchall())
        found = {row[0]: from_doc(*row) for row in rows}
        return [found[id] for id in ids]

    def vectors(self, ids: Sequence[str]) -> np.ndarray:
        sql = f'select id, vector from "{self.table}" where id = any(%s)'
        rows = self._connections.read(lambda c: c.cursor(binary=True).execute(sql, [list(ids)]).fetchall())
        found = {id: vector.to_numpy() for id, vector in rows}
        return np.array([found[id] for id in ids], dtype=np.float32).reshape(len(ids), self.dim)

    def all_items(self, kind: Kind | None = None) -> Iterator[Item]:
        # A connection of its own, so that writes between two items don't end the snapshot.
        with (
            explained(),
            statements.connect(self._connections.address) as connection,
            connection.cursor("all_items") as cursor,
        ):
            cursor.itersize = 1000
            where, params = (" where kind = %s", [kind]) if kind else ("", [])
            cursor.execute(f'select id, kind, doc from "{self.table}"{where} order by id', params)
            for row in cursor:
                yield from_doc(*row)

    def count(self, kind: Kind | None = None, filter: Filter | None = None) -> int:
        where, params = statements.where(self.table, kind, filter)
        return int(self._value(f'select count(*) from "{self.table}" where {where}', params))

    def search(self, queries: np.ndarray, top: int, *, kind: Kind, filter: Filter | None = None) -> list[Found]:
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.dim:
            raise ValueError(f"queries of shape {queries.shape} for vectors of {self.dim}")
        if top < 1:
            return [Found([], np.empty(0, dtype=np.float32)) for _ in queries]

        def look(connection: Connection[Any]) -> list[Found]:
            self._same_size()
            effort = int(self._about(f"effort {kind}", "0"))
            if effort and filter is not None:
                # What passes lies scattered among what does not: few are read at once, many cost the most effort.
                effort = EFFORTS[-1] if self._passing(connection, kind, filter) > FEW else 0
            return [self._search(connection, query, top, kind, filter, effort) for query in queries]

        return self._connections.read(look)

    def _search(
        self, connection: Connection[Any], query: np.ndarray, top: int, kind: Kind, filter: Filter | None, effort: int
    ) -> Found:
        """effort: hnsw.ef_search; 0 reads every vector that passes the filter."""
        where, params = statements.where(self.table, kind, filter)
        statements.set_effort(connection, effort and min(EFFORTS[-1], max(effort, 2 * (top + SLACK))))
        sql = f'select id, vector from "{self.table}" where {where} order by vector <#> %s, id limit %s'
        rows = connection.cursor(binary=True).execute(sql, [*params, query, top + SLACK]).fetchall()
        vectors = np.array([vector.to_numpy() for _, vector in rows], dtype=np.float32).reshape(len(rows), self.dim)
        return Found(*ranked([id for id, _ in rows], scores(query, vectors), top))

    def _passing(self, connection: Connection[Any], kind: Kind, filter: Filter) -> int:
        """How many pass the filter, counted up to just more than `FEW`."""
        where, params = statements.where(self.table, kind, filter)
        sql = f'select count(*) from (select from "{self.table}" where {where} limit %s) as passing'
        row = connection.execute(sql, [*params, FEW + 1]).fetchone()
        return int(row[0]) if row else 0

    def fields(self) -> dict[str, dict[str, Any]]:
        def look(connection: Connection[Any]) -> dict[str, dict[str, Any]]:
            generation = self._about("generation", "0")
            if self._fields[0] != generation:
                stored = json.loads(self._about("fields", "[null]"))
                fields = stored[1] if stored[0] == generation else statements.fields(connection, self.table)
                self._fields = (generation, fields)
            return self._fields[1]

        return self._connections.read(look)

    def _index_where_due(self) -> None:
        if self.dim > LARGEST:
            return
        for kind in KINDS:
            name = f"{self.table}_{kind}_hnsw"
            if self.count(kind) <= self.approximate_above or self._value("select to_regclass(%s)", [f'"{name}"']):
                continue
            with self._transaction() as connection:
                connection.execute(
                    f"""create index "{name}" on "{self.table}" using hnsw (vector vector_ip_ops)
                    with (m = 24, ef_construction = 128) where kind = '{kind}'"""
                )
                connection.execute(f'analyze "{self.table}"')
                self._set_about(connection, f"effort {kind}", str(self._measured_effort(connection, kind)))

    def _measured_effort(self, connection: Connection[Any], kind: Kind) -> int:
        """The least of `EFFORTS` with which queries from outside find `approximate.TARGET` of their best; else 0."""
        cursor = connection.cursor(binary=True)
        sql = f'select vector from "{self.table}" where kind = %s order by md5(id) limit 4096'
        vectors = {
            k: np.array([v.to_numpy() for (v,) in cursor.execute(sql, [k])], dtype=np.float32).reshape(-1, self.dim)
            for k in KINDS
        }
        other = next(vectors[k] for k in KINDS if k != kind)
        queries = approximate.sample_queries(vectors[kind], np.arange(len(vectors[kind])), other, self.header)[:64]
        top = approximate.TOP
        truth = [set(self._search(connection, query, top, kind, None, 0).ids) for query in queries]
        for effort in EFFORTS:
            found = [self._search(connection, query, top, kind, None, effort).ids for query in queries]
            if sum(len(t & set(f)) for t, f in zip(truth, found)) >= approximate.TARGET * top * len(queries):
                return effort
        return 0

    def close(self) -> None:
        """After writing: makes the approximate index where it is due."""
        try:
            if self._writer and self._connections.can_write:
                self._index_where_due()
                fields = self.fields()  # takes a second with many items, which readers are spared
                with self._connections.write() as connection:
                    self._set_about(connection, "fields", json.dumps([self._fields[0], fields]))
        finally:
            self._connections.close()
