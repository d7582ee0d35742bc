from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from vsekit.training.step import Offline, OfflineBatch


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
