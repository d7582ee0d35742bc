"""The words of the embedded store's items, in a table of SQLite's FTS5 beside `items`.

    words       rowid: the item's row; said: its `vsekit.search.words.stream`; picture: the id of the picture it belongs to

FTS5's own idea of a word is set aside: of its tokenizers `ascii` keeps what is given to it, words that spaces separate. The
table came later than the others. An index without it gets it, with all words, from its next writer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from vsekit.search.items import Item, Kind
from vsekit.search.stores.rows import from_doc
from vsekit.search.words import VERSION, Phrase, stream

TABLE = "create virtual table words using fts5 (said, picture unindexed, tokenize = 'ascii', columnsize = 0)"
#: Rows whose own words match, and those of pictures whose captions' do.
ROWS = """row in (select rowid from words where said match ? union
    select items.row from words join items on items.id = words.picture where said match ?)"""


def kept(connection: sqlite3.Connection) -> bool:
    """Whether the words of all items are there, as this version makes them."""
    row = connection.execute("select value from about where key = 'words'").fetchone()
    return row == (str(VERSION),)


def make(connection: sqlite3.Connection) -> None:
    """The table, with the words of all items, where it is not there; none where this SQLite has no FTS5."""
    if kept(connection):
        return
    connection.execute("drop table if exists words")
    try:
        connection.execute(TABLE)
    except sqlite3.OperationalError as error:
        if "fts5" not in str(error):
            raise
        return
    connection.execute("insert or replace into about values ('words', ?)", (str(VERSION),))
    rows = connection.execute("select row, id, kind, doc from items")
    _put(connection, ((row, from_doc(id, kind, doc)) for row, id, kind, doc in rows))


def put(connection: sqlite3.Connection, row: int | None, item: Item) -> None:
    """Of an item that has none yet."""
    if kept(connection):
        _put(connection, [(row, item)])


def _put(connection: sqlite3.Connection, items: Iterable[tuple[int | None, Item]]) -> None:
    connection.executemany(
        "insert into words (rowid, said, picture) values (?, ?, ?)",
        ((row, " ".join(stream(item)), item.picture or item.id) for row, item in items),
    )


def forget(connection: sqlite3.Connection, row: int) -> None:
    if kept(connection):
        connection.execute("delete from words where rowid = ?", (row,))


def matching(phrase: Phrase) -> str:
    """In FTS5's language. A word has no quotes in it, nor anything else that would mean something there."""
    return f'"{" ".join(phrase)}"'


def holders(connection: sqlite3.Connection, phrase: Phrase, most: int, kind: Kind) -> list[str]:
    """See `Store.holders`."""
    owned = "items.id = words.picture" if kind == "image" else "items.row = words.rowid"
    sql = f"""select distinct items.id from words cross join items on {owned}
        where said match ? and items.kind = ? limit ?"""
    return [id for (id,) in connection.execute(sql, (matching(phrase), kind, most))]
