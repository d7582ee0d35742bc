"""Pictures that are nearly the same, told without a model: copies saved again, scaled, or slightly retouched.

A picture is looked at as u: 16 × 16 pixels in RGB, less their mean, of unit length. Two are alike when u · v ≥ t, that is
|u − v|² ≤ 2 − 2t. Means over blocks of 4 × 4 of those pixels, times 4, are an orthonormal projection P, so that
|Pu − Pv| ≤ |u − v|: comparing 48 numbers first instead of 768 misses no pair.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from vsekit.data.decoding import PictureError, decode
from vsekit.data.pairs import Picture
from vsekit.files import fingerprint, write_npy
from vsekit.progress import Update

SIDE, BLOCK = 16, 4
#: u · v from which two pictures are alike.
ALIKE = 0.97
#: Grey levels a picture must vary by, as a standard deviation; one colour all over is like any other.
FLAT = 2.0


def looks(
    pictures: Sequence[Picture], *, kept: Path | None = None, workers: int = 2, progress: Update | None = None
) -> np.ndarray:
    """(n, 768) float16: u of every picture; zeros for one that is flat or can't be read.

    kept: a folder where they are kept for the next time.
    """
    file = None if kept is None else kept / f"{fingerprint([_identity(picture) for picture in pictures])}.npy"
    if file is not None and file.is_file():
        return np.load(file, allow_pickle=False)
    found = np.zeros((len(pictures), SIDE * SIDE * 3), np.float16)
    with ThreadPoolExecutor(max(workers, 1)) as pool:
        for i, look in enumerate(pool.map(_look, pictures)):
            found[i] = look
            if progress:
                progress(i + 1, len(pictures))
    if file is not None:
        write_npy(file, found)
    return found


def _look(picture: Picture) -> np.ndarray:
    from PIL import Image

    nothing = np.zeros(SIDE * SIDE * 3, np.float32)
    try:
        small = decode(picture, SIDE).resize((SIDE, SIDE), Image.Resampling.BOX)
    except PictureError:
        return nothing
    pixels = np.asarray(small, np.float32).reshape(-1)
    pixels = pixels - pixels.mean()
    return nothing if pixels.std() < FLAT else pixels / np.linalg.norm(pixels)


def _identity(picture: Picture) -> list[object]:
    try:
        found = os.stat(picture.path) if picture.path else None
    except OSError:
        found = None
    return [str(picture.path), picture.offset, found and found.st_size, found and found.st_mtime_ns]


def alike(found: np.ndarray, threshold: float = ALIKE, block: int = 1024) -> list[tuple[int, int]]:
    """Pairs i < j with u · v ≥ threshold, of what `looks` gave."""
    coarse = found.astype(np.float32).reshape(-1, SIDE // BLOCK, BLOCK, SIDE // BLOCK, BLOCK, 3)
    coarse = (coarse.sum((2, 4)) / BLOCK).reshape(len(found), -1)
    seen = np.flatnonzero(found.any(axis=1))
    coarse, lengths = coarse[seen], (coarse[seen] ** 2).sum(1)
    # Of 16-bit numbers, the products below are this far off.
    radius = 2 - 2 * threshold + 0.005
    pairs = []
    for start in range(0, len(seen), block):
        some = slice(start, start + block)
        apart = lengths[some, None] + lengths[None, start:] - 2 * coarse[some] @ coarse[start:].T
        for a, b in np.argwhere(apart <= radius).tolist():
            i, j = int(seen[start + a]), int(seen[start + b])
            if i < j and float(found[i].astype(np.float32) @ found[j].astype(np.float32)) >= threshold:
                pairs.append((i, j))
    return pairs


def joined(n: int, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """(n,) int64: for every one of n things the smallest of those it is tied to, over any number of pairs.

    >>> joined(5, [(1, 3), (3, 4)]).tolist()
    [0, 1, 2, 1, 1]
    """
    root = list(range(n))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = i = root[root[i]]
        return i

    for a, b in pairs:
        first, second = sorted((find(a), find(b)))
        root[second] = first
    return np.array([find(i) for i in range(n)], dtype=np.int64)
