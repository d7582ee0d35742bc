"""SelfAttn: attention with the mean of the set as the query (CVSE, Wang et al., ECCV 2020; VSE+2AD's reference):

    a = softmax_i(w · (tanh(W_1 t_i + b_1) ⊙ tanh(W_2 t̄ + b_2))),  t̄ the mean of the set
    t = Σ_i a_i · t_i

Linear in the size of the set. `transformer` is the other reading of "self-attention encoder", with attention between
all pairs. CVSE's dropout and batch normalisation are left out.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from vsekit.pooling.base import Pooling, PoolingPart
from vsekit.pooling.masked import softmax, zero_padding
from vsekit.pooling.mean import mean_pool


class SelfAttention(Pooling):
    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.local, self.query = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.score = nn.Linear(dim, 1, bias=False)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        vectors = zero_padding(vectors, mask)
        query = self.query(mean_pool(vectors, mask)).tanh()
        # w · (x ⊙ q) = x · (w ⊙ q): the product is never formed for all of the set.
        logits = torch.einsum("bnd,bd->bn", self.local(vectors).tanh(), query * self.score.weight)
        return torch.einsum("bn,bnd->bd", softmax(logits, mask), vectors)


class SelfAttentionSettings(PoolingPart):
    kind: Literal["self_attention"] = "self_attention"

    def build(self, dim: int) -> SelfAttention:
        return SelfAttention(dim)
