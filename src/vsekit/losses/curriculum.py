"""The curriculum from sum to max of hinges, Faghri et al., "VSE++", Sec. 3.6.

Training starts with `sum_of_hinges` (Eq. 5), whose gradient comes from every triplet, and switches to `max_of_hinges`
(Eq. 6) after a few epochs. VSE∞ takes one epoch of it. It is the usual remedy for a max-of-hinges run that is stuck.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from vsekit.losses.base import Loss, LossContext, LossInputs, MaskKind
from vsekit.losses.max_of_hinges import MaxOfHinges, MaxOfHingesSettings
from vsekit.losses.sum_of_hinges import SumOfHinges, SumOfHingesSettings
from vsekit.parts import Part


class SumToMax(Loss):
    def __init__(self, settings: SumToMaxSettings) -> None:
        super().__init__()
        self.epochs = settings.epochs
        self.sum = SumOfHinges(SumOfHingesSettings(margin=settings.margin, mask=settings.mask))
        self.max = MaxOfHinges(MaxOfHingesSettings(margin=settings.margin, mask=settings.mask))
        self.switched = settings.epochs == 0

    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        self.switched = inputs.epoch >= self.epochs
        loss, _ = (self.max if self.switched else self.sum)(inputs)
        return loss, {"max_of_hinges": float(self.switched)}

    def plateau(self, batch: int) -> float:
        """Of the loss that the last step used."""
        return (self.max if self.switched else self.sum).plateau(batch)


class SumToMaxSettings(Part):
    """epochs: how long the sum lasts, counted from the start of the stage; may be a fraction."""

    kind: Literal["sum_to_max"] = "sum_to_max"
    margin: float = Field(0.2, ge=0)
    mask: MaskKind = "group"
    epochs: float = Field(1.0, ge=0)

    def build(self, context: LossContext) -> SumToMax:
        return SumToMax(self)
