"""One process's part of a stream: its pieces of shards, read into a buffer from which batches are drawn at random.

A piece is a shard from some sample on. What a checkpoint holds is the pieces still to be read and the *positions* of what the
buffer holds, a few numbers a pair. To go on, the shards that the buffered pairs came from are read again, up to the last of
them: some shards, not the epoch. Draws depend on the batch's generator alone. So the sequence is the same, bit for bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from vsekit.data.decoding import PictureError, decode
from vsekit.data.readers.problems import Problem
from vsekit.data.stream.reading import Described, described, samples
from vsekit.data.stream.tar import Sample
from vsekit.data.views import ViewSettings, resized
from vsekit.errors import UserError

#: Samples that are decoded together.
DECODED = 32


class Pair(NamedTuple):
    """A picture, resized, with one of its captions; position: shard, sample, caption."""

    position: tuple[int, int, int]
    picture: np.ndarray
    text: str
    group: str


class Read(NamedTuple):
    """The pairs of one sample; none where it can't be used. share: of its shard that has been read."""

    ordinal: int
    share: float
    pairs: list[Pair]


@dataclass
class Source:
    """Shards as pairs.

    splits: those to train on; a sample that names none is one of them.
    captions: of a sample's captions and its position (shard, sample), the numbers of those to be used.
    problem: told what can't be used. It may be told twice.
    others: how many samples name another split, by its name.
    """

    shards: Sequence[str]
    view: ViewSettings
    splits: Sequence[str]
    group: str | None
    captions: Callable[[int, tuple[int, int]], Sequence[int]]
    problem: Callable[[Problem], None]
    others: Counter[str] = field(default_factory=Counter)

    def read(self, shard: int, start: int = 0, only: set[int] | None = None) -> Iterator[Read]:
        """The samples of a shard from number `start` on. only: decode these and pass over the others."""
        found = samples(self.shards[shard], start)
        with ThreadPoolExecutor(2, thread_name_prefix="pictures") as pool:
            while block := list(islice(found, DECODED)):
                for problem in block:
                    if isinstance(problem, Problem):
                        self.problem(problem)
                wanted = [one for one in block if isinstance(one, Sample) and (only is None or one.ordinal in only)]
                yield from pool.map(lambda sample: self._pairs(shard, sample), wanted)

    def _pairs(self, shard: int, sample: Sample) -> Read:
        found: Described | Problem = described(sample, self.group)
        if isinstance(found, Described) and found.split not in (None, *self.splits):
            self.others[str(found.split)] += 1
            return Read(sample.ordinal, sample.share, [])
        picture = None
        if isinstance(found, Described):
            try:
                picture = resized(decode(found.picture, self.view.resize), self.view)
            except PictureError as error:
                found = sample.problem("broken-picture", error.reason, found.picture_suffix)
        if isinstance(found, Problem):
            self.problem(found)
            return Read(sample.ordinal, sample.share, [])
        assert picture is not None
        at = shard, sample.ordinal
        chosen = self.captions(len(found.captions), at)
        pairs = [Pair((*at, number), picture, found.captions[number], found.group) for number in chosen]
        return Read(sample.ordinal, sample.share, pairs)


@dataclass
class Position:
    """Where a process is.

    pieces: (shard, first sample) still to be read; share: of the first one's shard that has been read.
    buffer: positions of the pairs in memory.
    read: pairs that were read so far; pairs: that all processes have given so far.
    """

    pieces: list[tuple[int, int]] = field(default_factory=list)
    share: float = 0.0
    buffer: list[tuple[int, int, int]] = field(default_factory=list)
    read: int = 0
    pairs: int = 0


def kept(position: Mapping[str, Any]) -> Position:
    """What a checkpoint says, through JSON."""
    lists = {name: [tuple(one) for one in position[name]] for name in ("pieces", "buffer")}
    return Position(**{**position, **lists})


def begun(shards: int, rank: int, size: int, rng: np.random.Generator) -> Position:
    """The position at the start of an epoch: shards in a random sequence, shared out one by one."""
    return Position([(int(shard), 0) for shard in rng.permutation(shards)[rank::size]])


def shared_anew(positions: Sequence[Position], size: int) -> list[Position]:
    """The same work for another number of processes."""
    pieces = [piece for position in positions for piece in position.pieces]
    buffer = [pair for position in positions for pair in position.buffer]
    read = sum(position.read for position in positions)
    return [
        Position(pieces[rank::size], 0.0, buffer[rank::size], read * (rank == 0), positions[0].pairs)
        for rank in range(size)
    ]


class Shuffled:
    """The pairs of a process in the sequence of training, from a position on.

    size: pairs to be held in memory.
    """

    def __init__(self, source: Source, position: Position, size: int) -> None:
        self.source, self.size = source, size
        self.pieces, self.read = list(position.pieces), position.read
        self.share = position.share
        self._reading: Iterator[Read] | None = None
        self.buffer: list[Pair] = self._again(position.buffer)
        self.fill()

    @property
    def left(self) -> float:
        """Shards still to be read, and fractions of one."""
        return max(0.0, len(self.pieces) - self.share)

    def fill(self) -> None:
        """Reads until the buffer is full, or all is read."""
        while len(self.buffer) < self.size and self.pieces:
            shard, start = self.pieces[0]
            if self._reading is None:
                self._reading = self.source.read(shard, start)
            one = next(self._reading, None)
            if one is None:
                self.pieces.pop(0)
                self._reading, self.share = None, 0.0
            else:
                self.pieces[0], self.share = (shard, one.ordinal + 1), one.share
                self.buffer += one.pairs
                self.read += len(one.pairs)

    def draw(self, count: int, rng: np.random.Generator) -> list[Pair]:
        """So many of the buffer's pairs, which leave it; then fills it again."""
        drawn = []
        for _ in range(count):
            place = int(rng.integers(len(self.buffer)))
            self.buffer[place], self.buffer[-1] = self.buffer[-1], self.buffer[place]
            drawn.append(self.buffer.pop())
        self.fill()
        return drawn

    def close(self) -> None:
        """Lets go of the shard that is being read."""
        self._reading = None

    def position(self, pairs: int) -> Position:
        """For a checkpoint. pairs: given by all so far."""
        return Position(list(self.pieces), self.share, [pair.position for pair in self.buffer], self.read, pairs)

    def _again(self, positions: Sequence[tuple[int, int, int]]) -> list[Pair]:
        """The pairs at these positions."""
        wanted: dict[int, set[int]] = {}
        for shard, ordinal, _ in positions:
            wanted.setdefault(shard, set()).add(ordinal)
        found: dict[tuple[int, int, int], Pair] = {}
        for shard, ordinals in wanted.items():
            for read in self.source.read(shard, min(ordinals), ordinals):
                found |= {pair.position: pair for pair in read.pairs}
                if read.ordinal == max(ordinals):
                    break
        lost = next((position for position in positions if position not in found), None)
        if lost is not None:
            raise UserError(
                f"this shard is not what it was when the run was interrupted: sample {lost[1] + 1} is another",
                file=self.source.shards[lost[0]],
                remedy="Bring it back, or start anew in another folder.",
            )
        return [found[position] for position in positions]
