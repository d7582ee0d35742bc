from __future__ import annotations

import torch

from vsekit.pooling.lip import LIPSettings, instance_norm
from vsekit.pooling.mean import mean_pool

from .sets import build, pad, ragged

SETS = ragged([5, 1, 3], 4)


def test_it_is_the_definition_one_set_at_a_time() -> None:
    pooling = build("lip", 4)
    out = pooling(*pad(SETS, length=8))
    for b, one in enumerate(SETS):
        projected = one @ pooling.projection.weight.T
        normed = (projected - projected.mean(0)) / (projected.var(0, unbiased=False) + 1e-5).sqrt()
        importance = (12 * torch.sigmoid(normed * pooling.gain + pooling.shift)).exp()
        torch.testing.assert_close(out[b], (importance * one).sum(0) / importance.sum(0))


def test_it_starts_as_the_mean_and_can_leave_it() -> None:
    pooling, sets = LIPSettings().build(4).double(), pad(SETS)
    out = pooling(*sets)
    torch.testing.assert_close(out, mean_pool(*sets))
    out.sum().backward()
    assert pooling.projection.weight.grad.abs().max() > 0


def test_instance_norm_agrees_with_torch_where_nothing_is_padded() -> None:
    vectors, mask = pad(ragged([5, 5], 4))
    expected = torch.nn.functional.instance_norm(vectors.mT).mT
    torch.testing.assert_close(instance_norm(vectors, mask), expected)
