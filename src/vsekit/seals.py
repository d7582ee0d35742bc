"""Checksums, so that a file that is not what was written is noticed before it gives a wrong answer.

A sealed JSON file holds under "sha256", beside the name of each file it vouches for, that file's SHA-256; beside its own
name, one of all else it says. What was written before there were seals has none, and is read as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vsekit.errors import UserError
from vsekit.files import checksum, write_json

KEY = "sha256"
#: Bytes of a file that are read to check it when it is opened; of a larger array only the length is looked at.
CHECKED = 2**30
_DAMAGED = "this file is damaged: it is not what was written"


def write_sealed(path: Path, value: Mapping[str, Any], sums: Mapping[str, str] | None = None) -> None:
    """Writes JSON that vouches for itself and for other files of its folder. sums: see `sums_of`."""
    plain = {name: one for name, one in value.items() if name != KEY}
    others = dict(sums or {})
    write_json(path, {**plain, KEY: {path.name: _digest({**plain, KEY: others}), **others}})


def sums_of(folder: Path, files: Iterable[Path]) -> dict[str, str]:
    """The checksum of each file, by its path below the folder."""
    return {file.relative_to(folder).as_posix(): checksum(file) for file in files}


def read_sealed(path: Path, remedy: str) -> dict[str, Any]:
    """What a sealed file says; under "sha256" the checksums of other files, if any. UserError where it is damaged."""
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UserError(f"this file is damaged: {error}", file=path, remedy=remedy) from None
    if not isinstance(value, dict):
        raise UserError("this file is damaged: it holds no object", file=path, remedy=remedy)
    sums = value.pop(KEY, {})
    if not isinstance(sums, dict) or not all(isinstance(one, str) for one in sums.values()):
        raise UserError(_DAMAGED, file=path, remedy=remedy)
    own = sums.pop(path.name, None)
    if own not in (None, _digest({**value, KEY: sums})):
        raise UserError(_DAMAGED, file=path, remedy=remedy)
    return {**value, KEY: sums} if sums else value


def check_files(folder: Path, sums: Mapping[str, str], remedy: str, most: float = float("inf")) -> None:
    """UserError for the first of the vouched-for files that is gone or damaged. most: larger files only have to be there."""
    for name, expected in sums.items():
        path = folder / name
        try:
            same = path.stat().st_size > most or checksum(path) == expected
        except FileNotFoundError:
            raise UserError("this file is missing", file=path, remedy=remedy) from None
        if not same:
            raise UserError(_DAMAGED, file=path, remedy=remedy)


def _digest(value: Any) -> str:
    written = json.loads(json.dumps(value))  # keys are strings there
    return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()
