"""What indexing and search ask of a model: pictures and sentences in, vectors out.

What is alike has a large inner product. With the cosine all vectors have unit length.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vsekit.data.decoding import MAX_PIXELS, PictureError, Source, decode
from vsekit.errors import UserError
from vsekit.search.pictures import source_of

if TYPE_CHECKING:
    from PIL import Image

    from vsekit.data.views import ViewSettings
    from vsekit.search.hubs import Owing


class Prepared(NamedTuple):
    """What a model's encoder reads of one picture."""

    array: np.ndarray


class SearchModel(ABC):
    """What indexing and search ask of a model.

    name: what `load_search_model` takes to load it again: "starter", an absolute path, or a name on a hub.
    fingerprint: changes with anything that changes its vectors.
    dim: the size of the vectors.
    side: pictures are made no smaller than this by the model itself; larger JPEGs may be decoded at twice this.
    batch_size: how many pictures `embed` reads at once; small batches are the fastest on CPUs.
    at_once: how many threads may call `embed` at the same time with profit.
    view: how a vsekit model looks at pictures; None for others.
    folder: where a `calibration.json` of the model may stand.
    has_bank: whether it has a querybank, which is then `bank`; see `vsekit.search.hubs`.
    """

    name: str
    fingerprint: str
    dim: int
    side: int
    batch_size: int = 8
    at_once: int = 1
    view: ViewSettings | None = None
    folder: Path | None = None
    has_bank: bool = False

    @property
    def bank(self) -> Owing | None:
        return None

    def get_ready(self, pictures: int) -> None:
        """To be called before so many pictures are embedded; sets `at_once`."""
        self.at_once = 1

    @abstractmethod
    def prepare(self, image: Image.Image) -> np.ndarray:
        """What the encoder reads of an upright RGB picture. May be called from any thread."""

    def cached(self, data: bytes) -> np.ndarray | None:
        """What the encoder made before of the picture with these bytes, for `embed`; None: nothing."""
        return None

    def use_features(self, folder: Path) -> None:
        """Lets `cached` give features that vse features made, too. UserError where they are not this model's."""
        raise UserError(f"{self.name} reads pictures, not features", field="--features", remedy="Leave --features out.")

    @abstractmethod
    def embed(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        """Prepared pictures → (n, dim) float32, in one call of the encoder."""

    @abstractmethod
    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """(n, dim) float32."""

    @abstractmethod
    def words(self, text: str) -> list[str]:
        """What the model reads of a sentence, word by word or piece by piece, without marks of start and end."""

    def read(self, image: Source, *, max_pixels: int = MAX_PIXELS) -> Prepared:
        """A picture, read and prepared: small, and made in any thread. See `vsekit.data.decoding.decode`.

        A path may name a picture inside a shard.
        """
        try:
            source = source_of(image) if isinstance(image, str | Path) else image
        except OSError as error:
            raise PictureError(error.strerror or str(error), "missing", str(image)) from None
        return Prepared(self.prepare(decode(source, self.side, max_pixels=max_pixels)))

    def encode_images(self, images: Sequence[Source | Prepared]) -> np.ndarray:
        """Pictures → (n, dim) float32. UserError for one that can't be read."""
        prepared = [(image if isinstance(image, Prepared) else self.read(image)).array for image in images]
        batches = [prepared[at : at + self.batch_size] for at in range(0, len(prepared), self.batch_size)]
        return np.concatenate([np.zeros((0, self.dim), np.float32), *map(self.embed, batches)])
