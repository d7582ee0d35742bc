"""Attacks of tests/attack at full size, and their counts in docs/reliability.json.

    python -m tools.attack requests --count 10000 --seed 1
    python -m tools.attack damage --count 1000 --seed 1
    python -m tools.attack kills --count 300
    python -m tools.attack disk_full --count 200

A failure prints the seed and the moment that repeat it, and ends with exit code 1; the counts are written all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tools.reliability import ROOT, commit, record

#: By the key in reliability.json: the file of tests, and how many are tried unless told.
ATTACKS = {
    "requests": ("test_requests.py", 10_000),
    "damage": ("test_damage.py", 1000),
    "kills": ("test_kills.py", 300),
    "disk_full": ("test_full_disk.py", 200),
}


def counted(folder: Path) -> dict[str, Any]:
    """The counts that the tests wrote into a folder, added up."""
    tried: Counter[str] = Counter()
    failed = 0
    for path in sorted(folder.glob("*.json")):
        counts = json.loads(path.read_text(encoding="utf-8"))
        tried.update(counts["tried"])
        failed += counts["failed"]
    return {"tried": tried.total(), **dict(sorted(tried.items())), "failed": failed}


def attack(name: str, count: int, seed: int, only: str | None) -> tuple[int, dict[str, Any]]:
    """Runs one attack; pytest's exit code, and what was tried."""
    with tempfile.TemporaryDirectory() as out:
        given = {"COUNT": str(count), "SEED": str(seed), "OUT": out}
        environment = {**os.environ, **{f"VSEKIT_ATTACK_{key}": value for key, value in given.items()}}
        chosen = ["-k", only] if only else []
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            f"tests/attack/{ATTACKS[name][0]}",
            *chosen,
        ]
        code = subprocess.run(command, cwd=ROOT, env=environment).returncode
        return code, counted(Path(out))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.attack", description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=ATTACKS)
    parser.add_argument("--count", type=int, help="so many in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="tests whose name has this in it, as pytest -k; nothing is written")
    given = parser.parse_args()
    code, found = attack(given.name, given.count or ATTACKS[given.name][1], given.seed, given.only)
    found |= {"seed": given.seed, "commit": commit()}
    print(json.dumps({given.name: found}))
    if not given.only:
        record(given.name, found)
    return code


if __name__ == "__main__":
    sys.exit(main())
