"""Order similarity, s(i, c) = −‖max(0, g(c) − f(i))‖₂: VSE++ (Faghri et al. 2018), Sec. 3.5.

A caption is more general than its picture, so it should lie below it in every dimension; what sticks out is the
violation. The energy of order-embeddings (Vendrov et al. 2016) is the same without the root: `squared`.
Taking absolute values of the embeddings, as Order0 does, is the towers' business.

Unlike cosine this is no matrix product: all I × C × D violations have to be looked at, though never all be held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from vsekit.similarity.base import Similarity, SimilarityPart, full_precision

# A block of violations must stay in cache between the passes over it: 2¹⁹ float32 are 2 MiB.
_BLOCK = 2**19
_IMAGES = 16


def violation(images: Tensor, captions: Tensor) -> Tensor:
    """‖max(0, captions[c] − images[i])‖₂ for all i and c: (I, D), (C, D) → (I, C).

    Differentiable once; where there is no violation the norm has no derivative, and its subgradient 0 is used.
    """
    return _Violation.apply(full_precision(images), full_precision(captions))


class _Violation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, captions: Tensor) -> Tensor:
        norms = images.new_empty(len(images), len(captions))
        for i, c, excess in _blocks(images, captions):
            torch.linalg.vector_norm(excess, dim=-1, out=norms[i, c])
        ctx.save_for_backward(images, captions, norms)
        return norms

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        images, captions, norms = ctx.saved_tensors
        weights = torch.where(norms > 0, grad / norms, 0.0)
        to_images, to_captions = torch.zeros_like(images), torch.zeros_like(captions)
        # Hinges leave most scores without a gradient; max-of-hinges all but three in a row.
        if 2 * weights.count_nonzero() < weights.numel():
            size = max(1, _BLOCK // images.shape[1])
            rows, columns = weights.nonzero(as_tuple=True)
            for i, c in zip(rows.split(size), columns.split(size)):
                pull = (captions[c] - images[i]).relu_().mul_(weights[i, c, None])
                to_images.index_add_(0, i, pull, alpha=-1)
                to_captions.index_add_(0, c, pull)
        else:
            transposed = weights.T.contiguous()
            for i, c, excess in _blocks(images, captions):
                to_images[i, None].baddbmm_(weights[i, None, c], excess, alpha=-1)
                to_captions[c, None].baddbmm_(transposed[c, None, i], excess.transpose(0, 1))
        return to_images, to_captions


def _blocks(images: Tensor, captions: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """Row slice, column slice, and max(0, captions − images) of that block, (i, c, D), in one reused buffer."""
    (n_images, dim), n_captions = images.shape, len(captions)
    height = min(_IMAGES, n_images)
    width = max(1, _BLOCK // (height * dim))
    memory = images.new_empty(height * min(width, n_captions) * dim)
    for top in range(0, n_images, height):
        i = slice(top, min(top + height, n_images))
        for left in range(0, n_captions, width):
            c = slice(left, min(left + width, n_captions))
            shape = (i.stop - i.start, c.stop - c.start, dim)
            excess = memory[: shape[0] * shape[1] * dim].view(shape)
            yield i, c, torch.sub(captions[c], images[i, None], out=excess).relu_()


class Order(Similarity):
    """squared: the energy without the root, −‖max(0, g(c) − f(i))‖₂²."""

    symmetric = False

    def __init__(self, squared: bool = False) -> None:
        super().__init__()
        self.squared = squared

    def forward(self, images: Tensor, captions: Tensor) -> Tensor:
        """(I, D), (C, D) → (I, C)."""
        return self._score(violation(images, captions))

    def paired(self, images: Tensor, captions: Tensor) -> Tensor:
        """(B, D), (B, D) → (B,)."""
        return self._score(torch.linalg.vector_norm((full_precision(captions) - full_precision(images)).relu(), dim=-1))

    def _score(self, violation: Tensor) -> Tensor:
        return -(violation.square() if self.squared else violation)


class OrderSettings(SimilarityPart):
    kind: Literal["order"] = "order"
    squared: bool = False

    def build(self) -> Order:
        return Order(self.squared)
