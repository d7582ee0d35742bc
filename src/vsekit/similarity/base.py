"""The contract of a similarity: two batches in, a score matrix out; higher is closer.

A pooled similarity compares vectors, (I, D) with (C, D); a set similarity (SCAN, BFAN) compares `Sets` of region
vectors with `Sets` of word vectors. Both give scores of every picture with every caption, (I, C), and of aligned
pairs alone, (B,), without computing the matrix.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from vsekit.parts import Part


class Similarity(nn.Module):
    """Subclasses set `on_sets` and implement both methods on tensors (pooled) or on `Sets`.

    symmetric: s(a, b) = s(b, a), so that pictures can be compared with pictures and captions with captions.
    inner_product: True when scores are the plain matrix product of `prepare_images(images)` and
        `prepare_captions(captions)`, so that whoever scores whole collections (evaluation, mining, search) may
        prepare each side once and then use the fastest product there is.
    """

    on_sets: bool = False
    symmetric: bool = True
    inner_product: bool = False

    def forward(self, images: Any, captions: Any) -> Tensor:
        """Scores of every image with every caption, (I, C)."""
        raise NotImplementedError

    def paired(self, images: Any, captions: Any) -> Tensor:
        """Scores of image b with caption b, (B,)."""
        raise NotImplementedError

    def prepare_images(self, images: Tensor) -> Tensor:
        return images

    def prepare_captions(self, captions: Tensor) -> Tensor:
        return captions


class SimilarityPart(Part):
    """Settings of a similarity."""

    def build(self) -> Similarity:
        raise NotImplementedError


def full_precision(x: Tensor) -> Tensor:
    """Half precision to float32, for sums of many small terms; float32 and float64 stay as they are."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
