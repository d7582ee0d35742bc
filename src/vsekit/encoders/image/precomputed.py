"""Features made elsewhere or by `vsekit.features.store`, handed on as they are: (B, d) or (B, N, d) → `Sets`."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from vsekit.encoders.base import ImageEncoder, ImageEncoderPart
from vsekit.encoders.image.grids import complete
from vsekit.errors import UserError
from vsekit.parts import Sets


class Precomputed(ImageEncoder):
    """The identity on features of size `dim`; it reads no pixels and has no weights."""

    pixels = 0

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Sets:
        """(B, d) or (B, N, d) of any float type, and (B, N) where there is a vector → float32 `Sets`."""
        if features.shape[-1] != self.dim:
            raise UserError(
                f"features have {features.shape[-1]} numbers, the model expects {self.dim}",
                remedy="Use the features the model was trained with.",
            )
        vectors = features.float()
        vectors = vectors[:, None] if vectors.dim() == 2 else vectors
        return complete(vectors) if mask is None else Sets(vectors, mask)

    def sets(self, features: Tensor, lengths: Tensor | None = None) -> Sets:
        """`forward`, with (B,) lengths in place of a mask: the first `lengths[b]` vectors are real."""
        if lengths is None:
            return self(features)
        return self(features, torch.arange(features.shape[1], device=features.device) < lengths[:, None])


class PrecomputedSettings(ImageEncoderPart):
    """dim: size of a feature; None takes it from the data, through `build(dim)`."""

    reads_features: ClassVar[bool] = True

    kind: Literal["precomputed"] = "precomputed"
    dim: int | None = None

    def build(self, dim: int | None = None) -> Precomputed:
        if self.dim is not None and dim is not None and self.dim != dim:
            raise UserError(
                f"the features have {dim} numbers, not {self.dim}",
                field="dim",
                remedy="Leave dim out: it is taken from the data.",
            )
        size = self.dim or dim
        if size is None:
            raise UserError(
                "the size of the features is not known", field="dim", remedy="Give dim, or data with features."
            )
        return Precomputed(size)
