from __future__ import annotations

import pytest
import torch

from vsekit.encoders.image.precomputed import PrecomputedSettings
from vsekit.errors import UserError


def test_one_vector_is_a_set_of_one() -> None:
    features = torch.randn(4, 6)
    vectors, mask = PrecomputedSettings(dim=6).build()(features)
    assert torch.equal(vectors[:, 0], features)
    assert mask.shape == (4, 1)
    assert mask.all()


def test_regions_keep_their_mask() -> None:
    features, mask = torch.randn(2, 3, 6), torch.tensor([[True, True, False], [True, False, False]])
    encoder = PrecomputedSettings().build(dim=6)
    assert torch.equal(encoder(features, mask).mask, mask)
    assert encoder(features).mask.all()
    assert torch.equal(encoder.sets(features, torch.tensor([2, 1])).mask, mask)
    assert torch.equal(encoder.sets(features).vectors, features)


def test_half_precision_is_for_storage_only() -> None:
    assert PrecomputedSettings().build(dim=6)(torch.randn(2, 6).half()).vectors.dtype == torch.float32


def test_it_has_no_weights() -> None:
    assert not PrecomputedSettings(dim=6).build().state_dict()


def test_a_wrong_size_is_named() -> None:
    with pytest.raises(UserError, match="7 numbers, the model expects 6"):
        PrecomputedSettings(dim=6).build()(torch.randn(2, 7))
    with pytest.raises(UserError, match="7 numbers, not 6"):
        PrecomputedSettings(dim=6).build(dim=7)
    with pytest.raises(UserError, match="not known"):
        PrecomputedSettings().build()
