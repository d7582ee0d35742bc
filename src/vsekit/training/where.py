"""Where a run is: what a checkpoint holds beside weights and moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Where:
    """Where a run is: stage, epoch and step to do next; steps done in all; the best validation so far.

    threads: how many the run computes with, from its first step to its last: the bits of a sum depend on it. 0 in a
        checkpoint of before it was kept.
    processes: how many compute it together, likewise.
    stream: where each process is in its part of a stream, see `stream`; pairs: how many an epoch of it has, once one is over.
    """

    stage: int = 0
    epoch: int = 0
    step: int = 0
    steps: int = 0
    best: dict[str, Any] | None = None
    metrics_size: int = 0
    metrics_sha256: str | None = None
    threads: int = 0
    processes: int = 1
    stream: list[Any] | None = None
    pairs: int | None = None
