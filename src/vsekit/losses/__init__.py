"""The losses of the five papers. Each reads a score matrix and who belongs together; see `base` for the contract."""

from __future__ import annotations

from typing import Annotated

from vsekit.losses.base import Loss, LossContext, LossInputs, LossPart, OfflineScores, Shards, Teaching
from vsekit.parts import OneOf

#: The files of the folder; a new loss is one more line.
LOSSES = [
    "sum_of_hinges",
    "max_of_hinges",
    "info_nce",
    "max_of_negatives",
    "mvn",
    "instance",
    "distillation",
    "quadruple_ranking",
    "weighted_sum",
    "switch",
    "offline_triplet",
    "offline_quintuplet",
    "adaptive_offline_quintuplet",
    "adaptive_objective",
]
LossSettings = Annotated[LossPart, OneOf(LossPart, __name__, "losses", LOSSES)]

__all__ = [
    "LOSSES",
    "Loss",
    "LossContext",
    "LossInputs",
    "LossPart",
    "LossSettings",
    "OfflineScores",
    "Shards",
    "Teaching",
]
