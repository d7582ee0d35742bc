"""The first valid vector of the set: a transformer's [CLS]."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from vsekit.pooling.base import Pooling, PoolingPart


def first_pool(vectors: Tensor, mask: Tensor) -> Tensor:
    """(B, N, d), (B, N) → (B, d)."""
    return vectors[torch.arange(len(mask), device=mask.device), mask.byte().argmax(1)]


class FirstPool(Pooling):
    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return first_pool(vectors, mask)


class FirstPoolSettings(PoolingPart):
    kind: Literal["first"] = "first"

    def build(self, dim: int) -> FirstPool:
        return FirstPool(dim)
