"""What is asked of an index, and what it answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from vsekit.search.filters import And, Filter
from vsekit.search.fusion import DEPTH, Spoken
from vsekit.search.items import Hit, Item, Kind
from vsekit.search.query import Query
from vsekit.search.words import Holds


@dataclass(frozen=True)
class Timing:
    """Milliseconds. search: of the store; total: with encoding, re-ranking and all else."""

    encode: float
    search: float
    total: float


@dataclass(frozen=True)
class Answer:
    """verdict: None, or a sentence that says that nothing matches. more: whether there are hits beyond these."""

    hits: list[Hit]
    verdict: str | None = None
    more: bool = False
    timing: Timing = field(default_factory=lambda: Timing(0.0, 0.0, 0.0))


@dataclass(frozen=True)
class Ask:
    """A query, and what to find for it.

    top, offset: the best `top` items after the first `offset`.
    kind: what to find, pictures or captions.
    filter: what the metadata must be like, see `vsekit.search.filters`.
    rerank: how many of the best the second model reads again and puts in order; 0 for none.
    """

    query: Query
    top: int = 20
    offset: int = 0
    kind: Kind = "image"
    filter: str | Filter | None = None
    rerank: int = 0


@dataclass(frozen=True)
class Read:
    """An ask that can be answered. filter: read, and without what is hidden. hidden: pictures whose captions are left out.
    named: the items of the query, which are left out, too. exact: what must be held. spoken: what holds words of the query."""

    ask: Ask
    filter: Filter | None
    hidden: Collection[str]
    named: Mapping[str, Item]
    vector: np.ndarray
    exact: tuple[Holds, ...] = ()
    spoken: Spoken | None = None

    @property
    def passing(self) -> Filter | None:
        """What the store must find among."""
        filters = (*([] if self.filter is None else [self.filter]), *self.exact)
        return And(filters) if len(filters) > 1 else filters[0] if filters else None

    @property
    def wanted(self) -> int:
        """How many the store must find. One more than is shown tells whether there are more."""
        depth = DEPTH if self.spoken else 0
        return max(self.ask.offset + self.ask.top + 1, self.ask.rerank, depth) + len(self.named)
