from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from tests.evaluation.test_ranks import Table

from vsekit.errors import UserError
from vsekit.evaluation.metrics import Metrics, metrics
from vsekit.evaluation.positives import Positives
from vsekit.evaluation.protocols import average
from vsekit.evaluation.ranks import count_ranks
from vsekit.evaluation.significance import _Medians, compare, confidence, over_seeds

N = 60
GROUPS = np.arange(N), np.repeat(np.arange(N), 3)
POSITIVES = Positives.by_groups(*GROUPS)


def run(seed: int, signal: float = 1.5) -> Metrics:
    noise = np.random.default_rng(seed).standard_normal((N, 3 * N))
    return metrics(count_ranks(Table(noise + signal * (GROUPS[0][:, None] == GROUPS[1])), POSITIVES))


def test_intervals_are_those_of_resampling_images_with_their_captions() -> None:
    found = run(0)
    ci = confidence(found, resamples=2000)
    ranks = found.ranks[0]
    rng = np.random.default_rng(9)
    rank_of_image, rank_of_caption = ranks.i2t.above.reshape(N, 3).min(1), ranks.t2i.above.reshape(N, 3)
    drawn = []
    for _ in range(2000):
        sample = rng.integers(0, N, N)
        i2t, t2i = rank_of_image[sample], rank_of_caption[sample].ravel()
        rsum = sum(100 * ((x < k).mean()) for x in (i2t, t2i) for k in (1, 5, 10))
        drawn.append(
            [100 * (i2t < 1).mean(), 100 * (t2i < 5).mean(), t2i.mean() + 1, np.floor(np.median(t2i)) + 1, rsum]
        )
    expected = np.quantile(drawn, [0.025, 0.975], axis=0).T
    mine = [ci["i2t"]["r1"], ci["t2i"]["r5"], ci["t2i"]["meanr"], ci["t2i"]["medr"], ci["rsum"]]
    spread = np.std(drawn, axis=0)
    for name, (low, high), theirs, s in zip(("r1", "r5", "meanr", "medr", "rsum"), mine, expected, spread):
        assert abs(low - theirs[0]) <= 0.35 * s + 1e-9, name
        assert abs(high - theirs[1]) <= 0.35 * s + 1e-9, name


@pytest.mark.parametrize("drawn", ["as a bootstrap draws", "mostly the best ranks"])
def test_medians_of_resamples_are_those_of_the_repeated_ranks(drawn: str) -> None:
    """Drawn so that the median leaves the neighbourhood of the old one, all ranks must be looked at."""
    rng = np.random.default_rng(0)
    n, sizes = 2000, rng.integers(0, 4, 2000)
    clusters = np.repeat(np.arange(n), sizes)
    ranks = rng.integers(0, 300, len(clusters)) / 2
    queries = SimpleNamespace(values={"t2i": {"rank": ranks}}, clusters={"t2i": clusters}, n_clusters=n)
    weights = np.stack([np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(5)]).astype(float)
    if drawn != "as a bootstrap draws":
        weights[3, np.unique(clusters[ranks < 20])] = 50
    medians = _Medians(queries, "t2i")
    assert medians.near[1] - medians.near[0] < len(ranks) / 3
    expected = [np.floor(np.median(np.repeat(ranks, row[clusters].astype(int)))) + 1 for row in weights]
    np.testing.assert_array_equal(medians(weights), expected)
    assert drawn == "as a bootstrap draws" or abs(expected[3] - expected[0]) > 40


def test_intervals_hold_every_metric_and_the_number_itself_and_shrink_over_folds() -> None:
    found = run(1)
    ci = confidence(found, resamples=400)
    assert set(ci["i2t"]) == set(found.i2t)
    for side in ("i2t", "t2i"):
        for name, (low, high) in ci[side].items():
            assert low <= getattr(found, side)[name] <= high, name
    folds = confidence(average([run(s) for s in range(1, 6)]), resamples=400)
    assert np.diff(folds["rsum"])[0] < 0.7 * np.diff(ci["rsum"])[0]


def test_equal_runs_differ_by_nothing_with_p_1_and_better_ones_with_a_small_p() -> None:
    same = compare(run(0), run(0), permutations=200)
    assert same["rsum"] == {"difference": 0, "p": 1, "ci": [0, 0]}
    better = compare(run(0, 0.5), run(0, 3.0), permutations=500)
    assert better["rsum"]["p"] == pytest.approx(1 / 501)
    assert better["rsum"]["difference"] == pytest.approx(run(0, 3.0).rsum - run(0, 0.5).rsum)
    assert better["i2t"]["r1"]["difference"] == pytest.approx(run(0, 3.0).i2t["r1"] - run(0, 0.5).i2t["r1"])
    assert better["t2i"]["meanr"]["difference"] < 0
    low, high = better["rsum"]["ci"]
    assert 0 < low < better["rsum"]["difference"] < high


def test_the_paired_test_keeps_its_level_when_runs_are_equally_good() -> None:
    p = [compare(run(2 * s), run(2 * s + 1), permutations=200, resamples=10)["rsum"]["p"] for s in range(60)]
    assert np.mean(np.array(p) < 0.1) < 0.25  # 0.1 expected; 0.25 has a probability below 1e-3
    assert np.mean(p) == pytest.approx(0.5, abs=0.15)


def test_runs_on_different_queries_are_not_compared() -> None:
    other = Positives.by_groups(GROUPS[0], GROUPS[1][::-1])
    stranger = metrics(count_ranks(Table(np.zeros((N, 3 * N))), other))
    with pytest.raises(UserError, match="same queries"):
        compare(run(0), stranger)
    with pytest.raises(UserError, match="same queries"):
        compare(run(0), dataclasses.replace(run(0), protocol="5k"))


def test_spread_over_seeds_is_the_sample_standard_deviation() -> None:
    runs = [run(s) for s in range(3)]
    values = [r.rsum for r in runs]
    assert over_seeds(runs)["rsum"] == pytest.approx({"mean": np.mean(values), "std": np.std(values, ddof=1)})
    with pytest.raises(UserError, match="at least two"):
        over_seeds(runs[:1])
