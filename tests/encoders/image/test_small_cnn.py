from __future__ import annotations

import pytest
import torch
from pydantic import TypeAdapter

from vsekit.encoders.image import ImageEncoderSettings
from vsekit.encoders.image.small_cnn import SmallCNNSettings
from vsekit.errors import UserError


def test_the_bare_name_builds_it() -> None:
    settings = TypeAdapter(ImageEncoderSettings).validate_python("small_cnn")
    assert settings == SmallCNNSettings()


@pytest.mark.parametrize(("output", "places", "dim"), [("pooled", 1, 128), ("grid", 16, 128), ("flat", 1, 2048)])
def test_shapes_follow_the_output(output: str, places: int, dim: int) -> None:
    encoder = SmallCNNSettings.model_validate({"output": output}).build().eval()
    vectors, mask = encoder(torch.randn(2, 3, 64, 64))
    assert vectors.shape == (2, places, dim)
    assert encoder.dim == dim
    assert mask.shape == (2, places)
    assert mask.all()


def test_the_three_outputs_are_one_grid() -> None:
    pixels = torch.randn(3, 3, 32, 32)
    outputs = {}
    for output in ("pooled", "grid", "flat"):
        torch.manual_seed(0)
        encoder = SmallCNNSettings.model_validate({"output": output, "pixels": 32, "widths": [4, 8]}).build().eval()
        outputs[output] = encoder(pixels).vectors
    torch.testing.assert_close(outputs["grid"].mean(1), outputs["pooled"][:, 0])
    torch.testing.assert_close(outputs["grid"].transpose(1, 2).flatten(1), outputs["flat"][:, 0])


def test_squeezing_keeps_the_maximum_of_neighbouring_cells() -> None:
    pixels = torch.randn(2, 3, 32, 32)
    grids = []
    for squeeze in (1, 2):
        torch.manual_seed(0)
        encoder = SmallCNNSettings(output="grid", pixels=32, widths=(4, 8), squeeze=squeeze).build().eval()
        grids.append(encoder(pixels).vectors)
    fine = grids[0].reshape(2, 4, 2, 4, 2, 8)  # row, row within, column, column within
    torch.testing.assert_close(fine.amax((2, 4)).reshape(2, 16, 8), grids[1])


def test_cells_stand_row_by_row() -> None:
    """A spot in the upper right corner lights the last cell of the first row more than any other."""
    torch.manual_seed(0)
    encoder = SmallCNNSettings(output="grid", pixels=64, widths=(8, 8, 8, 8)).build().eval()
    dark = torch.zeros(1, 3, 64, 64)
    spot = dark.clone()
    spot[:, :, 2:8, 56:62] = 3.0
    change = (encoder(spot).vectors - encoder(dark).vectors).norm(dim=-1)[0]
    assert change.argmax() == 3


def test_the_parts_hold_every_weight_once() -> None:
    encoder = SmallCNNSettings().build()
    in_parts = [id(p) for part in encoder.parts() for p in part.parameters()]
    assert sorted(in_parts) == sorted(id(p) for p in encoder.parameters())


def test_it_learns_what_stands_where() -> None:
    """Which of four corners is red: chance is 0.25; position must survive the pooling-free output."""
    torch.manual_seed(0)
    corner = torch.arange(64) % 4
    pixels = 0.3 * torch.randn(64, 3, 32, 32)
    for i, c in enumerate(corner):
        pixels[i, 0, 16 * (c // 2) :, 16 * (c % 2) :][:16, :16] += 1.0
    encoder = SmallCNNSettings(pixels=32, widths=(8, 16, 16)).build()
    classify = torch.nn.Linear(encoder.dim, 4)
    optimiser = torch.optim.Adam([*encoder.parameters(), *classify.parameters()], lr=1e-2)
    for _ in range(15):
        loss = torch.nn.functional.cross_entropy(classify(encoder(pixels).vectors[:, 0]), corner)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    encoder.eval()
    assert (classify(encoder(pixels).vectors[:, 0]).argmax(1) == corner).float().mean() > 0.95


def test_a_size_that_cannot_be_halved_is_refused() -> None:
    with pytest.raises(UserError, match="multiple of 16"):
        SmallCNNSettings(pixels=40).build()
