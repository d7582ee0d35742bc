from __future__ import annotations

import pytest
import torch
from torch import Tensor

from vsekit.losses import LossContext
from vsekit.losses.base import negatives
from vsekit.losses.sum_of_hinges import SumOfHingesSettings, sum_of_hinges

CONTEXT = LossContext(n_groups=10, dim=4)


def loop(s: Tensor, groups: Tensor, margin: float) -> Tensor:
    total = s.sum() * 0
    for b in range(len(s)):
        for other in range(len(s)):
            if groups[b] != groups[other]:
                total = total + (margin - s[b, b] + s[b, other]).clamp(min=0)
                total = total + (margin - s[b, b] + s[other, b]).clamp(min=0)
    return total


def test_it_is_equation_5_summed_over_the_batch(groups, make, agree):
    inputs = make(groups)
    value, _ = SumOfHingesSettings(margin=0.3).build(CONTEXT)(inputs)
    agree(value, loop(inputs.scores, groups, 0.3), inputs.scores)


def test_by_hand_for_two_pairs():
    scores = torch.tensor([[0.5, 0.6], [0.1, 0.3]])
    # image 1: [.2 − .5 + .6] = .3; image 2: [.2 − .3 + .1] = 0; caption 1: 0; caption 2: [.2 − .3 + .6] = .5
    assert sum_of_hinges(scores, ~torch.eye(2, dtype=torch.bool), 0.2).item() == pytest.approx(0.8)


def test_the_diagonal_mask_takes_another_caption_of_the_same_image_for_a_negative(make):
    inputs = make(torch.tensor([5, 5]))
    assert SumOfHingesSettings().build(CONTEXT)(inputs)[0] == 0
    diagonal = SumOfHingesSettings(margin=2.5, mask="diagonal").build(CONTEXT)(inputs)[0]
    torch.testing.assert_close(diagonal, loop(inputs.scores, torch.tensor([0, 1]), 2.5))
    assert diagonal > 0


def test_a_collapsed_model_sits_at_the_plateau():
    loss = SumOfHingesSettings(margin=0.2).build(CONTEXT)
    value = sum_of_hinges(torch.ones(8, 8), negatives(torch.arange(8)), 0.2)
    assert value.item() == pytest.approx(loss.plateau(8)) == pytest.approx(2 * 8 * 7 * 0.2)
