"""Page faults of freed memory: given back to the kernel, and kept for the next batch (`vsekit.memory`)."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

_CHURN = """
import json, resource, sys, time
import torch
from vsekit.memory import keep_freed_memory

torch.set_num_threads(1)
if sys.argv[1] == "kept":
    assert keep_freed_memory()
size, rounds = int(sys.argv[2]), 5

def churn():
    before, cpu = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.process_time()
    for _ in range(rounds):
        torch.ones(size) + torch.ones(size)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return faults / rounds, 1000 * (time.process_time() - cpu) / rounds

churn()
# The heap may have to grow a few times before every block finds its place in it: the best of some rounds.
print(json.dumps(min(churn() for _ in range(4))))
"""


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """Page faults and CPU milliseconds of adding two large tensors. target: kept has under a twentieth of the faults."""
    if not sys.platform.startswith("linux"):
        return []
    rows = []
    for name in ("given back", "kept"):
        command = [sys.executable, "-c", _CHURN, name, str(int(10_000_000 * scale))]
        faults, milliseconds = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        rows.append({"name": f"freed memory {name}", "page_faults": faults, "cpu_ms": milliseconds})
    return rows
