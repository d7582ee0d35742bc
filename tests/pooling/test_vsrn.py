from __future__ import annotations

import pytest
import torch

from vsekit.pooling.vsrn import VSRNSettings

from .sets import build, pad, ragged

SETS = ragged([5, 1, 3], 6)


@pytest.mark.parametrize(("normalize", "dim"), [("features", 1), ("regions", 0), ("none", None)])
def test_it_starts_as_normalisation_and_a_gru(normalize: str, dim: int | None) -> None:
    pooling = VSRNSettings(normalize=normalize).build(6).double()
    regions, image = pooling.both(*pad(SETS, length=7))
    for b, one in enumerate(SETS):
        expected = one if dim is None else one / one.norm(dim=dim, keepdim=True)
        torch.testing.assert_close(regions[b, : len(one)], expected)
        torch.testing.assert_close(image[b], pooling.gru(expected[None])[0][0, -1])


def test_regions_reason_between_two_normalisations() -> None:
    pooling = build("vsrn", 6)
    vectors, mask = pad(SETS)
    unit = [one / one.norm(dim=1, keepdim=True) for one in SETS]
    reasoned = pad(unit, with_=0.0).vectors
    for layer in pooling.layers:
        reasoned = layer(reasoned, mask)
    expected = reasoned[mask] / reasoned[mask].norm(dim=1, keepdim=True)
    torch.testing.assert_close(pooling.reason(vectors, mask)[mask], expected)


def test_the_first_normalisation_can_be_left_out() -> None:
    torch.manual_seed(0)
    pooling = VSRNSettings(normalize_first=False).build(6).double()
    for layer in pooling.layers:
        torch.nn.init.ones_(layer.norm.weight)  # no longer the identity
    vectors, mask = pad(SETS, with_=0.0)
    reasoned = vectors
    for layer in pooling.layers:
        reasoned = layer(reasoned, mask)
    expected = reasoned[mask] / reasoned[mask].norm(dim=1, keepdim=True)
    torch.testing.assert_close(pooling.reason(vectors, mask)[mask], expected)
    pooling.normalize_first = True
    assert not torch.allclose(pooling.reason(vectors, mask)[mask], expected)


def test_both_gives_what_reason_and_forward_give_each_region_in_its_place() -> None:
    pooling = build("vsrn", 6).eval()
    vectors, mask = pad(SETS, length=9, holes=True)
    regions, image = pooling.both(vectors, mask)
    assert torch.equal(regions, pooling.reason(vectors, mask))
    assert torch.equal(image, pooling(vectors, mask))
    assert (regions[~mask] == 0).all()
    torch.testing.assert_close(regions[mask], pooling.reason(*pad(SETS))[pad(SETS).mask])
