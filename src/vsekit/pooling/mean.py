"""MeanPool (VSE+2AD, Sec. 3.2.1):  t_j = 1/M · Σ_i t_ij."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from vsekit.pooling.base import Pooling, PoolingPart
from vsekit.pooling.masked import zero_padding


def mean_pool(vectors: Tensor, mask: Tensor) -> Tensor:
    """(B, N, d), (B, N) → (B, d)."""
    return zero_padding(vectors, mask).sum(1) / mask.sum(1, keepdim=True)


class MeanPool(Pooling):
    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return mean_pool(vectors, mask)


class MeanPoolSettings(PoolingPart):
    kind: Literal["mean"] = "mean"

    def build(self, dim: int) -> MeanPool:
        return MeanPool(dim)
