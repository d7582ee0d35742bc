from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from studies.silence import FEWEST, LEARNED, MEASURED, RESULTS, THERE, Asked, asks, curve, learn, measure

from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.search.silence import Signs

PAGE = Path(__file__).parents[2] / "docs" / "search.md"


def asked(best: float, there: str, match: str = "weak") -> Asked:
    return Asked("coco", "dog", False, there, Signs(best, best, 0.0, np.nan, 1.0), match, match == "none")


def test_what_is_learned_tells_present_from_absent_and_keeps_to_its_limit() -> None:
    rng = np.random.default_rng(0)
    some = [asked(float(rng.normal(mean, 1)), there) for there, mean in (("none", 0), ("all", 2)) for _ in range(500)]
    decision = learn(some, limit=0.02)
    found = measure(some, decision)
    assert found["all"]["all"] <= 2.0
    assert found["all"]["none"] > 30.0  # Φ of (2 % quantile of N(2, 1)) = 0.48
    assert decision.weights[0] > 0
    assert decision.weights[3] == 0.0  # a sign that no query had


def test_a_picture_that_is_there_alone_counts_as_an_answer() -> None:
    some = [asked(3.0, "all")] * 10 + [asked(1.0, "one")] * 10 + [asked(0.0, "none")] * 10
    found = measure(some, learn(some, limit=0.0))["all"]
    assert (found["all"], found["one"]) == (0.0, 0.0)
    assert found["none"] == 100.0


def test_a_likely_match_is_never_called_nothing() -> None:
    some = [asked(-5.0, "all", "likely"), asked(-5.0, "none", "weak"), asked(5.0, "all"), asked(4.0, "none")]
    decision = learn(some * 10, limit=0.0)
    assert measure(some, decision)["all"]["all"] == 0.0


def test_the_curve_rises_with_the_limit() -> None:
    rng = np.random.default_rng(1)
    some = [asked(float(rng.normal(k, 1)), there) for k, there in enumerate(reversed(THERE)) for _ in range(200)]
    points = np.array(curve(some, learn(some)))
    assert points.shape[1] == len(THERE)
    assert (np.diff(points, axis=0) >= 0).all()


class _Model:
    """Pictures and sentences are what their numbers say; no querybank."""

    dim, has_bank, bank, folder, name, fingerprint = 4, False, None, None, "stub", "stub"

    def __init__(self, said: dict[str, np.ndarray]) -> None:
        self.said = said

    def encode_texts(self, texts: list[str]) -> np.ndarray:
        rng = np.random.default_rng(0)
        return np.array([self.said.get(text, rng.normal(size=4) / 3) for text in texts], np.float32)

    def words(self, text: str) -> list[str]:
        return text.split()


@pytest.mark.parametrize("own", [True, False])
def test_the_pictures_of_a_subject_are_there_or_one_of_them_or_none(own: bool) -> None:
    """The first FEWEST + 1 pictures show dogs. Each has a caption of its own direction; what is found best says who is there."""
    n, dogs = 40, FEWEST + 1
    rng = np.random.default_rng(1)
    images = rng.normal(size=(n, 4)).astype(np.float32)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    texts = [f"dog {i}" if i < dogs else f"thing {i}" for i in range(n)]
    pairs = Pairs(
        [Picture(str(i), None, "val", str(i)) for i in range(n)],
        [Caption(text, i) for i, text in enumerate(texts)],
        Path("x"),
    )
    said = {text: images[i] for i, text in enumerate(texts)} | {"a dog": images[0]}
    model: Any = _Model(said)
    found = asks("coco", model, pairs, images, {"dog": "a dog"}, own=own)
    assert [one.there for one in found] == list(THERE) * (dogs + 1)
    centre = SimpleNamespace(all=[], one=[], none=[])
    for one in found:
        if not one.short:
            getattr(centre, one.there).append(one.signs.first)
    # A caption's own picture scores 1 with it, more than any other.
    best_of_all = np.array(centre.all)
    if own:
        assert np.ptp(best_of_all) < 1e-5
        assert (best_of_all > np.array(centre.none)).all()
    else:
        assert np.ptp(best_of_all) > 1e-3
    assert (np.array(centre.one) >= np.array(centre.none) - 1e-6).all()


def test_subjects_that_are_measured_are_not_learned_from() -> None:
    assert len(MEASURED) >= 20
    assert not MEASURED.keys() & LEARNED.keys()


def test_the_page_shows_the_measured_figures() -> None:
    found, page = json.loads(RESULTS.read_text(encoding="utf-8")), PAGE.read_text(encoding="utf-8")
    for name, row in {**found["rows"], "all": found["all"]}.items():
        cells = " | ".join(f"{row[key]:.1f}" for there in THERE for key in (f"{there}_before", there))
        assert f"{name} |" in page
        assert cells in page, name
    assert found["all"]["all"] <= 2.0


def test_the_page_shows_points_of_the_curve() -> None:
    points = [[f"{share:.1f}" for share in point] for point in json.loads(RESULTS.read_text(encoding="utf-8"))["curve"]]
    page = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [next(line for line in page if line.startswith(f"| {there} there |")) for there in THERE]
    shown = list(zip(*([cell.strip() for cell in row.split("|")[2:-1]] for row in rows), strict=True))
    assert len(shown) > 5
    assert all(list(point) in points for point in shown)
