"""Slow and obvious: what the fast code is compared with."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np


def ranking_metrics(order: Sequence[int], right: set[int], ks: Sequence[int]) -> dict[str, float]:
    """Metrics of one query whose items come in this order."""
    rank = next(place for place, item in enumerate(order) if item in right)
    r = len(right)
    precisions = [sum(item in right for item in order[: k + 1]) / (k + 1) for k in range(r) if order[k] in right]
    return {f"r{k}": float(rank < k) for k in ks} | {
        "rank": rank,
        "map_at_r": sum(precisions) / r,
        "rprecision": sum(item in right for item in order[:r]) / r,
    }


def expected_metrics(scores: np.ndarray, right: set[int], ks: Sequence[int]) -> dict[str, float]:
    """The mean over every order in which equal scores may come; "rank" is the mean of the best and the worst."""
    values = sorted(set(scores.tolist()), reverse=True)
    blocks = [[int(i) for i in np.flatnonzero(scores == value)] for value in values]
    found = [
        ranking_metrics(list(itertools.chain(*orders)), right, ks)
        for orders in itertools.product(*(itertools.permutations(block) for block in blocks))
    ]
    result = {name: float(np.mean([f[name] for f in found])) for name in found[0]}
    ranks = [f["rank"] for f in found]
    return result | {"rank": (min(ranks) + max(ranks)) / 2}


def all_ranks(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Rank of the best right item of each row, ties split; `right` is a bool matrix of the same shape."""
    result = []
    for row, is_right in zip(scores, right):
        best = row[is_right].max()
        wrong = row[~is_right]
        result.append((wrong > best).sum() + (wrong == best).sum() / 2)
    return np.array(result)
