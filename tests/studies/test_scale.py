from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from studies import scale


def test_the_committed_page_is_the_one_its_results_give() -> None:
    page = scale.render()
    assert page.splitlines() == scale.PAGE.read_text().splitlines()
    assert "{{" not in page


def test_constants_come_from_the_smaller_sizes_alone() -> None:
    """Cost 3 + 2 n, measured at 10 and 20, and nonsense at 40."""
    rows = [{"pictures": n, "captions": 0, "cpu_s": 3.0 + 2 * n} for n in (10, 20)]
    rows.append({"pictures": 40, "captions": 0, "cpu_s": 1e6})
    assert scale.constants(lambda p, c: [1, p], rows, "cpu_s") == pytest.approx([3, 2])
    assert scale.predicted("features", "cpu_s", rows, 1000, 0) == pytest.approx(2003)


def test_a_term_that_measures_below_zero_is_left_out() -> None:
    rows = [{"pictures": 10, "captions": 0, "cpu_s": 20.0}, {"pictures": 20, "captions": 0, "cpu_s": 60.0}]
    solved = scale.constants(lambda p, c: [1, p], rows, "cpu_s")
    assert solved[0] == 0
    # The one constant with the least squares: (10·20 + 20·60) / (10² + 20²)
    assert solved[1] == pytest.approx(2.8)


def test_an_index_costs_its_writing_and_its_building(tmp_path: Path) -> None:
    (tmp_path / "work.json").write_text("{}")
    building = {"cpu_s": 5, "memory_mib": 7, "disk_bytes": 2**21}
    large = {
        "200": {"float16 writing": {"cpu_s": 1}},
        "100": {"float16 writing": {"cpu_s": 3}, "float16 building": building},
    }
    (tmp_path / "large.json").write_text(json.dumps(large))
    assert scale.measured(tmp_path)["index"] == [
        {"pictures": 100, "captions": 0, "cpu_s": 8, "memory_mib": 7, "disk_mib": 2.0}
    ]


def test_building_grows_with_n_and_n_times_its_root() -> None:
    assert scale.WORKS["index"].cpu_s(10_000, 0) == [10_000, 1_000_000]
    rows = [{"pictures": n, "captions": 0, "cpu_s": 2 * n + 3 * n**1.5} for n in (100, 400)]
    assert scale.predicted("index", "cpu_s", rows, 10_000, 0) == pytest.approx(2 * 10_000 + 3 * 1_000_000)
    assert np.isclose(scale.predicted("index", "cpu_s", rows, 400, 0), rows[1]["cpu_s"])
