"""From what a store found to an answer: merged with what words find, judged, and with the reasons that words give."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from vsekit.search.asking import Answer, Read, Timing
from vsekit.search.calibration import Asked
from vsekit.search.fusion import fused, scored
from vsekit.search.items import Hit, Item
from vsekit.search.query import Query, Term
from vsekit.search.said import said_by
from vsekit.search.stores.base import Found, Store

if TYPE_CHECKING:
    from vsekit.search.searcher import Searcher


def answered(searcher: Searcher, read: Read, found: Found, count: int, searched: float) -> Answer:
    """KeyError where an item was removed since it was found.

    Args:
        found: by the vectors. count: what it was found among. searched: milliseconds.
    """
    ask, store, calibration = read.ask, searcher.store, searcher.calibration
    found = _without(found, read.named)
    if ask.kind == "caption" and (hidden := read.hidden):
        found = _without(found, [id_ for id_ in found.ids if id_.rpartition("#")[0] in hidden])
    asked = _asked(ask.query, read.named)
    verdict = _verdict(searcher, read, found, count, asked)
    best = calibration.judge(read.vector, found.scores[:1], count, asked, ask.kind).matches
    if ask.rerank and searcher.reranker:
        order = np.arange(len(found.ids))
        again = store.items(found.ids[: ask.rerank])
        order[: ask.rerank] = searcher.reranker.order(ask.query, again, found.scores[: ask.rerank], read.named)
        found = Found([found.ids[i] for i in order], found.scores[order])
    if read.spoken:
        found = _with_words(store, read, found, sure=bool(best) and best[0] in ("strong", "likely"))
    shown = slice(ask.offset, ask.offset + ask.top)
    items = store.items(found.ids[shown]) if found.items is None else found.items[shown]
    scores = found.scores[shown]
    judged = calibration.judge(read.vector, scores, count, asked, ask.kind)
    hits = [Hit(*columns) for columns in zip(items, scores.tolist(), *judged)]
    led: Collection[str] = found.ids if read.exact else read.spoken.leading if read.spoken else ()
    return Answer(
        [_explained(store, read, hit, hit.item.id in led) for hit in hits],
        None if any(id_ in led for id_ in found.ids) else verdict,
        len(found.ids) > ask.offset + ask.top,
        Timing(0.0, searched, 0.0),
    )


def _with_words(store: Store, read: Read, found: Found, sure: bool) -> Found:
    """Merged with what words find; where some must be exact, among what was found."""
    assert read.spoken
    if not read.vector.any() and not read.exact:  # the model knows none of the words
        found = Found([], found.scores[:0])
    there = set(found.ids)
    others = [] if read.exact else [id_ for id_ in read.spoken.shares if id_ not in there]
    if read.filter is not None:
        others = [item.id for item in store.items(others) if read.filter.matches(item.meta)]
    if read.ask.kind == "caption":
        others = [id_ for id_ in others if id_.rpartition("#")[0] not in read.hidden]
    return fused(read.spoken, found, scored(store, others, read.vector), sure)


def _explained(store: Store, read: Read, hit: Hit, led: bool) -> Hit:
    """With the words it was found by, if any; where they led, it is no worse than a likely match."""
    phrases = [holds.phrase for holds in read.exact]
    if read.spoken and hit.item.id in read.spoken.shares:
        phrases += read.spoken.terms
    if not phrases:
        return hit
    said = said_by(store, hit.item, list(dict.fromkeys(phrases)))
    return replace(hit, match="likely" if led and hit.match in ("weak", "none") else hit.match, said=said)


def _verdict(searcher: Searcher, read: Read, found: Found, count: int, asked: Asked) -> str | None:
    """Of the vectors, or that there are no such words."""
    ask, filtered = read.ask, read.ask.filter is not None
    if not found.ids and read.exact and searcher.store.count(ask.kind, read.filter):
        texts = " and ".join(f'"{text}"' for text in ask.query.exact)
        return f"No {'picture' if ask.kind == 'image' else 'caption'} here has the words {texts}."
    words = sum(len(text.split()) for text in ask.query.texts)
    verdict = searcher.calibration.verdict(read.vector, found.scores, count, asked, ask.kind, filtered, words)
    if not (filtered and read.filter is not None and not found.ids):
        return verdict
    known = searcher.store.fields()
    unknown = sorted(read.filter.asked() - set(known))  # most likely they are mistyped
    if not unknown:
        return verdict
    there = ", ".join(sorted(known)) or "none"
    return f"{verdict} Nothing has a field {' or '.join(map(repr, unknown))}; there are: {there}."


def _asked(query: Query, named: Mapping[str, Item]) -> Asked:
    """What a query is made of; a caption of the index is text."""
    sides: set[Asked] = {side_of(term, named) for term in query.terms}
    return sides.pop() if len(sides) == 1 else "mixed"


def side_of(term: Term, named: Mapping[str, Item]) -> Literal["text", "image"]:
    kind = named[str(term.value)].kind if term.kind == "item" else term.kind
    return "image" if kind in ("picture", "image") else "text"


def _without(found: Found, ids: Collection[str]) -> Found:
    kept = [i for i, id_ in enumerate(found.ids) if id_ not in ids]
    return found if len(kept) == len(found.ids) else Found([found.ids[i] for i in kept], found.scores[kept])
