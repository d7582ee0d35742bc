"""Optimisers: which way, and how far, a step moves the parameters."""

from __future__ import annotations

from typing import Annotated

from vsekit.parts import OneOf
from vsekit.training.optimisers.base import OptimiserPart

#: The files of the folder; a new optimiser is one more line.
OPTIMISERS = [
    "adam",
    "adamw",
    "sgd",
]
OptimiserSettings = Annotated[OptimiserPart, OneOf(OptimiserPart, __name__, "optimisers", OPTIMISERS)]

__all__ = ["OPTIMISERS", "OptimiserPart", "OptimiserSettings"]
