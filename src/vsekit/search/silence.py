"""Whether to say that nothing in the index matches: a decision from several signs, learned where the answer is known.

One threshold on the best score is wrong for many sentences: short ones score lower than long ones, and a subject that fills
an album makes high scores usual. So the signs of a query, with z and E = n·S(z) of the k-th best hit as in `calibration`,

    best    −log10 E of the best hit                   crowd   mean of log10 k/E over the ten best: what is there is
    lead    z of the best less that of the tenth                often there again
    near    cosine with the nearest known sentence      usual   (m − centre) / spread: how high it scores with anything
    words   log(1 + how many words it has)

are weighed: p = σ(b + Σ w·(sign − mean) / deviation), and nothing is said to match where p, that something does, is below a limit.
The weights come from `python -m studies.search silence --learn`, on training pictures with a subject's pictures present and
removed; the limit lets three queries in a thousand with a match be told so there, where the model has seen the pictures, to keep
below two in a hundred of others. They stand in `silence.json`. A sign that an index
lacks (no sentences are known) counts as its mean.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

#: How many of the best hits are looked at.
BEST = 10


class Signs(NamedTuple):
    """nan: not known."""

    best: float
    crowd: float
    lead: float
    usual: float
    near: float
    words: float


def signs(z: np.ndarray, log_expected: np.ndarray, usual: float, near: float, words: int) -> Signs:
    """z, log_expected: of the hits, best first; the latter is log E."""
    z, expected = z[:BEST], log_expected[:BEST] / np.log(10)
    return Signs(
        best=float(-expected[0]),
        crowd=float((np.log10(np.arange(1, len(z) + 1)) - expected).mean()),
        lead=float(z[0] - z[-1]),
        usual=usual,
        near=near,
        words=float(np.log1p(words)),
    )


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
