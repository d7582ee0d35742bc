"""Pictures that somebody has hidden are not found, nor are their captions, unless a filter asks about `hidden`."""

from __future__ import annotations

from vsekit.search.filters import And, Filter, Not, OneOf
from vsekit.search.stores.base import Store

HIDDEN = OneOf("hidden", (True,))
NOTHING: frozenset[str] = frozenset()


class Hiding:
    """What is hidden in a store; read again only when that has changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: tuple[str | None, frozenset[str]] = (None, NOTHING)

    def ids(self, filter: Filter | None) -> frozenset[str]:
        """Of the hidden pictures; none where the filter asks about that."""
        if filter is not None and "hidden" in filter.asked():
            return NOTHING
        version = self._store.version()
        if version is None or version != self._known[0]:
            count = self._store.count("image", HIDDEN)
            hidden = self._store.latest(count, filter=HIDDEN) if count else []
            self._known = (version, frozenset(item.id for item in hidden))
        return self._known[1]

    def without(self, filter: Filter | None) -> Filter | None:
        """The filter that leaves hidden pictures out."""
        return leaving_out(self.ids(filter), filter)


def leaving_out(hidden: frozenset[str], filter: Filter | None) -> Filter | None:
    """`Hiding.without` of what `Hiding.ids` gave."""
    if not hidden:
        return filter
    return Not(HIDDEN) if filter is None else And((filter, Not(HIDDEN)))
