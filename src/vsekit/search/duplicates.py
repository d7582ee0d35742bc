"""Copies, near-copies and bursts among the pictures of an index. Nothing is changed here; see `vsekit.search.trash`.

Pictures whose vectors are near each other, or that say to be taken in the same second, are looked at again. They are

- *copies*, where their files have the same bytes, or show the same picture at another size or quality, or in another format: of
  the same proportions, not taken at different times, and nowhere different (`vsekit.search.same`);
- of a *burst*, where they were taken with the same camera within seconds of each other: alike, but not the same;
- *near-copies*, where they are alike else: cropped, brighter, retouched, turned, or as like as two pictures get.

What is tied by any number of such pairs is a group; but a copy must be one of the best of its group, whatever is between them: of a
picture that was made a little brighter ten times, the last is no copy of the first. The best stands for all in the other groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from vsekit import threads
from vsekit.data.alike import joined
from vsekit.progress import QUIET, Progress
from vsekit.search.hubs import plain
from vsekit.search.items import Item
from vsekit.search.near import near_pairs
from vsekit.search.same import Sameness, may_be_same
from vsekit.search.stacks import BURST, COPY, SECONDS, taken_at
from vsekit.search.stores.base import Store

Kind = Literal["copies", "near-copies", "burst"]
Pair = tuple[int, int]
#: Cosine from which two pictures are looked at: a copy of 128 pixels is that near to its original, with the starter.
LOOK = 0.8
#: Pictures of one second, and those after one in a burst, that it is compared with.
TOGETHER = 30
VECTORS = 10_000  # read at once


@dataclass(frozen=True)
class Group:
    """Pictures that belong together. keep: the best of them. others: the rest, each with what it is to the best."""

    kind: Kind
    keep: Item
    others: tuple[tuple[Item, str], ...]

    @property
    def items(self) -> list[Item]:
        return [self.keep, *(item for item, _ in self.others)]

    @property
    def spare(self) -> int:
        """Bytes of the others."""
        return sum(item.size for item, _ in self.others)

    def as_dict(self) -> dict[str, Any]:
        others = [{**_told(item), "why": why} for item, why in self.others]
        return {"kind": self.kind, "keep": {**_told(self.keep), "why": best_by(self.items)}, "others": others}


def _told(item: Item) -> dict[str, Any]:
    size = {"width": item.width, "height": item.height, "bytes": item.size, "dated": item.meta.get("dated")}
    return {"id": item.id, "path": item.path, **size, "favourite": item.meta.get("favourite") is True}


def rank(item: Item) -> tuple[Any, ...]:
    """Of copies the best first: a favourite, then the most pixels, the most bytes, the oldest, the shortest path."""
    known = item.meta.get("favourite") is True, item.width * item.height, item.size
    taken = str(item.meta.get("taken", item.meta.get("dated", "9")))
    return (*(-value for value in known), taken, len(item.path), item.path)


def best_by(items: Sequence[Item]) -> str:
    """What the best of these has that no other has, in a word."""
    first, *rest = sorted(items, key=rank)
    for place, word in enumerate(("favourite", "largest", "most bytes", "oldest")):
        if all(rank(first)[place] < rank(one)[place] for one in rest):
            return word
    return "first"


def find_duplicates(store: Store, *, progress: Progress = QUIET) -> list[Group]:
    """The groups of an index: copies, near-copies, bursts, each with the most bytes to spare first.

    >>> for group in find_duplicates(open_store("photos.index")):                        # doctest: +SKIP
    ...     print(group.kind, group.keep.path, len(group.others))
    """
    items = list(store.all_items("image"))
    number: dict[str, int] = {}
    first = [number.setdefault(item.content or item.id, i) for i, item in enumerate(items)]
    shown = sorted(set(first))  # one for all that have the same bytes
    ties: dict[Kind, list[Pair]] = {
        "copies": [(i, j) for j, i in enumerate(first) if i != j],
        "near-copies": [],
        "burst": [],
    }
    for a, b, kind in _alike(store, [items[i] for i in shown], progress):
        ties[kind].append((shown[a], shown[b]))
    root = joined(len(items), ties["copies"]).tolist()
    best = _best(items, root)
    for i, j in _apart(items, root, best, first, {*ties["copies"]}):
        ties["near-copies"].append((i, j))
        root[i] = len(items) + first[i]
    best = _best(items, root)
    between: dict[Kind, list[Pair]] = {"near-copies": [], "burst": []}
    for a, b in [*ties["near-copies"], *ties["burst"]]:
        a, b = best[root[a]], best[root[b]]
        if a != b:
            between["burst" if _at_one_moment(items[a], items[b]) else "near-copies"].append((a, b))
    groups = _groups(items, root, "copies")
    for kind, pairs in between.items():
        groups += _groups(items, joined(len(items), pairs).tolist(), kind)
    return groups


def _best(items: Sequence[Item], root: Sequence[int]) -> dict[int, int]:
    """By root of a group, the number of its best."""
    best: dict[int, int] = {}
    for i, item in enumerate(items):
        if root[i] not in best or rank(item) < rank(items[best[root[i]]]):
            best[root[i]] = i
    return best


def _apart(
    items: Sequence[Item], root: Sequence[int], best: dict[int, int], first: Sequence[int], tied: set[Pair]
) -> list[Pair]:
    """Those that are in a group by way of others only, each with the best of it. first: of the same bytes."""
    same, found = Sameness(), []
    for i, item in enumerate(items):
        j = best[root[i]]
        known = first[i] == first[j] or (first[i], first[j]) in tied or (first[j], first[i]) in tied
        if not known and not same(item, items[j]):
            found.append((i, j))
    return found


def _groups(items: Sequence[Item], root: Sequence[int], kind: Kind) -> list[Group]:
    members: defaultdict[int, list[Item]] = defaultdict(list)
    for item, of in zip(items, root):
        members[of].append(item)
    found = []
    for some in members.values():
        if len(some) > 1:
            keep, *others = sorted(some, key=rank)
            found.append(Group(kind, keep, tuple((item, _why(kind, item, keep)) for item in others)))
    return sorted(found, key=lambda group: (-group.spare, group.keep.path))


def _why(kind: Kind, item: Item, keep: Item) -> str:
    if kind == "copies":
        return "same bytes" if item.content and item.content == keep.content else "same picture"
    if kind == "near-copies":
        return "alike"
    here, there = taken_at(item), taken_at(keep)
    seconds = (here - there).total_seconds() if here and there else 0.0
    return f"{abs(seconds):.0f} s {'later' if seconds >= 0 else 'earlier'}" if seconds else "same second"


def _alike(store: Store, items: Sequence[Item], progress: Progress) -> Iterator[tuple[int, int, Kind]]:
    """Pairs of pictures, with what they are to each other."""
    ids = [item.id for item in items]
    parts = [plain(store, store.vectors(ids[at : at + VECTORS])) for at in range(0, len(ids), VECTORS)]
    vectors = np.concatenate(parts) if parts else np.zeros((0, store.dim), np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    with progress.bar("Compare", "pictures") as bar:
        cosines: dict[Pair, float] = {(i, j): cosine for i, j, cosine in near_pairs(vectors, LOOK, progress=bar)}
    for i, j in _together(items):
        cosines[i, j] = float(vectors[i] @ vectors[j])
    copies = _copies(items, list(cosines), progress)
    for (i, j), cosine in cosines.items():
        if (i, j) in copies:
            yield i, j, "copies"
        elif cosine >= BURST and _at_one_moment(items[i], items[j]):
            yield i, j, "burst"
        elif cosine >= COPY:
            yield i, j, "near-copies"


def _copies(items: Sequence[Item], pairs: Sequence[Pair], progress: Progress) -> set[Pair]:
    """Those of the pairs that show the same picture. Only pictures that may are opened."""
    pairs = [pair for pair in pairs if _may_be_copies(items[pair[0]], items[pair[1]])]
    same = Sameness()
    with progress.bar("Look", "pairs") as bar, threads.pool(threads.most()) as readers:
        found = set()
        for done, (pair, yes) in enumerate(zip(pairs, readers.map(lambda p: same(items[p[0]], items[p[1]]), pairs)), 1):
            bar(done, len(pairs))
            if yes:
                found.add(pair)
    return found


def _may_be_copies(a: Item, b: Item) -> bool:
    """A copy has the time of its original, or has lost it."""
    at, bt = taken_at(a), taken_at(b)
    return may_be_same(a, b) and (at is None or bt is None or at == bt)


def _at_one_moment(a: Item, b: Item) -> bool:
    at, bt = taken_at(a), taken_at(b)
    if at is None or bt is None or abs((at - bt).total_seconds()) > SECONDS:
        return False
    return a.meta.get("camera") == b.meta.get("camera")


def _together(items: Sequence[Item]) -> Iterator[Pair]:
    """Pairs that were taken within seconds, with the same camera as far as is known."""
    timed = sorted((str(items[i].meta.get("camera")), at, i) for i in range(len(items)) if (at := taken_at(items[i])))
    for place, (camera, at, i) in enumerate(timed):
        for other, bt, j in timed[place + 1 : place + 1 + TOGETHER]:
            if other != camera or (bt - at).total_seconds() > SECONDS:
                break
            yield min(i, j), max(i, j)
