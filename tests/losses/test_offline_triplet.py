from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from vsekit.losses import LossContext, LossInputs
from vsekit.losses.offline_triplet import OfflineTripletSettings

CONTEXT = LossContext(n_groups=10, dim=4)


def loop(inputs: LossInputs, margin: float, offline_margin: float, online: bool, power: int = 1) -> Tensor:
    s, off, groups = inputs.scores, inputs.offline, inputs.groups
    total = s.sum() * 0
    for b in range(len(s)):
        others = [o for o in range(len(s)) if groups[o] != groups[b]]
        if online and others:
            total = total + (margin - s[b, b] + max(s[b, o] for o in others)).clamp(min=0) ** power
            total = total + (margin - s[b, b] + max(s[o, b] for o in others)).clamp(min=0) ** power
        total = total + (offline_margin - s[b, b] + off.caption[b]).clamp(min=0) ** power
        total = total + (offline_margin - s[b, b] + off.image[b]).clamp(min=0) ** power
    return total


@pytest.mark.parametrize("online", [True, False])
def test_it_is_equation_3_with_or_without_the_online_terms(groups, make, agree, online):
    inputs = make(groups)
    value, _ = OfflineTripletSettings(margin=0.3, offline_margin=0.1, online=online).build(CONTEXT)(inputs)
    agree(value, loop(inputs, 0.3, 0.1, online), inputs.scores, inputs.offline.caption, inputs.offline.image)


def test_squared_terms_are_the_squares_of_equation_3s(groups, make, agree):
    inputs = make(groups)
    value, _ = OfflineTripletSettings(margin=0.3, offline_margin=0.1, squared=True).build(CONTEXT)(inputs)
    agree(value, loop(inputs, 0.3, 0.1, True, power=2), inputs.scores, inputs.offline.caption, inputs.offline.image)


def test_it_says_so_when_there_are_no_offline_scores(make):
    loss = OfflineTripletSettings().build(CONTEXT)
    assert loss.needs_offline
    with pytest.raises(ValueError, match="offline"):
        loss(dataclasses.replace(make(torch.arange(3)), offline=None))
