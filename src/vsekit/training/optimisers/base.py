"""The contract of an optimiser: groups of parameters in, a `torch.optim.Optimizer` out."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from torch.optim import Optimizer

from vsekit.parts import Part


class OptimiserPart(Part):
    """Settings of an optimiser. lr: the stage's learning rate, which its schedule moves."""

    lr: float = Field(gt=0)

    def build(self, groups: list[dict[str, Any]]) -> Optimizer:
        """groups: `params` that learn at one rate, and `scale`, their rate as a multiple of the stage's."""
        raise NotImplementedError
