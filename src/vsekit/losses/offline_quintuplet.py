"""Offline quintuplet loss (OffQuin), Chen et al., "Adaptive Offline Quintuplet Loss for Image-Text Matching", Eq. 4.

`offline_triplet` and two hinges for negative pairs that share no element with (i, t):

    L = Eq. 3 + Σ_(i,t) [γ₂ − S(i, t) + S(i_off, t_off)]₊ + [γ₂ − S(i, t) + S(ĩ_off, t̃_off)]₊

ĩ_off is the image of t_off and t̃_off a caption of i_off. Table 3's OnlineQuin builds these two pairs from the online
negatives instead; where i_on and t_on belong together the two pairs are positives and are left out. `squared` makes
each term its square (Sec. 3.3; see `offline_triplet`).
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from vsekit.losses.base import Loss, LossContext, LossInputs, LossPart, MaskKind, OfflineScores, negatives
from vsekit.losses.offline_triplet import hinges, offline_of, offline_triplet


def online_pairs(scores: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    """S(i_on, t_on) and S(image of t_on, caption of i_on), both (B,); −inf where they are no negatives."""
    candidates = scores.masked_fill(~negative, -torch.inf)
    caption, image = candidates.argmax(dim=1), candidates.argmax(dim=0)
    return candidates[image, caption], candidates[caption, image]


def offline_quintuplet(
    scores: Tensor,
    negative: Tensor,
    offline: OfflineScores,
    margin: float = 0.2,
    offline_margin: float = 0.0,
    online: bool = True,
    online_quintuplet: bool = False,
    squared: bool = False,
) -> Tensor:
    """Args: scores (B, B), image × caption; negative (B, B) bool; the switches are the ablations. Returns a scalar."""
    apart = online_pairs(scores, negative) if online_quintuplet else (offline.both, offline.partners)
    triplet = offline_triplet(scores, negative, offline, margin, offline_margin, online, squared)
    return triplet + hinges(scores.diagonal(), [*apart], offline_margin, squared)


class OfflineQuintuplet(Loss):
    needs_offline = True

    def __init__(self, settings: OfflineQuintupletSettings) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        s = self.settings
        negative, offline = negatives(inputs.groups, s.mask), offline_of(inputs)
        switches = {"online": s.online, "online_quintuplet": s.online_quintuplet, "squared": s.squared}
        return offline_quintuplet(inputs.scores, negative, offline, s.margin, s.offline_margin, **switches), {}

    def plateau(self, batch: int) -> float:
        s, power = self.settings, 2 if self.settings.squared else 1
        return 2 * batch * (s.margin**power * s.online + 2 * s.offline_margin**power)


class OfflineQuintupletSettings(LossPart):
    """margin: γ₁. offline_margin: γ₂. online: False is the ablation OnlyOffline of Table 3, which fails to train.

    online_quintuplet: the ablation OnlineQuin of Table 3.
    squared: every term is its square (Sec. 3.3).
    mask: "diagonal" takes other captions of the same image for online negatives, as published code does.
    """

    kind: Literal["offline_quintuplet"] = "offline_quintuplet"
    margin: float = Field(0.2, ge=0)
    offline_margin: float = Field(0.0, ge=0)
    online: bool = True
    online_quintuplet: bool = False
    squared: bool = False
    mask: MaskKind = "group"

    def build(self, context: LossContext) -> OfflineQuintuplet:
        return OfflineQuintuplet(self)
