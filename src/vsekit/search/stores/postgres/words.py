"""The words of the PostgreSQL store's items: a column of type tsvector with an index (GIN), and the picture they belong to.

PostgreSQL's own parsers and dictionaries are set aside: the words and their places are given as `vsekit.search.words` makes them,
so that all stores hold the same. A tsvector knows the first 16,383 places, and up to 256 of each word; what comes after is
held as a word, and not in phrases. The columns came later than the others: an index without them gets them, with all words,
from its next writer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vsekit.search.items import Item, Kind
from vsekit.search.stores.rows import from_doc
from vsekit.search.words import GAP, VERSION, Phrase, stream

if TYPE_CHECKING:
    from psycopg import Connection

PLACES = 16383
ITEMS = 1000  # at once


def vector(item: Item) -> str:
    """The tsvector, as PostgreSQL reads it. A word has no quotes in it, nor a backslash."""
    return " ".join(f"'{word}':{min(at, PLACES)}" for at, word in enumerate(stream(item), start=1) if word != GAP)


def query(phrase: Phrase) -> str:
    """The tsquery."""
    return " <-> ".join(f"'{word}'" for word in phrase)


def kept(connection: Connection[Any], table: str) -> bool:
    """Whether the words of all items are there, as this version makes them."""
    row = connection.execute(f"""select value from "{table}_about" where key = 'words'""").fetchone()
    return row == (str(VERSION),)


def make(connection: Connection[Any], table: str) -> None:
    """The columns and their index, with the words of all items, where they are not there."""
    if kept(connection, table):
        return
    connection.execute(
        f'alter table "{table}" add column if not exists words tsvector, add column if not exists picture text'
    )
    connection.execute(f'create index if not exists "{table}_words" on "{table}" using gin (words)')
    last, sql = "", f'select id, kind, doc from "{table}" where id > %s order by id limit {ITEMS}'
    while rows := connection.execute(sql, [last]).fetchall():
        put(connection, table, [from_doc(*row) for row in rows])
        last = rows[-1][0]
    connection.execute(
        f"""insert into "{table}_about" values ('words', %s) on conflict (key) do update set value = excluded.value""",
        [str(VERSION)],
    )


def put(connection: Connection[Any], table: str, items: Sequence[Item]) -> None:
    """Of items that are there."""
    connection.cursor().executemany(
        f'update "{table}" set words = %s::tsvector, picture = %s where id = %s',
        [(vector(item), item.picture or item.id, item.id) for item in items],
    )


def condition(table: str, phrase: Phrase) -> tuple[str, list[object]]:
    """Rows whose own words match, and those of pictures whose captions' do."""
    own = f'select id from "{table}" where words @@ %s::tsquery'
    captions = f"""select picture from "{table}" where kind = 'caption' and words @@ %s::tsquery"""
    return f"id in ({own} union all {captions})", [query(phrase), query(phrase)]


def holders(connection: Connection[Any], table: str, phrase: Phrase, most: int, kind: Kind) -> list[str]:
    """See `Store.holders`."""
    if not kept(connection, table):
        return []
    passing, params = condition(table, phrase)
    sql = f'select id from "{table}" where kind = %s and {passing} limit %s'
    return [id for (id,) in connection.execute(sql, [kind, *params, most]).fetchall()]
