"""The last valid vector of the set: the last step of a uni-directional GRU (VSE++, Sec. 3; VSRN's text side)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from vsekit.pooling.base import Pooling, PoolingPart


def last_pool(vectors: Tensor, mask: Tensor) -> Tensor:
    """(B, N, d), (B, N) → (B, d)."""
    places = torch.arange(mask.shape[1], device=mask.device)
    return vectors[torch.arange(len(mask), device=mask.device), (mask * places).argmax(1)]


class LastPool(Pooling):
    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return last_pool(vectors, mask)


class LastPoolSettings(PoolingPart):
    kind: Literal["last"] = "last"

    def build(self, dim: int) -> LastPool:
        return LastPool(dim)
