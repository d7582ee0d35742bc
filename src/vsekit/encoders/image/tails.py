"""The last pieces of an image encoder, taken out of it to learn in the tower.

    pixels → frozen pieces → map (C, H, W), as one vector (B, 1, C·H·W) → tail: last pieces, mean over places → (B, 1, d)

Fine-tuning the last blocks of a network needs all before them only once: their map is what the encoder gives, and is kept as
any frozen encoder's features are. Batch normalisation is folded into the convolutions, y = (w·g) x + b − μ·g with
g = γ/√(σ² + ε): its statistics are those of pretraining, and stay. Frozen pieces and tail are the whole network: a tail that
has not learned yet gives what the network gives.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Tail(nn.Module):
    """(…, C·H·W) → (…, dim). shape: (C, H, W)."""

    def __init__(self, pieces: Sequence[nn.Module], shape: tuple[int, int, int], dim: int) -> None:
        super().__init__()
        self.pieces, self.shape, self.dim = nn.Sequential(*pieces), shape, dim

    def forward(self, vectors: Tensor) -> Tensor:
        grid = vectors.reshape(-1, *self.shape).contiguous(memory_format=torch.channels_last)
        return self.pieces(grid).mean((2, 3)).unflatten(0, vectors.shape[:-1])


class Tails(nn.Module):
    """Several side by side: each reads its part of the vector, and what they give stands end to end.

    Args:
        members: tail and the size of what it reads, in the sequence of the vector; None passes its part on.
    """

    def __init__(self, members: Sequence[tuple[nn.Module | None, int]]) -> None:
        super().__init__()
        self.sizes = [size for _, size in members]
        self.members = nn.ModuleList(nn.Identity() if tail is None else tail for tail, _ in members)
        self.dim = sum(size if tail is None else int(tail.dim) for tail, size in members)  # type: ignore[arg-type, misc]

    def forward(self, vectors: Tensor) -> Tensor:
        parts = vectors.split(self.sizes, -1)
        return torch.cat([tail(part) for tail, part in zip(self.members, parts)], -1)


def fold(piece: nn.Module) -> nn.Module:
    """A copy in which every batch normalisation is part of the convolution that stands before it."""
    piece = copy.deepcopy(piece).eval()
    for parent in list(piece.modules()):
        before: nn.Conv2d | None = None
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Conv2d):
                before = child
            elif isinstance(child, nn.BatchNorm2d):
                assert before is not None
                _take_in(before, child)
                setattr(parent, name, nn.Identity())
    return piece


@torch.no_grad()
def _take_in(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    gain = norm.weight / (norm.running_var + norm.eps).sqrt()
    bias = 0 if convolution.bias is None else convolution.bias
    convolution.weight.mul_(gain[:, None, None, None])
    convolution.bias = nn.Parameter(norm.bias + (bias - norm.running_mean) * gain)
