"""Concurrent queries in one call: what arrives while the worker is busy waits together; an idle worker never waits.

A query that comes alone and takes a millisecond or two is not worth a thread: waking one up, and being woken by it, takes a
good part of that again. Such queries are worked on at once, in the loop, as long as the one before them was quick.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeAlias, TypeVar

Query = TypeVar("Query")
Answer = TypeVar("Answer")
Waiting: TypeAlias = tuple[Query, asyncio.Future[Answer]]
#: Seconds that the loop may be kept from anything else.
QUICK = 0.005


class Busy(Exception):
    """The queue is full."""


class Batcher(Generic[Query, Answer]):
    """Awaiting it with a query gives the query's own answer, however many were worked on together.

    Args:
        work: many queries → an answer, or an exception to raise, for each in turn. Called in `executor`, never twice at
            a time. When it raises on several queries, they are tried one by one: the error is only that of its query.
        most: queries in one call.
        waiting: queries that may wait; further ones raise `Busy`.
        observe: told the size of every batch.
        quick: whether a query needs so little that the loop may work on it where the last one took less than `QUICK`.
    """

    def __init__(
        self,
        work: Callable[[list[Query]], Sequence[Answer | Exception]],
        executor: Executor,
        *,
        most: int = 64,
        waiting: int = 1024,
        observe: Callable[[int], object] = lambda size: None,
        quick: Callable[[Query], bool] = lambda query: False,
    ) -> None:
        self._work, self._executor, self._most, self._waiting, self._observe = work, executor, most, waiting, observe
        self._quick = quick
        self._queue: deque[Waiting[Query, Answer]] = deque()
        self._busy = False
        self._took = QUICK  # by the last query that was alone

    async def __call__(self, query: Query) -> Answer:
        if len(self._queue) >= self._waiting:
            raise Busy
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._queue.append((query, future))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._start, loop)  # with all that the loop has read by then
        # Whoever stops waiting cancels the future; the query is then left out or its answer dropped.
        return await future

    # Not by asyncio's own way into an executor, which takes a task and three futures to a batch.

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hands over what waits, if anything does."""
        batch: list[Waiting[Query, Answer]] = []
        while self._queue and len(batch) < self._most:
            query, future = self._queue.popleft()
            if not future.done():
                batch.append((query, future))
        self._busy = bool(batch)
        if batch:
            self._observe(len(batch))
            if len(batch) == 1 and self._took < QUICK and self._quick(batch[0][0]):
                self._finish(loop, batch, self._timed(batch))
                return
            try:
                self._executor.submit(self._run, loop, batch)
            except RuntimeError as error:  # it is shut down: nobody may wait for ever
                self._finish(loop, batch, [error] * len(batch))

    def _run(self, loop: asyncio.AbstractEventLoop, batch: list[Waiting[Query, Answer]]) -> None:
        """In the executor."""
        loop.call_soon_threadsafe(self._finish, loop, batch, self._timed(batch))

    def _timed(self, batch: list[Waiting[Query, Answer]]) -> Sequence[Answer | Exception]:
        start = time.perf_counter()
        outcomes = self._outcomes([query for query, _ in batch])
        if len(batch) == 1:
            self._took = time.perf_counter() - start
        return outcomes

    def _finish(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: list[Waiting[Query, Answer]],
        outcomes: Sequence[Answer | Exception],
    ) -> None:
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            if future.done():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        self._start(loop)

    def _outcomes(self, queries: list[Query]) -> Sequence[Answer | Exception]:
        try:
            outcomes = self._work(queries)
            if len(outcomes) != len(queries):
                raise RuntimeError(f"{len(outcomes)} answers to {len(queries)} queries")
            return outcomes
        except Exception as error:
            if len(queries) == 1:  # a future takes any exception but this one
                return [RuntimeError("the work ended early") if isinstance(error, StopIteration) else error]
            return [outcome for query in queries for outcome in self._outcomes([query])]
