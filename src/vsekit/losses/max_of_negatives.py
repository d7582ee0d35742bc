"""Max of negatives (ConVSE++), Jain & Verma, "Contrastive Learning of Visual-Semantic Embeddings", Eq. 9–14.

    Eq. 12–14:  ℓ_CMN(I, C) = [−log( exp(s(I, C)/τ) / exp((s(I, C*) + α)/τ) )]₊ + the same for (I*, C)
    Eq. 9–11:   without the hinge and without the margin; negative once the positive wins

averaged over the pairs of the batch (Algorithm 1); C*, I* are the hardest negatives (Eq. 3–4). As the logarithm undoes
the exponentials, ℓ_CMN is exactly `max_of_hinges` / (B·τ): an optimiser that ignores the scale of the loss (Adam) can't
tell them apart.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import relu

from vsekit.losses.base import Loss, LossContext, LossInputs, LossPart, MaskKind, hardest_negatives, negatives


def max_of_negatives(
    scores: Tensor, negative: Tensor, temperature: float = 0.1, margin: float = 0.2, hinge: bool = True
) -> Tensor:
    """Args: scores (B, B), image × caption; negative (B, B) bool; hinge: Eq. 12–14, else Eq. 9–11. Returns a scalar."""
    gaps = torch.stack(hardest_negatives(scores, negative)) - scores.diagonal()
    gaps = relu(gaps + margin) if hinge else gaps.masked_fill(gaps.isneginf(), 0.0)
    return gaps.sum(dim=0).mean() / temperature


class MaxOfNegatives(Loss):
    def __init__(self, settings: MaxOfNegativesSettings) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        s = self.settings
        return max_of_negatives(inputs.scores, negatives(inputs.groups, s.mask), s.temperature, s.margin, s.hinge), {}

    def plateau(self, batch: int) -> float:
        return 2 * self.settings.margin / self.settings.temperature if self.settings.hinge else 0.0


class MaxOfNegativesSettings(LossPart):
    """temperature: τ. margin: α, with the hinge only. hinge: Eq. 12–14 when true, Eq. 9–11 when false.

    mask: "diagonal" takes other captions of the same image for negatives, as published code does.
    """

    kind: Literal["max_of_negatives"] = "max_of_negatives"
    temperature: float = Field(0.1, gt=0)
    margin: float = Field(0.2, ge=0)
    hinge: bool = True
    mask: MaskKind = "group"

    def build(self, context: LossContext) -> MaxOfNegatives:
        return MaxOfNegatives(self)
