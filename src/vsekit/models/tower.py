"""A tower: from an encoder's set of vectors to a point (or a set of points) in the common space."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from vsekit.models.settings import ImageTowerSettings, TextTowerSettings
from vsekit.parts import Sets
from vsekit.pooling.base import RegionPooling
from vsekit.similarity.cosine import l2_normalised


class Tower(nn.Module):
    """encoder → projection → pooling → head → abs → l2 norm; see `vsekit.models.settings`.

    Args:
        encoder: gives `Sets` of (B, N, encoder.dim).
        dim: the size D of what comes out.
    """

    def __init__(self, settings: ImageTowerSettings | TextTowerSettings, encoder: Any, dim: int) -> None:
        super().__init__()
        self.encoder = encoder
        between = encoder.dim if settings.projection.keeps_size else settings.projection_dim or dim
        self.projection = settings.projection.build(encoder.dim, between)
        self.pooling = settings.pooling.build(between)
        self.regions_dim = between
        pooled = between if self.pooling is None else self.pooling.dim_out
        self.head = settings.head.build(pooled, dim)
        self.normalise, self.absolute = settings.normalise, settings.absolute

    def forward(self, inputs: Any) -> Tensor | Sets:
        """Pixels or tokens, or what the encoder made of them before → (B, D), or `Sets` of (B, N, D) where nothing pools."""
        return self.embed(inputs if isinstance(inputs, Sets) else self.encoder(inputs))

    def embed(self, sets: Sets) -> Tensor | Sets:
        """The same from the encoder's output on, for features that were extracted before."""
        projected = self.projection(sets.vectors)
        if self.pooling is None:
            return Sets(self._finished(projected), sets.mask)
        return self._finished(self.pooling(projected, sets.mask))

    def embed_with_regions(self, sets: Sets) -> tuple[Tensor, Tensor]:
        """(B, D), and the regions (B, N, d) as the pooling left them, for a caption branch."""
        assert isinstance(self.pooling, RegionPooling)  # ModelSettings sees to it
        regions, pooled = self.pooling.both(self.projection(sets.vectors), sets.mask)
        return self._finished(pooled), regions

    def _finished(self, vectors: Tensor) -> Tensor:
        vectors = self.head(vectors)
        if self.absolute:
            vectors = vectors.abs()
        return l2_normalised(vectors) if self.normalise else vectors
