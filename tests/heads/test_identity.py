from __future__ import annotations

import pytest
import torch

from vsekit.errors import UserError
from vsekit.heads.identity import IdentitySettings


def test_vectors_pass_unchanged() -> None:
    vectors = torch.randn(2, 3)
    assert torch.equal(IdentitySettings().build(3, 3)(vectors), vectors)


def test_another_size_is_an_error_that_names_both() -> None:
    with pytest.raises(UserError, match=r"keeps the size 3.* 4 is asked for"):
        IdentitySettings().build(3, 4)
