"""Filters in the dialect of the embedded store: a condition on `row` beside the tables meta (field, value, row) and
`words`.

Booleans are blobs of one byte in that table: they and text and numbers are then kept apart by SQLite's own order,
numbers < text < blobs, and every test is a range of the table's key.
"""

from __future__ import annotations

from collections.abc import Sequence

from vsekit.search.filters import And, Contains, Filter, Has, Like, Not, OneOf, Or, Order
from vsekit.search.items import Value
from vsekit.search.stores.embedded.words import ROWS, matching
from vsekit.search.words import Holds

TEXT = " and value >= '' and value < x''"
NUMBER = " and value < ''"


def stored(value: Value) -> object:
    """What the column meta.value holds for a value."""
    return bytes([value]) if isinstance(value, bool) else value


def condition(filter: Filter) -> tuple[str, list[object]]:
    """The SQL, and the values of its question marks."""
    match filter:
        case Has(field):
            return _rows("", field)
        case OneOf(field, values):
            places = ", ".join("?" * len(values))
            return _rows(f" and value in ({places})", field, *map(stored, values))
        case Order(field, operator, value):
            return _rows(f" and value {operator} ?{TEXT if isinstance(value, str) else NUMBER}", field, value)
        case Contains(field, text):
            return _rows(f"{TEXT} and instr(value, ?)", field, text)
        case Like():
            # SQLite's LIKE takes a for A; its GLOB does not.
            pattern = filter.translated("*", "?", lambda c: f"[{c}]" if c in "*?[" else c)
            return _rows(f"{TEXT} and value glob ?", filter.field, pattern)
        case Holds(phrase):
            return ROWS, [matching(phrase), matching(phrase)]
        case Not(term):
            sql, params = condition(term)
            return f"not ({sql})", params
        case And(terms):
            return _chain("and", terms)
        case Or(terms):
            return _chain("or", terms)
    raise TypeError(f"no filter: {filter!r}")


def _rows(test: str, *params: object) -> tuple[str, list[object]]:
    return f"row in (select row from meta where field = ?{test})", list(params)


def _chain(word: str, terms: Sequence[Filter]) -> tuple[str, list[object]]:
    parts = [condition(term) for term in terms]
    return "(" + f" {word} ".join(sql for sql, _ in parts) + ")", [value for _, params in parts for value in params]
