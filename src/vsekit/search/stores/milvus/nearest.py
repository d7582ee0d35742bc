"""Nearest neighbours with Milvus' indexes, and how much effort they take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vsekit.search.items import Kind
from vsekit.search.stores import approximate
from vsekit.search.stores.base import Found
from vsekit.search.stores.milvus import indexes
from vsekit.search.stores.milvus.collection import MOST, Collection, both, counts, fresh, from_hex
from vsekit.search.stores.rows import KINDS, ranked, scores

SLACK = 16


def nearest(
    collection: Collection,
    marker: Mapping[str, Any],
    queries: np.ndarray,
    top: int,
    kind: Kind,
    condition: str,
    effort: int | None = None,
) -> list[Found]:
    """The `top` best of a kind that pass `condition`, for each of (q, dim) queries; ties by id. effort: lists
    that are looked into; by default as many as were measured to do, and all where there is a condition or few items."""
    if effort is None:
        everything = indexes.of(marker).lists
        effort = everything if condition else marker["effort"].get(kind, everything)
    limit = min(top + SLACK, MOST)
    while True:
        answers = collection.client.search(
            collection.name,
            data=list(queries),
            filter=both(counts(marker), condition),
            limit=limit,
            output_fields=["id", "vector"],
            partition_names=[kind],
            search_params={"metric_type": "IP", "params": _parameters(effort, limit)},
            **fresh(marker),
        )
        found = []
        cut = False
        for query, hits in zip(queries, answers):
            rows = [hit["entity"] for hit in hits]
            vectors = np.array([row["vector"] for row in rows], dtype=np.float32).reshape(len(rows), len(query))
            values = scores(query, vectors)
            # Milvus knows no ties: where the last one found ties with the last one wanted, others might.
            cut |= len(rows) == limit and np.sort(values)[-top] <= values.min()
            found.append(Found(*ranked([from_hex(row["id"]) for row in rows], values, top)))
        if not cut or limit == MOST:
            return found
        limit = min(4 * limit, MOST)


def _parameters(effort: int, limit: int) -> dict[str, int]:
    """What a search for `limit` takes. Milvus leaves out what its index does not know: `ef` is for HNSW, which collections made
    before have, and which wants to look at more than it shall find."""
    return {"nprobe": max(effort, 1), "ef": min(max(256, 2 * limit), 2 * MOST)}


def least_effort(collection: Collection, marker: Mapping[str, Any], kind: Kind) -> int:
    """The least of lists with which queries from outside find `approximate.TARGET` of what all of them hold."""
    vectors = {
        k: np.array([row["vector"] for row in collection.query(marker, "", ["vector"], k, 4096)], dtype=np.float32)
        for k in KINDS
    }
    other = next(vectors[k] for k in KINDS if k != kind)
    queries = approximate.sample_queries(vectors[kind], np.arange(len(vectors[kind])), other, marker["header"])[:64]
    top, index = approximate.TOP, indexes.of(marker)
    truth = [set(found.ids) for found in nearest(collection, marker, queries, top, kind, "", index.lists)]
    for effort in index.tried:
        found = [found.ids for found in nearest(collection, marker, queries, top, kind, "", effort)]
        if sum(len(t & set(f)) for t, f in zip(truth, found)) >= approximate.TARGET * top * len(queries):
            return effort
    return index.lists
