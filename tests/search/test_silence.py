from __future__ import annotations

import math

import pytest

from vsekit.search.silence import Decision, Signs, learned, signs


def test_signs_are_those_worked_out_by_hand() -> None:
    found = signs(5.0, 100, usual=0.5, known=0.8, words=3)
    assert found == pytest.approx(Signs(first=5.0, usual=0.5, known=0.8, words=math.log(4), size=2.0))


def test_a_decision_is_logistic_in_the_signs_and_an_unknown_one_counts_as_its_mean() -> None:
    decision = Decision([1.0] * 5, [2.0] * 5, [1.0, 0, 3.0, 0, 0], bias=0.5, limit=0.6)
    found = Signs(2.0, 0, 1.0, 0, 0)
    assert decision.chance(found) == pytest.approx(1 / (1 + math.exp(-(0.5 + 0.5))))
    assert decision.chance(found._replace(known=math.nan)) == decision.chance(found)
    assert not decision.silent(found)
    assert decision.silent(found._replace(known=0.0))  # 1 / (1 + exp(0.5)) = 0.38


def test_the_decision_that_comes_with_vsekit_listens_to_the_scores() -> None:
    decision = learned()
    usual = Signs(*decision.means)
    chances = [decision.chance(usual._replace(first=score)) for score in (0.0, 2.0, 4.0)]
    assert chances == sorted(chances)
    assert decision.silent(usual._replace(first=1.0))
    assert not decision.silent(usual._replace(first=5.0))
    # Words that score high with the pictures that were learned from should do so here; and so should the best of many.
    assert decision.chance(usual._replace(known=2.0)) < decision.chance(usual._replace(known=-2.0))
    assert decision.chance(usual._replace(size=3.0)) < decision.chance(usual._replace(size=1.0))
