from __future__ import annotations

import pytest
import torch

from vsekit.losses import LossContext
from vsekit.losses.base import negatives
from vsekit.losses.curriculum import SumToMaxSettings
from vsekit.losses.max_of_hinges import max_of_hinges
from vsekit.losses.sum_of_hinges import sum_of_hinges

CONTEXT = LossContext(n_groups=10, dim=4)
GROUPS = torch.tensor([0, 1, 1, 2, 3])


@pytest.mark.parametrize(("epoch", "switched"), [(0.0, False), (1.99, False), (2.0, True), (7.5, True)])
def test_the_sum_lasts_for_the_given_epochs_and_the_max_follows(make, epoch, switched):
    inputs = make(GROUPS, epoch=epoch)
    loss = SumToMaxSettings(epochs=2, margin=0.3).build(CONTEXT)
    value, logs = loss(inputs)
    expected = (max_of_hinges if switched else sum_of_hinges)(inputs.scores, negatives(GROUPS), 0.3)
    assert value == expected
    assert logs == {"max_of_hinges": float(switched)}
    assert loss.plateau(5) == pytest.approx(2 * 5 * 0.3 * (1 if switched else 4))


def test_no_epochs_is_max_of_hinges_from_the_start(make):
    inputs = make(GROUPS)
    assert SumToMaxSettings(epochs=0).build(CONTEXT)(inputs)[0] == max_of_hinges(inputs.scores, negatives(GROUPS))
