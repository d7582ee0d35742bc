from __future__ import annotations

import json

from studies import millions


def test_the_committed_table_is_the_one_its_results_give() -> None:
    page = millions.PAGE.read_text()
    assert millions.render(page, json.loads(millions.RESULTS.read_text())) == page


def test_a_size_has_a_row_for_each_index_and_nothing_unmeasured() -> None:
    search = {"recall@10": 0.9951, "cpu_ms_p50": 4.04, "cpu_ms_p95": 6.26, "memory_mib": 20.4}
    found = {
        "float16 writing": {"cpu_s": 52.9},
        "float16 building": {
            "cpu_s": 114.5,
            "probes": 52,
            "depth": 2048,
            "lists": 1732,
            "disk_bytes": 3 * 2**20,
            "memory_mib": 9,
        },
        "float16 searching": search,
        "faiss IVF, flat": {**search, "cpu_s": 10.2, "nprobe": 60, "disk_bytes": 2**30},
    }
    lines = millions.table({"3000000": found, "20": {"faiss HNSW32": {**found["faiss IVF, flat"], "efSearch": 128}}})
    assert lines.splitlines()[2:] == [
        "| 20 | faiss HNSW, M 32, ef 128 | 0.995 | 4.0 (6.3) | 10 | 20 | 1,024 |",
        "| 3,000,000 | embedded, 52 of 1,732 lists, 2,048 scored again | 0.995 | 4.0 (6.3) | 53 writing + 114 | 20 | 3 |",
        "| | faiss IVF, flat, 60 lists | 0.995 | 4.0 (6.3) | 10 | 20 | 1,024 |",
    ]
