"""Poolings: a masked set of vectors to one vector. YAML picks one by `kind`; each file has its paper and equation."""

from __future__ import annotations

from typing import Annotated

from vsekit.parts import OneOf
from vsekit.pooling.base import Pooling, PoolingPart

#: The files of the folder; a new pooling is one more line.
POOLINGS = [
    "none",
    "single",
    "first",
    "last",
    "mean",
    "max",
    "k_max",
    "ad_pool",
    "gpo",
    "soft_pool",
    "ada_pool",
    "lip",
    "seq2seq",
    "self_attention",
    "transformer",
    "gcn",
    "vsrn",
]
PoolingSettings = Annotated[PoolingPart, OneOf(PoolingPart, __name__, "poolings", POOLINGS)]

__all__ = ["POOLINGS", "Pooling", "PoolingPart", "PoolingSettings"]
