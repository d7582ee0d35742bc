"""Sum of negatives (ConVSE), Jain & Verma, "Contrastive Learning of Visual-Semantic Embeddings", Eq. 6–8: InfoNCE.

    ℓ_CSN(I, C) = −log( exp(s(I, C)/τ) / Σ_k exp(s(I, C_k)/τ) ) − log( exp(s(I, C)/τ) / Σ_k exp(s(I_k, C)/τ) )

averaged over the pairs of the batch (Algorithm 1), directions added. The sums run over the N captions or images of the
batch, the positive among them. Further positives of the anchor's group stay out of the sums: they are no negatives.
Siblings: `mvn` adds negatives of the anchor's own modality, `max_of_negatives` keeps only the hardest,
`adaptive_objective` the K hardest.
"""

from __future__ import annotations

from math import log
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from vsekit.losses.base import Loss, LossContext, LossInputs, LossPart, MaskKind, negatives

Denominator = Literal["all", "negatives"]


def contrast(positive: Tensor, candidates: Tensor, keep: Tensor, temperature: float) -> Tensor:
    """−log( exp(positive/τ) / Σ_keep exp(candidates/τ) ) for each anchor, 0 where an anchor keeps no candidate.

    Args: positive (B,); candidates (B, N), their scores with the anchor; keep (B, N) bool. Returns (B,).
    """
    logits = (candidates / temperature).masked_fill(~keep, -torch.inf)
    return (logits.logsumexp(dim=1) - positive / temperature).masked_fill(~keep.any(dim=1), 0.0)


def with_positive(negative: Tensor) -> Tensor:
    """The mask of negatives, with the pair itself added: (B, B) bool."""
    return negative | torch.eye(len(negative), dtype=torch.bool, device=negative.device)


def info_nce(scores: Tensor, negative: Tensor, temperature: float = 0.1, denominator: Denominator = "all") -> Tensor:
    """Args: scores (B, B), image × caption; negative (B, B) bool, see `base.negatives`. Returns a scalar."""
    keep = with_positive(negative) if denominator == "all" else negative
    positive = scores.diagonal()
    captions, images = (contrast(positive, s, keep, temperature) for s in (scores, scores.T))
    return (captions + images).mean()


class InfoNCE(Loss):
    def __init__(self, settings: InfoNCESettings) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        negative = negatives(inputs.groups, self.settings.mask)
        return info_nce(inputs.scores, negative, self.settings.temperature, self.settings.denominator), {}

    def plateau(self, batch: int) -> float:
        """Where no group repeats in the batch."""
        candidates = batch if self.settings.denominator == "all" else batch - 1
        return 2 * log(max(candidates, 1))


class InfoNCESettings(LossPart):
    """temperature: τ.

    denominator: "all" is Eq. 7–8; "negatives" leaves the positive out, as the InfoNCE of VSE+2AD is written.
    mask: "diagonal" takes other captions of the same image for negatives, as published code does.
    """

    kind: Literal["info_nce"] = "info_nce"
    temperature: float = Field(0.1, gt=0)
    denominator: Denominator = "all"
    mask: MaskKind = "group"

    def build(self, context: LossContext) -> InfoNCE:
        return InfoNCE(self)
