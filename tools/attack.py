"""Attacks of tests/attack at full size, and their counts in docs/reliability.json.

    python -m tools.attack damage --count 1000 --seed 1
    python -m tools.attack kills --count 300
    python -m tools.attack disk_full --count 200
    python -m tools.attack requests --count 10000

Stopped, it goes on with --go-on: what is counted in .attack/NAME is not tried again. A failure prints the seed and the moment
that repeat it, and ends with exit code 1; the counts are written all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tools.reliability import ROOT, commit, record

#: By the key in reliability.json: the file of tests, and how many are tried unless told.
ATTACKS = {
    "damage": ("test_damage.py", 1000),
    "kills": ("test_kills.py", 300),
    "disk_full": ("test_full_disk.py", 200),
    "requests": ("test_requests.py", 10_000),
}


def folder_of(name: str) -> Path:
    """Where the tests of an attack leave their counts, one file each."""
    return ROOT / ".attack" / name


def read(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def counted(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The counts of the tests, added up. commit: what was attacked, several where it was gone on with later."""
    tried: Counter[str] = Counter()
    for part in parts:
        tried.update(part["tried"])
    return {
        "tried": tried.total(),
        **dict(sorted(tried.items())),
        "failed": sum(part["failed"] for part in parts),
        "seed": parts[0]["seed"] if parts else None,
        "commit": ", ".join(sorted({part["commit"] for part in parts})),
    }


def attack(name: str, count: int, seed: int, only: str | None, go_on: bool) -> int:
    """Runs one attack; pytest's exit code."""
    file, folder = f"tests/attack/{ATTACKS[name][0]}", folder_of(name)
    if not go_on:
        shutil.rmtree(folder, ignore_errors=True)
    done = [part["name"] for part in read(folder) if part["seed"] == seed and not part["failed"]]
    given = {"COUNT": str(count), "SEED": str(seed), "OUT": str(folder), "COMMIT": commit()}
    environment = {**os.environ, **{f"VSEKIT_ATTACK_{key}": value for key, value in given.items()}}
    chosen = [*(["-k", only] if only else []), *(f"--deselect={file}::test_{one}" for one in done)]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", file, *chosen]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.attack", description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=ATTACKS)
    parser.add_argument("--count", type=int, help="so many in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="tests whose name has this in it, as pytest -k")
    parser.add_argument("--go-on", action="store_true", help="without what was counted before")
    given = parser.parse_args()
    try:
        return attack(given.name, given.count or ATTACKS[given.name][1], given.seed, given.only, given.go_on)
    finally:  # stopped by hand, too
        found = counted(read(folder_of(given.name)))
        print(json.dumps({given.name: found}))
        record(given.name, found)


if __name__ == "__main__":
    sys.exit(main())
