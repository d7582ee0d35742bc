"""Offline triplet loss (OffTri), Chen et al., "Adaptive Offline Quintuplet Loss for Image-Text Matching", Eq. 3.

    L = Σ_(i,t)  [γ₁ − S(i, t) + S(i, t_on)]₊ + [γ₂ − S(i, t) + S(i, t_off)]₊
               + [γ₁ − S(i, t) + S(i_on, t)]₊ + [γ₂ − S(i, t) + S(i_off, t)]₊

The online terms are `max_of_hinges` (Eq. 2); the offline negatives are sampled from lists mined over the whole training
set (`mining.sampler`). `offline_quintuplet` adds pairs that share no element with (i, t).

With `squared` each term is its square, [ · ]₊²: the simple way of Sec. 3.3 to make the penalty grow with the difference
of the scores. The paper found that it helps little, and goes on to `adaptive_offline_quintuplet`.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import relu

from vsekit.losses.base import (
    Loss,
    LossContext,
    LossInputs,
    LossPart,
    MaskKind,
    OfflineScores,
    hardest_negatives,
    negatives,
)


def hinges(positive: Tensor, others: list[Tensor], margin: float, squared: bool = False) -> Tensor:
    """Σ [γ − S(i, t) + S(other)]₊ over the given negative pairs, or its squares. Args: positive (B,), others each (B,)."""
    terms = relu(margin - positive + torch.stack(others))
    return (terms.square() if squared else terms).sum()


def offline_triplet(
    scores: Tensor,
    negative: Tensor,
    offline: OfflineScores,
    margin: float = 0.2,
    offline_margin: float = 0.0,
    online: bool = True,
    squared: bool = False,
) -> Tensor:
    """Args: scores (B, B), image × caption; negative (B, B) bool; online: with the γ₁ terms. Returns a scalar."""
    positive = scores.diagonal()
    loss = hinges(positive, [offline.caption, offline.image], offline_margin, squared)
    return loss + hinges(positive, [*hardest_negatives(scores, negative)], margin, squared) if online else loss


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
        switches = {"online": s.online, "squared": s.squared}
        return offline_triplet(inputs.scores, negative, offline_of(inputs), s.margin, s.offline_margin, **switches), {}

    def plateau(self, batch: int) -> float:
        s, power = self.settings, 2 if self.settings.squared else 1
        return 2 * batch * (s.margin**power * s.online + s.offline_margin**power)


class OfflineTripletSettings(LossPart):
    """margin: γ₁. offline_margin: γ₂. online: False is the ablation OnlyOffline of Table 3, which fails to train.

    squared: every term is its square (Sec. 3.3).
    mask: "diagonal" takes other captions of the same image for online negatives, as published code does.
    """

    kind: Literal["offline_triplet"] = "offline_triplet"
    margin: float = Field(0.2, ge=0)
    offline_margin: float = Field(0.0, ge=0)
    online: bool = True
    squared: bool = False
    mask: MaskKind = "group"

    def build(self, context: LossContext) -> OfflineTriplet:
        return OfflineTriplet(self)
