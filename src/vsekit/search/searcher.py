"""Asking an index: in words, with a picture, with one of its items, or with a sum of these.

>>> searcher = Searcher(open_store("photos.index"), load_search_model("starter"))       # doctest: +SKIP
>>> answer = searcher.search("a brown dog running on sand", top=5)                       # doctest: +SKIP
>>> [(hit.item.path, hit.match) for hit in answer.hits], answer.verdict                  # doctest: +SKIP
"""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from vsekit.errors import UserError
from vsekit.search.calibration import Asked, Calibration
from vsekit.search.filters import Filter
from vsekit.search.filters import parse as parse_filter
from vsekit.search.hiding import Hiding
from vsekit.search.items import Hit, Item, Kind
from vsekit.search.query import Query, combined, parse
from vsekit.search.stores.base import Found, Store

if TYPE_CHECKING:
    from vsekit.data.decoding import Source
    from vsekit.search.base import Prepared, SearchModel
    from vsekit.search.rerank import Reranker
    from vsekit.search.why import Why

CACHED_TEXTS = 4096
ATTEMPTS = 3


@dataclass(frozen=True)
class Timing:
    """Milliseconds. search: of the store; total: with encoding, re-ranking and all else."""

    encode: float
    search: float
    total: float


@dataclass(frozen=True)
class Answer:
    """verdict: None, or a sentence that says that nothing matches. more: whether there are hits beyond these."""

    hits: list[Hit]
    verdict: str | None = None
    more: bool = False
    timing: Timing = field(default_factory=lambda: Timing(0.0, 0.0, 0.0))


@dataclass(frozen=True)
class Ask:
    """A query, and what to find for it.

    top, offset: the best `top` items after the first `offset`.
    kind: what to find, pictures or captions.
    filter: what the metadata must be like, see `vsekit.search.filters`.
    rerank: how many of the best the second model reads again and puts in order; 0 for none.
    """

    query: Query
    top: int = 20
    offset: int = 0
    kind: Kind = "image"
    filter: str | Filter | None = None
    rerank: int = 0


@dataclass(frozen=True)
class _Read:
    """An ask that can be answered. filter: read, and without what is hidden. hidden: pictures whose captions are left out.
    named: the items of the query, which are left out, too."""

    ask: Ask
    filter: Filter | None
    hidden: Collection[str]
    named: Mapping[str, Item]
    vector: np.ndarray

    @property
    def wanted(self) -> int:
        """How many the store must find. One more than is shown tells whether there are more."""
        return max(self.ask.offset + self.ask.top + 1, self.ask.rerank) + len(self.named)


