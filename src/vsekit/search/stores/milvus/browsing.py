"""Looking through the pictures of the Milvus store, and for words. Milvus puts nothing in order: all pictures are read once after a
change, and the order is kept."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from vsekit.search.filters import Filter
from vsekit.search.items import Item, Kind, Place
from vsekit.search.stores.base import MADE_BEFORE, Store
from vsekit.search.stores.milvus import words
from vsekit.search.stores.milvus.collection import Collection
from vsekit.search.stores.milvus.lease import Lease
from vsekit.search.stores.rows import KINDS
from vsekit.search.words import VERSION, Phrase

KEPT = 4  # orders, of as many filters


class Browsing(Store):
    """The part of the store that is about this."""

    _collection: Collection
    _orders: OrderedDict[tuple[str | None, str], list[Place]]
    _lease: Lease

    def version(self) -> str | None:
        return str(self._collection.marker()["generation"])

    def latest(self, top: int, *, after: Place | None = None, filter: Filter | None = None) -> list[Item]:
        key = (self.version(), repr(filter))
        if key not in self._orders:
            self._orders[key] = sorted(item.place for item in self._pictures(filter))
            while len(self._orders) > KEPT:
                self._orders.popitem(last=False)
        order = self._orders[key]
        end = len(order) if after is None else bisect_left(order, after)
        return self.items([id for _, id in reversed(order[max(0, end - top) : end])])

    @property
    def lacks_words(self) -> str | None:
        return None if self._collection.marker().get("words") == VERSION else MADE_BEFORE

    def holders(self, phrase: Phrase, most: int, *, kind: Kind) -> list[str]:
        def look(marker: dict[str, Any]) -> list[str]:
            if marker.get("words") != VERSION:
                return []
            own: tuple[Kind, ...] = (kind,)
            found = dict.fromkeys(
                item.id for item in islice(words.holding(self._collection, marker, phrase, own), most)
            )
            if kind == "image":
                for item in words.holding(self._collection, marker, phrase, ("caption",)):
                    if len(found) >= most:
                        break
                    found[item.picture] = None
                there = self._collection.rows(marker, list(found), ["kind"])
                return [id for id in found if id in there and there[id]["kind"] == "image"]
            return list(found)

        return self._collection.whole(look)

    def _by_ids(self, filter: Filter | None) -> Filter | None:
        """A filter that Milvus can be asked, with ids in place of words."""
        if filter is None:
            return None

        def ids(phrase: Phrase) -> set[str]:
            return {id for kind in KINDS for id in self.holders(phrase, sys.maxsize, kind=kind)}

        return words.resolved(filter, ids)

    def _pictures(self, filter: Filter | None) -> Iterator[Item]:
        asked = self._by_ids(filter)
        passes = (
            (lambda item: True) if asked is None else (lambda item: asked.matches({**item.meta, words.ID: item.id}))
        )
        return (item for item in self.all_items("image") if passes(item))

    def mark(self, ids: Sequence[str], marks: Mapping[str, bool]) -> None:
        """As the writer; one that is at work is not waited for. The lease is given back at once."""
        mine = self._lease.held
        super().mark(ids, marks)
        if not mine:
            marker = self._collection.marker()
            fields = [marker["generation"], self.fields()]
            self._collection.set_marker({**marker, "fields": fields})
            self._lease.give_back(self._collection)
