"""Which of Milvus' indexes a collection has, by its size, and how it gets another one.

| vectors of a kind | index    | why                                                                                   |
|-------------------|----------|---------------------------------------------------------------------------------------|
| up to 200,000     | FLAT     | looks at all of them: exact, nothing to build and nothing to tune                     |
| up to 5 million   | IVF_FLAT | looks into some of its lists; as large in memory as the vectors                       |
| beyond            | IVF_SQ8  | a byte a dimension in memory; what it finds is scored again with the vectors themselves |

The most effort, all lists, is exact: that is what less of it is measured against, and what a search with a filter takes, for which
Milvus reads every item's metadata anyway. HNSW is not among them: with a filter that a tenth passes it loses some of
the best, whatever its `ef`.

A collection has one index for both kinds of items, that of its larger one, and keeps it when it shrinks. Milvus 2.3 changes an
index only while the collection is not loaded. So searching pauses twice for some seconds: the collection is loaded while the
new index is built, without it, and once more with it. Readers wait (`Collection.patient`), no longer than the marker says and the
writer lives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from vsekit.search.stores.milvus.collection import Collection

#: Seconds that readers wait while a collection is loaded anew.
PAUSE = 60.0
#: And after that, for those who were refused just before.
AFTER = 2.0


class Index(NamedTuple):
    """name: Milvus' own. above: it is for more vectors of a kind than this.

    tried: lists that a search may look into, the least first. lists: all of them; none for FLAT.
    """

    name: str
    above: int
    lists: int = 0
    tried: tuple[int, ...] = ()


#: By rising size. The lists are those of a segment, of which Milvus makes one for some 400,000 vectors of 256.
INDEXES = (
    Index("FLAT", -1),
    Index("IVF_FLAT", 200_000, 1024, (8, 16, 32, 64, 128, 256, 512)),
    Index("IVF_SQ8", 5_000_000, 2048, (16, 32, 64, 128, 256, 512, 1024)),
)


def named(name: str) -> Index:
    return next(index for index in INDEXES if index.name == name)


def of(marker: Mapping[str, Any]) -> Index:
    """What a collection shall have. One made before has HNSW, and no word of it; its next writer gives it another."""
    return named(marker.get("index", "FLAT"))


def wanted(indexes: Sequence[Index], now: Index, size: int) -> Index:
    """For `size` vectors of the larger kind in a collection that has the index `now`."""
    names = [index.name for index in indexes]
    found = max(i for i, index in enumerate(indexes) if index.above < size)
    return indexes[max(found, names.index(now.name))]


def create(collection: Collection, index: Index) -> None:
    """Begins to build it; nothing waits for that."""
    settings = collection.client.prepare_index_params()
    settings.add_index(
        "vector", index_type=index.name, metric_type="IP", params={"nlist": index.lists} if index.lists else {}
    )
    collection.client.create_index(collection.name, settings, sync=False)


def present(collection: Collection) -> str:
    return str(collection.client.describe_index(collection.name, "vector")["index_type"])


def change(collection: Collection, index: Index, renew: Callable[[], dict[str, Any]]) -> None:
    """Gives the collection another index, and ends when it is built and used. Killed between any two steps, the collection can be
    searched when it is opened again, and the next writer goes on.

    renew: gives the marker, and keeps the writer's lease.
    """
    client, name = collection.client, collection.name
    collection.set_marker({**renew(), "index": index.name, "effort": {}, "paused": time.time() + PAUSE})
    client.release_collection(name)
    client.drop_index(name, "vector")
    create(collection, index)
    client.load_collection(name)
    collection.set_marker({**renew(), "paused": time.time() + AFTER})
    built(collection, renew)
    collection.set_marker({**renew(), "paused": time.time() + PAUSE})
    client.release_collection(name)
    client.load_collection(name)
    collection.set_marker({**renew(), "paused": time.time() + AFTER})


def built(collection: Collection, renew: Callable[[], dict[str, Any]]) -> None:
    """Waits until every sealed row is in the index."""
    while True:
        state = collection.client.describe_index(collection.name, "vector")
        if state["state"] != "InProgress" and not state["pending_index_rows"]:
            return
        renew()
        time.sleep(0.5)
