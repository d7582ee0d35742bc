"""MaxPool (VSE+2AD, Sec. 3.2.1):  t_j = max_i t_ij.  Equal maxima share the gradient equally."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from vsekit.pooling.base import Pooling, PoolingPart


def max_pool(vectors: Tensor, mask: Tensor) -> Tensor:
    """(B, N, d), (B, N) → (B, d)."""
    return vectors.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(1)


class MaxPool(Pooling):
    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return max_pool(vectors, mask)


class MaxPoolSettings(PoolingPart):
    kind: Literal["max"] = "max"

    def build(self, dim: int) -> MaxPool:
        return MaxPool(dim)
