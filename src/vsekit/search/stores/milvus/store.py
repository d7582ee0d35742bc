"""The Milvus store, for clusters: a collection with a partition for each kind of item.

    milvus://[user:password@]host:port/collection[?secure=true]

    key          id and generation, the primary key      doc          the item as JSON
    id, kind     of the item                             meta         its metadata, for filters (`filter.stored`), and its words
    generation   of the write that brought it            vector       indexed by size (`indexes`)

Ids and metadata are hexadecimal there, since Milvus' expressions can't quote every text; `doc` has them as they are.

Milvus has no transactions and readers see rows as they come. What makes a write one is a *marker* among the collection's
properties, which are set at once: the generation that counts, and the rows that don't any more. A write
1. inserts its rows under the next generation, which nobody looks at yet,
2. reads, with strong consistency, which rows they replace: then the new ones can be seen everywhere,
3. sets the marker: from now on the new rows count and the replaced ones don't,
4. deletes the replaced ones.
Killed before 3 it leaves rows that don't count, killed after it rows that are marked; the next writer removes both. A
reader looks at the marker before and after and reads again if it has changed. What Milvus can't give: a write of more than
`WHOLE` items is several; `all_items` sees each page of items whole, but what is written meanwhile may show in later pages;
and the lock against a second writer is a lease (`lease`).
"""

from __future__ import annotations

import heapq
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from vsekit.errors import UserError
from vsekit.search.filters import Filter
from vsekit.search.items import Item, Kind
from vsekit.search.stores.base import Found, UnreachableError
from vsekit.search.stores.milvus import bulk, collection, indexes, words
from vsekit.search.stores.milvus.browsing import Browsing
from vsekit.search.stores.milvus.collection import MARKER, among, both, counts, dim_of, fresh, item_of, reach, to_hex
from vsekit.search.stores.milvus.filter import condition as expression
from vsekit.search.stores.milvus.indexes import INDEXES, Index
from vsekit.search.stores.milvus.lease import Lease
from vsekit.search.stores.milvus.nearest import least_effort, nearest
from vsekit.search.stores.milvus.written import rows_of
from vsekit.search.stores.rows import KINDS, checked, ranked, summary
from vsekit.search.words import VERSION

WHOLE = 5000  # items or deletions in one write: the marker names those replaced, and must stay below 1 MB


