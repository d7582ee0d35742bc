"""Pearson correlation of the features of different pictures, before and after training (dual-path, Fig. 4).

    r_ij = cov(f_i, f_j) / (σ_i σ_j)   over the dimensions of the features f_i and f_j of two pictures

Training that tells pictures apart lowers it. The paper compares ResNet-50's features of 100 validation pictures with
those of its own model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vsekit.drawing.charts import heatmap
from vsekit.drawing.page import halves


@dataclass(frozen=True)
class Correlation:
    """before, after: (n, n) matrices; *_mean: the mean |r| of two different pictures."""

    before_mean: float
    after_mean: float
    before: list[list[float]]
    after: list[list[float]]


def pearson(features: np.ndarray) -> np.ndarray:
    """(n, d) → (n, n). A feature that is the same in all dimensions correlates with nothing: 0."""
    centred = features.astype(np.float64) - features.mean(1, keepdims=True, dtype=np.float64)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = np.divide(centred, lengths, out=np.zeros_like(centred), where=lengths > 0)
    return np.clip(unit @ unit.T, -1, 1)


def feature_correlation(before: np.ndarray, after: np.ndarray) -> Correlation:
    """Both matrices. Args: features of the same n > 1 pictures, (n, d) each; the d may differ."""
    others = ~np.eye(len(before), dtype=bool)
    a, b = pearson(before), pearson(after)
    means = [float(np.abs(matrix[others]).mean()) for matrix in (a, b)]
    return Correlation(means[0], means[1], a.round(4).tolist(), b.round(4).tolist())


def draw_correlation(found: Correlation) -> str:
    """Fig. 4 of dual-path."""
    before = heatmap(np.array(found.before), f"before: mean |r| {found.before_mean:.2f}")
    return halves(before, heatmap(np.array(found.after), f"after: mean |r| {found.after_mean:.2f}"))
