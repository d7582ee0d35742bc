"""Likely false negatives: captions of others that a picture prefers to all of its own.

Caption retrieval takes every caption of another group for wrong. Some are not (AOQ, Sec. 3.2, leaves the very hardest
out for that reason), and when a caption was filed with the wrong picture, the right one shows up here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vsekit.diagnostics.scores import ROWS, own_scores
from vsekit.evaluation.positives import Positives
from vsekit.evaluation.scorers import Scorer
from vsekit.progress import Update

COLUMNS = 4096  # captions scored together


@dataclass(frozen=True)
class FalseNegative:
    """A picture, the foreign caption it prefers most, and their score; positive_score: of its own best caption.

    captions: how many foreign captions exceed the own by the margin.
    """

    picture: int
    caption: int
    score: float
    positive_score: float
    captions: int


def false_negatives(
    scorer: Scorer,
    image_groups: np.ndarray,
    caption_groups: np.ndarray,
    margin: float = 0.05,
    top: int | None = None,
    progress: Update | None = None,
) -> list[FalseNegative]:
    """Pictures with a foreign caption that scores more than `margin` above their own best one, farthest above first.

    Scores are walked through in blocks. Pictures without captions are not looked at.

    Args:
        image_groups, caption_groups: (n_images,) and (n_captions,) integers; equal ones belong together.
        top: list so many at most.
        progress: told how many pictures of how many are done.
    """
    i2t = Positives.by_groups(image_groups, caption_groups).i2t
    positive = np.full(scorer.n_images, np.inf, np.float32)
    positive[i2t.asked] = np.maximum.reduceat(own_scores(scorer, i2t), i2t.starts[i2t.asked])
    best, where = np.full(scorer.n_images, -np.inf, np.float32), np.zeros(scorer.n_images, np.int64)
    above = np.zeros(scorer.n_images, np.int64)
    for start in range(0, scorer.n_images, ROWS):
        rows = slice(start, min(start + ROWS, scorer.n_images))
        for first in range(0, scorer.n_captions, COLUMNS):
            columns = slice(first, min(first + COLUMNS, scorer.n_captions))
            own = image_groups[rows, None] == caption_groups[columns]
            scores = np.where(own, -np.inf, scorer.block(rows, columns).cpu().numpy())
            leader = scores.argmax(1)
            value = scores[np.arange(len(scores)), leader]
            where[rows] = np.where(value > best[rows], leader + first, where[rows])
            best[rows] = np.maximum(best[rows], value)
            above[rows] += (scores > (positive[rows] + margin)[:, None]).sum(1)
        if progress is not None:
            progress(rows.stop, scorer.n_images)
    excess = best - positive
    order = np.argsort(-excess, kind="stable")
    chosen = order[above[order] > 0][:top]
    return [
        FalseNegative(int(p), int(where[p]), float(best[p]), float(positive[p]), int(above[p])) for p in chosen.tolist()
    ]
