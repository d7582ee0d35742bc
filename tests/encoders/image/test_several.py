from __future__ import annotations

import pytest
import torch
from torch import nn

from vsekit.encoders.base import ImageEncoder
from vsekit.encoders.image import encoder_settings
from vsekit.encoders.image.several import Several
from vsekit.errors import UserError
from vsekit.parts import Sets

SMALL = {"kind": "small_cnn", "widths": [4, 8], "pixels": 16}


class Mean(ImageEncoder):
    """The mean of each channel, of values in 0…1 if its own mean and std were used."""

    dim = 3

    def __init__(self, pixels: int, mean: float, std: float, package: str | None = None) -> None:
        super().__init__()
        self.pixels, self.weights_from = pixels, package
        self.mean, self.std = (mean,) * 3, (std,) * 3

    def forward(self, pixels: torch.Tensor) -> Sets:
        assert pixels.shape[2:] == (self.pixels, self.pixels)
        vectors = (pixels.mean((2, 3)) * self.std[0] + self.mean[0])[:, None]
        return Sets(vectors, torch.ones(len(pixels), 1, dtype=torch.bool))


def test_every_member_sees_the_picture_at_its_own_size_and_normalised_its_own_way() -> None:
    encoder = Several([Mean(8, 0.5, 0.5), Mean(4, 0.2, 0.1)], "features")
    values = torch.rand(2, 3, 1, 1).expand(2, 3, 8, 8)  # of one colour, so that shrinking keeps the mean
    vectors = encoder((values - 0.5) / 0.5).vectors
    mean = values.mean((2, 3))
    torch.testing.assert_close(vectors, torch.cat([mean, mean], 1)[:, None])
    assert (encoder.pixels, encoder.dim) == (8, 6)


def test_a_member_of_the_largest_size_gives_what_it_gives_alone() -> None:
    settings = encoder_settings({"kind": "several", "members": [SMALL, {**SMALL, "pixels": 8}]})
    encoder = settings.build().eval()
    pixels = torch.randn(3, 3, 16, 16)
    alone = encoder.members[0](pixels).vectors
    torch.testing.assert_close(encoder(pixels).vectors[..., : alone.shape[-1]], alone)


def test_sets_of_all_members_come_in_one_set() -> None:
    grid = {**SMALL, "output": "grid"}
    encoder = encoder_settings({"kind": "several", "join": "sets", "members": [grid, {**grid, "pixels": 8}]}).build()
    sets = encoder.eval()(torch.randn(2, 3, 16, 16))
    assert sets.vectors.shape[1] == sum(
        member(torch.randn(1, 3, member.pixels, member.pixels)).vectors.shape[1] for member in encoder.members
    )
    assert sets.mask.all()


def test_what_cannot_be_joined_is_refused() -> None:
    other = {**SMALL, "widths": [4, 16]}
    with pytest.raises(UserError, match="can't share a set"):
        encoder_settings({"kind": "several", "join": "sets", "members": [SMALL, other]}).build()
    grids = encoder_settings({"kind": "several", "members": [{**SMALL, "output": "grid"}]}).build()
    with pytest.raises(UserError, match="more than one vector"):
        grids(torch.randn(1, 3, 16, 16))


def test_weights_stay_out_of_the_model_only_when_all_come_from_packages() -> None:
    assert Several([Mean(8, 0, 1, "a"), Mean(8, 0, 1, "b")], "features").weights_from == "a, b"
    assert Several([Mean(8, 0, 1, "a"), Mean(8, 0, 1)], "features").weights_from is None


def test_members_can_be_frozen_one_by_one() -> None:
    encoder = encoder_settings({"kind": "several", "members": [SMALL, SMALL]}).build()
    assert encoder.parts() == list(encoder.members)
    assert all(isinstance(part, nn.Module) for part in encoder.parts())
