"""A moving average of the weights, which is measured and kept in their place (Polyak and Juditsky, SIAM J. Control Optim. 1992).

    ā ← ā + (1 − d)·(w − ā)  after each step,  d = min(decay, (1 + n) / (10 + n)) at step n

so that a long memory does not hold on to the weights that the stage began with. Statistics of batch norm are averaged alike.
Training itself goes on with the weights as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage(nn.Module):
    """The average of all that learns in a model; a checkpoint keeps it with the module it is part of.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.zeros_(model.weight)
    >>> average = MovingAverage(model, 0.9)
    >>> _ = nn.init.ones_(model.weight)
    >>> average.update()  # d = 1 / 10 at first
    >>> with average.in_place():
    ...     print(f"{model.weight.item():.2f}")
    0.90
    >>> model.weight.item()
    1.0
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self._model = (model,)  # in a tuple, it is no part of this module
        frozen = {name for name, value in model.named_parameters() if not value.requires_grad}
        state = model.state_dict()
        self._names = [name for name, value in state.items() if name not in frozen and value.is_floating_point()]
        for name in self._names:
            self.register_buffer(_plain(name), state[name].clone())
        self.steps: Tensor
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def update(self) -> None:
        """Takes in the weights after a step."""
        n = int(self.steps)
        share = 1 - min(self.decay, (1 + n) / (10 + n))
        for average, value in self._pairs():
            average.lerp_(value, share)
        self.steps += 1

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model has the averages, until the block ends."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for average, value in self._pairs():
            before = value.clone()
            value.copy_(average)
            average.copy_(before)

    def _pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        state = self._model[0].state_dict(keep_vars=True)
        for name in self._names:
            yield self.get_buffer(_plain(name)), state[name]


def _plain(name: str) -> str:
    """A module's buffers have no dots in their names."""
    return name.replace(".", "/")
