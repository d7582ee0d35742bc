"""The contract of a pooling: a masked set of vectors in, one vector out, whatever stands at the padded places."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from vsekit.parts import Part


class PoolingPart(Part):
    """Settings of a pooling.

    keeps_sets: nothing is pooled, for similarities of sets; `build` gives None.
    gives_regions: what is built is a `RegionPooling`, whose regions a caption branch reads.
    one_vector: takes only sets of a single vector.
    """

    keeps_sets: ClassVar[bool] = False
    gives_regions: ClassVar[bool] = False
    one_vector: ClassVar[bool] = False

    def build(self, dim: int) -> Pooling | None:
        """The pooling of vectors of size `dim`."""
        raise NotImplementedError


class Pooling(nn.Module):
    """dim_out: the size of what comes out, for input of size `dim` given to `build`."""

    dim_out: int

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim_out = dim

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """(B, N, d), (B, N) bool → (B, dim_out). Every row of the mask has at least one True."""
        raise NotImplementedError


class RegionPooling(Pooling):
    """A pooling that also gives what its vectors became before they were pooled."""

    def both(self, vectors: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The regions (B, N, d), and the pooled vector (B, dim_out)."""
        raise NotImplementedError