class MilvusStore(Browsing):
    """See the module.

    Args:
        location: the address.
        create: the size of the vectors, to make the collection where there is none.
        rebuild: forget what is there, whatever the size of its vectors.
        table: Milvus' indexes by size. One is chosen when writing ends, and the effort it takes measured.
    """

    def __init__(
        self, location: str, create: int | None = None, *, rebuild: bool = False, table: Sequence[Index] = INDEXES
    ) -> None:
        self.location = location
        self._table = table
        self.batch = bulk.BATCH if bulk.folder_of(location) else self.batch
        self._lease = Lease()
        self._unclean = False  # whether a write of this process was not ended
        self._orders = OrderedDict()
        self._collection = reach(location)
        self._collection.take_back()
        if not self._collection.client.has_collection(self._collection.name):
            if create is None:
                raise UnreachableError(
                    f"there is no index in the collection '{self._collection.name}'",
                    remedy="Make one: vse index MODEL FOLDER --store milvus://host:port/NAME",
                )
            self._collection.create(create)
        description = self._collection.client.describe_collection(self._collection.name)
        if MARKER not in description["properties"]:
            raise UserError(
                f"the collection '{self._collection.name}' was not made by vsekit",
                remedy="Choose another name for the index.",
            )
        self.dim = dim_of(description)
        if rebuild and create is not None:
            self.rebuild(create)
        elif create not in (None, self.dim):
            raise UserError(
                f"the index in '{self._collection.name}' holds vectors of {self.dim}, not of {create}",
                remedy="It was made with another model. Use that one, or another collection.",
            )
        self._collection.rest()
        self._collection.complete()

    # Writing

    @property
    def header(self) -> dict[str, Any]:
        return dict(self._collection.marker()["header"])

    def set_header(self, header: Mapping[str, Any]) -> None:
        marker = self._writing()
        self._collection.set_marker({**marker, "header": dict(header)})

    def identity(self) -> str:
        return self._collection.identity()

    def lock(self) -> None:
        marker = self._writing()
        self._collection.check_size(self.dim)
        if marker.get("words") != VERSION:
            self._add_words()

    def _add_words(self) -> None:
        """To a collection that was made before: every row is written again."""
        items = self.all_items()
        while part := list(islice(items, collection.PAGE)):
            self._write(part, self.vectors([item.id for item in part]), [])
        self._collection.set_marker({**self._collection.marker(), "words": VERSION})

    def rebuild(self, dim: int) -> None:
        """A new collection, with this writer's lease, takes the place of the old one; see `Collection.replace`."""
        self._writing()
        self._collection.replace(dim, **self._lease.properties)
        self.dim = dim

    def _writing(self) -> dict[str, Any]:
        """Takes or renews the lease; on taking it, removes what a killed writer left, or a write of this process that
        failed. Gives the marker."""
        if not self._lease.due and not self._unclean:
            return self._collection.marker()
        first = self._lease.renew(self._collection) or self._unclean
        marker = self._collection.marker()
        if first:
            self._collection.clear()
            if marker.get("importing"):
                bulk.await_others(self._collection, self.location)
            self._collection.remove(marker["gone"])
            while left := self._collection.strong(f"generation > {marker['generation']}"):
                self._collection.remove(left)
            if marker["gone"] or marker.get("importing"):
                self._collection.set_marker(marker := {**marker, "gone": [], "importing": False})
            if indexes.present(self._collection) != (now := indexes.of(marker)).name:
                indexes.change(self._collection, now, self._renewed)
                marker = self._collection.marker()
            self._unclean = False
        return marker

    def _renewed(self) -> dict[str, Any]:
        """Renews the lease where it is due, in the middle of something. Gives the marker."""
        if self._lease.due:
            self._lease.renew(self._collection)
        return self._collection.marker()

    def write(self, items: Sequence[Item], vectors: np.ndarray, deleted: Sequence[str] = ()) -> None:
        items, vectors = checked(items, vectors, self.dim)
        self.lock()
        gone = sorted(set(deleted) - {item.id for item in items})
        if self._import(items, vectors, gone):
            return
        for start in range(0, max(len(items), len(gone), 1), WHOLE):
            part = slice(start, start + WHOLE)
            self._write(items[part], vectors[part], gone[part])

    def _import(self, items: Sequence[Item], vectors: np.ndarray, deleted: Sequence[str]) -> bool:
        """Many new items through files that the server reads (`bulk`); whether that was done."""
        if bulk.folder_of(self.location) is None or len(items) < bulk.LEAST or deleted:
            return False
        marker = self._writing()
        if self._collection.rows(marker, [item.id for item in items], []):
            return False  # the marker can't name so many that are replaced
        generation = marker["generation"] + 1
        self._unclean = True
        self._collection.set_marker(marker := {**marker, "importing": True})
        bulk.insert(self._collection, self.location, rows_of(items, vectors, generation), self._renewed)
        self._collection.await_rows(generation, len(items))
        now = int(1000 * time.time())
        self._collection.set_marker({**marker, "generation": generation, "time": now, "gone": [], "importing": False})
        self._unclean = False
        return True

    def _write(self, items: Sequence[Item], vectors: np.ndarray, deleted: Sequence[str]) -> None:
        marker = self._writing()
        generation = marker["generation"] + 1
        self._unclean = True
        for kind, new in rows_of(items, vectors, generation).items():
            for start in range(0, len(new), collection.PAGE):
                self._collection.client.insert(
                    self._collection.name, new[start : start + collection.PAGE], partition_name=kind
                )
        ids = [to_hex(id) for id in (*deleted, *(item.id for item in items))]
        replaced = []
        for start in range(0, max(len(ids), 1), collection.PAGE):
            condition = both(among(ids[start : start + collection.PAGE]), f"generation < {generation}")
            replaced += self._collection.strong(condition)
        # What the last write marked was deleted before this read, so it needs no mark any more.
        replaced = sorted(set(replaced) - set(marker["gone"]))
        now = int(1000 * time.time())
        self._collection.set_marker({**marker, "generation": generation, "time": now, "gone": replaced})
        self._collection.remove(replaced)
        self._unclean = False

    def update(self, items: Sequence[Item]) -> None:
        items = list({item.id: item for item in items}.values())
        ids = [item.id for item in items]
        rows = self._collection.whole(lambda marker: self._collection.rows(marker, ids, ["kind", "vector"]))
        for item in items:
            if item.id not in rows or rows[item.id]["kind"] != item.kind:
                raise KeyError(item.id)
        vectors = [rows[item.id]["vector"] for item in items]
        self.write(items, np.array(vectors, dtype=np.float32).reshape(len(items), self.dim))

    # Reading

    def items(self, ids: Sequence[str]) -> list[Item]:
        rows = self._collection.whole(lambda marker: self._collection.rows(marker, ids, ["kind", "doc"]))
        return [item_of(rows[id]) for id in ids]

    def vectors(self, ids: Sequence[str]) -> np.ndarray:
        rows = self._collection.whole(lambda marker: self._collection.rows(marker, ids, ["vector"]))
        return np.array([rows[id]["vector"] for id in ids], dtype=np.float32).reshape(len(ids), self.dim)

    def all_items(self, kind: Kind | None = None) -> Iterator[Item]:
        streams = [
            (
                item_of(row)
                for rows in self._collection.pages(self._collection.marker, "", ["kind", "doc"], k)
                for row in rows
            )
            for k in KINDS
            if kind in (None, k)
        ]
        yield from heapq.merge(*streams, key=lambda item: item.id)

    def _passing(self, marker: Mapping[str, Any], kind: Kind, filter: Filter) -> list[str]:
        """The ids, as Milvus has them, of items that pass a filter which Milvus can't express."""
        pages = self._collection.pages(lambda: marker, "", ["kind", "doc"], kind)
        items = (item_of(row) for rows in pages for row in rows)
        return [to_hex(item.id) for item in items if filter.matches({**item.meta, words.ID: item.id})]

    def count(self, kind: Kind | None = None, filter: Filter | None = None) -> int:
        kinds = [k for k in KINDS if kind in (None, k)]
        filter = self._by_ids(filter)
        condition = "" if filter is None else expression(filter)
        if filter is not None and condition is None:
            return self._collection.whole(lambda marker: sum(len(self._passing(marker, k, filter)) for k in kinds))

        def count(marker: dict[str, Any]) -> int:
            rows = self._collection.client.query(
                self._collection.name,
                filter=both(counts(marker), condition or ""),
                output_fields=["count(*)"],
                partition_names=kinds,
                **fresh(marker),
            )
            return int(rows[0]["count(*)"])

        return self._collection.whole(count)

    def fields(self) -> dict[str, dict[str, Any]]:
        return self._collection.whole(self._described)

    def _described(self, marker: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        if marker["fields"] is None or marker["fields"][0] != marker["generation"]:
            pages = self._collection.pages(lambda: marker, "", ["kind", "doc"], "image")
            return summary(item_of(row).meta for rows in pages for row in rows)
        described: dict[str, dict[str, Any]] = marker["fields"][1]
        return described

    # Searching

    def search(self, queries: np.ndarray, top: int, *, kind: Kind, filter: Filter | None = None) -> list[Found]:
        given = filter
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.dim:
            raise ValueError(f"queries of shape {queries.shape} for vectors of {self.dim}")
        if top < 1 or not len(queries):
            return [Found([], np.empty(0, dtype=np.float32)) for _ in queries]

        def look(marker: dict[str, Any]) -> list[Found]:
            self._collection.check_size(self.dim)
            filter = self._by_ids(given)
            condition = "" if filter is None else expression(filter)
            if filter is None or condition is not None:
                return nearest(self._collection, marker, queries, top, kind, condition or "")
            ids = self._passing(marker, kind, filter)
            parts = [
                nearest(self._collection, marker, queries, top, kind, among(ids[start : start + WHOLE]))
                for start in range(0, len(ids), WHOLE)
            ]
            merged = []
            for i in range(len(queries)):
                values = [part[i].scores for part in parts] or [np.empty(0, dtype=np.float32)]
                merged.append(Found(*ranked([id for part in parts for id in part[i].ids], np.concatenate(values), top)))
            return merged

        return self._collection.whole(look)

    def close(self) -> None:
        """After writing: measures the effort where it is due, and gives the lease back."""
        if self._lease.held:
            marker = self._writing()
            self._collection.strong("generation < 0")  # until the last deletion can be seen everywhere
            marker, effort = self._indexed(marker)
            fields = [marker["generation"], self._described(marker)]
            self._collection.set_marker({**marker, "gone": [], "effort": effort, "fields": fields})
            self._lease.give_back(self._collection)
        self._collection.client.close()

    def _indexed(self, marker: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        """Gives the collection the index for its size; the marker, and the effort for each kind that has many items."""
        sizes = {kind: self.count(kind) for kind in KINDS}
        now = indexes.of(marker)
        index = indexes.wanted(self._table, now, max(sizes.values()))
        if not index.lists:
            return marker, {}
        self._collection.client.flush(self._collection.name)
        if index.name != now.name:
            indexes.change(self._collection, index, self._renewed)
        else:
            indexes.built(self._collection, self._renewed)
        marker = self._renewed()
        many = [kind for kind in KINDS if sizes[kind] > self._table[1].above]
        return marker, {kind: least_effort(self._collection, marker, kind) for kind in many}
