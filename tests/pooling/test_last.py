from __future__ import annotations

import torch

from vsekit.pooling.last import last_pool

from .sets import pad, ragged


def test_it_is_the_last_valid_vector_wherever_it_stands() -> None:
    sets = ragged([3, 1, 2], 4)
    for holes in (False, True):
        out = last_pool(*pad(sets, length=5, holes=holes))
        assert torch.equal(out, torch.stack([one[-1] for one in sets]))
