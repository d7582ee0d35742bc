"""A store, opened and made ready for a model; what people said of pictures is carried over to one that is made anew.

Until all of its pictures are there, the new index keeps it in its header: a kill costs nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from vsekit.errors import UserError
from vsekit.search.base import SearchModel
from vsekit.search.filters import Has, Or
from vsekit.search.hubs import fits, stored_dim
from vsekit.search.items import MARKS, Item, Value
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
def opened_for(place: Path | str, model: SearchModel, rebuild: bool, dtype: str | None = None) -> Iterator[Store]:
    """The store at a place, made where it is not there; `rebuild` makes it anew. dtype: see `open_store`."""
    from vsekit.search.stores import open_store

    marks: Marks = {}
    dim = stored_dim(model)
    if rebuild or dim != model.dim:
        with suppress(UserError), open_store(place) as store:  # there may be none that can be read
            if rebuild:
                marks = marks_of(store)
            elif store.dim == model.dim:  # made without the model's querybank
                dim = model.dim
    with open_store(place, create=dim, rebuild=rebuild, dtype=dtype) as store:
        _let_wait(store, marks)
        yield store


def prepare_store(store: Store, model: SearchModel, rebuild: bool) -> list[Item]:
    """From here on this process is the writer, so that what it sees stays so until it has written. Gives what must be
    encoded again, see `Store.repair`."""
    if rebuild:
        make_anew(store, stored_dim(model))
    lost = store.repair()
    made_with = store.header.get("fingerprint")
    if made_with not in (None, model.fingerprint):
        raise UserError(
            f"this index was made with another model: {store.header.get('model')} ({made_with}), "
            f"not {model.name} ({model.fingerprint})",
            file=store.location,
            remedy="Name that model, or make the index anew with --rebuild.",
        )
    if not fits(store, model):
        raise UserError(
            f"this index holds vectors of {store.dim} numbers, the model makes {model.dim}",
            file=store.location,
            remedy="Choose another place for the index of this model.",
        )
    return lost


def _let_wait(store: Store, marks: Marks) -> None:
    if marks:
        store.set_header({**store.header, "marks": marks})


def waiting(header: dict[str, Any], left: Marks) -> dict[str, Any]:
    """The header, with the marks whose pictures did not come."""
    others = {name: value for name, value in header.items() if name != "marks"}
    return others | ({"marks": left} if left else {})
