"""Finding duplicates in 100,000 pictures, beside the plain products of all their vectors: CPU time and memory.

Generated vectors of 256 as in `benchmarks.stores`, one picture in twenty with a copy beside it. There are no files, so what is
measured is all but the looking at pairs, which costs two pictures' decoding each at most.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.stores import DIM, cones, items
from vsekit.search.duplicates import find_duplicates
from vsekit.search.stores.embedded import EmbeddedStore

COUNT, TWICE = 100_000, 20


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    count = max(1000, int(COUNT * scale))
    vectors, _ = cones(count, 1)
    vectors[1::TWICE] = vectors[: len(vectors[1::TWICE]) * TWICE : TWICE]
    started = time.process_time()
    block = vectors[:1024]
    for at in range(0, count, 1024):
        block @ vectors[at : at + 1024].T
    plain = (time.process_time() - started) * count / 1024 / 2
    with tempfile.TemporaryDirectory() as folder, EmbeddedStore(Path(folder) / "index", DIM) as store:
        store.write(items(count), vectors)
        before = _peak()
        started = time.process_time()
        groups = find_duplicates(store)
        seconds = time.process_time() - started
    found = sum(len(group.items) for group in groups)
    row = {"pictures": count, "in groups": found, "expected": 2 * len(vectors[1::TWICE])}
    return [
        {"name": "find", **row, "CPU s": seconds, "products alone, CPU s": plain, "more MB": (_peak() - before) / 1e6}
    ]


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
