"""Dual-path's head (Zheng et al., Fig. 2): fc – batch normalisation – ReLU – dropout – fc, 2048 → 2048 → 2048.

Dropout is 0.75 in the paper (Sec. 6.2); the published code has 0.5 for MS-COCO. Batch statistics are those of pooled
vectors, so this head takes (B, d) and refuses sets. In training, a batch of one is normalised by the running
statistics.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt
from torch import Tensor, nn

from vsekit.errors import UserError
from vsekit.heads.base import HeadPart
from vsekit.heads.linear import fully_connected
from vsekit.pooling.masked import batch_norm


class FcBnReluFc(nn.Module):
    def __init__(
        self, dim_in: int, dim_out: int, hidden: int = 2048, dropout: float = 0.75, input_dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.input_dropout = nn.Dropout(input_dropout)
        self.fc1, self.norm = fully_connected(dim_in, hidden), nn.BatchNorm1d(hidden)
        self.dropout, self.fc2 = nn.Dropout(dropout), fully_connected(hidden, dim_out)

    def forward(self, vectors: Tensor) -> Tensor:
        """(B, dim_in) → (B, dim_out)."""
        if vectors.dim() != 2:
            raise UserError(
                f"the head 'fc_bn_relu_fc' takes pooled vectors (B, d), but got {tuple(vectors.shape)}",
                remedy="Use it as `head`, after the pooling, not as `projection` of the set.",
            )
        return self.fc2(self.dropout(batch_norm(self.norm, self.fc1(self.input_dropout(vectors))).relu()))


class FcBnReluFcSettings(HeadPart):
    """dropout: of the hidden layer. input_dropout: of what comes in, which keeps a small training set from being learned
    by heart; the paper has none."""

    kind: Literal["fc_bn_relu_fc"] = "fc_bn_relu_fc"
    hidden: PositiveInt = 2048
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.75
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    def build(self, dim_in: int, dim_out: int) -> nn.Module:
        return FcBnReluFc(dim_in, dim_out, self.hidden, self.dropout, self.input_dropout)
