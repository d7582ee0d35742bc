"""The contract of a similarity: two batches in, a score matrix out; higher is closer.

A pooled similarity compares vectors, (I, D) with (C, D); a set similarity (SCAN, BFAN) compares `Sets` of region
vectors with `Sets` of word vectors. Both give scores of every picture with every caption, (I, C), and of aligned
pairs alone, (B,), without computing the matrix.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Similarity(nn.Module):
    """Subclasses set `on_sets` and implement both methods on tensors (pooled) or on `Sets`.

    inner_product: True when scores are the plain matrix product of the two batches, so that whoever scores whole
    collections (evaluation, mining, search) may use the fastest product there is.
    """

    on_sets: bool = False
    inner_product: bool = False

    def forward(self, images: Any, captions: Any) -> Tensor:
        """Scores of every image with every caption, (I, C)."""
        raise NotImplementedError

    def paired(self, images: Any, captions: Any) -> Tensor:
        """Scores of image b with caption b, (B,)."""
        raise NotImplementedError
