from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vsekit.serve import batching
from vsekit.serve.batching import Batcher, Busy


class Work:
    """Doubles numbers; raises on a batch with a 13 in it. While `gate` is closed it doesn't go on."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.started, self.gate = threading.Semaphore(0), threading.Event()
        self.gate.set()
        self.running = 0

    def __call__(self, queries: list[int]) -> list[int | Exception]:
        self.running += 1
        assert self.running == 1, "called twice at a time"
        self.batches.append(queries)
        self.started.release()
        self.gate.wait(10)
        self.running -= 1
        if 13 in queries:
            raise ValueError("13")
        return [KeyError(query) if query == 7 else 2 * query for query in queries]


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


async def started(work: Work) -> None:
    await asyncio.get_running_loop().run_in_executor(None, work.started.acquire)


def test_an_idle_worker_takes_a_query_at_once_and_alone(executor: ThreadPoolExecutor) -> None:
    work = Work()

    async def ask() -> list[int]:
        batcher = Batcher(work, executor)
        return [await batcher(query) for query in (1, 2, 3)]

    assert asyncio.run(ask()) == [2, 4, 6]
    assert work.batches == [[1], [2], [3]]


def test_what_arrives_while_the_worker_is_busy_is_one_batch(executor: ThreadPoolExecutor) -> None:
    work, sizes = Work(), []

    async def ask() -> list[int]:
        batcher = Batcher(work, executor, most=3, observe=sizes.append)
        work.gate.clear()
        first = asyncio.create_task(batcher(0))
        await started(work)
        others = [asyncio.create_task(batcher(query)) for query in range(1, 6)]
        await asyncio.sleep(0)
        work.gate.set()
        return [await task for task in (first, *others)]

    assert asyncio.run(ask()) == [0, 2, 4, 6, 8, 10]
    assert work.batches == [[0], [1, 2, 3], [4, 5]]
    assert sizes == [1, 3, 2]


def test_a_query_nobody_waits_for_is_left_out(executor: ThreadPoolExecutor) -> None:
    work = Work()

    async def ask() -> int:
        batcher = Batcher(work, executor)
        work.gate.clear()
        first = asyncio.create_task(batcher(1))
        await started(work)
        gone, stays = asyncio.create_task(batcher(2)), asyncio.create_task(batcher(3))
        await asyncio.sleep(0)
        gone.cancel()
        first.cancel()  # already being worked on: its answer is dropped
        await asyncio.sleep(0)
        work.gate.set()
        return await stays

    assert asyncio.run(ask()) == 6
    assert work.batches == [[1], [3]]


def test_a_full_queue_says_so_and_keeps_its_queries(executor: ThreadPoolExecutor) -> None:
    work = Work()

    async def ask() -> list[int]:
        batcher = Batcher(work, executor, waiting=2)
        work.gate.clear()
        tasks = [asyncio.create_task(batcher(1))]
        await started(work)
        tasks += [asyncio.create_task(batcher(query)) for query in (2, 3)]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await batcher(4)
        work.gate.set()
        return [await task for task in tasks]

    assert asyncio.run(ask()) == [2, 4, 6]


@pytest.mark.parametrize(
    "work", [lambda queries: [], lambda queries: next(iter([]))], ids=["too few answers", "StopIteration"]
)
def test_broken_work_is_an_error_and_not_a_wait(work: object, executor: ThreadPoolExecutor) -> None:
    async def ask() -> None:
        await asyncio.wait_for(Batcher(work, executor)(1), 10)  # type: ignore[arg-type]

    with pytest.raises(RuntimeError):
        asyncio.run(ask())


class Where:
    """Doubles numbers, and notes by which thread. Each takes as long as `seconds` says, by a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds, self.now = 0.0, 0.0
        self.looped: list[tuple[list[int], bool]] = []
        monkeypatch.setattr(batching, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def __call__(self, queries: list[int]) -> list[int | Exception]:
        self.looped.append((queries, threading.current_thread() is threading.main_thread()))
        self.now += self.seconds
        return [KeyError(query) if query == 7 else 2 * query for query in queries]


def test_a_quick_query_after_a_quick_one_is_worked_on_in_the_loop(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Where(monkeypatch)

    async def ask() -> None:
        batcher = Batcher(work, executor, quick=lambda query: query != 5)
        for query in (1, 2, 5, 7, 3):
            with suppress(KeyError):
                assert await batcher(query) == 2 * query
        work.seconds = 1.0
        for query in (4, 4, 6):
            assert await batcher(query) == 2 * query
        work.seconds = 0.0
        assert [await batcher(query) for query in (8, 9)] == [16, 18]

    asyncio.run(ask())
    # Handed over: the first, the one that is not quick, and each that follows one that took long.
    assert [query for (query,), in_loop in work.looped if not in_loop] == [1, 5, 4, 6, 8]
    assert [query for (query,), in_loop in work.looped if in_loop] == [2, 7, 3, 4, 9]


def test_quick_queries_that_come_together_are_one_batch_in_the_executor(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Where(monkeypatch)

    async def ask() -> list[int]:
        batcher = Batcher(work, executor, quick=lambda query: True)
        await batcher(0)
        return await asyncio.gather(*map(batcher, (1, 2, 3)))

    assert asyncio.run(ask()) == [2, 4, 6]
    assert work.looped == [([0], False), ([1, 2, 3], False)]


def test_a_closed_executor_is_an_error_and_not_a_wait() -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()

    async def ask() -> None:
        await asyncio.wait_for(Batcher(Work(), pool)(1), 10)

    with pytest.raises(RuntimeError, match="shutdown"):
        asyncio.run(ask())


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 14), st.integers(0, 3), st.booleans()), max_size=30),
    st.integers(1, 5),
)
def test_everyone_gets_the_own_answer_or_the_own_error_whatever_the_others_do(
    asks: list[tuple[int, int, bool]], most: int
) -> None:
    """asks: the number, how many turns of the loop to wait before asking, and whether to give up in the middle."""
    work = Work()

    async def one(batcher: Batcher[int, int], query: int, turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return await batcher(query)

    async def ask() -> list[int | BaseException]:
        batcher = Batcher(work, pool, most=most)
        tasks = [asyncio.create_task(one(batcher, query, turns)) for query, turns, _ in asks]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task, (_, _, gives_up) in zip(tasks, asks):
            if gives_up:
                task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    with ThreadPoolExecutor(2) as pool:
        outcomes = asyncio.run(ask())
    for (query, _, gives_up), outcome in zip(asks, outcomes, strict=True):
        if gives_up and isinstance(outcome, asyncio.CancelledError):
            continue
        expected = {7: KeyError, 13: ValueError}.get(query)
        assert isinstance(outcome, expected) if expected else outcome == 2 * query
    assert all(1 <= len(batch) <= most for batch in work.batches)
