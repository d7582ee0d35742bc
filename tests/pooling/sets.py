"""Ragged sets for the tests of poolings, and every pooling there is."""

from __future__ import annotations

import math
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from vsekit.parts import Sets, kinds
from vsekit.pooling import PoolingSettings
from vsekit.pooling.base import Pooling

SETTINGS: TypeAdapter[Any] = TypeAdapter(PoolingSettings)
#: Settings to test besides the defaults, or in place of them where those are large.
VARIANTS: dict[str, dict[str, Any]] = {
    "k_max": {"kind": "k_max", "k": 3},
    "ad_pool token": {"kind": "ad_pool", "levels": "token"},
    "ad_pool embedding": {"kind": "ad_pool", "levels": "embedding"},
    "ad_pool fixed": {"kind": "ad_pool", "balance": 0.75},
    "ad_pool random": {"kind": "ad_pool", "balance": "random"},
    "ad_pool published": {"kind": "ad_pool", "token_weights": "per_dimension"},
    "transformer": {"kind": "transformer", "heads": 2, "feedforward": 16, "dropout": 0.0},
    "gcn": {"kind": "gcn", "layers": 2},
    "seq2seq lstm": {"kind": "seq2seq", "cell": "lstm"},
    "seq2seq bidirectional": {"kind": "seq2seq", "bidirectional": True},
    "vsrn": {"kind": "vsrn", "layers": 2},
    "vsrn published": {"kind": "vsrn", "layers": 2, "normalize": "regions"},
    "vsrn none": {"kind": "vsrn", "layers": 2, "normalize": "none"},
}
#: Those that are no pooling of a set: the set itself, and the only vector of a set of one.
TRIVIAL = {"none", "single"}
#: Every pooling there is; whatever is not said to read the set in its order must not mind it.
ALL = {
    name: SETTINGS.validate_python(value)
    for name, value in ({kind: kind for kind in kinds(PoolingSettings) if kind not in TRIVIAL} | VARIANTS).items()
}
ORDERED = {name for name, settings in ALL.items() if settings.kind in ("first", "last", "seq2seq", "vsrn")}
UNORDERED = {name: settings for name, settings in ALL.items() if name not in ORDERED}


def build(name: str, dim: int, seed: int = 0) -> Pooling:
    """The named pooling in float64, with every parameter drawn at random: none starts at zero, where nothing shows."""
    torch.manual_seed(seed)
    pooling = ALL[name].build(dim).double()
    for parameter in pooling.parameters():
        parameter.data.normal_(0, 0.5)
    return pooling


def ragged(sizes: list[int], dim: int, seed: int = 1) -> list[Tensor]:
    """One (n, dim) float64 tensor a size."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, dim, generator=generator, dtype=torch.float64) for n in sizes]


def pad(sets: list[Tensor], length: int | None = None, with_: float = math.nan, holes: bool = False) -> Sets:
    """The sets in one tensor, `with_` at the padded places; `holes` spreads the vectors over the length."""
    length = length or max(len(one) for one in sets)
    vectors = torch.full((len(sets), length, sets[0].shape[1]), with_, dtype=sets[0].dtype)
    mask = torch.zeros(len(sets), length, dtype=torch.bool)
    for b, one in enumerate(sets):
        places = torch.linspace(0, length - 1, len(one)).long() if holes else torch.arange(len(one))
        vectors[b, places], mask[b, places] = one, True
    return Sets(vectors, mask)
