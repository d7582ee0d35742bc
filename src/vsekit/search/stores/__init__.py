"""Where an index lives: embedded in a folder, in PostgreSQL, or in Milvus; one interface."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import cast

from vsekit.errors import UserError
from vsekit.progress import Update
from vsekit.search.items import Kind
from vsekit.search.stores.base import Found, Store

__all__ = ["Found", "Store", "copy_index", "open_store"]


#: The index of a folder of pictures, inside it, unless told otherwise; names with a dot are not walked.
INSIDE = ".vsekit-index"


def open_store(location: str | Path, *, create: int | None = None) -> Store:
    """Opens an index: a folder, postgresql://user@host/database?table=name, or milvus://host:port/collection.

    Args:
        location: where it is; or a folder of pictures that was indexed into itself (INSIDE).
        create: the size of its vectors, to make it where it is not there yet; UserError where it is there with another.
    """
    text = str(location)
    if text.startswith(("postgresql://", "postgres://")):
        from vsekit.search.stores.postgres import PostgresStore

        return PostgresStore(text, create)
    if text.startswith("milvus://"):
        from vsekit.search.stores.milvus import MilvusStore

        return MilvusStore(text, create)
    if "://" in text:
        raise UserError(
            f"can't read the store '{text}'",
            remedy="A folder, postgresql://user@host/database?table=name, or milvus://host:port/collection.",
        )
    from vsekit.search.stores.embedded.store import DATABASE, EmbeddedStore

    if create is None and (Path(location) / INSIDE / DATABASE).is_file():
        location = Path(location) / INSIDE
    return EmbeddedStore(location, create)


def copy_index(source: Store, target: str | Path, progress: Update | None = None, *, batch: int = 1000) -> int:
    """Copies an index to another place, which must be empty or not there yet, and gives the number of items.

    The header is written last and only when all items have arrived: an interrupted copy is an index without a model, and
    copying again goes over it.
    """
    with open_store(target, create=source.dim) as copy:
        if copy.header:
            raise UserError(
                "there is an index already", file=copy.location, remedy="Choose another place, or remove it first."
            )
        total, done = source.count(), 0
        items = source.all_items()
        while part := list(itertools.islice(items, batch)):
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
        copy.set_header(source.header)
        return done
