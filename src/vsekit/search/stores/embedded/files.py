"""The embedded store's files beside its database, their lengths and checksums.

    image-0.f32       (slots, dim) float32, little-endian; only ever appended to
    image-0.f16       the same in half precision, where the index was made so
    image-7f3a.ivf    approximate index of the first so many slots

Vectors are appended and synced first, then a transaction says that they count, and what their SHA-256 is: one checksum for
each append, so that appending reads nothing. Bytes beyond what counts were left by a write that was killed; the next writes
over them. A file shorter than what counts has lost vectors, which is said when the index is opened.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vsekit.errors import UserError
from vsekit.files import atomic_path
from vsekit.search.stores.embedded import tables
from vsekit.search.stores.halves import HALF, SINGLE, narrowed

#: A file's ending → what it holds.
TYPES: dict[str, np.dtype[Any]] = {".f32": SINGLE, ".f16": HALF}
PIECE = 2**26  # bytes under one checksum, where many are read at once
BLOCK = 16384  # vectors moved at once

VECTORS_REMEDY = "Run vse index again: what is lost is made anew from the pictures."
APPROXIMATE_REMEDY = "Run vse index again: it is made anew from the vectors."


class Damage(NamedTuple):
    """Bytes of a file that are not what was written: from `start`, at most to `stop`."""

    file: Path
    start: int
    stop: int


def dtype_of(file: str | Path) -> np.dtype:
    """Of the vectors in a file, by its name."""
    return TYPES[Path(file).suffix]


def ending(dtype: str) -> str:
    """Of files of such vectors: float32 or float16."""
    return next(end for end, type in TYPES.items() if type == np.dtype(dtype))


def width(file: str | Path, dim: int) -> int:
    """Bytes of one vector in a file."""
    return dim * dtype_of(file).itemsize


def map_vectors(path: Path, slots: int, dim: int) -> np.ndarray:
    """(slots, dim), read where they are looked at. FileNotFoundError where the file is gone."""
    if not slots:
        return np.empty((0, dim), dtype=dtype_of(path))
    check_length(path, slots, dim)
    return np.memmap(path, dtype=dtype_of(path), mode="r", shape=(slots, dim)).view(np.ndarray)


def check_length(path: Path, slots: int, dim: int) -> None:
    size, least = path.stat().st_size, slots * width(path, dim)
    if size < least:
        raise UserError(
            f"this file of vectors has lost its end: {size} bytes are left of {least}",
            file=path,
            remedy=VECTORS_REMEDY,
        )


def check_lengths(connection: sqlite3.Connection, folder: Path, dim: int) -> None:
    """Of all files of vectors; FileNotFoundError for one that is gone."""
    for file, slots in connection.execute("select file, slots from kinds where slots > 0").fetchall():
        check_length(folder / file, slots, dim)


def append(connection: sqlite3.Connection, folder: Path, kind: str, vectors: np.ndarray) -> range:
    """Adds vectors (n, dim) of a kind and gives their slots."""
    file, slots = connection.execute("select file, slots from kinds where kind = ?", (kind,)).fetchone()
    path, data = folder / file, narrowed(vectors, dtype_of(file)).tobytes()
    start = slots * width(file, vectors.shape[1])
    if slots:
        try:
            check_length(path, slots, vectors.shape[1])
        except FileNotFoundError:
            raise UserError("this file of vectors is missing", file=path, remedy=VECTORS_REMEDY) from None
    with path.open("r+b" if path.exists() else "w+b") as output:
        output.seek(start)
        output.write(data)
        output.flush()
        os.fsync(output.fileno())
    connection.execute("update kinds set slots = slots + ? where kind = ?", (len(vectors), kind))
    _remember(connection, file, start, data)
    return range(slots, slots + len(vectors))


def move(
    connection: sqlite3.Connection, folder: Path, old: str, new: str, vectors: np.ndarray, slots: Sequence[int]
) -> None:
    """Writes some of the vectors of one file to a new one."""
    with atomic_path(folder / new) as temporary, temporary.open("wb") as output:
        for start in range(0, len(slots), BLOCK):
            data = vectors[slots[start : start + BLOCK]].tobytes()
            _remember(connection, new, output.tell(), data)
            output.write(data)
    forget(connection, old)


def compact(connection: sqlite3.Connection, folder: Path, kind: str, dim: int, few: int) -> str | None:
    """Moves the living to a new file when a quarter is dead, and more than `few`; gives the old file's name, for after the
    commit."""
    file, slots, living = connection.execute("select file, slots, living from kinds where kind = ?", (kind,)).fetchone()
    if slots - living <= max(slots // 4, few):
        return None
    vectors, new = map_vectors(folder / file, slots, dim), tables.next_name(file)
    move(connection, folder, file, new, vectors, tables.move(connection, kind, new))
    return str(file)


def _remember(connection: sqlite3.Connection, file: str, start: int, data: bytes) -> None:
    digest = hashlib.sha256(data).digest()
    connection.execute("insert or replace into checksums values (?, ?, ?, ?)", (file, start, len(data), digest))


def forget(connection: sqlite3.Connection, file: str) -> None:
    connection.execute("delete from checksums where file = ?", (file,))


def remember_whole(connection: sqlite3.Connection, folder: Path, file: str, size: int | None = None) -> None:
    """Checksums of what has none of a file's first `size` bytes; of all, where None."""
    size = (folder / file).stat().st_size if size is None else size
    start = covered(connection, file)
    with (folder / file).open("rb") as source:
        source.seek(start)
        while start < size:
            data = source.read(min(PIECE, size - start))
            if not data:
                raise UserError("this file has lost its end", file=folder / file, remedy=VECTORS_REMEDY)
            _remember(connection, file, start, data)
            start += len(data)


def covered(connection: sqlite3.Connection, file: str) -> int:
    """How many bytes of a file have checksums; they are its first."""
    if not has_checksums(connection):
        return 0
    sql = "select coalesce(max(start + bytes), 0) from checksums where file = ?"
    return int(connection.execute(sql, (file,)).fetchone()[0])


def complete(connection: sqlite3.Connection, folder: Path, dim: int) -> None:
    """Checksums for what has none, since an earlier version wrote it; no approximate index that is lost or damaged."""
    for kind, file, slots, ann in connection.execute("select kind, file, slots, ann from kinds").fetchall():
        if slots:
            remember_whole(connection, folder, file, slots * width(file, dim))
        if ann and (not (folder / ann).is_file() or any(damaged(connection, folder, ann))):
            connection.execute("update kinds set ann = null, covered = 0, probes = 0 where kind = ?", (kind,))
            forget(connection, ann)
        elif ann:
            remember_whole(connection, folder, ann)


def damaged(connection: sqlite3.Connection, folder: Path, file: str, after: int = 0) -> Iterator[Damage]:
    """What of a file is not as it was written, from byte `after` on. Nothing is known of bytes without a checksum."""
    sql = "select start, bytes, sha256 from checksums where file = ? and start >= ? order by start"
    rows = connection.execute(sql, (file, after))
    path = folder / file
    for start, size, digest in rows:
        try:
            with path.open("rb") as source:
                source.seek(start)
                data = source.read(size)
        except FileNotFoundError:
            data = b""
        if hashlib.sha256(data).digest() != digest:
            yield Damage(path, start, start + size)


def has_checksums(connection: sqlite3.Connection) -> bool:
    """Whether the index has the table; one made before it was thought of gets it from its next writer."""
    return bool(connection.execute("select 1 from sqlite_master where name = 'checksums'").fetchone())
