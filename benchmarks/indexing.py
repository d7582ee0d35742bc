"""Indexing beside the bare encoder: what walking, reading, decoding and writing cost on top; and a run with nothing to do."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from benchmarks.features import generated
from vsekit.data.text import Vocabulary
from vsekit.data.views import ViewSettings
from vsekit.models.model import VSE
from vsekit.models.settings import ModelSettings
from vsekit.search.calibration import calibrate
from vsekit.search.indexing import index
from vsekit.search.models import VSEModel
from vsekit.search.stores import open_store


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """Images a second of `index` (EfficientNet-lite0 1C, an embedded store), without the second that calibration takes at
    the end whatever the number of pictures, and of its encoder alone on pictures in memory. Wall time, which other
    programs disturb; so also: cpu_ratio, the same by CPU time, in which decoding counts though another core may do it; and
    busy, the share of the time from the first batch to the last in which the encoder was at work."""
    with tempfile.TemporaryDirectory() as folder:
        return [_encoding(Path(folder), max(64, int(480 * scale))), _nothing_to_do(Path(folder), int(10_000 * scale))]


def _model(encoder: dict[str, Any], dim: int, view: dict[str, Any]) -> VSEModel:
    text = {"encoder": {"kind": "gru", "word_dim": 16, "dim": 64}, "pooling": "last"}
    settings = {"dim": dim, "image": {"encoder": encoder, "pooling": "single"}, "text": text}
    words = Vocabulary(["a", "dog"])
    return VSEModel(VSE(ModelSettings.model_validate(settings), words, ViewSettings.model_validate(view)), "benchmark")


def _encoding(folder: Path, count: int) -> dict[str, Any]:
    for name, n in (("photos", count), ("few", 8)):
        (folder / name).mkdir()
        generated(folder / name, n)
    model = _model({"kind": "efficientnet_lite"}, 256, {"kind": "1C"})
    batch = [np.random.default_rng(0).integers(0, 256, (1, 224, 224, 3), dtype=np.uint8)] * model.batch_size
    embed, batches = model.embed, count // model.batch_size // 2
    calls: list[tuple[float, float]] = []

    def bare() -> np.ndarray:
        before = _now()
        for _ in range(batches):
            embed(batch)
        return _now() - before

    def timed(prepared: Any) -> np.ndarray:
        start = time.perf_counter()
        result = embed(prepared)
        calls.append((start, time.perf_counter()))
        return result

    index(model, folder / "few", folder / "few-index")  # imports and the like
    encoder = ThreadPoolExecutor(1)  # as when indexing: on a busy machine torch spins in the main thread
    yardstick = encoder.submit(bare).result()
    model.embed = timed  # type: ignore[method-assign]
    before = _now()
    report = index(model, folder / "photos", folder / "index")
    whole = _now() - before
    assert report.encoded == count
    yardstick += encoder.submit(bare).result()
    with open_store(folder / "index") as store:
        before = _now()
        calibrate(store, model)
        whole -= _now() - before
    rate, bare_rate = count / whole, 2 * batches * model.batch_size / yardstick
    return {
        "name": f"index {count} JPEGs, EfficientNet-lite0 1C, {torch.get_num_threads()} threads",
        "cpu_s": whole[1],
        "rate": rate[0],
        "yardstick": f"the bare encoder, {bare_rate[0]:.1f} images/s",
        "ratio": rate[0] / bare_rate[0],
        "target": 0.9,
        "cpu_ratio": rate[1] / bare_rate[1],
        "busy": sum(end - start for start, end in calls) / (calls[-1][1] - calls[0][0]),
    }


def _now() -> np.ndarray:
    """Wall and CPU time."""
    return np.array([time.perf_counter(), time.process_time()])


def _nothing_to_do(folder: Path, count: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    for i in range(count):
        place = folder / "tiny" / f"{i // 500}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(place / f"{i}.png")
    view = {"kind": "1C", "resize": 16, "pixels": 16}
    model = _model({"kind": "small_cnn", "widths": [4, 8], "pixels": 16}, 64, view)
    index(model, folder / "tiny", folder / "tiny-index")
    before = _now()
    report = index(model, folder / "tiny", folder / "tiny-index")
    assert report.unchanged == count
    wall, cpu = _now() - before
    return {"name": f"index {count} unchanged files again", "cpu_s": cpu, "wall_s": wall}


if __name__ == "__main__":
    for row in run():
        print(row)
