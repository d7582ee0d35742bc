from __future__ import annotations

import math

import pytest
import torch

from vsekit.pooling.max import max_pool
from vsekit.pooling.soft_pool import soft_pool

from .sets import pad, ragged


def test_two_values_worked_out_by_hand() -> None:
    vectors = torch.tensor([[[0.0], [math.log(3.0)]]])
    # Weights 1/4 and 3/4.
    assert soft_pool(vectors, torch.ones(1, 2, dtype=torch.bool)).item() == pytest.approx(0.75 * math.log(3.0))


def test_it_is_the_sum_of_the_definition() -> None:
    sets = ragged([5, 1, 3], 4)
    out = soft_pool(*pad(sets))
    for b, one in enumerate(sets):
        for j in range(4):
            values = one[:, j].tolist()
            total = sum(math.exp(v) for v in values)
            assert out[b, j].item() == pytest.approx(sum(math.exp(v) / total * v for v in values))


def test_large_values_do_not_overflow_and_approach_the_maximum() -> None:
    vectors, mask = pad([one * 1e4 for one in ragged([5, 2], 4)])
    torch.testing.assert_close(soft_pool(vectors, mask), max_pool(vectors, mask))
