"""All pairs of vectors that are near each other, in blocks: never a number for each pair at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vsekit.progress import Update

#: Pairs (i, j > i) of one i at most, the nearest: of ten thousand that are alike, each need not be tied to all.
MOST = 30


def near_pairs(
    unit: np.ndarray, threshold: float, *, block: int = 2048, progress: Update | None = None
) -> Iterator[tuple[int, int, float]]:
    """Pairs i < j of rows of `unit` (n, dim), of length 1, with their cosine where it is at least `threshold`."""
    for start in range(0, len(unit), block):
        rows = unit[start : start + block]
        pairs, cosines = np.zeros((0, 2), np.int64), np.zeros(0, np.float32)
        for other in range(start, len(unit), block):
            products = rows @ unit[other : other + block].T
            near = products >= threshold
            if not near.any():
                continue
            i, j = np.nonzero(near)
            later = i + start < j + other
            found = np.stack([i + start, j + other], axis=1)[later]
            pairs, cosines = _nearest(
                np.concatenate([pairs, found]), np.concatenate([cosines, products[i[later], j[later]]])
            )
        for (a, b), cosine in zip(pairs.tolist(), cosines.tolist()):
            yield a, b, cosine
        if progress is not None:
            progress(min(start + block, len(unit)), len(unit))


def _nearest(pairs: np.ndarray, cosines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest `MOST` of each i."""
    order = np.lexsort((pairs[:, 1], -cosines, pairs[:, 0]))
    firsts = pairs[order, 0]
    place = np.arange(len(order)) - np.searchsorted(firsts, firsts)
    kept = order[place < MOST]
    return pairs[kept], cosines[kept]
