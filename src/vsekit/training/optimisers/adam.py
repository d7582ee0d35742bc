"""Adam, Kingma and Ba, "Adam: A Method for Stochastic Optimization", Algorithm 1; weight decay is added to the gradient."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field

from vsekit.training.optimisers.base import OptimiserPart


class AdamSettings(OptimiserPart):
    kind: Literal["adam"] = "adam"
    lr: float = Field(default=2e-4, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)

    def build(self, groups: list[dict[str, Any]]) -> torch.optim.Adam:
        return torch.optim.Adam(groups, lr=self.lr, weight_decay=self.weight_decay, fused=True)
