"""Features of a frozen image encoder, extracted once and kept for every later run on the same pictures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from vsekit.data.pairs import Pairs
from vsekit.data.views import ViewSettings
from vsekit.encoders.base import ImageEncoder
from vsekit.features.extraction import extract
from vsekit.features.fingerprints import identities_of, weights_fingerprint
from vsekit.files import fingerprint
from vsekit.progress import Progress


def cache_folder() -> Path:
    """Where features are kept: $VSEKIT_CACHE, else ~/.cache/vsekit."""
    given = os.environ.get("VSEKIT_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "vsekit"


def stored_features(
    encoder: ImageEncoder,
    spec: dict[str, Any],
    pairs: Pairs,
    view: ViewSettings,
    progress: Progress,
    *,
    crops: int = 1,
    keep_views: bool = False,
    keep_broken: bool = False,
) -> tuple[Pairs, dict[str, str]]:
    """The pairs with the features of an image encoder under `view`, from the cache where they are there.

    spec: the encoder's settings.
    crops: of a random view, how many are kept of each picture.
    keep_views: of a fixed view, keep its crops apart instead of averaging them.

    Also the pictures that can't be read, with the reason; without `keep_broken` they are an error.
    """
    name = fingerprint(
        spec,
        weights_fingerprint(encoder),
        view.model_dump(mode="json"),
        *([crops] if crops > 1 else []),
        *(["views"] if keep_views and view.count > 1 else []),
        [picture.id for picture in pairs.pictures],
        identities_of(pairs.pictures),
    )
    folder = cache_folder() / "features" / name
    with progress.bar(f"Features ({view.kind})", "pictures") as bar:
        store = extract(
            encoder,
            spec,
            pairs.pictures,
            view,
            folder,
            crops=crops,
            keep_views=keep_views,
            skip_broken=keep_broken,
            progress=bar,
        )
    return store.attach(pairs, keep_broken=keep_broken), store.broken
