from __future__ import annotations

import pytest
import torch

from .sets import build, pad, ragged

SETS = ragged([5, 1, 3], 4)


@pytest.mark.parametrize("name", ["seq2seq", "seq2seq lstm"])
def test_it_is_the_last_step_over_the_valid_vectors_alone(name: str) -> None:
    pooling = build(name, 4)
    out = pooling(*pad(SETS, length=8, holes=True))
    for b, one in enumerate(SETS):
        torch.testing.assert_close(out[b], pooling.rnn(one[None])[0][0, -1])


def test_two_directions_are_averaged_each_at_its_own_end() -> None:
    pooling = build("seq2seq bidirectional", 4)
    out = pooling(*pad(SETS, length=8))
    for b, one in enumerate(SETS):
        torch.testing.assert_close(out[b], (pooling.rnn(one)[0][-1] + pooling.back(one.flip(0))[0][-1]) / 2)
