from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from vsekit.training.checkpoint import load_checkpoint, newest_checkpoint, read_state, save_checkpoint


class Pictures(nn.Module):
    """Three numbers as a tiny picture, through a convolution that lies channels-last in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 5, 3, padding=1)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.convolution(x[:, :, None, None].expand(-1, -1, 4, 4)).flatten(1)


OPTIMISERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "adam on convolutions": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    "sgd without momentum": lambda p: torch.optim.SGD(p, lr=0.01),
}


def trained(steps: int, kind: str, start: Path | None = None) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    first = nn.Sequential(Pictures(), nn.Linear(80, 4)) if "convolutions" in kind else nn.Linear(3, 4)
    module = nn.Sequential(first, nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimiser = OPTIMISERS[kind](module.parameters())
    if start:
        load_checkpoint(start, module, [optimiser])
    for step in range(read_state(start)["steps"] if start else 0, steps):
        torch.manual_seed(step)
        module(torch.randn(8, 3)).square().sum().backward()
        optimiser.step()
        optimiser.zero_grad()
    return module, optimiser


@pytest.mark.parametrize("kind", OPTIMISERS)
def test_training_from_a_checkpoint_gives_the_same_bits_as_never_stopping(kind: str, tmp_path: Path) -> None:
    module, optimiser = trained(3, kind)
    save_checkpoint(tmp_path, module, [optimiser], {"steps": 3, "stage": 0})
    resumed, _ = trained(7, kind, newest_checkpoint(tmp_path))
    straight, _ = trained(7, kind)
    for (name, a), b in zip(straight.state_dict().items(), resumed.state_dict().values()):
        assert torch.equal(a, b), name


def test_the_newest_whole_checkpoint_counts_and_older_ones_go(tmp_path: Path) -> None:
    module, optimiser = trained(1, "adam")
    for steps in (1, 2, 12):
        save_checkpoint(tmp_path, module, [optimiser], {"steps": steps, "stage": 0})
    (tmp_path / ".step-00000099-00.tmp").mkdir()  # what a kill in the middle of a write leaves
    newest = newest_checkpoint(tmp_path)
    assert newest is not None
    assert read_state(newest)["steps"] == 12
    assert [p.name for p in tmp_path.glob("step-*")] == ["step-00000012-00"]


def test_there_is_no_checkpoint_in_an_empty_or_missing_folder(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path) is None
    assert newest_checkpoint(tmp_path / "none") is None


def test_a_stage_that_starts_outranks_the_end_of_the_one_before(tmp_path: Path) -> None:
    module, optimiser = trained(1, "adam")
    for stage in (0, 1):
        save_checkpoint(tmp_path, module, [optimiser], {"steps": 5, "stage": stage})
    newest = newest_checkpoint(tmp_path)
    assert newest is not None
    assert read_state(newest)["stage"] == 1
