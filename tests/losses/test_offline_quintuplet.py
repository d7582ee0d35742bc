from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from vsekit.losses import LossContext, LossInputs
from vsekit.losses.offline_quintuplet import OfflineQuintupletSettings
from vsekit.losses.offline_triplet import OfflineTripletSettings

CONTEXT = LossContext(n_groups=10, dim=4)


def test_it_adds_the_two_pairs_without_a_common_element_of_equation_4(groups, make, agree):
    inputs = make(groups)
    value, _ = OfflineQuintupletSettings(margin=0.3, offline_margin=0.1).build(CONTEXT)(inputs)
    slow, _ = OfflineTripletSettings(margin=0.3, offline_margin=0.1).build(CONTEXT)(inputs)
    for b in range(len(groups)):
        for pair in (inputs.offline.both[b], inputs.offline.partners[b]):
            slow = slow + (0.1 - inputs.scores[b, b] + pair).clamp(min=0)
    agree(value, slow, inputs.scores, *dataclasses.astuple(inputs.offline))


def test_squared_every_one_of_the_six_terms_is_its_square(make, agree):
    inputs = make(torch.tensor([0, 1, 1, 2]))
    value, _ = OfflineQuintupletSettings(margin=0.3, offline_margin=0.1, squared=True).build(CONTEXT)(inputs)
    s, off, groups = inputs.scores, inputs.offline, inputs.groups
    slow = s.sum() * 0
    for b in range(4):
        others = [o for o in range(4) if groups[o] != groups[b]]
        slow = slow + (0.3 - s[b, b] + max(s[b, o] for o in others)).clamp(min=0) ** 2
        slow = slow + (0.3 - s[b, b] + max(s[o, b] for o in others)).clamp(min=0) ** 2
        for pair in (off.caption[b], off.image[b], off.both[b], off.partners[b]):
            slow = slow + (0.1 - s[b, b] + pair).clamp(min=0) ** 2
    agree(value, slow, s, *dataclasses.astuple(off))


def online_pairs_loop(inputs: LossInputs, offline_margin: float) -> Tensor:
    s, groups = inputs.scores, inputs.groups
    total = s.sum() * 0
    for b in range(len(s)):
        others = [o for o in range(len(s)) if groups[o] != groups[b]]
        if others:
            caption, image = max(others, key=lambda o: s[b, o].item()), max(others, key=lambda o: s[o, b].item())
            if groups[caption] != groups[image]:
                total = total + (offline_margin - s[b, b] + s[image, caption]).clamp(min=0)
                total = total + (offline_margin - s[b, b] + s[caption, image]).clamp(min=0)
    return total


@pytest.mark.parametrize("seed", range(5))
def test_the_online_quintuplet_builds_the_two_pairs_from_online_negatives(groups, make, agree, seed):
    inputs = make(groups, seed=seed)
    settings = {"margin": 0.3, "offline_margin": 0.1}
    value, _ = OfflineQuintupletSettings(online_quintuplet=True, **settings).build(CONTEXT)(inputs)
    slow = OfflineTripletSettings(**settings).build(CONTEXT)(inputs)[0] + online_pairs_loop(inputs, 0.1)
    agree(value, slow, inputs.scores, inputs.offline.caption, inputs.offline.image)


def test_a_collapsed_model_sits_at_the_plateau(make):
    inputs = make(torch.arange(6))
    ones = torch.ones(6)
    collapsed = dataclasses.replace(
        inputs, scores=torch.ones(6, 6), offline=type(inputs.offline)(ones, ones, ones, ones)
    )
    for settings in (
        OfflineTripletSettings(offline_margin=0.1),
        OfflineTripletSettings(offline_margin=0.1, online=False),
        OfflineQuintupletSettings(offline_margin=0.1),
        OfflineQuintupletSettings(offline_margin=0.1, online=False),
        OfflineTripletSettings(offline_margin=0.1, squared=True),
        OfflineQuintupletSettings(offline_margin=0.1, squared=True),
    ):
        loss = settings.build(CONTEXT)
        assert loss(collapsed)[0].item() == pytest.approx(loss.plateau(6))
