"""VSRN's image side (Li et al., ICCV 2019; AOQ, Sec. 4): regions reason with each other, then a GRU reads them.

    v = l2norm(fc(regions)); four layers of graph reasoning (see `gcn`); l2norm; image = last state of GRU(v_1 … v_N)

fc is the tower's `projection` (linear, 2048 → 2048). The reasoned regions also feed the caption-generation branch
(`heads.caption_decoder`): `both` gives them along. The paper does not speak of the two l2norms; the published code has
them over the wrong dimension, dividing each dimension by its norm over the *regions*. `normalize` offers what was meant
("features"), what was published ("regions"), and "none". On Flickr30K published code leaves the first of the two out:
`normalize_first: false`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from vsekit.pooling.base import PoolingPart, RegionPooling
from vsekit.pooling.gcn import GraphReasoning
from vsekit.pooling.masked import read_sequence, zero_padding

Normalize = Literal["features", "regions", "none"]


class VSRN(RegionPooling):
    def __init__(
        self, dim: int, layers: int = 4, normalize: Normalize = "features", normalize_first: bool = True
    ) -> None:
        super().__init__(dim)
        self.normalize, self.normalize_first = normalize, normalize_first
        self.layers = nn.ModuleList(GraphReasoning(dim) for _ in range(layers))
        self.gru = nn.GRU(dim, dim, batch_first=True)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return self.both(vectors, mask)[1]

    def both(self, vectors: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The reasoned regions, (B, N, d), for the caption-generation branch, and the image, (B, d)."""
        regions = self.reason(vectors, mask)
        return regions, read_sequence(self.gru, regions, mask)[1]

    def reason(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """(B, N, d), (B, N) → (B, N, d), each region in its place, zeros at the padded ones."""
        vectors = zero_padding(vectors, mask)
        if self.normalize_first:
            vectors = self._l2norm(vectors)
        for layer in self.layers:
            vectors = layer(vectors, mask)
        return self._l2norm(vectors)

    def _l2norm(self, vectors: Tensor) -> Tensor:
        if self.normalize == "none":
            return vectors
        return F.normalize(vectors, dim=-1 if self.normalize == "features" else 1)


class VSRNSettings(PoolingPart):
    """layers: of graph reasoning. normalize: over what the l2 norms run. normalize_first: with the one before reasoning."""

    gives_regions: ClassVar[bool] = True

    kind: Literal["vsrn"] = "vsrn"
    layers: PositiveInt = 4
    normalize: Normalize = "features"
    normalize_first: bool = True

    def build(self, dim: int) -> VSRN:
        return VSRN(dim, self.layers, self.normalize, self.normalize_first)
