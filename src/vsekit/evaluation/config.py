"""The settings of a run, config.yaml: written with a checksum in its first line, and read by whoever measures the run."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import yaml

from vsekit.errors import UserError
from vsekit.files import write_text

CONFIG = "config.yaml"
REPAIR = "Start anew in another folder: vse train … --out DIR"
_SEALED = "# sha256 of the lines below: "


def write_config(path: Path, content: dict[str, Any]) -> None:
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    write_text(path, f"{_SEALED}{hashlib.sha256(text.encode()).hexdigest()}\n{text}")


def read_config(path: Path) -> dict[str, Any]:
    """What it says, which a person may have edited. UserError where it can't be read."""
    return _read(path)[1]


def written_config(run: Path) -> tuple[str, dict[str, Any]]:
    """A run's config.yaml as it was written, to be shown, and what it says. UserError where it is another one now; an
    earlier version's has no checksum."""
    path = run / CONFIG
    text, content = _read(path)
    first, _, rest = text.partition("\n")
    if not first.startswith(_SEALED):
        return text, content
    if first != f"{_SEALED}{hashlib.sha256(rest.encode()).hexdigest()}":
        raise UserError("this file is damaged: it is not what was written", file=path, remedy=REPAIR)
    return rest, content


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        content = yaml.safe_load(text)
    except FileNotFoundError:
        raise UserError("this run's settings are missing", file=path, remedy=REPAIR) from None
    except (yaml.YAMLError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise UserError("this run's settings can't be read", file=path, remedy=REPAIR)
    return text, content
