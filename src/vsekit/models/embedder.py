"""A trained model for use from Python: pictures and sentences in, numpy out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vsekit.data.decoding import decode
from vsekit.data.text import Ragged
from vsekit.data.views import pieces, resized
from vsekit.engines.images import ImageEngine, image_engine
from vsekit.errors import UserError
from vsekit.models.embed import embed_captions, joined
from vsekit.models.model import VSE, load_model
from vsekit.parts import Sets


class Embedder:
    """What `vsekit.load` gives.

    A model of vectors gives (n, D). A model that compares sets (SCAN, BFAN) gives (n, N, D), where vectors that are all
    zero are padding.

    Attributes:
        model: the torch module.
        dim: the size D of the common space.
    """

    def __init__(self, model: VSE) -> None:
        self.model = model.eval()
        self.dim = model.settings.dim

    @torch.inference_mode()
    def encode_images(
        self, images: Iterable[Any] | Any, batch_size: int = 32, *, engine: ImageEngine | None = None
    ) -> np.ndarray:
        """Embeds pictures.

        Args:
            images: paths, bytes, open files, PIL pictures or arrays, mixed at will (see `vsekit.data.decoding.decode`); one
                alone counts as a list of one. A model made from precomputed features takes feature arrays, (d,) or (N, d),
                instead, until `model.read_pictures()`.
            batch_size: pictures at a time.
            engine: what runs the image encoder, from `engine_for`; by default, what is the fastest for so many pictures.
        """
        images = self._listed(images)
        if not len(images):
            return self._nothing()
        engine = engine or self.engine_for(len(images))
        batches = [images[start : start + batch_size] for start in range(0, len(images), batch_size)]
        return _numpy(joined([self.model.embed_images(self._inputs(batch, engine)) for batch in batches]))

    def engine_for(self, pictures: int) -> ImageEngine:
        """What runs the image encoder on so many pictures; see `vsekit.engines.images`."""
        return image_engine(self.model.image.encoder, pictures * self.model.view.count)

    def encode_texts(self, texts: Sequence[str] | str, batch_size: int = 128) -> np.ndarray:
        """Embeds sentences; a single string counts as a list of one."""
        texts = [texts] if isinstance(texts, str) else list(texts)
        wrong = next((text for text in texts if not isinstance(text, str)), None)
        if wrong is not None:
            raise UserError(
                f"a sentence must be a string, not {type(wrong).__name__}", remedy="Decode bytes to str first."
            )
        if not texts:
            return self._nothing()
        return _numpy(embed_captions(self.model, Ragged.of(self.model.tokenizer(texts)), batch_size))

    @torch.inference_mode()
    def similarity(self, images: np.ndarray, texts: np.ndarray) -> np.ndarray:
        """Scores of every picture with every sentence, (n_images, n_texts); higher is closer."""
        scores: Tensor = self.model.similarity(self._embedding(images), self._embedding(texts))
        return scores.numpy()

    def _nothing(self) -> np.ndarray:
        return np.zeros((0, 0, self.dim) if self.model.similarity.on_sets else (0, self.dim), np.float32)

    def _embedding(self, array: np.ndarray) -> Tensor | Sets:
        tensor = torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
        if not self.model.similarity.on_sets:
            return torch.atleast_2d(tensor)
        tensor = tensor if tensor.ndim == 3 else tensor[None]
        return Sets(tensor, tensor.abs().sum(-1) > 0)

    def _listed(self, images: Any) -> Sequence[Any]:
        """A list of what was given; one alone is a list of one."""
        if isinstance(images, np.ndarray):
            axes = 1 if self.model.settings.image.encoder.reads_features else 3
            return [images] if images.ndim <= axes else list(images)
        alone = isinstance(images, str | bytes | bytearray | memoryview) or hasattr(images, "read")
        return list(images) if isinstance(images, Iterable) and not alone else [images]

    def _inputs(self, batch: Any, engine: ImageEngine) -> Sets:
        if self.model.settings.image.encoder.reads_features:
            return self._features(batch)
        view = self.model.view
        return engine.views(np.stack([pieces(resized(decode(image, view.resize), view), view) for image in batch]))

    def _features(self, batch: Sequence[Any]) -> Sets:
        wrong = next((item for item in batch if not isinstance(item, np.ndarray)), None)
        if wrong is not None:
            raise UserError(
                f"this model was trained on precomputed features and can't read pictures ({type(wrong).__name__} given)",
                remedy="Give feature arrays, or let it read pictures, where its encoder is known: model.read_pictures().",
            )
        rows = [torch.from_numpy(np.atleast_2d(item).astype(np.float32)) for item in batch]
        vectors = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        lengths = torch.tensor([len(row) for row in rows])
        return Sets(vectors, torch.arange(vectors.shape[1]) < lengths[:, None])


def _numpy(embedding: Tensor | Sets) -> np.ndarray:
    if isinstance(embedding, Sets):
        return (embedding.vectors * embedding.mask[..., None]).numpy()
    return embedding.numpy()


def load(run_or_model: str | Path, *, trust: bool = False) -> Embedder:
    """Loads the model of a run folder, or a model folder; `trust` as in `load_model`."""
    return Embedder(load_model(run_or_model, trust=trust))
