"""Items and their metadata in the embedded store's tables (`database`)."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vsekit.search.items import Item, Kind, Value
from vsekit.search.stores.embedded import words
from vsekit.search.stores.embedded.filter import stored
from vsekit.search.stores.rows import clean_meta, from_doc, marked, ranked, to_doc

CHUNK = 500  # ids in one statement
SHOWN = 100  # items that are read with their ids


def rows(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, tuple[int, str, int, str]]:
    """id → row, kind, slot, doc of those that are there."""
    found = {}
    unique = list(dict.fromkeys(ids))
    for start in range(0, len(unique), CHUNK):
        part = unique[start : start + CHUNK]
        places = ", ".join("?" * len(part))
        for id, *rest in connection.execute(f"select id, row, kind, slot, doc from items where id in ({places})", part):
            found[id] = tuple(rest)
    return found


def put(connection: sqlite3.Connection, items: Sequence[Item], slots: Sequence[int], deleted: Sequence[str]) -> None:
    """Adds items, whose vectors lie in these slots, or replaces those of the same id, and deletes others."""
    old = rows(connection, [*deleted, *(item.id for item in items)])
    tally: Counter[tuple[str, object]] = Counter()
    for row, was, slot, doc in old.values():
        connection.execute("insert into dead values (?, ?)", (was, slot))
        connection.execute("update kinds set living = living - 1 where kind = ?", (was,))
        _forget(connection, row, was, doc, tally)
    added = {item.id for item in items}
    gone = [(old[id][0],) for id in dict.fromkeys(deleted) if id in old and id not in added]
    connection.executemany("delete from items where row = ?", gone)
    for item, slot in zip(items, slots):
        meta = clean_meta(item.meta)
        if item.id in old:
            meta = marked(meta, json.loads(old[item.id][3])[-1])
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
        _remember(connection, place, item, meta, tally)
    add_up(connection, tally)


def update(connection: sqlite3.Connection, items: Sequence[Item]) -> None:
    """Replaces what is known of items; KeyError for one that is not there, or as another kind."""
    old = rows(connection, [item.id for item in items])
    tally: Counter[tuple[str, object]] = Counter()
    for item in {item.id: item for item in items}.values():
        if item.id not in old or old[item.id][1] != item.kind:
            raise KeyError(item.id)
        row, _, _, doc = old[item.id]
        replace(connection, row, doc, item, marked(clean_meta(item.meta), json.loads(doc)[-1]), tally)
    add_up(connection, tally)


def replace(
    connection: sqlite3.Connection, row: int, doc: str, item: Item, meta: Mapping[str, Value], tally: Counter[Any]
) -> None:
    """What is known of an item, in place of `doc`; `add_up` must follow."""
    _forget(connection, row, item.kind, doc, tally)
    connection.execute("update items set doc = ? where row = ?", (to_doc(item, meta), row))
    _remember(connection, row, item, meta, tally)


def move(connection: sqlite3.Connection, kind: str, file: str) -> list[int]:
    """Gives the living of a kind the first slots of a new file, which has no others; the slots they had, in that order."""
    sql = "select slot, row from items where kind = ? order by slot"
    living = connection.execute(sql, (kind,)).fetchall()
    # In rising order a slot only ever moves to one that is free by then.
    moves = [(slot, row) for slot, (_, row) in enumerate(living)]
    connection.executemany("update items set slot = ? where row = ?", moves)
    connection.execute("delete from dead where kind = ?", (kind,))
    connection.execute(
        "update kinds set file = ?, slots = living, ann = null, covered = 0, probes = 0 where kind = ?", (file, kind)
    )
    return [slot for slot, _ in living]


def clear(connection: sqlite3.Connection, dim: int, ending: str) -> None:
    """An index of vectors of this size with nothing in it, whose files have new names with this ending."""
    for table in ("items", "meta", "tally", "dead", "checksums"):
        connection.execute(f"delete from {table}")
    connection.execute("delete from about where key = 'words'")
    words.make(connection)
    connection.execute("update about set value = ? where key = 'dim'", (str(dim),))
    connection.execute("update about set value = '{}' where key = 'header'")
    for kind, file in connection.execute("select kind, file from kinds").fetchall():
        connection.execute(
            "update kinds set file = ?, slots = 0, living = 0, ann = null, covered = 0, probes = 0 where kind = ?",
            (next_name(file, ending), kind),
        )


def next_name(file: str, ending: str = "") -> str:
    """image-0.f32 → image-1.f32. ending: another one."""
    stem, dot, old = file.rpartition(".")
    kind, _, number = stem.rpartition("-")
    return f"{kind}-{int(number) + 1}{ending or dot + old}"


def ranked_at(
    connection: sqlite3.Connection, kind: Kind, slots: np.ndarray, values: np.ndarray, top: int
) -> tuple[list[str], np.ndarray, list[Item] | None]:
    """The best `top` of the items in these slots, best first: ids, values, and where they are few the items themselves, most of
    which will be shown."""
    if top > SHOWN:
        ids = [id for (id,) in _columns(connection, "id", kind, slots)]
        return *ranked(ids, values, top), None
    docs: dict[str, str] = dict(_columns(connection, "id, doc", kind, slots))
    best, values = ranked(list(docs), values, top)
    return best, values, [from_doc(id, kind, docs[id]) for id in best]


def _columns(connection: sqlite3.Connection, names: str, kind: str, slots: np.ndarray) -> Iterator[tuple[Any, ...]]:
    """Of the items in these slots, in their sequence."""
    found: dict[int, tuple[Any, ...]] = {}
    for start in range(0, len(slots), CHUNK):
        part = slots[start : start + CHUNK].tolist()
        sql = f"select slot, {names} from items where kind = ? and slot in ({', '.join('?' * len(part))})"
        for row in connection.execute(sql, (kind, *part)):
            found[row[0]] = row[1:]
    return (found[slot] for slot in slots.tolist())


def _entries(meta: Mapping[str, Value]) -> Iterable[tuple[str, object]]:
    return ((name, stored(value)) for name, value in meta.items())


def _remember(
    connection: sqlite3.Connection, row: int | None, item: Item, meta: Mapping[str, Value], tally: Counter[Any]
) -> None:
    connection.executemany("insert into meta values (?, ?, ?)", [(*entry, row) for entry in _entries(meta)])
    words.put(connection, row, dataclasses.replace(item, meta=meta))
    if item.kind == "image":
        tally.update(_entries(meta))


def _forget(connection: sqlite3.Connection, row: int, kind: str, doc: str, tally: Counter[Any]) -> None:
    meta = json.loads(doc)[-1]
    words.forget(connection, row)
    connection.executemany(
        "delete from meta where field = ? and value = ? and row = ?", [(*entry, row) for entry in _entries(meta)]
    )
    if kind == "image":
        tally.subtract(_entries(meta))


def add_up(connection: sqlite3.Connection, tally: Counter[Any]) -> None:
    changed = [(field, value, n) for (field, value), n in tally.items() if n]
    connection.executemany(
        "insert into tally values (?, ?, ?) on conflict do update set pictures = pictures + excluded.pictures", changed
    )
    connection.executemany(
        "delete from tally where field = ? and value = ? and pictures = 0",
        [(field, value) for field, value, _ in changed],
    )


def fields(connection: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """See `Store.fields`. Where a field's types are mixed, the commonest is described."""
    types = {"integer": "number", "real": "number", "text": "text", "blob": "boolean"}
    found: dict[str, dict[str, list[Any]]] = {}
    groups = "select field, typeof(value), sum(pictures), min(value), max(value) from tally group by 1, 2"
    for field, type, count, low, high in connection.execute(groups):
        entry = found.setdefault(field, {}).setdefault(types[type], [0, low, high])
        entry[:] = entry[0] + count, min(entry[1], low), max(entry[2], high)
    described: dict[str, dict[str, Any]] = {}
    commonest = (
        "select value, pictures from tally where field = ? and typeof(value) = ? order by pictures desc, value limit 50"
    )
    for field, by_type in found.items():
        type, (_, low, high) = max(by_type.items(), key=lambda entry: entry[1][0])
        described[field] = {"type": type, "count": sum(entry[0] for entry in by_type.values())}
        if type == "number":
            described[field].update(min=low, max=high)
        else:
            common = connection.execute(commonest, (field, "text" if type == "text" else "blob"))
            described[field]["values"] = [[v if type == "text" else v == b"\1", n] for v, n in common]
    return described
