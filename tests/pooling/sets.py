"""Ragged sets for the tests of poolings, and every pooling there is."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vsekit import pooling as p
from vsekit.parts import Sets
from vsekit.pooling.base import Pooling

#: Poolings that do not mind the order of the set.
UNORDERED = {
    "mean": p.MeanPoolSettings(),
    "max": p.MaxPoolSettings(),
    "k_max": p.KMaxPoolSettings(k=3),
    "ad_pool": p.AdPoolSettings(),
    "ad_pool token": p.AdPoolSettings(levels="token"),
    "ad_pool embedding": p.AdPoolSettings(levels="embedding"),
    "ad_pool fixed": p.AdPoolSettings(balance=0.75),
    "ad_pool random": p.AdPoolSettings(balance="random"),
    "ad_pool published": p.AdPoolSettings(token_weights="per_dimension"),
    "gpo": p.GPOSettings(),
    "soft_pool": p.SoftPoolSettings(),
    "ada_pool": p.AdaPoolSettings(),
    "lip": p.LIPSettings(),
    "self_attention": p.SelfAttentionSettings(),
    "transformer": p.TransformerSettings(heads=2, feedforward=16, dropout=0.0),
    "gcn": p.GCNSettings(layers=2),
}
#: Poolings that read the set in its order.
ORDERED = {
    "first": p.FirstPoolSettings(),
    "last": p.LastPoolSettings(),
    "seq2seq": p.Seq2SeqSettings(),
    "seq2seq lstm": p.Seq2SeqSettings(cell="lstm"),
    "seq2seq bidirectional": p.Seq2SeqSettings(bidirectional=True),
    "vsrn": p.VSRNSettings(layers=2),
    "vsrn published": p.VSRNSettings(layers=2, normalize="regions"),
    "vsrn none": p.VSRNSettings(layers=2, normalize="none"),
}
ALL = UNORDERED | ORDERED


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
