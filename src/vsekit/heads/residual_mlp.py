"""VSE∞'s projection of region features (Chen et al., CVPR 2021): v = fc(x) + MLP(x), MLP: in → out/2 → ReLU → out.

The published MLP also has batch normalisation after its first layer, over zero padding too. It is left out: a head sees
no mask, and padding must not matter.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from vsekit.heads.base import HeadPart
from vsekit.heads.linear import fully_connected


class ResidualMLP(nn.Module):
    def __init__(self, dim_in: int, dim_out: int) -> None:
        super().__init__()
        hidden = max(1, dim_out // 2)
        self.fc = fully_connected(dim_in, dim_out)
        self.mlp = nn.Sequential(fully_connected(dim_in, hidden), nn.ReLU(), fully_connected(hidden, dim_out))

    def forward(self, vectors: Tensor) -> Tensor:
        """(…, dim_in) → (…, dim_out)."""
        return self.fc(vectors) + self.mlp(vectors)


class ResidualMLPSettings(HeadPart):
    kind: Literal["residual_mlp"] = "residual_mlp"

    def build(self, dim_in: int, dim_out: int) -> nn.Module:
        return ResidualMLP(dim_in, dim_out)
