"""Feature extraction beside the bare encoder: what reading, cropping, storing and stamping cost on top."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from vsekit.data.pairs import Picture
from vsekit.data.views import ViewSettings
from vsekit.encoders.image.efficientnet_lite import EfficientNetLiteSettings
from vsekit.features.extraction import extract

BATCH = 8


def generated(folder: Path, count: int) -> list[Picture]:
    """JPEGs of 500 × 375 like Flickr's; coarse noise scaled up compresses about like a photograph."""
    rng = np.random.default_rng(0)
    pictures = []
    for i in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
        path = folder / f"{i:05d}.jpg"
        coarse.resize((500, 375), Image.Resampling.BICUBIC).save(path, quality=90)
        pictures.append(Picture(id=path.name, path=path, split="train", group=path.name))
    return pictures


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """CPU seconds, on one thread, of `extract` (EfficientNet-lite0, 1C, pooled) and of its encoder alone on tensors in
    memory. target: extraction costs at most 1.25 times the encoder."""
    count = max(BATCH, int(200 * scale) // BATCH * BATCH)
    settings, view = EfficientNetLiteSettings(), ViewSettings.model_validate("1C")
    encoder = settings.build().eval()
    pixels = torch.randn(BATCH, 3, 224, 224).contiguous(memory_format=torch.channels_last)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        pictures = generated(Path(folder), count)
        encoder(pixels)
        before = time.process_time()
        for _ in range(count // BATCH):
            encoder(pixels)
        bare = time.process_time() - before
        before = time.process_time()
        extract(encoder, settings.model_dump(), pictures, view, Path(folder) / "out", batch_size=BATCH)
        whole = time.process_time() - before
    torch.set_num_threads(threads)
    return [
        {
            "name": f"extract features of {count} JPEGs, EfficientNet-lite0 1C",
            "cpu_s": whole,
            "rate": count / whole,
            "yardstick": f"the bare encoder on tensors in memory, {bare:.2f} CPU-s",
            "ratio": whole / bare,
            "target": 1.25,
        }
    ]


if __name__ == "__main__":
    for row in run():
        print(row)
