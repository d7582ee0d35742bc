from __future__ import annotations

import builtins
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.export.conftest import CNN, shaken

from vsekit import progress, threads
from vsekit.data.views import normalised
from vsekit.encoders.image import encoder_settings
from vsekit.encoders.image.detector_regions import DetectorRegions
from vsekit.engines import images
from vsekit.engines.images import TorchImages, compiled, graph_of, image_engine
from vsekit.errors import UserError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path))
    return tmp_path


def encoder(**change: Any) -> Any:
    torch.manual_seed(0)
    return shaken(encoder_settings(CNN | change).build())


def crops(count: int = 5, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)


def test_features_are_torchs_and_a_second_engine_comes_from_the_cache(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = encoder(output="grid")
    vectors, mask = compiled(own)(crops())
    pixels = torch.from_numpy(crops()).permute(0, 3, 1, 2)
    with torch.inference_mode():
        wanted = own(normalised(pixels, own.mean, own.std)).vectors
    torch.testing.assert_close(vectors, wanted, atol=1e-5, rtol=1e-5)
    assert mask.shape == (5, 64)
    assert mask.all()
    with monkeypatch.context() as patch:
        patch.setattr(images, "write_graph", None)  # not called again
        again, _ = compiled(own)(crops()[:1])
    torch.testing.assert_close(again, vectors[:1], atol=1e-6, rtol=0)
    (file,) = (cache / "engines").glob("*.onnx")
    assert file == graph_of(own)
    whole = file.read_bytes()
    middle = len(whole) // 2
    for damaged in (b"damaged", whole[:middle] + bytes([whole[middle] ^ 64]) + whole[middle + 1 :], whole[:-1]):
        file.write_bytes(damaged)
        torch.testing.assert_close(compiled(own)(crops()).vectors, vectors, atol=1e-6, rtol=0)
    shaken(own, seed=1)
    assert (compiled(own)(crops()).vectors - vectors).abs().max() > 0.01
    assert len(list((cache / "engines").glob("*.onnx"))) == 2


def test_the_same_weights_with_another_output_have_a_graph_of_their_own() -> None:
    given = {output: encoder(output=output) for output in ("grid", "pooled", "flat")}
    for one in given.values():
        one.load_state_dict(given["grid"].state_dict())
    for one in given.values():
        np.testing.assert_allclose(compiled(one)(crops()).vectors, TorchImages(one)(crops()).vectors, atol=1e-5)


def test_regions_of_a_detector_name_its_graph() -> None:
    settings = encoder_settings({"kind": "detector_regions", "detector": "x", "backbone": CNN, "regions": 4})
    one, same, fewer = (
        DetectorRegions(torch.nn.Identity(), encoder(output="grid"), settings.model_copy(update=change))
        for change in ({}, {}, {"regions": 3})
    )
    assert graph_of(one) == graph_of(same) != graph_of(fewer)


class OneBox(torch.nn.Module):
    """A detector whose boxes follow the picture: one around its middle, one at the left as wide as it is red."""

    config = SimpleNamespace(num_labels=2)

    def forward(self, pixel_values: torch.Tensor) -> SimpleNamespace:
        red = pixel_values.mean((2, 3))[:, :1]
        middle, left = (
            red.expand(-1, 4) * 0 + 0.5,
            torch.cat([red / 4 + 0.3, red * 0 + 0.5, red / 2, red * 0 + 1], 1),
        )
        logits = torch.cat([red * 0 + 2, red * 0 - 1, red * 0 - 1, red * 0 + 1], 1).unflatten(1, (2, 2))
        return SimpleNamespace(logits=logits, pred_boxes=torch.stack([middle, left], 1))


def test_an_encoder_of_regions_gives_torchs_boxes(cache: Path) -> None:
    settings = {"kind": "detector_regions", "detector": "x", "backbone": CNN, "mean": (0, 0, 0), "std": (1, 1, 1)}
    own = DetectorRegions(OneBox(), encoder(output="grid"), encoder_settings(settings)).eval()
    (wanted, _), boxes = TorchImages(own).with_boxes(crops())
    (vectors, mask), found = compiled(own).with_boxes(crops())
    np.testing.assert_allclose(vectors, wanted, atol=1e-5)
    assert boxes is not None
    assert found is not None
    np.testing.assert_allclose(found, boxes, atol=1e-6)
    assert (
        len({round(float(box), 6) for box in found[:, 1, 2]}) > 1
    )  # of these pictures, not of the ones it was written with
    assert mask.all()


def test_a_graph_of_another_encoder_under_this_ones_name_is_written_anew() -> None:
    own, other = encoder(), shaken(encoder(), seed=1)
    wanted = compiled(own)(crops()).vectors
    compiled(other)
    graph_of(own).write_bytes(graph_of(other).read_bytes())
    torch.testing.assert_close(compiled(own)(crops()).vectors, wanted, atol=1e-6, rtol=0)


def test_an_engine_that_differs_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "AGREEMENT", -1.0)
    with pytest.raises(UserError, match="other features than torch"):
        compiled(encoder())
    assert not list((cache / "engines").glob("*.onnx"))


