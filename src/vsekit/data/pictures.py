"""Pictures from disk to uint8 pixels, in background threads, with broken files replaced or refused.

What is drawn at random is drawn before the threads start, so a batch depends on its generator and on nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vsekit.data.decoding import PictureError
from vsekit.data.pairs import Picture
from vsekit.data.views import Crop, ViewSettings, chosen_crops, cut, resized
from vsekit.errors import UserError


class Loaded(NamedTuple):
    """A batch of views.

    pixels: (B, V, 3, pixels, pixels) uint8, channels last in memory.
    shown: (B,) int64, the index of the picture that is shown; not the one asked for where that was broken.
    """

    pixels: Tensor
    shown: np.ndarray


class _Planned(NamedTuple):
    """A batch to be filled: `fill` reads the pictures at some of its places."""

    pixels: np.ndarray
    shown: np.ndarray
    fill: Callable[[range], None]


class _Started(NamedTuple):
    planned: _Planned
    work: list[Future[None]]


class PictureLoader:
    """Reads views of pictures by index.

    Args:
        broken: "replace" shows the next readable picture in place of a broken one (training); "error" raises UserError
            with the file and the reason (evaluation).
        cache: keep the resized pictures in memory, n · resize² · 3 bytes, filled as they are read.
        workers: threads that decode.
        crops: RC only: random crops of each picture, V.
        ahead: batches that `prefetch` decodes ahead.

    Attributes:
        broken: reason by picture id, for every broken picture met so far.
    """

    def __init__(
        self,
        pictures: Sequence[Picture],
        view: ViewSettings,
        *,
        broken: Literal["replace", "error"],
        cache: bool = False,
        workers: int = 2,
        crops: int = 1,
        ahead: int = 1,
    ) -> None:
        if crops > 1 and view.deterministic:
            raise ValueError(f"{view.kind} has fixed crops; only RC can draw {crops}")
        self.pictures, self.view, self.ahead = pictures, view, ahead
        self.broken: dict[str, str] = {}
        self._replace, self._draws = broken == "replace", crops
        self._pool, self._workers = ThreadPoolExecutor(workers, thread_name_prefix="pictures"), workers
        side = view.resize
        self._cache = np.empty((len(pictures), side, side, 3), np.uint8) if cache else None
        self._cached = np.zeros(len(pictures), bool)

    def load(self, indices: np.ndarray, rng: np.random.Generator, only: slice = slice(None)) -> Loaded:
        """The views of the pictures at `indices`; `rng` draws the crops of RC, in the order of `indices`.

        only: show these of them; crops are drawn for all.
        """
        return self._finish(self._start(indices, rng, only))

    def read(self, indices: np.ndarray, rng: np.random.Generator) -> Loaded:
        """The same in the calling thread alone, for callers that have threads of their own."""
        planned = self._planned(indices, rng)
        planned.fill(range(len(indices)))
        return self._loaded(planned)

    def prefetch(self, batches: Iterable[tuple[np.ndarray, np.random.Generator]]) -> Iterator[Loaded]:
        """`load` of each batch in turn, while the next ones are decoded in the background.

        `batches` is read `ahead` batches before they are needed. Give each its own generator, made from the seed and
        the step, and a run that resumes at a step draws what the uninterrupted run drew.
        """
        started: deque[_Started] = deque()
        for indices, rng in batches:
            started.append(self._start(indices, rng))
            if len(started) > self.ahead:
                yield self._finish(started.popleft())
        while started:
            yield self._finish(started.popleft())

    def _start(self, indices: np.ndarray, rng: np.random.Generator, only: slice = slice(None)) -> _Started:
        planned = self._planned(indices, rng, only)
        count = len(planned.shown)
        shares = [range(first, count, self._workers) for first in range(min(self._workers, count))]
        return _Started(planned, [self._pool.submit(planned.fill, share) for share in shares])

    def _finish(self, started: _Started) -> Loaded:
        for future in started.work:
            future.result()
        return self._loaded(started.planned)

    def _planned(self, indices: np.ndarray, rng: np.random.Generator, only: slice = slice(None)) -> _Planned:
        crops = [[crop for _ in range(self._draws) for crop in chosen_crops(self.view, rng)] for _ in indices][only]
        indices = indices[only]
        side, views = self.view.pixels, self.view.count * self._draws
        pixels = np.empty((len(indices), views, side, side, 3), np.uint8)
        shown = np.array(indices, dtype=np.int64)

        def fill(places: range) -> None:
            for b in places:
                self._fill(b, pixels, shown, crops[b])

        return _Planned(pixels, shown, fill)

    def _loaded(self, planned: _Planned) -> Loaded:
        return Loaded(torch.from_numpy(planned.pixels).permute(0, 1, 4, 2, 3), planned.shown)

    def _fill(self, b: int, pixels: np.ndarray, shown: np.ndarray, crops: list[Crop]) -> None:
        array, shown[b] = self._readable(int(shown[b]))
        for v, crop in enumerate(crops):
            pixels[b, v] = cut(array, crop, self.view.pixels)

    def _readable(self, index: int) -> tuple[np.ndarray, int]:
        """The resized picture at `index`, or the next one that can be read, and its index."""
        for candidate in [index, *range(index + 1, len(self.pictures)), *range(index)]:
            array = self._read(candidate)
            if array is not None:
                return array, candidate
        raise UserError("none of the pictures can be read", file=self.pictures[index].path, remedy=self._reason(index))

    def _reason(self, index: int) -> str:
        return f"{self.pictures[index].id}: {self.broken[self.pictures[index].id]}"

    def _read(self, index: int) -> np.ndarray | None:
        """The resized picture, or None when it is broken."""
        picture = self.pictures[index]
        if self._cache is not None and self._cached[index]:
            return self._cache[index]
        if picture.id in self.broken:
            return None
        try:
            array = resized(picture.open(self.view.resize), self.view)
        except PictureError as error:
            if not self._replace:
                raise UserError(
                    f"picture '{picture.id}' cannot be read: {error.reason}",
                    file=picture.path,
                    remedy="Mend the file or take the picture out of the collection.",
                ) from error
            self.broken[picture.id] = error.reason
            return None
        if self._cache is not None:
            self._cache[index] = array
            self._cached[index] = True
        return array
