"""The MVN baseline of Jain & Verma, "Contrastive Learning of Visual-Semantic Embeddings", Sec. III-B and Table III.

The multi-modal NCE loss of Alayrac et al. (2020), SimCLR's loss for pairs: an anchor has 2·(N − 1) negatives, the other
captions *and* the other images of the batch.

    ℓ_I(I, C) = −log( exp(s(I, C)/τ) / (Σ_k exp(s(I, C_k)/τ) + Σ_{k: I_k ≠ I} exp(s(I, I_k)/τ)) )

plus ℓ_C with C as the anchor, averaged over the pairs. Without the second sum it is `info_nce`. Scores within a
modality need a similarity that treats both sides alike: cosine.
"""

from __future__ import annotations

from math import log
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from vsekit.errors import UserError
from vsekit.losses.base import Loss, LossContext, LossInputs, LossPart, MaskKind, negatives
from vsekit.losses.info_nce import contrast, with_positive
from vsekit.parts import Sets


def mvn(scores: Tensor, image_image: Tensor, caption_caption: Tensor, negative: Tensor, temperature: float) -> Tensor:
    """Args: three (B, B) score matrices; negative (B, B) bool, see `base.negatives`. Returns a scalar."""
    keep = torch.cat([with_positive(negative), negative], dim=1)
    positive = scores.diagonal()
    images = contrast(positive, torch.cat([scores, image_image], dim=1), keep, temperature)
    captions = contrast(positive, torch.cat([scores.T, caption_caption], dim=1), keep, temperature)
    return (images + captions).mean()


class MVN(Loss):
    needs_symmetric = True

    def __init__(self, settings: MVNSettings) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        if isinstance(inputs.images, Sets) or isinstance(inputs.captions, Sets):
            raise UserError(
                "the loss 'mvn' scores images with images, and a set similarity attends from words to regions only",
                remedy="Use the similarity 'cosine', or the loss 'info_nce', which has no negatives within a modality.",
            )
        return mvn(
            inputs.scores,
            inputs.similarity(inputs.images, inputs.images),
            inputs.similarity(inputs.captions, inputs.captions),
            negatives(inputs.groups, self.settings.mask),
            self.settings.temperature,
        ), {}

    def plateau(self, batch: int) -> float:
        """Where no group repeats in the batch."""
        return 2 * log(2 * batch - 1)


class MVNSettings(LossPart):
    """temperature: τ. mask: "diagonal" takes other captions of the same image for negatives, as published code does."""

    kind: Literal["mvn"] = "mvn"
    temperature: float = Field(0.1, gt=0)
    mask: MaskKind = "group"

    def build(self, context: LossContext) -> MVN:
        return MVN(self)
