"""One loss for the first epochs of a stage, then another: the curriculum of VSE++, Sec. 3.6, for any two losses.

    loss: {kind: switch, epochs: 2, first: sum_of_hinges, then: {kind: adaptive_offline_quintuplet}}

`sum_to_max` is the usual special case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from torch import Tensor, nn

from vsekit.losses.base import Loss, LossContext, LossInputs
from vsekit.parts import Part

if TYPE_CHECKING:
    from vsekit.losses import LossSettings


class Switch(Loss):
    """Logs what the loss in use logs, and `switched`."""

    def __init__(self, first: Loss, then: Loss, epochs: float) -> None:
        super().__init__()
        self.first, self.then, self.epochs = first, then, epochs
        self.switched = epochs == 0
        self.needs_offline = first.needs_offline or then.needs_offline
        self.needs_vectors = first.needs_vectors or then.needs_vectors
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


class SwitchSettings(Part):
    """epochs: how long `first` lasts, counted from the start of the stage; may be a fraction."""

    kind: Literal["switch"] = "switch"
    epochs: float = Field(default=1.0, ge=0)
    first: LossSettings
    then: LossSettings

    def build(self, context: LossContext) -> Switch:
        return Switch(self.first.build(context), self.then.build(context), self.epochs)
