"""One in-memory model of a collection: pictures, captions, and which belong together.

Every caption was written for one picture (`Caption.picture`). Pictures of one *group* share their captions: a group
is a single picture in Flickr30K or COCO, and all pictures of one person in CUHK-PEDES. A caption and a picture are a
positive pair when their groups are equal. A split is a property of the picture; captions follow it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vsekit.errors import UserError, nearest

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture and where its bytes are.

    id: unique in the collection, stable between runs (a file name, a COCO id).
    path: the image file, or the archive that holds it; None when only features exist.
    offset, size: where in `path` the bytes stand (WebDataset shards); None for a file of its own.
    split: "train", "val", "test", or any other name.
    group: what belongs together; by default the picture alone.
    row: its row in `Pairs.features`, when the collection came with features.
    meta: further columns (year, camera, boxes, ground truth …).
    """

    id: str
    path: Path | None
    split: str
    group: str
    offset: int | None = None
    size: int | None = None
    row: int | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    def read(self) -> bytes:
        """The encoded bytes of the picture."""
        if self.path is None:
            raise UserError(
                f"picture '{self.id}' has no image file; this collection holds features only",
                remedy="Use the image encoder 'precomputed', or a collection with pictures.",
            )
        if self.offset is None:
            return self.path.read_bytes()
        with self.path.open("rb") as archive:
            archive.seek(self.offset)
            return archive.read(-1 if self.size is None else self.size)

    def open(self, side: int | None = None) -> Image.Image:
        """The picture, upright and in RGB; see `vsekit.data.decoding.decode`. PictureError when it can't be read."""
        from vsekit.data.decoding import decode

        return decode(self, side)


@dataclass(frozen=True, slots=True)
class Caption:
    """A sentence, and the index of the picture it was written for."""

    text: str
    picture: int
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Pairs:
    """A collection or one split of it.

    features: (rows, d) or (rows, n, d) array, usually memory-mapped, when the collection came with features;
        `Picture.row` points into it.
    feature_crops: the features have an axis of random crops after the rows, (rows, crops, …), one to be drawn a read.
    feature_views: the features have an axis of fixed views after the rows, (rows, views, …), to be averaged.
    feature_lengths: (rows,) how many of a row's N vectors are real; None when all are.
    feature_source: what made them, where that is known: the encoder's settings (`encoder`), a name for its weights
        (`weights`), and the `view`, as in the header of a feature store.
    root: the file or folder it was read from, for messages.
    """

    pictures: list[Picture]
    captions: list[Caption]
    root: Path
    features: np.ndarray | None = None
    feature_crops: bool = False
    feature_views: bool = False
    feature_lengths: np.ndarray | None = None
    feature_source: dict[str, Any] | None = None

    @cached_property
    def picture_groups(self) -> np.ndarray:
        """(n_pictures,) int64: equal numbers belong together; numbered in order of first appearance."""
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(p.group, len(numbers)) for p in self.pictures], dtype=np.int64)

    @cached_property
    def caption_pictures(self) -> np.ndarray:
        """(n_captions,) int64: the picture each caption was written for."""
        return np.array([c.picture for c in self.captions], dtype=np.int64)

    @cached_property
    def caption_groups(self) -> np.ndarray:
        """(n_captions,) int64, in the numbering of `picture_groups`."""
        return self.picture_groups[self.caption_pictures]

    @property
    def splits(self) -> dict[str, int]:
        """Pictures per split, in order of first appearance."""
        counts: dict[str, int] = {}
        for picture in self.pictures:
            counts[picture.split] = counts.get(picture.split, 0) + 1
        return counts

    def split(self, *names: str) -> Pairs:
        """The pictures of the named splits and their captions, in the collection's order.

        Raises UserError when a name does not occur.
        """
        unknown = [name for name in names if name not in self.splits]
        if unknown:
            raise UserError(
                f"no split '{unknown[0]}' in this collection{nearest(unknown[0], self.splits)}",
                file=self.root,
                remedy=f"It has: {', '.join(f'{name} ({n} pictures)' for name, n in self.splits.items())}.",
            )
        return self.take(i for i, picture in enumerate(self.pictures) if picture.split in names)

    def first_captions(self, count: int | None) -> Pairs:
        """The same pictures with the first `count` captions of each, or all; some COCO pictures have six or seven."""
        if count is None:
            return self
        seen: dict[int, int] = {}
        kept = []
        for caption in self.captions:
            seen[caption.picture] = seen.get(caption.picture, 0) + 1
            if seen[caption.picture] <= count:
                kept.append(caption)
        return replace(self, captions=kept)

    def take(self, pictures: Iterable[int]) -> Pairs:
        """The given pictures, in the given order, and their captions in the collection's order."""
        chosen = list(pictures)
        position = {old: new for new, old in enumerate(chosen)}
        captions = [Caption(c.text, position[c.picture], c.meta) for c in self.captions if c.picture in position]
        return replace(self, pictures=[self.pictures[i] for i in chosen], captions=captions)
