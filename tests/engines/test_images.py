from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.export.conftest import CNN, shaken

from vsekit.data.views import normalised
from vsekit.encoders.image import encoder_settings
from vsekit.engines import images as engine
from vsekit.engines.images import compiled
from vsekit.errors import UserError


def test_features_are_torchs_and_a_second_engine_comes_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path))
    torch.manual_seed(0)
    encoder = shaken(encoder_settings(CNN | {"output": "grid"}).build())
    crops = np.random.default_rng(1).integers(0, 256, (5, 2, 32, 32, 3), dtype=np.uint8)
    vectors, mask = compiled(encoder, views=2, threads=1)(crops)
    pixels = torch.from_numpy(crops).flatten(0, 1).permute(0, 3, 1, 2)
    with torch.inference_mode():
        wanted = encoder(normalised(pixels, encoder.mean, encoder.std)).vectors.unflatten(0, (5, 2)).mean(1)
    np.testing.assert_allclose(vectors, wanted.numpy(), atol=1e-5, rtol=1e-5)
    assert mask.shape == (5, 64)
    assert mask.all()
    with monkeypatch.context() as patch:
        patch.setattr(engine, "write_graph", None)  # not called again
        again, _ = compiled(encoder, views=2, threads=1)(crops[:1])
    np.testing.assert_allclose(again, vectors[:1], atol=1e-6)
    (file,) = (tmp_path / "engines").glob("*.onnx")
    whole = file.read_bytes()
    middle = len(whole) // 2
    for damaged in (b"damaged", whole[:middle] + bytes([whole[middle] ^ 64]) + whole[middle + 1 :], whole[:-1]):
        file.write_bytes(damaged)
        np.testing.assert_allclose(compiled(encoder, views=2, threads=1)(crops)[0], vectors, atol=1e-6)
    shaken(encoder, seed=1)
    assert np.abs(compiled(encoder, views=2, threads=1)(crops)[0] - vectors).max() > 0.01
    assert len(list((tmp_path / "engines").glob("*.onnx"))) == 2


def test_an_engine_that_differs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = encoder_settings(CNN).build().eval()
    monkeypatch.setattr(engine, "AGREEMENT", -1.0)
    with pytest.raises(UserError, match="other features than torch"):
        compiled(encoder, threads=1, folder=tmp_path)
    assert not list(tmp_path.iterdir())
