"""Weights in 16 and 8 bits: what comes back, and what a model in 8 bits gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.models.conftest import CNN, VIEW, WORDS, settings

from vsekit.errors import UserError
from vsekit.models import checksums
from vsekit.models.bits import packed, unpacked
from vsekit.models.model import VSE, load_model

WEIGHTS = {
    "layer.weight": torch.randn(40, 30, generator=torch.Generator().manual_seed(0))
    * torch.logspace(-6, 1, 40)[:, None],
    "filters.weight": torch.linspace(-1, 1, 64 * 3 * 25).view(64, 3, 5, 5),
    "layer.bias": torch.tensor([0.5, -3.0]),
    "few.weight": torch.tensor([[0.25, 1.5]]),
    "zeros.weight": torch.zeros(64, 32),
    "norm.num_batches_tracked": torch.tensor(7),
}


def test_no_number_of_a_row_moves_by_more_than_half_a_step_of_that_row() -> None:
    found = unpacked(packed(WEIGHTS, 8))
    assert found.keys() == WEIGHTS.keys()
    for name in ("layer.weight", "filters.weight", "zeros.weight"):
        for row, was in zip(found[name].numpy(), WEIGHTS[name].numpy()):
            assert np.abs(row - was).max() <= np.abs(was).max() / 127 * 0.50001
    assert found["layer.bias"].tolist() == [0.5, -3.0]
    assert found["few.weight"].tolist() == [[0.25, 1.5]]
    assert found["norm.num_batches_tracked"] == 7


def test_kept_numbers_are_small_and_those_in_32_bits_the_same() -> None:
    kept = packed(WEIGHTS, 8)
    assert kept["layer.weight"].dtype == torch.int8
    assert kept["layer.weight.scale"].shape == (40,)
    assert kept["layer.bias"].dtype == kept["few.weight"].dtype == torch.float16
    assert {weight.dtype for name, weight in packed(WEIGHTS, 16).items() if "norm" not in name} == {torch.float16}
    assert packed(WEIGHTS, 32) is WEIGHTS


@pytest.fixture
def model() -> VSE:
    torch.manual_seed(0)
    return VSE(settings(dim=64, image={"encoder": CNN | {"widths": [16, 128]}}), WORDS, VIEW).eval()


def test_a_model_in_8_bits_gives_nearly_the_same_vectors(model: VSE, tmp_path: Path) -> None:
    model.save(tmp_path / "8", bits=8)
    model.save(tmp_path / "32")
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("8", "32")]
    assert sizes[0] < sizes[1] / 2.5
    few = load_model(tmp_path / "8")
    for name, weight in model.state_dict().items():
        assert few.state_dict()[name].dtype == weight.dtype
    pixels = torch.randn(5, 3, 16, 16)
    with torch.no_grad():
        near = torch.cosine_similarity(few.embed_images(pixels), model.embed_images(pixels))
    assert float(near.min()) > 0.999


def test_a_scale_that_does_not_fit_is_a_damaged_model(model: VSE, tmp_path: Path) -> None:
    model.save(tmp_path, bits=8)
    file = tmp_path / "model.safetensors"
    weights = load_file(file)
    name = next(name for name in weights if name.endswith(".scale"))
    save_file(weights | {name: torch.ones(3)}, file)
    checksums.remember(tmp_path, "model.safetensors")
    with pytest.raises(UserError, match="weights"):
        load_model(tmp_path)
