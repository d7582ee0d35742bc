"""Bulk work on one and two workers of Ray: pictures a second of `vse features efficientnet_lite --engine ray --ray-workers N`.

JPEGs of 500 × 375, counted from the first block that comes back to the last: starting Ray and loading the encoder take the same
time whatever the number of pictures. Efficiency is the rate of N workers over N times that of one; beside one worker stands one
process without Ray, on one thread. Wall time, since waiting is what is measured: other work on the machine spoils it, and two
workers need two idle cores. Target: 0.8.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.features import VIEW, generated
from vsekit.bulk.ray import Ray
from vsekit.data.pairs import Picture
from vsekit.encoders.image.efficientnet_lite import EfficientNetLiteSettings
from vsekit.features.extraction import BATCHES, extract

BATCH, BLOCKS = 8, 24


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """Args: scale: of the number of pictures."""
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        pictures = generated(Path(folder) / "photos", BATCH * BATCHES * max(4, round(BLOCKS * scale)))
        rates = {n: _in_a_process(n, pictures, Path(folder) / f"features{n}") for n in (0, 1, 2)}
    beside = {1: rates[0], 2: 2 * rates[1]}
    return [
        {
            "name": f"vse features --engine ray --ray-workers {n}, pictures/s",
            "rate": rates[n],
            "yardstick": beside[n],
            "ratio": rates[n] / beside[n],
            "target": 0.8,
        }
        for n in (1, 2)
    ]


def _in_a_process(workers: int, pictures: list[Picture], out: Path) -> float:
    """A process of its own: Ray is started in it, and ends with it. No workers: without Ray."""
    pool = multiprocessing.get_context("spawn").Pool(1)
    try:
        return float(pool.apply(_rate, (workers, pictures, out)))
    finally:
        pool.close()  # Ray ends by itself, and complains when it is ended
        pool.join()


def _rate(workers: int, pictures: list[Picture], out: Path) -> float:
    times: dict[int, float] = {}

    def note(done: int, total: int) -> None:
        times[done] = time.monotonic()

    settings = EfficientNetLiteSettings()
    engine = Ray(workers=workers) if workers else None
    extract(settings.build().eval(), settings.model_dump(), pictures, VIEW, out, engine=engine, progress=note)
    first = BATCH * BATCHES  # a block comes back as a whole
    return (max(times) - first) / (times[max(times)] - times[first])
