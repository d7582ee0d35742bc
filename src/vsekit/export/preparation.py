"""From a picture to what an image tower reads of it, (V, P, P, 3) uint8, with numpy and Pillow alone.

A vsekit model looks through a view (`data.views`). A model like CLIP has its processor's steps instead: the shorter side
(or both) brought to a size, then the middle cut out.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vsekit.data.views import ViewSettings, chosen_crops, cut, resized
from vsekit.errors import UserError

if TYPE_CHECKING:
    from PIL import Image


class Preparation(ABC):
    """side: pictures are made no smaller than this; larger JPEGs are decoded at twice this or more."""

    side: int

    @staticmethod
    def of(written: dict[str, Any]) -> Preparation:
        """From config.json."""
        return View(ViewSettings.model_validate(written["view"])) if "view" in written else Steps(**written["steps"])

    @abstractmethod
    def __call__(self, image: Image.Image) -> np.ndarray:
        """An upright RGB picture → (V, P, P, 3) uint8."""

    def read(self, image: Any) -> np.ndarray:
        """The same of a path, a PIL picture or an (H, W, 3) uint8 array; UserError where it can't be read."""
        return self(upright(image, self.side))


def upright(image: Any, side: int | None = None) -> Image.Image:
    """A path, a PIL picture or an (H, W, 3) uint8 array, upright and in RGB; a JPEG no smaller than twice `side`."""
    from PIL import Image, ImageOps

    name = image if isinstance(image, str | Path) else type(image).__name__
    try:
        if isinstance(image, np.ndarray):
            image = Image.fromarray(image)
        elif not isinstance(image, Image.Image):
            image = Image.open(io.BytesIO(Path(image).read_bytes()))
            if side is not None:
                image.draft("RGB", (2 * side, 2 * side))
        image.load()
        with suppress(Exception):  # damaged EXIF makes Pillow raise nearly anything; the picture itself is whole
            image = ImageOps.exif_transpose(image)
        return image.convert("RGB")
    except FileNotFoundError:
        raise UserError(f"no such picture: {name}") from None
    except Exception as error:  # on broken bytes decoders raise nearly anything
        raise UserError(
            f"can't read this picture: {error}", file=str(name), remedy="Is it a whole image file?"
        ) from None


class View(Preparation):
    def __init__(self, view: ViewSettings) -> None:
        self.view, self.side = view, view.resize

    def __call__(self, image: Image.Image) -> np.ndarray:
        array = resized(image, self.view)
        return np.stack([cut(array, crop, self.view.pixels) for crop in chosen_crops(self.view)])


class Steps(Preparation):
    """The usual steps of transformers' image processors.

    Args:
        shortest: what the shorter side is brought to; or
        size: height and width, whatever the picture's shape.
        resample: Pillow's number of the filter.
        crop: height and width of the middle that is kept; black where the picture is smaller. None keeps all.
    """

    def __init__(
        self,
        *,
        shortest: int | None = None,
        size: list[int] | None = None,
        resample: int = 3,
        crop: list[int] | None = None,
    ) -> None:
        self.shortest, self.size, self.resample, self.crop = shortest, size, resample, crop
        self.side = max([shortest or 0, *(size or []), *(crop or [])])

    def __call__(self, image: Image.Image) -> np.ndarray:
        if self.size is not None:
            height, width = self.size
        elif self.shortest is not None:
            long = int(self.shortest * max(image.size) / min(image.size))
            wide = image.size[0] >= image.size[1]
            height, width = (self.shortest, long) if wide else (long, self.shortest)
        else:
            width, height = image.size
        array = np.asarray(image.resize((width, height), self.resample))
        return (array if self.crop is None else _middle(array, *self.crop))[None]


def _middle(array: np.ndarray, height: int, width: int) -> np.ndarray:
    """The middle (height, width) of a picture, with a black border where it is smaller."""
    missing = [max(0, want - have) for want, have in zip((height, width), array.shape)]
    padded = np.pad(array, [*((-(-m // 2), m // 2) for m in missing), (0, 0)])
    top, left = (padded.shape[0] - height) // 2, (padded.shape[1] - width) // 2
    return padded[top : top + height, left : left + width]
