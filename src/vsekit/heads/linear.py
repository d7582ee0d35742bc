"""One fully connected layer, initialised as in VSE++'s published code: U(−r, r), r = √(6 / (in + out)), bias 0."""

from __future__ import annotations

from typing import Literal

from torch import nn

from vsekit.heads.base import HeadPart


def fully_connected(dim_in: int, dim_out: int, bias: bool = True) -> nn.Linear:
    layer = nn.Linear(dim_in, dim_out, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


class LinearSettings(HeadPart):
    kind: Literal["linear"] = "linear"

    def build(self, dim_in: int, dim_out: int) -> nn.Module:
        return fully_connected(dim_in, dim_out)
