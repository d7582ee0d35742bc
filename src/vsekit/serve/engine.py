"""The searcher at work for many: one thread that encodes and searches, and a few that read files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from vsekit.search.searcher import Answer, Ask, Searcher
from vsekit.serve.batching import Batcher
from vsekit.serve.limits import Limits
from vsekit.serve.metrics import Metrics
from vsekit.serve.problems import ProblemError

T = TypeVar("T")
ROOTS_SECONDS = 5.0


class Engine:
    """Loads the searcher in the background, then answers.

    Args:
        load: makes the searcher; called in the thread that will use it.
        failed: told the exception when loading fails.
    """

    def __init__(
        self,
        load: Callable[[], Searcher],
        limits: Limits,
        metrics: Metrics,
        failed: Callable[[Exception], object],
    ) -> None:
        self._load, self._failed, self._ready = load, failed, metrics.ready
        self._encoder = ThreadPoolExecutor(1, thread_name_prefix="encoder")
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="reader")
        self._searcher: Searcher | None = None
        self._roots: tuple[float, list[Path]] = (-ROOTS_SECONDS, [])
        self.ask: Batcher[Ask, Answer] = Batcher(
            lambda asks: self.searcher.search_many(asks),
            self._encoder,
            most=limits.batch,
            waiting=limits.concurrent,
            observe=metrics.batch.observe,
        )

    @property
    def searcher(self) -> Searcher:
        if self._searcher is None:
            raise ProblemError(503, "the model is being loaded", "Ask again in a moment.", {"Retry-After": "1"})
        return self._searcher

    @property
    def ready(self) -> bool:
        return self._searcher is not None

    @property
    def roots(self) -> list[Path]:
        """The indexed folders, with links followed. Indexing may add some, so the header is read again now and then."""
        if time.monotonic() - self._roots[0] >= ROOTS_SECONDS:
            roots = [Path(root).resolve() for root in self.searcher.store.header.get("roots", [])]
            # A collection's file stands for the folder it lies in.
            self._roots = (time.monotonic(), [root.parent if root.is_file() else root for root in roots])
        return self._roots[1]

    async def start(self) -> None:
        try:
            self._searcher = await asyncio.get_running_loop().run_in_executor(self._encoder, self._load)
            self._ready.set(1)
        except Exception as error:
            self._failed(error)

    async def encode(self, work: Callable[..., T], *arguments: Any) -> T:
        """In the thread of the encoder."""
        return await asyncio.get_running_loop().run_in_executor(self._encoder, work, *arguments)

    async def read(self, work: Callable[..., T], *arguments: Any) -> T:
        """In one of the threads that read files and the store."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work, *arguments)

    def close(self) -> None:
        """After the last answer."""
        self._encoder.shutdown(cancel_futures=True)
        self._readers.shutdown(cancel_futures=True)
        if self._searcher is not None:
            self._searcher.store.close()
