"""Two tiny runs, trained once: one on features alone, one that attends to cells of pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from PIL import Image
from tests.training.conftest import TINY, write_precomputed

from vsekit.data.readers import read
from vsekit.parts import merged
from vsekit.training.loop import train
from vsekit.training.settings import RunSettings

ATTENDING: dict[str, Any] = {
    "model": {
        "image": {
            "encoder": {"kind": "small_cnn", "widths": [8, 8], "pixels": 16, "output": "grid"},
            "pooling": "none",
        },
        "text": {"pooling": "none"},
        "similarity": {"kind": "scan"},
    },
    "data": {
        "view": {"kind": "1C", "resize": 20, "pixels": 16},
        "eval_view": {"kind": "1C", "resize": 20, "pixels": 16},
    },
    "stages": {"first": {"epochs": 2, "loss": {"kind": "adaptive_objective"}}, "second": None},
}
HOSTILE = "<script>alert(1)</script> & a wall"


class Trained(NamedTuple):
    run: Path
    data: Path


@pytest.fixture(scope="session")
def features_run(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("features")
    data = write_precomputed(folder / "data")
    settings = RunSettings.model_validate(merged(TINY, {"stages": {"first": {"epochs": 12}, "second": None}}))
    train(settings, read(data), folder / "run")
    return Trained(folder / "run", data)


@pytest.fixture(scope="session")
def attending_run(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Pictures of walls in three colours; every third caption is hostile."""
    folder = tmp_path_factory.mktemp("pictures")
    colours = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220)}
    for split, count in (("train", 12), ("val", 6), ("test", 6)):
        (folder / "walls" / split).mkdir(parents=True)
        for i in range(count):
            name = list(colours)[i % 3]
            shade = tuple(max(0, c - 5 * i) for c in colours[name])
            Image.new("RGB", (30, 24), shade).save(folder / "walls" / split / f"{i}.jpg")
            text = HOSTILE if i % 3 == 2 else f"a {name} wall"
            (folder / "walls" / split / f"{i}.txt").write_text(f"{text}\n")
    settings = RunSettings.model_validate(merged(TINY, ATTENDING))
    train(settings, read(folder / "walls"), folder / "run")
    return Trained(folder / "run", folder / "walls")
