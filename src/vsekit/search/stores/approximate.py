"""An inverted file of quantised vectors, which picks its own effort by measuring.

The vectors are grouped around √n centroids and kept in 4 bits for every two dimensions (product quantisation, scanned in
registers: "fast scan"). A query looks into the `probes` groups with the nearest centroids, and the `depth` best found there
are scored again with the vectors themselves. How much a given recall takes depends on where queries come from: a text
model's vectors lie in another cone than an image model's, and an index tuned with images as queries finds far less for
text. So the effort is tuned on queries from outside. Scanning every group this way is still many times faster than
multiplying with every vector.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vsekit.search.stores import inverted
from vsekit.search.stores.halves import single

TARGET = 0.995  # recall@10 on sample queries; measured on a few hundred, it keeps 0.99 on others
TOP = 10
SAMPLES = 256
SHARES = (0.004, 0.008, 0.015, 0.03, 0.06, 0.12, 0.25, 0.5, 1.0)  # of the groups
DEPTHS = (256, 512, 1024, 2048, 4096)


class Effort(NamedTuple):
    """probes: groups looked into; 0 where no effort was enough, and every vector must be looked at. depth: candidates scored
    again for the best `TOP`. recall: what that found of the sample queries' true best."""

    probes: int
    depth: int
    recall: float


def build(vectors: np.ndarray, ids: np.ndarray, path: Path) -> Any:
    """An index of `vectors[ids]`, found by those ids, in a file that is mapped (`inverted`). OSError where it can't be written.

    Args:
        vectors: (n, dim) in single or half precision, usually mapped.
        ids: (m,) rising.
    """
    faiss: Any = importlib.import_module("faiss")  # its stubs are wrong

    dim = vectors.shape[1]
    groups = max(1, int(len(ids) ** 0.5))
    pieces = dim // 2 if dim % 2 == 0 else dim
    index = faiss.IndexIVFPQFastScan(faiss.IndexFlatIP(dim), dim, groups, pieces, 4, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1
    sample = np.random.default_rng(0).choice(len(ids), min(len(ids), max(64 * groups, 65536)), replace=False)
    index.train(single(vectors[ids[np.sort(sample)]]))
    inverted.write(index, vectors, ids, path)
    return inverted.load(path)


def candidates(index: Any, queries: np.ndarray, probes: int, depth: int, among: np.ndarray | None) -> list[np.ndarray]:
    """For each query, the ids of the likely best. among: packed bits of ids that may be found (np.packbits, little)."""
    faiss: Any = importlib.import_module("faiss")  # its stubs are wrong

    selector = None if among is None else faiss.IDSelectorBitmap(among)
    parameters = faiss.SearchParametersIVF(nprobe=min(probes, index.nlist), sel=selector)
    _, found = index.search(queries, min(depth, index.ntotal), params=parameters)
    return [row[row >= 0] for row in found]


def effort(index: Any, vectors: np.ndarray, queries: np.ndarray, truth: Sequence[np.ndarray]) -> Effort:
    """The least effort with which queries find `TARGET` of their true best.

    Args:
        queries: (q, dim).
        truth: for each, the ids of its `TOP` best.
    """
    recall = 0.0
    for depth in DEPTHS:
        for share in SHARES:
            probes = max(1, round(share * index.nlist))
            hits = 0
            for query, found, true in zip(queries, candidates(index, queries, probes, depth, None), truth):
                best = found[np.argsort(-(single(vectors[found]) @ query))[:TOP]]
                hits += len(np.intersect1d(best, true))
            recall = hits / sum(map(len, truth))
            if recall >= TARGET:
                return Effort(probes, depth, recall)
    return Effort(0, 0, recall)


def sample_queries(vectors: np.ndarray, ids: np.ndarray, other: np.ndarray, header: Mapping[str, Any]) -> np.ndarray:
    """(q, dim): queries such as will be asked, to measure with: the header's "sample_queries" (32 vectors or more), else
    vectors of the other kind in the index, else made-up ones."""
    given = np.asarray(header.get("sample_queries", []), dtype=np.float32)
    if given.ndim == 2 and given.shape[1] == vectors.shape[1] and len(given) >= 32:
        return given[:SAMPLES]
    if len(other) >= SAMPLES:
        return single(other[np.sort(np.random.default_rng(2).choice(len(other), SAMPLES, replace=False))])
    return outside_queries(vectors, ids)


def outside_queries(vectors: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """(SAMPLES, dim): queries as another modality's might be, where there are none to be had: an item's direction from the
    mean, drowned in three times as much noise, far from the cone that the items lie in."""
    generator = np.random.default_rng(1)
    sample = single(vectors[np.sort(generator.choice(ids, min(len(ids), 4096), replace=False))])
    mean = sample.mean(axis=0)
    chosen = sample[generator.choice(len(sample), SAMPLES)] - mean
    chosen /= np.linalg.norm(chosen, axis=1, keepdims=True) + 1e-12
    noise = generator.standard_normal(chosen.shape)
    queries = chosen + 3 * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    queries -= (queries @ mean)[:, None] * mean / (mean @ mean + 1e-12)
    return (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(np.float32)
