"""A small convolutional network, trained from scratch with the model, for small pictures and no downloads.

Stages of 3×3 convolution with stride 2, batch normalisation and ReLU, each halving the picture: 64 px and four stages
leave a grid of 4 × 4. One more convolution at the last size mixes neighbouring cells: a cell then sees whole objects.

    pixels (B, 3, P, P) → grid (B, widths[-1], P/2^s, P/2^s), s = len(widths)

`squeeze: 2` then keeps the maximum of every 2 × 2 cells: fewer halvings before it leave finer details to look at.

`pooled` averages the grid and forgets where things are. `grid` keeps the cells as a set. `flat` lays the cells side by
side in one vector, so that a linear layer can tell left from right.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from vsekit.encoders.base import ImageEncoder, ImageEncoderPart
from vsekit.encoders.image.grids import cells, single
from vsekit.errors import UserError
from vsekit.parts import Sets


def _stage(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class SmallCNN(ImageEncoder):
    """The network; see the module's text."""

    mean = std = (0.5, 0.5, 0.5)

    def __init__(
        self, widths: tuple[int, ...], pixels: int, output: Literal["pooled", "grid", "flat"], squeeze: int = 1
    ) -> None:
        super().__init__()
        self.pixels, self.output, self.squeeze = pixels, output, squeeze
        side = pixels // 2 ** len(widths) // squeeze
        self.dim = widths[-1] * (side * side if output == "flat" else 1)
        stages = [_stage(i, o, 2) for i, o in zip((3, *widths), widths)]
        self.stages = nn.ModuleList([*stages, _stage(widths[-1], widths[-1], 1)])
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, pixels: Tensor) -> Sets:
        grid = pixels.contiguous(memory_format=torch.channels_last)
        for stage in self.stages:
            grid = stage(grid)
        if self.squeeze > 1:
            grid = nn.functional.max_pool2d(grid, self.squeeze)
        if self.output == "grid":
            return cells(grid)
        return single(grid.mean((2, 3)) if self.output == "pooled" else grid.flatten(1))

    def parts(self) -> list[nn.Module]:
        return list(self.stages)


class SmallCNNSettings(ImageEncoderPart):
    kind: Literal["small_cnn"] = "small_cnn"
    widths: tuple[int, ...] = Field(default=(16, 32, 64, 128), min_length=1)
    pixels: int = 64
    output: Literal["pooled", "grid", "flat"] = "flat"
    squeeze: int = Field(default=1, ge=1)

    def build(self) -> SmallCNN:
        factor = 2 ** len(self.widths) * self.squeeze
        if self.pixels <= 0 or self.pixels % factor:
            raise UserError(
                f"{self.pixels} px cannot be halved {len(self.widths)} times and squeezed by {self.squeeze}",
                field="pixels",
                remedy=f"Use a multiple of {factor}, or fewer widths.",
            )
        return SmallCNN(self.widths, self.pixels, self.output, self.squeeze)
