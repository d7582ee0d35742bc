"""ConVSE's projection head (Sec. IV-A): z = W_2 · ReLU(W_1 · h + b_1) + b_2, 1024 → 2048 → 1024.

Both sides have one, and keep it at test. The paper leaves the initialisation open; both layers start as the base
model's fully connected layer does (see `linear`). In the published code b_1 is missing: `first_bias: false`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveInt
from torch import nn

from vsekit.heads.base import HeadPart
from vsekit.heads.linear import fully_connected


class MLPSettings(HeadPart):
    """hidden: size between the layers. first_bias: the first layer has one, b_1."""

    kind: Literal["mlp"] = "mlp"
    hidden: PositiveInt = 2048
    first_bias: bool = True

    def build(self, dim_in: int, dim_out: int) -> nn.Module:
        first = fully_connected(dim_in, self.hidden, bias=self.first_bias)
        return nn.Sequential(first, nn.ReLU(), fully_connected(self.hidden, dim_out))