def test_many_crops_are_spread_over_threads_and_keep_their_order_and_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "choose", lambda most: 3)
    engine = compiled(encoder())
    assert engine.at_once == 3
    many = crops(29)
    alone = torch.cat([engine(many[start : start + 8]).vectors for start in (0, 8, 16, 24)])
    assert torch.equal(engine.spread(many).vectors, alone)
    assert engine.spread(many).mask.shape == (29, 1)


def test_a_graph_that_is_there_is_used_without_counting_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    own = encoder()
    compiled(own)
    monkeypatch.setattr(TorchImages, "__call__", None)  # counting runs the encoder
    assert image_engine(own, math.inf).name == "onnxruntime"


def test_work_is_noted_beside_the_graph_and_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    own = encoder()
    operations = 2 * 9 * (3 * 4 * 16 * 16 + 4 * 8 * 8 * 8 + 8 * 8 * 8 * 8)  # as below
    compiled(own)
    monkeypatch.setattr(TorchImages, "__call__", None)
    assert image_engine(own, images.WORTH / operations - 1).name == "torch"
    assert image_engine(own, images.WORTH / operations + 1).name == "onnxruntime"


def test_torch_runs_what_is_not_worth_a_graph(cache: Path) -> None:
    own = encoder()
    assert image_engine(own, 100).name == "torch"
    # Two 3 × 3 convolutions of stride 2 on 32 px and one at the last size, each 2 · 9 operations an input, output and cell.
    operations = 2 * 9 * (3 * 4 * 16 * 16 + 4 * 8 * 8 * 8 + 8 * 8 * 8 * 8)
    assert image_engine(own, images.WORTH / operations - 1).name == "torch"
    assert not (cache / "engines").exists()
    assert image_engine(own, images.WORTH / operations + 1).name == "onnxruntime"
    assert image_engine(own, 1e9, begun_with="torch").name == "torch"
    assert image_engine(own, 1, begun_with="onnxruntime").name == "onnxruntime"


@pytest.mark.parametrize("missing", ["onnxruntime", "onnxscript"])
def test_torch_stands_in_where_a_package_is_missing_and_that_is_said_once(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_said", set())
    found = builtins.__import__

    def absent(name: str, *rest: Any) -> Any:
        if name == missing:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    own = encoder()
    for _ in range(2):
        assert isinstance(image_engine(own, 1e9), TorchImages)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "runs in torch" in said
    assert f"'{missing}', which is not installed" in said
    assert "pip install 'vsekit[onnx]'" in said


def test_torch_stands_in_for_an_onnxruntime_that_is_too_old(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_said", set())
    monkeypatch.setattr("onnxruntime.__version__", "1.14.1")
    assert image_engine(encoder(), 1e9).name == "torch"
    said = capsys.readouterr().err
    assert "onnxruntime 1.14.1 is too old, 1.20 or newer is needed" in said
    assert "pip install --upgrade 'vsekit[onnx]'" in said


def test_an_encoder_that_is_no_graph_runs_in_torch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Asking(type(encoder())):  # type: ignore[misc]
        def forward(self, pixels: torch.Tensor) -> Any:
            return super().forward(pixels + 1 if float(pixels.mean()) > 0 else pixels)

    own = encoder()
    own.__class__ = Asking
    engine = image_engine(own, 1e9)
    assert engine.name == "torch"
    assert engine(crops()).vectors.shape[:2] == (5, 1)
    assert "can't be written as an ONNX graph" in capsys.readouterr().err
