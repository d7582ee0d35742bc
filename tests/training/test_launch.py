from __future__ import annotations

import os
import sys
from typing import Any

import pytest
import torch.distributed.launcher.api as launcher

from vsekit import threads
from vsekit.errors import UserError
from vsekit.training.launch import launch


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was to be launched: settings, program and arguments."""
    found: list[Any] = []

    def elastic_launch(config: Any, program: str) -> Any:
        return lambda *arguments: found.append((config, program, arguments))

    monkeypatch.setattr(launcher, "elastic_launch", elastic_launch)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return found


def test_one_machine_needs_no_place_to_meet_and_shares_out_its_cores(
    launched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "usable_cores", lambda: range(8))
    assert launch(["train", "x"], devices=3, nodes=1, rendezvous=None, max_restarts=2) == 0
    ((config, program, arguments),) = launched
    assert (config.nproc_per_node, config.min_nodes, config.max_nodes, config.max_restarts) == (3, 1, 1, 2)
    assert config.rdzv_endpoint == "localhost:0"
    assert (program, arguments) == (sys.executable, ("-m", "vsekit", "train", "x"))
    assert os.environ["OMP_NUM_THREADS"] == "2"


def test_several_machines_meet_where_they_are_told_and_need_to_be_told(launched: list[Any]) -> None:
    launch(["train"], devices=1, nodes=2, rendezvous="node0:29400", max_restarts=0)
    assert launched[0][0].rdzv_endpoint == "node0:29400"
    assert (launched[0][0].min_nodes, launched[0][0].max_nodes) == (2, 2)
    with pytest.raises(UserError, match="--rendezvous"):
        launch(["train"], devices=1, nodes=2, rendezvous=None, max_restarts=0)
