from __future__ import annotations

import pytest
import torch

from vsekit.errors import UserError
from vsekit.pooling.single import SinglePoolSettings

from .sets import pad, ragged


def test_it_returns_the_one_vector() -> None:
    sets = ragged([1, 1], 4)
    assert torch.equal(SinglePoolSettings().build(4)(*pad(sets, length=3)), torch.cat(sets))


def test_a_larger_set_is_an_error_that_says_so() -> None:
    with pytest.raises(UserError, match="set of 2"):
        SinglePoolSettings().build(4)(*pad(ragged([1, 2], 4)))
