"""How fast items come into a Milvus server that is running: rows sent by the thousand, and files that the server reads itself.

    python -m benchmarks.milvus milvus://127.0.0.1:19530 --folder DIR       # DIR: a folder that the server sees under the same path

Vectors of 256, items without metadata, one writer, in two collections that are dropped afterwards. Wall time from the first write
to the moment when all can be searched, since most of the work is the server's.
"""

from __future__ import annotations

import argparse
import time
import uuid
from pathlib import Path

import numpy as np

from benchmarks.large import DIM, items
from vsekit.search.stores.milvus import MilvusStore, bulk


def seconds(place: str, count: int) -> float:
    vectors = np.random.default_rng(0).standard_normal((count, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with MilvusStore(place, DIM) as store:
        start = time.monotonic()
        store.write(items(0, count), vectors)
        assert store.count() == count
        taken = time.monotonic() - start
        store._collection.client.drop_collection(store._collection.name)
        store._lease._token = ""  # there is nothing to give back
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.milvus", description=__doc__)
    parser.add_argument("server", help="milvus://HOST:PORT")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--count", type=int, default=bulk.BATCH)
    options = parser.parse_args()
    place = f"{options.server}/vsekit_{uuid.uuid4().hex[:8]}"
    for name, address in (("rows", place), ("files", f"{place}b?bulk={options.folder}")):
        taken = seconds(address, options.count)
        print(f"{name}: {options.count:,} items in {taken:.1f} s, {options.count / taken:,.0f} a second", flush=True)


if __name__ == "__main__":
    main()
