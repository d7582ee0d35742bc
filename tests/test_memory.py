from __future__ import annotations

import subprocess
import sys

import pytest

CHURN = """
import resource
import torch
from vsekit.memory import keep_freed_memory

torch.set_num_threads(1)
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.ones(10_000_000) + torch.ones(10_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
given_back = faults()
assert keep_freed_memory()
# The heap may have to grow a few times more before every block finds its place in it: the best of some rounds.
print(given_back, min(faults() for _ in range(4)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_freed_memory_is_used_again_instead_of_being_faulted_in_anew() -> None:
    answer = subprocess.run([sys.executable, "-c", CHURN], capture_output=True, text=True, check=True).stdout
    given_back, kept = map(int, answer.split())
    assert kept < given_back / 20
