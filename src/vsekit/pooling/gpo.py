"""GPO, the generalised pooling operator of VSE∞ (Chen et al., CVPR 2021): learned weights for sorted features.

    u = sort(t), every dimension on its own, largest first
    p_k ∈ R^32: sinusoids of the place k,  p_k[2j] = sin(k · w_j), p_k[2j+1] = cos(k · w_j), w_j = 10000^(−2j/32)
    h = mean of the two directions of a bi-GRU(32) over p_1 … p_M
    θ = softmax(h · W / 0.1) over the set,  t = Σ_k θ_k · u_k

MeanPool, MaxPool and K-MaxPool are special cases of θ. θ depends on the size M alone, so it is computed once for every
size in the batch. The temperature 0.1 and places that count from 0 come from the published code.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor, nn

from vsekit.pooling.base import Pooling, PoolingPart
from vsekit.pooling.masked import read_sequence, softmax, sort_descending


def sinusoids(places: Tensor, size: int) -> Tensor:
    """(L,) → (L, size): sine and cosine in turn, of wavelengths from 2π to 10000 · 2π."""
    angles = places[:, None] * 10000 ** (-torch.arange(0, size, 2, dtype=places.dtype, device=places.device) / size)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class GPO(Pooling):
    def __init__(self, dim: int, hidden: int = 32, temperature: float = 0.1) -> None:
        super().__init__(dim)
        self.hidden, self.temperature = hidden, temperature
        self.gru, self.back = (nn.GRU(hidden, hidden, batch_first=True) for _ in range(2))
        self.score = nn.Linear(hidden, 1, bias=False)

    def weights(self, sizes: Tensor) -> Tensor:
        """θ of sets of the given sizes, (S,) int64 → (S, longest); zeros behind each size."""
        places = torch.arange(int(sizes.max()), device=sizes.device)
        valid = places < sizes[:, None]
        encoded = sinusoids(places.to(self.score.weight.dtype), self.hidden).expand(len(sizes), -1, -1)
        (h, _), _ = read_sequence(self.gru, encoded, valid, self.back)
        return softmax(self.score(h).squeeze(-1) / self.temperature, valid)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        sizes, which = mask.sum(1).unique(return_inverse=True)
        theta = self.weights(sizes)[which]
        u, _ = sort_descending(vectors, mask)
        return torch.einsum("bn,bnd->bd", theta, u[:, : theta.shape[1]])


class GPOSettings(PoolingPart):
    kind: Literal["gpo"] = "gpo"
    hidden: Annotated[int, Field(gt=0, multiple_of=2)] = 32
    temperature: PositiveFloat = 0.1

    def build(self, dim: int) -> GPO:
        return GPO(dim, self.hidden, self.temperature)
