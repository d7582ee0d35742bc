"""What an index holds of pictures while it is brought up to date, and what the next flush writes.

Everything here happens in one thread, but for `holder`: a store need not be used from several.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from vsekit.files import fingerprint
from vsekit.search.items import MARKS, Item, Value
from vsekit.search.metadata import FIELDS, file_meta, told_meta
from vsekit.search.pictures import IN_SHARD
from vsekit.search.stores.base import Store
from vsekit.search.walk import Seen

#: Seconds of work a kill may cost.
FLUSH_SECONDS = 3.0
#: Items read from the store at once.
ITEMS = 1000


@dataclass
class Report:
    """What was done. Numbers of pictures, but for those of captions.

    encoded: pictures the encoder read; those added or changed, but for copies.
    pictures, captions: in the index now. new_captions: added or changed.
    read: whose text was read, where that was asked for.
    repaired: whose stored vectors were damaged; made again from the pictures, captions from their texts.
    waiting: likewise, but their pictures are not there now: they are out of the index until they are.
    broken: pictures that can't be read, with the reason. unreadable: folders likewise; what the index holds of them stays.
    """

    added: int = 0
    changed: int = 0
    renamed: int = 0
    removed: int = 0
    unchanged: int = 0
    repaired: int = 0
    encoded: int = 0
    new_captions: int = 0
    read: int = 0
    pictures: int = 0
    captions: int = 0
    seconds: float = 0.0
    broken: dict[str, str] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Known(NamedTuple):
    """What the index knows of a picture."""

    id: str
    content: str
    size: int
    mtime_ns: int
    collection: Value | None


class Book:
    """known: the pictures of the index by path. moved: ids of those that lie elsewhere now. lost: pictures by path whose
    vectors were damaged."""

    def __init__(self, store: Store, report: Report) -> None:
        self.store, self.report = store, report
        self.known: dict[str, Known] = {}
        self.moved: set[str] = set()
        self.lost: dict[str, Item] = {}
        self.marks: dict[str, dict[str, Value]] = {}  # path → of pictures that are to come; see `search.marks`
        self._ids: set[str] = set()
        self._contents: dict[str, str] = {}  # content → id
        self._lock = Lock()
        # What the next flush writes.
        self.written: dict[str, tuple[Item, np.ndarray]] = {}
        self.updated: dict[str, Item] = {}
        self.deleted: list[str] = []
        self._flushed = time.monotonic()

    def open(self, lost: Sequence[Item] = ()) -> None:
        """Reads what the index holds. lost: see `Store.repair`."""
        self.lost = {item.path: item for item in lost if item.kind == "image"}
        self.marks = self.store.header.get("marks", {})
        self._ids |= {item.id for item in lost}
        for item in self.store.all_items("image"):
            if "dated" not in item.meta:  # of an index made before this was kept
                self.updated[item.id] = replace(item, meta={**told_meta(item.meta, item.mtime_ns), **item.meta})
            collection = item.meta.get("collection")
            self.known[item.path] = Known(item.id, item.content, item.size, item.mtime_ns, collection)
            self._contents[item.content] = item.id
            self._ids.add(item.id)

    def holder(self, content: str) -> str | None:
        """The id of a picture with these bytes. Any thread may ask."""
        with self._lock:
            return self._contents.get(content)

    def put(self, seen: Seen, content: str, meta: Mapping[str, Value], vector: np.ndarray) -> None:
        """Adds a picture, or replaces what was known of the file."""
        known, marks = self.known.get(seen.path), {}
        if known is None and seen.path in self.lost:
            self.report.repaired += 1
            marks = self.lost[seen.path].marks
            id_ = self.lost.pop(seen.path).id
        elif known is None:
            self.report.added += 1
            id_, marks = self._new_id(seen.path), self.marks.pop(seen.path, {})
        else:
            self.report.changed += 1
            id_, marks = known.id, self.item(known.id).marks
            self._forget(known)
        item = Item(
            id_,
            "image",
            picture=id_,
            width=int(meta["width"]),
            height=int(meta["height"]),
            content=content,
            meta={**meta, **marks},
        )
        self.written[id_] = (placed(item, seen), vector)
        self._know(seen, id_, content)

    def move(self, id_: str, seen: Seen) -> None:
        """The same bytes at another place or time."""
        item = placed(self.item(id_), seen)
        if id_ in self.written:
            self.written[id_] = (item, self.written[id_][1])
        else:
            self.updated[id_] = item
        self.moved.add(id_)
        self._know(seen, id_, item.content)

    def remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            known = self.known.pop(path)
            self._forget(known)
            self.deleted.append(known.id)
            self.report.removed += 1

    def _know(self, seen: Seen, id_: str, content: str) -> None:
        self.known[seen.path] = Known(id_, content, seen.size, seen.mtime_ns, seen.meta.get("collection"))
        with self._lock:
            self._contents[content] = id_

    def _forget(self, known: Known) -> None:
        with self._lock:
            if self._contents.get(known.content) == known.id:
                del self._contents[known.content]

    def _new_id(self, path: str) -> str:
        """Made from the path; from the path and a number where a renamed picture has that id."""
        id_, number = fingerprint(path), 1
        while id_ in self._ids:
            id_, number = fingerprint(path, number), number + 1
        self._ids.add(id_)
        return id_

    def item(self, id_: str) -> Item:
        if id_ in self.written:
            return self.written[id_][0]
        return self.updated.get(id_) or self.store.items([id_])[0]

    def vector(self, id_: str) -> np.ndarray:
        return self.written[id_][1] if id_ in self.written else self.store.vectors([id_])[0]

    def columns(self, pictures: list[Seen]) -> None:
        """The columns of a collection may change while its pictures stay."""
        pictures = [picture for picture in pictures if picture.path in self.known]
        self.flush()
        for at in range(0, len(pictures), ITEMS):
            part = pictures[at : at + ITEMS]
            for picture, item in zip(part, self.store.items([self.known[one.path].id for one in part])):
                now = placed(item, picture)
                if now != item:
                    self.updated[item.id] = now

    def flush_when_due(self) -> None:
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        if self.written or self.deleted:
            vectors = (
                np.stack([vector for _, vector in self.written.values()])
                if self.written
                else np.zeros((0, self.store.dim))
            )
            self.store.write([item for item, _ in self.written.values()], vectors.astype(np.float32), self.deleted)
        if self.updated:
            self.store.update(list(self.updated.values()))
        self.written, self.updated, self.deleted = {}, {}, []
        self._flushed = time.monotonic()


def placed(item: Item, seen: Seen) -> Item:
    """What is known of a picture, at another place or time. A collection's columns win, but for the size in pixels."""
    own = ("width", "height", *MARKS)
    columns = {f"column_{name}" if name in own else name: value for name, value in seen.meta.items()}
    found = {**kept(item), **file_meta(seen.path, seen.folder)}
    meta = {**found, **told_meta(found, seen.mtime_ns), **item.marks, **columns}
    return replace(item, path=seen.path, size=seen.size, mtime_ns=seen.mtime_ns, meta=meta)


def kept(item: Item) -> dict[str, Value]:
    """What the bytes of a picture say, wherever it lies."""
    return {name: item.meta[name] for name in FIELDS if name in item.meta}


def there(item: Item) -> Seen:
    """The picture of an item as it lies there now; OSError where it does not."""
    inside = IN_SHARD.fullmatch(item.path)
    shard = inside is not None and not os.path.exists(item.path)
    status = os.stat(inside[1] if inside is not None and shard else item.path)
    size = int(inside[3]) if inside is not None and shard else status.st_size
    folder = str(item.meta.get("folder", ""))
    own = {*FIELDS, *MARKS, *(found := file_meta(item.path, folder)), *told_meta({**item.meta, **found}, 0)}
    columns = {name: value for name, value in item.meta.items() if name not in own}
    return Seen(item.path, size, status.st_mtime_ns, folder, columns)
