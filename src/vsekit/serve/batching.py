"""Concurrent queries in one call: what arrives while the worker is busy waits together; an idle worker never waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeAlias, TypeVar

Query = TypeVar("Query")
Answer = TypeVar("Answer")
Waiting: TypeAlias = tuple[Query, asyncio.Future[Answer]]


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
    """

    def __init__(
        self,
        work: Callable[[list[Query]], Sequence[Answer | Exception]],
        executor: Executor,
        *,
        most: int = 64,
        waiting: int = 1024,
        observe: Callable[[int], object] = lambda size: None,
    ) -> None:
        self._work, self._executor, self._most, self._waiting, self._observe = work, executor, most, waiting, observe
        self._queue: deque[Waiting[Query, Answer]] = deque()
        self._busy = False

    async def __call__(self, query: Query) -> Answer:
        if len(self._queue) >= self._waiting:
            raise Busy
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._queue.append((query, future))
        if not self._busy:
            self._start(loop)
        return (
            await future
        )  # whoever stops waiting cancels the future; the query is then left out or its answer dropped

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
            try:
                self._executor.submit(self._run, loop, batch)
            except RuntimeError as error:  # it is shut down: nobody may wait for ever
                self._finish(loop, batch, [error] * len(batch))

    def _run(self, loop: asyncio.AbstractEventLoop, batch: list[Waiting[Query, Answer]]) -> None:
        """In the executor."""
        outcomes = self._outcomes([query for query, _ in batch])
        loop.call_soon_threadsafe(self._finish, loop, batch, outcomes)

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
