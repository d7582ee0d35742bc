from __future__ import annotations

import torch

from vsekit.heads.mlp import MLPSettings


def test_it_has_the_sizes_of_the_paper() -> None:
    head = MLPSettings().build(1024, 1024)
    assert [tuple(p.shape) for p in head.parameters()] == [(2048, 1024), (2048,), (1024, 2048), (1024,)]


def test_a_value_worked_out_by_hand() -> None:
    head = MLPSettings(hidden=2).build(1, 1)
    for parameter, values in zip(head.parameters(), ([[1.0], [-1.0]], [0.5, 0.0], [[2.0, 10.0]], [0.25])):
        parameter.data = torch.tensor(values)
    # 3 → (3.5, −3) → (3.5, 0) → 7.25;  −3 → (−2.5, 3) → (0, 3) → 30.25
    assert head(torch.tensor([[3.0], [-3.0]])).tolist() == [[7.25], [30.25]]


def test_without_the_first_bias_nothing_stays_nothing_until_the_last_layer() -> None:
    head = MLPSettings(hidden=2, first_bias=False).build(1, 1)
    for parameter, values in zip(head.parameters(), ([[1.0], [-1.0]], [[2.0, 10.0]], [0.25]), strict=True):
        parameter.data = torch.tensor(values)
    # 3 → (3, −3) → (3, 0) → 6.25;  −3 → (−3, 3) → (0, 3) → 30.25;  0 → 0.25
    assert head(torch.tensor([[3.0], [-3.0], [0.0]])).tolist() == [[6.25], [30.25], [0.25]]
