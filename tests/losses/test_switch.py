from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pydantic import TypeAdapter

from vsekit.losses import LossContext, LossSettings
from vsekit.losses.base import OfflineScores, negatives
from vsekit.losses.info_nce import InfoNCESettings
from vsekit.losses.max_of_hinges import max_of_hinges
from vsekit.losses.sum_of_hinges import SumOfHingesSettings, sum_of_hinges

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


@pytest.mark.parametrize(("epoch", "switched"), [(0.0, False), (1.99, False), (2.0, True), (7.5, True)])
def test_sum_to_max_is_the_sum_for_the_given_epochs_and_the_max_from_then_on(make, epoch, switched):
    inputs = make(GROUPS, epoch=epoch)
    loss = SETTINGS.validate_python({"kind": "sum_to_max", "epochs": 2, "margin": 0.3}).build(CONTEXT)
    value, logs = loss(inputs)
    expected = (max_of_hinges if switched else sum_of_hinges)(inputs.scores, negatives(GROUPS), 0.3)
    assert value == expected
    assert logs == {"switched": float(switched)}
    assert loss.plateau(4) == pytest.approx(2 * 4 * 0.3 * (1 if switched else 3))


def test_sum_to_max_without_epochs_is_max_of_hinges_from_the_start_and_its_mask_reaches_both(make):
    inputs = make(GROUPS)
    settings = SETTINGS.validate_python({"kind": "sum_to_max", "epochs": 0, "mask": "diagonal"})
    assert settings.build(CONTEXT)(inputs)[0] == max_of_hinges(inputs.scores, negatives(GROUPS, "diagonal"))
    later = SETTINGS.validate_python({"kind": "sum_to_max", "epochs": 1, "mask": "diagonal"})
    assert later.build(CONTEXT)(inputs)[0] == sum_of_hinges(inputs.scores, negatives(GROUPS, "diagonal"))


def test_saved_settings_of_sum_to_max_read_back_as_they_were_written():
    saved = {"kind": "sum_to_max", "margin": 0.2, "mask": "group", "epochs": 1.0}
    assert SETTINGS.dump_python(SETTINGS.validate_python("sum_to_max")) == saved
    assert SETTINGS.dump_python(SETTINGS.validate_python(saved)) == saved
