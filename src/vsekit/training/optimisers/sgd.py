"""Stochastic gradient descent with (Nesterov) momentum, v ← μ·v + g, θ ← θ − lr·(g + μ·v); dual-path's optimiser."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field

from vsekit.training.optimisers.base import OptimiserPart


class SGDSettings(OptimiserPart):
    """momentum: μ; 0 is plain descent, and then there is nothing for `nesterov` to look ahead with."""

    kind: Literal["sgd"] = "sgd"
    lr: float = Field(default=1e-1, gt=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    nesterov: bool = True
    weight_decay: float = Field(default=1e-4, ge=0)

    def build(self, groups: list[dict[str, Any]]) -> torch.optim.SGD:
        return torch.optim.SGD(
            groups,
            lr=self.lr,
            momentum=self.momentum,
            nesterov=self.nesterov and self.momentum > 0,
            weight_decay=self.weight_decay,
        )
