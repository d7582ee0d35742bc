"""The contracts of encoders: pictures or sentences in, a set of vectors with a mask out, `Sets` of (B, N, dim).

A global feature is a set of one. An encoder that looks at each item several times gives its views, (B, V, N, dim). Image
encoders read pixels already normalised by `mean` and `std`; text encoders read what their own tokenizer made of the
sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
from torch import Tensor, nn

from vsekit.parts import Part, Sets, Tokens


class ImageEncoder(nn.Module):
    """dim: size of a vector. pixels: side of the square input. mean, std: per channel, of values in 0…1.

    weights_from: the pip package whose weights are loaded unchanged, so that a saved model need not hold them;
        None when the weights belong to the model and are saved with it.
    """

    dim: int
    pixels: int
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    weights_from: str | None = None

    def forward(self, pixels: Tensor) -> Sets:
        """(B, 3, H, W) float32 → Sets of (B, N, dim)."""
        raise NotImplementedError

    def parts(self) -> list[nn.Module]:
        """The encoder from input to output in pieces, so that the last n can be fine-tuned."""
        return [self]

    def extra_repr(self) -> str:
        """What it was told beside its modules, such as its `output`: two that print the same give the same."""
        told = {
            name: value for name, value in vars(self).items() if isinstance(value, int | float | str | tuple | Part)
        }
        return ", ".join(f"{name}={value!r}" for name, value in told.items() if name != "training" and name[0] != "_")

    def tail(self) -> nn.Module | None:
        """The last pieces, where they were cut off to learn in the tower: (…, dim) → (…, tail.dim). See `image.tails`."""
        return None


class ImageEncoderPart(Part):
    """Settings of an image encoder. reads_features: features made before are its input, of a size the data tell."""

    reads_features: ClassVar[bool] = False

    def build(self) -> ImageEncoder:
        raise NotImplementedError

    def build_untrained(self) -> ImageEncoder:
        """The same with any weights, because saved ones follow: a hub need not be asked."""
        return self.build()


class Tokenizer(Protocol):
    """Sentences to ids; saved beside the model and loaded with it.

    mask_id: what stands for a hidden word; special_ids: ids that are no words (padding, start, end …).
    """

    mask_id: int
    special_ids: frozenset[int]

    def __len__(self) -> int:
        """How many ids there are."""
        ...

    def __call__(self, sentences: Sequence[str]) -> list[np.ndarray]:
        """One int32 array of ids a sentence, never empty, specials included."""
        ...

    def words(self, sentence: str) -> list[str]:
        """What the ids of `sentence` stand for, one string an id, for explanations."""
        ...

    def save(self, folder: Path) -> None: ...


class TextEncoder(nn.Module):
    """dim: size of a vector. weights_from: as an `ImageEncoder` has it. state_a_token: gives one vector a token."""

    dim: int
    weights_from: str | None = None
    state_a_token: bool = False

    def forward(self, tokens: Tokens) -> Sets:
        """Tokens (B, T) → Sets of (B, T', dim)."""
        raise NotImplementedError


class TextEncoderPart(Part):
    """Settings of a text encoder, and of the tokenizer that goes with it.

    reads_pieces: the tokenizer is one of transformers, in its `inner`, and cuts words into pieces.
    """

    reads_pieces: ClassVar[bool] = False

    def make_tokenizer(self, sentences: Iterable[str]) -> Tokenizer:
        """A tokenizer for these training sentences."""
        raise NotImplementedError

    def load_tokenizer(self, folder: Path) -> Tokenizer:
        """The one that was saved beside a model."""
        raise NotImplementedError

    def build(self, tokenizer: Tokenizer, initialise: bool = True) -> TextEncoder:
        """initialise: load pretrained weights; False when saved ones follow."""
        raise NotImplementedError
