"""The batches of an epoch, one read while another is computed with: of a collection in memory here, of a stream in `stream`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from vsekit.training.order import epoch_captions
from vsekit.training.step import Batch

if TYPE_CHECKING:
    from vsekit.training.collection import Collection
    from vsekit.training.stage import Stage
    from vsekit.training.world import World


class Made(NamedTuple):
    """A batch. more: another one follows it; position: what `Collection.positions` is to keep, to go on behind it."""

    batch: Batch
    more: bool
    position: Any = None


class Epoch(Protocol):
    @property
    def steps(self) -> int | None:
        """How many batches there are, where that is known."""
        ...

    def make(self, number: int) -> Made:
        """Batch `number`; those of a stream can only be had one after another."""
        ...

    def close(self) -> None: ...


class InMemory:
    """The captions of a collection in the order that `epoch_captions` gives them."""

    def __init__(self, data: Collection, stage: Stage, key: tuple[int, int, int], world: World) -> None:
        self.data, self.stage, self.key, self.world = data, stage, key, world
        self.order = epoch_captions(data.caption_pictures, stage.settings.captions, key)
        self.steps = math.ceil(len(self.order) / stage.settings.batch_size)

    def make(self, number: int) -> Made:
        size, stage = self.stage.settings.batch_size, self.stage
        rng = np.random.default_rng((*self.key, number))
        chosen = self.order[number * size : (number + 1) * size]
        more = stage.sampler, stage.teacher, self.world
        batch = self.data.batch(stage.inputs, chosen, self.key[2] + number / self.steps, rng, *more)
        return Made(batch, number + 1 < self.steps)

    def close(self) -> None:
        pass


def ahead(epoch: Epoch, first: int) -> Iterator[tuple[int, Made]]:
    """Batches from number `first` on; the next one is read while the caller computes."""
    try:
        with ThreadPoolExecutor(1) as pool:
            number, reading = first, pool.submit(epoch.make, first)
            while True:
                made = reading.result()
                if made.more:
                    reading = pool.submit(epoch.make, number + 1)
                yield number, made
                if not made.more:
                    return
                number += 1
    finally:
        epoch.close()
