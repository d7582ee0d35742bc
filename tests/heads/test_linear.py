from __future__ import annotations

import torch

from vsekit.heads.linear import LinearSettings


def test_weights_fill_the_published_range_and_biases_are_zero() -> None:
    torch.manual_seed(0)
    layer = LinearSettings().build(200, 100)
    r = (6 / 300) ** 0.5
    assert layer.weight.shape == (100, 200)
    assert 0.99 * r < layer.weight.abs().max() <= r
    assert (layer.bias == 0).all()
