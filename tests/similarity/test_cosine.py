from __future__ import annotations

import pytest
import torch

from vsekit.similarity import l2_normalised
from vsekit.similarity.cosine import CosineSettings
from vsekit.similarity.inner_product import InnerProductSettings


def test_cosine_of_hand_worked_vectors() -> None:
    scores = CosineSettings().build()(torch.tensor([[3.0, 4.0], [1.0, 0.0]]), torch.tensor([[0.0, 2.0], [-5.0, 0.0]]))
    torch.testing.assert_close(scores, torch.tensor([[0.8, -0.6], [0.0, -1.0]]))


def test_inner_product_keeps_the_lengths() -> None:
    scores = InnerProductSettings().build()(torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 2.0], [-5.0, 1.0]]))
    torch.testing.assert_close(scores, torch.tensor([[8.0, -11.0]]))


@pytest.mark.parametrize("settings", [CosineSettings(), InnerProductSettings()])
def test_pairs_are_the_diagonal_and_prepared_vectors_need_only_a_product(settings) -> None:
    similarity = settings.build()
    images, captions = torch.randn(5, 7, dtype=torch.float64), torch.randn(5, 7, dtype=torch.float64)
    scores = similarity(images, captions)
    torch.testing.assert_close(similarity.paired(images, captions), scores.diagonal())
    assert similarity.inner_product
    torch.testing.assert_close(similarity.prepare_images(images) @ similarity.prepare_captions(captions).T, scores)


def test_a_zero_row_scores_0_and_its_gradient_is_of_ordinary_size() -> None:
    images = torch.tensor([[0.0, 0.0], [1.0, 2.0]], requires_grad=True)
    captions = torch.tensor([[0.6, 0.8]], requires_grad=True)
    scores = CosineSettings().build()(images, captions)
    scores.sum().backward()
    assert scores[0].item() == 0
    assert images.grad is not None
    assert captions.grad is not None
    assert images.grad.abs().max() <= 1
    assert captions.grad.isfinite().all()


def test_l2_normalised_gives_unit_length_and_the_derivative_of_x_over_its_norm() -> None:
    x = torch.randn(3, 2, 4, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(l2_normalised(x).square().sum(-1), torch.ones(3, 2, dtype=torch.float64))
    assert torch.autograd.gradcheck(l2_normalised, x)
