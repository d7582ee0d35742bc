"""The number of threads is chosen once a run: the bits of its sums depend on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.training.conftest import TINY

from vsekit import threads
from vsekit.data.readers import read
from vsekit.progress import Progress
from vsekit.training.loop import Trainer, train
from vsekit.training.settings import RunSettings


def test_a_run_goes_on_with_the_threads_it_began_with(
    collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    used, validate = [], Trainer._validate

    def stop_once(self: Trainer, *where: object) -> None:
        used.append(torch.get_num_threads())
        if len(used) == 2:
            raise KeyboardInterrupt
        validate(self, *where)

    monkeypatch.setattr(Trainer, "_validate", stop_once)
    monkeypatch.setattr(threads, "choose", lambda most: 2)
    one, pairs = RunSettings.model_validate(TINY), read(collection)
    with pytest.raises(KeyboardInterrupt):
        train(one, pairs, tmp_path / "run", progress=Progress())
    assert torch.get_num_threads() == 1
    monkeypatch.setattr(threads, "choose", lambda most: 1)
    train(one, pairs, tmp_path / "run", resume=True, progress=Progress())
    assert set(used) == {2}
    assert len(used) > 2
    assert torch.get_num_threads() == 1
    assert capsys.readouterr().err.count("Computing with 2 threads") == 2
    state = next((tmp_path / "run" / "state").glob("step-*/state.json"))
    assert json.loads(state.read_text())["threads"] == 2
