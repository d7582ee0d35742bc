"""A tower: from an encoder's set of vectors to a point (or a set of points) in the common space."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from vsekit.data.views import normalised
from vsekit.encoders.image.tails import WithTail
from vsekit.errors import UserError
from vsekit.heads.residual_mlp import ResidualMLP
from vsekit.models.settings import ImageTowerSettings, TextTowerSettings
from vsekit.parts import ReadTokens, Sets
from vsekit.pooling.base import RegionPooling
from vsekit.similarity.cosine import l2_normalised


def mean_of_views(sets: Sets) -> Sets:
    """`Sets` of (B, V, N, d) → of (B, N, d): the mean over an item's views, place by place. Without views they pass."""
    if sets.vectors.dim() == 3:
        return sets
    there = sets.mask.any(2)
    vectors = sets.vectors.masked_fill(~there[:, :, None, None], 0).sum(1) / there.sum(1)[:, None, None]
    first = there.byte().argmax(1)
    return Sets(vectors, sets.mask[torch.arange(len(first), device=first.device), first])


def mean_of_maps() -> UserError:
    return UserError(
        "several views of a picture can't be averaged before the tail of its encoder",
        field="image.average_views",
        remedy="Set average_views: after_head, or choose a view with one crop (1C).",
    )


class Tower(nn.Module):
    """encoder → (its tail) → (l2 norm) → projection → pooling (with words beside) → head → abs → l2 norm; see `settings`.

    Args:
        encoder: gives `Sets` of (B, N, encoder.dim), or of (B, V, N, encoder.dim) where it looks at an item V times.
        dim: the size D of what comes out.
        vocabulary: how many tokens there are, for a text tower with `words`.
    """

    def __init__(
        self, settings: ImageTowerSettings | TextTowerSettings, encoder: Any, dim: int, vocabulary: int = 0
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.tail: Any = encoder.tail() if isinstance(settings, ImageTowerSettings) else None
        given = encoder.dim if self.tail is None else self.tail.dim
        between = given if settings.projection.keeps_size else settings.projection_dim or dim
        self.projection = settings.projection.build(given, between)
        self.pooling = settings.pooling.build(between)
        self.regions_dim = between
        pooled = between if self.pooling is None else self.pooling.dim_out
        words = settings.words if isinstance(settings, TextTowerSettings) else None
        self.words = words.build(vocabulary) if words else None
        self.head = settings.head.build(pooled + (words.dim if words else 0), dim)
        self.average_views, self.normalise_features = settings.average_views, settings.normalise_features
        self.normalise, self.absolute = settings.normalise, settings.absolute

    def forward(self, inputs: Any) -> Tensor | Sets:
        """Pixels or tokens, or what the encoder made of them before → (B, D), or `Sets` of (B, N, D) where nothing pools."""
        return self.embed(self.encode(inputs), inputs)

    def encode(self, inputs: Any) -> Sets:
        """Pixels (B, 3, H, W), views of each picture (B, V, 3, H, W), or tokens → `Sets` of (B, N, d).

        Features that are `Sets` already pass. Views are averaged here, or kept apart for `embed` to average: then
        (B, V, N, d). Pixels of 8 bits are normalised as the encoder expects.
        """
        if isinstance(inputs, Tensor) and inputs.dtype == torch.uint8:
            inputs = normalised(inputs, self.encoder.mean, self.encoder.std)
        if isinstance(inputs, Sets):
            sets = inputs
        elif isinstance(inputs, ReadTokens):
            places = torch.arange(inputs.ids.shape[1], device=inputs.ids.device)
            sets = Sets(inputs.states, places < inputs.lengths[:, None])
        elif isinstance(inputs, Tensor) and inputs.dim() == 5:
            flat, views = self.encoder(inputs.flatten(0, 1)), inputs.shape[:2]
            sets = Sets(flat.vectors.unflatten(0, views), flat.mask.unflatten(0, views))
        else:
            sets = self.encoder(inputs)
        if self.average_views == "after_head":
            return sets
        if self._are_maps(sets.vectors) and sets.vectors.dim() == 4 and sets.vectors.shape[1] > 1:
            if not self.told_apart:
                raise mean_of_maps()
            sets = Sets(self.tail(sets.vectors), sets.mask)
        return mean_of_views(sets)

    def embed(self, sets: Sets, tokens: Any = None) -> Tensor | Sets:
        """The same from the encoder's output on, for features that were extracted before.

        tokens: those of the sentences, for a tower with `words`.
        """
        if sets.vectors.dim() == 4:
            return self._finished(self._mean_after_head(sets))
        projected = self._projected(sets)
        if self.pooling is None:
            return Sets(self._finished(self.head(projected)), sets.mask)
        pooled = self.pooling(projected, sets.mask)
        if self.words is not None:
            pooled = torch.cat([pooled, self.words(tokens.ids, tokens.lengths)], dim=1)
        return self._finished(self.head(pooled))

    def embed_with_regions(self, sets: Sets) -> tuple[Tensor, Tensor]:
        """(B, D), and the regions (B, N, d) as the pooling left them, for a caption branch."""
        assert isinstance(self.pooling, RegionPooling)  # ModelSettings sees to it
        regions, pooled = self.pooling.both(self._projected(sets), sets.mask)
        return self._finished(self.head(pooled)), regions

    def _mean_after_head(self, sets: Sets) -> Tensor:
        """`Sets` of (B, V, N, d) → (B, D): every view through the head, then the mean over an item's views."""
        assert self.pooling is not None  # TowerSettings sees to it
        there = sets.mask.any(2)
        views = Sets(sets.vectors[there], sets.mask[there])
        each = self.head(self.pooling(self._projected(views), views.mask))
        item, counts = there.nonzero()[:, 0], there.sum(1)
        return each.new_zeros(len(there), each.shape[1]).index_add(0, item, each) / counts[:, None]

    def _projected(self, sets: Sets) -> Tensor:
        vectors = self.tail(sets.vectors) if self._are_maps(sets.vectors) else sets.vectors
        vectors = l2_normalised(vectors) if self.normalise_features else vectors
        if isinstance(self.projection, ResidualMLP):
            return self.projection(vectors, sets.mask)  # its batch norm must not see the padding
        return self.projection(vectors)

    @property
    def told_apart(self) -> bool:
        """Whether maps for the tail and what it gives differ in size, so that features may be either; else they are maps."""
        return self.tail is not None and self.encoder.dim != self.tail.dim

    def with_tail(self) -> Any:
        """The encoder together with its tail, where features of both can be told from maps; else the encoder alone."""
        return WithTail(self.encoder, self.tail).eval() if self.told_apart else self.encoder

    def _are_maps(self, vectors: Tensor) -> bool:
        return self.tail is not None and not (self.told_apart and vectors.shape[-1] == self.tail.dim)

    def _finished(self, vectors: Tensor) -> Tensor:
        if self.absolute:
            vectors = vectors.abs()
        return l2_normalised(vectors) if self.normalise else vectors
