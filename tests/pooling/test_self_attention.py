from __future__ import annotations

import torch

from .sets import build, pad, ragged

SETS = ragged([5, 1, 3], 4)


def test_it_is_the_definition_one_set_at_a_time() -> None:
    pooling = build("self_attention", 4)
    out = pooling(*pad(SETS, length=8))
    for b, one in enumerate(SETS):
        query = torch.tanh(pooling.query(one.mean(0)))
        logits = [(pooling.score.weight[0] * torch.tanh(pooling.local(v)) * query).sum() for v in one]
        weights = torch.softmax(torch.stack(logits), 0)
        torch.testing.assert_close(out[b], sum(w * v for w, v in zip(weights, one)))
