"""Where an index lives: embedded in a folder, in PostgreSQL, or in Milvus; one interface."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, cast

from vsekit.errors import UserError, missing_extra, nearest
from vsekit.outside import from_outside, offered, trusting
from vsekit.progress import Update
from vsekit.search.items import Kind
from vsekit.search.stores.base import Checked, Found, Store

__all__ = ["Checked", "Found", "Store", "check_index", "copy_index", "open_store"]


class Entry(NamedTuple):
    """A store: the module and class, made with (location, create, rebuild=…); the extra that brings what it needs, and
    that: module → pip package."""

    module: str
    name: str
    extra: str
    needs: dict[str, str]


_POSTGRES = Entry(
    "vsekit.search.stores.postgres",
    "PostgresStore",
    "postgres",
    {"psycopg": "psycopg[binary]", "psycopg_pool": "psycopg-pool", "pgvector": "pgvector"},
)
#: Scheme of the address → store. A path has none.
STORES = {
    "": Entry("vsekit.search.stores.embedded", "EmbeddedStore", "search", {"faiss": "faiss-cpu"}),
    "postgresql": _POSTGRES,
    "postgres": _POSTGRES,
    "milvus": Entry("vsekit.search.stores.milvus", "MilvusStore", "milvus", {"pymilvus": "pymilvus"}),
}


def open_store(
    location: str | Path, *, create: int | None = None, rebuild: bool = False, dtype: str | None = None
) -> Store:
    """Opens an index: a folder, postgresql://user@host/database?table=name, or milvus://host:port/collection.

    A store of another package is named by the scheme: my_package.stores:MyStore://…, or NAME:// where the package has an
    entry point NAME of `vsekit.stores`.

    Args:
        location: where it is; or a folder of pictures that was indexed into itself.
        create: the size of its vectors, to make it where it is not there yet; UserError where it is there with another.
        rebuild: with `create`, forget what is there, whatever its size; UserError while another process writes.
        dtype: "float16" for a new index that keeps its vectors in half precision; UserError where it is there with another.
    """
    store = _store(location)
    if dtype not in (None, *store.dtypes):
        raise UserError(
            f"{location} can't keep vectors in {dtype}{nearest(dtype or '', store.dtypes)}",
            remedy=f"It keeps them in {' or '.join(store.dtypes)}; a folder keeps float16, too.",
        )
    more = {"dtype": dtype} if len(store.dtypes) > 1 else {}
    return store(str(location), create, rebuild=rebuild, **more)  # type: ignore[call-arg]


def check_index(location: str | Path) -> Checked:
    """Reads all that an index holds and says what is damaged. Takes what `open_store` takes."""
    return _store(location).check(str(location))


def _store(location: str | Path) -> type[Store]:
    scheme, separator, _ = str(location).partition("://")
    entry = STORES.get(scheme if separator else "")
    return _outside(scheme, location) if entry is None else _class(entry)


def _class(entry: Entry) -> type[Store]:
    for module, package in entry.needs.items():
        if importlib.util.find_spec(module) is None:
            raise missing_extra(package, entry.extra)
    return getattr(importlib.import_module(entry.module), entry.name)


def _outside(scheme: str, location: str | Path) -> type[Store]:
    """The store that another package has for this scheme; who gives an address names what is imported."""
    with trusting():
        found = from_outside(scheme, "stores")
    if found is None:
        raise UserError(
            f"can't read the store '{location}'{nearest(scheme, [*STORES, *offered('stores')])}",
            remedy="A folder, postgresql://user@host/database?table=name, or milvus://host:port/collection.",
        )
    if not (isinstance(found, type) and issubclass(found, Store)):
        raise UserError(f"{scheme} is no store", remedy="Name a subclass of vsekit.search.stores.Store.")
    return found


def copy_index(
    source: Store,
    target: str | Path,
    progress: Update | None = None,
    *,
    batch: int | None = None,
    dtype: str | None = None,
) -> int:
    """Copies an index to another place, which must be empty or not there yet, and gives the number of items. It holds `batch`
    items at a time, whatever the size; by default as many as the target likes (`Store.batch`). dtype: see `open_store`.

    The header is written last and only when all items have arrived: an interrupted copy is an index without a model, and
    copying again goes over it. A copy that is there already, header and items, is left as it is. The exported model goes along.
    """
    from vsekit.search.exported import keep, kept

    with open_store(target, create=source.dim, dtype=dtype) as copy:
        copy.lock()
        if copy.header and copy.header == source.header and _same_items(source, copy):
            return source.count()
        if copy.header:
            raise UserError(
                "there is an index already", file=copy.location, remedy="Choose another place, or remove it first."
            )
        total, done = source.count(), 0
        items = source.all_items()
        while part := list(itertools.islice(items, batch or copy.batch)):
            copy.write(part, source.vectors([item.id for item in part]))
            done += len(part)
            if progress is not None:
                progress(done, total)
        for kind in ("image", "caption"):
            there, here = source.count(cast(Kind, kind)), copy.count(cast(Kind, kind))
            if there != here:
                raise UserError(
                    f"{here} of {there} {kind}s arrived: the index was changed while it was copied",
                    file=copy.location,
                    remedy="Copy again when nothing writes to it.",
                )
        with suppress(UserError):  # a damaged one stays behind
            if (model := kept(source)) is not None:
                keep(model, copy)
        copy.set_header(source.header)
        return done


def _same_items(source: Store, copy: Store) -> bool:
    pairs = itertools.zip_longest(source.all_items(), copy.all_items())
    return all(here == there for here, there in pairs)
