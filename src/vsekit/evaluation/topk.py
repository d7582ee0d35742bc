"""The best k items of every query, exactly, from blocks of scores.

A score and its item are packed into one integer, the score's bits made monotone in the upper half and the inverted item
in the lower, so that comparing integers compares scores and, among equal ones, puts the lower item first. The result
depends on the scores alone, not on the shape of the blocks; blocks of a query come with ascending items.

Each query holds its k best so far, and room for candidates. Of a new block only scores above the query's k-th best are
looked at, a share that soon falls to a few percent; they are appended, and when the room is full the row is cut back to
its k best.
"""

from __future__ import annotations

import numpy as np

_EMPTY = np.iinfo(np.int64).min


class TopK:
    """Running best k of n queries.

    keys: (n, k + room) int64, packed; the first k of a row are its best at the last cut, candidates follow.
    filled: (n,) how much of a row is in use.
    floor: (n,) float32, what a score has to exceed to be looked at.
    """

    def __init__(self, n: int, k: int) -> None:
        self.n, self.k = n, k
        self.keys = np.full((n, k + max(k, 64)), _EMPTY)
        self.filled = np.full(n, k)
        self.floor = np.full(n, -np.inf, np.float32)

    def update(self, queries: slice, scores: np.ndarray, items: np.ndarray) -> None:
        """Looks at scores (Q, C) of the queries with `items` (C,), contiguous in either order; −inf never enters."""
        if scores.shape[1] > self.k:
            self._raise_floor(queries.start, np.flatnonzero(np.isneginf(self.floor[queries])), scores)
        row, column, value = _above(scores, self.floor[queries])
        counts = np.bincount(row, minlength=len(scores))
        capacity = self.keys.shape[1]
        crowded = counts > capacity - self.filled[queries]
        if crowded.any():
            rows = np.flatnonzero(crowded)
            self._cut(rows + queries.start, np.empty((len(rows), 0), np.int64))
            self._raise_floor(queries.start, rows[counts[rows] > self.k], scores)
            keep = value > self.floor[queries][row]
            row, column, value = row[keep], column[keep], value[keep]
            counts = np.bincount(row, minlength=len(scores))
            crowded = counts > capacity - self.filled[queries]
            if crowded.any():  # so many equal scores that floors don't help
                rows = np.flatnonzero(crowded)
                self._cut(rows + queries.start, np.where(np.isneginf(scores[rows]), _EMPTY, pack(scores[rows], items)))
                keep = ~crowded[row]
                row, column, value, counts = row[keep], column[keep], value[keep], np.where(crowded, 0, counts)
        # `row` ascends, so a candidate's place is its distance from the first of its row.
        place = np.arange(len(row)) + (self.filled[queries] - np.cumsum(counts) + counts)[row]
        self.keys[row + queries.start, place] = pack(value, items[column])
        self.filled[queries] += counts

    def _raise_floor(self, start: int, rows: np.ndarray, scores: np.ndarray) -> None:
        """No score below the k-th best of a block is among the k best of all."""
        if len(rows):
            kth = np.partition(scores[rows], scores.shape[1] - self.k, axis=1)[:, -self.k]
            below = np.nextafter(kth, np.float32(-np.inf))
            self.floor[rows + start] = np.maximum(self.floor[rows + start], below)

    def _cut(self, queries: np.ndarray, more: np.ndarray) -> None:
        """Cuts the queries' rows back to the best k of what they hold and `more`, (Q, any) keys."""
        keys = np.concatenate([self.keys[queries, : self.filled[queries].max()], more], axis=1)
        best = keys if keys.shape[1] == self.k else np.partition(keys, keys.shape[1] - self.k, axis=1)[:, -self.k :]
        self.keys[queries, : self.k] = best
        self.keys[queries, self.k :] = _EMPTY
        self.filled[queries] = self.k
        self.floor[queries] = np.maximum(self.floor[queries], unpack(best.min(axis=1))[0])

    def best(self) -> np.ndarray:
        """(n, k) packed, best first: `unpack` them. Also cuts all rows back."""
        for start in range(0, self.n, 4096):
            rows = np.arange(start, min(start + 4096, self.n))
            self._cut(rows, np.empty((len(rows), 0), np.int64))
        self.keys[:, : self.k] = np.sort(self.keys[:, : self.k], axis=1)[:, ::-1]
        return self.keys[:, : self.k]

    def merge(self, keys: np.ndarray) -> None:
        """Looks at what `best` gave for the same queries and other items, (n, any) packed."""
        for start in range(0, self.n, 4096):
            rows = np.arange(start, min(start + 4096, self.n))
            self._cut(rows, keys[rows])

    def restore(self, keys: np.ndarray) -> None:
        """Continues from what `best` gave."""
        self.keys[:, : self.k] = keys
        self.best()


def _above(scores: np.ndarray, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row (ascending), column and value of the scores (R, C) above their row's floor, read in the order of memory."""
    if scores.T.flags.c_contiguous and not scores.flags.c_contiguous:
        found = np.flatnonzero(floor < scores.T)
        column, row = np.divmod(found, len(scores))
        # A radix sort where the numbers are short, which blocks see to.
        order = np.argsort(row.astype(np.int16) if len(scores) < 2**15 else row, kind="stable")
        return row[order], column[order], scores.T.ravel()[found[order]]
    scores = np.ascontiguousarray(scores)
    found = np.flatnonzero(scores > floor[:, None])
    row, column = np.divmod(found, scores.shape[1])
    return row, column, scores.ravel()[found]


def pack(scores: np.ndarray, items: np.ndarray) -> np.ndarray:
    """float32 scores and int items → int64 that sort by score, then by lower item first."""
    bits = (scores + np.float32(0)).view(np.int32)  # + 0 turns −0 into 0
    ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64)
    return (ordered << 32) | (0xFFFFFFFF - items.astype(np.int64))


def unpack(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores (float32) and items (int32); an empty key gives −inf and −1."""
    ordered = (keys >> 32).astype(np.int32)
    scores = (ordered ^ ((ordered >> 31) & 0x7FFFFFFF)).view(np.float32)
    items = (0xFFFFFFFF - (keys & 0xFFFFFFFF)).astype(np.int32)
    empty = keys == _EMPTY
    return np.where(empty, np.float32(-np.inf), scores), np.where(empty, np.int32(-1), items)
