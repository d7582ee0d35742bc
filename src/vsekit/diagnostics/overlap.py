"""How far the similarities of right and of wrong pairs overlap (dual-path, Zheng et al. 2017, Eq. 10 and Fig. 5).

    S = ∫ min(P(x), Q(x)) dx,   P and Q the densities of the scores of right and of wrong pairs

0: every right pair can be told from every wrong one; 1: none can. The densities are histograms, and S depends a little
on the width of their bins: compare figures of equal widths (0.01 here, while scores are of the size of cosines). With
few right pairs the histogram is ragged and S too small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vsekit.diagnostics.scores import ROWS
from vsekit.drawing.charts import areas


@dataclass(frozen=True)
class Overlap:
    """edges: (bins + 1,) of the bins; positive, negative: (bins,) densities."""

    overlap: float
    positive_mean: float
    negative_mean: float
    n_positive: int
    n_negative: int
    width: float
    edges: list[float]
    positive: list[float]
    negative: list[float]


def similarity_overlap(
    scores: np.ndarray, image_groups: np.ndarray, caption_groups: np.ndarray, width: float | None = None
) -> Overlap:
    """S and both distributions.

    Args:
        scores: (n_images, n_captions); there must be right and wrong pairs among them.
        image_groups, caption_groups: (n_images,) and (n_captions,) integers; equal ones belong together.
        width: of the bins; by default 0.01, or a 400th of the range if that is more.
    """
    low, high = float(scores.min()), float(scores.max())
    width = width or max(0.01, (high - low) / 400)
    first = int(np.floor(low / width))
    bins = int(np.floor(high / width)) - first + 1
    counts, sums = np.zeros((2, bins), np.int64), np.zeros(2)
    for start in range(0, len(scores), ROWS):
        rows = scores[start : start + ROWS].astype(np.float64)
        own = image_groups[start : start + ROWS, None] == caption_groups
        for side, chosen in enumerate((rows[own], rows[~own])):
            counts[side] += np.bincount(np.floor(chosen / width).astype(np.int64) - first, minlength=bins)
            sums[side] += chosen.sum()
    totals = counts.sum(1)
    density = counts / (totals[:, None] * width)
    return Overlap(
        overlap=float(density.min(0).sum() * width),
        positive_mean=float(sums[0] / totals[0]),
        negative_mean=float(sums[1] / totals[1]),
        n_positive=int(totals[0]),
        n_negative=int(totals[1]),
        width=width,
        edges=((first + np.arange(bins + 1)) * width).round(10).tolist(),
        positive=density[0].tolist(),
        negative=density[1].tolist(),
    )


def draw_overlap(found: Overlap) -> str:
    """Fig. 5 of dual-path."""
    return areas(
        found.edges,
        {"right pairs": found.positive, "wrong pairs": found.negative},
        "similarity",
        "right and wrong pairs",
    )
