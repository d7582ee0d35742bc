"""What an image tower reads: pixels of pictures, or features that were extracted before.

Both give, for picture numbers, something `VSE.embed_images` takes, and the numbers of the pictures really shown
(another one stands in for a broken file in training).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from vsekit.data.pairs import Pairs
from vsekit.data.pictures import PictureLoader
from vsekit.data.views import ViewSettings
from vsekit.encoders.base import ImageEncoder
from vsekit.encoders.weights import weights_fingerprint
from vsekit.engines.images import ImageEngine, TorchImages, image_engine
from vsekit.errors import UserError
from vsekit.features.cache import stored_features
from vsekit.models.model import VSE
from vsekit.models.tower import mean_of_maps
from vsekit.parts import Sets
from vsekit.progress import QUIET, Progress

#: Features, and resized pictures of a training set, up to this size are kept in memory; larger ones stay on disk.
IN_MEMORY_BYTES = 2 * 2**30


class ImageInputs(Protocol):
    @property
    def broken(self) -> dict[str, str]:
        """Reason by id, of the pictures found unreadable so far."""
        ...

    def load(
        self, pictures: np.ndarray, rng: np.random.Generator, only: slice = slice(None)
    ) -> tuple[Tensor | Sets, np.ndarray]:
        """(B,) picture numbers → what the tower reads, and the numbers of the pictures shown.

        only: load these of them; `rng` draws for all, so that shares of a batch are those of the whole.
        """
        ...


class FeatureInputs:
    """Features of a collection: (rows, d) or (rows, N, d); with `feature_crops` or `feature_views` (rows, V, …).

    Args:
        dim: the size the model expects; None takes what there is.
        training: draw one of the random crops, where there are several; otherwise all are read.
        keep_views: give crops or views that are all read as views, (B, V, N, d), instead of their mean.
        broken: reason by id of pictures without features; the next one that has some stands in.
    """

    def __init__(
        self,
        pairs: Pairs,
        dim: int | None = None,
        *,
        training: bool = False,
        keep_views: bool = False,
        broken: dict[str, str] | None = None,
    ) -> None:
        if pairs.features is None:
            raise UserError(
                "this collection has no features, and the image encoder is 'precomputed'",
                file=pairs.root,
                remedy="Give features made by vse features (--features DIR), or choose an encoder that reads pictures.",
            )
        if dim is not None and pairs.features.shape[-1] != dim:
            raise UserError(
                f"the features have {pairs.features.shape[-1]} numbers, the model expects {dim}",
                file=pairs.root,
                remedy="Give features of the encoder the model has.",
            )
        self.draws, self.keep_views, self.broken = training and pairs.feature_crops, keep_views, broken or {}
        self.shown = _stand_ins([picture.id in self.broken for picture in pairs.pictures])
        self.rows = np.array([picture.row for picture in pairs.pictures], dtype=np.int64)
        self.features, self.lengths = pairs.features, pairs.feature_lengths
        self.views = pairs.feature_crops or pairs.feature_views
        if len(self.rows) * np.prod(pairs.features.shape[1:]) * 4 <= IN_MEMORY_BYTES:
            self.features = np.ascontiguousarray(pairs.features[self.rows], dtype=np.float32)
            self.lengths = None if self.lengths is None else np.asarray(self.lengths[self.rows])
            self.rows = np.arange(len(self.rows))

    def load(
        self, pictures: np.ndarray, rng: np.random.Generator, only: slice = slice(None)
    ) -> tuple[Sets, np.ndarray]:
        shown = self.shown[pictures[only]]
        rows = self.rows[shown]
        vectors = torch.from_numpy(np.asarray(self.features[rows], dtype=np.float32))
        if self.draws:
            crop = torch.from_numpy(rng.integers(vectors.shape[1], size=len(pictures))[only])
            vectors = vectors[torch.arange(len(rows)), crop]
        elif self.views and not self.keep_views:
            vectors = vectors.mean(1)
        kept = self.views and self.keep_views and not self.draws
        if vectors.ndim == 2 + kept:
            vectors = vectors.unsqueeze(-2)
        n = vectors.shape[-2]
        lengths = np.full(len(rows), n) if self.lengths is None else self.lengths[rows]
        mask = torch.arange(n) < torch.from_numpy(np.asarray(lengths))[:, None]
        return Sets(vectors, mask[:, None].expand(vectors.shape[:3]) if kept else mask), shown


def _stand_ins(broken: list[bool]) -> np.ndarray:
    """For every picture itself, or the next one that is not broken."""
    whole = np.flatnonzero(~np.array(broken, dtype=bool))
    if not len(whole):
        raise UserError("none of the pictures can be read", remedy="Look with: vse data check")
    places = np.searchsorted(whole, np.arange(len(broken)))
    return whole[places % len(whole)]


class PixelInputs:
    """Pictures through a view, decoded as they are asked for: 8 bits a pixel, for the tower to normalise, since a large batch
    of floats would take more memory than all else.

    engine: what runs an encoder that does not change; then what it makes of the pictures is given, (B, V, N, d).
    """

    def __init__(
        self,
        pairs: Pairs,
        view: ViewSettings,
        encoder: ImageEncoder,
        *,
        training: bool,
        engine: ImageEngine | None = None,
    ) -> None:
        if view.pixels != encoder.pixels:
            raise UserError(
                f"the view has {view.pixels} px, the encoder reads {encoder.pixels} px",
                field="data.view.pixels",
                remedy=f"Set pixels of data.view and data.eval_view to {encoder.pixels}, or the encoder's pixels.",
            )
        fits = len(pairs.pictures) * view.resize**2 * 3 <= IN_MEMORY_BYTES
        self.loader = PictureLoader(
            pairs.pictures, view, broken="replace" if training else "error", cache=training and fits
        )
        self.engine = engine

    @property
    def broken(self) -> dict[str, str]:
        return self.loader.broken

    def load(
        self, pictures: np.ndarray, rng: np.random.Generator, only: slice = slice(None)
    ) -> tuple[Tensor | Sets, np.ndarray]:
        loaded = self.loader.load(pictures, rng, only)
        if self.engine is not None:
            return self.engine.views(loaded.pixels.permute(0, 1, 3, 4, 2).numpy()), loaded.shown
        return loaded.pixels, loaded.shown


def image_inputs(
    model: VSE,
    pairs: Pairs,
    view: ViewSettings,
    *,
    training: bool = False,
    frozen: bool = True,
    tail_learns: bool = False,
    crops: int | None = None,
    progress: Progress = QUIET,
) -> ImageInputs:
    """What the image tower reads of a collection: features that came with it, features extracted once, or pixels.

    Args:
        training: broken pictures are replaced, and a frozen encoder's features are kept for the epochs to come.
        frozen: the encoder won't change, so its features can stand for the pictures.
        tail_learns: the tail of a cut encoder will, so it is to read maps; otherwise features are what it gives. Features that
            came with the collection may then be either.
        crops: a frozen encoder's features of so many random crops stand for a random view.
    """
    encoder, apart = model.image.encoder, model.image.average_views == "after_head"
    if apart and pairs.features is not None:
        _refuse_averages(pairs)
    if model.settings.image.encoder.reads_features:
        return FeatureInputs(pairs, encoder.dim, training=training, keep_views=apart)
    if pairs.features is not None:
        if not tail_learns and model.image.told_apart and pairs.features.shape[-1] == model.image.tail.dim:
            encoder = model.image.with_tail()
        _refuse_other_features(encoder, pairs, frozen)
        return FeatureInputs(pairs, encoder.dim, training=training, keep_views=apart)
    kept = bool(training or encoder.weights_from)
    if frozen and not tail_learns:
        encoder = model.image.with_tail()
    if frozen and kept and (view.deterministic or crops):
        if encoder.tail() is not None and view.deterministic and view.count > 1 and not apart:
            raise mean_of_maps()
        spec = model.settings.image.encoder.model_dump(mode="json")
        stored, broken = stored_features(
            encoder, spec, pairs, view, progress, crops=crops or 1, keep_views=apart, keep_broken=training
        )
        return FeatureInputs(stored, training=training, keep_views=apart, broken=broken)
    engine = image_engine(encoder, len(pairs.pictures) * view.count) if frozen and not training else None
    compiled = engine is not None and engine.name != TorchImages.name
    return PixelInputs(pairs, view, encoder, training=training, engine=engine if compiled else None)


def _refuse_averages(pairs: Pairs) -> None:
    """The mean over views of features can't stand for the mean over views of embeddings."""
    source = pairs.feature_source
    if source is None or pairs.feature_views:
        return
    view = ViewSettings.model_validate(source["view"])
    if view.deterministic and view.count > 1:
        raise UserError(
            f"these features are the mean of {view.count} views, and the model averages views after its head",
            field="--features",
            remedy="Extract them with vse features --keep-views, or set model.image.average_views=before_head.",
        )


def _refuse_other_features(encoder: ImageEncoder, pairs: Pairs, frozen: bool) -> None:
    if not frozen:
        raise UserError(
            "features are given, and the image encoder is to be fine-tuned",
            field="freeze",
            remedy="Freeze image.encoder in every stage, or train on the pictures, without --features.",
        )
    if pairs.feature_source is not None and pairs.feature_source["weights"] != weights_fingerprint(encoder):
        raise UserError(
            "the features were made by an encoder with other weights than the model's",
            field="--features",
            remedy="Leave --features out, or extract them with the encoder the model has.",
        )
