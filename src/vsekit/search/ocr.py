"""The text in pictures, read with RapidOCR (PP-OCRv4 through ONNX Runtime; its models come in its wheel) and kept as the
metadata `written`, which words are made of.

A picture that was read has the field, an empty one where nothing was found, and is not read again until its file changes. So
reading goes on where it was stopped. Copies and renamed files keep what was read. No picture is passed over: the half of the
work that finds out where text might stand is what tells a photograph from a page.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vsekit import threads
from vsekit.data.decoding import PictureError, decode
from vsekit.errors import missing_extra
from vsekit.progress import QUIET, Progress
from vsekit.search.book import Report
from vsekit.search.items import Item
from vsekit.search.pictures import source_of
from vsekit.search.stores import open_store
from vsekit.search.stores.base import Store
from vsekit.search.words import WRITTEN

if TYPE_CHECKING:
    from PIL import Image

#: Characters kept of a picture; every store has room for them.
LONGEST = 3000
#: Lines that the reader itself is less sure of are left out.
SURE = 0.6
#: Of a line's height; and how much ink differs from paper, of 255.
SPACE, INK = 0.25, 40
#: Large JPEGs are decoded at twice this; the reader looks at no more than 2,000 pixels.
SIDE = 1000
#: Pixels below which nothing is read; parts of a long picture that are.
NARROW, PARTS = 12, 20
#: Seconds of work a kill may cost.
FLUSH_SECONDS = 3.0


class Reader:
    """Reads the text of pictures; in any number of threads, of which each should have its own."""

    def __init__(self) -> None:
        try:
            from rapidocr_onnxruntime import RapidOCR
        except ImportError:
            raise missing_extra("rapidocr-onnxruntime", "ocr") from None
        self._engine: Any = RapidOCR(intra_op_num_threads=1, inter_op_num_threads=1)

    def read(self, image: Image.Image) -> str:
        """The lines of an upright picture in RGB, as they stand below one another; "" where there are none."""
        lines = [line for part in _parts(np.asarray(image)) for line in self._lines(part)]
        return "\n".join(dict.fromkeys(lines))[:LONGEST]

    def _lines(self, pixels: np.ndarray) -> Iterator[str]:
        found, _ = self._engine(np.ascontiguousarray(pixels[:, :, ::-1]), use_cls=False, return_word_box=True)
        for box, text, score, places, characters, *_ in found or []:
            if float(score) >= SURE:
                line = "".join(_spaced(pixels, np.array(box), places, characters)) or text
                if line := " ".join(line.split()):
                    yield line


def _spaced(pixels: np.ndarray, box: np.ndarray, places: list[Any], characters: list[str]) -> Iterator[str]:
    """A line character by character, with the spaces that the reader, which knows Chinese best, left out of Latin words: where a
    column without ink stands between two letters, `SPACE` of the line's height wide or wider."""
    (left, top), (right, bottom) = np.maximum(box.min(0), 0).astype(int), box.max(0).astype(int)
    line = pixels[top:bottom, left:right].astype(np.float32).mean(-1)
    if not line.size or any(len(character) != 1 for character in characters):
        return
    ink = (abs(line - np.median(line)) > INK).any(0)
    middles = [int(np.mean([x for x, _ in place])) - left for place in places]
    for i, character in enumerate(characters):
        yield character
        following = characters[i + 1 : i + 2]
        latin = following and all(c.isalnum() and c < "\u3000" for c in (character, *following))
        if latin and not (character.isdigit() and following[0].isdigit()):
            between = "".join(".x"[int(one)] for one in ink[max(middles[i], 0) : middles[i + 1]])
            if max(map(len, between.split("x"))) >= SPACE * (bottom - top):
                yield " "


def _parts(pixels: np.ndarray) -> list[np.ndarray]:
    """A picture that is much longer than wide, in parts that overlap: the reader scales its shorter side up and its longer one
    down. None of one too narrow for letters."""
    short, long = sorted(pixels.shape[:2])
    if short < NARROW:
        return []
    if long <= 3 * short:
        return [pixels]
    starts = range(0, long - short // 4, 2 * short - short // 4)[:PARTS]
    tall = pixels.shape[0] == long
    return [pixels[at : at + 2 * short] if tall else pixels[:, at : at + 2 * short] for at in starts]


def read_into(report: Report, place: str, progress: Progress = QUIET) -> Report:
    """The report of an index that was brought up to date, after its pictures were read as well."""
    started = time.monotonic()
    with open_store(place) as store:
        read = read_pictures(store, progress)
    return replace(report, read=read, seconds=report.seconds + time.monotonic() - started)


def read_pictures(store: Store, progress: Progress = QUIET, reader: Reader | None = None) -> int:
    """Reads the pictures of an index that were not read yet, and gives their number. Pictures that are not there now, or can't be
    decoded, are left for the next time.

    Ctrl-C keeps what was read.
    """
    store.lock()
    total = sum(WRITTEN not in item.meta for item in store.all_items("image"))
    if not total:
        return 0
    readers = [reader] if reader else [Reader() for _ in range(threads.most())]
    done, read, flushed = 0, {}, time.monotonic()
    with progress.bar("Text in pictures", "pictures") as bar:
        try:
            for count, item in enumerate(_read(store, readers), start=1):
                if item is not None:
                    read[item.id] = item
                if time.monotonic() - flushed > FLUSH_SECONDS:
                    done, flushed = done + _write(store, read), time.monotonic()
                bar(count, total)
        finally:
            done += _write(store, read)
    return done


def _write(store: Store, read: dict[str, Item]) -> int:
    """What was read since the last time, of pictures that are still the same."""
    if not read:
        return 0
    items, number = list(read.values()), len(read)
    store.update(items)
    read.clear()
    return number


def _read(store: Store, readers: list[Reader]) -> Iterator[Item | None]:
    """The pictures that were not read yet, with their text; None for one that can't be looked at."""
    waiting: deque[Future[Item | None]] = deque()
    free = deque(readers)
    unread = (item for item in store.all_items("image") if WRITTEN not in item.meta)

    def look(item: Item) -> Item | None:
        reader = free.popleft()
        try:
            return replace(item, meta={**item.meta, WRITTEN: reader.read(decode(source_of(item.path), SIDE))})
        except (PictureError, OSError):
            return None
        finally:
            free.append(reader)

    with threads.pool(len(readers)) as pool:
        try:
            for item in unread:
                waiting.append(pool.submit(look, item))
                if len(waiting) > 2 * len(readers):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
