"""Reading the file of a database that SQLite has open in this process.

Closing any descriptor of a file ends all POSIX locks that the process has on it, SQLite's too (https://sqlite.org/howtocorrupt.html,
section 2.2). Another process would then take itself for the last one that has the database open, and remove the log beside it;
this one would go on reading the removed log, and never see a change again. So a descriptor is kept until nobody here has the
database open.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from pathlib import Path

from vsekit import system

PIECE = 2**20
_guard = threading.Lock()
_users: Counter[tuple[int, int]] = Counter()
_kept: dict[tuple[int, int], int] = {}


def enter(status: os.stat_result) -> None:
    """Somebody has opened the database whose file this is."""
    with _guard:
        _users[status.st_dev, status.st_ino] += 1


def leave(status: os.stat_result) -> None:
    """And has closed it."""
    key = status.st_dev, status.st_ino
    with _guard:
        _users[key] -= 1
        if not _users[key]:
            del _users[key]
            if key in _kept:
                os.close(_kept.pop(key))


def checksum(path: Path) -> str:
    """The SHA-256 of the file."""
    digest = hashlib.sha256()
    with _guard:
        status = path.stat()
        key = status.st_dev, status.st_ino
        descriptor = _kept[key] if key in _kept else system.open_to_read(path)
        try:
            os.lseek(descriptor, 0, os.SEEK_SET)
            while piece := os.read(descriptor, PIECE):
                digest.update(piece)
        finally:
            if _users[key]:
                _kept[key] = descriptor
            else:
                os.close(descriptor)
    return digest.hexdigest()
