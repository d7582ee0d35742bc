"""Own captions that score far below the picture's others: likely written for another picture, or wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vsekit.diagnostics.scores import own_scores
from vsekit.evaluation.positives import Positives
from vsekit.evaluation.scorers import Scorer


@dataclass(frozen=True)
class LowCaption:
    """A picture, one of its own captions with its score, and the median score of its other captions."""

    picture: int
    caption: int
    score: float
    positive_score: float


def low_captions(
    scorer: Scorer, image_groups: np.ndarray, caption_groups: np.ndarray, gap: float = 0.2, top: int | None = None
) -> list[LowCaption]:
    """Captions more than `gap` below the median of the picture's others, farthest below first.

    Pictures with fewer than three captions are left out: of two that disagree, neither is the odd one.

    Args:
        image_groups, caption_groups: (n_images,) and (n_captions,) integers; equal ones belong together.
        top: list so many at most.
    """
    i2t = Positives.by_groups(image_groups, caption_groups).i2t
    scores = own_scores(scorer, i2t)
    found = []
    for picture in np.flatnonzero(i2t.counts >= 3).tolist():
        row = slice(i2t.starts[picture], i2t.starts[picture + 1])
        own = scores[row]
        for i, caption in enumerate(i2t.items[row].tolist()):
            median = float(np.median(np.delete(own, i)))
            if median - own[i] > gap:
                found.append(LowCaption(picture, caption, float(own[i]), median))
    return sorted(found, key=lambda low: low.score - low.positive_score)[:top]
