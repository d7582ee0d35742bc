from __future__ import annotations

import numpy as np
import pytest

from vsekit.errors import UserError
from vsekit.training.watch import PLATEAU_STEPS, Watch, chance


def test_a_loss_that_is_not_finite_ends_the_run_with_a_remedy() -> None:
    with pytest.raises(UserError, match=r"epoch 3[\s\S]*learning rate"):
        Watch().see(float("nan"), None, "epoch 3")


def plateau(watch: Watch, steps: int) -> None:
    # 51.2 = 2 · 128 · 0.2, where published VSE++ runs get stuck.
    for step in range(steps):
        watch.see(51.2 + 0.01 * (-1) ** step, 51.2, f"step {step + 1}")


def test_the_collapse_plateau_is_reported_once_when_validation_does_not_climb() -> None:
    watch = Watch()
    plateau(watch, 3 * PLATEAU_STEPS)
    warning = watch.judge(10.7, None, chance(300))
    assert warning is not None
    assert "collapsed" in warning
    assert f"step {PLATEAU_STEPS}:" in warning
    plateau(watch, 3 * PLATEAU_STEPS)
    assert watch.judge(10.7, 10.7, chance(300)) is None


def test_nothing_is_said_while_validation_climbs() -> None:
    watch = Watch()
    plateau(watch, 3 * PLATEAU_STEPS)
    assert watch.judge(40.0, None, chance(300)) is None


@pytest.mark.parametrize(
    ("rsum", "best", "warned"),
    [
        (12.0, 11.9, False),  # climbs, if slowly
        (11.0, 12.0, True),  # chance, and no better than before
        (300.0, 301.0, False),  # a good model at rest: its loss may well have the value of the plateau
        (100.0, 300.0, True),  # has lost two thirds of what it knew
        (40.0, 45.0, True),  # little better than chance, and falling
    ],
)
def test_only_a_validation_like_chance_or_a_fall_from_the_best_is_a_collapse(
    rsum: float, best: float, warned: bool
) -> None:
    watch = Watch()
    plateau(watch, PLATEAU_STEPS)
    assert (watch.judge(rsum, best, chance(300)) is not None) == warned


def test_a_plateau_that_is_too_short_is_nothing() -> None:
    watch = Watch()
    plateau(watch, PLATEAU_STEPS - 1)
    assert watch.judge(10.0, 10.0, chance(300)) is None


def test_a_loss_that_moves_through_the_plateau_is_no_collapse() -> None:
    watch = Watch()
    for step in range(300):
        watch.see(60 - 0.1 * step, 51.2, "here")
    assert watch.judge(10.0, 10.0, chance(300)) is None


def test_chance_is_what_random_scores_give() -> None:
    rng, found = np.random.default_rng(0), []
    for _ in range(200):
        ranks = rng.permuted(np.tile(np.arange(50), (50, 1)), axis=1)[:, 0]
        found.append(2 * sum(100 * (ranks < k).mean() for k in (1, 5, 10)))
    assert chance(50) == pytest.approx(64.0)
    assert np.mean(found) == pytest.approx(chance(50), rel=0.05)
    assert chance(4) == pytest.approx(2 * (25 + 100 + 100))
