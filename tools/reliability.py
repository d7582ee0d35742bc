"""docs/reliability.md, made of the promises (tools/promises.py) and of the counts of the last full runs
(docs/reliability.json): python -m tools.reliability."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tools.promises import PROMISES, Promise
from vsekit.files import write_json

ROOT = Path(__file__).parents[1]
PAGE, RESULTS = ROOT / "docs" / "reliability.md", ROOT / "docs" / "reliability.json"

#: By the key in reliability.json: what was tried, and the command that does it again.
RUNS = {
    "damage": ("files truncated, zeroed or with bits flipped", "python -m tools.attack damage"),
    "kills": ("kills of commands that write", "python -m tools.attack kills"),
    "disk_full": ("writes onto a full disk, or beyond a limit on files", "python -m tools.attack disk_full"),
    "requests": ("generated requests", "python -m tools.attack requests"),
    "soak": ("requests of mixed traffic while the index is written", "make soak"),
}

HEAD = """# Reliability

What vsekit promises when files, disks, processes, networks and clients fail, each beside the tests (below `tests/`) that keep
it. All are part of `make test-all`; those in `attack/` try a share there, and as many as the table below says with the commands
in it. Seeds are printed with every failure and repeat it (`VSEKIT_ATTACK_SEED=`). How to report a weakness:
[SECURITY.md](../SECURITY.md). This page is made by `python -m tools.reliability`.
"""


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()


def results() -> dict[str, Any]:
    """By attack: tried, failed, seed, commit, counts by what came of it; and a note where somebody wrote one."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}


def record(name: str, found: dict[str, Any]) -> None:
    """Writes the counts of one run, and the page."""
    write_json(RESULTS, {**results(), name: found})
    PAGE.write_text(page(results()), encoding="utf-8")


def _kept_by(promise: Promise) -> str:
    files: dict[str, list[str]] = {}
    for test in promise.tests:
        file, _, name = test.partition("::")
        files.setdefault(file, []).append(name)
    return "; ".join(f"`{file}`: {', '.join(f'`{name}`' for name in names)}" for file, names in files.items())


def _soak(found: dict[str, Any]) -> str:
    statuses = ", ".join(f"{count:,} × {status}" for status, count in found["statuses"].items())
    unexpected = sum(found["unexpected"].values())
    return (
        f"In {found['minutes']:g} minutes {statuses}; {unexpected} unexpected answers; indexed {found['indexed']} times, "
        f"{found['failed']} commands failed; {found['mib']:,} MiB at the end, {found['mib_an_hour']:+.1f} MiB an hour"
    )


def _tried(name: str, found: dict[str, Any]) -> str:
    if name == "soak":
        return _soak(found)
    kinds = {kind: n for kind, n in found.items() if kind not in ("tried", "failed", "seed", "commit", "note")}
    counts = [f"{n:,} {kind}" for kind, n in kinds.items() if len(kinds) > 1]
    failed = found["failed"]
    said = "no failure" if not failed else "1 failure" if failed == 1 else f"{failed:,} failures"
    return "; ".join([*counts, said]) + (f": {found['note']}" if "note" in found else "")


def page(results: dict[str, Any]) -> str:
    lines = [HEAD]
    for section in dict.fromkeys(promise.section for promise in PROMISES):
        lines += [f"## {section}", "| promise | kept by |", "|---|---|"]
        lines += [f"| {p.text} | {_kept_by(p)} |" for p in PROMISES if p.section == section]
        lines.append("")
    lines += ["## The last full runs", "| tried | | what came of it | seed, commit | again |", "|---|---|---|---|---|"]
    for name, (what, command) in RUNS.items():
        if found := results.get(name):
            count = found["requests"] if name == "soak" else found["tried"]
            made = f"{found['seed']}, {found['commit']}"
            lines.append(f"| {count:,} | {what} | {_tried(name, found)} | {made} | `{command}` |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(results()), encoding="utf-8")
