"""Whether to say that nothing in the index matches: a decision from several signs, learned where the answer is known.

One threshold on the best score is wrong for many sentences: short ones score lower than long ones, and a subject that fills
an album makes high scores usual. So these signs of a query, in the scale of the index (`calibration`: c and σ are centre and
spread of all queries, m the query's own usual score)

    first   (s₁ − c) / σ, the best score                usual   (m − c) / σ: how high it scores with anything
    size    log10 of how many were searched             known   (o − o̅) / σ, o = w·h of the querybank (`hubs`): how high it
    words   log(1 + how many words it has)                      scores with pictures that the model has learned from

are weighed: p = σ(b + Σ w·(sign − mean) / deviation), and nothing is said to match where p, that something does, is below a limit.
The weights come from `python -m studies.search silence --learn`: training pictures, ten to nine hundred of them, with one of a
subject and with none; the limit denies one in a hundred captions there, and five in a hundred queries of two words, that have
a match. They stand in `silence.json`. A sign that an index lacks (its model has no querybank) counts as its mean.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np


class Signs(NamedTuple):
    """nan: not known."""

    first: float
    usual: float
    known: float
    words: float
    size: float


def signs(best: float, n: int, usual: float, known: float, words: int) -> Signs:
    """n: how many items were searched. best, usual, known: in units of σ from their centres."""
    return Signs(first=best, usual=usual, known=known, words=float(np.log1p(words)), size=float(np.log10(max(n, 1))))


@dataclass(frozen=True)
class Decision:
    """means, deviations, weights: of the signs, in their sequence. limit: of p."""

    means: list[float]
    deviations: list[float]
    weights: list[float]
    bias: float
    limit: float

    def chance(self, found: Signs) -> float:
        """p, that something matches."""
        values = np.nan_to_num((np.array(found) - self.means) / self.deviations, nan=0.0)
        return float(1 / (1 + np.exp(-(self.bias + values @ np.array(self.weights)))))

    def silent(self, found: Signs) -> bool:
        return self.chance(found) < self.limit


@cache
def learned() -> Decision:
    return Decision(
        **json.loads(files("vsekit.search").joinpath("silence.json").read_text(encoding="utf-8"))["decision"]
    )
