"""Max of hinges (VSE++), Faghri et al., "VSE++: Improving Visual-Semantic Embeddings with Hard Negatives", Eq. 6.

    ℓ_MH(i, c) = max_c′ [α + s(i, c′) − s(i, c)]₊ + max_i′ [α + s(i′, c) − s(i, c)]₊

over the negatives of the batch, summed over its pairs: only the hardest negative of each anchor counts. The same as
Eq. 2 of AOQ (online triplet loss), Eq. 5 of ConVSE and Eq. 2 of VSE+2AD. A run that has collapsed sits at exactly
2·B·α; a warm-up with sum of hinges (`sum_to_max`) is the usual remedy.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from torch import Tensor
from torch.nn.functional import relu

from vsekit.losses.base import Loss, LossContext, LossInputs, LossPart, MaskKind, hardest_negatives, negatives


def max_of_hinges(scores: Tensor, negative: Tensor, margin: float = 0.2) -> Tensor:
    """Args: scores (B, B), image × caption; negative (B, B) bool, see `base.negatives`. Returns a scalar."""
    positive = scores.diagonal()
    caption, image = hardest_negatives(scores, negative)
    return (relu(margin + caption - positive) + relu(margin + image - positive)).sum()


class MaxOfHinges(Loss):
    def __init__(self, settings: MaxOfHingesSettings) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        negative = negatives(inputs.groups, self.settings.mask)
        return max_of_hinges(inputs.scores, negative, self.settings.margin), {}

    def plateau(self, batch: int) -> float:
        return 2 * batch * self.settings.margin


class MaxOfHingesSettings(LossPart):
    """margin: α. mask: "diagonal" takes other captions of the same image for negatives, as published code does."""

    kind: Literal["max_of_hinges"] = "max_of_hinges"
    margin: float = Field(0.2, ge=0)
    mask: MaskKind = "group"

    def build(self, context: LossContext) -> MaxOfHinges:
        return MaxOfHinges(self)
