from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pydantic import TypeAdapter

from vsekit.losses import LossContext, LossSettings
from vsekit.losses.base import OfflineScores
from vsekit.losses.info_nce import InfoNCESettings
from vsekit.losses.sum_of_hinges import SumOfHingesSettings

SETTINGS = TypeAdapter(LossSettings)
CONTEXT = LossContext(n_groups=5, dim=4)
GROUPS = torch.tensor([0, 1, 1, 4])


def test_it_is_the_first_loss_before_the_switch_and_the_other_after(make):
    loss = SETTINGS.validate_python(
        {"kind": "switch", "epochs": 1.5, "first": "sum_of_hinges", "then": "info_nce"}
    ).build(CONTEXT)
    inputs = make(GROUPS)
    for epoch, settings in ((0.0, SumOfHingesSettings()), (1.49, SumOfHingesSettings()), (1.5, InfoNCESettings())):
        expected = settings.build(CONTEXT)
        value, logs = loss(replace(inputs, epoch=epoch))
        torch.testing.assert_close(value, expected(inputs)[0])
        assert logs["switched"] == float(epoch >= 1.5)
        assert loss.plateau(4) == expected.plateau(4)


def test_what_either_loss_needs_it_needs():
    loss = SETTINGS.validate_python(
        {"kind": "switch", "first": "mvn", "then": {"kind": "weighted_sum", "terms": [{"loss": "offline_quintuplet"}]}}
    ).build(CONTEXT)
    assert (loss.needs_offline, loss.needs_symmetric, loss.needs_vectors) == (True, True, False)


@pytest.mark.parametrize("epoch", [0.0, 2.0])
def test_offline_negatives_reach_the_second_loss(make, epoch):
    inputs = make(GROUPS)
    scores = torch.zeros(4, dtype=inputs.scores.dtype)
    inputs = replace(inputs, epoch=epoch, offline=OfflineScores(scores, scores, scores, scores))
    loss = SETTINGS.validate_python({"kind": "switch", "first": "sum_of_hinges", "then": "adaptive_offline_quintuplet"})
    value, _ = loss.build(CONTEXT)(inputs)
    assert torch.isfinite(value)
