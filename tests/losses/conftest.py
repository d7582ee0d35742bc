"""Batches every loss must handle, and a way to compare a loss with a slow loop, gradients included."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from vsekit.losses import LossInputs, OfflineScores, Teaching

Make = Callable[..., LossInputs]

#: who belongs together: no repeats, images that appear twice and thrice, a batch of one, a batch of one group
GROUPINGS = {
    "distinct": [3, 0, 4, 1, 2],
    "repeated": [0, 1, 1, 2, 0, 0],
    "one pair": [7],
    "one group": [2, 2, 2],
}


@pytest.fixture(params=GROUPINGS.values(), ids=GROUPINGS.keys())
def groups(request: pytest.FixtureRequest) -> Tensor:
    return torch.tensor(request.param)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return torch.nn.functional.normalize(a, dim=1) @ torch.nn.functional.normalize(b, dim=1).T


def taught(groups: Tensor) -> Teaching:
    """A teacher to whom all images of a group are one, and all its captions."""
    table = torch.randn(2, 8, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return Teaching(table[0][groups % 8], table[1][groups % 8])


@pytest.fixture
def make() -> Make:
    """Random float64 inputs for given groups; scores and offline scores are leaves with gradients."""

    def make(groups: Tensor, dim: int = 4, seed: int = 0, epoch: float = 0.0) -> LossInputs:
        torch.manual_seed(seed)
        images, captions = torch.randn(2, len(groups), dim, dtype=torch.float64).unbind()
        images.requires_grad_()
        captions.requires_grad_()
        scores = cosine(images, captions).detach().requires_grad_()
        offline = OfflineScores(*(torch.rand(len(groups), dtype=torch.float64).requires_grad_() for _ in range(4)))
        return LossInputs(scores, groups, images, captions, cosine, epoch, offline, taught(groups))

    return make


@pytest.fixture
def agree() -> Callable[..., None]:
    """Two scalars agree, and so do their gradients with respect to the given leaves."""

    def agree(fast: Tensor, slow: Tensor, *leaves: Tensor) -> None:
        torch.testing.assert_close(fast, slow)
        gradients = (torch.autograd.grad(x, leaves, allow_unused=True, materialize_grads=True) for x in (fast, slow))
        for a, b in zip(*gradients):
            torch.testing.assert_close(a, b)
            assert a.isfinite().all()

    return agree
