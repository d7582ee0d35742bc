"""The checksum of an embedded index's database, in seal.json while nobody writes.

SQLite notices a file that is no database; a changed number in a row is a number to it. So a writer that closes writes down
the SHA-256 of index.db, and who opens the index compares. Whoever changes the database breaks the seal first: after a kill
there is none, and one that an earlier version of vsekit has written past, by its number of writes, counts for nothing.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from vsekit import system
from vsekit.errors import UserError
from vsekit.seals import CHECKED, KEY, read_sealed, write_sealed
from vsekit.search.stores.base import UnreachableError
from vsekit.search.stores.embedded.beside import checksum
from vsekit.search.stores.embedded.database import DATABASE, Database

SEAL = "seal.json"


def put(folder: Path, database: Database, lock: Path) -> None:
    """For the one writer, who has done. lock: of who builds approximate indexes, and changes the database too."""
    with suppress(OSError), system.locked(lock):  # a full disk, or somebody builds: it stays unsealed
        if database.settled():
            generation = database.about("generation")
            write_sealed(folder / SEAL, {"generation": generation}, {DATABASE: checksum(folder / DATABASE)})


def remove(folder: Path) -> None:
    (folder / SEAL).unlink(missing_ok=True)


def check(folder: Path, database: Database) -> bool:
    """UserError where the database is not what was written; False where that is not known."""
    seal = _read(folder)
    if seal is None or (folder / DATABASE).stat().st_size > CHECKED:
        return False
    if checksum(folder / DATABASE) == seal[KEY][DATABASE]:
        return True
    if _read(folder) != seal or _newer(database, seal):  # somebody writes
        return False
    raise UnreachableError(
        "this index is damaged: it is not what was written",
        file=folder / DATABASE,
        remedy=f"Remove the folder {folder} and index the pictures again.",
    )


def _read(folder: Path) -> dict[str, Any] | None:
    """None where there is none, or a damaged one, which says nothing of the database."""
    try:
        found = read_sealed(folder / SEAL, "")
    except (FileNotFoundError, UserError):
        return None
    return found if DATABASE in found.get(KEY, {}) else None


def _newer(database: Database, seal: dict[str, Any]) -> bool:
    try:
        return int(database.about("generation") or "") > int(seal["generation"])
    except (ValueError, KeyError):
        return False
