"""A weighted sum of losses, Σ_n λ_n·L_n; with the ranking and the instance loss, Eq. 9 of Zheng et al., "Dual-Path …":

    L = λ₁·L_rank + λ₂·L_visual + λ₃·L_textual

    loss:
      kind: weighted_sum
      terms:
        - {weight: 1, loss: quadruple_ranking}
        - {weight: 1, loss: {kind: instance, image_weight: 1, text_weight: 1}}

Any losses may be terms, further sums among them.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from torch import Tensor, nn

from vsekit.losses import Loss, LossContext, LossInputs, LossPart, LossSettings
from vsekit.parts import Settings


class WeightedSum(Loss):
    """Logs each term's value, before its weight, under its name, and what it logs under `name.key`."""

    def __init__(self, losses: dict[str, Loss], weights: list[float]) -> None:
        super().__init__()
        self.losses, self.weights = nn.ModuleDict(losses), weights
        self.needs_offline = any(loss.needs_offline for loss in losses.values())
        self.needs_vectors = any(loss.needs_vectors for loss in losses.values())
        self.needs_teacher = any(loss.needs_teacher for loss in losses.values())
        self.needs_symmetric = any(loss.needs_symmetric for loss in losses.values())

    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        total = inputs.scores.new_zeros(())
        logs: dict[str, Any] = {}
        for (name, loss), weight in zip(self.losses.items(), self.weights):
            value, details = loss(inputs)
            total = total + weight * value
            logs |= {name: value.detach()} | {f"{name}.{key}": number for key, number in details.items()}
        return total, logs

    def sparse_parameters(self) -> list[nn.Parameter]:
        return [p for loss in self.losses.values() if isinstance(loss, Loss) for p in loss.sparse_parameters()]

    def plateau(self, batch: int) -> float | None:
        values = [loss.plateau(batch) for loss in self.losses.values() if isinstance(loss, Loss)]
        known = [weight * value for weight, value in zip(self.weights, values) if value is not None]
        return sum(known) if len(known) == len(values) else None


class Term(Settings):
    weight: float = 1.0
    loss: LossSettings


class WeightedSumSettings(LossPart):
    kind: Literal["weighted_sum"] = "weighted_sum"
    terms: list[Term] = Field(min_length=1)

    @property
    def inner(self) -> list[LossPart]:
        return [term.loss for term in self.terms]

    def build(self, context: LossContext) -> WeightedSum:
        kinds = [term.loss.kind for term in self.terms]
        losses: dict[str, Loss] = {}
        for n, (kind, term) in enumerate(zip(kinds, self.terms)):
            before = kinds[:n].count(kind)
            losses[f"{kind}_{before + 1}" if before else kind] = term.loss.build(context)
        return WeightedSum(losses, [term.weight for term in self.terms])
