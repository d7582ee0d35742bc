from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bulk.conftest import Machines

from vsekit.bulk import ray as bulk
from vsekit.bulk.cluster import _look_for
from vsekit.bulk.ray import Ray, _Answer
from vsekit.bulk.work import Work
from vsekit.data.decoding import PictureError
from vsekit.errors import UserError


class Squares(Work):
    """Writes down what it does."""

    def __init__(self, log: Path, seconds: float = 0.0) -> None:
        self.log, self.seconds = log, seconds

    def __call__(self, block: int) -> np.ndarray:
        with self.log.open("a") as log:
            log.write(f"{block} {os.getpid()}\n")
        time.sleep(self.seconds)
        return np.arange(block, dtype=np.float32) ** 2


class Poison(Work):
    def __call__(self, block: int) -> int:
        if block == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return block


class Broken(Work):
    def __call__(self, block: int) -> int:
        if block == 3:
            raise PictureError("cut off", file="a.jpg")
        return block


@pytest.mark.slow
def test_a_killed_worker_and_a_killed_node_cost_only_the_blocks_they_had(two_nodes: Machines, tmp_path: Path) -> None:
    log, killed = tmp_path / "log", 0
    for block, answer in enumerate(Ray(two_nodes.address).map(Squares(log, 0.2), range(60))):
        np.testing.assert_array_equal(answer, np.arange(block, dtype=np.float32) ** 2)
        if block == 8:
            killed = two_nodes.kill_worker("one")
        if block == 20:
            two_nodes.kill("two")
    assert block == 59
    lines = [line.split() for line in log.read_text().splitlines()]
    assert str(killed) in {pid for _, pid in lines}
    again = [block for block, times in Counter(block for block, _ in lines).items() if times > 1]
    # One at work with each of the two; of the node also what was made and not yet fetched.
    assert len(lines) >= 60
    assert len(again) <= 12


@pytest.mark.slow
def test_blocks_may_begin_anywhere_and_none_is_no_work(two_nodes: Machines, tmp_path: Path) -> None:
    answers = list(Ray(two_nodes.address, workers=1).map(Squares(tmp_path / "log"), range(5, 8)))
    assert [len(answer) for answer in answers] == [5, 6, 7]
    assert list(Ray("nowhere").map(Squares(tmp_path / "log"), range(0))) == []


@pytest.mark.slow
def test_an_error_in_a_block_is_the_error_of_one_process(two_nodes: Machines) -> None:
    answers = Ray(two_nodes.address).map(Broken(), range(6))
    assert [next(answers) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(PictureError) as error:
        next(answers)
    assert str(error.value) == str(PictureError("cut off", file="a.jpg"))
    assert (error.value.reason, error.value.file) == ("cut off", "a.jpg")


@pytest.mark.slow
def test_a_block_that_kills_every_worker_is_given_up(two_nodes: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "LOSSES", 1)
    answers = Ray(two_nodes.address).map(Poison(), range(4))
    assert [next(answers) for _ in range(2)] == [0, 1]
    with pytest.raises(UserError, match="2 workers were lost with block 2"):
        next(answers)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise ImportError('not installed')", "has no vsekit"),
        ("__version__ = '0.0.9'", "has vsekit 0.0.9, and here it is"),
    ],
)
def test_a_node_without_this_vsekit_is_named(
    two_nodes: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, said: str
) -> None:
    (tmp_path / "vsekit").mkdir()
    (tmp_path / "vsekit" / "__init__.py").touch()
    (tmp_path / "vsekit" / "version.py").write_text(source)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    two_nodes.add("stranger", env_vars={"PYTHONPATH": path})
    try:
        with pytest.raises(UserError, match=f"node stranger .* {said}") as error:
            Ray(two_nodes.address).ready()
        assert "pip install 'vsekit[ray]'" in str(error.value)
    finally:
        two_nodes.kill("stranger")


def test_a_cluster_that_wants_its_token_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    raylet = pytest.importorskip("ray._raylet")

    def refused(address: str) -> None:
        raise RuntimeError("RPC error: InvalidAuthToken: Authentication token is missing or incorrect.")

    monkeypatch.setattr(raylet, "GcsClient", refused)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(UserError, match=f"the Ray cluster at {address} wants its token\n.*RAY_AUTH_MODE=token"):
            _look_for(address)


def test_a_file_that_only_a_node_can_t_read_is_the_node_s_failure(tmp_path: Path) -> None:
    there, gone = tmp_path / "there.jpg", tmp_path / "gone.jpg"
    there.touch()
    assert _Answer(1, "one (ab)", made="x", absent=[gone]).taken(1) == "x"
    with pytest.raises(UserError, match=r"there.jpg: node one \(ab\) can't read this file, which can be read here"):
        _Answer(1, "one (ab)", made="x", absent=[gone, there]).taken(1)


def test_an_answer_out_of_sequence_is_a_bug() -> None:
    made: Any = _Answer(2, "one")
    with pytest.raises(AssertionError, match="block 2 in place of 1"):
        made.taken(1)
