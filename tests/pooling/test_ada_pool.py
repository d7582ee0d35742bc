from __future__ import annotations

import math

import pytest
import torch

from vsekit.pooling.ada_pool import AdaPool, ada_pool, dice_sorensen

from .sets import pad, ragged

SETS = ragged([5, 1, 3], 4)


def test_dice_sorensen_is_one_for_equals_and_falls_with_the_ratio() -> None:
    a, b = torch.tensor([2.0, 2.0, -2.0, 0.0]), torch.tensor([2.0, 4.0, 2.0, 0.0])
    torch.testing.assert_close(dice_sorensen(a, b), torch.tensor([1.0, 0.8, 1.0, 0.0]))


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_it_is_the_sum_of_the_definition(beta: float) -> None:
    out = ada_pool(*pad(SETS), torch.tensor(beta, dtype=torch.float64))
    for b, one in enumerate(SETS):
        for j in range(4):
            values = one[:, j].tolist()
            mean = sum(values) / len(values)
            near = [math.exp(2 * abs(v * mean) / (v * v + mean * mean)) for v in values]
            large = [math.exp(v) for v in values]
            expected = sum(
                (beta * n / sum(near) + (1 - beta) * m / sum(large)) * v for n, m, v in zip(near, large, values)
            )
            assert out[b, j].item() == pytest.approx(expected, abs=1e-9)


def test_it_starts_half_way_between_the_two() -> None:
    sets = pad(SETS)
    halves = [ada_pool(*sets, torch.tensor(beta, dtype=torch.float64)) for beta in (0.0, 1.0)]
    torch.testing.assert_close(AdaPool(4).double()(*sets), (halves[0] + halves[1]) / 2)
