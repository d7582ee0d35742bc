"""Looking through the pictures of the Milvus store. Milvus puts nothing in order: all pictures are read once after a change,
and the order is kept."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from vsekit.search.filters import Filter
from vsekit.search.items import Item, Place
from vsekit.search.stores.base import Store
from vsekit.search.stores.milvus.collection import Collection
from vsekit.search.stores.milvus.lease import Lease

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

    def mark(self, ids: Sequence[str], marks: Mapping[str, bool]) -> None:
        """As the writer; one that is at work is not waited for. The lease is given back at once."""
        mine = self._lease.held
        super().mark(ids, marks)
        if not mine:
            marker = self._collection.marker()
            fields = [marker["generation"], self.fields()]
            self._collection.set_marker({**marker, "fields": fields})
            self._lease.give_back(self._collection)
