from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies.silence import FEWEST, LEARNED, MEASURED, PICTURES, RESULTS, SIZES, Asked, asks, curve, learn, measure

from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.search.silence import Signs

PAGE = Path(__file__).parents[2] / "docs" / "search.md"


def asked(best: float, there: str, match: str = "weak", short: bool = False, size: int = 10) -> Asked:
    signs = Signs(best, 0.0, np.nan, 1.0, np.log10(size))
    return Asked("coco", "dog", short, there, size, signs, match, match == "none")


def some_asked(rng: np.random.Generator, count: int = 500) -> list[Asked]:
    return [asked(float(rng.normal(m, 1)), there) for there, m in (("none", 0), ("one", 2)) for _ in range(count)]


def told(found: dict[str, Any], there: str) -> float:
    return found["rows"]["10"][f"{there}, captions"]["now"]


def test_what_is_learned_tells_one_from_none_and_keeps_to_its_limit() -> None:
    some = some_asked(np.random.default_rng(0))
    decision = learn(some, {False: 0.02, True: 0.05})
    found = measure(some, decision)
    assert told(found, "one") <= 2.0
    assert told(found, "none") > 30.0  # Φ of (2 % quantile of N(2, 1)) = 0.48
    assert decision.weights[0] > 0
    assert decision.weights[2] == 0.0  # a sign that no query had


def test_the_stricter_of_both_limits_counts() -> None:
    rng = np.random.default_rng(2)
    some = some_asked(rng) + [asked(float(rng.normal(1, 1)), "one", short=True) for _ in range(500)]
    limits = [learn(some, {False: a, True: b}).limit for a, b in ((0.02, 0.02), (0.02, 0.2), (0.2, 0.02), (0.2, 0.2))]
    assert limits[0] == limits[2] < limits[3]  # two words score lower here, so that theirs is the stricter
    assert limits[0] < limits[1]


def test_a_size_counts_as_much_as_another_however_many_were_asked() -> None:
    rng = np.random.default_rng(3)
    few = some_asked(rng, 50)
    many = [
        asked(float(rng.normal(m, 1)), there, size=900) for there, m in (("none", 2), ("one", 4)) for _ in range(500)
    ]
    once, twice = learn(few + many), learn(few + many + many)
    slopes = [np.array(found.weights) / found.deviations for found in (once, twice)]
    assert np.allclose(*slopes, rtol=0.05)


def test_a_likely_match_is_never_called_nothing() -> None:
    some = [asked(-5.0, "one", "likely"), asked(-5.0, "none", "weak"), asked(5.0, "one"), asked(4.0, "none")]
    decision = learn(some * 10, {False: 0.0})
    assert told(measure(some, decision), "one") == 0.0


def test_the_curve_rises_with_the_limit() -> None:
    some = some_asked(np.random.default_rng(1), 200)
    points = np.array(curve(some, learn(some)))
    assert points.shape[1] == 2
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
    sizes = [(size, there) for size in SIZES for there in ("one", "none")]
    assert [(one.size, one.there) for one in found] == [(PICTURES, "all"), *sizes] * (dogs + 1)
    for size in SIZES:
        best = {
            there: np.array([x.signs.first for x in found if (x.size, x.there, x.short) == (size, there, False)])
            for there in ("one", "none")
        }
        assert len(best["one"]) == dogs
        # A caption's own picture scores 1 with it, more than any other.
        assert (np.ptp(best["one"]) < 1e-5) == own
        assert not own or (best["one"] > best["none"]).all()


def test_subjects_that_are_measured_are_not_learned_from() -> None:
    assert len(MEASURED) >= 20
    assert not MEASURED.keys() & LEARNED.keys()


def test_the_page_shows_the_measured_figures() -> None:
    found, page = json.loads(RESULTS.read_text(encoding="utf-8")), PAGE.read_text(encoding="utf-8")
    kinds = [f"{there}, {kind}" for there in ("one", "none") for kind in ("captions", "words")]
    for size in SIZES:
        row = found["rows"][str(size)]
        cells = " | ".join(f"{row[kind][key]:.1f}" for kind in kinds for key in ("before", "now"))
        assert f"| {size} | {cells} |" in page
    whole = found["rows"][str(PICTURES)]
    for kind in ("captions", "words"):
        assert f"{whole[f'all, {kind}']['now']:.1f} %" in page


def test_of_queries_with_a_match_at_most_two_in_a_hundred_are_denied_over_all_sizes() -> None:
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
    some = [row[f"one, {kind}"] for row in rows.values() for kind in ("captions", "words") if f"one, {kind}" in row]
    assert sum(one["now"] * one["queries"] for one in some) / sum(one["queries"] for one in some) <= 2.0


def test_the_page_shows_what_other_limits_would_give() -> None:
    curves, page = json.loads(RESULTS.read_text(encoding="utf-8"))["curve"], PAGE.read_text(encoding="utf-8")
    for size in SIZES:
        cells = [max(none for one, none in curves[str(size)] if one <= most) for most in (0.5, 1, 2, 5, 10)]
        assert f"| {size} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |" in page
