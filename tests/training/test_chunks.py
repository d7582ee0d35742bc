"""A batch read in chunks has the loss and the gradients of the batch read at once, and keeps only embeddings of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.training.same_gradients import LOSSES, ON_SETS, batch, compare, model, step
from torch import Tensor, nn

from vsekit.encoders.image.small_cnn import SmallCNNSettings
from vsekit.errors import UserError
from vsekit.training.chunks import in_chunks, through
from vsekit.training.world import World


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss["kind"])
def test_every_loss_on_vectors_has_the_same_gradients(loss: dict[str, Any]) -> None:
    compare("cosine", loss, 8, World(), chunk=3)


@pytest.mark.parametrize("similarity", ["scan", "bfan"])
@pytest.mark.parametrize("kind", ON_SETS)
def test_losses_on_sets_have_the_same_gradients(kind: str, similarity: str) -> None:
    compare(similarity, {"kind": kind}, 7, World(), chunk=2)


def test_the_second_pass_drops_what_the_first_dropped() -> None:
    """Gradients are right only for the loss that was computed: that of the first pass's dropout."""
    one = step("cosine", {"kind": "info_nce"}, World(), chunk=3)
    one.model.text.head = nn.Sequential(nn.Dropout(0.5), one.model.text.head, nn.Dropout(0.5))
    one.train()
    weight = one.model.text.encoder.words.weight
    direction = torch.randn_like(weight)

    def loss() -> Tensor:
        torch.manual_seed(5)
        return one(batch(8))[0]

    loss().backward()
    assert weight.grad is not None
    with torch.no_grad():
        weight += 1e-6 * direction
        more = loss()
        weight -= 2e-6 * direction
        less = loss()
    assert ((more - less) / 2e-6).item() == pytest.approx((weight.grad * direction).sum().item(), rel=1e-5)
    assert loss().item() == loss().item()


def test_the_backward_pass_holds_one_chunk_at_a_time() -> None:
    """Counts rows that are between their second reading and the arrival of their gradient."""
    weight = nn.Parameter(torch.ones(3))
    held, most = 0, 0

    class Held(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, rows: Tensor) -> Tensor:
            nonlocal held, most
            ctx.rows = len(rows)
            held += ctx.rows
            most = max(most, held)
            return rows.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            nonlocal held
            held -= ctx.rows
            return grad

    inputs = torch.randn(12, 3)
    whole = in_chunks(lambda rows: Held.apply(rows * weight).sin(), inputs, 4)
    held = most = 0  # the first pass keeps nothing
    whole.sum().backward()
    assert most == 4
    torch.testing.assert_close(weight.grad, (inputs * (inputs * 1.0).cos()).sum(0))


def test_an_encoder_that_normalises_over_the_batch_is_refused() -> None:
    tower = model("cosine").image
    tower.encoder = SmallCNNSettings().build()
    pixels = torch.zeros(4, 3, tower.encoder.pixels, tower.encoder.pixels)
    with pytest.raises(UserError, match="SmallCNN normalises over the batch"):
        through(tower.train(), pixels, 2)
