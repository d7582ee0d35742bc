from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from tests.models.conftest import VIEW, WORDS, settings
from torch import Tensor

from vsekit.encoders.base import Tokens
from vsekit.losses.base import Loss, LossInputs
from vsekit.models.model import VSE
from vsekit.training.step import Batch, Offline, OfflineBatch, Step


class Seen(Loss):
    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        self.inputs = inputs
        return (inputs.scores / 0.05).log_softmax(1).diagonal().mean().neg(), {}


def test_with_mixed_precision_towers_compute_in_16_bits_and_scores_in_32() -> None:
    torch.manual_seed(0)
    step = Step(VSE(settings(image={"normalise": False}), WORDS, VIEW).eval(), Seen())
    batch = Batch(
        torch.randn(3, 3, 16, 16),
        Tokens(torch.tensor([[1, 4], [1, 5], [2, 4]]), torch.tensor([2, 2, 2])),
        torch.arange(3),
        0.0,
    )
    exact, _ = step(batch)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = step(batch)
    seen = step.loss.inputs
    assert loss.dtype == seen.scores.dtype == seen.images.dtype == torch.float32
    assert torch.equal(seen.images, seen.images.bfloat16().float())
    torch.testing.assert_close(seen.scores, step.model.similarity(seen.images, seen.captions))
    assert 0 < abs(loss.item() - exact.item()) < 0.05 * exact.item()


class AsksForMore(Loss):
    def forward(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Any]]:
        assert inputs.offline is not None
        return inputs.offline.partners.sum() + inputs.offline.both.sum(), {}


def test_what_a_loss_asks_towers_for_is_embedded_in_16_bits_too_and_given_in_32() -> None:
    torch.manual_seed(0)
    step = Step(VSE(settings(), WORDS, VIEW).eval(), AsksForMore())
    pictures = torch.randn(3, 3, 16, 16)
    tokens = Tokens(torch.tensor([[1, 4], [1, 5], [2, 4]]), torch.tensor([2, 2, 2]))
    exact, _ = step(Batch(pictures, tokens, torch.arange(3), 0.0, OfflineBatch(pictures, pictures, tokens, tokens)))
    half = pictures.bfloat16()  # as Fabric hands them over
    batch = Batch(half, tokens, torch.arange(3), 0.0, OfflineBatch(half, half, tokens, tokens))
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = step(batch)
    assert loss.dtype == torch.float32
    assert 0 < abs(loss.item() - exact.item()) < 0.05 * 6


class Recorder:
    """A model whose embeddings are its inputs, and which notes what it was asked to embed."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.similarity = SimpleNamespace(paired=lambda a, b: (a * b).sum(1))

    def embed_images(self, images: Tensor) -> Tensor:
        self.asked.append(f"image {int(images[0, 0])}")
        return images

    def text(self, captions: Tensor) -> Tensor:
        self.asked.append(f"caption {int(captions[0, 0])}")
        return captions


def test_offline_negatives_are_embedded_once_and_only_when_asked_for() -> None:
    model: Any = Recorder()
    one, two, three, four, five, six = (torch.full((2, 3), float(n)) for n in range(1, 7))
    batch = OfflineBatch(image=three, image_of_caption=five, caption=four, caption_of_image=six)
    offline = Offline(model, batch, one, two)
    assert model.asked == []
    assert offline.caption.tolist() == [12.0, 12.0]  # S(i, t̂) = 3 · 1 · 4
    assert model.asked == ["caption 4"]
    assert offline.image.tolist() == [18.0, 18.0]  # S(î, t) = 3 · 3 · 2
    assert offline.both.tolist() == [36.0, 36.0]  # S(î, t̂) = 3 · 3 · 4
    assert model.asked == ["caption 4", "image 3"]
    assert offline.partners.tolist() == [90.0, 90.0]  # S(image of t̂, caption of î) = 3 · 5 · 6
    assert model.asked == ["caption 4", "image 3", "image 5", "caption 6"]
