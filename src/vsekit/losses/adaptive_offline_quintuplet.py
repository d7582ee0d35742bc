"""Adaptive offline quintuplet loss (AdapOffQuin), Chen et al., "Adaptive Offline Quintuplet Loss …", Eq. 5–6.

`offline_quintuplet` with a weight on each online hinge that falls as the online negative drops below the offline one:

    L = Σ_(i,t)  (β − (S(i, t_off) − S(i, t_on))/α) · [γ₁ − S(i, t) + S(i, t_on)]₊
               + (β − (S(i_off, t) − S(i_on, t))/α) · [γ₁ − S(i, t) + S(i_on, t)]₊
               + [γ₂ − S(i, t) + S(·, ·)]₊ for the four offline pairs of Eq. 4

The gradient flows through the weights (Eq. 6), and a weight is negative where S(i, t_off) − S(i, t_on) > αβ = 0.45;
paper and published code agree on both. Of Table 3's ablations, OnlyOffline and OnlineQuin are switches of
`offline_quintuplet`, the list size h belongs to the sampler, and fine-tuning to the stage.
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
from vsekit.losses.offline_triplet import hinges, offline_of


def adaptive_online(
    scores: Tensor, negative: Tensor, offline: OfflineScores, settings: AdaptiveOfflineQuintupletSettings
) -> tuple[Tensor, Tensor]:
    """The weighted online hinges and their weights, both (2, B): image anchors, then caption anchors."""
    positive = scores.diagonal()
    online = torch.stack(hardest_negatives(scores, negative))
    reference = torch.stack([offline.caption, offline.image]) if settings.offline_adaptive else positive
    # An anchor without an online negative has a hinge of 0; its weight has to be finite for the product to be 0 too.
    weight = settings.beta - (reference - online.masked_fill(online.isneginf(), 0.0)) / settings.alpha
    if settings.clamp_weight:
        weight = weight.clamp(min=0)
    if settings.detach_weight:
        weight = weight.detach()
    return weight * relu(settings.margin - positive + online), weight


class AdaptiveOfflineQuintuplet(Loss):
    needs_offline = True

    def __init__(self, settings: AdaptiveOfflineQuintupletSettings) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        offline = offline_of(inputs)
        online, weight = adaptive_online(
            inputs.scores, negatives(inputs.groups, self.settings.mask), offline, self.settings
        )
        pairs = [offline.caption, offline.image, offline.both, offline.partners]
        loss = online.sum() + hinges(inputs.scores.diagonal(), pairs, self.settings.offline_margin)
        return loss, {"weight": weight.detach().mean()}

    def plateau(self, batch: int) -> float:
        return 2 * batch * (self.settings.beta * self.settings.margin + 2 * self.settings.offline_margin)


class AdaptiveOfflineQuintupletSettings(LossPart):
    """margin: γ₁. offline_margin: γ₂. alpha, beta: of the weight.

    offline_adaptive: False is the ablation "w/o OfflineAdap" of Table 3: S(i, t) in place of the offline scores in the
        weights. The paper tunes α and β anew for it.
    detach_weight, clamp_weight: no gradient through the weights; no weight below 0. Neither is the paper's.
    mask: "diagonal" takes other captions of the same image for online negatives, as published code does.
    """

    kind: Literal["adaptive_offline_quintuplet"] = "adaptive_offline_quintuplet"
    margin: float = Field(0.2, ge=0)
    offline_margin: float = Field(0.0, ge=0)
    alpha: float = Field(0.3, gt=0)
    beta: float = Field(1.5, ge=0)
    offline_adaptive: bool = True
    detach_weight: bool = False
    clamp_weight: bool = False
    mask: MaskKind = "group"

    def build(self, context: LossContext) -> AdaptiveOfflineQuintuplet:
        return AdaptiveOfflineQuintuplet(self)
