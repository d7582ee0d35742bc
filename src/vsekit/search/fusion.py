"""Words beside vectors: two rankings of a query, merged by reciprocal rank fusion (Cormack, Clarke & Büttcher, SIGIR 2009):

    fused(d) = 1 / (60 + rank_v(d)) + w(d) / (60 + rank_w(d))

rank_v is the vectors' ranking as far as `DEPTH`; beyond, and in the words' ranking where d holds no word of the query, a term
is 0. rank_w sorts by the share of the query that d holds, ties by the vectors' scores:

    c(d) = Σ idf(t) over terms t that d holds / Σ idf(t) over the query's terms      idf(t) = log(1 + (N - n + ½) / (n + ½))

with n of N items holding t. A sentence shares an ordinary word with many a file name or sign, and that says little; so the
weight w tells what should lead from what may only help.

- d *leads* where it holds the query's specific terms, which are those with a digit in them and those that the model does not
  know as one word (names, codes), as far as any item holds them, or where c ≥ `MOST_OF_IT`. Then w = `LEADS`; but w = `AGREES`
  where no specific term is among them and the vectors are sure of their best: then ordinary words have been understood.
- Else w = `HELPS`·c, which lifts only what the vectors ranked high.

`python -m studies.words` measures what they do, see docs/search.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from vsekit.search.items import Kind
from vsekit.search.stores.base import Found, Store
from vsekit.search.stores.rows import scores
from vsekit.search.words import Phrase, words_of

K = 60
DEPTH = 200
LEADS, AGREES, HELPS = 3.0, 0.9, 0.5
MOST_OF_IT = 0.75
#: A term that more items than this hold tells nothing, and reading them all takes time.
MOST_HOLDERS = 2000
#: Of a query; what comes after is left to the vectors.
MOST_TERMS = 32
#: Words that hold a sentence together, and what people call the thing they look for.
ORDINARY = frozenset(
    words_of(
        """a an the this that these those some any all no not and or but if as of in on at by to from with without for into
    onto over under up down out off near is are was were be been being has have had do does did can will there here it its
    he she they them his her their my your our we you i me who what where when which while photo photos picture pictures
    image images"""
    )
)


@dataclass(frozen=True)
class Spoken:
    """Items that hold words of a query. shares: id → c. leading: ids of those that lead; specific: whether by such terms.
    terms: that were looked for."""

    shares: Mapping[str, float]
    leading: Collection[str]
    specific: bool
    terms: Sequence[Phrase]


def terms_of(text: str) -> list[Phrase]:
    """What of a query is looked for in words: what spaces separate, ordinary words left out."""
    phrases = dict.fromkeys(words_of(piece) for piece in text.split())
    return [phrase for phrase in phrases if phrase and not ORDINARY.issuperset(phrase)][:MOST_TERMS]


def spoken(store: Store, text: str, kind: Kind, read: Callable[[str], Sequence[str]]) -> Spoken | None:
    """The items that hold words of a text; None where there are none, or the store does not search words.

    Args:
        read: what the model reads of a text, see `SearchModel.words`.
    """
    terms = terms_of(text)
    holders = store.held(terms, MOST_HOLDERS + 1, kind=kind) if terms else {}
    if not any(holders.values()):
        return None
    total = store.count(kind)
    idf = {
        term: log(1 + (total - n + 0.5) / (n + 0.5))
        for term, n in ((t, min(len(h), total)) for t, h in holders.items())
    }
    telling = {term: frozenset(ids) for term, ids in holders.items() if 0 < len(ids) <= MOST_HOLDERS}
    shares: dict[str, float] = {}
    whole = sum(idf.values())
    for term, ids in telling.items():
        for id in ids:
            shares[id] = shares.get(id, 0.0) + idf[term] / whole
    specific = [ids for term, ids in telling.items() if _is_specific(term, read)]
    of_most = {id for id, share in shares.items() if share >= MOST_OF_IT}
    leading = frozenset.intersection(*specific) if specific else of_most
    return Spoken(shares, leading, bool(specific), terms) if shares else None


def _is_specific(term: Phrase, read: Callable[[str], Sequence[str]]) -> bool:
    def known(word: str) -> bool:
        pieces = read(word)
        return len(pieces) == 1 and pieces[0] not in ("<unk>", "[UNK]")

    return any(c.isdigit() for word in term for c in word) or not all(map(known, term))


def fused(said: Spoken, found: Found, others: Found, sure: bool) -> Found:
    """Both rankings as one, with the vectors' scores, which are then in no order.

    Args:
        found: the vectors' ranking, of at least `DEPTH` where there are so many.
        others: of items that hold words, and are not in it.
        sure: whether the vectors' best is a good match.
    """
    values = dict(zip([*found.ids, *others.ids], np.concatenate([found.scores, others.scores]).tolist()))
    by_words = sorted((id for id in values if id in said.shares), key=lambda id: (-said.shares[id], -values[id], id))
    leads = LEADS if said.specific or not sure else AGREES
    total = {id: 1 / (K + rank) for rank, id in enumerate(found.ids, start=1)}
    for id in found.ids[DEPTH:]:
        if id in said.shares:
            total[id] = 0.0
    for rank, id in enumerate(by_words, start=1):
        weight = leads if id in said.leading else HELPS * said.shares[id]
        total[id] = total.get(id, 0.0) + weight / (K + rank)
    ids = sorted(total, key=lambda id: (-total[id], -values[id], id))
    return Found(ids, np.array([values[id] for id in ids], dtype=np.float32))


def scored(store: Store, ids: Sequence[str], vector: np.ndarray) -> Found:
    """Items with the scores that the store's own search would give them."""
    return Found(list(ids), scores(vector, store.vectors(ids)) if ids else np.empty(0, dtype=np.float32))
