"""A stream made ready for training: what `training.collection` is to pairs in memory.

Pictures are decoded as they come, and encoders read them anew in every epoch: what a frozen encoder makes of a stream is not
kept, since a stream need not fit on a disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vsekit.data.pairs import Pairs
from vsekit.data.stream.stream import Stream
from vsekit.data.text import Ragged
from vsekit.errors import UserError
from vsekit.models.inputs import ImageInputs, PixelInputs, image_inputs
from vsekit.models.model import VSE
from vsekit.progress import Progress
from vsekit.training.collection import Collection
from vsekit.training.epoch import Epoch
from vsekit.training.run import RunFolder
from vsekit.training.settings import RunSettings, StageSettings
from vsekit.training.stream.batches import StreamBatches
from vsekit.training.stream.exchange import Exchange
from vsekit.training.stream.left_out import LeftOut
from vsekit.training.stream.shuffled import Position, Shuffled, Source, begun, kept, shared_anew
from vsekit.training.stream.words import stream_tokenizer
from vsekit.training.where import Where
from vsekit.training.world import World

if TYPE_CHECKING:
    from vsekit.training.stage import Stage


class Streamed(Collection):
    """settings: as `streamed_settings` gives them."""

    with_others = "What is left of the epoch is shared out anew, and every pair still comes once."

    def __init__(
        self, settings: RunSettings, stream: Stream, progress: Progress, folder: RunFolder, world: World
    ) -> None:
        data = settings.data
        self.settings, self.progress, self.folder, self.world = settings, progress, folder, world
        self.shards, self.text_features = list(stream.shards), None
        self.train, self.val = Pairs([], [], Path(self.shards[0])), stream.val.first_captions(data.captions_per_picture)
        if data.val_pictures:
            self.val = self.val.take(range(min(data.val_pictures, len(self.val.pictures))))
        if not self.val.captions:
            raise UserError("there are no captions to measure with", file=self.val.root, field="--val")
        self.left_out = LeftOut(strict=stream.strict, before=stream.set_aside)
        if world.leads:
            self.left_out.read(folder.path)
        # One for who reads ahead, and one for what is said between two steps.
        self.ahead, self.between = Exchange(world), Exchange(world)
        self.tokenizer = stream_tokenizer(settings, self.shards, folder, world, progress)
        self.val_tokens = Ragged.of(self.tokenizer([caption.text for caption in self.val.captions]))
        self.n_groups, self.image_dim, self.feature_source = 0, None, None

    def inputs(self, model: VSE, stage: StageSettings) -> tuple[ImageInputs, ImageInputs]:
        data, frozen = self.settings.data, "image.encoder" in stage.freeze
        learns = "image.tail" not in stage.freeze
        train = PixelInputs(self.train, data.view, model.image.encoder, training=True)
        read: dict[str, Any] = {"frozen": frozen, "tail_learns": learns, "progress": self.progress}
        val = image_inputs(model, self.val, data.eval_view, **read)
        self.val_texts = self._texts(model, stage, self.val_tokens, data.val)
        return train, val

    def epoch(self, stage: Stage, key: tuple[int, int, int], world: World, where: Where) -> Epoch:
        data, size = self.settings.data, stage.settings.batch_size
        assert data.stream is not None
        position = self._position(key, where.stream)
        source = Source(
            self.shards,
            data.view,
            [data.train, *(["restval"] if data.restval else [])],
            data.stream.group,
            lambda count, at: _captions(
                min(count, data.captions_per_picture or count), stage.settings.captions, (*key, *at)
            ),
            self.left_out,
        )
        with world.naming():
            shuffled = Shuffled(source, position, max(data.stream.buffer, size))
        return StreamBatches(
            shuffled,
            data.view,
            self.tokenizer,
            self.left_out,
            batch_size=size,
            key=key,
            pairs=position.pairs,
            known=where.pairs,
            world=world,
            exchange=self.ahead,
        )

    def _position(self, key: tuple[int, int, int], resumed: list[Any] | None) -> Position:
        rank, size = self.world.rank, self.world.size
        if not resumed:
            return begun(len(self.shards), rank, size, np.random.default_rng(key))
        positions = [kept(one) for one in resumed]
        return (positions if len(positions) == size else shared_anew(positions, size))[rank]

    def positions(self, own: Position | None) -> list[Any] | None:
        """The positions of all processes; the leader also lists what they have left out."""
        said = self.between.values([None if own is None else asdict(own), self.left_out.news()])
        if self.world.leads:
            for _, news in said:
                self.left_out.heard(news)
            self.left_out.write(self.folder.path)
        return None if own is None else [position for position, _ in said]

    def remarks(self) -> list[str]:
        return self.left_out.lines()

    @property
    def about(self) -> str:
        return f"a stream of {len(self.shards)} shards, the first of them `{Path(self.shards[0]).name}`"


def _captions(count: int, mode: str, key: tuple[int, ...]) -> Sequence[int]:
    """Which of a sample's captions an epoch trains on."""
    return range(count) if mode == "all" else [int(np.random.default_rng(key).integers(count))]
