"""Picture files of an index: their bytes, and a picture opened from bytes, with limits.

An item's path is absolute; a picture inside a WebDataset shard is named `/data/shard.tar#OFFSET+SIZE`.
"""

from __future__ import annotations

import io
import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

#: A picture with more is refused before it is decoded: a small file can unfold to any size. Just below Pillow's own limit.
MAX_PIXELS = 150_000_000
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP")
_HEIC = re.compile(rb".{4}ftyp(heic|heix|heim|heis|hevc|hevx|mif1|msf1)", re.DOTALL)
#: A picture inside a shard: its path, offset and size.
IN_SHARD = re.compile(r"(.+)#(\d+)\+(\d+)", re.DOTALL)


class Unsupported(ValueError):
    """A picture that another installation could read."""


def read_bytes(path: str) -> bytes:
    """The bytes of the picture an item's path names."""
    inside = IN_SHARD.fullmatch(path)
    if inside is None or os.path.exists(path):
        return Path(path).read_bytes()
    with open(inside[1], "rb") as shard:
        shard.seek(int(inside[2]))
        return shard.read(int(inside[3]))


def open_picture(data: bytes) -> Image.Image:
    """The picture (the first, where there are several), not decoded yet. ValueError says what is wrong with it."""
    from PIL import Image, UnidentifiedImageError

    if not data:
        raise ValueError("the file is empty")
    heic = _HEIC.match(data)
    if heic and not reads_heic():
        raise Unsupported("HEIC pictures need the package pillow-heif: pip install pillow-heif")
    try:
        image = Image.open(io.BytesIO(data), formats=("HEIF",) if heic else _FORMATS)
    except UnidentifiedImageError:
        raise ValueError("not a picture, or damaged at its beginning") from None
    except Image.DecompressionBombError:
        raise ValueError(f"more than {MAX_PIXELS // 10**6} megapixels, the limit") from None
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise ValueError(f"{width} × {height} are more than {MAX_PIXELS // 10**6} megapixels, the limit")
    return image


@cache
def reads_heic() -> bool:
    """Whether HEIC pictures can be opened here; from then on Pillow does."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return False
    register_heif_opener()
    return True
