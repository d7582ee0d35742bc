"""The cross-retrieval rank of right pairs (AOQ, Chen et al. 2020, Sec. 4, Fig. 6): the worse of a pair's two ranks.

    max(5·r_i − 4, r_t)

r_i is the rank of a right pair among the wrong pairs that share its caption, r_t among those that share its picture.
The 5 is the number of captions a picture and makes the two comparable; here it is n_captions/n_images. A model that is
good in one direction only has few pairs of cross-retrieval rank 1. Ties count half, as in evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vsekit.diagnostics.scores import ROWS
from vsekit.drawing.charts import bars

LAST = (1, 5, 10, 50, 200)  # ranks that end an interval


@dataclass(frozen=True)
class CrossRetrieval:
    """intervals: of ranks, as text; shares: of the right pairs, in each."""

    intervals: list[str]
    shares: list[float]
    median: float
    n_pairs: int


def cross_retrieval_ranks(scores: np.ndarray, image_groups: np.ndarray, caption_groups: np.ndarray) -> np.ndarray:
    """(n_pairs,) cross-retrieval ranks from 1, of right pairs picture by picture.

    Args:
        scores: (n_images, n_captions).
        image_groups, caption_groups: (n_images,) and (n_captions,) integers; equal ones belong together.
    """
    _, among_captions = _ranks(scores, image_groups, caption_groups)
    pairs, among_images = _ranks(scores.T, caption_groups, image_groups)
    among_images = among_images[np.lexsort(pairs.T)]  # picture by picture, as the other direction comes
    return np.maximum(len(caption_groups) / len(image_groups) * (among_images - 1) + 1, among_captions)


def _ranks(scores: np.ndarray, groups: np.ndarray, item_groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The right (query, item) pairs, query by query, and their ranks among the query's wrong items."""
    pairs, ranks = [], []
    for start in range(0, len(scores), ROWS):
        block = np.ascontiguousarray(scores[start : start + ROWS])
        for query, row in enumerate(block, start):
            own = item_groups == groups[query]
            wrong = row[~own]
            for item in np.flatnonzero(own):
                pairs.append((query, item))
                ranks.append(1 + (wrong > row[item]).sum() + 0.5 * (wrong == row[item]).sum())
    return np.array(pairs), np.array(ranks)


def cross_retrieval(scores: np.ndarray, image_groups: np.ndarray, caption_groups: np.ndarray) -> CrossRetrieval:
    """Their distribution. Args as above."""
    ranks = cross_retrieval_ranks(scores, image_groups, caption_groups)
    firsts = [last + 1 for last in (0, *LAST)]
    names = [str(a) if a == b else f"{a}–{b}" for a, b in zip(firsts, LAST)] + [f"> {LAST[-1]}"]
    counts = np.bincount(np.searchsorted(LAST, ranks), minlength=len(names))
    return CrossRetrieval(names, (counts / len(ranks)).tolist(), float(np.median(ranks)), len(ranks))


def draw_cross_retrieval(found: CrossRetrieval) -> str:
    """Fig. 6 of AOQ."""
    return bars(found.intervals, [100 * share for share in found.shares], "cross-retrieval rank", "% of right pairs")
