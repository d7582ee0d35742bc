"""Filters in the dialect of the Milvus store: a condition on the JSON field `meta`.

Milvus' expressions can't quote every name and text, so there both are hexadecimal, which keeps the order of code points.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from vsekit.search.filters import And, Filter, Has, Not, OneOf, Or, Order
from vsekit.search.items import Value

#: In one expression; more are compared here.
MOST_IDS = 5000


def stored(meta: Mapping[str, Value]) -> dict[str, Value]:
    """The field `meta` for this metadata."""
    return {_hex(name): _hex(value) if isinstance(value, str) else value for name, value in meta.items()}


def condition(filter: Filter) -> str | None:
    """The expression; None where Milvus has no such test, and `Filter.matches` must be asked."""
    match filter:
        case Has(field):
            # Milvus 2.3 refuses its own `exists` within `and`. Every text begins with the x of `_hex`.
            tests = ('>= "x"', "<= 0", "> 0", "== true", "== false")
            return _joined("or", [f"{_field(field)} {test}" for test in tests])
        case OneOf("\0id", ids):  # `words.ID`
            return f"id in {json.dumps([str(id).encode().hex() for id in ids])}" if len(ids) <= MOST_IDS else None
        case OneOf(field, values):
            return _joined("or", [f"{_field(field)} == {_value(value)}" for value in values])
        case Order(field, operator, value):
            return f"{_field(field)} {operator} {_value(value)}"
        case Not(term):
            inner = condition(term)
            return inner and f"not ({inner})"
        case And(terms):
            return _joined("and", [condition(term) for term in terms])
        case Or(terms):
            return _joined("or", [condition(term) for term in terms])
    return None


def _hex(text: str) -> str:
    return "x" + text.encode().hex()


def _field(name: str) -> str:
    return f'meta["{_hex(name)}"]'


def _value(value: Value) -> str:
    return json.dumps(_hex(value) if isinstance(value, str) else value)


def _joined(word: str, terms: Sequence[str | None]) -> str | None:
    if any(term is None for term in terms):
        return None
    return "(" + f" {word} ".join(str(term) for term in terms) + ")"
