from __future__ import annotations

from pathlib import Path

import pytest
from tests.training.conftest import TINY

from vsekit.data.readers import read
from vsekit.parts import merged
from vsekit.training.loop import train
from vsekit.training.run import read_metrics
from vsekit.training.settings import RunSettings


def test_tensorboard_files_hold_what_metrics_jsonl_holds(collection: Path, tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="needs 'tensorboard'")
    settings = RunSettings.model_validate(merged(TINY, {"stages": {"second": None}}))
    train(settings, read(collection), tmp_path / "run", tensorboard=True)
    board = events.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    board.Reload()
    lines = read_metrics(tmp_path / "run")
    losses = [line["loss"] for line in lines if line["event"] == "train"]
    assert [event.value for event in board.Scalars("train/loss")] == pytest.approx(losses, rel=1e-6)
    recalls = [line["i2t"]["r1"] for line in lines if line["event"] == "validation"]
    assert [event.value for event in board.Scalars("validation/i2t/r1")] == pytest.approx(recalls, rel=1e-6)
