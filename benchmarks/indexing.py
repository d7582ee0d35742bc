"""Indexing with nothing to do: what walking a folder that has not changed costs."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.features import search_model
from vsekit.data.views import ViewSettings
from vsekit.search.indexing import index


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """A run with nothing to do; what encoding costs stands in `features`."""
    with tempfile.TemporaryDirectory() as folder:
        return [_nothing_to_do(Path(folder), int(10_000 * scale))]


def _now() -> np.ndarray:
    """Wall and CPU time."""
    return np.array([time.perf_counter(), time.process_time()])


def _nothing_to_do(folder: Path, count: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    for i in range(count):
        place = folder / "tiny" / f"{i // 500}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(place / f"{i}.png")
    view = ViewSettings.model_validate({"kind": "1C", "resize": 16, "pixels": 16})
    model = search_model({"kind": "small_cnn", "widths": [4, 8], "pixels": 16}, 64, view)
    index(model, folder / "tiny", folder / "tiny-index")
    before = _now()
    report = index(model, folder / "tiny", folder / "tiny-index")
    assert report.unchanged == count
    wall, cpu = _now() - before
    return {"name": f"index {count} unchanged files again", "cpu_s": cpu, "wall_s": wall}


if __name__ == "__main__":
    for row in run():
        print(row)
