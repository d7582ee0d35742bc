"""The searcher at work for many: one thread that encodes and searches, a few that read the store and files, and others that
wait for decoders, so that pictures that take long to decode hold up nothing else: uploads one, pictures to show a few. A few
words asked of a small index take less than handing them over, and are not (`vsekit.serve.batching`).

The index may change under it. Every `WATCH_SECONDS`, and when somebody asks whether it is ready, the engine looks whether the
index is still there, is still the same one, and judges scores as before; else it goes on with what is there now. Who was
being answered keeps the old one, which is closed `RETIRE_SECONDS` later.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from vsekit.search.opening import followed
from vsekit.search.searcher import Answer, Ask, Searcher
from vsekit.search.stores import Store
from vsekit.search.stores.base import UnreachableError
from vsekit.serve.batching import Batcher
from vsekit.serve.limits import Limits
from vsekit.serve.metrics import Metrics
from vsekit.serve.pictures import indexed_folders
from vsekit.serve.problems import ProblemError

T = TypeVar("T")
ROOTS_SECONDS = 5.0
WATCH_SECONDS = 5.0
LOOK_SECONDS = 1.0
RETIRE_SECONDS = 120.0
FEW = 200  # characters of a query, and hits, that take no time to speak of
LOG = logging.getLogger("vsekit.serve")


class Engine:
    """Loads the searcher in the background, then answers.

    Args:
        load: makes the searcher, of an index that it opens; called again when that is another one.
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
        self._uploads = ThreadPoolExecutor(1, thread_name_prefix="upload")
        self._shown = ThreadPoolExecutor(4, thread_name_prefix="shown")
        self._searcher: Searcher | None = None
        self._identity = ""
        self._away: str | None = None  # why the index can't be asked
        self._looked = 0.0
        self._looking = asyncio.Lock()
        self._watcher: asyncio.Task[None] | None = None
        self._retired: list[Store] = []
        self._roots: tuple[float, list[Path]] = (-ROOTS_SECONDS, [])
        self.ask: Batcher[Ask, Answer] = Batcher(
            lambda asks: self.searcher.search_many(asks),
            self._encoder,
            most=limits.batch,
            waiting=limits.concurrent,
            observe=metrics.batch.observe,
            quick=self._quick,
        )

    @property
    def searcher(self) -> Searcher:
        if self._searcher is None:
            raise ProblemError(503, "the model is being loaded", "Ask again in a moment.", {"Retry-After": "1"})
        if self._away is not None:
            raise ProblemError(503, "the index can't be reached", "The server's log says why.", {"Retry-After": "5"})
        return self._searcher

    @property
    def ready(self) -> bool:
        return self._searcher is not None and self._away is None

    @property
    def state(self) -> str:
        """For `Health`."""
        return "loading" if self._searcher is None else "ok" if self._away is None else "unavailable"

    @property
    def roots(self) -> list[Path]:
        """The indexed folders, with links followed. Indexing may add some, so the header is read again now and then."""
        if time.monotonic() - self._roots[0] >= ROOTS_SECONDS:
            self._roots = (time.monotonic(), indexed_folders(self.searcher.store))
        return self._roots[1]

    async def start(self) -> None:
        try:
            searcher = await asyncio.get_running_loop().run_in_executor(self._encoder, self._load)
            self._identity = await self.read(searcher.store.identity)
        except Exception as error:
            self._failed(error)
            return
        self._searcher = searcher
        self._ready.set(1)
        self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            await self.look()

    async def answer(self, ask: Ask) -> Answer:
        """By the index that is there now: one that went away in between is looked for once."""
        try:
            return await self.ask(ask)
        except UnreachableError:
            await self.look(0.0)
            return await self.ask(ask)

    def _quick(self, ask: Ask) -> bool:
        """Whether an ask is a few words alone, of an index that is at hand: nothing in it could take long."""
        words, searcher = ask.query.words, self._searcher
        plain = words is not None and len(words) <= FEW and ask.filter is None and not ask.rerank
        few = plain and ask.offset + ask.top <= FEW
        return few and searcher is not None and searcher.store.at_hand(ask.kind)

    async def look(self, seconds: float = LOOK_SECONDS) -> None:
        """Looks after the index, see the module, unless somebody did in the last so many seconds or since this was called."""
        called = time.monotonic()
        async with self._looking:
            if self._searcher is None or self._looked > called - seconds:
                return
            before, old = self._away, self._searcher
            began = time.monotonic()  # what changes while it looks, it may not have seen
            try:
                new = await self.read(self._current, old)
                self._away = None
            except Exception as error:  # whatever a database raises when it is not there
                new, self._away = old, str(error)
            self._looked = began
            if self._away != before:
                LOG.warning("the index is there again" if self._away is None else f"no index: {self._away}")
            self._ready.set(self._away is None)
            self._searcher = new
            if new is not old:
                self._roots = (-ROOTS_SECONDS, [])
                if new.store is not old.store:
                    self._retired.append(old.store)
                    asyncio.get_running_loop().call_later(RETIRE_SECONDS, self._close_retired, old.store)

    def _current(self, old: Searcher) -> Searcher:
        new = followed(old, self._identity, self._load)
        if new is not old:
            self._identity = new.store.identity()
        return new

    def _close_retired(self, store: Store) -> None:
        if store in self._retired:
            self._retired.remove(store)
            store.close()

    async def encode(self, work: Callable[..., T], *arguments: Any) -> T:
        """In the thread of the encoder."""
        return await asyncio.get_running_loop().run_in_executor(self._encoder, work, *arguments)

    async def read(self, work: Callable[..., T], *arguments: Any) -> T:
        """In one of the threads that read files and the store."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work, *arguments)

    async def upload(self, work: Callable[..., T], *arguments: Any) -> T:
        """In the thread that has uploads decoded: one at a time, so that a decoder is left for what is shown."""
        return await asyncio.get_running_loop().run_in_executor(self._uploads, work, *arguments)

    async def show(self, work: Callable[..., T], *arguments: Any) -> T:
        """In one of the threads that have indexed pictures decoded."""
        return await asyncio.get_running_loop().run_in_executor(self._shown, work, *arguments)

    def soon(self, work: Callable[[], object]) -> None:
        """The same for what nobody waits for."""
        self._readers.submit(work)

    def close(self) -> None:
        """After the last answer."""
        if self._watcher is not None:
            self._watcher.cancel()
        for executor in (self._encoder, self._readers, self._uploads, self._shown):
            executor.shutdown(cancel_futures=True)
        for store in [*self._retired, *([self._searcher.store] if self._searcher is not None else [])]:
            store.close()
