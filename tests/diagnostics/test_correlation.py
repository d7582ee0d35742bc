from __future__ import annotations

import numpy as np
import pytest

from vsekit.diagnostics.correlation import draw_correlation, feature_correlation, pearson


def test_it_is_numpys_corrcoef() -> None:
    features = np.random.default_rng(0).normal(2, 1, (5, 8)).astype(np.float32)
    np.testing.assert_allclose(pearson(features), np.corrcoef(features.astype(np.float64)), atol=1e-6)


def test_a_constant_feature_correlates_with_nothing() -> None:
    np.testing.assert_allclose(pearson(np.array([[1.0, 1.0], [0.0, 1.0]])), [[0, 0], [0, 1]], atol=1e-12)


def test_means_are_of_different_pictures_without_sign() -> None:
    before = np.array([[0.0, 1.0], [1.0, 0.0]])  # r = −1
    after = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]])  # r = 0
    found = feature_correlation(before, after)
    assert found.before_mean == pytest.approx(1)
    assert found.after_mean == pytest.approx(0)
    assert draw_correlation(found).count("data:image/png;base64,") == 2
