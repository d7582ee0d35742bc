"""Runs the benchmarks named on the command line, or all, and prints their rows.

python -m benchmarks [NAME …] [--scale 0.1] [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from vsekit.memory import keep_freed_memory

NAMES = (
    *(
        "training",
        "processes",
        "bulk",
        "chunks",
        "tails",
        "threads",
        "gru",
        "losses",
        "offline",
        "pooling",
        "aggregators",
        "similarity",
        "evaluation",
        "features",
    ),
    *("memory", "indexing", "stores", "search", "duplicates", "serving"),
    "export",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--scale", type=float, default=1.0, help="shrink the work for a quick look")
    parser.add_argument("--json", type=Path, help="also write all rows to this file")
    options = parser.parse_args()
    keep_freed_memory()  # as every vse command does
    names = options.names or NAMES
    everything: dict[str, Any] = {"machine": platform.processor() or platform.machine(), "scale": options.scale}
    for name in names:
        everything[name] = _rows(name, options.scale) if len(names) == 1 else _in_a_process(name, options.scale)
    if options.json:
        options.json.write_text(json.dumps(everything, indent=2, default=str) + "\n")


def _rows(name: str, scale: float) -> list[dict[str, Any]]:
    print(f"\n{name}", flush=True)
    rows: list[dict[str, Any]] = importlib.import_module(f"benchmarks.{name}").run(scale)
    for row in rows:
        details = ", ".join(
            f"{key} {_short(value)}" for key, value in row.items() if key != "name" and value is not None
        )
        print(f"  {row['name']}: {details}", flush=True)
    return rows


def _in_a_process(name: str, scale: float) -> Any:
    """A process of its own, so that one benchmark's memory is not another's peak."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "rows.json"
        command = [sys.executable, "-m", "benchmarks", name, "--scale", str(scale), "--json", str(result)]
        subprocess.run(command, check=True)
        return json.loads(result.read_text())[name]


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
