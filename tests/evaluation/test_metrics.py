from __future__ import annotations

import json
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evaluation.loops import expected_metrics
from tests.evaluation.test_ranks import Table

from vsekit.evaluation.metrics import chance_level, metrics, per_query
from vsekit.evaluation.positives import Positives
from vsekit.evaluation.ranks import count_ranks

KS = (1, 2, 3, 5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=2, max_size=6), st.data())
def test_metrics_are_the_mean_over_all_orders_of_equal_scores(row: list[int], data: st.DataObject) -> None:
    right = data.draw(st.sets(st.integers(0, len(row) - 1), min_size=1))
    scores = np.array([row], dtype=np.float32)
    positives = Positives.by_lists({0: sorted(right)}, {0: [0]}, np.arange(1), np.arange(len(row)))
    found = per_query(count_ranks(Table(scores), positives).i2t, KS)
    for name, value in expected_metrics(scores[0], right, KS).items():
        assert found[name][0] == pytest.approx(value), name


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=12), st.data())
def test_optimistic_and_pessimistic_put_right_items_first_and_last_among_equals(
    row: list[int], data: st.DataObject
) -> None:
    right = data.draw(st.sets(st.integers(0, len(row) - 1), min_size=1))
    positives = Positives.by_lists({0: sorted(right)}, {0: [0]}, np.arange(1), np.arange(len(row)))
    scores = np.array([row], dtype=np.float32)
    for ties, sign in (("optimistic", 0.5), ("pessimistic", -0.5)):
        moved = scores[0] + sign * np.isin(np.arange(len(row)), list(right))
        distinct = moved - np.arange(len(row)) * 1e-3  # right items stay together, so their own order doesn't matter
        found = per_query(count_ranks(Table(scores), positives).i2t, KS, ties)
        for name, value in expected_metrics(distinct, right, KS).items():
            assert found[name][0] == pytest.approx(value), (ties, name)


def test_numbers_worked_out_by_hand() -> None:
    # Image 0 finds its captions 0, 1 at places 0 and 2; image 1 finds its captions 2, 3 at places 1 and 2.
    scores = np.array([[9, 5, 7, 1], [8, 1, 7, 6]], dtype=np.float32)
    found = metrics(count_ranks(Table(scores), Positives.by_groups(np.arange(2), np.array([0, 0, 1, 1]))))
    assert found.i2t["r1"] == 50
    assert found.i2t["r5"] == found.i2t["r10"] == 100
    assert found.i2t["medr"] == 1  # floor(median of 0 and 1) + 1
    assert found.i2t["meanr"] == 1.5
    assert found.i2t["rprecision"] == 50  # one of the first two, twice
    assert found.i2t["map_at_r"] == pytest.approx(100 * ((1 / 1) / 2 + (1 / 2) / 2) / 2)
    # Captions 0, 1 and 3 find their image first; caption 2 ties, and its hit at 1 counts half.
    assert found.t2i["r1"] == 100 * (1 + 1 + 0.5 + 1) / 4
    assert found.t2i["meanr"] == 1 + (0 + 0 + 0.5 + 0) / 4
    assert found.rsum == pytest.approx(50 + 100 + 100 + 87.5 + 100 + 100)


def test_a_constant_scorer_gets_the_hypergeometric_chance_level() -> None:
    positives = Positives.by_groups(np.arange(20), np.repeat(np.arange(20), 5))
    found = metrics(count_ranks(Table(np.ones((20, 100))), positives, block=50))
    chance = chance_level(positives)
    for k in (1, 5, 10):
        assert found.i2t[f"r{k}"] == pytest.approx(100 * (1 - comb(95, k) / comb(100, k)))
        assert found.t2i[f"r{k}"] == pytest.approx(100 * k / 20)
    for name in ("r1", "r5", "r10", "map_at_r", "rprecision"):
        assert found.i2t[name] == pytest.approx(chance.i2t[name])
        assert found.t2i[name] == pytest.approx(chance.t2i[name])
    assert found.t2i["meanr"] == chance.t2i["meanr"] == 10.5
    assert found.rsum == pytest.approx(chance.rsum)


def test_chance_level_is_what_random_scores_get_on_average() -> None:
    rng = np.random.default_rng(0)
    positives = Positives.by_groups(np.arange(12), np.repeat(np.arange(12), 3))
    runs = [metrics(count_ranks(Table(rng.random((12, 36))), positives)) for _ in range(300)]
    chance = chance_level(positives)
    for side in ("i2t", "t2i"):
        for name in ("r1", "r5", "r10", "meanr", "map_at_r", "rprecision"):
            values = np.array([getattr(run, side)[name] for run in runs])
            error = values.std() / len(runs) ** 0.5
            assert abs(values.mean() - getattr(chance, side)[name]) < 4 * error, (side, name)
    # The best of 3 right ones among 36 is at or before place 6 with probability 1 − C(33,7)/C(36,7) = 0.488 < ½.
    assert chance.i2t["medr"] == 8


def test_the_dict_has_the_documented_keys_and_survives_json() -> None:
    positives = Positives.by_groups(np.arange(3), np.arange(3))
    found = metrics(count_ranks(Table(np.eye(3)), positives), ks=(1, 2)).to_dict()
    assert json.loads(json.dumps(found)) == found
    assert list(found["i2t"]) == ["r1", "r2", "medr", "meanr", "map_at_r", "rprecision"]
    assert {"i2t", "t2i", "rsum", "protocol", "n_images", "n_captions"} <= set(found)
    assert (found["rsum"], found["n_images"], found["n_captions"]) == (600, 3, 3)


def test_the_table_shows_every_number() -> None:
    positives = Positives.by_groups(np.arange(3), np.arange(3))
    text = "\n".join(metrics(count_ranks(Table(np.eye(3)), positives), ks=(1, 7)).table())
    assert all(word in text for word in ("R@7", "Med r", "mAP@R", "rsum 600.0", "3 images × 3 captions"))
