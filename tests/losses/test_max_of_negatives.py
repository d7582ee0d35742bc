from __future__ import annotations

import pytest
import torch
from torch import Tensor

from vsekit.losses import LossContext
from vsekit.losses.base import negatives
from vsekit.losses.max_of_hinges import max_of_hinges
from vsekit.losses.max_of_negatives import MaxOfNegativesSettings, max_of_negatives

CONTEXT = LossContext(n_groups=10, dim=4)


def loop(s: Tensor, groups: Tensor, tau: float, margin: float, hinge: bool) -> Tensor:
    total = s.sum() * 0
    for b in range(len(s)):
        others = [o for o in range(len(s)) if groups[o] != groups[b]]
        for line in (s[b], s[:, b]) if others else ():
            hardest = max(line[o] for o in others)
            if hinge:
                term = -((line[b] / tau).exp() / ((hardest + margin) / tau).exp()).log()
                total = total + term.clamp(min=0)
            else:
                total = total - ((line[b] / tau).exp() / (hardest / tau).exp()).log()
    return total / len(s)


@pytest.mark.parametrize("hinge", [True, False])
def test_it_is_equations_9_to_14_averaged_over_the_batch(groups, make, agree, hinge):
    inputs = make(groups)
    value, _ = MaxOfNegativesSettings(temperature=0.3, margin=0.25, hinge=hinge).build(CONTEXT)(inputs)
    agree(value, loop(inputs.scores, groups, 0.3, 0.25, hinge), inputs.scores)


def test_convse_plus_plus_is_max_of_hinges_over_batch_and_temperature(groups, make, agree):
    inputs = make(groups, seed=1)
    negative = negatives(groups)
    agree(
        max_of_negatives(inputs.scores, negative, 0.1, 0.2),
        max_of_hinges(inputs.scores, negative, 0.2) / (len(groups) * 0.1),
        inputs.scores,
    )


def test_without_the_hinge_it_falls_below_zero_once_positives_win():
    assert max_of_negatives(torch.eye(4), negatives(torch.arange(4)), 0.1, hinge=False).item() == pytest.approx(-20)
    assert max_of_negatives(torch.eye(4), negatives(torch.arange(4)), 0.1).item() == 0


@pytest.mark.parametrize("hinge", [True, False])
def test_a_collapsed_model_sits_at_the_plateau(hinge):
    loss = MaxOfNegativesSettings(hinge=hinge).build(CONTEXT)
    value = max_of_negatives(torch.ones(8, 8), negatives(torch.arange(8)), hinge=hinge)
    assert value.item() == pytest.approx(loss.plateau(8))
