"""The SHA-256 of a model folder's weight files and of its tokenizer's, in its config.json (`seals`).

A file's checksum is taken out before the file is replaced and put in afterwards: a kill in between leaves one that is not
checked, never one that is called damaged. Folders made before checksums have none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vsekit.errors import UserError
from vsekit.files import checksum
from vsekit.seals import KEY, check_files, read_sealed, write_sealed

CONFIG = "config.json"


def remember(folder: Path, *names: str) -> None:
    """Writes the checksums of these files to the config."""
    _change(folder, {name: checksum(folder / name) for name in names})


def forget(folder: Path, *names: str) -> None:
    _change(folder, dict.fromkeys(names))


def forget_all(folder: Path) -> None:
    """Before a model is replaced."""
    _change(folder, None)


def check(folder: Path, *names: str, remedy: str) -> None:
    """UserError for a file that is gone, or not what was written; of these, or of all that have a checksum."""
    known = _config(folder, remedy).get(KEY, {})
    check_files(folder, {name: known[name] for name in names or known if name in known}, remedy)


def _change(folder: Path, changed: dict[str, str | None] | None) -> None:
    try:
        config = _config(folder, "")
    except UserError:  # its writer is about to replace it
        return
    if not config:
        return
    known = {} if changed is None else {**config.get(KEY, {}), **changed}
    write_sealed(folder / CONFIG, config, {name: value for name, value in known.items() if value})


def _config(folder: Path, remedy: str) -> dict[str, Any]:
    if not (folder / CONFIG).is_file():  # a querybank by itself
        return {}
    return read_sealed(folder / CONFIG, remedy)
