from __future__ import annotations

import pytest
import torch
from torch import Tensor

from vsekit.losses import LossContext
from vsekit.losses.base import negatives
from vsekit.losses.max_of_hinges import MaxOfHingesSettings, max_of_hinges

CONTEXT = LossContext(n_groups=10, dim=4)


def loop(s: Tensor, groups: Tensor, margin: float) -> Tensor:
    total = s.sum() * 0
    for b in range(len(s)):
        others = [o for o in range(len(s)) if groups[b] != groups[o]]
        for costs in ([margin + s[b, o] - s[b, b] for o in others], [margin + s[o, b] - s[b, b] for o in others]):
            total = total + max([c.clamp(min=0) for c in costs], default=0)
    return total


def test_it_is_equation_6_summed_over_the_batch(groups, make, agree):
    inputs = make(groups)
    value, _ = MaxOfHingesSettings(margin=0.3).build(CONTEXT)(inputs)
    agree(value, loop(inputs.scores, groups, 0.3), inputs.scores)


def test_by_hand_for_three_pairs_with_one_image_twice():
    scores = torch.tensor([[0.5, 0.9, 0.4], [0.9, 0.5, 0.6], [0.2, 0.1, 0.7]])
    # Rows 1 and 2 are one image; .9 is a caption of its own and no negative.
    # images: .2 + .4 − .5 = .1, .2 + .6 − .5 = .3, .2 + .2 − .7 → 0; captions: .2 + .2 − .5 → 0, 0, .2 + .6 − .7 = .1
    assert max_of_hinges(scores, negatives(torch.tensor([0, 0, 1])), 0.2).item() == pytest.approx(0.5)


def test_the_winner_takes_all_the_gradient_even_in_a_tie():
    scores = torch.zeros(3, 3, requires_grad=True)
    max_of_hinges(scores, negatives(torch.arange(3)), 0.2).backward()
    off_diagonal = scores.grad[~torch.eye(3, dtype=torch.bool)]
    assert off_diagonal.sum() == 6
    assert set(off_diagonal.tolist()) <= {0.0, 1.0, 2.0}


def test_a_collapsed_model_sits_at_two_margins_a_pair():
    loss = MaxOfHingesSettings(margin=0.2).build(CONTEXT)
    for groups in (torch.arange(128), torch.arange(128) // 2):
        assert max_of_hinges(torch.ones(128, 128), negatives(groups), 0.2).item() == pytest.approx(51.2)
    assert loss.plateau(128) == pytest.approx(51.2)


def test_gradients_pass_gradcheck(make):
    inputs = make(torch.tensor([0, 1, 1, 2]))
    assert torch.autograd.gradcheck(lambda s: max_of_hinges(s, negatives(inputs.groups), 0.2), inputs.scores)
