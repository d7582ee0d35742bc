from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from studies.silence import LEARNED, MEASURED, RESULTS, Asked, curve, learn, measure

from vsekit.search.silence import Signs

PAGE = Path(__file__).parents[2] / "docs" / "search.md"


def asked(best: float, present: bool, match: str = "weak") -> Asked:
    return Asked("coco", "dog", False, present, Signs(best, best, 0.0, 0.0, np.nan, 1.0), match, match == "none")


def test_what_is_learned_tells_present_from_absent_and_keeps_to_its_limit() -> None:
    rng = np.random.default_rng(0)
    some = [asked(float(rng.normal(2 * there, 1)), bool(there)) for there in (0, 1) for _ in range(500)]
    decision = learn(some, limit=0.02)
    found = measure(some, decision)
    assert found["all"]["present"] <= 2.0
    assert found["all"]["absent"] > 30.0  # Φ of (2 % quantile of N(2, 1)) = 0.48
    assert decision.weights[0] > 0
    assert decision.weights[4] == 0.0  # a sign that no query had


def test_a_likely_match_is_never_called_nothing() -> None:
    some = [asked(-5.0, True, "likely"), asked(-5.0, False, "weak"), asked(5.0, True), asked(4.0, False)]
    decision = learn(some * 10, limit=0.0)
    assert measure(some, decision)["all"]["present"] == 0.0


def test_the_curve_rises_with_the_limit() -> None:
    rng = np.random.default_rng(1)
    some = [asked(float(rng.normal(there, 1)), bool(there)) for there in (0, 1) for _ in range(200)]
    points = np.array(curve(some, learn(some)))
    assert (np.diff(points, axis=0) >= 0).all()


def test_subjects_that_are_measured_are_not_learned_from() -> None:
    assert len(MEASURED) >= 20
    assert not MEASURED.keys() & LEARNED.keys()


def test_the_page_shows_the_measured_figures() -> None:
    found, page = json.loads(RESULTS.read_text(encoding="utf-8")), PAGE.read_text(encoding="utf-8")
    for name, row in {**found["rows"], "all": found["all"]}.items():
        cells = " | ".join(f"{row[key]:.1f}" for key in ("present_before", "present", "absent_before", "absent"))
        assert f"{name} |" in page
        assert cells in page, name
    assert found["all"]["present"] == pytest.approx(2.0, abs=2.0)
