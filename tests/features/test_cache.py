from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.training.conftest import TINY

from vsekit.data.readers import read
from vsekit.parts import merged
from vsekit.search.indexing import index
from vsekit.search.stores import open_store
from vsekit.training.loop import train
from vsekit.training.settings import RunSettings

VIEW = {"kind": "1C", "resize": 20, "pixels": 16}
FROZEN = {
    "model": {"image": {"encoder": {"kind": "small_cnn", "widths": [4, 8], "pixels": 16}, "pooling": "single"}},
    "data": {"view": VIEW, "eval_view": VIEW},
    "stages": {"first": {"epochs": 1, "freeze": ["image.encoder"]}, "second": None},
}


def test_an_index_after_training_encodes_no_picture_of_the_training_set_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for split, count in (("train", 9), ("val", 4)):
        (tmp_path / "data" / split).mkdir(parents=True)
        for i in range(count):
            path = tmp_path / "data" / split / f"{i}.png"
            Image.fromarray(rng.integers(0, 256, (25, 30, 3), dtype=np.uint8)).save(path)
            path.with_suffix(".txt").write_text(f"a dog {i}\n")
    train(RunSettings.model_validate(merged(TINY, FROZEN)), read(tmp_path / "data"), tmp_path / "run")
    pictures = tmp_path / "data" / "train"
    found = index(tmp_path / "run", pictures, tmp_path / "with")
    assert (found.added, found.encoded) == (9, 0)
    both = index(tmp_path / "run", tmp_path / "data", tmp_path / "both")
    assert (both.added, both.encoded) == (13, 4)  # a small network's validation pictures are not kept
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "empty"))
    assert index(tmp_path / "run", pictures, tmp_path / "without").encoded == 9
    vectors = []
    for name in ("with", "without"):
        with open_store(tmp_path / name) as store:
            items = sorted(store.all_items("image"), key=lambda item: item.path)
            vectors.append(store.vectors([item.id for item in items]))
    np.testing.assert_allclose(*vectors, atol=1e-5)
