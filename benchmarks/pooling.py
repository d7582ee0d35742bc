"""CPU time of every pooling, forward and backward, on 128 sets of 36 vectors of 1024, one thread; and how it grows.

The yardstick is mean pooling of the same sets. Rows named "growth of …" compare sets of 144 vectors with sets of 36,
their yardstick, in a smaller batch: 4 is linear, a sort adds its logarithm.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn

from vsekit.pooling import (
    AdaPoolSettings,
    AdPoolSettings,
    GCNSettings,
    GPOSettings,
    KMaxPoolSettings,
    LastPoolSettings,
    LIPSettings,
    MaxPoolSettings,
    MeanPoolSettings,
    SelfAttentionSettings,
    Seq2SeqSettings,
    SoftPoolSettings,
    TransformerSettings,
    VSRNSettings,
)

BATCH, SIZE, DIM = 128, 36, 1024
CASES = {
    "mean": MeanPoolSettings(),
    "last": LastPoolSettings(),
    "max": MaxPoolSettings(),
    "k_max": KMaxPoolSettings(),
    "soft_pool": SoftPoolSettings(),
    "ada_pool": AdaPoolSettings(),
    "ad_pool": AdPoolSettings(),
    "ad_pool, token level": AdPoolSettings(levels="token"),
    "ad_pool, embedding level": AdPoolSettings(levels="embedding"),
    "ad_pool, weights per dimension": AdPoolSettings(token_weights="per_dimension"),
    "gpo": GPOSettings(),
    "lip": LIPSettings(),
    "self_attention": SelfAttentionSettings(),
    "transformer": TransformerSettings(),
    "seq2seq": Seq2SeqSettings(),
    "gcn": GCNSettings(),
    "vsrn": VSRNSettings(),
}


def cpu_ms(pooling: nn.Module, batch: int, size: int, repeats: int) -> float:
    """The fastest of `repeats` runs: noise only ever adds."""
    vectors = torch.randn(batch, size, DIM, requires_grad=True)
    mask = torch.ones(batch, size, dtype=torch.bool)
    times = []
    for _ in range(repeats):
        start = time.process_time()
        pooling(vectors, mask).sum().backward()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """Args: scale: of the batch; 1 is 128 sets, and 16 for the growth."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _run(max(2, round(BATCH * scale)), max(2, round(BATCH / 8 * scale)))
    finally:
        torch.set_num_threads(threads)


def _run(batch: int, small_batch: int) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    poolings = {name: settings.build(DIM) for name, settings in CASES.items()}
    mean = cpu_ms(poolings["mean"], batch, SIZE, repeats=5)
    rows = [_row(name, cpu_ms(pooling, batch, SIZE, repeats=3), mean) for name, pooling in poolings.items()]
    for name, pooling in poolings.items():
        at_size, at_four_times = (cpu_ms(pooling, small_batch, size, repeats=4) for size in (SIZE, 4 * SIZE))
        rows.append(_row(f"growth of {name}", at_four_times, at_size))
    return rows


def _row(name: str, cpu: float, yardstick: float) -> dict[str, Any]:
    return {"name": name, "cpu_ms": cpu, "yardstick": yardstick, "ratio": cpu / yardstick}


if __name__ == "__main__":
    for row in run():
        print(f"{row['name']:44} {row['cpu_ms']:9.1f} ms  {row['ratio']:7.1f} × {row['yardstick']:.1f} ms")