class Searcher:
    """An index together with the model that made it. Any number of threads may ask at once.

    Args:
        store: the index.
        model: must be the one the index was made with.
        reranker: a second model that reads the best answers again, when `search` is told to.

    Attributes:
        header: of the index, when it was opened.
        calibration: what scores of unrelated pairs look like here.
    """

    def __init__(self, store: Store, model: SearchModel, reranker: Reranker | None = None) -> None:
        header = store.header
        made_with = header.get("fingerprint")
        if made_with and made_with != model.fingerprint:
            raise UserError(
                f"this index was made with another model: {header.get('model')} ({made_with}), "
                f"not {model.name} ({model.fingerprint})",
                file=store.location,
                remedy="Search it with the model that made it, or index the pictures again with this one.",
            )
        self.store, self.model, self.reranker, self.header = store, model, reranker, header
        self.calibration = Calibration.of(store, model)
        self.hiding = Hiding(store)
        self._texts: OrderedDict[str, np.ndarray] = OrderedDict()
        self._lock = Lock()

    def search(
        self,
        query: str | Query,
        *,
        top: int = 20,
        offset: int = 0,
        kind: Kind = "image",
        filter: str | Filter | None = None,
        rerank: int = 0,
    ) -> Answer:
        """`search_many` of one; see `Ask` for the options.

        Args:
            query: words or arithmetic (see `vsekit.search.query`), or a query already read. A string may not name files:
                it could come from anywhere. `parse(text, files=True)` reads one that may.
        """
        asked = parse(query) if isinstance(query, str) else query
        (answer,) = self.search_many([Ask(asked, top, offset, kind, filter, rerank)])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def search_many(self, asks: Sequence[Ask]) -> list[Answer | Exception]:
        """Answers each as if it were alone, with one call of each encoder, and one search of the store for those that ask
        for the same. One that can't be answered has its exception in the answer's place, and touches no other.

        timing.encode and timing.search are those of the calls an ask was part of.
        """
        start = time.perf_counter()
        shown = self._shown([ask.query for ask in asks])
        if len(asks) > 1:
            with suppress(Exception):  # whose fault it is shows below
                self.encode_texts([text for ask in asks for text in ask.query.texts])
        answers: list[Answer | Exception] = [RuntimeError("not asked")] * len(asks)
        together: dict[tuple[object, ...], list[tuple[int, _Read]]] = defaultdict(list)
        for i, ask in enumerate(asks):
            try:
                read = self._read(ask, shown[i])
                together[(read.wanted, ask.kind, repr(read.filter))].append((i, read))
            except Exception as error:
                answers[i] = error
        encode = _milliseconds(start)
        for members in together.values():
            for (i, _), answer in zip(members, self._found([read for _, read in members]), strict=True):
                answers[i] = answer
                if isinstance(answer, Answer):
                    timing = Timing(encode, answer.timing.search, _milliseconds(start))
                    answers[i] = replace(answer, timing=timing)
        return answers

    def like(self, item_id: str, **options: Any) -> Answer:
        """Items like one of the index, which is not among them. options: those of `search`."""
        return self.search(Query.of("item", item_id), **options)

    def by_picture(self, image: Source | Prepared, **options: Any) -> Answer:
        """Items that fit a picture, of any kind `vsekit.data.decoding.decode` takes; with kind="caption", sentences that
        describe it. options: those of `search`."""
        return self.search(Query.of("picture", image), **options)

    def why(self, query: str | Query, item_id: str) -> Why:
        """What of the query makes this item match; see `vsekit.search.why`."""
        from vsekit.search.why import explain

        return explain(self, parse(query) if isinstance(query, str) else query, item_id)

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """(n, dim), unit vectors; in one call of the encoder but for those seen before."""
        with self._lock:
            known = {text: self._texts[text] for text in texts if text in self._texts}
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, self.model.encode_texts(new)))
        with self._lock:
            for text in texts:
                self._texts[text] = known[text]
                self._texts.move_to_end(text)
            while len(self._texts) > CACHED_TEXTS:
                self._texts.popitem(last=False)
        return np.stack([known[text] for text in texts]) if texts else np.zeros((0, self.store.dim), np.float32)

    def vector(self, query: Query, *, strict: bool = True) -> np.ndarray:
        """(dim,) the unit vector that stands for a query. One without direction is an error, or zero if not `strict`."""
        (shown,) = self._shown([query])
        return self._vector(query, shown, strict)

    def _shown(self, queries: Sequence[Query]) -> list[list[np.ndarray] | Exception]:
        """For each query the vectors of its pictures, in one call of the encoder; where that fails, one by one."""
        pictures = [[term.value for term in query.terms if term.kind == "picture"] for query in queries]
        if not any(pictures):
            return [[] for _ in queries]
        try:
            vectors = iter(self.model.encode_images([picture for own in pictures for picture in own]))
            return [[next(vectors) for _ in own] for own in pictures]
        except Exception as error:
            return [error] if len(queries) == 1 else [self._shown([query])[0] for query in queries]

    def _vector(self, query: Query, shown: list[np.ndarray] | Exception, strict: bool = True) -> np.ndarray:
        if isinstance(shown, Exception):
            raise shown
        made = {
            "text": iter(self.encode_texts(query.texts)),
            "picture": iter(shown),
            "item": iter(self.store.vectors(query.items) if self.named(query.items) else ()),
        }
        vector = combined([term.weight for term in query.terms], np.stack([next(made[t.kind]) for t in query.terms]))
        if strict and not vector.any():
            raise UserError(
                "this query has no direction: its terms cancel out, or the model knows none of its words",
                remedy="Use other words or weights.",
            )
        return vector

    def _unknown_fields(self, filter: Filter) -> str:
        """A sentence on fields that no picture has: most likely they are mistyped."""
        known = self.store.fields()
        unknown = sorted(filter.asked() - set(known))
        if not unknown:
            return ""
        return (
            f" Nothing has a field {' or '.join(map(repr, unknown))}; there are: {', '.join(sorted(known)) or 'none'}."
        )

    def named(self, ids: Sequence[str]) -> list[Item]:
        """The items of these ids; UserError for one that is not there."""
        try:
            return self.store.items(ids) if ids else []
        except KeyError as error:
            raise UserError(f"no item {error} in this index", remedy="Ids stand in the answers of a search.") from None

    def _read(self, ask: Ask, shown: list[np.ndarray] | Exception) -> _Read:
        if ask.top < 1 or ask.offset < 0 or ask.rerank < 0:
            raise UserError("top must be at least 1, offset and rerank at least 0")
        if ask.rerank and self.reranker is None:
            raise UserError("there is no model to re-rank with", remedy="Name one, for example: --rerank runs/scan")
        filter = parse_filter(ask.filter) if isinstance(ask.filter, str) else ask.filter
        named = {item.id: item for item in self.named(ask.query.items)}
        shown_to, hidden = self.hiding.without(filter), self.hiding.ids(filter)
        return _Read(ask, shown_to, hidden, named, self._vector(ask.query, shown))

    def _found(self, reads: Sequence[_Read]) -> list[Answer | Exception]:
        """Answers to asks that want as many of the same kind, by one search of the store."""
        kind, filter = reads[0].ask.kind, reads[0].filter
        start = time.perf_counter()
        try:
            vectors = np.stack([read.vector for read in reads])
            founds = self.store.search(vectors, reads[0].wanted, kind=kind, filter=filter)
            searched = _milliseconds(start)
            count = self.store.count(kind, filter)
        except Exception as error:
            return [error] if len(reads) == 1 else [self._found([read])[0] for read in reads]
        answers: list[Answer | Exception] = []
        for read, found in zip(reads, founds):
            try:
                answers.append(self._answer(read, found, count, searched))
            except Exception as error:
                answers.append(error)
        return answers

    def _answer(self, read: _Read, found: Found, count: int, searched: float) -> Answer:
        for _ in range(ATTEMPTS - 1):
            with suppress(KeyError):  # an item was removed between being found and being read: look again
                return self._hits(read, found, count, searched)
            kind, filter = read.ask.kind, read.filter
            (found,) = self.store.search(read.vector[None], read.wanted, kind=kind, filter=filter)
            count = self.store.count(kind, filter)
        return self._hits(read, found, count, searched)

    def _hits(self, read: _Read, found: Found, count: int, searched: float) -> Answer:
        ask, vector, found = read.ask, read.vector, _without(found, read.named)
        if ask.kind == "caption" and (hidden := read.hidden):
            found = _without(found, [id_ for id_ in found.ids if id_.rpartition("#")[0] in hidden])
        order = list(range(len(found.ids)))
        if ask.rerank and self.reranker:
            best = self.store.items(found.ids[: ask.rerank])
            order[: ask.rerank] = self.reranker.order(ask.query, best, found.scores[: ask.rerank], read.named)
        shown = order[ask.offset : ask.offset + ask.top]
        items, scores = self.store.items([found.ids[i] for i in shown]), found.scores[shown]
        asked = _asked(ask.query, read.named)
        judged = self.calibration.judge(vector, scores, count, asked, ask.kind)
        hits = [Hit(*columns) for columns in zip(items, scores.tolist(), *judged)]
        filtered = ask.filter is not None
        verdict = self.calibration.verdict(vector, found.scores, count, asked, ask.kind, filtered)
        if filtered and read.filter is not None and not len(found.ids):
            verdict = f"{verdict}{self._unknown_fields(read.filter)}"
        return Answer(hits, verdict, len(order) > ask.offset + ask.top, Timing(0.0, searched, 0.0))


def _asked(query: Query, named: Mapping[str, Item]) -> Asked:
    """What a query is made of; a caption of the index is text."""
    kinds = [named[str(term.value)].kind if term.kind == "item" else term.kind for term in query.terms]
    sides: set[Asked] = {"image" if kind in ("picture", "image") else "text" for kind in kinds}
    return sides.pop() if len(sides) == 1 else "mixed"


def _without(found: Found, ids: Collection[str]) -> Found:
    kept = [i for i, id_ in enumerate(found.ids) if id_ not in ids]
    return found if len(kept) == len(found.ids) else Found([found.ids[i] for i in kept], found.scores[kept])


def _milliseconds(start: float) -> float:
    return 1e3 * (time.perf_counter() - start)
