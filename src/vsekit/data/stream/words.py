"""The words of a stream, counted in one pass over its captions; pictures are passed over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from vsekit.data.readers.problems import Problem
from vsekit.data.stream.reading import described, samples
from vsekit.progress import QUIET, Progress

T = TypeVar("T")


def over_captions(
    make: Callable[[Iterable[str]], T],
    shards: Sequence[str],
    splits: Sequence[str],
    captions: int | None = None,
    progress: Progress = QUIET,
) -> T:
    """What `make` makes of the captions of all samples that name one of these splits, or none.

    captions: the first so many of each sample. What can't be used is passed over: training will name it.
    """
    with progress.bar("Reading captions", "shards") as bar:

        def sentences() -> Iterator[str]:
            for number, shard in enumerate(shards, start=1):
                for item in samples(shard):
                    found = item if isinstance(item, Problem) else described(item)
                    if not isinstance(found, Problem) and found.split in (None, *splits):
                        yield from found.captions[:captions]
                bar.update(number, len(shards))

        return make(sentences())
