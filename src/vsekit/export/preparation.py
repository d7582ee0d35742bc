"""From a picture to what an image tower reads of it, (V, P, P, 3) uint8, with numpy and Pillow alone.

A vsekit model looks through a view (`data.views`). A model like CLIP has its processor's steps instead: the shorter side
(or both) brought to a size, then the middle cut out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from vsekit.data.decoding import decode
from vsekit.data.views import ViewSettings, chosen_crops, cut, resized

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
        """The same of anything `decode` takes; UserError where it can't be read."""
        return self(decode(image, self.side))


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
