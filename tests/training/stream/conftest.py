"""Shards of a few drawn pictures, and settings that learn from them in a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.data.stream.shards import write_shards

STREAMED: dict[str, Any] = {
    "model": {
        "dim": 16,
        "image": {
            "encoder": {"kind": "small_cnn", "widths": [4, 8], "pixels": 16, "output": "pooled"},
            "pooling": "single",
        },
        "text": {"encoder": {"kind": "gru", "word_dim": 8, "dim": 16, "min_count": 1}, "pooling": "last"},
    },
    "data": {
        "view": {"kind": "RC", "resize": 20, "pixels": 16},
        "eval_view": {"kind": "1C", "resize": 16, "pixels": 16},
        "stream": {"buffer": 12},
    },
    "stages": {
        "first": {
            "epochs": 2,
            "batch_size": 8,
            "loss": "info_nce",
            "optimiser": {"kind": "adam", "lr": 0.01},
            "schedule": {"warm_up": 1},
        }
    },
}
SIZES = [7, 3, 11, 1, 6]


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """A folder of train-0.tar … train-4.tar, and val-0.tar."""
    write_shards(tmp_path / "shards", SIZES)
    write_shards(tmp_path / "shards", [6], 1, "val")
    return tmp_path / "shards"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "streamed.yaml"
    path.write_text(yaml.safe_dump(STREAMED, sort_keys=False))
    return path


def arguments(recipe: Path, shards: Path | str, out: Path, *more: str) -> list[str]:
    """Of `vse`; a checkpoint after every step."""
    data = ["--data", f"{shards}/train-{{0..4}}.tar", "--val", f"{shards}/val-0.tar", "--out", str(out)]
    return ["train", str(recipe), *data, "--no-report", "--checkpoint-seconds", "0", *more]
