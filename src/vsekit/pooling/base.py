"""The contract of a pooling: a masked set of vectors in, one vector out, whatever stands at the padded places."""

from __future__ import annotations

from torch import Tensor, nn


class Pooling(nn.Module):
    """dim_out: the size of what comes out, for input of size `dim` given to `build`."""

    dim_out: int

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim_out = dim

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """(B, N, d), (B, N) bool → (B, dim_out). Every row of the mask has at least one True."""
        raise NotImplementedError
