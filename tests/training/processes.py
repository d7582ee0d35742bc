"""Several processes that are a run together, as torchrun starts them, but without torchrun: a test sees each one's end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def environment(rank: int, size: int, port: int) -> dict[str, str]:
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    here = {
        "MASTER_ADDR": "127.0.0.1",
        "TORCHELASTIC_RUN_ID": "tests",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "OMP_NUM_THREADS": "1",
    }
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    return os.environ | here | paths | {name: str(value) for name, value in ranks.items()}


def start(commands: Sequence[Sequence[str]], size: int | None = None) -> list[subprocess.Popen[str]]:
    """One process a command, rank by rank, of a world of `size` processes: arguments of Python."""
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, *command],
            env=environment(rank, size or len(commands), port),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, command in enumerate(commands)
    ]


def ends(processes: Sequence[subprocess.Popen[str]], seconds: float = 240) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of each; none may outlast `seconds`."""
    try:
        told = [process.communicate(timeout=seconds) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, *text) for process, text in zip(processes, told)]
