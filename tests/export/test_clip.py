from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.export.conftest import cosines
from tests.export.test_folder import TEXTS as README_TEXTS
from tests.export.test_folder import run_readme
from tests.search.test_models import write_clip

from vsekit.errors import UserError
from vsekit.export.clip import CLIPSource, steps_of
from vsekit.export.folder import export_onnx
from vsekit.export.preparation import Steps
from vsekit.export.runtime import open_exported
from vsekit.export.sources import read_source
from vsekit.search.models import load_search_model

TEXTS = ["a dog", "x", "two men play football in the snow and then go home"]


@pytest.mark.parametrize("siglip", [pytest.param(False, marks=pytest.mark.slow), True])
def test_models_like_clip_give_the_vectors_of_transformers(tmp_path: Path, pictures: list[Path], siglip: bool) -> None:
    folder = write_clip(tmp_path / "clip", siglip)
    written = export_onnx(folder, tmp_path / "onnx")
    model, there = load_search_model(folder), open_exported(tmp_path / "onnx")
    assert there.fingerprint == model.fingerprint
    assert written.dim == there.dim == model.dim
    for size in (1, 3):
        assert cosines(there.encode_texts(TEXTS, size), model.encode_texts(TEXTS)).min() > 1 - 1e-4
    shown = [Image.open(path).convert("RGB") for path in pictures[:4]]
    assert cosines(there.encode_images(shown), model.encode_images(shown)).min() > 1 - 1e-4
    texts, images = run_readme(tmp_path / "onnx", pictures[:3])
    assert cosines(images, model.encode_images(pictures[:3])).min() > 1 - 1e-4
    assert cosines(texts, model.encode_texts(README_TEXTS)).min() > 1 - 1e-4


@pytest.mark.parametrize(
    "options",
    [
        {"size": {"shortest_edge": 24}, "crop_size": {"height": 20, "width": 24}},
        {"size": {"shortest_edge": 16}, "crop_size": {"height": 32, "width": 31}},
        {"size": {"height": 20, "width": 30}, "do_center_crop": False, "resample": 2},
    ],
)
def test_steps_are_those_of_the_processor(options: dict[str, Any]) -> None:
    from transformers import CLIPImageProcessor

    processor = CLIPImageProcessor(do_normalize=False, do_rescale=False, **options)
    prepare, rng = Steps(**steps_of(processor, "x")), np.random.default_rng(0)
    for height, width in ((40, 60), (61, 30), (32, 32), (17, 90)):
        image = Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
        wanted = np.asarray(processor(images=image, return_tensors="np")["pixel_values"][0]).transpose(1, 2, 0)
        np.testing.assert_array_equal(prepare(image)[0], wanted)


def test_processors_of_no_fixed_size_are_refused() -> None:
    from transformers import CLIPImageProcessor

    with pytest.raises(UserError, match="no fixed size"):
        steps_of(CLIPImageProcessor(size={"shortest_edge": 24}, do_center_crop=False), "x")


def test_transformers_models_without_a_common_space_are_refused(tmp_path: Path, tiny_bert: Path) -> None:
    with pytest.raises(UserError, match=r"has no common space|no model"):
        read_source(tiny_bert)
    assert isinstance(read_source(write_clip(tmp_path / "clip")), CLIPSource)
