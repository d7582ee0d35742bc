"""Items as rows of a collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vsekit.search.items import Item
from vsekit.search.stores.milvus import words
from vsekit.search.stores.milvus.collection import to_hex
from vsekit.search.stores.milvus.filter import stored
from vsekit.search.stores.rows import KINDS, clean_meta, to_doc


def rows_of(items: Sequence[Item], vectors: np.ndarray, generation: int) -> dict[str, list[dict[str, Any]]]:
    """Kind → rows that the write of this generation brings."""
    rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for item, vector in zip(items, vectors):
        meta = clean_meta(item.meta)
        rows[item.kind].append(
            {
                "key": f"{to_hex(item.id)}.{generation}",
                "id": to_hex(item.id),
                "kind": item.kind,
                "generation": generation,
                "doc": to_doc(item, meta),
                "meta": {**stored(meta), words.FIELD: words.stored(replace(item, meta=meta))},
                "vector": vector,
            }
        )
    return rows
