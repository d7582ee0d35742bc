"""A program: what this process of several sees in an epoch of a stream, as JSON: captions, colours shown, sizes of batches.

python -m tests.training.stream.seen SHARDS BATCH BUFFER [CHANGE_AT]: after so many batches the rest is shared out anew.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

import numpy as np

from vsekit.data.readers.problems import Problem
from vsekit.data.stream.addresses import shards
from vsekit.data.views import ViewSettings
from vsekit.training.epoch import ahead
from vsekit.training.stream.batches import StreamBatches
from vsekit.training.stream.exchange import Exchange
from vsekit.training.stream.left_out import LeftOut
from vsekit.training.stream.shuffled import Position, Shuffled, Source, begun
from vsekit.training.world import World, join

VIEW = ViewSettings.model_validate({"kind": "1C", "resize": 16, "pixels": 16})


class Recorder:
    """In place of a tokenizer: keeps the sentences of each batch."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def __call__(self, sentences: list[str]) -> list[np.ndarray]:
        self.batches.append(list(sentences))
        return [np.ones(1, np.int32) for _ in sentences]


def source(addresses: list[str], problem: Any = None) -> Source:
    def unexpected(problem: Problem) -> None:
        raise AssertionError(problem)

    return Source(addresses, VIEW, ["train"], None, lambda count, _: range(count), problem or unexpected)


def batches(
    addresses: list[str],
    size: int,
    buffer: int,
    world: World,
    recorder: Recorder,
    position: Position | None = None,
    epoch: int = 0,
    known: int | None = None,
) -> StreamBatches:
    key = (0, 0, epoch)
    position = position or begun(len(addresses), world.rank, world.size, np.random.default_rng(key))
    left_out = LeftOut(strict=False)
    return StreamBatches(
        Shuffled(source(addresses, left_out), position, buffer),
        VIEW,
        recorder,  # type: ignore[arg-type]
        left_out,
        batch_size=size,
        key=key,
        pairs=position.pairs,
        known=known,
        world=world,
        exchange=Exchange(world),
    )


def main() -> None:
    addresses, size, buffer = shards(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    world, recorder = join(), Recorder()
    seen: dict[str, Any] = {"texts": [], "colours": [], "totals": [], "epochs": []}
    for _, made in ahead(batches(addresses, size, buffer, world, recorder), 0):
        pixels = made.batch.images.float().mean((1, 3, 4))  # type: ignore[union-attr]
        seen["colours"] += pixels.round().int().tolist()
        seen["totals"].append([made.batch.total, len(made.batch.groups), len(made.batch)])
        seen["epochs"].append(made.batch.epoch)
        seen["last"] = asdict(made.position)
    seen["texts"] = recorder.batches
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
