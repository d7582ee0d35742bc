from __future__ import annotations

import httpx
import pytest
from tools.soak import Soak, run


@pytest.mark.slow
def test_a_short_soak_has_no_unexpected_answer() -> None:
    soak = run(minutes=0.15, seed=0)
    assert soak.statuses[200] > 20
    assert soak.indexed >= 1
    assert (soak.unexpected, soak.failed) == ({}, 0)
    assert len(soak.memory) > 10


def test_what_is_not_expected_is_counted_and_named() -> None:
    soak = Soak()
    asked = httpx.Request("GET", "http://127.0.0.1/api/status")
    soak.counted(httpx.Response(200, request=asked), 200)
    soak.counted(httpx.Response(503, request=asked), 200)
    assert soak.statuses == {200: 1, 503: 1}
    assert soak.unexpected == {"GET /api/status: 503": 1}


def test_the_slope_is_that_of_the_second_half() -> None:
    grows = [(float(second), 100.0 + 50 * min(second, 50)) for second in range(50)]
    assert Soak(memory=[*grows, *[(50.0 + i, 2600 + i / 3600) for i in range(50)]]).slope == pytest.approx(
        1.0, abs=1e-6
    )
