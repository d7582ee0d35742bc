from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vsekit.search.stores import approximate
from vsekit.search.stores.approximate import (
    DEPTHS,
    SAMPLES,
    SHARES,
    TOP,
    Effort,
    effort,
    outside_queries,
    sample_queries,
)


def units(n: int, dim: int = 16, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class Lists:
    nlist = 100


@pytest.mark.parametrize("enough", [0, 1, 3, 99])
def test_the_effort_is_the_least_that_finds_its_share_of_the_true_best(
    enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the effort that is enough, one in five of the true best is missing; other candidates score less than they."""
    vectors, queries = units(400), units(6, seed=1)
    order = np.argsort(-(queries @ vectors.T), axis=1)
    asked: list[tuple[int, int]] = []

    def candidates(index: Any, given: np.ndarray, probes: int, depth: int, among: None) -> list[np.ndarray]:
        asked.append((probes, depth))
        missing = 0 if len(asked) > enough else TOP // 5
        return [np.concatenate([row[missing:TOP], row[200:260]])[::-1] for row in order]

    monkeypatch.setattr(approximate, "candidates", candidates)
    found = effort(Lists(), vectors, queries, [row[:TOP] for row in order])
    steps = [(max(1, round(share * 100)), depth) for depth in DEPTHS for share in SHARES]
    if enough < len(steps):
        assert found == Effort(*steps[enough], 1.0)
        assert asked == steps[: enough + 1]
    else:
        assert found == Effort(0, 0, pytest.approx(1 - (TOP // 5) / TOP))


def test_made_up_queries_have_unit_length_and_leave_the_cone_of_the_items() -> None:
    vectors = units(500) + 2 * units(1, seed=5)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = outside_queries(vectors, np.arange(500))
    assert queries.shape == (SAMPLES, 16)
    assert queries.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(queries, axis=1), 1, atol=1e-5)
    mean = vectors.mean(axis=0)
    assert (vectors @ mean).min() > 0.1
    np.testing.assert_allclose(queries @ mean, 0, atol=1e-5)
    # Of a direction and three times as much noise, the cosine with the nearest item is above chance, but not near one.
    assert 0.2 < np.median((queries @ (vectors - mean).T).max(axis=1)) < 0.9


def test_queries_of_the_header_come_before_those_of_the_other_kind_and_made_up_ones() -> None:
    vectors, ids, given = units(300), np.arange(300), units(SAMPLES + 1, seed=3)
    header = {"sample_queries": given.tolist()}
    np.testing.assert_allclose(sample_queries(vectors, ids, vectors, header), given[:SAMPLES], atol=1e-6)
    for useless in ({}, {"sample_queries": given[:31].tolist()}, {"sample_queries": given[:, :8].tolist()}):
        np.testing.assert_array_equal(sample_queries(vectors, ids, vectors[:5], useless), outside_queries(vectors, ids))
        other = units(SAMPLES, seed=4)
        np.testing.assert_array_equal(sample_queries(vectors, ids, other, useless), other)
