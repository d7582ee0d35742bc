"""AdaPool (Stergiou & Poppe, TIP 2023, "AdaPool: Exponential Adaptive Pooling"), over the whole set:

    t = β · eDSCW(t) + (1 − β) · eM(t)

    eM:    t_j = Σ_i softmax_i(t_ij) · t_ij                     (SoftPool)
    eDSCW: t_j = Σ_i softmax_i(DSC(t_ij, t̄_j)) · t_ij,         DSC(a, b) = 2·|a·b| / (a² + b²),  t̄ the mean of the set

The Dice–Sørensen coefficient is taken for every dimension on its own, as in the authors' kernels. AdaPool learns one β
a pooled region; a set is one region, so there is one β. Two choices of our own: β = sigmoid(b), starting at 1/2, where
the authors clamp (a clamped β that leaves [0, 1] gets no gradient back); and no clamp of the result at 0, which they
can afford only after a ReLU.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from vsekit.pooling.base import Pooling, PoolingPart
from vsekit.pooling.masked import softmax, zero_padding
from vsekit.pooling.mean import mean_pool
from vsekit.pooling.soft_pool import soft_pool

EPSILON = 1e-12  # DSC(0, 0) = 0 instead of NaN


def dice_sorensen(a: Tensor, b: Tensor) -> Tensor:
    """2·|a·b| / (a² + b²), elementwise, in [0, 1]."""
    return 2 * (a * b).abs() / (a.square() + b.square() + EPSILON)


def ada_pool(vectors: Tensor, mask: Tensor, beta: Tensor) -> Tensor:
    """(B, N, d), (B, N), β of any shape that broadcasts to (B, d) → (B, d)."""
    vectors = zero_padding(vectors, mask)
    near_the_mean = softmax(dice_sorensen(vectors, mean_pool(vectors, mask).unsqueeze(1)), mask)
    return beta * (near_the_mean * vectors).sum(1) + (1 - beta) * soft_pool(vectors, mask)


class AdaPool(Pooling):
    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.logit = nn.Parameter(torch.zeros(()))

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return ada_pool(vectors, mask, self.logit.sigmoid())


class AdaPoolSettings(PoolingPart):
    kind: Literal["ada_pool"] = "ada_pool"

    def build(self, dim: int) -> AdaPool:
        return AdaPool(dim)
