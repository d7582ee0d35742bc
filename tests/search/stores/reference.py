"""A store by brute force, and things to put into it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from vsekit.search.filters import And, Contains, Filter, Has, Like, Not, OneOf, Or, Order
from vsekit.search.items import Item, Kind

DIM = 8


class Reference(dict[str, tuple[Item, np.ndarray]]):
    """id → item and vector."""

    def write(self, items: Sequence[Item], vectors: np.ndarray, deleted: Sequence[str] = ()) -> None:
        for id in deleted:
            self.pop(id, None)
        self.update({item.id: (item, vector) for item, vector in zip(items, vectors)})

    def search(self, query: np.ndarray, top: int, kind: Kind, filter: Filter | None = None) -> list[tuple[str, float]]:
        scored = [
            (-float(query.astype(float) @ vector.astype(float)), item.id)
            for item, vector in self.values()
            if item.kind == kind and (filter is None or filter.matches(item.meta))
        ]
        return [(id, -score) for score, id in sorted(scored)[:top]]


def vectors(count: int, seed: int = 0, dim: int = DIM) -> np.ndarray:
    """With few different components, so that sums are exact in any order and many scores tie."""
    return np.random.default_rng(seed).integers(-2, 3, (count, dim)).astype(np.float32) / 4


def picture(number: int, **meta: str | int | float | bool) -> Item:
    return Item(
        f"p{number:04d}", "image", f"/photos/{number}.jpg", "", f"p{number:04d}", 640, 480, f"c{number}", 1000 + number,
        1_700_000_000_000_000_000 + number, meta,
    )  # fmt: skip


def caption(number: int, **meta: str | int | float | bool) -> Item:
    return Item(
        f"p{number:04d}#0", "caption", f"/photos/{number}.jpg", f"caption {number}", f"p{number:04d}", meta=meta
    )


# Few names and values, so that filters and metadata meet.
TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "b",
    "%",
    "_",
    "a*b",
    "a[b",
    "a\\b",
    "X100",
    "é",
    "e\u0301",
    "日本",
    "\U0001f600",
    "\uffff",
    "'",
    '"',
]
NUMBERS = [0, 1, -1, 2020, 0.5, 1.5, -0.25, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 1e300, 5e-324, 0.1]
names = st.sampled_from(["a", "b", "a b", 'q"', "x/y", "~", "ñ", "and", "", "a.b", "\\"])
texts = st.sampled_from(TEXTS) | st.text(alphabet="abAB%_*?[]\\é😀", max_size=4)
numbers = st.sampled_from(NUMBERS)
values = texts | numbers | st.booleans()
metas = st.dictionaries(names, values, max_size=4)

tests: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Has, names),
    st.builds(OneOf, names, st.lists(values, min_size=1, max_size=3).map(tuple)),
    st.builds(Order, names, st.sampled_from(["<", "<=", ">", ">="]), texts | numbers),
    st.builds(Contains, names, texts),
    st.builds(Like, names, texts),
)
filters: st.SearchStrategy[Filter] = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=4,
)
