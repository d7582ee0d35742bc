"""A collection that is streamed: its shards, and the pairs it is measured on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vsekit.data.clean import SetAside
from vsekit.data.pairs import Pairs


@dataclass(frozen=True)
class Stream:
    """shards: addresses to train on. val: what chooses the best snapshot, in memory or on disk.

    strict: the first member that can't be used is an error, instead of being left out.
    set_aside: of `val`.
    """

    shards: Sequence[str]
    val: Pairs
    strict: bool = False
    set_aside: Sequence[SetAside] = ()
