"""Parameters of which each process has some rows: put together for a checkpoint, cut apart again when it is loaded.

A checkpoint holds the whole, whoever wrote it, so that any number of processes goes on from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from vsekit.losses.base import Loss, Shards
from vsekit.training.global_batch import gathered
from vsekit.training.world import World


def shards_of(world: World) -> Shards | None:
    return None if world.alone else Shards(world.rank, world.size, lambda rows: gathered(rows, world))


@dataclass(frozen=True)
class Rows:
    """parameters: those that are shared out by rows."""

    world: World = field(default_factory=World)
    parameters: tuple[nn.Parameter, ...] = ()

    @classmethod
    def of(cls, loss: Loss, world: World) -> Rows:
        return cls(world, tuple(loss.sharded_parameters()))

    @torch.no_grad()
    def whole(self, parameter: Tensor | None, value: Tensor) -> Tensor:
        """A parameter, or its moments, with the rows of all processes; what is not shared out passes."""
        return gathered(value, self.world) if self._shared(parameter) and value.dim() else value

    def own(self, parameter: Tensor | None, value: Tensor) -> Tensor:
        """This process's rows of it."""
        shards = shards_of(self.world)
        return value[shards.rows(len(value))] if shards and self._shared(parameter) and value.dim() else value

    def _shared(self, parameter: Tensor | None) -> bool:
        return any(parameter is one for one in self.parameters)
