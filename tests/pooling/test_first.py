from __future__ import annotations

import torch

from vsekit.pooling.first import first_pool

from .sets import pad, ragged


def test_it_is_the_first_valid_vector_wherever_it_stands() -> None:
    sets = ragged([3, 1, 2], 4)
    vectors, mask = pad(sets, length=5)
    shifted = (vectors.roll(2, 1), mask.roll(2, 1))
    for out in (first_pool(vectors, mask), first_pool(*shifted)):
        assert torch.equal(out, torch.stack([one[0] for one in sets]))
