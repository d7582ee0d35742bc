"""How many threads a process computes with, and how they wait for each other.

OpenMP's threads spin while they wait for work. Beside another busy process they spin in the time slices that the thread
they wait for needs: a loop of products then takes three times as long on two threads as on one. So threads wait asleep
(`OMP_WAIT_POLICY=passive`), and cores that others keep busy are left to them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

_STAT = Path("/proc/stat")
_LOOK = 0.3  # seconds


def wait_passively() -> None:
    """Lets OpenMP's threads sleep while they wait, unless the user says how. To be called before torch loads."""
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"} & os.environ.keys():
        os.environ["OMP_WAIT_POLICY"] = "passive"


def usable_cores() -> set[int]:
    """The cores that the process may use."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def most() -> int:
    """The threads to compute with on an idle machine: one for each usable core, or as many as OMP_NUM_THREADS says."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdigit() and int(given) else len(usable_cores())


def choose(most: int) -> int:
    """How many threads to compute with now: as many as there are usable cores that no one keeps busy, 1 … most.

    The machine is watched for a moment. What the user sets as OMP_NUM_THREADS is taken as it is: `most`, which torch has
    from there.
    """
    if most <= 1 or "OMP_NUM_THREADS" in os.environ:
        return max(1, most)
    cores = usable_cores()
    return max(1, min(most, len(cores) - round(_busy(cores))))


@contextmanager
def pool(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that on an error or Ctrl-C end what they are doing, and no more."""
    workers = ThreadPoolExecutor(count)
    try:
        yield workers
    finally:
        workers.shutdown(cancel_futures=True)


def _busy(cores: set[int]) -> float:
    """How many of these cores others use. Niced processes don't count: they give way."""
    before = _ticks(cores)
    if before is None:
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0  # Windows says nothing
        return min(load, len(cores))
    time.sleep(_LOOK)
    after = _ticks(cores)
    assert after is not None
    used, total = (b - a for a, b in zip(before, after))
    return len(cores) * used / max(total, 1)


def _ticks(cores: set[int]) -> tuple[int, int] | None:
    """Ticks used, and all ticks, of these cores since the machine started; None where the system doesn't say (macOS)."""
    try:
        lines = _STAT.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    wanted = {f"cpu{core}" for core in cores}
    rows = [[int(x) for x in line.split()[1:9]] for line in lines if line.split(" ", 1)[0] in wanted]
    if not rows or not any(map(sum, rows)):
        return None
    # user, nice, system, idle, iowait, irq, softirq, steal
    idle = sum(row[1] + row[3] + row[4] for row in rows)
    return sum(map(sum, rows)) - idle, sum(map(sum, rows))
