from __future__ import annotations

import pytest
import torch

from vsekit.pooling.k_max import k_max_pool
from vsekit.pooling.max import max_pool
from vsekit.pooling.mean import mean_pool

from .sets import pad, ragged

SETS = ragged([5, 1, 3], 4)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 9])
def test_it_is_the_mean_of_the_k_largest_or_of_all_when_there_are_fewer(k: int) -> None:
    out = k_max_pool(*pad(SETS, length=7, holes=True), k)
    for b, one in enumerate(SETS):
        for j in range(4):
            top = sorted(one[:, j].tolist(), reverse=True)[:k]
            assert out[b, j].item() == pytest.approx(sum(top) / len(top))


def test_k_of_one_is_the_maximum_and_a_large_k_the_mean() -> None:
    sets = pad(SETS)
    torch.testing.assert_close(k_max_pool(*sets, 1), max_pool(*sets))
    torch.testing.assert_close(k_max_pool(*sets, 5), mean_pool(*sets))
