"""Scores of a block of pictures with a block of captions, whatever model stands behind them.

Evaluation and mining walk over the score matrix of a whole collection in blocks and never hold all of it. A `Scorer`
knows both sides of the collection and gives any block on request:

    block(images, captions) → (I, C) float32; the indices are slices or integer arrays.

Two calls with equal indices give equal bits. The block may be a view of a buffer that the next call overwrites, and the
caller may write into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from vsekit.errors import UserError
from vsekit.parts import Sets

Index: TypeAlias = slice | np.ndarray
Array: TypeAlias = np.ndarray | Tensor


class Scorer(Protocol):
    n_images: int
    n_captions: int

    def block(self, images: Index, captions: Index) -> Tensor:
        """Scores of the chosen images with the chosen captions, (I, C) float32; higher is closer."""
        ...


def _rows(array: Array, index: Index) -> Tensor:
    """Rows of `array` as a float32 tensor; without a copy where the array allows it."""
    if isinstance(array, Tensor):
        chosen = array[index] if isinstance(index, slice) else array[torch.from_numpy(index).to(array.device)]
        return chosen.float()
    rows = np.asarray(array[index], dtype=np.float32)
    return torch.from_numpy(rows if rows.flags.writeable else rows.copy())


class InnerProduct:
    """S = A·Bᵀ of images (n_images, D) and captions (n_captions, D): arrays, memory maps or tensors.

    Cosine similarity is this with rows of unit length; see `external.load_embeddings`.
    """

    def __init__(self, images: Array, captions: Array) -> None:
        if images.ndim != 2 or captions.ndim != 2 or images.shape[1] != captions.shape[1]:
            raise UserError(
                f"embeddings of shapes {tuple(images.shape)} and {tuple(captions.shape)} cannot be compared",
                remedy="Both must be (rows, D) with the same D.",
            )
        self.images, self.captions = images, captions
        self.n_images, self.n_captions = len(images), len(captions)
        self._buffer = torch.empty(0)

    def block(self, images: Index, captions: Index) -> Tensor:
        a, b = _rows(self.images, images), _rows(self.captions, captions)
        width = -(-len(b) // 16) * 16  # rows that start at odd addresses make the product a third slower
        if self._buffer.numel() < len(a) * width:
            self._buffer = torch.empty(len(a) * width, device=a.device)
        out = self._buffer[: len(a) * width].view(len(a), width)[:, : len(b)]
        with torch.inference_mode():
            return torch.mm(a, b.T, out=out)


class Pairwise:
    """Any `Similarity` on pooled embeddings (order) or on `Sets` (SCAN, BFAN).

    A block is scored a few captions at a time, at most `pairs` pairs in a call, since these similarities hold a number
    for every pair *and* dimension, or region and word. Padding beyond the longest set of a call is cut off first.

    Args:
        similarity: (images, captions) → (I, C), on tensors or on `Sets`.
        images, captions: (n, D) arrays, or `Sets` of (n, N, d) vectors with (n, N) masks, arrays or tensors.
        pairs: pairs in a call; by default 2¹⁶ for pooled embeddings, 2¹² for sets.
    """

    def __init__(
        self, similarity: Callable[[Any, Any], Tensor], images: Any, captions: Any, pairs: int | None = None
    ) -> None:
        self.similarity, self.images, self.captions = similarity, images, captions
        on_sets = isinstance(images, Sets)
        self.n_images = len(images.mask) if on_sets else len(images)
        self.n_captions = len(captions.mask) if on_sets else len(captions)
        self.pairs = pairs or (2**12 if on_sets else 2**16)

    def block(self, images: Index, captions: Index) -> Tensor:
        a, b = self._take(self.images, images), self._take(self.captions, captions)
        rows, columns = _length(a), _length(b)
        step = max(1, self.pairs // max(rows, 1))
        with torch.inference_mode():
            parts = [
                self.similarity(_trim(a, slice(r, r + self.pairs)), _trim(b, slice(c, c + step))).float()
                for r in range(0, rows, self.pairs)
                for c in range(0, columns, step)
            ]
            if rows <= self.pairs:
                return torch.cat(parts, dim=1)
            wide = -(-columns // step)
            return torch.cat([torch.cat(parts[i : i + wide], dim=1) for i in range(0, len(parts), wide)])

    @staticmethod
    def _take(side: Any, index: Index) -> Any:
        if not isinstance(side, Sets):
            return _rows(side, index)
        return Sets(_rows(side.vectors, index), _rows(side.mask, index).bool())


def _length(side: Any) -> int:
    return len(side.mask) if isinstance(side, Sets) else len(side)


def _trim(side: Any, index: slice) -> Any:
    if not isinstance(side, Sets):
        return side[index]
    mask = side.mask[index]
    longest = int(mask.any(0).nonzero().max()) + 1
    return Sets(side.vectors[index, :longest], mask[:, :longest])


class Average:
    """An ensemble: the (weighted) mean of the scores of several models on the same collection."""

    def __init__(self, scorers: Sequence[Scorer], weights: Sequence[float] | None = None) -> None:
        sizes = {(s.n_images, s.n_captions) for s in scorers}
        if len(sizes) != 1:
            raise UserError(
                f"an ensemble needs models scored on the same collection, not (images, captions) of {sorted(sizes)}",
            )
        self.scorers = list(scorers)
        raw = [1.0] * len(self.scorers) if weights is None else list(weights)
        self.weights = [w / sum(raw) for w in raw]
        ((self.n_images, self.n_captions),) = sizes

    def block(self, images: Index, captions: Index) -> Tensor:
        total = self.scorers[0].block(images, captions) * self.weights[0]
        for scorer, weight in zip(self.scorers[1:], self.weights[1:], strict=True):
            total += scorer.block(images, captions) * weight
        return total


class Less:
    """Scores with one number subtracted for each picture and one for each caption: S_ic − a_i − b_c. See `models.querybank`."""

    def __init__(self, scorer: Scorer, images: Tensor, captions: Tensor) -> None:
        self.scorer, self.images, self.captions = scorer, images, captions
        self.n_images, self.n_captions = scorer.n_images, scorer.n_captions

    def block(self, images: Index, captions: Index) -> Tensor:
        scores = self.scorer.block(images, captions)
        scores -= _rows(self.images, images)[:, None]
        scores -= _rows(self.captions, captions)
        return scores


class Taken:
    """A part of a collection: the given images and captions of another scorer (a fold of a protocol)."""

    def __init__(self, scorer: Scorer, images: np.ndarray, captions: np.ndarray) -> None:
        self.scorer, self.images, self.captions = scorer, images, captions
        self.n_images, self.n_captions = len(images), len(captions)

    def block(self, images: Index, captions: Index) -> Tensor:
        return self.scorer.block(as_slice(self.images[images]), as_slice(self.captions[captions]))


def as_slice(index: np.ndarray) -> Index:
    """The index as a slice where it counts up by one, so that rows need not be copied."""
    if len(index) and index[-1] - index[0] == len(index) - 1 and np.all(np.diff(index) == 1):
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


def _tensor(side: Array) -> Tensor:
    return side if isinstance(side, Tensor) else _rows(side, slice(None))


def scorer(images: Any, captions: Any, similarity: Any = None) -> Scorer:
    """The fastest scorer for a similarity (a module, or any callable on blocks); None is the inner product."""
    if similarity is None:
        return InnerProduct(images, captions)
    if getattr(similarity, "inner_product", False):
        return InnerProduct(similarity.prepare_images(_tensor(images)), similarity.prepare_captions(_tensor(captions)))
    return Pairwise(similarity, images, captions)
