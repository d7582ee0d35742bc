"""AdamW, Loshchilov and Hutter, "Decoupled Weight Decay Regularization", Algorithm 2: decay is apart from the gradient."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field

from vsekit.training.optimisers.base import OptimiserPart


class AdamWSettings(OptimiserPart):
    kind: Literal["adamw"] = "adamw"
    lr: float = Field(default=5e-4, gt=0)
    weight_decay: float = Field(default=1e-4, ge=0)

    def build(self, groups: list[dict[str, Any]]) -> torch.optim.AdamW:
        return torch.optim.AdamW(groups, lr=self.lr, weight_decay=self.weight_decay, fused=True)
