"""A store of plain dictionaries: the interface and nothing else, to test what is built on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vsekit.search.items import Item, Kind
from vsekit.search.stores.base import Found, Store


class MemoryStore(Store):
    """writes: how often something was written."""

    location = "memory"

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self._header: dict[str, Any] = {}
        self._items: dict[str, Item] = {}
        self._vectors: dict[str, np.ndarray] = {}
        self.writes = 0

    @property
    def header(self) -> dict[str, Any]:
        return dict(self._header)

    def set_header(self, header: Mapping[str, Any]) -> None:
        self._header = dict(header)

    def write(self, items: Sequence[Item], vectors: np.ndarray, deleted: Sequence[str] = ()) -> None:
        assert vectors.shape == (len(items), self.dim)
        assert vectors.dtype == np.float32
        assert not {item.id for item in items} & set(deleted)
        self.writes += 1
        for id_ in deleted:
            del self._items[id_], self._vectors[id_]
        for item, vector in zip(items, vectors):
            self._items[item.id], self._vectors[item.id] = item, vector.copy()

    def update(self, items: Sequence[Item]) -> None:
        self.writes += 1
        for item in items:
            assert item.id in self._items
            self._items[item.id] = item

    def items(self, ids: Sequence[str]) -> list[Item]:
        return [self._items[id_] for id_ in ids]

    def vectors(self, ids: Sequence[str]) -> np.ndarray:
        return np.stack([self._vectors[id_] for id_ in ids])

    def all_items(self, kind: Kind | None = None) -> Iterator[Item]:
        return iter([self._items[id_] for id_ in sorted(self._items) if kind in (None, self._items[id_].kind)])

    def count(self, kind: Kind | None = None, filter: Any = None) -> int:
        return sum(1 for _ in self.all_items(kind))

    def search(self, queries: np.ndarray, top: int, *, kind: Kind, filter: Any = None) -> list[Found]:
        ids = [item.id for item in self.all_items(kind)]
        scores = queries @ self.vectors(ids).T
        order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
        return [Found([ids[i] for i in row], values[row]) for row, values in zip(order, scores)]

    def fields(self) -> dict[str, dict[str, Any]]:
        return {}

    def close(self) -> None:
        pass
