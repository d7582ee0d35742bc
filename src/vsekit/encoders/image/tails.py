"""The last pieces of an image encoder, taken out of it to learn in the tower.

    pixels → frozen pieces → map (C, H, W), as one vector (B, 1, C·H·W) → tail: last pieces, mean over places → (B, 1, d)

Fine-tuning the last blocks of a network needs all before them only once: their map is what the encoder gives, and is kept as
any frozen encoder's features are. Batch normalisation is folded into the convolutions, y = (w·g) x + b − μ·g with
g = γ/√(σ² + ε): its statistics are those of pretraining, and stay. So do depthwise filters: they are about a hundredth of the
weights, and on a CPU their gradients take longer than everything else together. Frozen pieces and tail are the whole network: a
tail that has not learned yet gives what the network gives.

A map can be seen in several ways too, as a picture can: mirrored, and cut to a part of its places (`MapViews`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vsekit.encoders.base import ImageEncoder
from vsekit.parts import Sets


@dataclass(frozen=True)
class MapViews:
    """How a tail looks at maps while it learns.

    flip: every other map, by chance, from right to left.
    crop: a part of each map, anywhere in it, whose side is drawn for the batch from this share of the map's to all of it.
    """

    flip: bool = False
    crop: float = 1.0

    def __call__(self, grid: Tensor) -> Tensor:
        """(B, C, H, W) → (B, C, h, w), channels last."""
        count, _, *sides = grid.shape
        share = self.crop + (1 - self.crop) * float(torch.rand(()))
        places = []
        for side in sides:
            kept = math.ceil(side * share)
            first = torch.randint(side - kept + 1, (count, 1))
            places.append(first + torch.arange(kept))
        down, across = places
        if self.flip:
            across = torch.where(torch.rand(count, 1) < 0.5, across, across.flip(1))
        rows, columns = down.to(grid.device)[:, :, None], across.to(grid.device)[:, None, :]
        numbers = torch.arange(count, device=grid.device)[:, None, None]
        return grid.permute(0, 2, 3, 1)[numbers, rows, columns].permute(0, 3, 1, 2)


class Tail(nn.Module):
    """(…, C·H·W) → (…, dim). shape: (C, H, W). In training it looks at maps as `views` say."""

    views = MapViews()

    def __init__(self, pieces: Sequence[nn.Module], shape: tuple[int, int, int], dim: int) -> None:
        super().__init__()
        self.pieces, self.shape, self.dim = nn.Sequential(*pieces), shape, dim

    def forward(self, vectors: Tensor) -> Tensor:
        grid = vectors.reshape(-1, *self.shape).contiguous(memory_format=torch.channels_last)
        if self.training and self.views != MapViews():
            grid = self.views(grid)
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


class WithTail(ImageEncoder):
    """A cut encoder and its tail, one again: what only reads pictures need not stop between the two.

    The mean over a picture's views, where there are several, is then one of features, as it is without a cut.
    """

    def __init__(self, front: ImageEncoder, tail: Tail | Tails) -> None:
        super().__init__()
        self.front, self.rest, self.dim = front, tail, tail.dim
        self.pixels, self.mean, self.std = front.pixels, front.mean, front.std

    def forward(self, pixels: Tensor) -> Sets:
        maps = self.front(pixels)
        return Sets(self.rest(maps.vectors), maps.mask)


def fold(piece: nn.Module) -> nn.Module:
    """A copy in which every batch normalisation is part of the convolution before it, and depthwise filters are settled."""
    piece = copy.deepcopy(piece).eval()
    for parent in list(piece.modules()):
        before: nn.Conv2d | None = None
        before_name = ""
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Conv2d):
                before, before_name = child, name
            elif isinstance(child, nn.BatchNorm2d):
                assert before is not None
                _take_in(before, child)
                setattr(parent, name, nn.Identity())
                if before.groups > 1:
                    setattr(parent, before_name, Depthwise(before))
    return piece


class Depthwise(nn.Module):
    """A convolution a channel, of which the shift alone learns; (B, C, H, W) → (B, C, h, w).

    The shift is added apart: a convolution that has a gradient for its shift computes that of its filters with it. With a
    stride it computes in 32 bits, where the gradient for what it read takes a twentieth of the time that it takes in 16.
    """

    weight: Tensor

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        assert convolution.bias is not None
        padding = getattr(convolution, "static_padding", None)
        around = padding.padding if isinstance(padding, nn.ZeroPad2d) else (0, 0, 0, 0)
        self.uneven = around if len(set(around)) > 1 else None
        self.padding = convolution.padding if self.uneven or not any(around) else around[0]
        self.stride = convolution.stride
        self.register_buffer("weight", convolution.weight.detach())
        self.bias = nn.Parameter(convolution.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        if self.uneven:
            x = nn.functional.pad(x, self.uneven)
        x = x.to(self.weight.dtype) if max(self.stride) > 1 else x
        with torch.autocast(x.device.type, enabled=False):
            weight = self.weight.to(x.dtype)
            x = nn.functional.conv2d(x, weight, None, self.stride, self.padding, groups=len(weight))
        return x + self.bias.to(x.dtype)[:, None, None]


@torch.no_grad()
def _take_in(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    gain = norm.weight / (norm.running_var + norm.eps).sqrt()
    bias = 0 if convolution.bias is None else convolution.bias
    convolution.weight.mul_(gain[:, None, None, None])
    convolution.bias = nn.Parameter(norm.bias + (bias - norm.running_mean) * gain)
