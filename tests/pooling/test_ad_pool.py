from __future__ import annotations

import math

import pytest
import torch

from vsekit.pooling.ad_pool import AdPoolSettings, balance, token_level
from vsekit.pooling.max import max_pool
from vsekit.pooling.mean import mean_pool
from vsekit.pooling.soft_pool import soft_pool

from .sets import build, pad, ragged

SETS = ragged([5, 1, 3], 4)


def softmax(logits: list[float]) -> list[float]:
    total = sum(math.exp(x) for x in logits)
    return [math.exp(x) / total for x in logits]


def test_token_level_is_equation_3() -> None:
    weight = torch.tensor([[0.3, -1.0, 0.5, 2.0]], dtype=torch.float64)
    out = token_level(*pad(SETS, length=8), weight)
    for b, one in enumerate(SETS):
        columns = [sorted(one[:, j].tolist(), reverse=True) for j in range(4)]
        rows = list(zip(*columns))
        theta = softmax([sum(w * x for w, x in zip(weight[0].tolist(), row)) for row in rows])
        for j in range(4):
            assert out[b, j].item() == pytest.approx(sum(t * row[j] for t, row in zip(theta, rows)))


def test_token_level_ranges_from_mean_to_max() -> None:
    sets = pad([one.abs() for one in SETS])
    weight = torch.zeros(1, 4, dtype=torch.float64)
    torch.testing.assert_close(token_level(*sets, weight), mean_pool(*sets))
    torch.testing.assert_close(token_level(*sets, weight + 1e4), max_pool(*sets))


def test_token_weights_per_dimension_are_those_of_the_published_code() -> None:
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(4, 4, generator=generator, dtype=torch.float64)
    bias = torch.randn(4, generator=generator, dtype=torch.float64)
    out = token_level(*pad(SETS, length=8), weight, bias)
    for b, one in enumerate(SETS):
        u = one.sort(0, descending=True).values
        for j in range(4):
            theta = softmax([max(0.0, (weight[j] @ row + bias[j]).item()) for row in u])
            assert out[b, j].item() == pytest.approx(sum(t * x for t, x in zip(theta, u[:, j].tolist())))


def test_balance_is_equation_5() -> None:
    token, embedding = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    # Logits log 3 · 1 and 0.5 · 2 · 0 = 0: weights 3/4 and 1/4.
    out = balance(token, embedding, torch.tensor([[math.log(3.0), 0.0]]))
    torch.testing.assert_close(out, torch.tensor([[0.75, 0.5]]))


def test_the_whole_is_both_levels_balanced() -> None:
    pooling, sets = build("ad_pool", 4), pad(SETS)
    token = token_level(*sets, pooling.token.weight)
    expected = balance(token, soft_pool(*sets), pooling.balance.weight)
    torch.testing.assert_close(pooling(*sets), expected)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.75, 1.0])
def test_a_fixed_balance_is_the_share_of_the_token_level(share: float) -> None:
    pooling, sets = AdPoolSettings(balance=share).build(4).double(), pad(SETS)
    token = token_level(*sets, pooling.token.weight)
    torch.testing.assert_close(pooling(*sets), share * token + (1 - share) * soft_pool(*sets))


def test_the_random_balance_is_drawn_once_and_saved_with_the_model() -> None:
    first, second = (AdPoolSettings(balance="random").build(4) for _ in range(2))
    assert first.token_share != second.token_share
    second.load_state_dict(first.state_dict())
    sets = [x.float() if x.is_floating_point() else x for x in pad(SETS)]
    assert torch.equal(first(*sets), second(*sets))


@pytest.mark.parametrize(("levels", "parameters"), [("both", 8), ("token", 4), ("embedding", 0)])
def test_a_level_alone_has_no_parameters_of_the_other(levels: str, parameters: int) -> None:
    pooling = AdPoolSettings(levels=levels).build(4)
    assert sum(p.numel() for p in pooling.parameters()) == parameters
