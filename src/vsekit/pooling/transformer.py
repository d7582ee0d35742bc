"""A transformer encoder (Vaswani et al. 2017) over the set, then MeanPool: "self-attention encoder" with all pairs.

No positions, so the order of the set does not matter. Attention between all pairs is quadratic in the size N of the
set, but its 4·N²·d multiplications stay below the 2·N·(4·d² + 2·d·feedforward) of the linear maps up to N ≈ 2·d +
feedforward, thousands of vectors. `self_attention` is linear.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt
from torch import Tensor, nn

from vsekit.errors import UserError
from vsekit.pooling.base import Pooling, PoolingPart
from vsekit.pooling.masked import zero_padding
from vsekit.pooling.mean import mean_pool


class Transformer(Pooling):
    def __init__(self, dim: int, layers: int, heads: int, feedforward: int, dropout: float) -> None:
        super().__init__(dim)
        layer = nn.TransformerEncoderLayer(dim, heads, feedforward, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return mean_pool(self.encoder(zero_padding(vectors, mask), src_key_padding_mask=~mask), mask)


class TransformerSettings(PoolingPart):
    kind: Literal["transformer"] = "transformer"
    layers: PositiveInt = 1
    heads: PositiveInt = 8
    feedforward: PositiveInt = 2048
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1

    def build(self, dim: int) -> Transformer:
        if dim % self.heads:
            raise UserError(
                f"{self.heads} heads do not divide vectors of size {dim}",
                field="pooling.heads",
                remedy="Choose a number of heads that divides the size.",
            )
        return Transformer(dim, self.layers, self.heads, self.feedforward, self.dropout)
