"""CPU time and memory of the similarities, one thread, against the bare matrix product they contain.

Set similarities: 36 regions × 1024, captions of 8 to 20 words (14 on average); the yardstick is the product of all
regions with all words. The published SCAN takes 176 µs a pair, 31 CPU-min for a 1K test, 10.8 CPU-s and 2.3 GiB for the
loss of a batch of 128. Order: the yardstick is the product of the embeddings; published, 1,000 CPU-s for the scores of
COCO's 5K test and 433 ms for the scores of a batch, forward and backward.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch
from torch.nn.functional import normalize

from vsekit.losses import LossContext, LossInputs
from vsekit.losses.max_of_hinges import MaxOfHingesSettings
from vsekit.parts import Sets
from vsekit.similarity.base import Similarity
from vsekit.similarity.bfan import BfanSettings
from vsekit.similarity.order import OrderSettings
from vsekit.similarity.scan import ScanSettings

BATCH, REGIONS, DIM = 128, 36, 1024
ON_SETS = {
    "scan t2i lse": ScanSettings(),
    "scan t2i mean": ScanSettings(aggregate="mean"),
    "scan i2t lse": ScanSettings(direction="i2t"),
    "bfan equal": BfanSettings(),
    "bfan prob": BfanSettings(focal="prob"),
}


def cpu_seconds(step: Callable[[], object], repeats: int) -> float:
    """The fastest of `repeats` runs after a first: noise only ever adds."""
    step()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return min(times)


def row(name: str, value: float, unit: str, yardstick: float, target: float) -> dict[str, Any]:
    ratio = value / yardstick
    return {"name": name, "value": value, "unit": unit, "yardstick": yardstick, "ratio": ratio, "target": target}


def random_sets(n_images: int, n_captions: int) -> tuple[Sets, Sets]:
    words = torch.randint(8, 21, (n_captions,))
    return (
        Sets(normalize(torch.randn(n_images, REGIONS, DIM), dim=-1), torch.ones(n_images, REGIONS, dtype=torch.bool)),
        Sets(normalize(torch.randn(n_captions, 20, DIM), dim=-1), torch.arange(20) < words[:, None]),
    )


def loss_step(similarity: Similarity, images: Any, captions: Any) -> None:
    """Scores of the batch, max-of-hinges, and gradients back to the embeddings."""
    inputs = LossInputs(similarity(images, captions), torch.arange(BATCH), images, captions, similarity)
    loss, _ = MaxOfHingesSettings().build(LossContext(n_groups=BATCH, dim=DIM))(inputs)
    loss.backward()


def set_loss(name: str, repeats: int) -> tuple[float, float]:
    """CPU seconds of a loss step, and the peak MiB of the process, which does nothing else."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    images, captions = random_sets(BATCH, BATCH)
    images.vectors.requires_grad_()
    captions.vectors.requires_grad_()
    similarity = ON_SETS[name].build()
    seconds = cpu_seconds(lambda: loss_step(similarity, images, captions), repeats)
    per_mib = 2**20 if sys.platform == "darwin" else 2**10
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / per_mib


def on_sets(repeats: int) -> list[dict[str, Any]]:
    rows = []
    images, captions = random_sets(100, 500)
    pairs = 100 * 500
    regions, words = images.vectors.flatten(0, 1), captions.vectors[captions.mask]
    product = cpu_seconds(lambda: regions @ words.T, repeats) / pairs * 1e6
    for name, settings in ON_SETS.items():
        similarity = settings.build()
        with torch.no_grad():
            pair = cpu_seconds(lambda: similarity(images, captions), repeats) / pairs * 1e6  # noqa: B023
        rows.append(row(f"{name}, a pair", pair, "µs", product, 30.0))
        rows.append(row(f"{name}, 1K test (from 1/100)", pair * 5e6 / 60e6, "CPU-min", product * 5e6 / 60e6, 4.0))
        # A process of its own: the peak of memory is that of the process.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            seconds, mib = process.submit(set_loss, name, repeats).result()
        # Forward and twice backward, the least a product needs.
        rows.append(row(f"{name}, loss at batch 128", seconds, "CPU-s", 3 * product * BATCH**2 / 1e6, 2.5))
        rows.append(row(f"{name}, loss at batch 128, peak of the process", mib, "MiB", 2.3 * 1024, 1024.0))
    return rows


def order(repeats: int) -> list[dict[str, Any]]:
    images, captions = normalize(torch.randn(500, DIM).abs()), normalize(torch.randn(2500, DIM).abs())
    similarity = OrderSettings().build()
    product = 100 * cpu_seconds(lambda: images @ captions.T, repeats)
    scores = 100 * cpu_seconds(lambda: similarity(images, captions), repeats)
    rows = [row("order, 5,000 × 25,000 scores (from 1/100)", scores, "CPU-s", product, 100.0)]
    i, c = images[:BATCH].clone().requires_grad_(), captions[:BATCH].clone().requires_grad_()
    product = 1e3 * cpu_seconds(lambda: (i @ c.T).sum().backward(), 10 * repeats)
    for name, step in {
        "max-of-hinges": lambda: loss_step(similarity, i, c),
        "every score with a gradient": lambda: similarity(i, c).sum().backward(),
    }.items():
        rows.append(row(f"order, batch 128, {name}", 1e3 * cpu_seconds(step, 10 * repeats), "ms", product, 10.0))
    return rows


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """Args: scale: how many times to repeat, 1 for three times."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    repeats = max(1, round(3 * scale))
    try:
        return order(repeats) + on_sets(repeats)
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    for r in run():
        print(
            f"{r['name']:52} {r['value']:8.2f} {r['unit']:8} {r['ratio']:6.2f} × {r['yardstick']:.2f}  ≤ {r['target']}"
        )
