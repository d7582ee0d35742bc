from __future__ import annotations

from math import cos, exp, floor, log, pi

import pytest
import torch
from torch import Tensor

from vsekit.losses import LossContext
from vsekit.losses.adaptive_objective import AdaptiveObjectiveSettings, adaptive_objective, hardest_count
from vsekit.losses.base import negatives
from vsekit.losses.info_nce import info_nce
from vsekit.losses.max_of_negatives import max_of_negatives

CONTEXT = LossContext(n_groups=10, dim=4)


def loop(s: Tensor, groups: Tensor, tau: float) -> tuple[Tensor, int, float, float]:
    batch = len(s)
    alignment = sum(s[b, b].item() for b in range(batch)) / batch
    uniformity = log(sum(exp(s[a, b].item()) for a in range(batch) for b in range(batch)) / batch**2)
    k = max(1, min(floor(batch * cos((alignment + uniformity) * pi / 4)), batch - 1))
    total = s.sum() * 0
    for b in range(batch):
        for line in (s[b], s[:, b]):
            hardest = sorted((line[o] for o in range(batch) if groups[o] != groups[b]), reverse=True)[:k]
            if hardest:
                total = total - ((line[b] / tau).exp() / sum((x / tau).exp() for x in hardest)).log()
    return total / batch, k, alignment, uniformity


@pytest.mark.parametrize("shift", [0.0, 0.4])
def test_it_is_equations_6_and_7_and_logs_what_figure_c2_draws(groups, make, agree, shift):
    inputs = make(groups)
    with torch.no_grad():
        inputs.scores.mul_(0.5).abs_().add_(shift)
    value, logs = AdaptiveObjectiveSettings(temperature=0.1).build(CONTEXT)(inputs)
    slow, k, alignment, uniformity = loop(inputs.scores, groups, 0.1)
    agree(value, slow, inputs.scores)
    assert logs["k"] == k
    assert (logs["alignment"], logs["uniformity"]) == pytest.approx((alignment, uniformity))


def test_k_falls_from_all_negatives_to_one_as_the_model_matures():
    counts = [hardest_count(maturity / 2, maturity / 2, 128) for maturity in torch.linspace(0, 2, 50).tolist()]
    assert counts == sorted(counts, reverse=True)
    assert (counts[0], counts[-1]) == (127, 1)
    assert hardest_count(0.3, 0.2, 128) == floor(128 * cos(pi / 8)) == 118


def test_k_stays_within_bounds_for_scores_that_are_no_cosines():
    assert hardest_count(-50.0, -2.0, 128) == 127
    assert hardest_count(1.8, 1.7, 128) == 1
    assert hardest_count(0.0, 0.0, 1) == 1


def test_all_negatives_is_info_nce_without_the_positive_and_one_is_max_of_negatives(groups, make, agree):
    inputs = make(groups)
    negative = negatives(groups)
    most = max(len(groups) - 1, 1)
    agree(
        adaptive_objective(inputs.scores, negative, most, 0.1),
        info_nce(inputs.scores, negative, 0.1, "negatives"),
        inputs.scores,
    )
    agree(
        adaptive_objective(inputs.scores, negative, 1, 0.1),
        max_of_negatives(inputs.scores, negative, 0.1, hinge=False),
        inputs.scores,
    )


def published_loop(s: Tensor, tau: float, margin: float) -> tuple[Tensor, int]:
    batch = len(s)
    alignment = sum(s[b, b].item() for b in range(batch)) / batch
    uniformity = sum(exp(-s[a, b].item()) if a != b else 1.0 for a in range(batch) for b in range(batch)) / batch**2
    k = max(1, min(int(cos((alignment + uniformity) ** 1.25) * batch) + 1, batch - 1))
    total = s.sum() * 0
    for b in range(batch):
        for line in (s[b], s[:, b]):
            by_score = sorted(range(batch), key=lambda o: line[o].item() if o != b else 0.0, reverse=True)[:k]
            kept = [line[b]] + [line[o] + margin for o in by_score]
            total = total - ((line[b] / tau).exp() / sum((x / tau).exp() for x in kept)).log()
    return total / (2 * batch), k


def test_the_published_variant_draws_its_own_positive_when_negatives_are_below_zero(make, agree):
    inputs = make(torch.arange(6))
    value, logs = AdaptiveObjectiveSettings(variant="published", temperature=0.1).build(CONTEXT)(inputs)
    slow, k = published_loop(inputs.scores, 0.1, 0.2)
    assert logs["k"] == k
    assert any((row < 0).sum() > 6 - k for row in inputs.scores)
    agree(value, slow, inputs.scores)
