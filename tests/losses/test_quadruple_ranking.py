from __future__ import annotations

import pytest
import torch
from torch import Tensor

from vsekit.losses import LossContext
from vsekit.losses.base import negatives
from vsekit.losses.max_of_hinges import max_of_hinges
from vsekit.losses.quadruple_ranking import QuadrupleRankingSettings, draw_negatives, quadruple_ranking

CONTEXT = LossContext(n_groups=10, dim=4)


def loop(s: Tensor, drawn: Tensor, margin: float) -> Tensor:
    total = s.sum() * 0
    for a, pool in enumerate(drawn.tolist()):
        pool = [n for n in pool if n >= 0]
        if pool:
            total = total + (margin - (s[a, a] - max(s[a, n] for n in pool))).clamp(min=0)
            total = total + (margin - (s[a, a] - max(s[n, a] for n in pool))).clamp(min=0)
    return total / len(s)


@pytest.mark.parametrize("pool", [1, 2, 10])
def test_it_is_equation_4_averaged_over_the_batch(groups, make, agree, pool):
    inputs = make(groups)
    torch.manual_seed(3)
    value, _ = QuadrupleRankingSettings(margin=0.4, pool=pool).build(CONTEXT)(inputs)
    torch.manual_seed(3)
    drawn = draw_negatives(negatives(groups), pool)
    agree(value, loop(inputs.scores, drawn, 0.4), inputs.scores)


def test_negatives_are_drawn_evenly_without_repeats_and_never_from_the_own_group():
    groups = torch.tensor([0, 0, 1, 2, 3])
    counts = torch.zeros(5, 5)
    torch.manual_seed(0)
    for _ in range(600):
        drawn = draw_negatives(negatives(groups), 2)
        assert (drawn[:, 0] != drawn[:, 1]).all()
        counts.scatter_add_(1, drawn, torch.ones(5, 2))
    assert counts[groups[:, None] == groups].eq(0).all()
    expected = 1200 / negatives(groups).sum(dim=1)
    assert ((counts - expected[:, None]).abs()[negatives(groups)] < 100).all()


def test_a_pool_of_the_whole_batch_is_max_of_hinges_over_the_batch_size(groups, make, agree):
    inputs = make(groups)
    negative = negatives(groups)
    whole = quadruple_ranking(inputs.scores, draw_negatives(negative, 100), 0.2)
    agree(whole, max_of_hinges(inputs.scores, negative, 0.2) / len(groups), inputs.scores)


@pytest.mark.parametrize("pool", [2, 10])
def test_a_random_image_negative_is_the_first_pair_drawn(groups, make, agree, pool):
    inputs = make(groups)
    torch.manual_seed(3)
    value, _ = QuadrupleRankingSettings(margin=0.4, pool=pool, image_negative="random").build(CONTEXT)(inputs)
    torch.manual_seed(3)
    s, total = inputs.scores, inputs.scores.sum() * 0
    for a, drawn in enumerate(draw_negatives(negatives(groups), pool).tolist()):
        captions = [s[a, n] for n in drawn if n >= 0]
        if captions:
            total = total + (0.4 - (s[a, a] - max(captions))).clamp(min=0)
            total = total + (0.4 - (s[a, a] - s[drawn[0], a])).clamp(min=0)
    agree(value, total / len(groups), inputs.scores)


def test_the_first_pair_drawn_is_any_negative_with_the_same_chance():
    torch.manual_seed(0)
    first = torch.stack([draw_negatives(negatives(torch.arange(5)), 4)[0, 0] for _ in range(1000)])
    counts = first.bincount(minlength=5)
    assert counts[0] == 0
    assert ((counts[1:] - 250).abs() < 60).all()


def test_the_published_weight_of_two_on_sixteen_anchors_over_a_batch_of_thirty_two_is_one_mean():
    torch.manual_seed(0)
    scores = torch.randn(16, 16, dtype=torch.float64)
    drawn = draw_negatives(negatives(torch.arange(16)), 1)
    anchors = [
        (1 - scores[a, a] + scores[a, n]).clamp(min=0) + (1 - scores[a, a] + scores[n, a]).clamp(min=0)
        for a, (n,) in enumerate(drawn.tolist())
    ]
    torch.testing.assert_close(2 * sum(anchors) / 32, quadruple_ranking(scores, drawn))


def test_a_collapsed_model_sits_at_the_plateau():
    drawn = draw_negatives(negatives(torch.arange(8)), 1)
    assert quadruple_ranking(torch.ones(8, 8), drawn).item() == QuadrupleRankingSettings().build(CONTEXT).plateau(8)
