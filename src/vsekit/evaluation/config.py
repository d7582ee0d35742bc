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
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError("this run's settings are missing", file=path, remedy=REPAIR) from None
    except (yaml.YAMLError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise UserError("this run's settings can't be read", file=path, remedy=REPAIR)
    return content


def config_text(run: Path) -> str:
    """A run's config.yaml, to be shown. UserError where it is not what was written; an earlier version's has no checksum."""
    path = run / CONFIG
    read_config(path)
    text = path.read_text(encoding="utf-8")
    first, _, rest = text.partition("\n")
    if not first.startswith(_SEALED):
        return text
    if first != f"{_SEALED}{hashlib.sha256(rest.encode()).hexdigest()}":
        raise UserError("this file is damaged: it is not what was written", file=path, remedy=REPAIR)
    return rest
