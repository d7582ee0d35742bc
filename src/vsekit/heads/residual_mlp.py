"""VSE∞'s projection of region features (Chen et al., CVPR 2021): v = fc(x) + MLP(x), MLP: in → out/2 → ReLU → out.

The paper names no batch normalisation. The published MLP has one after its first layer, over zero padding too: that is
the option `batch_norm`, here with statistics of the real vectors alone, since padding must not matter.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from vsekit.heads.base import HeadPart
from vsekit.heads.linear import fully_connected
from vsekit.pooling.masked import batch_norm, masked_batch_norm


class ResidualMLP(nn.Module):
    def __init__(self, dim_in: int, dim_out: int, batch_norm: bool = False) -> None:
        super().__init__()
        hidden = max(1, dim_out // 2)
        self.fc = fully_connected(dim_in, dim_out)
        self.mlp = nn.Sequential(fully_connected(dim_in, hidden), nn.ReLU(), fully_connected(hidden, dim_out))
        self.norm = nn.BatchNorm1d(hidden) if batch_norm else None

    def forward(self, vectors: Tensor, mask: Tensor | None = None) -> Tensor:
        """(…, dim_in) → (…, dim_out). mask: (…) bool, the real vectors, where some are padding; for the batch norm."""
        if self.norm is None:
            return self.fc(vectors) + self.mlp(vectors)
        first, relu, second = self.mlp
        hidden = first(vectors)
        if mask is None:
            hidden = batch_norm(self.norm, hidden.flatten(0, -2)).view_as(hidden)
        else:
            hidden = masked_batch_norm(self.norm, hidden, mask)
        return self.fc(vectors) + second(relu(hidden))


class ResidualMLPSettings(HeadPart):
    """batch_norm: after the MLP's first layer, as in the published code."""

    kind: Literal["residual_mlp"] = "residual_mlp"
    batch_norm: bool = False

    def build(self, dim_in: int, dim_out: int) -> nn.Module:
        return ResidualMLP(dim_in, dim_out, self.batch_norm)
