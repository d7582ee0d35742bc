"""LIP, local importance-based pooling (Gao et al., ICCV 2019), over the whole set:

    t_j = Σ_i exp(G(t)_ij) · t_ij / Σ_i exp(G(t)_ij)

G is the paper's projection logit module (1×1 convolution → affine instance normalisation → 12 · sigmoid): the
convolution is a linear map of each vector, the normalisation runs over the valid vectors of the set. The map starts at
zero, as published, so LIP starts as MeanPool.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from vsekit.pooling.base import Pooling, PoolingPart
from vsekit.pooling.masked import softmax, zero_padding
from vsekit.pooling.mean import mean_pool

AMPLIFICATION, EPSILON = 12.0, 1e-5


def instance_norm(vectors: Tensor, mask: Tensor) -> Tensor:
    """Zero mean and unit variance over each set and dimension, (B, N, d) → (B, N, d)."""
    centred = vectors - mean_pool(vectors, mask).unsqueeze(1)
    return centred * (mean_pool(centred.square(), mask).unsqueeze(1) + EPSILON).rsqrt()


class LIP(Pooling):
    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.projection = nn.Linear(dim, dim, bias=False)
        nn.init.zeros_(self.projection.weight)
        self.gain, self.shift = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        vectors = zero_padding(vectors, mask)
        logits = AMPLIFICATION * (instance_norm(self.projection(vectors), mask) * self.gain + self.shift).sigmoid()
        return (softmax(logits, mask) * vectors).sum(1)


class LIPSettings(PoolingPart):
    kind: Literal["lip"] = "lip"

    def build(self, dim: int) -> LIP:
        return LIP(dim)
