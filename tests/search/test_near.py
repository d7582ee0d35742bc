from __future__ import annotations

import numpy as np
import pytest

import vsekit.search.near as near
from vsekit.search.near import near_pairs


def unit(n: int, dim: int, seed: int = 0) -> np.ndarray:
    """Vectors in clumps, as pictures are, so that every cosine occurs."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n // 5 + 1, dim))
    vectors = centres[rng.integers(0, len(centres), n)] + rng.uniform(0, 0.8, (n, 1)) * rng.normal(size=(n, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("dim", [12, 200])
@pytest.mark.parametrize("block", [7, 64, 1000])
def test_all_near_pairs_are_found_in_any_blocks(dim: int, block: int) -> None:
    vectors = unit(300, dim)
    cosines = vectors @ vectors.T
    expected = {(i, j) for i in range(300) for j in range(i + 1, 300) if cosines[i, j] >= 0.8}
    assert len(expected) > 50
    found = {(i, j): cosine for i, j, cosine in near_pairs(vectors, 0.8, block=block)}
    assert set(found) == expected
    np.testing.assert_allclose(list(found.values()), [cosines[pair] for pair in found], atol=1e-5)


def test_of_many_alike_each_is_tied_to_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near, "MOST", 3)
    vectors = unit(40, 8)[:1] + 0.01 * np.random.default_rng(1).normal(size=(40, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    found: dict[int, set[int]] = {}
    for i, j, _ in near_pairs(vectors, 0.5, block=6):
        found.setdefault(i, set()).add(j)
    for i in range(39):
        assert found[i] == set(sorted(range(i + 1, 40), key=lambda j: (-cosines[i, j], j))[:3])


def test_no_vectors_have_no_pairs_and_progress_ends_at_all() -> None:
    assert list(near_pairs(np.zeros((0, 4), np.float32), 0.9)) == []
    told: list[tuple[int, int]] = []
    list(near_pairs(unit(50, 4), 0.99, block=20, progress=lambda done, total: told.append((done, total))))
    assert told == [(20, 50), (40, 50), (50, 50)]
