"""A hook of schemathesis: puts what is right where a language stands that no schema tells.

Queries, filters and pictures have languages of their own, ids and places are those of the index, `offset` and `top` are bounded
together, nothing is re-ranked without a model for it, and something is said of what is marked. With these in order, every
request that the description calls right must be accepted. Requests that are made wrong on purpose are left as they are.
"""

from __future__ import annotations

from typing import Any

import schemathesis

DEPTH, TOP = 20_000, 60
#: file: a picture of two pixels, as text (PPM).
RIGHT = {
    "query": "red circle",
    "filter": "year > 2000",
    "id": "p000003",
    "after": "2020-01-01,p000003",
    "rerank": 0,
    "file": "P3 2 1 255 200 50 43 200 50 43\n",
}


def _put_right(values: Any) -> None:
    if not isinstance(values, dict):
        return
    values |= {name: right for name, right in RIGHT.items() if name in values and values[name] is not None}
    if "ids" in values:
        values["ids"] = ["p000003"] if isinstance(values["ids"], list) else "p000003,p000004"
    if values.get("favourite") is None and values.get("hidden") is None and isinstance(values.get("ids"), list):
        values["hidden"] = False
    if "offset" in values:
        kind = type(values["offset"])  # in an address, a number is text
        values["offset"] = kind(min(int(values["offset"]), DEPTH - int(values.get("top", TOP))))


@schemathesis.hook
def before_call(context: Any, case: schemathesis.Case, kwargs: dict[str, Any]) -> None:
    if case.meta is not None and case.meta.generation.mode.is_positive:
        for values in (case.path_parameters, case.query, case.body):
            _put_right(values)
