"""Two threads or one, on the machine as it is and beside a busy process: a loop of GRU-sized products.

| what                                                                          | target              |
|-------------------------------------------------------------------------------|---------------------|
| the threads that a run chooses beside one busy process a core but one         | no slower than one  |
| threads that wait asleep, against ones that spin, on an idle machine          | at most 3 % lost    |
| CPU time of `vse features` on the threads it chooses beside busy processes     | 1.3 × one thread's  |

Wall time but for the last, since waiting is what is measured: other work on the machine spoils it. Rounds are taken in
turn, the fastest of each counts.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from vsekit import threads

# 20 steps of a 1024-d GRU on a batch of 128, {steps} times over.
LOOP = """
import sys, time, torch
from vsekit import threads
most = int(sys.argv[1])
torch.set_num_threads(most or threads.choose(torch.get_num_threads()))
state, weights = torch.randn(128, 1024), torch.randn(1024, 3072)
def work():
    for _ in range(20):
        gates = (state @ weights).sigmoid_()
        (gates[:, :1024] * gates[:, 1024:2048] + gates[:, 2048:]).tanh_()
work()
start = time.perf_counter()
for _ in range({steps}):
    work()
print(time.perf_counter() - start, torch.get_num_threads())
"""


# Features of JPEGs of 500 × 375; CPU seconds.
FEATURES = """
import sys, tempfile, time
from pathlib import Path
from vsekit import threads
threads.wait_passively()
from benchmarks.features import VIEW, generated
from vsekit.encoders.image.efficientnet_lite import EfficientNetLiteSettings
from vsekit.engines import images
from vsekit.features.extraction import extract
images.WORTH = images.FEW = 0
settings = EfficientNetLiteSettings()
encoder = settings.build().eval()
images.compiled(encoder)
with tempfile.TemporaryDirectory() as folder:
    pictures = generated(Path(folder) / "photos", {pictures})
    extract(encoder, settings.model_dump(), pictures[:8], VIEW, Path(folder) / "few")
    start = time.process_time()
    extract(encoder, settings.model_dump(), pictures, VIEW, Path(folder) / "all")
    print(time.process_time() - start)
"""


def features_seconds(count: int, pictures: int) -> float:
    """CPU seconds on so many threads (0: as many as are chosen)."""
    program = FEATURES.format(pictures=pictures)
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    environment |= {"OMP_NUM_THREADS": str(count)} if count else {}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def seconds(count: int, policy: str, steps: int) -> tuple[float, int]:
    """Of the loop on so many threads (0: as many as a run chooses), and how many that were."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
    environment = {k: v for k, v in os.environ.items() if k not in names} | {"OMP_WAIT_POLICY": policy}
    program = LOOP.format(steps=steps)
    done = subprocess.run(
        [sys.executable, "-c", program, str(count)], env=environment, capture_output=True, text=True, check=True
    )
    taken, used = done.stdout.split()
    return float(taken), int(used)


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    cores, steps = len(threads.usable_cores()), max(1, round(20 * scale))
    cases = [(1, "passive"), (cores, "active"), (cores, "passive"), (0, "passive")]
    rows = []
    for others in (0, max(1, cores - 1)):
        with busy(others):
            rounds = [[seconds(*case, steps) for case in cases] for _ in range(3)]
        best = [min(turns) for turns in zip(*rounds)]
        for (count, policy), (taken, used) in zip(cases, best):
            name = (
                f"{used} threads"
                + ("" if count else ", as a run chooses")
                + f", {policy}, beside {others} busy processes"
            )
            row = {"name": name, "seconds": taken, "ratio_to_one_thread": taken / best[0][0]}
            rows.append(row | {"ratio_to_spinning": taken / best[1][0], "target": "1.0 × one thread, 1.03 × spinning"})
    with busy(max(1, cores - 1)):
        one, chosen = (features_seconds(count, max(16, round(96 * scale))) for count in (1, 0))
    row = {"name": f"vse features on the threads it chooses beside {max(1, cores - 1)} busy processes", "cpu_s": chosen}
    rows.append(row | {"yardstick": f"one thread, {one:.2f} CPU-s", "ratio": chosen / one, "target": 1.3})
    return rows
