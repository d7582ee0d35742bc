"""Exact search, against sorting everything."""

from __future__ import annotations

import numpy as np
import pytest

from vsekit.search.stores.exact import GROUPS, best, nth


@pytest.mark.parametrize("count", [1, 63, 64, 65, 5 * GROUPS + 1, 40 * GROUPS - 1, 40 * GROUPS + 17])
@pytest.mark.parametrize("n", [1, 2, 5, 39])
@pytest.mark.parametrize("kind", ["all different", "many equal", "rising", "mostly out"])
def test_the_nth_largest_is_that_of_sorting(count: int, n: int, kind: str) -> None:
    rng = np.random.default_rng(count)
    values = {
        "all different": rng.permutation(count).astype(np.float32),
        "many equal": rng.integers(0, 3, count).astype(np.float32),
        "rising": np.arange(count, dtype=np.float32),
        "mostly out": np.where(rng.random(count) < 0.9, -np.inf, 1.0).astype(np.float32),
    }[kind]
    if n <= count:
        assert nth(values, n) == sorted(values.tolist(), reverse=True)[n - 1]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_best_are_those_of_sorting_all_scores_but_the_dead(dtype: str) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((70 * GROUPS + 5, 8)).astype(dtype)
    queries = rng.standard_normal((3, 8)).astype(np.float32)
    dead = rng.choice(len(vectors), 500, replace=False)
    for query, found in zip(queries, best(vectors, queries, 60, dead=np.sort(dead))):
        scores = vectors.astype(np.float64) @ query
        scores[dead] = -np.inf
        assert set(np.argsort(-scores)[:60]) <= set(found.tolist())
        assert len(found) < 70
