from __future__ import annotations

import pytest

from vsekit.errors import UserError
from vsekit.training.watch import PLATEAU_STEPS, Watch


def test_a_loss_that_is_not_finite_ends_the_run_with_a_remedy() -> None:
    with pytest.raises(UserError, match=r"epoch 3[\s\S]*learning rate"):
        Watch().see(float("nan"), None, "epoch 3")


def test_the_collapse_plateau_is_reported_once_it_has_lasted() -> None:
    watch = Watch()
    # 51.2 = 2 · 128 · 0.2, where published VSE++ runs get stuck.
    warnings = [watch.see(51.2 + 0.01 * (-1) ** step, 51.2, "here") for step in range(3 * PLATEAU_STEPS)]
    assert [step for step, warning in enumerate(warnings) if warning] == [PLATEAU_STEPS - 1]
    assert "collapsed" in str(warnings[PLATEAU_STEPS - 1])


def test_a_loss_that_moves_through_the_plateau_is_no_collapse() -> None:
    watch = Watch()
    assert not any(watch.see(60 - 0.1 * step, 51.2, "here") for step in range(300))
