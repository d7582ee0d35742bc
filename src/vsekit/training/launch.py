"""Starting the processes of a run with torchrun's own launcher, which also starts them anew when one is lost.

`vse train … --devices 2` starts `python -m vsekit train … --devices 2` twice; each of them finds in its environment who it is
(`world.join`). Over several machines the same command is started on each.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from vsekit import threads
from vsekit.errors import UserError
from vsekit.training.world import PATIENCE, launched


def wanted(devices: int, nodes: int) -> bool:
    """Whether processes are still to be started; UserError where torchrun started others than were asked for."""
    if not launched():
        return devices * nodes > 1
    here = int(os.environ["LOCAL_WORLD_SIZE"])
    if devices not in (1, here):
        raise UserError(
            f"torchrun has started {here} processes here, and --devices says {devices}",
            field="--devices",
            remedy="Leave --devices out under torchrun, or start with vse train --devices alone.",
        )
    return False


def launch(
    arguments: Sequence[str], devices: int, nodes: int = 1, rendezvous: str | None = None, max_restarts: int = 0
) -> int:
    """Runs `python -m vsekit ARGUMENTS` in `devices` processes on each of `nodes` machines; returns the exit code.

    Args:
        rendezvous: HOST:PORT of one of the machines, where all meet; needed for several.
        max_restarts: how often a lost process may cost a restart from the last checkpoint.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous.api import RendezvousError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    if nodes > 1 and not rendezvous:
        raise UserError(
            "several machines need a place to meet",
            field="--rendezvous",
            remedy="Give every one of them the address of one of them and a free port, for example --rendezvous node0:29400.",
        )
    # Each process its part of the cores, or they would wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, len(threads.usable_cores()) // devices)))
    seconds = int(PATIENCE.total_seconds())
    config = LaunchConfig(
        min_nodes=nodes,
        max_nodes=nodes,
        nproc_per_node=devices,
        run_id="vsekit",
        rdzv_backend="c10d",
        rdzv_endpoint=rendezvous or "localhost:0",
        rdzv_configs={"join_timeout": seconds, "read_timeout": seconds},
        max_restarts=max_restarts,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "vsekit", *arguments)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode < 0:  # a person's mistake was told by the process itself
            raise UserError(
                f"rank {rank} was lost (signal {-failure.exitcode})",
                remedy="Go on with --resume. With --max-restarts the next time, the run does so by itself.",
            ) from None
        return failure.exitcode
    except SignalException as signalled:
        if signalled.sigval == signal.SIGINT:
            raise KeyboardInterrupt from None
        return 128 + signalled.sigval
    except RendezvousError as error:
        raise UserError(
            f"the {nodes} machines did not meet at {rendezvous} within {seconds} seconds: {error}",
            field="--rendezvous",
            remedy="Start the same command on every machine; HOST:PORT must be one of them, and reachable from all.",
        ) from None
    return 0
