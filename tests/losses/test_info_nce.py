from __future__ import annotations

from math import exp, log

import pytest
import torch
from torch import Tensor

from vsekit.losses import LossContext
from vsekit.losses.base import negatives
from vsekit.losses.info_nce import InfoNCESettings, info_nce

CONTEXT = LossContext(n_groups=10, dim=4)


def loop(s: Tensor, groups: Tensor, tau: float, with_positive: bool) -> Tensor:
    total = s.sum() * 0
    for b in range(len(s)):
        others = [o for o in range(len(s)) if groups[o] != groups[b]]
        for line in (s[b], s[:, b]):
            sums = [(line[o] / tau).exp() for o in others + [b] * with_positive]
            if sums:
                total = total - ((line[b] / tau).exp() / sum(sums)).log()
    return total / len(s)


@pytest.mark.parametrize("denominator", ["all", "negatives"])
def test_it_is_equation_6_to_8_averaged_over_the_batch(groups, make, agree, denominator):
    inputs = make(groups)
    value, _ = InfoNCESettings(temperature=0.2, denominator=denominator).build(CONTEXT)(inputs)
    agree(value, loop(inputs.scores, groups, 0.2, denominator == "all"), inputs.scores)


def test_by_hand_for_two_pairs():
    scores = torch.tensor([[0.2, 0.1], [0.0, 0.3]])
    by_hand = log(1 + exp(-1)) + log(1 + exp(-3)) + log(1 + exp(-2)) + log(1 + exp(-2))
    assert info_nce(scores, negatives(torch.arange(2)), 0.1).item() == pytest.approx(by_hand / 2)


def test_without_repeats_it_is_torchs_cross_entropy_in_both_directions(make):
    inputs = make(torch.arange(6))
    logits, labels = inputs.scores / 0.1, torch.arange(6)
    both = torch.nn.functional.cross_entropy(logits, labels) + torch.nn.functional.cross_entropy(logits.T, labels)
    torch.testing.assert_close(info_nce(inputs.scores, negatives(inputs.groups), 0.1), both)


def test_another_caption_of_the_same_image_changes_nothing_for_the_anchor(make):
    scores = make(torch.arange(3)).scores.detach().clone()
    before = info_nce(scores, negatives(torch.tensor([0, 0, 1])), 0.1)
    scores[0, 1], scores[1, 0] = 5.0, -5.0
    assert info_nce(scores, negatives(torch.tensor([0, 0, 1])), 0.1) == before
    assert info_nce(scores, negatives(torch.tensor([0, 0, 1]), "diagonal"), 0.1) > before + 1


@pytest.mark.parametrize("denominator", ["all", "negatives"])
def test_a_collapsed_model_sits_at_the_plateau(denominator):
    loss = InfoNCESettings(denominator=denominator).build(CONTEXT)
    value = info_nce(torch.ones(8, 8), negatives(torch.arange(8)), 0.1, denominator)
    assert value.item() == pytest.approx(loss.plateau(8), abs=1e-5)
