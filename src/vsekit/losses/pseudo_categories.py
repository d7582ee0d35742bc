"""K-means pseudo-categories, Zheng et al., "Dual-Path Convolutional Image-Text Embeddings", Sec. 6.4 and Table 4.

"Do we really need so many classes?" Clusters of the images' features (pool5 of an ImageNet model; 3,000 or 10,000 of
them on COCO) stand in for the groups as classes of the `instance` loss. The paper finds them inferior.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vsekit.errors import UserError


def nearest(features: Tensor, centres: Tensor, block: int = 4096) -> tuple[Tensor, Tensor]:
    """Each row's nearest centre and the squared distance to it, both (N,), in blocks of rows."""
    norms = centres.square().sum(dim=1)
    best = [(norms - 2 * rows @ centres.T).min(dim=1) for rows in features.split(block)]
    distances = torch.cat([b.values for b in best]) + features.square().sum(dim=1)
    return torch.cat([b.indices for b in best]), distances.clamp(min=0)


def kmeans(features: Tensor, k: int, seed: int = 0, iterations: int = 20) -> Tensor:
    """Lloyd's algorithm from k random rows; the same seed gives the same clusters.

    A cluster that runs empty moves to the row farthest from its centre.

    Args: features (N, D) float; for groups of several images, their mean. Returns: (N,) int64 labels in 0…k−1.
    """
    if k > len(features):
        raise UserError(f"{k} clusters of {len(features)} rows", field="pseudo_classes", remedy="Ask for fewer.")
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(seed)).to(features.device)
    centres = features[order[:k]]
    labels, distances = nearest(features, centres)
    for _ in range(iterations):
        counts = labels.bincount(minlength=k)
        centres = torch.zeros_like(centres).index_add_(0, labels, features) / counts.clamp(min=1)[:, None]
        empty = counts == 0
        centres[empty] = features[distances.topk(int(empty.sum())).indices]
        previous = labels
        labels, distances = nearest(features, centres)
        if torch.equal(labels, previous):
            break
    return labels
