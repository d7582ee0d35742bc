"""Which parameters a stage moves, and each part's own learning rate."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vsekit.errors import UserError
from vsekit.models.model import module_at
from vsekit.training.settings import StageSettings
from vsekit.training.step import Step


def parameter_groups(step: Step, stage: StageSettings) -> list[dict[str, Any]]:
    """Parameters that learn, one group a learning rate; `scale` is the multiple of the stage's."""
    scale_of = {
        id(parameter): scale
        for path, scale in stage.rates.items()
        for module in module_at(step.model, path)
        for parameter in module.parameters()
    }
    sparse = {id(parameter) for parameter in step.loss.sparse_parameters()}
    groups: dict[float, list[nn.Parameter]] = {}
    for parameter in step.parameters():
        if parameter.requires_grad and id(parameter) not in sparse:
            groups.setdefault(scale_of.get(id(parameter), 1.0), []).append(parameter)
    if not groups:
        raise UserError("every part is frozen, so nothing can learn", remedy="Shorten the stage's freeze list.")
    return [{"params": parameters, "scale": scale} for scale, parameters in groups.items()]


def build_optimisers(step: Step, stage: StageSettings) -> list[torch.optim.Optimizer]:
    """The stage's optimiser, and one more for parameters with sparse gradients where the loss has any.

    Those rows move by SparseAdam at the stage's rate, whatever the optimiser: a dense one would touch every row.
    """
    main = stage.optimiser.build(parameter_groups(step, stage))
    sparse = step.loss.sparse_parameters()
    if not sparse:
        return [main]
    return [main, torch.optim.SparseAdam([{"params": sparse, "scale": 1.0}], lr=stage.optimiser.lr)]


def set_rate(optimisers: list[torch.optim.Optimizer], rate: float) -> None:
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = rate * group["scale"]
