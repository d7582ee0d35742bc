"""Claims put to the results: a difference, its 95 % interval, and a verdict.

The measure is the validation rsum. Two things make a difference uncertain: seeds, and which pictures happen to be in
the validation split. With s² the variance over n seeds and q² the variance of the mean difference over pictures
(bootstrap, a picture together with its captions, the same pictures for both sides),

    SE² = s_a²/n_a + s_b²/n_b + q²,     interval = difference ± t·SE,

t of the Welch–Satterthwaite degrees of freedom. With one seed a side, s² can't be seen; the pooled s² of all
configurations with several seeds stands for it.

Two runs that go on from the same third one, or learn from its lists, have its luck in common. With several such seeds they
are compared seed by seed: s_a²/n_a + s_b²/n_b becomes the variance of the n differences by n, with n − 1 degrees of freedom.

Whether more seeds are worth their time is asked of the same sum: with n seeds a side the interval reaches 1.96·√(2s²/n + q²), and
a smaller difference stays within it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RESAMPLES = 1000
#: Of the normal distribution, for 95 %.
QUANTILE = 1.96
Results = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Difference:
    """Of rsum, a − b, with its 95 % interval, how many seeds each side has, and q² of the pictures."""

    value: float
    low: float
    high: float
    seeds: tuple[int, int]
    of_pictures: float

    @property
    def verdict(self) -> str:
        return "holds" if self.low > 0 else "does not" if self.high < 0 else "can't tell"


def by_picture(results: Results, captions: int = 5) -> np.ndarray:
    """(pictures,) what each picture adds to the rsum, as its hit rates ×100: their mean over pictures is the rsum, averaged
    over the seeds."""
    total = np.zeros(0)
    for result in results:
        i2t, t2i = (np.frombuffer(bytes.fromhex(result[way]["ranks"]), np.uint8) for way in ("i2t", "t2i"))
        t2i = t2i.reshape(-1, captions)
        hits = sum(100.0 * (i2t < k) + 100.0 * (t2i < k).mean(1) for k in (1, 5, 10))
        total = hits if not len(total) else total + hits
    return total / len(results)


def seed_variance(everything: Sequence[Results]) -> float:
    """s² pooled over configurations with several seeds; NaN where there are none."""
    several = [np.array([result["rsum"] for result in results]) for results in everything if len(results) > 1]
    freedom = sum(len(values) - 1 for values in several)
    return sum(((values - values.mean()) ** 2).sum() for values in several) / freedom if freedom else float("nan")


def reach(seeds: int, pooled: float, of_pictures: float = 0.0) -> float:
    """How far the interval reaches with so many seeds a side. pooled: s². of_pictures: q²; 0 gives the least it can be."""
    return float(QUANTILE * (2 * pooled / seeds + of_pictures) ** 0.5)


def difference(sides: Sequence[tuple[float, Results]], pooled: float, by_seed: bool = False) -> Difference:
    """Σ sign·rsum over `sides` (+1 a, −1 b; four of them for a difference of differences). by_seed: the sides have the same
    seeds, several of them, and are compared seed by seed."""
    from scipy.stats import t as student

    value = sum(sign * float(np.mean([result["rsum"] for result in results])) for sign, results in sides)
    parts, freedoms = [], []
    if by_seed:
        of_seed: dict[int, float] = defaultdict(float)
        for sign, results in sides:
            for result in results:
                of_seed[result["seed"]] += sign * result["rsum"]
        parts.append(np.var(list(of_seed.values()), ddof=1) / len(of_seed))
        freedoms.append(len(of_seed) - 1)
    else:
        for _, results in sides:
            values = [result["rsum"] for result in results]
            n = len(values)
            parts.append((np.var(values, ddof=1) if n > 1 else pooled) / n)
            freedoms.append(n - 1 if n > 1 else 10)
    pictures = sum(sign * by_picture(results) for sign, results in sides)
    assert isinstance(pictures, np.ndarray)
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(pictures), size=(RESAMPLES, len(pictures)))
    parts.append(float(pictures[drawn].mean(1).var(ddof=1)))
    freedoms.append(len(pictures) - 1)
    variance = sum(parts)
    below = sum(part**2 / freedom for part, freedom in zip(parts, freedoms))
    half = float(student.ppf(0.975, variance**2 / below)) * variance**0.5 if variance > 0 else 0.0
    return Difference(value, value - half, value + half, (len(sides[0][1]), len(sides[1][1])), parts[-1])


def mean_curve(results: Results) -> list[float]:
    """The mean validation rsum after each epoch."""
    length = min(len(result["curve"]) for result in results)
    return np.mean([[point["rsum"] for point in result["curve"][:length]] for result in results], axis=0).tolist()


def overtaking(first: list[float], then: list[float]) -> int | None:
    """The epoch, from 1, from which on `then` stays ahead; None if it never does, 1 if it always was."""
    ahead = [b > a for a, b in zip(first, then)]
    behind = [epoch for epoch, is_ahead in enumerate(ahead, 1) if not is_ahead]
    last = behind[-1] + 1 if behind else 1
    return last if last <= len(ahead) else None


def epochs_to(curve: list[float], level: float) -> int | None:
    """The first epoch, from 1, whose rsum reaches `level`."""
    return next((epoch for epoch, value in enumerate(curve, 1) if value >= level), None)
