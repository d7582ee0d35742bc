"""K-MaxPool (VSE+2AD, Sec. 3.2.1; Kalchbrenner et al. 2014):  t_j = 1/K · Σ_{k≤K} max_k({t_ij}).

max_k is the k-th largest. A set of fewer than K vectors gives its mean; K = 1 is MaxPool. The paper's "Manual" row
(Table 4) has 5-MaxPool for images and MeanPool for texts (Appendix A.1).
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from vsekit.pooling.base import Pooling, PoolingPart
from vsekit.pooling.masked import front
from vsekit.pooling.mean import mean_pool


def k_max_pool(vectors: Tensor, mask: Tensor, k: int) -> Tensor:
    """(B, N, d), (B, N) → (B, d)."""
    k = min(k, vectors.shape[1])
    top = vectors.masked_fill(~mask.unsqueeze(-1), -torch.inf).topk(k, dim=1).values
    return mean_pool(top, front(mask)[:, :k])


class KMaxPool(Pooling):
    def __init__(self, dim: int, k: int) -> None:
        super().__init__(dim)
        self.k = k

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return k_max_pool(vectors, mask, self.k)


class KMaxPoolSettings(PoolingPart):
    kind: Literal["k_max"] = "k_max"
    k: PositiveInt = 5

    def build(self, dim: int) -> KMaxPool:
        return KMaxPool(dim, self.k)
