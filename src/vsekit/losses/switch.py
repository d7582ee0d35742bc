"""One loss for the first epochs of a stage, then another: the curriculum of VSE++, Sec. 3.6, for any two losses.

    loss: {kind: switch, epochs: 2, first: sum_of_hinges, then: {kind: adaptive_offline_quintuplet}}

`{kind: sum_to_max, epochs: 1, margin: 0.2}` is short for the usual one, from sum to max of hinges: VSE∞ takes one epoch of
it, and it is the remedy for a max-of-hinges run that is stuck.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from torch import Tensor, nn

from vsekit.losses import Loss, LossContext, LossInputs, LossPart, LossSettings
from vsekit.losses.base import MaskKind
from vsekit.losses.max_of_hinges import MaxOfHingesSettings
from vsekit.losses.sum_of_hinges import SumOfHingesSettings


class Switch(Loss):
    """Logs what the loss in use logs, and `switched`."""

    def __init__(self, first: Loss, then: Loss, epochs: float) -> None:
        super().__init__()
        self.first, self.then, self.epochs = first, then, epochs
        self.switched = epochs == 0
        self.needs_offline = first.needs_offline or then.needs_offline
        self.needs_vectors = first.needs_vectors or then.needs_vectors
        self.needs_teacher = first.needs_teacher or then.needs_teacher
        self.needs_symmetric = first.needs_symmetric or then.needs_symmetric

    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        self.switched = inputs.epoch >= self.epochs
        loss, logs = (self.then if self.switched else self.first)(inputs)
        return loss, {**logs, "switched": float(self.switched)}

    def sparse_parameters(self) -> list[nn.Parameter]:
        return [*self.first.sparse_parameters(), *self.then.sparse_parameters()]

    def plateau(self, batch: int) -> float | None:
        """Of the loss that the last step used."""
        return (self.then if self.switched else self.first).plateau(batch)


class SwitchSettings(LossPart):
    """epochs: how long `first` lasts, counted from the start of the stage; may be a fraction."""

    kind: Literal["switch"] = "switch"
    epochs: float = Field(default=1.0, ge=0)
    first: LossSettings
    then: LossSettings

    @property
    def inner(self) -> tuple[LossPart, LossPart]:
        return self.first, self.then

    def build(self, context: LossContext) -> Switch:
        return Switch(self.first.build(context), self.then.build(context), self.epochs)


class SumToMaxSettings(LossPart):
    """Short for a switch from `sum_of_hinges` to `max_of_hinges` with one margin and one mask (VSE++, Sec. 3.6)."""

    kind: Literal["sum_to_max"] = "sum_to_max"
    margin: float = Field(0.2, ge=0)
    mask: MaskKind = "group"
    epochs: float = Field(1.0, ge=0)

    def build(self, context: LossContext) -> Switch:
        first = SumOfHingesSettings(margin=self.margin, mask=self.mask)
        then = MaxOfHingesSettings(margin=self.margin, mask=self.mask)
        return SwitchSettings(epochs=self.epochs, first=first, then=then).build(context)
