"""What of an embedded index is damaged, and getting rid of it without losing what is known of the items.

Damaged vectors can't be mended; they can be made again from the pictures and the texts. So the items they belong to are put
aside, into the table `lost`, and all others move to a new file, in one transaction: search finds what is whole, and never a
vector that is not. `Store.write` of an item that was put aside brings it back, whoever was killed in between.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from vsekit.search.items import Item
from vsekit.search.stores.base import Checked
from vsekit.search.stores.embedded import files, seal, tables
from vsekit.search.stores.embedded.database import CHECKSUMS, Database
from vsekit.search.stores.embedded.files import Damage
from vsekit.search.stores.rows import KINDS, from_doc

#: Made by the first repair.
LOST = "create table if not exists lost (id text primary key, kind text not null, doc text not null) without rowid"


def damage(connection: sqlite3.Connection, folder: Path, dim: int) -> Iterator[Damage]:
    """Of the vectors and the approximate indexes: bytes that are gone or are not what was written."""
    for file, slots, ann in connection.execute("select file, slots, ann from kinds").fetchall():
        size, least = _size(folder / file), slots * files.width(file, dim)
        covered = files.covered(connection, file)
        if covered:
            yield from files.damaged(connection, folder, file)
        if max(size, covered) < least:
            yield Damage(folder / file, max(size, covered), least)
        if ann and files.covered(connection, ann):
            yield from files.damaged(connection, folder, ann)
        elif ann and not (folder / ann).is_file():
            yield Damage(folder / ann, 0, 1)


def check(folder: Path) -> Checked:
    """See `Store.check`."""
    database = Database(folder)
    try:
        known = seal.check(folder, database)
        with database.snapshot() as connection:
            told = [row for (row,) in connection.execute("pragma quick_check(10)") if row != "ok"]
            damaged = list(damage(connection, folder, database.dim()))
            counts = dict(connection.execute("select kind, living from kinds").fetchall())
            waiting = len(lost(connection))
    finally:
        database.close()
    sentences = [f"{database.path}: {row}" for row in told]
    for file, found in itertools.groupby(damaged, key=lambda one: one.file):
        what = "is missing" if not file.is_file() else "is not what was written"
        places = ", ".join(f"{one.start:,}…{one.stop:,}" for one in found)
        sentences.append(f"{file} {what}: bytes {places}")
    notes = [] if known else [f"{database.path} has no checksum; the next vse index that ends gives it one."]
    return Checked(counts.get("image", 0), counts.get("caption", 0), sentences, waiting, notes)


def put_aside(connection: sqlite3.Connection, folder: Path, dim: int) -> list[str]:
    """Moves items with damaged vectors to `lost` and all others to new files; names of the old files, which nobody needs."""
    connection.execute(LOST)
    connection.execute(CHECKSUMS)
    stale = []
    for kind in KINDS:
        sql = "select file, slots from kinds where kind = ?"
        file, slots = connection.execute(sql, (kind,)).fetchone()
        bad = np.zeros(slots, dtype=bool)
        for found in damage(connection, folder, dim):
            if found.file.name == file:
                width = files.width(file, dim)
                bad[found.start // width : -(-found.stop // width)] = True
        if bad.any():
            _put_aside(connection, kind, np.flatnonzero(bad))
            new = tables.next_name(file)
            whole = np.flatnonzero(~bad)
            reach = int(whole[-1]) + 1 if len(whole) else 0
            vectors = files.map_vectors(folder / file, reach, dim)
            files.move(connection, folder, file, new, vectors, tables.move(connection, kind, new))
            stale.append(file)
    return stale


def _put_aside(connection: sqlite3.Connection, kind: str, slots: np.ndarray) -> None:
    ids = []
    for slot in slots.tolist():
        sql = "select id, kind, doc from items where kind = ? and slot = ?"
        row = connection.execute(sql, (kind, slot)).fetchone()
        if row is not None:  # a dead slot has no item
            connection.execute("insert or replace into lost values (?, ?, ?)", row)
            ids.append(row[0])
    tables.put(connection, [], [], ids)


def lost(connection: sqlite3.Connection) -> list[Item]:
    if not _has_lost(connection):
        return []
    return [from_doc(*row) for row in connection.execute("select id, kind, doc from lost order by id")]


def found_again(connection: sqlite3.Connection, ids: list[str]) -> None:
    """These items have vectors again, or are wanted no more."""
    if _has_lost(connection):
        connection.executemany("delete from lost where id = ?", [(id,) for id in ids])


def _has_lost(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("select 1 from sqlite_master where name = 'lost'").fetchone())


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
