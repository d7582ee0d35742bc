"""What an image tower reads: features with an axis of views, kept apart or averaged, and pixels, agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models.conftest import CNN, WORDS, settings

from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.data.views import ViewSettings
from vsekit.engines import images
from vsekit.errors import UserError
from vsekit.features.extraction import extract
from vsekit.models.embed import embed_images
from vsekit.models.embedder import Embedder
from vsekit.models.inputs import FeatureInputs, PixelInputs, image_inputs
from vsekit.models.model import VSE

MIRRORED = ViewSettings.model_validate({"kind": "1C", "resize": 20, "pixels": 16, "flip": True})
HEAD = {"kind": "fc_bn_relu_fc", "hidden": 10, "dropout": 0.0}


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pairs:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    pictures = []
    for i in range(5):
        path = tmp_path / f"{i}.png"
        Image.fromarray(rng.integers(0, 256, (24, 20, 3), dtype=np.uint8)).save(path)
        pictures.append(Picture(path.name, path, "test", path.name))
    return Pairs(pictures, [Caption("a red wall", i) for i in range(5)], tmp_path)


def model(average_views: str) -> VSE:
    torch.manual_seed(0)
    return VSE(settings(image={"encoder": CNN, "head": HEAD, "average_views": average_views}), WORDS, MIRRORED).eval()


@pytest.mark.parametrize("average_views", ["before_head", "after_head"])
def test_kept_features_and_pixels_give_the_same_embeddings(pairs: Pairs, average_views: str) -> None:
    net = model(average_views)
    pixels = embed_images(net, PixelInputs(pairs, MIRRORED, net.image.encoder, training=False), 5)
    cached = image_inputs(net, pairs, MIRRORED, training=True)  # a frozen encoder's features are kept
    assert isinstance(cached, FeatureInputs)
    torch.testing.assert_close(embed_images(net, cached, 5), pixels, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("average_views", ["before_head", "after_head"])
def test_an_encoder_that_does_not_change_runs_through_onnxruntime_and_gives_the_same(
    pairs: Pairs, average_views: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra 'onnx'")
    monkeypatch.setattr(images, "WORTH", 0)
    monkeypatch.setattr(images, "FEW", 0)
    net = model(average_views)
    compiled = image_inputs(net, pairs, MIRRORED)
    assert isinstance(compiled, PixelInputs)
    assert compiled.engine is not None
    assert compiled.engine.name == "onnxruntime"
    pixels = PixelInputs(pairs, MIRRORED, net.image.encoder, training=False)
    wanted = embed_images(net, pixels, 5)
    torch.testing.assert_close(embed_images(net, compiled, 5), wanted, rtol=1e-5, atol=1e-5)
    paths = [picture.path for picture in pairs.pictures]
    np.testing.assert_allclose(Embedder(net).encode_images(paths), wanted, rtol=1e-5, atol=1e-5)
    changing = image_inputs(net, pairs, MIRRORED, frozen=False)
    assert isinstance(changing, PixelInputs)
    assert changing.engine is None


def test_where_the_views_meet_matters(pairs: Pairs) -> None:
    before, after = (
        embed_images(net := model(where), image_inputs(net, pairs, MIRRORED, training=True), 5)
        for where in ("before_head", "after_head")
    )
    assert (before - after).abs().max() > 1e-3


def test_features_that_are_averages_are_refused_after_the_head(pairs: Pairs, tmp_path: Path) -> None:
    net = model("after_head")
    averaged = extract(net.image.encoder, CNN, pairs.pictures, MIRRORED, tmp_path / "mean").attach(pairs)
    with pytest.raises(UserError, match="mean of 2 views"):
        image_inputs(net, averaged, MIRRORED)
    kept = extract(net.image.encoder, CNN, pairs.pictures, MIRRORED, tmp_path / "kept", keep_views=True).attach(pairs)
    loaded, _ = image_inputs(net, kept, MIRRORED).load(np.arange(2), np.random.default_rng(0))
    assert loaded.vectors.shape == (2, 2, 1, 128)
    assert loaded.mask.shape == (2, 2, 1)
    mean, _ = image_inputs(model("before_head"), kept, MIRRORED).load(np.arange(2), np.random.default_rng(0))
    torch.testing.assert_close(mean.vectors, loaded.vectors.mean(1))


def test_of_random_crops_training_draws_one_and_evaluation_reads_all(pairs: Pairs) -> None:
    features = np.arange(5 * 3 * 4, dtype=np.float32).reshape(5, 3, 4)
    pictures = [replace(picture, row=i) for i, picture in enumerate(pairs.pictures)]
    crops = replace(pairs, pictures=pictures, features=features, feature_crops=True)
    rng = np.random.default_rng(0)
    drawn, _ = FeatureInputs(crops, training=True, keep_views=True).load(np.arange(5), rng)
    assert drawn.vectors.shape == (5, 1, 4)
    assert all(any(np.array_equal(one[0], crop) for crop in row) for one, row in zip(drawn.vectors.numpy(), features))
    kept, _ = FeatureInputs(crops, keep_views=True).load(np.arange(5), rng)
    np.testing.assert_array_equal(kept.vectors[:, :, 0].numpy(), features)
    mean, _ = FeatureInputs(crops).load(np.arange(5), rng)
    np.testing.assert_allclose(mean.vectors[:, 0].numpy(), features.mean(1))
