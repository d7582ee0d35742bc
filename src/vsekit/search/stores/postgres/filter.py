"""Filters in the dialect of the PostgreSQL store: a condition on the column `meta` of type jsonb, and on
`words`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from vsekit.search.filters import And, Contains, Filter, Has, Like, Not, OneOf, Or, Order
from vsekit.search.stores.postgres import words
from vsekit.search.words import Holds


def condition(filter: Filter, table: str) -> tuple[str, list[object]]:
    """The SQL, and the values of its %s."""
    match filter:
        case Has(field):
            return "jsonb_exists(meta, %s)", [field]
        case OneOf(field, values):
            return "coalesce(meta -> %s = any(%s::jsonb[]), false)", [field, [json.dumps(value) for value in values]]
        case Order(field, operator, str(text)):
            return _of_type("string", f'(meta ->> %s) collate "C" {operator} %s', field, text)
        case Order(field, operator, value):
            return _of_type("number", f"meta -> %s {operator} %s::jsonb", field, json.dumps(value))
        case Contains(field, text):
            return _of_type("string", "strpos(meta ->> %s, %s) > 0", field, text)
        case Like(field, pattern):
            return _of_type("string", "(meta ->> %s) like %s", field, pattern.replace("\\", "\\\\"))
        case Holds(phrase):
            return words.condition(table, phrase)
        case Not(term):
            sql, params = condition(term, table)
            return f"not ({sql})", params
        case And(terms):
            return _chain("and", terms, table)
        case Or(terms):
            return _chain("or", terms, table)
    raise TypeError(f"no filter: {filter!r}")


def _of_type(type: str, test: str, field: str, value: object) -> tuple[str, list[object]]:
    return f"coalesce(jsonb_typeof(meta -> %s) = '{type}' and {test}, false)", [field, field, value]


def _chain(word: str, terms: Sequence[Filter], table: str) -> tuple[str, list[object]]:
    parts = [condition(term, table) for term in terms]
    return "(" + f" {word} ".join(sql for sql, _ in parts) + ")", [value for _, params in parts for value in params]
