from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.export.conftest import build, cosines

from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.errors import UserError
from vsekit.evaluation.meeting import embedded, model_scorer
from vsekit.evaluation.protocols import evaluate
from vsekit.export.folder import export_onnx
from vsekit.export.int8 import export_int8
from vsekit.export.runtime import open_exported
from vsekit.export.sources import VSESource


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    rng, found, captions = np.random.default_rng(0), [], []
    for number in range(24):
        path = tmp_path / f"{number}.png"
        ground = rng.integers(0, 256, 3)
        Image.fromarray((ground + rng.integers(-40, 40, (40, 50, 3))).clip(0, 255).astype(np.uint8)).save(path)
        found.append(Picture(path.name, path, "train" if number < 12 else "val", path.name))
        captions.append(Caption(["a dog", "a red wall", "a blue dog", "a wall ."][number % 4], number))
    return Pairs(found, captions, tmp_path)


def test_int8_is_smaller_close_and_measured_as_vse_evaluate_measures(tmp_path: Path, pairs: Pairs) -> None:
    model = build(image={"encoder": {"kind": "small_cnn", "widths": [16, 64], "pixels": 32, "output": "pooled"}})
    model.save(tmp_path / "model")
    export_onnx(tmp_path / "model", tmp_path / "plain")
    measured = export_int8(tmp_path / "model", tmp_path / "small", pairs, "val")
    assert measured.size[1] < 0.6 * measured.size[0] == 0.6 * (tmp_path / "plain" / "image.onnx").stat().st_size
    plain, small = open_exported(tmp_path / "plain"), open_exported(tmp_path / "small")
    paths = [picture.path for picture in pairs.pictures]
    close = cosines(small.encode_images(paths), plain.encode_images(paths))
    assert 0.99 < close.min() < 1 - 1e-7
    assert small.fingerprint != plain.fingerprint
    np.testing.assert_array_equal(small.encode_texts(["a dog"]), plain.encode_texts(["a dog"]))
    assert measured.pictures == 12
    val = pairs.split("val")
    scores = model_scorer(model, *embedded(model, val))
    wanted = evaluate(scores, val.picture_groups, val.caption_groups)
    assert measured.recalls[0] == pytest.approx(
        {f"{side} R@{k}": getattr(wanted, side)[f"r{k}"] for side in ("i2t", "t2i") for k in (1, 5, 10)}
        | {"rsum": wanted.rsum}
    )
    assert min(measured.speed) > 0
    assert f"{measured.recalls[1]['rsum']:.1f}" in measured.table()[4]


def test_int8_needs_pictures(tmp_path: Path, pairs: Pairs) -> None:
    source = VSESource(build(image={"encoder": {"kind": "precomputed", "dim": 8}}), "features")
    with pytest.raises(UserError, match="this one reads features"):
        export_int8(source, tmp_path / "out", pairs, "val")
