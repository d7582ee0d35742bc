from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.training.conftest import TINY
from torch import nn

from vsekit.data.readers import read
from vsekit.models.model import load_model
from vsekit.parts import merged
from vsekit.training.average import MovingAverage
from vsekit.training.checkpoint import newest_checkpoint
from vsekit.training.loop import train
from vsekit.training.settings import RunSettings

ONE_STAGE = {"stages": {"second": None, "first": {"epochs": 2}}}


def trained(collection: Path, out: Path, change: dict[str, Any]) -> RunSettings:
    settings = RunSettings.model_validate(merged(merged(TINY, ONE_STAGE), change))
    train(settings, read(collection), out)
    return settings


def test_the_average_is_that_of_a_slow_loop_over_all_weights_so_far() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    average = MovingAverage(model, decay=0.5)
    expected = {name: value.double().clone() for name, value in model.state_dict().items()}
    for step in range(20):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        model(torch.randn(4, 3))  # moves the running statistics
        decay = min(0.5, (1 + step) / (10 + step))
        for name, value in model.state_dict().items():
            expected[name] = decay * expected[name] + (1 - decay) * value.double()
        average.update()
    now = {name: value.clone() for name, value in model.state_dict().items()}
    with average.in_place():
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                torch.testing.assert_close(value.double(), expected[name], rtol=1e-5, atol=1e-6)
                assert not torch.equal(value, now[name])
    for name, value in model.state_dict().items():
        assert torch.equal(value, now[name])


def test_what_is_frozen_is_not_kept_twice() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    assert set(MovingAverage(model, 0.9).state_dict()) == {"1/weight", "1/bias", "steps"}


def test_the_average_is_kept_and_training_goes_on_as_without_it(collection: Path, tmp_path: Path) -> None:
    trained(collection, tmp_path / "plain", {})
    trained(collection, tmp_path / "average", {"stages": {"first": {"average": 0.9, "validate_every": 2}}})
    ends = {}
    for name in ("plain", "average"):
        checkpoint = newest_checkpoint(tmp_path / name / "state")
        assert checkpoint is not None
        ends[name] = load_file(checkpoint / "weights.safetensors")
    for name, value in ends["plain"].items():
        assert torch.equal(value, ends["average"][name]), name
    kept = load_model(tmp_path / "average").state_dict()
    averages = {n[len("average.") :].replace("/", "."): v for n, v in ends["average"].items() if "/" in n}
    assert averages
    for name, value in averages.items():
        assert torch.equal(kept[name], value), name
    assert any(not torch.equal(kept[name], ends["average"][f"model.{name}"]) for name in averages)


@pytest.mark.parametrize("decay", [0.0, 1.0, -0.5])
def test_a_decay_that_is_none_is_refused(decay: float) -> None:
    with pytest.raises(ValueError, match="average"):
        RunSettings.model_validate(merged(TINY, {"stages": {"first": {"average": decay}}}))
