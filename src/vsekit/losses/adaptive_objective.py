"""The adaptive objective (AdOpt), Zhang et al., "Improving Visual-Semantic Embedding with Adaptive Pooling and
Optimization Objective" (VSE+2AD), Sec. 3.3, Eq. 6–7.

    γ_align = E[s(t, v)] over the pairs;   γ_uniform = log E[exp s(t, v)] over all texts and images of the batch
    K′ = ⌊B·cos((γ_align + γ_uniform)·π/4)⌋,   K = max(1, min(K′, B − 1))                                     (6)
    L = −1/B Σ log( exp(s(t, v)/τ) / Σ_k exp(s(t̂_k, v)/τ) ) + the same over v̂_k, the K hardest negatives of each  (7)

An immature model (γ ≈ 0) learns from all negatives, a mature one from few. The sum of the measures is kept within
0…2, the range the paper states, so that similarities above 1 (BFAN) count as mature; under an order similarity, which
is never above 0, K is always B − 1. `k`, `alignment` and `uniformity` are logged every step and draw Fig. C-2.

`variant: published` is what the authors' code computes instead: γ_uniform = E[exp −s] with the positives' s as 0;
K = ⌊B·cos((γ_align + γ_uniform)^1.25)⌋ + 1; only the diagonal is masked, and with 0, so that an anchor with fewer than
K negatives above 0 draws its own positive as one; negatives get a margin; the positive is in the denominator; the
directions are averaged.
"""

from __future__ import annotations

from math import cos, pi
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from vsekit.losses.base import Loss, LossContext, LossInputs, LossPart, MaskKind, negatives
from vsekit.losses.info_nce import contrast


def within(k: int, batch: int) -> int:
    return max(1, min(k, batch - 1))


def measures(scores: Tensor) -> tuple[float, float]:
    """Alignment and uniformity of a batch's scores (B, B), as the paper defines them."""
    return scores.diagonal().mean().item(), scores.exp().mean().log().item()


def hardest_count(alignment: float, uniformity: float, batch: int) -> int:
    """K of Eq. 6."""
    maturity = min(max(alignment + uniformity, 0.0), 2.0)
    return within(int(batch * cos(maturity * pi / 4)), batch)


def adaptive_objective(scores: Tensor, negative: Tensor, k: int, temperature: float = 0.05) -> Tensor:
    """Eq. 7. Args: scores (B, B), image × caption; negative (B, B) bool; k: K. Returns a scalar."""

    def direction(anchored: Tensor) -> Tensor:
        hardest = anchored.masked_fill(~negative, -torch.inf).topk(k, dim=1, sorted=False).values
        return contrast(scores.diagonal(), hardest, ~hardest.isneginf(), temperature)

    return (direction(scores) + direction(scores.T)).mean()


def published_measures(scores: Tensor) -> tuple[float, float]:
    return scores.diagonal().mean().item(), (-without_positives(scores)).exp().mean().item()


def published_count(alignment: float, uniformity: float, batch: int) -> int:
    return within(int(batch * cos(max(alignment + uniformity, 0.0) ** 1.25)) + 1, batch)


def published_objective(scores: Tensor, k: int, temperature: float, margin: float) -> Tensor:
    def direction(anchored: Tensor) -> Tensor:
        drawn = without_positives(anchored).topk(k, dim=1, sorted=False).indices
        candidates = torch.cat([scores.diagonal()[:, None], anchored.gather(1, drawn) + margin], dim=1)
        return contrast(scores.diagonal(), candidates, torch.ones_like(candidates, dtype=torch.bool), temperature)

    return (direction(scores) + direction(scores.T)).mean() / 2


def without_positives(scores: Tensor) -> Tensor:
    return scores - scores.diagonal().diag()


class AdaptiveObjective(Loss):
    def __init__(self, settings: AdaptiveObjectiveSettings) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        scores, s = inputs.scores, self.settings
        if s.variant == "paper":
            alignment, uniformity = measures(scores.detach())
            k = hardest_count(alignment, uniformity, len(scores))
            loss = adaptive_objective(scores, negatives(inputs.groups, s.mask), k, s.temperature)
        else:
            alignment, uniformity = published_measures(scores.detach())
            k = published_count(alignment, uniformity, len(scores))
            loss = published_objective(scores, k, s.temperature, s.margin)
        return loss, {"k": k, "alignment": alignment, "uniformity": uniformity}


class AdaptiveObjectiveSettings(LossPart):
    """temperature: τ. variant: the paper's equations, or the published code's, see above.

    mask: "diagonal" takes other captions of the same image for negatives; `published` always does.
    margin: of `published` alone.
    """

    kind: Literal["adaptive_objective"] = "adaptive_objective"
    temperature: float = Field(0.05, gt=0)
    variant: Literal["paper", "published"] = "paper"
    mask: MaskKind = "group"
    margin: float = Field(0.2, ge=0)

    def build(self, context: LossContext) -> AdaptiveObjective:
        return AdaptiveObjective(self)
