"""Exact search: the inner product of queries with every vector, or with those of some rows."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from vsekit.search.stores.halves import HALF, single
from vsekit.search.stores.rows import scores

BLOCK = 16384  # rows gathered at once
HALVES = 4096  # … in half precision: in single precision, a processor's cache holds them
SCORES = 2**24  # scores held at once
FEW = 4096  # rows for which faiss is not worth importing
GROUPS = 64  # scores of which one is looked at first


def best(
    vectors: np.ndarray,
    queries: np.ndarray,
    top: int,
    *,
    rows: np.ndarray | None = None,
    dead: np.ndarray | None = None,
) -> list[np.ndarray]:
    """For each query, the rows that may be among its `top` best once scores are exact; ties at the end all included.

    Args:
        vectors: (n, dim) in single or half precision, usually mapped.
        queries: (q, dim) float32.
        rows: those to look at, rising; all where None.
        dead: where all are looked at, those that don't count: their numbers, or a mask (n,).
    """
    found = []
    for query, values in zip(queries, products(vectors, queries, rows)):
        if dead is not None:
            values[dead] = -np.inf
        if len(values) > top:
            edge = nth(values, top)
            # What single precision may have got wrong: it must not decide who is in.
            sure = np.flatnonzero(values >= edge)[:top]
            longest = np.linalg.norm(single(vectors[sure if rows is None else rows[sure]]), axis=1).max()
            edge -= 1e-6 * vectors.shape[1] ** 0.5 * np.linalg.norm(query) * longest
            inside = np.flatnonzero(values >= edge)
        else:
            inside = np.arange(len(values))
        inside = inside[values[inside] > -np.inf]
        found.append(inside if rows is None else rows[inside])
    return found


def nth(values: np.ndarray, n: int) -> np.float32:
    """The n-th largest of many. At least n are no smaller than the n-th largest of the largest of each group, which is soon
    found; only these are put in order."""
    if len(values) > n * GROUPS:
        whole = len(values) // GROUPS * GROUPS
        largest = values[:whole].reshape(GROUPS, -1).max(axis=0)
        values = values[values >= np.partition(largest, -n)[-n]]
    return np.partition(values, -n)[-n]


def products(vectors: np.ndarray, queries: np.ndarray, rows: np.ndarray | None) -> Iterator[np.ndarray]:
    """(n,) or (len(rows),) inner products for each query, about right."""
    count = len(vectors) if rows is None else len(rows)
    together = max(1, SCORES // max(count, 1))
    step, buffer = BLOCK, None
    if vectors.dtype == HALF:
        step, buffer = HALVES, np.empty((HALVES, vectors.shape[1]), dtype=np.float32)
    for start in range(0, len(queries), together):
        part = queries[start : start + together]
        out = np.empty((len(part), count), dtype=np.float32)
        for first in range(0, count, step):
            last = min(first + step, count)
            block = vectors[first:last] if rows is None else vectors[rows[first:last]]
            _multiply(part, single(block, buffer), out[:, first:last])
        yield from out


def _multiply(queries: np.ndarray, block: np.ndarray, out: np.ndarray) -> None:
    if len(queries) > 4 or len(block) < FEW:
        np.matmul(queries, block.T, out=out)
        return
    faiss: Any = importlib.import_module("faiss")  # its stubs are wrong

    for query, target in zip(queries, out):  # twice as fast as a matrix product for one
        arguments = (faiss.swig_ptr(target), faiss.swig_ptr(query), faiss.swig_ptr(block))
        faiss.fvec_inner_products_ny(*arguments, block.shape[1], len(block))


def true_best(vectors: np.ndarray, queries: np.ndarray, top: int, rows: np.ndarray) -> list[np.ndarray]:
    """For each query exactly its `top` best rows, ties by row. The vectors are read once, whatever the number of queries."""
    result = [np.empty(0, dtype=np.int64) for _ in queries]
    step = max(BLOCK, SCORES // max(len(queries), 1))
    for start in range(0, len(rows), step):
        for i, found in enumerate(best(vectors, queries, top, rows=rows[start : start + step])):
            found = np.concatenate([result[i], found])
            order = np.argsort(-scores(queries[i], vectors[found]), kind="stable")[:top]
            result[i] = found[order]
    return result
