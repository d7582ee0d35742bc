"""SoftPool (Stergiou et al., ICCV 2021, "Refining activation downsampling with SoftPool"), over the whole set:

    t_j = Σ_i δ_ij · t_ij,    δ_ij = exp(t_ij) / Σ_i' exp(t_i'j)

a smooth MaxPool with no parameters. It is also the embedding level of AdPool (VSE+2AD, Eq. 4) and one half of AdaPool.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from vsekit.pooling.base import Pooling, PoolingPart
from vsekit.pooling.masked import softmax, zero_padding


def soft_pool(vectors: Tensor, mask: Tensor) -> Tensor:
    """(B, N, d), (B, N) → (B, d)."""
    return (softmax(vectors, mask) * zero_padding(vectors, mask)).sum(1)


class SoftPool(Pooling):
    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return soft_pool(vectors, mask)


class SoftPoolSettings(PoolingPart):
    kind: Literal["soft_pool"] = "soft_pool"

    def build(self, dim: int) -> SoftPool:
        return SoftPool(dim)
