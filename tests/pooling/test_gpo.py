from __future__ import annotations

import math

import pytest
import torch

from vsekit.pooling.gpo import sinusoids

from .sets import build, pad, ragged

SETS = ragged([5, 1, 3, 5], 4)


def test_sinusoids_are_those_of_the_definition() -> None:
    out = sinusoids(torch.arange(7, dtype=torch.float64), 32)
    for k in range(7):
        for j in range(16):
            angle = k / 10000 ** (2 * j / 32)
            assert out[k, 2 * j].item() == pytest.approx(math.sin(angle))
            assert out[k, 2 * j + 1].item() == pytest.approx(math.cos(angle))


def test_it_weighs_sorted_features_by_the_gru_over_places_one_set_at_a_time() -> None:
    pooling = build("gpo", 4)
    out = pooling(*pad(SETS, length=8))
    for b, one in enumerate(SETS):
        places = sinusoids(torch.arange(len(one), dtype=torch.float64), 32)
        h = (pooling.gru(places)[0] + pooling.back(places.flip(0))[0].flip(0)) / 2
        theta = torch.softmax(h @ pooling.score.weight[0] / 0.1, 0)
        torch.testing.assert_close(out[b], theta @ one.sort(0, descending=True).values)


def test_weights_sum_to_one_over_each_size() -> None:
    weights = build("gpo", 4).weights(torch.tensor([1, 4, 2]))
    torch.testing.assert_close(weights.sum(1), torch.ones(3, dtype=torch.float64))
    assert (weights[0, 1:] == 0).all()
    assert (weights[2, 2:] == 0).all()
