"""Looking through the pictures of the PostgreSQL store, and for words: an index holds them in order of their dates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vsekit.search.filters import Filter
from vsekit.search.items import MARKS, Item, Kind, Place, Value
from vsekit.search.stores.base import MADE_BEFORE, Store, with_marks
from vsekit.search.stores.postgres import statements, words
from vsekit.search.stores.postgres.connections import Connections
from vsekit.search.stores.rows import from_doc, to_doc
from vsekit.search.words import Phrase

if TYPE_CHECKING:
    from psycopg import Connection

DATED = """coalesce(case when jsonb_typeof(meta -> 'dated') = 'string' then meta ->> 'dated' end, '') collate "C\""""


class Browsing(Store):
    """The part of the store that is about this."""

    table: str
    _connections: Connections

    def version(self) -> str | None:
        sql = f"""select value from "{self.table}_about" where key = 'generation'"""
        row = self._connections.read(lambda connection: connection.execute(sql).fetchone())
        return row and str(row[0])

    def latest(self, top: int, *, after: Place | None = None, filter: Filter | None = None) -> list[Item]:
        where, params = statements.where(self.table, "image", filter)
        if after is not None:
            where, params = f"{where} and ({DATED}, id) < (%s, %s)", [*params, *after]
        sql = f'select id, kind, doc from "{self.table}" where {where} order by {DATED} desc, id desc limit %s'
        rows = self._connections.read(lambda connection: connection.execute(sql, [*params, top]).fetchall())
        return [from_doc(*row) for row in rows]

    def tally(self, field: str, *, filter: Filter | None = None, cut: int | None = None) -> list[tuple[str, int]]:
        where, params = statements.where(self.table, "image", filter)
        text = "meta ->> %s" if cut is None else f"left(meta ->> %s, {int(cut)})"
        sql = f"""select text, count(*) from (select {text} as text from "{self.table}" where {where}
            and jsonb_typeof(meta -> %s) = 'string') as texts where text <> '' group by 1 order by text collate "C\""""
        rows = self._connections.read(lambda connection: connection.execute(sql, [field, *params, field]).fetchall())
        return [(text, int(count)) for text, count in rows]

    @property
    def lacks_words(self) -> str | None:
        kept = self._connections.read(lambda connection: words.kept(connection, self.table))
        return None if kept else MADE_BEFORE

    def holders(self, phrase: Phrase, most: int, *, kind: Kind) -> list[str]:
        return self._connections.read(lambda connection: words.holders(connection, self.table, phrase, most, kind))

    def mark(self, ids: Sequence[str], marks: Mapping[str, bool]) -> None:
        """Beside a writer, whose lock is not needed: it leaves marks as they are."""
        with self._connections.write() as connection:
            sql = f'select id, kind, doc from "{self.table}" where id = any(%s) order by id for update'
            found = {row[0]: from_doc(*row) for row in connection.execute(sql, [list(ids)]).fetchall()}
            for id in dict.fromkeys(ids):
                meta = with_marks(found[id].meta, marks)
                connection.execute(
                    f'update "{self.table}" set doc = %s, meta = %s::jsonb where id = %s',
                    [to_doc(found[id], meta), json.dumps(meta), id],
                )
            count_write(connection, self.table)


def index_dates(connection: Connection[Any], table: str) -> None:
    """The index that `latest` reads, where it is not there yet."""
    connection.execute(
        f"""create index if not exists "{table}_dated" on "{table}" ({DATED}, id) where kind = 'image'"""
    )


def marks_of(connection: Connection[Any], table: str, ids: Sequence[str]) -> dict[str, dict[str, Value]]:
    """The marks of those that are there, which nobody changes until this transaction ends."""
    sql = f'select id, meta from "{table}" where id = any(%s) order by id for update'
    rows = connection.execute(sql, [list(ids)]).fetchall()
    return {id: {name: meta[name] for name in MARKS if name in meta} for id, meta in rows}


def count_write(connection: Connection[Any], table: str) -> None:
    """In one statement, since marks are written beside the writer."""
    connection.execute(
        f"""insert into "{table}_about" as about values ('generation', '1') on conflict (key)
        do update set value = (about.value::bigint + 1)::text"""
    )
