"""The map of the rooms is one: what lint keeps is what CONTRIBUTING shows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_contributing_shows_the_rooms_in_the_order_that_lint_keeps() -> None:
    (contract,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    kept = [{room.strip(" ()") for room in re.split("[:|]", layer)} for layer in contract["layers"]]
    table = re.findall(r"^\| (`.+`) \|", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
    shown = [set(re.findall(r"`(\w+)`", row)) for row in table]
    shared = {
        "parts",
        "outside",
        "seals",
        "files",
        "progress",
        "memory",
        "threads",
        "errors",
        "system",
        "version",
    }  # several layers, one row
    assert shown[-1] == shared
    assert shown[:-1] == [rooms for rooms in kept if not rooms <= shared | {"__main__"}]
