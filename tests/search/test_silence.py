from __future__ import annotations

import math

import numpy as np
import pytest

from vsekit.search.silence import Decision, Signs, learned, signs


def test_signs_are_those_worked_out_by_hand() -> None:
    z = np.array([5.0, 4.0, 1.0])
    found = signs(z, np.log(np.array([0.01, 0.1, 30.0])), usual=0.5, near=0.8, words=3)
    assert found.best == pytest.approx(2.0)
    assert found.crowd == pytest.approx((2 + math.log10(2 / 0.1) + math.log10(3 / 30)) / 3)
    assert found == pytest.approx(Signs(found.best, found.crowd, 4.0, 0.5, 0.8, math.log(4)))


def test_only_the_ten_best_are_looked_at() -> None:
    z = np.linspace(5, 1, 30)
    whole = signs(z, -z, 0.0, 0.0, 1)
    assert whole == signs(z[:10], -z[:10], 0.0, 0.0, 1)
    assert whole.lead == pytest.approx(z[0] - z[9])


def test_a_decision_is_logistic_in_the_signs_and_an_unknown_one_counts_as_its_mean() -> None:
    decision = Decision([1.0] * 6, [2.0] * 6, [1.0, 0, 0, 0, 3.0, 0], bias=0.5, limit=0.6)
    found = Signs(2.0, 0, 0, 0, 1.0, 0)
    assert decision.chance(found) == pytest.approx(1 / (1 + math.exp(-(0.5 + 0.5))))
    assert decision.chance(found._replace(near=math.nan)) == decision.chance(found)
    assert not decision.silent(found)
    assert decision.silent(found._replace(near=0.0))  # 1 / (1 + exp(0.5)) = 0.38


def test_the_decision_that_comes_with_vsekit_listens_to_the_scores() -> None:
    decision = learned()
    usual = Signs(*decision.means)
    chances = [decision.chance(usual._replace(best=best, crowd=best)) for best in (-3.0, 0.0, 3.0)]
    assert chances == sorted(chances)
    assert decision.silent(usual._replace(best=-3.0, crowd=-3.0, usual=-1.0))
    assert not decision.silent(usual._replace(best=3.0, crowd=3.0))
