from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from vsekit.losses import LossContext, LossInputs, OfflineScores
from vsekit.losses.adaptive_offline_quintuplet import AdaptiveOfflineQuintupletSettings

CONTEXT = LossContext(n_groups=10, dim=4)
ALPHA, BETA, GAMMA_1, GAMMA_2 = 0.3, 1.5, 0.2, 0.0


def loop(inputs: LossInputs, detach: bool = False, clamp: bool = False, offline_adaptive: bool = True) -> Tensor:
    s, off, groups = inputs.scores, inputs.offline, inputs.groups
    total = s.sum() * 0
    for b in range(len(s)):
        others = [o for o in range(len(s)) if groups[o] != groups[b]]
        for line, reference in ((s[b], off.caption[b]), (s[:, b], off.image[b])):
            if others:
                online = max(line[o] for o in others)
                weight = BETA - ((reference if offline_adaptive else s[b, b]) - online) / ALPHA
                weight = weight.clamp(min=0) if clamp else weight
                weight = weight.detach() if detach else weight
                total = total + weight * (GAMMA_1 - s[b, b] + online).clamp(min=0)
        for pair in (off.caption[b], off.image[b], off.both[b], off.partners[b]):
            total = total + (GAMMA_2 - s[b, b] + pair).clamp(min=0)
    return total


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, {}),
        ({"detach_weight": True}, {"detach": True}),
        ({"clamp_weight": True}, {"clamp": True}),
        ({"offline_adaptive": False}, {"offline_adaptive": False}),
    ],
)
def test_it_is_equation_5_and_its_options_are_what_they_say(groups, make, agree, settings, options):
    inputs = make(groups)
    value, _ = AdaptiveOfflineQuintupletSettings(**settings).build(CONTEXT)(inputs)
    agree(value, loop(inputs, **options), inputs.scores, *dataclasses.astuple(inputs.offline))


@pytest.mark.parametrize("seed", range(8))
def test_its_gradients_are_equation_6(make, seed):
    # Two pairs; the caption anchors' online hinges are kept silent by low image negatives, so line 1 of Eq. 5 is left.
    torch.manual_seed(seed)
    positive, on, off, both = torch.rand(4, dtype=torch.float64).tolist()
    scores = torch.tensor([[positive, on], [-9.0, 9.0]], dtype=torch.float64, requires_grad=True)
    low = torch.full((2,), -9.0, dtype=torch.float64)
    caption = torch.tensor([off, -9.0], dtype=torch.float64, requires_grad=True)
    offline = OfflineScores(caption, low, torch.tensor([both, -9.0], dtype=torch.float64), low)
    inputs = dataclasses.replace(make(torch.arange(2)), scores=scores, offline=offline)
    AdaptiveOfflineQuintupletSettings().build(CONTEXT)(inputs)[0].backward()

    online_on = float(GAMMA_1 - positive + on > 0)
    offline_on, both_on = float(GAMMA_2 - positive + off > 0), float(GAMMA_2 - positive + both > 0)
    by_positive = ((off - on) / ALPHA - BETA) * online_on - offline_on - both_on
    by_offline = ((positive - on) / ALPHA - GAMMA_1 / ALPHA) * online_on + offline_on
    by_online = ((2 * on - positive - off) / ALPHA + BETA + GAMMA_1 / ALPHA) * online_on
    assert scores.grad[0, 0].item() == pytest.approx(by_positive)
    assert caption.grad[0].item() == pytest.approx(by_offline)
    assert scores.grad[0, 1].item() == pytest.approx(by_online)


def test_a_collapsed_model_sits_at_the_plateau(make):
    ones = torch.ones(6)
    offline = OfflineScores(ones, ones, ones, ones)
    collapsed = dataclasses.replace(make(torch.arange(6)), scores=torch.ones(6, 6), offline=offline)
    loss = AdaptiveOfflineQuintupletSettings(offline_margin=0.1).build(CONTEXT)
    value, logs = loss(collapsed)
    assert value.item() == pytest.approx(loss.plateau(6))
    assert logs["weight"].item() == pytest.approx(1.5)
