from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from vsekit.errors import UserError
from vsekit.losses.pseudo_categories import kmeans, nearest


def inertia(features: Tensor, labels: Tensor) -> float:
    return sum(
        (rows - rows.mean(dim=0)).square().sum().item() for rows in (features[labels == k] for k in labels.unique())
    )


def test_nearest_is_the_nearest_centre_across_blocks():
    torch.manual_seed(0)
    features, centres = torch.randn(50, 6), torch.randn(7, 6)
    labels, distances = nearest(features, centres, block=8)
    best = torch.cdist(features, centres).min(dim=1)
    assert torch.equal(labels, best.indices)
    torch.testing.assert_close(distances, best.values.square(), rtol=1e-3, atol=1e-4)


def test_blobs_far_apart_are_found_whatever_the_seed():
    torch.manual_seed(0)
    blobs = torch.arange(4).repeat_interleave(20)
    features = 100 * torch.eye(4)[blobs] + torch.randn(80, 4)
    best = min((kmeans(features, 4, seed=seed) for seed in range(5)), key=lambda labels: inertia(features, labels))
    assert len({(a, b) for a, b in zip(blobs.tolist(), best.tolist())}) == 4


def test_more_iterations_never_fit_worse_and_the_seed_fixes_the_clusters():
    torch.manual_seed(0)
    features = torch.randn(300, 5)
    fits = [inertia(features, kmeans(features, 12, seed=3, iterations=n)) for n in range(8)]
    assert all(later <= earlier + 1e-3 for earlier, later in pairwise(fits))
    assert fits[-1] < fits[0]
    assert torch.equal(kmeans(features, 12, seed=3), kmeans(features, 12, seed=3))
    assert not torch.equal(kmeans(features, 12, seed=3), kmeans(features, 12, seed=4))


def test_an_empty_cluster_moves_to_the_farthest_row():
    # Two equal rows may both be drawn as centres; one of them wins every row, and the other has to move.
    features = torch.tensor([[100.0], [100.0], [100.0], [110.0]])
    for seed in range(10):
        labels = kmeans(features, 2, seed=seed)
        assert labels[3] != labels[0] == labels[1] == labels[2]


def test_more_clusters_than_rows_are_refused():
    with pytest.raises(UserError, match="5 clusters of 3 rows"):
        kmeans(torch.zeros(3, 2), 5)
