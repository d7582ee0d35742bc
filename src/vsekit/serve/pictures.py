"""Pictures for browsers: thumbnails, and the files themselves, never from outside the indexed folders."""

from __future__ import annotations

import io
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from vsekit import system
from vsekit.data.decoding import PictureError
from vsekit.search.items import Item
from vsekit.search.pictures import IN_SHARD
from vsekit.search.stores import Store
from vsekit.serve.decoders import Decoders
from vsekit.serve.problems import ProblemError

THUMBNAIL_SIZES = (128, 256, 512, 1024)


class Opened(NamedTuple):
    """version: names what the file holds now; fixed: whether that is what was indexed."""

    file: BinaryIO
    version: str
    fixed: bool


def indexed_folders(store: Store) -> list[Path]:
    """With links followed; a collection's file stands for the folder it lies in."""
    roots = [Path(root).resolve() for root in store.header.get("roots", [])]
    return [root.parent if root.is_file() else root for root in roots]


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
        handle = system.open_to_read(resolved, "O_NOFOLLOW", "O_NONBLOCK")
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


def refused(error: PictureError) -> ProblemError:
    """The answer to a picture that can't be read: 413 for too large a one, else 415."""
    if error.kind == "large":
        return ProblemError(413, f"the picture is too large: {error.reason}", error.remedy)
    return ProblemError(415, error.what, error.remedy or "Send a JPEG, PNG, WebP, GIF or TIFF.")


def for_browser(file: BinaryIO, decoders: Decoders) -> tuple[BinaryIO | bytes, str]:
    """The file itself and its media type, or a JPEG where browsers can't show it (the file is then closed)."""
    try:
        media_type, made = decoders.for_browser(file)
    except PictureError as error:
        file.close()
        raise refused(error) from error
    except BaseException:
        file.close()
        raise
    if not made:
        file.seek(0)
        return file, media_type
    file.close()
    return made, media_type


def as_indexed(opened: Opened, decoders: Decoders) -> BinaryIO:
    """The file itself. One that has changed since it was indexed is looked at first: it may be no picture any more."""
    if not opened.fixed:
        try:
            decoders.for_browser(opened.file)
        except PictureError as error:
            opened.file.close()
            raise refused(error) from error
        opened.file.seek(0)
    return opened.file


class Thumbnails:
    """Made when asked for; the latest are kept in at most `limit` bytes."""

    def __init__(self, limit: int, decoders: Decoders) -> None:
        self._limit, self._decoders, self._held = limit, decoders, 0
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
            try:
                made = self._decoders.thumbnail(opened.file, size)
            except PictureError as error:
                raise refused(error) from error
        with self._lock:
            if key not in self._kept and len(made) <= self._limit:
                self._kept[key] = made
                self._held += len(made)
                while self._held > self._limit:
                    self._held -= len(self._kept.popitem(last=False)[1])
        return made
