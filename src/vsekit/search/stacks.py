"""Copies of a picture, and shots of one moment, as one stack.

Two pictures are *copies* where their files have the same bytes, or where the cosine of their vectors is at least `COPY`: the
same picture scaled, compressed again or hardly cropped. They are of one *burst* where they were taken within `SECONDS` of
each other and their cosine is at least `BURST`. A picture joins the stack of the first before it that it is one of these
with. Only the last `NEAR` before it are looked at: copies score alike and were taken together, so they stand together in
every order that pictures are shown in.

To a model of photographs every page of text is like every other: three screenshots with nothing but their words in common had a
cosine of 0.99. So two screenshots or graphics are copies by their vectors only where the same text was read in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from vsekit.search.items import Item
from vsekit.search.words import WRITTEN

COPY, BURST = 0.95, 0.7
SECONDS = 5.0
NEAR = 60


def stacked(items: Sequence[Item], vectors: np.ndarray) -> list[int]:
    """For each picture the place of the one whose stack it is in: its own for the first of a stack.

    Args:
        vectors: (n, dim), unit length.
    """
    times = [taken_at(item) for item in items]
    first = list(range(len(items)))
    for i, item in enumerate(items):
        before = range(max(0, i - NEAR), i)
        if not before:
            continue
        cosines = vectors[before.start : i] @ vectors[i]
        for j, cosine in zip(before, cosines.tolist()):
            if _belong(item, times[i], items[j], times[j], cosine):
                first[i] = first[j]
                break
    return first


def _belong(a: Item, at: datetime | None, b: Item, bt: datetime | None, cosine: float) -> bool:
    if (cosine >= COPY and not _pages(a, b)) or (a.content and a.content == b.content):
        return True
    together = at is not None and bt is not None and abs((at - bt).total_seconds()) <= SECONDS
    return together and cosine >= BURST and a.meta.get("camera") == b.meta.get("camera")


def _pages(a: Item, b: Item) -> bool:
    """Whether both are drawn, not photographed, and nothing says that they hold the same text."""
    drawn = all(item.meta.get("type") in ("screenshot", "graphic") for item in (a, b))
    return drawn and not (a.meta.get(WRITTEN) and a.meta.get(WRITTEN) == b.meta.get(WRITTEN))


def taken_at(item: Item) -> datetime | None:
    """When it was taken: the time of its file says nothing of bursts, since many are copied in a second."""
    try:
        return datetime.fromisoformat(str(item.meta["taken"]))
    except (KeyError, ValueError):
        return None
