"""Names for what features come from: pictures by what is in their files; `encoders.weights` has those of weights."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence

import numpy as np

from vsekit.data.decoding import version_of
from vsekit.data.pairs import Picture
from vsekit.files import fingerprint

#: Bytes at the beginning of a file that tell how it is read.
HEAD = 65536


def identities_of(pictures: Sequence[Picture]) -> np.ndarray:
    """(n, 2) uint64: size and CRC-32 of the first 64 KB of every picture; quick, and enough to notice a change."""
    return np.array([identity(picture) for picture in pictures], np.uint64).reshape(-1, 2)


def identity(picture: Picture) -> tuple[int, int]:
    """Size, and CRC-32 of the first 64 KB, from the version of reading such pictures on; zeros for what cannot be read."""
    if picture.path is None:
        return 0, 0
    try:
        with picture.path.open("rb") as file:
            size = picture.size if picture.offset is not None else os.fstat(file.fileno()).st_size
            file.seek(picture.offset or 0)
            head = file.read(min(size or 0, HEAD))
            return size or 0, zlib.crc32(head, version_of(head))
    except OSError:
        return 0, 0


def content_of(data: bytes) -> int:
    """64 bits that name a picture by all of its bytes and the version of reading such pictures, wherever it lies."""
    return int(fingerprint(data, version_of(data[:HEAD])), 16)


def contents_of(pictures: Sequence[Picture]) -> np.ndarray:
    """(n,) uint64 `content_of` every picture; 0 for what cannot be read."""
    contents = np.zeros(len(pictures), np.uint64)
    for i, picture in enumerate(pictures):
        try:
            contents[i] = content_of(picture.read())
        except OSError:
            continue
    return contents
