from __future__ import annotations

import torch

from vsekit.pooling.mean import mean_pool


def test_two_of_three_vectors_give_their_mean() -> None:
    vectors = torch.tensor([[[1.0, -4.0], [3.0, 2.0], [100.0, 100.0]]])
    assert mean_pool(vectors, torch.tensor([[True, True, False]])).tolist() == [[2.0, -1.0]]
