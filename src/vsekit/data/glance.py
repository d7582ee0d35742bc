"""Whether a picture can be read, told from its header and its end, without decoding it.

Nearly all broken pictures are cut off, empty, or something else altogether (a page that says "not found"). Only a file whose end
looks wrong is decoded, to be sure: some writers leave more behind the end, and that is no harm.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from vsekit.data.decoding import PictureError, open_picture, upright
from vsekit.data.pairs import Picture

#: By Pillow's format: the bytes a whole file ends with, and how far from the end they may stand.
_ENDS = {"JPEG": (b"\xff\xd9", 64), "PNG": (b"IEND", 16)}


def glance(picture: Picture) -> str | None:
    """Why a picture can't be read, in a few words; None when nothing speaks against it."""
    if picture.path is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's remarks on odd but readable files
            with open_picture(picture) as image:
                kind = image.format or ""
                if kind not in _ENDS or _ends_well(picture, *_ENDS[kind]):
                    return None
                upright(image)
    except OSError as error:
        return error.strerror or str(error)
    except PictureError as error:
        return error.reason
    return None


def _ends_well(picture: Picture, mark: bytes, within: int) -> bool:
    assert picture.path is not None
    with picture.path.open("rb") as file:
        size = picture.size if picture.offset is not None else os.fstat(file.fileno()).st_size
        file.seek((picture.offset or 0) + max(0, (size or 0) - within))
        return mark in file.read(within)


def glances(pictures: Iterable[Picture], workers: int = 4) -> Iterator[str | None]:
    """`glance` of each, in their order."""
    with ThreadPoolExecutor(max(workers, 1)) as pool:
        yield from pool.map(glance, pictures)
