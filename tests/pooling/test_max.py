from __future__ import annotations

import torch

from vsekit.pooling.max import max_pool


def test_the_maximum_of_negative_values_is_not_the_padding() -> None:
    vectors = torch.tensor([[[-1.0, -4.0], [-3.0, -2.0], [0.0, 0.0]]])
    assert max_pool(vectors, torch.tensor([[True, True, False]])).tolist() == [[-1.0, -2.0]]


def test_equal_maxima_share_the_gradient() -> None:
    vectors = torch.tensor([[[2.0], [2.0], [1.0]]], requires_grad=True)
    max_pool(vectors, torch.ones(1, 3, dtype=torch.bool)).sum().backward()
    assert vectors.grad.flatten().tolist() == [0.5, 0.5, 0.0]
