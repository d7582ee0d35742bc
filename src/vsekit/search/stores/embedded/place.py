"""The folder of an embedded index: found, or made."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from vsekit.errors import UserError
from vsekit.search.stores.base import UnreachableError
from vsekit.search.stores.embedded.database import DATABASE

#: The index of a folder of pictures, inside it, unless told otherwise; names with a dot are not walked.
INSIDE = ".vsekit-index"


def find(place: Path | str) -> Path:
    """The folder of the index at a place, or of the one inside a folder of pictures."""
    folder = Path(place)
    folder = folder / INSIDE if has_index(folder / INSIDE) else folder
    if not has_index(folder):
        remedy = f"Make one: vse index MODEL FOLDER --out {folder}"
        raise UnreachableError("there is no index here", file=folder, remedy=remedy)
    return folder


def has_index(folder: Path) -> bool:
    """UserError where that can't be seen."""
    try:
        return stat.S_ISREG(os.stat(folder / DATABASE).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UserError(
            f"can't be read: {error.strerror}", file=folder, remedy="Are the folder and its files yours?"
        ) from None


def make(folder: Path) -> None:
    """The folder, where there is none; UserError where something else is."""
    try:
        if folder.exists() and not folder.is_dir():
            raise UserError("this is a file, not a folder", file=folder)
        if not has_index(folder) and folder.exists() and any(folder.iterdir()):
            raise UserError("this folder is not empty and holds no index", file=folder, remedy="Choose another.")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"no index can be made here: {error.strerror}", file=folder, remedy="Name another place with --out."
        ) from None
