"""The words of the Milvus store's items: a list in the JSON field `meta`, which `json_contains_all` looks through.

Milvus has full text of its own since 2.5; 2.3, which vsekit supports, has not, and a collection can't be given the field that it
needs later on. So words are found by what every version can do, a scan on the server. It compares words, not their sequence: those
in a row are looked at once more here. A filter by words becomes one by ids. Collections made before hold no words, and get them
from their next writer, which reads and writes every row once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from vsekit.search.filters import And, Filter, Not, OneOf, Or
from vsekit.search.items import Item, Kind
from vsekit.search.stores.milvus.collection import Collection, item_of
from vsekit.search.words import GAP, Holds, Phrase, holds, stream

#: Among metadata, whose own names are hexadecimal there.
FIELD = "words"
#: Milvus' JSON ends at 64 KB, which metadata needs too; words beyond these bytes are not found.
ROOM = 24_000
#: In place of a field's name: the id of an item.
ID = "\0id"


def stored(item: Item) -> list[str]:
    """The words of an item, each once."""
    found, room = [], ROOM
    for word in dict.fromkeys(stream(item)):
        written = _written(word)
        room -= len(written) + 4
        if room < 0:
            break
        if word != GAP:
            found.append(written)
    return found


def _written(word: str) -> str:
    """In letters that an expression can quote."""
    return word if word.isascii() else "_" + word.encode().hex()


def holding(collection: Collection, marker: Mapping[str, Any], phrase: Phrase, kinds: Iterable[Kind]) -> Iterator[Item]:
    """Items whose own words hold a phrase."""
    condition = f'json_contains_all(meta["{FIELD}"], {json.dumps([_written(word) for word in phrase])})'
    for kind in kinds:
        for rows in collection.pages(lambda: marker, condition, ["kind", "doc"], kind):
            items = map(item_of, rows)
            yield from (item for item in items if len(phrase) == 1 or holds(stream(item), phrase))


def resolved(filter: Filter, ids: Callable[[Phrase], Iterable[str]]) -> Filter:
    """The filter with ids in place of words."""
    match filter:
        case Holds(phrase):
            return OneOf(ID, tuple(sorted(ids(phrase))))
        case Not(term):
            return Not(resolved(term, ids))
        case And(terms):
            return And(tuple(resolved(term, ids) for term in terms))
        case Or(terms):
            return Or(tuple(resolved(term, ids) for term in terms))
    return filter
