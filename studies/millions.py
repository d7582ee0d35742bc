"""The table of docs/stores.md on millions of vectors, from what `benchmarks.large` measured.

python -m benchmarks.large --vectors DIR --size 10000000 --folder DIR --json studies/results/scale/large.json
python -m studies.millions
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from vsekit.files import write_text

RESULTS = Path(__file__).parent / "results" / "scale" / "large.json"
PAGE = Path(__file__).parents[1] / "docs" / "stores.md"
HEAD = "| pictures | | recall@10 | CPU ms, p50 (p95) | build, CPU-s | memory, MiB | disk, MiB |\n|---|---|---|---|---|---|---|\n"
#: Name among the results → what is said of it, with what was measured.
BESIDE = {
    "faiss HNSW32": "faiss HNSW, M 32, ef {efSearch}",
    "faiss IVF, flat": "faiss IVF, flat, {nprobe} lists",
    "faiss IVF, 4-bit PQ": "faiss IVF, 4-bit PQ, nothing scored again",
}


def table(results: dict[str, dict[str, Any]]) -> str:
    """A row for each index that was measured, by rising size."""
    rows = []
    for size, found in sorted(results.items(), key=lambda entry: int(entry[0])):
        rows += [[f"{int(size):,}" if not i else "", *row] for i, row in enumerate(_of_a_size(found))]
    return HEAD + "".join(f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in rows)


def _of_a_size(found: dict[str, Any]) -> list[list[str]]:
    rows = []
    if "float16 searching" in found:
        writing, built = found["float16 writing"], found["float16 building"]
        what = f"embedded, {built['probes']} of {built['lists']:,} lists, {built['depth']:,} scored again"
        cpu = f"{writing['cpu_s']:.0f} writing + {built['cpu_s']:.0f}"
        rows.append(_row(what, cpu, {**built, **found["float16 searching"]}))
    for name, what in BESIDE.items():
        if name in found:
            rows.append(_row(what.format(**found[name]), f"{found[name]['cpu_s']:.0f}", found[name]))
    return rows


def _row(what: str, cpu: str, found: dict[str, Any]) -> list[str]:
    times = f"{found['cpu_ms_p50']:.1f} ({found['cpu_ms_p95']:.1f})"
    return [
        what,
        f"{found['recall@10']:.3f}",
        times,
        cpu,
        f"{found['memory_mib']:,.0f}",
        f"{found['disk_bytes'] / 2**20:,.0f}",
    ]


def render(page: str, results: dict[str, dict[str, Any]]) -> str:
    """The page with the table anew, in the place of the one that it has."""
    old = re.compile(re.escape(HEAD) + r"(\|.*\n)*")
    assert len(old.findall(page)) == 1
    return old.sub(lambda _: table(results), page)


def main() -> None:
    write_text(PAGE, render(PAGE.read_text(), json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
