"""Asking an index: in words, with a picture, with one of its items, or with a sum of these.

>>> searcher = Searcher(open_store("photos.index"), load_search_model("starter"))       # doctest: +SKIP
>>> answer = searcher.search("a brown dog running on sand", top=5)                       # doctest: +SKIP
>>> [(hit.item.path, hit.match) for hit in answer.hits], answer.verdict                  # doctest: +SKIP
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from vsekit.errors import UserError
from vsekit.search.calibration import Asked, Calibration
from vsekit.search.items import Hit, Item, Kind
from vsekit.search.query import Query, combined, parse
from vsekit.search.stores.base import Found, Store

if TYPE_CHECKING:
    from vsekit.data.decoding import Source
    from vsekit.search.filters import Filter
    from vsekit.search.models import Prepared, SearchModel
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


class Searcher:
    """An index together with the model that made it. Any number of threads may ask at once.

    Args:
        store: the index.
        model: must be the one the index was made with.
        reranker: a second model that reads the best answers again, when `search` is told to.

    Attributes:
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
        self.store, self.model, self.reranker = store, model, reranker
        self.calibration = Calibration.of(store, model)
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
        """The best `top` items after the first `offset`.

        Args:
            query: words or arithmetic (see `vsekit.search.query`), or a query already read. A string may not name files:
                it could come from anywhere. `parse(text, files=True)` reads one that may.
            kind: what to find, pictures or captions.
            filter: what the metadata must be like, see `vsekit.search.filters`.
            rerank: how many of the best the second model reads again and puts in order; 0 for none.
        """
        start = time.perf_counter()
        query = parse(query) if isinstance(query, str) else query
        vector = self.vector(query)
        encode = _milliseconds(start)
        named = {item.id: item for item in self.named(query.items)}
        (answer,) = self._find(vector[None], top, offset, kind, filter, _asked(query, named), query, named, rerank)
        return replace(answer, timing=Timing(encode, answer.timing.search, _milliseconds(start)))

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
        pictures = [term.value for term in query.terms if term.kind == "picture"]
        made = {
            "text": iter(self.encode_texts(query.texts)),
            "picture": iter(self.model.encode_images(pictures) if pictures else ()),
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

    def find(
        self,
        vectors: np.ndarray,
        *,
        top: int = 20,
        offset: int = 0,
        kind: Kind = "image",
        filter: str | Filter | None = None,
        asked: Asked = "text",
    ) -> list[Answer]:
        """Answers to several vectors (n, dim) in one search of the store. asked: what they are made of."""
        return self._find(vectors, top, offset, kind, filter, asked)

    def named(self, ids: Sequence[str]) -> list[Item]:
        """The items of these ids; UserError for one that is not there."""
        try:
            return self.store.items(ids) if ids else []
        except KeyError as error:
            raise UserError(f"no item {error} in this index", remedy="Ids stand in the answers of a search.") from None

    def _find(
        self,
        vectors: np.ndarray,
        top: int,
        offset: int,
        kind: Kind,
        filter: str | Filter | None,
        asked: Asked,
        query: Query | None = None,
        named: Mapping[str, Item] = MappingProxyType({}),
        rerank: int = 0,
    ) -> list[Answer]:
        """`find`. Of a query, the items it names are left out, and the best `rerank` are put in order by the reranker."""
        if top < 1 or offset < 0 or rerank < 0:
            raise UserError("top must be at least 1, offset and rerank at least 0")
        if rerank and self.reranker is None:
            raise UserError("there is no model to re-rank with", remedy="Name one, for example: --rerank runs/scan")
        if isinstance(filter, str):
            from vsekit.search.filters import parse as parse_filter

            filter = parse_filter(filter)
        # One more than is shown tells whether there are more.
        want = max(offset + top + 1, rerank) + len(named)
        for attempt in range(ATTEMPTS):
            start = time.perf_counter()
            founds = [_without(found, named) for found in self.store.search(vectors, want, kind=kind, filter=filter)]
            searched = _milliseconds(start)
            n = self.store.count(kind, filter)
            answers = []
            try:
                for vector, found in zip(vectors, founds):
                    order = list(range(len(found.ids)))
                    if rerank and self.reranker and query:
                        best = self.store.items(found.ids[:rerank])
                        order[:rerank] = self.reranker.order(query, best, found.scores[:rerank], named)
                    shown = order[offset : offset + top]
                    items, scores = self.store.items([found.ids[i] for i in shown]), found.scores[shown]
                    judged = self.calibration.judge(vector, scores, n, asked, kind)
                    hits = [Hit(*columns) for columns in zip(items, scores.tolist(), *judged)]
                    verdict = self.calibration.verdict(vector, found.scores, n, asked, kind, filter is not None)
                    if filter is not None and not len(found.ids):
                        verdict = f"{verdict}{self._unknown_fields(filter)}"
                    timing = Timing(0.0, searched, _milliseconds(start))
                    answers.append(Answer(hits, verdict, len(order) > offset + top, timing))
                return answers
            except KeyError:  # an item was removed between being found and being read: look again
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError


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


def load_searcher(store: Store, model: str | None = None, rerank: str | None = None) -> Searcher:
    """The searcher of an index, with the model that its header names.

    Args:
        model: where that model is, if no longer where it was.
        rerank: a run or model that reads the best answers again; what it makes of pictures is kept beside an index that is a
            folder.
    """
    from vsekit.search.models import load_search_model
    from vsekit.search.rerank import Reranker

    name = model or store.header.get("model")
    if not name:
        raise UserError("this index holds nothing yet", file=store.location, remedy="Fill it with vse index.")
    try:
        loaded = load_search_model(name)
    except UserError as error:
        if model:
            raise
        raise UserError(
            f"the model of this index can't be loaded: {error}", file=store.location, remedy="Say where it is: --model"
        ) from None
    beside = Path(store.location)
    folder = beside / "rerank" if beside.is_dir() else None
    return Searcher(store, loaded, Reranker.load(rerank, folder=folder) if rerank else None)
