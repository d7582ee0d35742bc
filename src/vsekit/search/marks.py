"""What people said of pictures, carried over to an index that is made anew.

Until all of its pictures are there, the new index keeps it in its header: a kill costs nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from vsekit.errors import UserError
from vsekit.search.filters import Has, Or
from vsekit.search.items import MARKS, Value
from vsekit.search.stores.base import Store

Marks = dict[str, dict[str, Value]]
MARKED = Or(tuple(Has(name) for name in MARKS))


def marks_of(store: Store) -> Marks:
    """Path → marks of the pictures that have any, with those that wait for their pictures."""
    waiting: Marks = store.header.get("marks", {})
    marked = store.latest(store.count("image", MARKED), filter=MARKED)
    return {**waiting, **{item.path: item.marks for item in marked}}


def make_anew(store: Store, dim: int) -> None:
    """Rebuilds a store; the marks wait for their pictures."""
    marks = marks_of(store)
    store.rebuild(dim)
    _let_wait(store, marks)


@contextmanager
def opened_for(place: Path | str, dim: int, rebuild: bool) -> Iterator[Store]:
    """The store at a place, made where it is not there; `rebuild` makes it anew."""
    from vsekit.search.stores import open_store

    marks: Marks = {}
    if rebuild:
        with suppress(UserError), open_store(place) as store:  # there may be none that can be read
            marks = marks_of(store)
    with open_store(place, create=dim, rebuild=rebuild) as store:
        _let_wait(store, marks)
        yield store


def _let_wait(store: Store, marks: Marks) -> None:
    if marks:
        store.set_header({**store.header, "marks": marks})


def waiting(header: dict[str, Any], left: Marks) -> dict[str, Any]:
    """The header, with the marks whose pictures did not come."""
    others = {name: value for name, value in header.items() if name != "marks"}
    return others | ({"marks": left} if left else {})
