from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from studies.claims import by_picture, difference, epochs_to, mean_curve, overtaking, seed_variance


def result(rng: np.random.Generator, skill: float, rsum: float | None = None) -> dict[str, Any]:
    """Ranks of 200 pictures and their five captions; the larger the skill, the smaller the ranks."""
    answer: dict[str, Any] = {}
    for way, n in (("i2t", 200), ("t2i", 1000)):
        ranks = np.minimum(rng.exponential(30 / skill, n), 255).astype(np.uint8)
        answer[way] = {"ranks": ranks.tobytes().hex()}
    answer["rsum"] = rsum if rsum is not None else float(by_picture([answer]).mean())
    return answer


def test_what_pictures_add_is_the_rsum() -> None:
    one = result(np.random.default_rng(0), 1.0)
    i2t, t2i = (np.frombuffer(bytes.fromhex(one[way]["ranks"]), np.uint8) for way in ("i2t", "t2i"))
    expected = sum(100 * float((ranks < k).mean()) for ranks in (i2t, t2i) for k in (1, 5, 10))
    assert by_picture([one]).mean() == pytest.approx(expected)


def test_a_large_difference_holds_and_its_opposite_does_not() -> None:
    rng = np.random.default_rng(1)
    good, bad = ([result(rng, skill) for _ in range(3)] for skill in (3.0, 1.0))
    pooled = seed_variance([good, bad])
    better, worse = difference([(1, good), (-1, bad)], pooled), difference([(1, bad), (-1, good)], pooled)
    assert (better.verdict, worse.verdict) == ("holds", "does not")
    assert better.value == pytest.approx(-worse.value)
    assert better.low < better.value < better.high
    assert better.seeds == (3, 3)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(100):
        a, b = ([result(rng, 1.0) for _ in range(3)] for _ in range(2))
        found = difference([(1, a), (-1, b)], 0.0)
        covered += found.low <= 0 <= found.high
    assert covered >= 90


def test_one_seed_takes_the_variance_of_the_others() -> None:
    rng = np.random.default_rng(3)
    a, b = [result(rng, 1.0)], [result(rng, 1.0)]
    narrow, wide = (difference([(1, a), (-1, b)], pooled) for pooled in (0.0, 100.0))
    assert wide.high - wide.low > narrow.high - narrow.low


def test_the_interval_seed_by_seed_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(4)
    covered = wrong = 0
    for _ in range(200):
        luck = rng.normal(0, 5, 3)
        ranks = result(rng, 1.0)
        a, b = ([ranks | {"seed": s, "rsum": luck[s] + rng.normal(0, 1)} for s in range(3)] for _ in range(2))
        found = difference([(1, a), (-1, b)], 0.0, by_seed=True)
        covered += found.low <= 0 <= found.high
        wrong += found.low <= 8 <= found.high
    assert covered >= 180
    assert wrong <= 100


def test_seeds_are_matched_by_their_number_not_by_their_place() -> None:
    ranks = result(np.random.default_rng(5), 1.0)
    a = [ranks | {"seed": s, "rsum": rsum} for s, rsum in ((0, 10.0), (1, 20.0), (2, 31.0))]
    b = [ranks | {"seed": s, "rsum": rsum} for s, rsum in ((2, 27.0), (0, 5.0), (1, 14.0))]
    found = difference([(1, a), (-1, b)], 0.0, by_seed=True)
    assert found.high - found.value == pytest.approx(4.302653 / 3**0.5, abs=1e-5)


def test_pooled_variance_is_worked_out_by_hand() -> None:
    several = [[{"rsum": 1.0}, {"rsum": 3.0}], [{"rsum": 5.0}, {"rsum": 5.0}, {"rsum": 8.0}], [{"rsum": 9.0}]]
    assert seed_variance(several) == pytest.approx((2.0 + 6.0) / 3)
    assert np.isnan(seed_variance([[{"rsum": 1.0}]]))


def test_curves_overtake_for_good_or_not_at_all() -> None:
    assert overtaking([1, 5, 9, 9], [0, 6, 8, 10]) == 4
    assert overtaking([1, 5], [2, 6]) == 1
    assert overtaking([1, 5], [2, 4]) is None
    assert epochs_to([1, 4, 9], 4) == 2
    assert epochs_to([1, 4], 5) is None
    curves = [{"curve": [{"rsum": 1.0}, {"rsum": 2.0}]}, {"curve": [{"rsum": 3.0}, {"rsum": 6.0}, {"rsum": 7.0}]}]
    assert mean_curve(curves) == [2.0, 4.0]
