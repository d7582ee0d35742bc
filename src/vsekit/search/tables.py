"""Scores of pairs that are known not to belong together, as `calibration` describes them: quantiles and a tail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: A small sample counts less, as if so many ordinary scores were in it.
PRIOR = 10
_LEVELS = np.concatenate([np.linspace(0, 0.9, 91), 1 - np.geomspace(0.1, 0.01, 41)[1:]])
_RIGHT_LEVELS = np.array([0.02, 0.1, 0.25, 0.5, 0.75, 0.9])


@dataclass(frozen=True)
class Table:
    """Negatives of one way of asking.

    centre, spread: m and d of all queries together. quantiles: of z, at `_LEVELS`. slope, curve: of log S beyond them.
    right: quantiles of z of pairs that do belong together, at `_RIGHT_LEVELS`, where those are known.
    pairs: how many negatives there were. owed: what the queries owe by the model's querybank, if it has one; their mean.
    """

    centre: float
    spread: float
    quantiles: list[float]
    slope: float
    curve: float
    pairs: int
    right: list[float] | None = None
    owed: float | None = None

    @classmethod
    def of(cls, scores: np.ndarray, negative: np.ndarray, right: np.ndarray | None = None) -> Table | None:
        """Scores (queries, items), which of the pairs are negatives, and which are right. None for fewer than 100."""
        if negative.sum() < 100:
            return None
        centre, spread = usual(scores[negative], 0.0, 0.0, prior=0)
        rows = np.array([usual(row, centre, spread) for row in scores])
        z = (scores - rows[:, :1]) / rows[:, 1:]
        quantiles = np.quantile(z[negative], _LEVELS)
        slope, curve = _tail(quantiles)
        rights = None if right is None or not right.any() else np.quantile(z[right], _RIGHT_LEVELS).round(4).tolist()
        return cls(centre, spread, quantiles.round(4).tolist(), slope, curve, int(negative.sum()), rights)

    def log_share_above(self, z: np.ndarray) -> np.ndarray:
        """log S(z), falling all the way."""
        over = np.maximum(z - self.quantiles[-1], 0)
        # np.interp needs rising places; quantiles of many equal scores may not rise.
        places = np.maximum.accumulate(np.array(self.quantiles) + 1e-9 * np.arange(len(_LEVELS)))
        return np.interp(z, places, np.log1p(-_LEVELS)) + self.slope * over + self.curve * over**2


def _tail(quantiles: np.ndarray) -> tuple[float, float]:
    """Slope and curve of log S at the last quantile: a parabola through the upper half that never turns up again."""
    upper = _LEVELS >= 0.5
    x, y = quantiles[upper] - quantiles[-1], np.log1p(-_LEVELS[upper])
    if x[0] > -1e-6:  # all scores alike: anything above them is above all
        return -1e6, 0.0
    curve, slope, _ = np.polyfit(x, y, 2)
    if curve > 0 or slope >= 0:
        curve, (slope, _) = 0.0, np.polyfit(x, y, 1)
    return float(slope), float(curve)


def usual(scores: np.ndarray, centre: float, spread: float, prior: int = PRIOR) -> tuple[float, float]:
    """m and d of a query's scores with a sample, drawn towards the given ones where the sample is small."""
    n = len(scores)
    if not n:
        return centre, spread
    low, middle = np.quantile(scores, [0.16, 0.5])
    m = (n * middle + prior * centre) / (n + prior)
    d = ((n * (middle - low) ** 2 + prior * spread**2) / (n + prior)) ** 0.5
    return float(m), max(float(d), 1e-6)
