"""What processes tell each other of what they read, beside the training step.

One thread reads ahead while another computes, and messages of the two must not be taken for each other: each `Exchange` has a
group of its own. It is one of gloo, whatever tensors travel by: pictures are on the CPU still.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from vsekit.training.global_batch import everyones
from vsekit.training.world import STEP, World


class Exchange:
    """Of a world of one it gives back what it is given. All processes must make it, in the same sequence."""

    def __init__(self, world: World) -> None:
        self.group = None if world.alone else dist.new_group(backend="gloo", timeout=STEP)

    def values(self, own: Any) -> list[Any]:
        """What every process says, by rank, through JSON."""
        if self.group is None:
            return [own]
        said = torch.from_numpy(np.frombuffer(json.dumps(own).encode(), dtype=np.uint8).copy())
        return [json.loads(theirs.numpy().tobytes()) for theirs in everyones(said, self.group)]

    def rows(self, own: Tensor) -> Tensor:
        """The rows of all, in the order of ranks."""
        return own if self.group is None else torch.cat(everyones(own.contiguous(), self.group))
