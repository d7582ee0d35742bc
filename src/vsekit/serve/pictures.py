"""Pictures for browsers: thumbnails, and the files themselves, never from outside the indexed folders."""

from __future__ import annotations

import io
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from PIL import Image, ImageOps

from vsekit.search.items import Item
from vsekit.search.pictures import IN_SHARD, reads_heic
from vsekit.serve.problems import ProblemError

#: What is opened at all, by Pillow's names: no format whose decoder starts other programs (EPS) or reads other files.
SHOWN = {
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",  # with further pictures behind the first, as some cameras write it
    "PNG": "image/png",
    "WEBP": "image/webp",
    "GIF": "image/gif",
    "AVIF": "image/avif",
}
CONVERTED = ("TIFF", "HEIF", "BMP")
THUMBNAIL_SIZES = (128, 256, 512, 1024)


class Opened(NamedTuple):
    """version: names what the file holds now; fixed: whether that is what was indexed."""

    file: BinaryIO
    version: str
    fixed: bool


def open_indexed(item: Item, roots: Sequence[Path]) -> Opened:
    """The file of an indexed picture, if it lies in an indexed folder (`roots`, resolved) after all links are followed."""
    gone = ProblemError(404, "the picture's file is not there", "Bring the index up to date with vse index.")
    if not item.path:
        raise ProblemError(404, "this item has no picture file")
    shard = IN_SHARD.fullmatch(item.path)
    try:
        if shard is not None and Path(item.path).exists():
            shard = None
        resolved = Path(shard[1] if shard else item.path).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        raise gone from None
    if not any(resolved.is_relative_to(root) for root in roots):
        raise ProblemError(403, "the picture lies outside the indexed folders", "Index the folder it really lies in.")
    try:
        # No link may have come in its place since; a pipe must not be waited for.
        handle = os.open(resolved, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        raise gone from None
    state = os.fstat(handle)
    if not stat.S_ISREG(state.st_mode):
        os.close(handle)
        raise gone
    file: BinaryIO = os.fdopen(handle, "rb")
    size = state.st_size
    if shard is not None:
        with file:
            file.seek(int(shard[2]))
            file = io.BytesIO(file.read(min(int(shard[3]), size)))
        size = int(shard[3])
    fixed = bool(item.content) and (size, state.st_mtime_ns) == (item.size, item.mtime_ns)
    now = f"{size:x}-{state.st_mtime_ns:x}" + (f"-{shard[2]}" if shard else "")
    return Opened(file, item.content if fixed else f"{item.id}-{now}", fixed)


@cache
def _formats() -> list[str]:
    """Those of the allowed formats that this installation can read."""
    reads_heic()
    Image.init()
    return [name for name in (*SHOWN, *CONVERTED) if name in Image.OPEN]


def open_image(file: BinaryIO, pixels: int) -> Image.Image:
    """The picture, not decoded yet; refused by what its header says of its size."""
    too_large = ProblemError(413, f"the picture has more than {pixels:,} pixels", "Make it smaller.")
    try:
        image = Image.open(file, formats=_formats())
    except Image.DecompressionBombError:
        raise too_large from None
    except Exception as error:  # decoders raise nearly anything on broken bytes
        raise ProblemError(
            415, "this is no picture that can be read", "Send a JPEG, PNG, WebP, GIF or TIFF."
        ) from error
    if image.width * image.height > pixels:
        raise too_large
    return image


def upright(image: Image.Image, size: int) -> Image.Image:
    """Decoded, turned as EXIF says, in RGB on white, its longer side at most `size` (JPEGs are decoded small)."""
    try:
        image.draft("RGB", (size, size))
        image = ImageOps.exif_transpose(image)
        image.thumbnail((size, size), Image.Resampling.LANCZOS, reducing_gap=2.0)
        if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA"):
            image = image.convert("RGBA")
            white = Image.new("RGBA", image.size, "white")
            image = Image.alpha_composite(white, image)
        return image.convert("RGB")
    except Exception as error:
        raise ProblemError(415, "the picture is broken", "Mend the file, or send another.") from error


def jpeg(image: Image.Image, quality: int) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality, progressive=True)
    return out.getvalue()


def for_browser(file: BinaryIO, pixels: int) -> tuple[BinaryIO | bytes, str]:
    """The file itself and its media type, or a JPEG where browsers can't show it (the file is then closed)."""
    try:
        image = open_image(file, pixels)
        if (media_type := SHOWN.get(image.format or "")) is not None:
            file.seek(0)
            return file, media_type
        made = jpeg(upright(image, max(image.size)), quality=90)
    except BaseException:
        file.close()
        raise
    file.close()
    return made, "image/jpeg"


class Thumbnails:
    """Made when asked for; the latest are kept in at most `limit` bytes."""

    def __init__(self, limit: int, pixels: int) -> None:
        self._limit, self._pixels, self._held = limit, pixels, 0
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, opened: Opened, size: int) -> bytes:
        """A JPEG whose longer side is the next of `THUMBNAIL_SIZES`, or less where the picture is smaller."""
        size = min((s for s in THUMBNAIL_SIZES if s >= size), default=THUMBNAIL_SIZES[-1])
        key = (opened.version, size)
        with opened.file:
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
            made = jpeg(upright(open_image(opened.file, self._pixels), size), quality=82)
        with self._lock:
            if key not in self._kept and len(made) <= self._limit:
                self._kept[key] = made
                self._held += len(made)
                while self._held > self._limit:
                    self._held -= len(self._kept.popitem(last=False)[1])
        return made
