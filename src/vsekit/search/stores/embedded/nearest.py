"""The vectors of one kind at one moment, and which of them may be the best of a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vsekit.search.stores import approximate, exact


@dataclass(frozen=True)
class View:
    """key: tells this state from others. vectors: (slots, dim). dead: rising slots. ann: the approximate index of the slots
    before `covered`, or None."""

    key: tuple[Any, ...]
    vectors: np.ndarray
    living: int
    dead: np.ndarray
    ann: Any
    covered: int
    probes: int
    depth: int


def candidates(
    view: View, queries: np.ndarray, top: int, rows: np.ndarray | None, approximate_above: int
) -> list[np.ndarray]:
    """For each query the slots that may be among its best; all of them where search is exact. Slots that the approximate
    index does not cover yet are searched exactly beside it. rows: those that pass the filter, all living."""
    living = view.living if rows is None else len(rows)
    if not living or not len(queries) or top < 1:
        return [np.empty(0, dtype=np.int64) for _ in queries]
    if view.ann is None or not view.probes or living <= approximate_above or top > living // 20:
        return _exact(view, queries, top, rows)
    among = None
    if rows is not None or len(view.dead):
        bits = np.full(len(view.vectors), rows is None)
        bits[view.dead if rows is None else rows] = rows is not None
        among = np.packbits(bits, bitorder="little")
    # Deeper answers, and answers among fewer, lie in more groups.
    deeper = max(1.0, top / approximate.TOP)
    probes = round(view.probes * deeper**0.5 * view.living / living)
    depth = round(view.depth * deeper**0.75)
    near = approximate.candidates(view.ann, queries, probes, depth, among)
    tail = view.vectors[view.covered :]
    if rows is None:
        far = exact.best(tail, queries, top, dead=view.dead[view.dead >= view.covered] - view.covered)
    else:
        far = exact.best(tail, queries, top, rows=rows[rows >= view.covered] - view.covered)
    far = [found + view.covered for found in far]
    return [np.concatenate(pair) for pair in zip(near, far)]


def _exact(view: View, queries: np.ndarray, top: int, rows: np.ndarray | None) -> list[np.ndarray]:
    if rows is None:
        return exact.best(view.vectors, queries, top, dead=view.dead)
    if 4 * len(rows) > len(view.vectors):
        outside = np.ones(len(view.vectors), dtype=bool)
        outside[rows] = False
        return exact.best(view.vectors, queries, top, dead=outside)
    return exact.best(view.vectors, queries, top, rows=rows)
