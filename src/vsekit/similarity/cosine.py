"""Cosine similarity, s(i, c) = f(i)ᵀ g(c) / (‖f(i)‖ ‖g(c)‖): VSE++ (Faghri et al. 2018), Sec. 2.1.

The towers normalise what they give, and normalising again changes nothing; it is done here too so that a score is a
cosine whatever it is given. A zero vector scores 0 with everything.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from vsekit.similarity.base import SimilarityPart
from vsekit.similarity.inner_product import InnerProduct


def l2_normalised(x: Tensor, eps: float = 1e-8) -> Tensor:
    """(…, D) → (…, D), each vector divided by its length.

    A vector no longer than `eps` is left as it is: dividing by `eps` instead, as is common, would send it a gradient
    10⁸ times that of its neighbours, and clipping by the global norm would then silence all others.
    """
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / length.masked_fill(length <= eps, 1.0)


class Cosine(InnerProduct):
    """The inner product of normalised vectors, hence `inner_product` once both sides are prepared."""

    def forward(self, images: Tensor, captions: Tensor) -> Tensor:
        """(I, D), (C, D) → (I, C)."""
        return super().forward(l2_normalised(images), l2_normalised(captions))

    def paired(self, images: Tensor, captions: Tensor) -> Tensor:
        """(B, D), (B, D) → (B,)."""
        return super().paired(l2_normalised(images), l2_normalised(captions))

    def prepare_images(self, images: Tensor) -> Tensor:
        return l2_normalised(images)

    def prepare_captions(self, captions: Tensor) -> Tensor:
        return l2_normalised(captions)


class CosineSettings(SimilarityPart):
    kind: Literal["cosine"] = "cosine"

    def build(self) -> Cosine:
        return Cosine()
