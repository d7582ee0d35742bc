"""Sum of hinges (VSE0), Faghri et al., "VSE++: Improving Visual-Semantic Embeddings with Hard Negatives", Eq. 5.

    ℓ_SH(i, c) = Σ_ĉ [α − s(i, c) + s(i, ĉ)]₊ + Σ_î [α − s(i, c) + s(î, c)]₊

over all negative captions ĉ and images î of the batch, summed over its pairs. The same as Eq. 1 of AOQ and Eq. 2 of
ConVSE. It starts faster than `max_of_hinges` and ends lower; `sum_to_max` goes from one to the other.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from torch import Tensor
from torch.nn.functional import relu

from vsekit.losses.base import Loss, LossContext, LossInputs, LossPart, MaskKind, negatives


def sum_of_hinges(scores: Tensor, negative: Tensor, margin: float = 0.2) -> Tensor:
    """Args: scores (B, B), image × caption; negative (B, B) bool, see `base.negatives`. Returns a scalar."""
    positive = scores.diagonal()
    captions = relu(margin - positive[:, None] + scores)
    images = relu(margin - positive[None, :] + scores)
    return (captions + images).masked_fill(~negative, 0.0).sum()


class SumOfHinges(Loss):
    def __init__(self, settings: SumOfHingesSettings) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        negative = negatives(inputs.groups, self.settings.mask)
        return sum_of_hinges(inputs.scores, negative, self.settings.margin), {}

    def plateau(self, batch: int) -> float:
        """Where no group repeats in the batch."""
        return 2 * batch * (batch - 1) * self.settings.margin


class SumOfHingesSettings(LossPart):
    """margin: α. mask: "diagonal" takes other captions of the same image for negatives, as published code does."""

    kind: Literal["sum_of_hinges"] = "sum_of_hinges"
    margin: float = Field(0.2, ge=0)
    mask: MaskKind = "group"

    def build(self, context: LossContext) -> SumOfHinges:
        return SumOfHinges(self)
