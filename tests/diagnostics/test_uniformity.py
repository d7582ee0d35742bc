from __future__ import annotations

import numpy as np
import pytest
import torch

from vsekit.diagnostics.uniformity import alignment_uniformity, gammas, uniform
from vsekit.losses.adaptive_objective import measures


def unit(rng: np.random.Generator, n: int, d: int = 4) -> np.ndarray:
    vectors = rng.normal(size=(n, d))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_on_a_batch_of_pairs_the_gammas_are_those_the_adaptive_objective_trains_with() -> None:
    scores = np.random.default_rng(0).uniform(-1, 1, (6, 6)).astype(np.float32)
    assert gammas(scores, np.arange(6), np.arange(6)) == pytest.approx(measures(torch.from_numpy(scores)), abs=1e-6)


def test_large_inner_products_do_not_overflow() -> None:
    align, spread = gammas(np.array([[5000.0, 0.0]], np.float32), np.array([0]), np.array([0, 1]))
    assert (align, spread) == pytest.approx((5000, 5000 - np.log(2)))


def test_wang_and_isolas_measures_are_those_of_plain_loops() -> None:
    rng = np.random.default_rng(1)
    images, captions = unit(rng, 5), unit(rng, 9)
    image_groups, caption_groups = np.arange(5), rng.integers(0, 5, 9)
    found = alignment_uniformity(images @ captions.T, image_groups, caption_groups, (images, captions))
    squares = [
        ((images[i] - captions[c]) ** 2).sum()
        for i in range(5)
        for c in range(9)
        if image_groups[i] == caption_groups[c]
    ]
    powers = [np.exp(-2 * ((captions[a] - captions[b]) ** 2).sum()) for a in range(9) for b in range(a)]
    assert found.align == pytest.approx(np.mean(squares), abs=1e-5)
    assert found.uniform_captions == pytest.approx(np.log(np.mean(powers)), abs=1e-5)


def test_vectors_off_the_sphere_and_sets_have_gammas_only() -> None:
    scores, groups = np.eye(2, dtype=np.float32), np.arange(2)
    assert alignment_uniformity(scores, groups, groups).align is None
    longer = 2 * np.eye(2, dtype=np.float32)
    assert alignment_uniformity(scores, groups, groups, (longer, longer)).uniform_images is None


def test_one_vector_alone_has_no_uniformity() -> None:
    assert uniform(np.ones((1, 1))) is None
