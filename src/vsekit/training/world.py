"""The processes of a run: who there is, whether all do the same, and who goes first.

torchrun starts them (`vse train --devices N` does it for you). They meet at torchrun's key-value store, and all that is said
here goes through it as JSON; tensors go through `global_batch`. A process that ends ends the run: torchrun sees to it. So
every wait has an end, and what a person can mend is found before training starts, within a minute.
"""

from __future__ import annotations

import atexit
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from vsekit.errors import UserError
from vsekit.version import code

T = TypeVar("T")

#: How long processes look for each other, and wait for what each knows at once.
PATIENCE = timedelta(seconds=40)
#: How long they wait for work that only one of them does: features of a collection, mining, a validation.
WORK = timedelta(hours=24)
#: How long they wait for each other within a training step.
STEP = timedelta(minutes=10)

_REACH = (
    "Start the same command on every machine, with a --rendezvous HOST:PORT that all of them reach; look for a firewall "
    "between them, and name the network to use with GLOO_SOCKET_IFNAME where a machine has several."
)


@dataclass(frozen=True)
class World:
    """rank: this process, 0 … size − 1; local_rank, local_size: the same among those of this machine.

    restarted: torchrun has started the processes anew after one was lost.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    restarted: bool = False
    _store: Any = None
    _said: list[int] = field(default_factory=lambda: [0])

    @property
    def alone(self) -> bool:
        return self.size == 1

    @property
    def leads(self) -> bool:
        """The one process that writes files and speaks."""
        return self.rank == 0

    def agree(self, facts: Mapping[str, Any], patience: timedelta | None = None) -> None:
        """UserError, in every process, where a fact is not the same in all of them."""
        if self.alone:
            return
        key = self._key("facts")
        self._store.set(f"{key}/{self.rank}", json.dumps(facts, sort_keys=True))
        self._wait([f"{key}/{rank}" for rank in range(self.size)], patience or PATIENCE)
        known = [json.loads(self._store.get(f"{key}/{rank}")) for rank in range(self.size)]
        for rank, theirs in enumerate(known):
            different = sorted(k for k in theirs.keys() | known[0].keys() if theirs.get(k) != known[0].get(k))
            if different:
                name = different[0]
                self._all_have_heard(key, patience or PATIENCE)
                raise UserError(
                    f"rank {rank} differs from rank 0 in {name}: {theirs.get(name)!r}, not {known[0].get(name)!r}"
                    + f" (and {len(different) - 1} more differences)" * (len(different) > 1),
                    remedy="All processes need the same vsekit, the same settings and the same collection. Give rank "
                    f"{rank} what rank 0 has, and start again.",
                )

    def told(self, make: Callable[[], T]) -> T:
        """What the leader makes, in every process, through JSON; the others wait for it."""
        if self.alone:
            return make()
        key = self._key("told")
        if self.leads:
            value = make()
            self._store.set(key, json.dumps(value))
            return value
        self._wait([key], WORK)
        return json.loads(self._store.get(key))

    def in_turn(self, work: Callable[[], T]) -> T:
        """`work` in every process, first in one of each machine: the others find in the cache what it kept there."""
        if self.alone:
            return work()
        key = self._key("turn")
        if self.local_rank:
            self._wait([f"{key}/{self.rank - self.local_rank}"], WORK)
        result = work()
        self._store.set(f"{key}/{self.rank}", "done")
        self._wait([f"{key}/{rank}" for rank in range(self.size)], WORK)
        return result

    @contextmanager
    def connected(self) -> Iterator[None]:
        """UserError where the connection to another process breaks, or it does not answer, in what is done within."""
        try:
            yield
        except (dist.DistError, RuntimeError) as error:
            what = str(error)
            if self.alone or not (isinstance(error, dist.DistError) or "gloo" in what or "Connection" in what):
                raise
            raise self._lost(what.splitlines()[0]) from None

    @contextmanager
    def naming(self) -> Iterator[None]:
        """A UserError within says whose it is, where there are several."""
        try:
            yield
        except UserError as error:
            if self.alone:
                raise
            whose = f"rank {self.rank} of {self.size}: {error.what}"
            raise UserError(whose, file=error.file, line=error.line, field=error.field, remedy=error.remedy) from None

    def _lost(self, what: str) -> UserError:
        return UserError(
            f"rank {self.rank} of {self.size} has lost the others: {what}",
            remedy="What the other ranks said tells why. Go on from the last checkpoint with --resume; with --max-restarts a "
            "run does so by itself.",
        )

    def _all_have_heard(self, key: str, patience: timedelta) -> None:
        """The leader waits: the place where they meet may end with it, and with it what the others have yet to read."""
        self._store.set(f"{key}/heard/{self.rank}", "")
        if self.leads:
            with suppress(dist.DistError):
                self._store.wait([f"{key}/heard/{rank}" for rank in range(self.size)], patience)

    def _key(self, name: str) -> str:
        self._said[0] += 1
        return f"{name}/{self._said[0]}"

    def _wait(self, keys: list[str], patience: timedelta) -> None:
        try:
            self._store.wait(keys, patience)
        except dist.DistNetworkError:
            raise self._lost("the place where they meet is gone") from None
        except dist.DistError:
            missing = sorted(int(key.rpartition("/")[2]) for key in keys if not self._store.check([key]))
            who = "rank " + ", ".join(map(str, missing)) if keys[0].count("/") > 1 else "rank 0"
            raise UserError(
                f"rank {self.rank} of {self.size} has waited {patience.total_seconds():.0f} seconds for {who}",
                remedy=_REACH,
            ) from None


def leads() -> bool:
    """Whether this process is the one that writes and speaks; true where there is but one."""
    return not launched() or os.environ["RANK"] == "0"


def launched() -> bool:
    """Whether torchrun started this process beside others."""
    return dist.is_available() and dist.is_torchelastic_launched() and int(os.environ["WORLD_SIZE"]) > 1


_joined: World | None = None


def join() -> World:
    """The world this process belongs to; connects it with the others, where there are some, and compares their code."""
    global _joined
    if not launched():
        return World()
    if _joined is not None:
        return _joined
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    try:
        store, _, _ = next(dist.rendezvous("env://", rank, size, timeout=PATIENCE))
        store = dist.PrefixStore(f"vsekit/{restarts}", store)
    except (dist.DistError, RuntimeError) as error:
        what = str(error).splitlines()[0]
        raise UserError(f"rank {rank} of {size} can't meet the others at {where}: {what}", remedy=_REACH) from None
    local_rank, local_size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    world = World(rank, size, local_rank, local_size, restarts != "0", store)
    world.agree({"code": code(), "packages": f"Python {platform.python_version()}, torch {torch.__version__}"})
    try:
        dist.init_process_group(store=dist.PrefixStore("tensors", store), rank=rank, world_size=size, timeout=STEP)
    except RuntimeError as error:
        what = str(error).splitlines()[0]
        raise UserError(f"rank {rank} of {size} can't connect to the others: {what}", remedy=_REACH) from None
    atexit.register(dist.destroy_process_group)
    _joined = world
    return world


def leave(code: int | str | None) -> None:
    """Ends a process of several with this exit code, as SystemExit takes it; does nothing where there is but one.

    The interpreter is not taken apart: a thread of gloo that wants it at that moment is ended by Python (3.11) in the middle of
    its work, and the process with it (signal 6), now and then and after all was done.
    """
    if _joined is None or not isinstance(code, int | None):
        return
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # nobody reads it any more
            stream.flush()
    os._exit(code or 0)
