"""What `vse features` does: features of a whole collection, by an encoder that is named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from vsekit.bulk.ray import Ray
from vsekit.data.pairs import Pairs
from vsekit.data.views import view_settings
from vsekit.encoders.image import encoder_settings
from vsekit.encoders.text import text_encoder_settings
from vsekit.errors import UserError, nearest
from vsekit.features.extraction import extract
from vsekit.features.reading import Reading
from vsekit.features.store import FeatureStore
from vsekit.features.texts import extract_splits
from vsekit.outside import trusting
from vsekit.parts import apply_sets
from vsekit.progress import QUIET, Progress

#: The text encoder whose states are kept; every other name is an image encoder's.
OF_CAPTIONS = "transformer"
DTYPES = ("float32", "float16")


def picture_features(
    encoder: str,
    data: Pairs | Reading,
    out: Path | str,
    *,
    splits: Sequence[str] = (),
    sets: Sequence[str] = (),
    view: str = "1C",
    resize: int | None = None,
    crops: int = 1,
    keep_views: bool = False,
    dtype: str = "float32",
    batch_size: int = 8,
    skip_broken: bool = False,
    engine: Ray | None = None,
    progress: Progress = QUIET,
) -> FeatureStore:
    """Features of a collection's pictures, for `vsekit.read(…, features=out)`; the same call goes on with what was stopped.

    >>> store = picture_features("efficientnet_lite", vsekit.read("flickr8k"), "features/lite0")     # doctest: +SKIP

    Args:
        encoder: an image encoder's kind, or `module:Class`.
        data: the collection; a `Reading` is read after all else has been checked.
        splits: only these.
        sets: changes of its settings, key=value.
        view: 1C, 10C or RC, see `vsekit.data.views`.
        resize: the side that pictures are resized to; by default 8/7 of the encoder's pixels.
        crops, keep_views, batch_size, skip_broken, engine: see `vsekit.features.extraction.extract`.
        dtype: float32, or float16 for half the size.
    """
    if dtype not in DTYPES:
        raise UserError(f"no dtype '{dtype}'{nearest(dtype, DTYPES)}", field="--dtype", remedy=f"{' or '.join(DTYPES)}")
    with trusting():  # a person named it
        settings = encoder_settings(apply_sets({"kind": encoder}, sets))
    if engine is not None:
        engine.ready()
    torch.manual_seed(0)  # an encoder that starts at random is the same one when this is repeated
    built = settings.build()
    seen = view_settings({"kind": view, "pixels": built.pixels, "resize": resize or built.pixels * 8 // 7})
    if crops > 1 and seen.deterministic:
        raise UserError(f"--crops {crops} with --view {view}, whose crops are fixed", remedy="Use --view RC.")
    pictures = _pairs(data, splits).pictures
    with progress.bar("Features", "pictures") as bar:
        return extract(
            built,
            settings.model_dump(mode="json"),
            pictures,
            seen,
            out,
            batch_size=batch_size,
            dtype=dtype,  # type: ignore[arg-type]
            crops=crops,
            keep_views=keep_views,
            skip_broken=skip_broken,
            engine=engine,
            progress=bar,
        )


def caption_features(
    data: Pairs | Reading,
    out: Path | str,
    *,
    splits: Sequence[str] = (),
    sets: Sequence[str] = (),
    progress: Progress = QUIET,
) -> dict[str, int]:
    """A vector of every token of every caption, a folder a split; how many there are in each. Args as above."""
    with trusting():
        settings = text_encoder_settings(apply_sets({"kind": OF_CAPTIONS}, sets))
    return extract_splits(settings, _pairs(data, splits), Path(out), progress)


def _pairs(data: Pairs | Reading, splits: Sequence[str]) -> Pairs:
    if isinstance(data, Reading):
        return data.pairs(*splits)
    return data.split(*splits) if splits else data
