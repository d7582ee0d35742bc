"""Training over one and two processes: pairs a second of `vse train --devices N`, VSE++ at the paper's sizes, one thread each.

Efficiency is the rate of N processes over N times that of one. Wall time, since waiting is what is measured: other work on the
machine spoils it, and two processes need two idle cores. Target: 0.8.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.training import collection
from vsekit.recipes import load_settings, merged

EPOCHS = 3


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """Args: scale: of the collection."""
    with tempfile.TemporaryDirectory() as folder:
        data, recipe = Path(folder) / "data", Path(folder) / "recipe.yaml"
        _write(data, max(60, round(800 * scale)))
        recipe.write_text(yaml.safe_dump(_settings()))
        rates = {n: _rate(n, recipe, data, Path(folder) / f"run{n}") for n in (1, 2)}
    return [
        {
            "name": f"vse train --devices {n}, VSE++ pairs/s",
            "rate": rate,
            "yardstick": n * rates[1],
            "ratio": rate / (n * rates[1]),
            "target": 0.8,
        }
        for n, rate in rates.items()
    ]


def _write(folder: Path, pictures: int) -> None:
    """The collection of `benchmarks.training` in the precomputed format."""
    folder.mkdir()
    pairs = collection(pictures)
    assert pairs.features is not None
    for split, name in (("train", "train"), ("val", "dev"), ("val", "test")):
        chosen = [i for i, picture in enumerate(pairs.pictures) if picture.split == split]
        np.save(folder / f"{name}_ims.npy", pairs.features[chosen])
        texts = [caption.text for caption in pairs.captions if caption.picture in set(chosen)]
        (folder / f"{name}_caps.txt").write_text("\n".join(texts) + "\n")


def _settings() -> dict[str, Any]:
    change = {
        "model": {
            "image": {"encoder": {"kind": "precomputed"}},
            "text": {"head": "identity", "encoder": {"min_count": 1}},
        },
        "stages": {"fixed": {"epochs": EPOCHS, "freeze": [], "validate_every": EPOCHS}},
    }
    return merged(load_settings("vsepp:1.6").model_dump(mode="json"), change)


def _rate(processes: int, recipe: Path, data: Path, out: Path) -> float:
    """Pairs a second of the fastest epoch."""
    command = ["-m", "vsekit", "train", str(recipe), "--data", str(data), "--out", str(out), "--quiet", "--no-report"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    more = ["--devices", str(processes)]
    subprocess.run([sys.executable, *command, *more], env=environment, check=True, stdout=subprocess.DEVNULL)
    lines = map(json.loads, (out / "timings.jsonl").read_text().splitlines())
    return max(line["pairs_per_s"] for line in lines if "pairs_per_s" in line)
