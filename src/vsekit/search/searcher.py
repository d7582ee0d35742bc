"""Asking an index: in words, with a picture, with one of its items, or with a sum of these.

>>> searcher = Searcher(open_store("photos.index"), load_search_model("starter"))       # doctest: +SKIP
>>> answer = searcher.search("a brown dog running on sand", top=5)                       # doctest: +SKIP
>>> [(hit.item.path, hit.match) for hit in answer.hits], answer.verdict                  # doctest: +SKIP
"""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from vsekit.errors import UserError
from vsekit.search.answering import answered, side_of
from vsekit.search.asking import Answer, Ask, Read, Timing
from vsekit.search.calibration import Calibration
from vsekit.search.filters import Filter
from vsekit.search.filters import parse as parse_filter
from vsekit.search.fusion import Spoken, spoken
from vsekit.search.hiding import Hiding, leaving_out
from vsekit.search.hubs import query_vectors
from vsekit.search.items import Item, Kind
from vsekit.search.query import Query, combined, parse
from vsekit.search.stores.base import Found, Store
from vsekit.search.words import Holds, words_of

if TYPE_CHECKING:
    from vsekit.data.decoding import Source
    from vsekit.search.base import Prepared, SearchModel
    from vsekit.search.rerank import Reranker
    from vsekit.search.why import Why

CACHED_TEXTS = 4096
ATTEMPTS = 3


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
        together: dict[tuple[object, ...], list[tuple[int, Read]]] = defaultdict(list)
        for i, ask in enumerate(asks):
            try:
                read = self._read(ask, shown[i])
                together[(read.wanted, ask.kind, repr(read.passing))].append((i, read))
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
        return np.stack([known[text] for text in texts]) if texts else np.zeros((0, self.model.dim), np.float32)

    def vector(self, query: Query, kind: Kind = "image", *, strict: bool = True) -> np.ndarray:
        """(dim,) what is compared with items of a kind for a query: its unit vector, and its part in hubs where the index
        tells them (`vsekit.search.hubs`). One without direction is an error, or zero if not `strict`."""
        (shown,) = self._shown([query])
        named = {item.id: item for item in self.named(query.items)}
        return self._vector(query, kind, shown, named, strict)

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

    def _vector(
        self,
        query: Query,
        kind: Kind,
        shown: list[np.ndarray] | Exception,
        named: Mapping[str, Item],
        strict: bool = True,
    ) -> np.ndarray:
        if isinstance(shown, Exception):
            raise shown
        dim = self.model.dim
        made = {
            "text": iter(self.encode_texts(query.texts)),
            "picture": iter(shown),
            "item": iter(self.store.vectors(query.items)[:, :dim] if named else ()),
        }
        vectors = np.stack([next(made[term.kind]) for term in query.terms])
        weights = np.array([term.weight for term in query.terms], np.float32)
        vector = combined(weights.tolist(), vectors)
        if self.store.dim != dim:
            other = [(side_of(term, named) == "image") != (kind == "image") for term in query.terms]
            length = weights @ (vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)) @ vector
            part = float(weights @ other / length) if length > 1e-6 else 0.0
            vector = query_vectors(vector[None], part, dim, self.store.dim)[0]
        if strict and not vector.any():
            raise UserError(
                "this query has no direction: its terms cancel out, or the model knows none of its words",
                remedy="Use other words or weights.",
            )
        return vector

    def named(self, ids: Sequence[str]) -> list[Item]:
        """The items of these ids; UserError for one that is not there."""
        try:
            return self.store.items(ids) if ids else []
        except KeyError as error:
            raise UserError(f"no item {error} in this index", remedy="Ids stand in the answers of a search.") from None

    def _read(self, ask: Ask, shown: list[np.ndarray] | Exception) -> Read:
        if ask.top < 1 or ask.offset < 0 or ask.rerank < 0:
            raise UserError("top must be at least 1, offset and rerank at least 0")
        if ask.rerank and self.reranker is None:
            raise UserError("there is no model to re-rank with", remedy="Name one, for example: --rerank runs/scan")
        filter = parse_filter(ask.filter) if isinstance(ask.filter, str) else ask.filter
        named = {item.id: item for item in self.named(ask.query.items)}
        hidden = self.hiding.ids(filter)
        exact = tuple(Holds(words_of(text)) for text in ask.query.exact)
        if exact and (why := self.store.lacks_words):
            raise UserError(f"exact words can't be found: {why}", remedy="Ask without the quotes.")
        said = self._spoken(ask)
        vector = self._vector(ask.query, ask.kind, shown, named, strict=not (exact or said))
        return Read(ask, leaving_out(hidden, filter), hidden, named, vector, exact, said)

    def _spoken(self, ask: Ask) -> Spoken | None:
        """What holds words of the query, where it is nothing but words, and not all of them exact."""
        query = ask.query
        if query.words is None or query.terms[0].weight != 1 or query.words == " ".join(query.exact):
            return None
        return spoken(self.store, query.words, ask.kind, self.model.words)

    def _found(self, reads: Sequence[Read]) -> list[Answer | Exception]:
        """Answers to asks that want as many of the same kind, by one search of the store."""
        kind, filter = reads[0].ask.kind, reads[0].passing
        start = time.perf_counter()
        try:
            vectors = np.stack([read.vector for read in reads])
            founds = self.store.search(vectors, reads[0].wanted, kind=kind, filter=filter)
            searched = _milliseconds(start)
            count = self._count(founds[0], kind, filter)
        except Exception as error:
            return [error] if len(reads) == 1 else [self._found([read])[0] for read in reads]
        answers: list[Answer | Exception] = []
        for read, found in zip(reads, founds):
            try:
                answers.append(self._answer(read, found, count, searched))
            except Exception as error:
                answers.append(error)
        return answers

    def _answer(self, read: Read, found: Found, count: int, searched: float) -> Answer:
        for _ in range(ATTEMPTS - 1):
            with suppress(KeyError):  # an item was removed between being found and being read: look again
                return answered(self, read, found, count, searched)
            read = replace(read, spoken=self._spoken(read.ask))
            kind, filter = read.ask.kind, read.passing
            (found,) = self.store.search(read.vector[None], read.wanted, kind=kind, filter=filter)
            count = self._count(found, kind, filter)
        return answered(self, read, found, count, searched)

    def _count(self, found: Found, kind: Kind, filter: Filter | None) -> int:
        return self.store.count(kind, filter) if found.among is None else found.among


def _milliseconds(start: float) -> float:
    return 1e3 * (time.perf_counter() - start)
