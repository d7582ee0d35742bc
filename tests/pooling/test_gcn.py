from __future__ import annotations

import pytest
import torch
from torch import Tensor

from vsekit.pooling.gcn import GCNSettings, GraphReasoning
from vsekit.pooling.masked import zero_padding
from vsekit.pooling.mean import mean_pool

from .sets import build, pad, ragged


def reason(layer: GraphReasoning, sets: list[Tensor]) -> list[Tensor]:
    """One layer, pair by pair, with batch statistics over all vectors of all sets."""
    messages = []
    for one in sets:
        for i in one:
            weights = [layer.theta(i) @ layer.phi(j) / len(one) for j in one]
            messages.append(layer.w(sum(w * layer.g(j) for w, j in zip(weights, one))))
    rows = torch.stack(messages)
    normed = (rows - rows.mean(0)) / (rows.var(0, unbiased=False) + layer.norm.eps).sqrt()
    out = torch.cat(sets) + normed * layer.norm.weight + layer.norm.bias
    return list(out.split([len(one) for one in sets]))


@pytest.mark.parametrize("length", [5, 9])
def test_a_layer_is_its_definition_for_small_and_for_large_sets(length: int) -> None:
    # Vectors of size 6: five places take (θ φᵀ) g, nine take θ (φᵀ g).
    sets = ragged([5, 1, 3], 6)
    layer = build("gcn", 6).layers[0]
    vectors, mask = pad(sets, length=length)
    out = layer(zero_padding(vectors, mask), mask)
    torch.testing.assert_close(out[mask], torch.cat(reason(layer, sets)))
    assert (out[~mask] == 0).all()


def test_two_layers_then_the_mean() -> None:
    sets = ragged([5, 1, 3], 6)
    pooling = build("gcn", 6)
    expected = reason(pooling.layers[1], reason(pooling.layers[0], sets))
    torch.testing.assert_close(pooling(*pad(sets)), torch.stack([one.mean(0) for one in expected]))


def test_it_starts_as_the_mean_and_can_leave_it() -> None:
    pooling, sets = GCNSettings().build(6).double(), pad(ragged([5, 1, 3], 6))
    out = pooling(*sets)
    torch.testing.assert_close(out, mean_pool(*sets))
    out.square().sum().backward()
    assert pooling.layers[0].norm.weight.grad.abs().max() > 0
