"""A real Ray cluster on this machine: a head without processors, which survives, and two nodes with one worker each."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Before Ray is imported: nothing leaves this machine, and addresses are those of the loopback.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")

SMALL = {"object_store_memory": 200_000_000, "node_ip_address": "127.0.0.1"}


class Machines:
    """nodes: by name, those that are there."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        # A lost node is noticed sooner than by default.
        soon = {"health_check_period_ms": 1000, "health_check_initial_delay_ms": 0}
        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False, "_system_config": soon, **SMALL},
        )
        self.nodes: dict[str, Any] = {}

    @property
    def address(self) -> str:
        return self.cluster.address

    def add(self, name: str, **more: Any) -> None:
        self.nodes[name] = self.cluster.add_node(num_cpus=1, node_name=name, **SMALL, **more)

    def kill_worker(self, name: str) -> int:
        """The process of the worker on a node, if it has one now; its number."""
        raylet = self.nodes[name].all_processes["raylet"][0].process.pid
        for found in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # gone since
                parent = int((found / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == raylet and (found / "cmdline").read_bytes().startswith(b"ray::MapWorker"):
                    os.kill(int(found.name), signal.SIGKILL)
                    return int(found.name)
        return 0

    def kill(self, name: str) -> None:
        """All of its processes at once."""
        self.cluster.remove_node(self.nodes.pop(name), allow_graceful=False)


@pytest.fixture(scope="session")
def machines() -> Iterator[Machines]:
    import ray

    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # short: sockets lie in it
    os.environ["RAY_TMPDIR"] = str(folder)
    found = Machines()
    yield found
    ray.shutdown()
    found.cluster.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def two_nodes(machines: Machines) -> Machines:
    for name in ("one", "two"):
        if name not in machines.nodes:
            machines.add(name)
    return machines
