"""From the maps of a network to `Sets`: the cells of a grid, or one vector."""

from __future__ import annotations

import torch
from torch import Tensor

from vsekit.parts import Sets


def complete(vectors: Tensor) -> Sets:
    """(B, N, d) without padding."""
    return Sets(vectors, torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device))


def single(vector: Tensor) -> Sets:
    """(B, d) → a set of one."""
    return complete(vector[:, None])


def cells(grid: Tensor) -> Sets:
    """(B, d, H, W) → the H·W cells, row by row."""
    return complete(grid.flatten(2).transpose(1, 2))
