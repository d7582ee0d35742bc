"""The searcher at work for many: one thread that encodes and searches, and a few that read files."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from vsekit.search.items import Kind
from vsekit.search.query import Query, combined
from vsekit.search.searcher import Answer, Searcher
from vsekit.serve.batching import Batcher
from vsekit.serve.limits import Limits
from vsekit.serve.metrics import Metrics
from vsekit.serve.problems import ProblemError

T = TypeVar("T")
ROOTS_SECONDS = 5.0


@dataclass(frozen=True)
class Ask:
    """A query with the options of `Searcher.search`."""

    query: Query
    top: int
    offset: int = 0
    kind: Kind = "image"
    filter: str | None = None
    rerank: int = 0

    @property
    def options(self) -> dict[str, Any]:
        return {"top": self.top, "offset": self.offset, "kind": self.kind, "filter": self.filter}


def answers(searcher: Searcher, asks: Sequence[Ask]) -> list[Answer | Exception]:
    """Many queries with one call of each encoder, and one search of the store for those that ask for the same.

    timing.encode and timing.search are those of the call a query was part of.
    """
    start = time.perf_counter()
    # Into the searcher's memory, from which arithmetic takes its terms.
    searcher.encode_texts([text for ask in asks for text in ask.query.texts])
    pictures = [i for i, ask in enumerate(asks) if [term.kind for term in ask.query.terms] == ["picture"]]
    found: list[Answer | Exception] = [RuntimeError("not asked")] * len(asks)
    shown = {}
    if pictures:
        encoded = searcher.model.encode_images([asks[i].query.terms[0].value for i in pictures])
        shown = {i: combined([1.0], vector[None]) for i, vector in zip(pictures, encoded)}
    together: dict[tuple[Any, ...], list[tuple[int, np.ndarray]]] = defaultdict(list)
    alone = []
    for i, ask in enumerate(asks):
        try:
            if ask.rerank or (ask.query.words is None and i not in shown):
                alone.append(i)
            else:
                asked = "image" if i in shown else "text"
                vector = shown[i] if i in shown else searcher.vector(ask.query)
                together[(ask.top, ask.offset, ask.kind, ask.filter, asked)].append((i, vector))
        except Exception as error:
            found[i] = error
    encode = 1e3 * (time.perf_counter() - start)
    for (*_, asked), members in together.items():
        options = asks[members[0][0]].options
        parts: Sequence[Answer | Exception]
        try:
            parts = searcher.find(np.stack([vector for _, vector in members]), asked=asked, **options)
        except Exception as error:
            parts = [error] * len(members)
        for (i, _), part in zip(members, parts, strict=True):
            found[i] = part
    for i in alone:
        try:
            found[i] = searcher.search(asks[i].query, rerank=asks[i].rerank, **asks[i].options)
        except Exception as error:
            found[i] = error
    return [
        answer
        if isinstance(answer, Exception)
        else replace(answer, timing=replace(answer.timing, encode=max(encode, answer.timing.encode)))
        for answer in found
    ]


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
            lambda asks: answers(self.searcher, asks),
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
