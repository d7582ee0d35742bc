"""Whether two files show the same picture: at another size or quality, or in another format, and nowhere different.

Both are scaled to 64 × 64 pixels, and each part of 8 × 8 of one is compared with that of the other:

    d ≤ DIFFERENT · max(s, FLAT)

with d the root mean square of their difference and s the mean of their standard deviations, in grey levels: where there is
much to see, saving it again changes more. One part that differs is enough: another word on a page, somebody who has moved.
The largest d / max(s, FLAT) of all parts, of 60 photographs of Flickr8k (256 pixels) and 20 pages of printed text:

    saved again as JPEG of quality 30   at most 0.41        cropped by 1 % on each side   at least 0.54, mostly 1.03
    photographs at half their size      at most 0.50        something small pasted in     at least 0.63
    a page of text at a third           at most 0.50        another page of text          at least 1.20
    as WebP of quality 60               at most 0.30        moved by 1.5 %                at least 0.66

`python -m studies.copies flickr8k/images` measures it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from vsekit.data.decoding import PictureError, decode
from vsekit.search.items import Item
from vsekit.search.pictures import source_of

if TYPE_CHECKING:
    from PIL import Image

SIDE, PART = 64, 8
DIFFERENT, FLAT = 0.55, 12.0
#: How far proportions may be apart: the sides of a small copy are whole numbers.
PROPORTION = 0.02
#: Small pictures kept while pairs are compared, 12 kB each.
KEPT = 4096


def may_be_same(a: Item, b: Item) -> bool:
    """By their sizes alone. Pictures smaller than what is compared can't be told."""
    if min(a.width, a.height, b.width, b.height) < SIDE:
        return False
    return abs(a.width * b.height / (a.height * b.width) - 1) <= PROPORTION


class Sameness:
    """Compares pictures, and keeps what it made of the last ones. Any thread may ask."""

    def __init__(self) -> None:
        self._small = lru_cache(KEPT)(_read)

    def __call__(self, a: Item, b: Item) -> bool:
        one, other = self._small(a.path), self._small(b.path)
        return one is not None and other is not None and difference(one, other) <= DIFFERENT


def _read(path: str) -> np.ndarray | None:
    """None for what can't be read."""
    try:
        return small(decode(source_of(path), 4 * SIDE))
    except (PictureError, OSError):
        return None


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """The largest d / max(s, FLAT) of two small pictures, (SIDE, SIDE, 3)."""
    one, other = _parts(a), _parts(b)
    apart = np.sqrt(((one - other) ** 2).mean((1, 2)))
    varied = (one.std(1).mean(1) + other.std(1).mean(1)) / 2
    return float((apart / np.maximum(varied, FLAT)).max())


def small(image: Image.Image) -> np.ndarray:
    """(SIDE, SIDE, 3) uint8"""
    from PIL import Image as Pillow

    return np.asarray(image.resize((SIDE, SIDE), Pillow.Resampling.BOX), np.uint8)


def _parts(picture: np.ndarray) -> np.ndarray:
    """(parts, pixels, 3) float32"""
    n = SIDE // PART
    cut = picture.astype(np.float32).reshape(n, PART, n, PART, 3).transpose(0, 2, 1, 3, 4)
    return cut.reshape(n * n, PART * PART, 3)
