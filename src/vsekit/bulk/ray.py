"""Ray as the engine of bulk work: blocks through a pool of actors, over Ray Data.

    work ──► object store ──► actors, one thread each ──► answers, by block number ──► whoever asked, who alone writes

Answers come in the sequence of the blocks. Ray starts a worker that was killed, or whose node was lost, on what is left of
the cluster, and gives it the blocks that went with it; the others are not done again. An exception in a block is raised where the
answer is awaited, as in one process.
"""

from __future__ import annotations

import os
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vsekit.bulk.cluster import check_nodes, connect, node_name, unreadable
from vsekit.bulk.work import Work
from vsekit.errors import UserError

#: How often workers may be lost with one block before the work is given up: the block may be what kills them.
LOSSES = 4
#: Pieces of work that Ray is given; where there are more blocks, a piece has several.
MOST = 10_000
#: Seconds to wait for processors that others are just leaving.
PATIENCE = 20.0


@dataclass(frozen=True)
class Ray:
    """address: HOST:PORT of a cluster, or "auto" for the one of this machine; None starts Ray here, until the process ends.

    workers: by default one for each free processor, or for each GPU where the work needs one.
    """

    address: str | None = None
    workers: int | None = None

    def ready(self) -> None:
        """Connects, and looks at the nodes: for UserErrors before a collection is read."""
        check_nodes(connect(self.address, self.workers))

    def map(self, work: Work, blocks: range) -> Iterator[Any]:
        """`work(block)` for each of the consecutive `blocks`, in sequence.

        UserError, within a minute, where a node can't do the work: it lacks vsekit, has another, or can't read the files.
        """
        if not blocks:
            return
        ray = connect(self.address, self.workers)
        check_nodes(ray, [*work.paths(blocks[0])[:1], *work.paths(blocks[-1])[-1:]])
        count = min(len(blocks), self._workers(ray, work))
        ray.data.DataContext.get_current().execution_options.preserve_order = True
        sent = [ray.put(work), _counter(ray)]
        # Not `ray.data.range`, which would want a processor of its own, and wait for ever where workers have taken all.
        numbers = ray.data.from_items(list(blocks), override_num_blocks=min(len(blocks), MOST))
        answers = numbers.map(
            _Worker,
            fn_constructor_args=(sent, LOSSES),
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=count, initial_size=count),
            num_cpus=1,
            num_gpus=work.gpus,
        )
        try:
            for block, row in zip(blocks, answers.iter_rows(), strict=True):
                yield row["answer"].taken(block)
        except ray.exceptions.RayError as error:
            raise UserError(
                f"Ray gave up: {str(error).strip().splitlines()[-1]}",
                remedy="The same command goes on from here. Ray's own log says more.",
            ) from error

    def _workers(self, ray: Any, work: Work) -> int:
        """How many there can be now."""
        what = "GPU" if work.gpus else "CPU"
        until = time.monotonic() + PATIENCE
        while (free := int(ray.available_resources().get(what, 0))) < 1:
            if time.monotonic() > until:
                raise UserError(
                    f"the Ray cluster has no free {what} (of {int(ray.cluster_resources().get(what, 0))})",
                    field="--ray-address",
                    remedy="Wait until others are done, or add nodes: ray start --address …",
                )
            time.sleep(0.2)
        return min(free, self.workers or free)


@dataclass
class _Answer:
    """absent: files of the block that the node could not read."""

    block: int
    node: str
    made: Any = None
    error: Exception | None = None
    absent: list[Path] = field(default_factory=list)

    def taken(self, block: int) -> Any:
        """What was made; the error, where it is one. A file that is there, but not on the node, is the node's failure."""
        assert self.block == block, f"block {self.block} in place of {block}"
        here = next((path for path in self.absent if os.access(path, os.R_OK)), None)
        if here is not None:
            raise unreadable(self.node, here)
        if self.error is not None:
            raise self.error
        return self.made


def _counter(ray: Any) -> Any:
    """Counts how often each block was begun. It is on this node, and is lost with it alone."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    class Begun:
        def __init__(self) -> None:
            self.times: Counter[int] = Counter()

        def once_more(self, block: int) -> int:
            self.times[block] += 1
            return self.times[block]

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(Begun).options(num_cpus=0, scheduling_strategy=here).remote()


class _Worker:
    """Holds the work, and does block after block on one thread."""

    def __init__(self, sent: list[Any], losses: int) -> None:
        import ray

        self._losses = losses
        (self._sent, self._begun), self._node = sent, node_name(ray, ray.get_runtime_context().get_node_id())
        self._work: Work | None = None

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"answer": self._answer(int(row["item"]))}

    def _answer(self, block: int) -> _Answer:
        import ray

        answer = _Answer(block, self._node)
        try:
            if self._work is None:
                os.environ["OMP_NUM_THREADS"] = "1"  # before torch is loaded
                self._work = ray.get(self._sent)
            answer.absent = [path for path in self._work.paths(block) if not os.access(path, os.R_OK)]
            if (lost := ray.get(self._begun.once_more.remote(block)) - 1) > self._losses:
                raise UserError(
                    f"{lost} workers were lost with block {block} of the work",
                    remedy="They may lack memory: give --ray-workers a smaller number. What is done is kept.",
                )
            answer.made = self._work(block)
        except Exception as error:
            error.add_note(f"On node {answer.node}:\n{traceback.format_exc()}")
            answer.error = error
        return answer
