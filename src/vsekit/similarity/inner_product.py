"""The unnormalised inner product, s(i, c) = f(i)ᵀ g(c): VSE++ (Faghri et al. 2018), Eq. 3, before normalisation.

VSE0 as published leaves the image embedding unnormalised; this similarity then keeps its length in the score.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from vsekit.similarity.base import Similarity, SimilarityPart


class InnerProduct(Similarity):
    inner_product = True

    def forward(self, images: Tensor, captions: Tensor) -> Tensor:
        """(I, D), (C, D) → (I, C)."""
        return images @ captions.mT

    def paired(self, images: Tensor, captions: Tensor) -> Tensor:
        """(B, D), (B, D) → (B,)."""
        return (images * captions).sum(-1)


class InnerProductSettings(SimilarityPart):
    kind: Literal["inner_product"] = "inner_product"

    def build(self) -> InnerProduct:
        return InnerProduct()
