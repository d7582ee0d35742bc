"""CPU time and memory of evaluation and mining; the yardstick is the bare float32 matrix product of the same sizes.

| what                                                                       | target                      |
|----------------------------------------------------------------------------|-----------------------------|
| 5,000 images × 25,000 captions × 1024, all metrics with their intervals    | 1.25 × the product, 0.5 GiB |
| the same as a command, `vse evaluate` on two files, start to end           | 1.25 × the product + start-up |
| order similarity, same size                                                | 100 CPU-s                   |
| exact mining, 29,000 × 145,000 × 1024, top 300 captions and top 60 images  | 1.3 × the product, 1.5 GiB  |

Memory is what the process holds at most beyond its inputs. The product yardstick writes into one reused block of rows
where its result would not fit into memory. Each case has a process of its own; CPU time is the best of a few turns,
taken in turn with the yardstick. Start-up is the command's own, on eight images.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

DIM, PER_IMAGE = 1024, 5
MIB = 2**20


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """Rows of the report. `scale` shrinks the numbers of images and captions for a quick look."""
    cases = [
        ("evaluation with intervals, 5,000 × 25,000 × 1024", evaluation, 5000, 5, "1.25 × product, 512 MiB"),
        ("evaluation by order similarity, same size", order, 5000, 1, "100 CPU-s"),
        ("mining, 29,000 × 145,000 × 1024", mining, 29_000, 1, "1.3 × product, 1536 MiB"),
    ]
    context = multiprocessing.get_context("spawn")
    rows = []
    for name, work, images, turns, target in cases:
        with context.Pool(1) as pool:
            rows.append(pool.apply(measure, (name, work, max(8, int(images * scale)), turns, target)))
    with context.Pool(1) as pool:
        rows.insert(1, pool.apply(command, (max(8, int(5000 * scale)),)))
    return rows


def measure(name: str, work: Callable[..., None], n_images: int, turns: int, target: str) -> dict[str, Any]:
    torch.set_num_threads(1)  # threads that wait for each other would count as work
    images, captions = embeddings(n_images)
    groups = np.arange(n_images), np.repeat(np.arange(n_images), PER_IMAGE)
    before = peak_mib(forget=True)
    own, bare = [cpu(work, images, captions, *groups)], []
    peak = peak_mib() - before
    for turn in range(turns):
        bare.append(cpu(product, images, captions))
        if turn:
            own.append(cpu(work, images, captions, *groups))
    return {
        "name": name,
        "cpu_s": min(own),
        "yardstick_cpu_s": min(bare),
        "ratio": min(own) / min(bare),
        "peak_extra_mib": peak,
        "target": target,
    }


def command(n_images: int) -> dict[str, Any]:
    """`vse evaluate` as a whole: reading and checking the files, ranking, intervals, and its start."""
    torch.set_num_threads(1)
    whole, start, bare = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, n in (("large", n_images), ("small", 8)):
            for side, array in zip(("images", "captions"), embeddings(n)):
                np.save(Path(folder) / f"{name}-{side}.npy", array)
        images, captions = embeddings(n_images)
        for _ in range(3):
            start.append(command_cpu(folder, "small"))
            bare.append(cpu(product, images, captions))
            whole.append(command_cpu(folder, "large"))
    return {
        "name": f"vse evaluate with intervals, {n_images:,} × {n_images * PER_IMAGE:,} × {DIM}, the whole command",
        "cpu_s": min(whole),
        "start_cpu_s": min(start),
        "yardstick_cpu_s": min(bare),
        "ratio": (min(whole) - min(start)) / min(bare),
        "target": "1.25 × product + start-up",
    }


def command_cpu(folder: str, name: str) -> float:
    """CPU seconds of the command on the files of this name, on one thread."""
    files = [f"--{side}-embeddings={folder}/{name}-{side}s.npy" for side in ("image", "caption")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "vsekit", "evaluate", *files, "--captions-per-image", str(PER_IMAGE), "--json", "-q"],
        check=True,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def embeddings(n_images: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors, captions near their image, about as far as a trained model has them."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((n_images, DIM), dtype=np.float32)
    captions = rng.standard_normal((n_images * PER_IMAGE, DIM), dtype=np.float32)
    for start in range(0, n_images, 1000):  # in pieces, lest the peak be that of making the inputs
        rows = slice(start * PER_IMAGE, (start + 1000) * PER_IMAGE)
        captions[rows] += 0.12 * np.repeat(images[start : start + 1000], PER_IMAGE, axis=0)
    for array in (images, captions):
        array /= np.sqrt(np.einsum("nd,nd->n", array, array))[:, None]
    return images, captions


def peak_mib(forget: bool = False) -> float:
    """The most the process has held; with `forget`, from now on (Linux)."""
    clear = Path("/proc/self/clear_refs")
    if forget and clear.exists():
        clear.write_text("5")
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024


def cpu(work: Callable[..., None], *arguments: Any) -> float:
    start = time.process_time()
    work(*arguments)
    return time.process_time() - start


def product(images: np.ndarray, captions: np.ndarray) -> None:
    a, b = torch.from_numpy(images), torch.from_numpy(captions).T
    rows = len(a) if a.shape[0] * b.shape[1] * 4 <= 1024 * MIB else 1024
    out = torch.empty(rows, b.shape[1])
    for start in range(0, len(a), rows):
        part = a[start : start + rows]
        torch.mm(part, b, out=out[: len(part)])


def evaluation(images: np.ndarray, captions: np.ndarray, *groups: np.ndarray) -> None:
    from vsekit.evaluation.protocols import evaluate
    from vsekit.evaluation.scorers import InnerProduct
    from vsekit.evaluation.significance import confidence

    confidence(evaluate(InnerProduct(images, captions), *groups))


def order(images: np.ndarray, captions: np.ndarray, *groups: np.ndarray) -> None:
    from vsekit.evaluation.protocols import evaluate
    from vsekit.evaluation.scorers import Pairwise
    from vsekit.similarity.order import Order

    evaluate(Pairwise(Order(), images, captions), *groups)


def mining(images: np.ndarray, captions: np.ndarray, *groups: np.ndarray) -> None:
    from vsekit.mining.mine import mine

    top_captions, top_images = min(300, len(captions) - PER_IMAGE), min(60, len(images) - 1)
    with tempfile.TemporaryDirectory() as folder:
        mine(images, captions, *groups, Path(folder) / "mined", top_captions=top_captions, top_images=top_images)
