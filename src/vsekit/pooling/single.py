"""The one vector of a set of exactly one (a global feature, as in VSE++); anything else is an error."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from vsekit.errors import UserError
from vsekit.pooling.base import Pooling, PoolingPart
from vsekit.pooling.first import first_pool


class SinglePool(Pooling):
    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        size = int(mask.sum(1).max())
        if size > 1:
            raise UserError(
                f"pooling 'single' takes sets of one vector, but the encoder gave a set of {size}",
                remedy="Choose a pooling that takes sets, such as 'mean' or 'gpo'.",
            )
        return first_pool(vectors, mask)


class SinglePoolSettings(PoolingPart):
    one_vector: ClassVar[bool] = True

    kind: Literal["single"] = "single"

    def build(self, dim: int) -> SinglePool:
        return SinglePool(dim)
