from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.conftest import TINY

from vsekit.data.readers import read
from vsekit.errors import UserError
from vsekit.losses.base import LossContext
from vsekit.losses.instance import InstanceSettings
from vsekit.losses.weighted_sum import Term, WeightedSumSettings
from vsekit.parts import merged
from vsekit.training.loop import train
from vsekit.training.losses import carry_over
from vsekit.training.settings import RunSettings

CONTEXT = LossContext(n_groups=5, dim=4)


def test_a_classifier_goes_on_from_one_stage_to_the_next_also_into_a_sum() -> None:
    first = InstanceSettings().build(CONTEXT)
    second = WeightedSumSettings(terms=[Term(loss="max_of_hinges"), Term(loss="instance")]).build(CONTEXT)
    carry_over(first, second)
    assert torch.equal(second.losses["instance"].weight, first.weight)


def test_a_classifier_of_another_size_starts_anew() -> None:
    first, second = InstanceSettings().build(CONTEXT), InstanceSettings().build(LossContext(n_groups=6, dim=4))
    before = second.weight.clone()
    carry_over(first, second)
    carry_over(None, second)
    assert torch.equal(second.weight, before)


def settings(stage: dict[str, Any], **change: Any) -> RunSettings:
    return RunSettings.model_validate(merged(TINY, {"stages": {"first": stage, "second": None}, **change}))


@pytest.mark.parametrize(
    "loss",
    [
        {"kind": "instance"},
        {"kind": "instance", "classes": "sampled", "samples": 4},
        {"kind": "instance", "pseudo_classes": 5},
        {
            "kind": "weighted_sum",
            "terms": [{"loss": "quadruple_ranking"}, {"loss": {"kind": "instance", "classes": "sampled"}}],
        },
    ],
)
def test_losses_with_a_classifier_train(loss: dict[str, Any], collection: Path, tmp_path: Path) -> None:
    end = train(settings({"epochs": 2, "loss": loss}), read(collection), tmp_path / "run")
    assert end["best"]["rsum"] > 0


def test_an_instance_loss_on_sets_is_refused_with_the_reason(collection: Path, tmp_path: Path) -> None:
    sets = {"similarity": "scan", "image": {"pooling": "none"}, "text": {"pooling": "none"}}
    with pytest.raises(UserError, match="single vectors"):
        train(settings({"loss": "instance"}, model=sets), read(collection), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_mvn_with_order_similarity_is_refused_with_the_reason(collection: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="tells the two sides apart"):
        train(settings({"loss": "mvn"}, model={"similarity": "order"}), read(collection), tmp_path / "run")


def test_a_loss_with_offline_negatives_asks_for_mining(collection: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="mine:"):
        train(settings({"loss": "offline_triplet"}), read(collection), tmp_path / "run")
