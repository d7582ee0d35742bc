"""Looking through the pictures of the embedded store, and for words: its table meta is kept in order of field and value."""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from vsekit.search.filters import Filter
from vsekit.search.items import Item, Kind, Place
from vsekit.search.stores.base import MADE_BEFORE, Store, with_marks
from vsekit.search.stores.embedded import tables, words
from vsekit.search.stores.embedded.database import Database
from vsekit.search.stores.embedded.filter import TEXT, condition
from vsekit.search.stores.rows import from_doc
from vsekit.search.words import Phrase

ABSENT = 4096  # phrases of which it is remembered that nothing holds them
DATED = f"select row from meta where field = 'dated'{TEXT} and value > ''"


class Browsing(Store):
    """The part of the store that is about this."""

    _database: Database
    _fields: tuple[str, dict[str, dict[str, Any]]] = ("", {})  # the state it is true of, and what filters may ask about
    _absent: tuple[str | None, set[tuple[Kind, Phrase]]] = ("", set())  # the state it is true of, and what is not there

    @abstractmethod
    def _unseal(self) -> None:
        """The database is about to change, see `seal`."""

    def version(self) -> str | None:
        return self._database.about("generation")

    def fields(self) -> dict[str, dict[str, Any]]:
        with self._database.snapshot() as connection:
            generation = self._database.about("generation") or ""
            if self._fields[0] != generation:
                self._fields = generation, tables.fields(connection)
        return self._fields[1]

    def latest(self, top: int, *, after: Place | None = None, filter: Filter | None = None) -> list[Item]:
        with self._database.snapshot() as connection:
            found = [] if after and not after[0] else _dated(connection, top, after, filter)
            if len(found) < top:
                last = after[1] if after and not after[0] else None
                found += _undated(connection, top - len(found), last, filter)
        return [from_doc(*row) for row in found]

    def tally(self, field: str, *, filter: Filter | None = None, cut: int | None = None) -> list[tuple[str, int]]:
        text = "value" if cut is None else f"substr(value, 1, {int(cut)})"
        params: list[object] = [field]
        of_field = f"field = ?{TEXT} and value > ''"
        if filter is None:
            sql = f"select {text}, sum(pictures) from tally where {of_field} group by 1 order by 1"
        else:
            passing, given = condition(filter)
            params += given
            sql = f"""select {text}, count(*) from (select value, row from meta where {of_field} and {passing}) as m
                cross join items on items.row = m.row where kind = 'image' group by 1 order by 1"""
        with self._database.snapshot() as connection:
            return [(text, int(pictures)) for text, pictures in connection.execute(sql, params)]

    @property
    def lacks_words(self) -> str | None:
        with self._database.snapshot() as connection:
            return None if words.kept(connection) else MADE_BEFORE

    def holders(self, phrase: Phrase, most: int, *, kind: Kind) -> list[str]:
        with self._database.snapshot() as connection:
            return words.holders(connection, phrase, most, kind) if words.kept(connection) else []

    def held(self, phrases: Sequence[Phrase], most: int, *, kind: Kind) -> dict[Phrase, list[str]]:
        """In one look, but for phrases that are known to be in nothing: most words of most queries."""
        version, absent = self._absent
        if version == self.version() and absent.issuperset((kind, phrase) for phrase in phrases):
            return {}
        with self._database.snapshot() as connection:
            if not words.kept(connection):
                return {}
            now = self.version()
            if now != version or len(absent) > ABSENT:
                self._absent = now, (absent := set())
            found = {
                phrase: [] if (kind, phrase) in absent else words.holders(connection, phrase, most, kind)
                for phrase in phrases
            }
        absent.update((kind, phrase) for phrase, ids in found.items() if not ids)
        return found

    def mark(self, ids: Sequence[str], marks: Mapping[str, bool]) -> None:
        """Beside a writer, whose lock is not needed: it leaves marks as they are."""
        tally: Counter[tuple[str, object]] = Counter()
        with self._database.transaction() as connection:
            self._unseal()
            found = tables.rows(connection, ids)
            for id in dict.fromkeys(ids):
                row, kind, _, doc = found[id]
                item = from_doc(id, kind, doc)
                tables.replace(connection, row, doc, item, with_marks(item.meta, marks), tally)
            tables.add_up(connection, tally)
            connection.execute("update about set value = value + 1 where key = 'generation'")


def _passing(filter: Filter | None) -> tuple[str, list[object]]:
    return ("true", []) if filter is None else condition(filter)


def _dated(
    connection: sqlite3.Connection, top: int, after: Place | None, filter: Filter | None
) -> list[tuple[str, ...]]:
    passing, params = _passing(filter)
    before = " and value <= ?" if after else ""
    sql = f"""select id, kind, doc from
        (select value, row from meta where field = 'dated'{TEXT} and value > ''{before} and {passing}) as m
        cross join items on items.row = m.row
        where kind = 'image'{" and (m.value < ? or id < ?)" if after else ""} order by m.value desc, id desc limit ?"""
    return connection.execute(sql, [*(after[:1] if after else ()), *params, *(after or ()), top]).fetchall()


def _undated(
    connection: sqlite3.Connection, top: int, last: str | None, filter: Filter | None
) -> list[tuple[str, ...]]:
    passing, params = _passing(filter)
    sql = f"""select id, kind, doc from items where kind = 'image' and row not in ({DATED}) and {passing}
        {"and id < ?" if last is not None else ""} order by id desc limit ?"""
    return connection.execute(sql, [*params, *([] if last is None else [last]), top]).fetchall()
