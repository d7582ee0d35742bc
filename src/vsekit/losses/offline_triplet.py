"""Offline triplet loss (OffTri), Chen et al., "Adaptive Offline Quintuplet Loss for Image-Text Matching", Eq. 3.

    L = Σ_(i,t)  [γ₁ − S(i, t) + S(i, t_on)]₊ + [γ₂ − S(i, t) + S(i, t_off)]₊
               + [γ₁ − S(i, t) + S(i_on, t)]₊ + [γ₂ − S(i, t) + S(i_off, t)]₊

The online terms are `max_of_hinges` (Eq. 2); the offline negatives are sampled from lists mined over the whole training
set (`mining.sampler`). `offline_quintuplet` adds pairs that share no element with (i, t).
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import relu

from vsekit.losses.base import Loss, LossContext, LossInputs, LossPart, MaskKind, OfflineScores, negatives
from vsekit.losses.max_of_hinges import max_of_hinges


def hinges(positive: Tensor, others: list[Tensor], margin: float) -> Tensor:
    """Σ [γ − S(i, t) + S(other)]₊ over the given negative pairs. Args: positive (B,), others each (B,)."""
    return relu(margin - positive + torch.stack(others)).sum()


def offline_triplet(
    scores: Tensor,
    negative: Tensor,
    offline: OfflineScores,
    margin: float = 0.2,
    offline_margin: float = 0.0,
    online: bool = True,
) -> Tensor:
    """Args: scores (B, B), image × caption; negative (B, B) bool; online: with the γ₁ terms. Returns a scalar."""
    loss = hinges(scores.diagonal(), [offline.caption, offline.image], offline_margin)
    return loss + max_of_hinges(scores, negative, margin) if online else loss


def offline_of(inputs: LossInputs) -> OfflineScores:
    if inputs.offline is None:
        raise ValueError("this loss needs_offline: fill LossInputs.offline")
    return inputs.offline


class OfflineTriplet(Loss):
    needs_offline = True

    def __init__(self, settings: OfflineTripletSettings) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        s = self.settings
        negative = negatives(inputs.groups, s.mask)
        return offline_triplet(inputs.scores, negative, offline_of(inputs), s.margin, s.offline_margin, s.online), {}

    def plateau(self, batch: int) -> float:
        return 2 * batch * (self.settings.margin * self.settings.online + self.settings.offline_margin)


class OfflineTripletSettings(LossPart):
    """margin: γ₁. offline_margin: γ₂. online: False is the ablation OnlyOffline of Table 3, which fails to train.

    mask: "diagonal" takes other captions of the same image for online negatives, as published code does.
    """

    kind: Literal["offline_triplet"] = "offline_triplet"
    margin: float = Field(0.2, ge=0)
    offline_margin: float = Field(0.0, ge=0)
    online: bool = True
    mask: MaskKind = "group"

    def build(self, context: LossContext) -> OfflineTriplet:
        return OfflineTriplet(self)
