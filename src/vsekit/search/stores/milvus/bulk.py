"""Many rows at once: files that the server itself reads, which Milvus calls bulk insert.

    milvus://host:19530/photos?bulk=/shared/milvus        a folder that both see under the same path: local storage
    milvus://host:19530/photos?bulk=s3://a-bucket/vsekit  a folder of the bucket that the server keeps its own files in

Only a large write pays for it, such as those of `vse index copy`. Its rows carry the next generation, as those of any write (see
`store`), so that nobody looks at them before all are there. An import goes on in the server when its writer was killed: the
marker tells of it, and the next writer waits for its end before it clears up.
"""

from __future__ import annotations

import posixpath
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from vsekit.errors import UserError, missing_extra
from vsekit.search.stores.milvus import client
from vsekit.search.stores.milvus.collection import Collection, split

#: Rows that are worth a file: an import takes some seconds, however few there are.
LEAST = 20_000
#: Items that a copy brings at once, where there is a folder.
BATCH = 50_000
UNDER_WAY = ("Pending", "Started", "Persisted")


def folder_of(location: str) -> str | None:
    """The folder that the address names."""
    return dict(parse_qsl(urlsplit(location).query)).get("bulk")


def insert(
    collection: Collection, location: str, rows: Mapping[str, Sequence[dict[str, Any]]], wait: Callable[[], Any]
) -> None:
    """Brings rows of each kind into the collection and waits until they can be seen. `wait` is called meanwhile.

    UserError where the server can't read the files.
    """
    folder = folder_of(location)
    assert folder is not None
    written = []
    try:
        with _connected(location) as utility:
            tasks = []
            for kind, some in rows.items():
                if some:
                    written.append(_write(folder, collection.name, some))
                    file = [_as_the_server_names_it(written[-1])]
                    tasks.append(utility("do_bulk_insert", collection.name, file, partition_name=kind))
            for task in tasks:
                while (state := utility("get_bulk_insert_state", task)).state_name in UNDER_WAY:
                    wait()
                    time.sleep(0.2)
                if state.state_name != "Completed":
                    raise _unread(folder, state.infos.get("failed_reason", ""))
    finally:
        for path in written:
            _remove(path)
    collection.client.refresh_load(collection.name)


def await_others(collection: Collection, location: str) -> None:
    """Until no import into the collection is under way that a killed writer began."""
    with _connected(location) as utility:
        while any(
            task.state_name in UNDER_WAY
            for task in utility("list_bulk_insert_tasks", limit=0, collection_name=collection.name)
        ):
            time.sleep(0.2)
    collection.client.refresh_load(collection.name)


@contextmanager
def _connected(location: str) -> Iterator[Callable[..., Any]]:
    """Calls a function of pymilvus' `utility`: its client has none for this, and what is to come (HTTP) needs a server of 2.4."""
    from pymilvus import connections, utility

    alias = f"vsekit-{uuid.uuid4().hex}"

    def call(name: str, *arguments: Any, **options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return client.explained(getattr(utility, name))(*arguments, using=alias, timeout=30, **options)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client.explained(connections.connect)(alias, **split(location)[0], timeout=30)
        try:
            yield call
        finally:
            connections.remove_connection(alias)


def _write(folder: str, name: str, rows: Sequence[dict[str, Any]]) -> str:
    """The address of a Parquet file with these rows, under a name that nothing else has."""
    import json

    import fsspec

    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise missing_extra("pyarrow", "tables") from None
    columns: dict[str, Any] = {
        field: [row[field] for row in rows] for field in ("key", "id", "kind", "generation", "doc")
    }
    columns["meta"] = [json.dumps(row["meta"]) for row in rows]
    vectors = np.stack([row["vector"] for row in rows]).astype(np.float32)
    ends = np.arange(len(vectors) + 1, dtype=np.int32) * vectors.shape[1]
    columns["vector"] = pyarrow.ListArray.from_arrays(ends, vectors.ravel())
    address = posixpath.join(
        folder if "://" in folder else str(Path(folder).absolute()), f"{name}-{uuid.uuid4().hex}.parquet"
    )
    try:
        with fsspec.open(address, "wb") as file:
            parquet.write_table(pyarrow.table(columns), file)
    except (OSError, ImportError) as error:
        raise UserError(
            f"can't write to {folder}: {error}", field="?bulk=", remedy="Name a folder that can be written."
        ) from None
    return address


def _as_the_server_names_it(address: str) -> str:
    """A path; one within the server's bucket where the address has one."""
    parts = urlsplit(address)
    return parts.path.lstrip("/") if parts.scheme else address


def _remove(address: str) -> None:
    import fsspec

    system, path = fsspec.core.url_to_fs(address)
    if system.exists(path):
        system.rm(path)


def _unread(folder: str, why: str) -> UserError:
    return UserError(
        f"Milvus did not take the files in {folder}: {why}",
        field="?bulk=",
        remedy="Name a folder that its server reads, or leave it out: rows are then sent by the thousand.",
    )
