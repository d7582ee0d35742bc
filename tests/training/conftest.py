"""A tiny collection in the precomputed format, and settings that learn it in a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

COLOURS = ("red", "green", "blue", "black", "white", "pink")
THINGS = ("dog", "cat", "boat", "tree", "car", "hat")


def write_precomputed(folder: Path, n: int = 36, captions: int = 2, dim: int = 16, seed: int = 0) -> Path:
    """Pictures of one coloured thing each: a noisy feature and captions that name colour and thing."""
    rng = np.random.default_rng(seed)
    colours, things = rng.normal(size=(6, dim)), rng.normal(size=(6, dim))
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", n), ("dev", 18), ("test", 18)):
        which = [(i % 6, (i // 6 + i) % 6) for i in range(count)]
        features = np.stack([colours[a] + things[b] for a, b in which]) + 0.1 * rng.normal(size=(count, dim))
        np.save(folder / f"{split}_ims.npy", features.astype(np.float32))
        texts = [t for a, b in which for t in (f"a {COLOURS[a]} {THINGS[b]}", f"the {THINGS[b]} is {COLOURS[a]}")]
        (folder / f"{split}_caps.txt").write_text("\n".join(texts[: count * captions]) + "\n")
    return folder


TINY: dict[str, Any] = {
    "model": {
        "dim": 24,
        "image": {"encoder": "precomputed", "pooling": "single"},
        "text": {"encoder": {"kind": "gru", "word_dim": 8, "dim": 24, "min_count": 1}, "pooling": "last"},
    },
    "stages": {
        "first": {
            "epochs": 3,
            "batch_size": 8,
            "loss": {"kind": "sum_of_hinges"},
            "optimiser": {"kind": "adam", "lr": 0.01},
        },
        "second": {
            "epochs": 2,
            "batch_size": 8,
            "start": "best",
            "loss": {"kind": "max_of_hinges"},
            "optimiser": {"kind": "sgd", "lr": 0.01},
            "freeze": ["text.encoder"],
        },
    },
}


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    return write_precomputed(tmp_path / "data")


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY, sort_keys=False))
    return path
