"""The SHA-256 of a model folder's weight files, under "sha256" in its config.json.

A file's checksum is taken out before the file is replaced and put in afterwards: a kill in between leaves one that is not
checked, never one that is called damaged. Folders made before checksums have none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vsekit.errors import UserError
from vsekit.files import checksum, write_json

KEY = "sha256"


def remember(folder: Path, *names: str) -> None:
    """Writes the checksums of these files to the config."""
    _change(folder, {name: checksum(folder / name) for name in names})


def forget(folder: Path, *names: str) -> None:
    _change(folder, dict.fromkeys(names))


def check(folder: Path, *names: str, remedy: str) -> None:
    """UserError for a file that is not what was written."""
    known = _config(folder).get(KEY, {})
    if not isinstance(known, dict):
        raise UserError(f"{KEY} names no files", file=folder / "config.json", remedy=remedy)
    for name in names:
        if name in known and checksum(folder / name) != known[name]:
            raise UserError("this file is damaged: it is not what was written", file=folder / name, remedy=remedy)


def _change(folder: Path, changed: dict[str, str | None]) -> None:
    config = _config(folder)
    if not config:
        return
    known = {**config.get(KEY, {}), **changed}
    write_json(folder / "config.json", {**config, KEY: {name: value for name, value in known.items() if value}})


def _config(folder: Path) -> dict[str, Any]:
    if not (folder / "config.json").is_file():  # a querybank by itself
        return {}
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return config
