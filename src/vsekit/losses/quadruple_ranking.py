"""The ranking loss of Zheng et al., "Dual-Path Convolutional Image-Text Embeddings with Instance Loss", Eq. 4.

    L_rank = max[0, α − (D(I_a, T_a) − D(I_a, T_n))] + max[0, α − (D(T_a, I_a) − D(T_a, I_n))]

for quadruples (I_a, T_a, I_n, T_n), a pair and a pair of another group; averaged over the batch. The paper doesn't say
how negatives are drawn; its code takes the hardest of 256 random captions. Here each pair draws `pool` negative pairs
of the batch and keeps the hardest caption and the hardest image of them: 1 is a random quadruple, B − 1 or more is
`max_of_hinges` / B. The code mines captions only, its negative image is a random one: `image_negative: random`. With
`instance` in a `weighted_sum` it is Eq. 9. The code's nominal weight of 2 multiplies a sum over 16 anchors divided by a
batch of 32, so it is weight 1 of this mean.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import relu

from vsekit.losses.base import Loss, LossContext, LossInputs, LossPart, MaskKind, negatives

ImageNegative = Literal["hardest", "random"]


def draw_negatives(negative: Tensor, pool: int) -> Tensor:
    """(B, min(pool, B)) indices of negative pairs, drawn without replacement; −1 where an anchor has no more."""
    keys = torch.rand(negative.shape, device=negative.device).masked_fill(~negative, -1.0)
    drawn = keys.topk(min(pool, len(negative)), dim=1)
    return drawn.indices.masked_fill(drawn.values < 0, -1)


def quadruple_ranking(
    scores: Tensor, drawn: Tensor, margin: float = 1.0, image_negative: ImageNegative = "hardest"
) -> Tensor:
    """Args: scores (B, B), image × caption; drawn (B, P), indices of negative pairs, −1 for none. Returns a scalar."""

    def hinges(anchored: Tensor, drawn: Tensor) -> Tensor:
        hardest = anchored.gather(1, drawn.clamp(min=0)).masked_fill(drawn < 0, -torch.inf).max(dim=1).values
        return relu(margin - scores.diagonal() + hardest)

    # The order they were drawn in is random, so the first is a random one.
    images = drawn if image_negative == "hardest" else drawn[:, :1]
    return (hinges(scores, drawn) + hinges(scores.T, images)).mean()


class QuadrupleRanking(Loss):
    def __init__(self, settings: QuadrupleRankingSettings) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        drawn = draw_negatives(negatives(inputs.groups, self.settings.mask), self.settings.pool)
        return quadruple_ranking(inputs.scores, drawn, self.settings.margin, self.settings.image_negative), {}

    def plateau(self, batch: int) -> float:
        return 2 * self.settings.margin


class QuadrupleRankingSettings(LossPart):
    """margin: α. pool: negative pairs drawn for each anchor, of which the hardest counts.

    image_negative: "random" takes the image of the first pair drawn, as published code does, instead of the hardest.
    mask: "diagonal" takes other captions of the same image for negatives.
    """

    kind: Literal["quadruple_ranking"] = "quadruple_ranking"
    margin: float = Field(1.0, ge=0)
    pool: int = Field(1, ge=1)
    image_negative: ImageNegative = "hardest"
    mask: MaskKind = "group"

    def build(self, context: LossContext) -> QuadrupleRanking:
        return QuadrupleRanking(self)
