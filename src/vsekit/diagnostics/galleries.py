"""Retrievals to look at: queries whose first answer is right, and queries whose first answer is wrong.

They are spread evenly over the split, so that what is seen is typical and not chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Retrieval:
    """query: its number; found: the best items, best first, with their scores and whether they are right.

    rank: of the best right item, from 1.
    """

    query: int
    found: list[int]
    scores: list[float]
    right: list[bool]
    rank: int


@dataclass(frozen=True)
class Gallery:
    """right, wrong: by the first answer; share: of queries whose first answer is right."""

    right: list[Retrieval]
    wrong: list[Retrieval]
    share: float


def gallery(scores: np.ndarray, groups: np.ndarray, item_groups: np.ndarray, count: int = 3, shown: int = 5) -> Gallery:
    """Args:

    scores: (queries, items): the score matrix for pictures that look for captions, its transpose the other way.
    groups, item_groups: of queries and items; queries without a right item are not asked.
    count: queries of each kind; shown: answers of each.
    """
    asked = np.flatnonzero(np.isin(groups, item_groups))
    hit = item_groups[scores.argmax(1)[asked]] == groups[asked]
    right, wrong = (
        [retrieval(scores[q], int(q), item_groups == groups[q], shown) for q in spread(asked[kind], count)]
        for kind in (hit, ~hit)
    )
    return Gallery(right, wrong, float(hit.mean()))


def retrieval(scores: np.ndarray, query: int, right: np.ndarray, shown: int) -> Retrieval:
    """The answers to one query: scores (items,), right (items,) bool."""
    order = np.argsort(-scores, kind="stable")
    found, rank = order[:shown], 1 + int(np.flatnonzero(right[order])[0])  # where it stands in this list, ties or not
    return Retrieval(query, found.tolist(), scores[found].tolist(), right[found].tolist(), rank)


def spread(values: np.ndarray, count: int) -> np.ndarray:
    """At most `count` of the values, evenly spread."""
    count = min(count, len(values))
    return values[[(2 * i + 1) * len(values) // (2 * count) for i in range(count)]]
