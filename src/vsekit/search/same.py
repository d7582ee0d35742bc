"""Whether two files show the same picture: at another size or quality, or in another format, and nowhere different.

Both are scaled to 64 × 64 pixels, A and B, and three things are asked. They are copies only where all three say so; what differs in
one is *alike*, and nobody throws it away as a copy.

- Is each part the same? Each part of 8 × 8 of one is compared with that of the other: d ≤ DIFFERENT · max(s, FLAT), with d the root
  mean square of their difference and s the mean of their standard deviations, in grey levels: where there is much to see, saving it
  again changes more. One part that differs is enough: another word on a page, somebody who has moved.
- Is it as bright, and in the same colours? Saving changes parts at random, an edit changes them by a rule. So the difference of
  the parts' means, B − A, is fitted by M A + o, which brightness, contrast, saturation, hue and white balance all are, nearly;
  *tone* is the root mean square of what the rule says, in the worst colour: at most TONE grey levels, TINT of its own.
- Does it lie in the same place? A crop scales and moves. What is left of B − A is fitted by the gradient of the picture times a
  shift and a stretch of each side (Lucas and Kanade, 1981); *moved* is by how many pixels of the 64 the edges went: at most MOVED.

docs/search.md has what each says of copies and of edits; `python -m studies.copies flickr8k/images` measures it.
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
TONE, TINT, MOVED = 1.2, 0.02, 0.22
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
        return one is not None and other is not None and same(one, other)


def _read(path: str) -> np.ndarray | None:
    """None for what can't be read."""
    try:
        return small(decode(source_of(path), 4 * SIDE))
    except (PictureError, OSError):
        return None


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two small pictures, (SIDE, SIDE, 3), are one and the same."""
    if difference(a, b) > DIFFERENT:
        return False
    tone, light, moved = edited(a, b)
    return tone <= min(TONE, TINT * light) and moved <= MOVED


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """The largest d / max(s, FLAT) of two small pictures, (SIDE, SIDE, 3)."""
    one, other = _parts(a), _parts(b)
    apart = np.sqrt(((one - other) ** 2).mean((1, 2)))
    varied = (one.std(1).mean(1) + other.std(1).mean(1)) / 2
    return float((apart / np.maximum(varied, FLAT)).max())


def edited(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """How far two small pictures are apart by rule: tone, how light the first is (both in grey levels), and moved."""
    one, other = (picture.astype(np.float64) for picture in (a, b))
    means, changes = _parts(a).mean(1, dtype=np.float64), (_parts(b) - _parts(a)).mean(1, dtype=np.float64)
    centre = means.mean(0)
    known = np.hstack([np.ones((len(means), 1)), means - centre])
    rule = np.linalg.lstsq(known, changes, rcond=1e-6)[0]
    tone = np.sqrt(((known @ rule) ** 2).mean(0)).max()
    pixels = np.hstack([np.ones((SIDE * SIDE, 1)), one.reshape(-1, 3) - centre])
    left = (other - one).reshape(-1, 3) - pixels @ rule
    down, right = (slope.reshape(-1, 3) for slope in np.gradient((one + other) / 2, axis=(0, 1)))
    y, x = np.indices((SIDE, SIDE)).reshape(2, -1, 1) - (SIDE - 1) / 2
    ways = np.stack([right, right * x, down, down * y], axis=-1).reshape(-1, 4)
    shift = np.abs(np.linalg.lstsq(ways, left.reshape(-1), rcond=1e-6)[0]) * (1, SIDE / 2, 1, SIDE / 2)
    light = np.sqrt((means**2).mean())
    return float(tone), float(light), float(max(shift[:2].sum(), shift[2:].sum()))


def small(image: Image.Image) -> np.ndarray:
    """(SIDE, SIDE, 3) uint8"""
    from PIL import Image as Pillow

    return np.asarray(image.resize((SIDE, SIDE), Pillow.Resampling.BOX), np.uint8)


def _parts(picture: np.ndarray) -> np.ndarray:
    """(parts, pixels, 3) float32"""
    n = SIDE // PART
    cut = picture.astype(np.float32).reshape(n, PART, n, PART, 3).transpose(0, 2, 1, 3, 4)
    return cut.reshape(n * n, PART * PART, 3)
