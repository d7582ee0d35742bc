"""Which pixels of a picture the encoder sees: the views 1C, 10C and RC of VSE++.

Faghri, Fleet, Kiros, Fidler: VSE++: Improving Visual-Semantic Embeddings with Hard Negatives, BMVC 2018, section 4: the
picture is resized to 256 × 256; then

    1C   the centre crop of 224 × 224;
    10C  ten crops at fixed places, four corners and the centre with their mirror images; their features are averaged;
    RC   one random crop, drawn anew at every read.

Published code draws the random crop by area and aspect and scales it to 224 instead; that is the option `scale`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, ValidationError, model_validator

from vsekit.parts import Settings, settings_error

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor


class ViewSettings(Settings):
    """A view; `RC` stands for `{kind: RC}`.

    resize: side of the square the picture is brought to.
    pixels: side of the crops.
    flip: RC: mirror with probability ½. 10C: add the mirror images to the five crops. 1C: average the crop with its
        mirror image (the test-time features of dual-path). On by default, except for 1C.
    keep_aspect: resize the shorter side and keep the middle square, instead of squeezing the picture to a square.
    scale: RC only: the crop covers a share of the area drawn from this range, at an aspect between 3:4 and 4:3.
    """

    kind: Literal["1C", "10C", "RC"]
    resize: int = Field(default=256, gt=0)
    pixels: int = Field(default=224, gt=0)
    flip: bool
    keep_aspect: bool = False
    scale: tuple[float, float] | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, value: Any) -> Any:
        value = {"kind": value} if isinstance(value, str) else value
        return {"flip": value.get("kind") != "1C", **value} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _possible(self) -> ViewSettings:
        if self.pixels > self.resize:
            raise ValueError(f"crops of {self.pixels} px do not fit into pictures resized to {self.resize} px")
        if self.scale is not None and not (self.kind == "RC" and 0 < self.scale[0] <= self.scale[1] <= 1):
            raise ValueError("scale goes with RC and is a range within 0…1, such as [0.08, 1.0]")
        return self

    @property
    def deterministic(self) -> bool:
        """Whether every read of a picture gives the same pixels."""
        return self.kind != "RC"

    @property
    def count(self) -> int:
        """V, the crops of one picture."""
        return 1 if self.kind == "RC" else (5 if self.kind == "10C" else 1) * (2 if self.flip else 1)


def view_settings(value: Any) -> ViewSettings:
    """A view from a mapping or a bare name; UserError when it is wrong."""
    try:
        return ViewSettings.model_validate(value)
    except ValidationError as error:
        raise settings_error(error, "view") from None


class Crop(NamedTuple):
    """A rectangle of the resized picture, and whether it is mirrored."""

    top: int
    left: int
    height: int
    width: int
    mirrored: bool


def resized(image: Image.Image, settings: ViewSettings) -> np.ndarray:
    """The RGB picture as a square uint8 array (resize, resize, 3)."""
    from PIL import Image

    square = (settings.resize, settings.resize)
    if image.size == square:  # Pillow would make a copy
        return np.asarray(image)
    box = None
    if settings.keep_aspect:
        width, height = image.size
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        box = (left, top, left + side, top + side)
    return np.asarray(image.resize(square, Image.Resampling.BILINEAR, box=box))


def chosen_crops(settings: ViewSettings, rng: np.random.Generator | None = None) -> list[Crop]:
    """The crops of one picture. All the randomness of a view is here; `rng` is needed by RC alone."""
    size, slack = settings.pixels, settings.resize - settings.pixels
    if settings.kind == "RC":
        if rng is None:
            raise ValueError("RC draws its crops: give it a generator")
        height = width = size
        if settings.scale is not None:
            height, width = _drawn_size(settings.resize, settings.scale, rng)
        top = int(rng.integers(settings.resize - height + 1))
        left = int(rng.integers(settings.resize - width + 1))
        return [Crop(top, left, height, width, bool(settings.flip and rng.random() < 0.5))]
    middle = (slack // 2, slack // 2)
    corners = [(0, 0), (0, slack), (slack, 0), (slack, slack)] if settings.kind == "10C" else []
    return [
        Crop(top, left, size, size, mirrored)
        for mirrored in ([False, True] if settings.flip else [False])
        for top, left in [*corners, middle]
    ]


def _drawn_size(side: int, scale: tuple[float, float], rng: np.random.Generator) -> tuple[int, int]:
    """Height and width of a crop that covers a share of the square drawn from `scale`."""
    area = side * side * rng.uniform(*scale)
    # A crop of this area and aspect must fit into the square, which bounds the aspect.
    widest = min(math.log(4 / 3), math.log(side * side / area))
    aspect = math.exp(rng.uniform(-widest, widest))
    height, width = round(math.sqrt(area / aspect)), round(math.sqrt(area * aspect))
    return min(max(height, 1), side), min(max(width, 1), side)


def cut(array: np.ndarray, crop: Crop, pixels: int) -> np.ndarray:
    """One crop (pixels, pixels, 3) of a resized picture (resize, resize, 3)."""
    piece = array[crop.top : crop.top + crop.height, crop.left : crop.left + crop.width]
    if piece.shape[:2] != (pixels, pixels):
        from PIL import Image

        piece = np.asarray(Image.fromarray(piece).resize((pixels, pixels), Image.Resampling.BILINEAR))
    return piece[:, ::-1] if crop.mirrored else piece


def pieces(array: np.ndarray, settings: ViewSettings, rng: np.random.Generator | None = None) -> np.ndarray:
    """The view of a resized picture: (resize, resize, 3) → (V, pixels, pixels, 3), uint8."""
    return np.stack([cut(array, crop, settings.pixels) for crop in chosen_crops(settings, rng)])


def crops(array: np.ndarray, settings: ViewSettings, rng: np.random.Generator | None = None) -> np.ndarray:
    """The same with the channels first: (V, 3, pixels, pixels)."""
    return pieces(array, settings, rng).transpose(0, 3, 1, 2)


def normalised(pixels: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """(pixels/255 − mean) / std per channel: uint8 (…, 3, H, W) → float32 of the same shape and memory layout."""
    import torch

    values = pixels.to(torch.float32, copy=True)
    scale = values.new_tensor([1 / (255 * s) for s in std]).view(3, 1, 1)
    shift = values.new_tensor([m / s for m, s in zip(mean, std)]).view(3, 1, 1)
    return values.mul_(scale).sub_(shift)
