from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from vsekit.similarity import order
from vsekit.similarity.order import OrderSettings, violation


def by_loops(images: Tensor, captions: Tensor, squared: bool) -> Tensor:
    scores = torch.empty(len(images), len(captions), dtype=torch.float64)
    for i, image in enumerate(images.tolist()):
        for c, caption in enumerate(captions.tolist()):
            energy = sum(max(0.0, y - x) ** 2 for x, y in zip(image, caption))
            scores[i, c] = -(energy if squared else math.sqrt(energy))
    return scores


def embeddings(n: int, dim: int = 5, seed: int = 0) -> Tensor:
    return torch.randn(n, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_scores_of_hand_worked_vectors() -> None:
    images, captions = torch.tensor([[1.0, 1.0, 0.0]]), torch.tensor([[4.0, 0.0, 4.0], [0.0, 1.0, 0.0]])
    torch.testing.assert_close(OrderSettings().build()(images, captions), torch.tensor([[-5.0, 0.0]]))
    torch.testing.assert_close(OrderSettings(squared=True).build()(images, captions), torch.tensor([[-25.0, 0.0]]))


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("block", [1, 30, 2**19])
def test_scores_equal_the_loops_whatever_the_block(squared: bool, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "_BLOCK", block)
    monkeypatch.setattr(order, "_IMAGES", 3)
    images, captions = embeddings(7), embeddings(11, seed=1)
    similarity = OrderSettings(squared=squared).build()
    torch.testing.assert_close(similarity(images, captions), by_loops(images, captions, squared))
    torch.testing.assert_close(similarity.paired(images, captions[:7]), similarity(images, captions).diagonal())


@pytest.mark.parametrize("active", [1.0, 0.2], ids=["every score has a gradient", "few scores have a gradient"])
@pytest.mark.parametrize("block", [10, 2**19])
def test_gradients_are_the_derivatives(active: float, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "_BLOCK", block)
    monkeypatch.setattr(order, "_IMAGES", 2)
    images, captions = embeddings(5).requires_grad_(), embeddings(4, seed=1).requires_grad_()
    weights = torch.rand(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    weights = torch.where(weights <= active, weights, 0.0)
    assert weights.any()
    assert torch.autograd.gradcheck(lambda i, c: (violation(i, c) * weights).sum(), (images, captions))


@pytest.mark.parametrize("squared", [False, True])
def test_without_violation_the_score_is_0_and_so_is_the_gradient(squared: bool) -> None:
    images = torch.tensor([[1.0, 2.0], [1.0, 2.0]], requires_grad=True)
    captions = torch.tensor([[1.0, 2.0], [0.0, -1.0]], requires_grad=True)
    similarity = OrderSettings(squared=squared).build()
    for scores in (similarity(images, captions), similarity.paired(images, captions)):
        assert (scores == 0).all()
        for grad in torch.autograd.grad(scores.sum(), (images, captions)):
            assert (grad == 0).all()


def test_half_precision_is_scored_and_differentiated_in_float32() -> None:
    images, captions = (embeddings(3, seed=s).bfloat16().requires_grad_() for s in (0, 1))
    similarity = OrderSettings().build()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = similarity(images, captions)
    assert torch.equal(scores, similarity(images.float(), captions.float()))
    scores.sum().backward()
    assert images.grad is not None
    assert images.grad.dtype == torch.bfloat16


def test_a_broken_embedding_shows_in_its_scores() -> None:
    images = torch.ones(2, 37)
    images[1] = torch.nan
    scores = OrderSettings().build()(images, torch.zeros(3, 37))
    assert (scores[0] == 0).all()
    assert scores[1].isnan().all()
