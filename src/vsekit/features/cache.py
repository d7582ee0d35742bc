"""Features of a frozen image encoder, extracted once and kept for every later run on the same pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from vsekit import system
from vsekit.data.pairs import Pairs
from vsekit.data.views import ViewSettings
from vsekit.encoders.base import ImageEncoder
from vsekit.encoders.weights import weights_fingerprint
from vsekit.errors import UserError
from vsekit.features.extraction import extract
from vsekit.features.fingerprints import identities_of
from vsekit.features.store import MARKER, FeatureStore, other_features
from vsekit.features.writer import differences, read_marker
from vsekit.files import cache_folder, fingerprint
from vsekit.progress import Progress


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

    Maps for a tail to read, which are large, are kept at half precision.

    Also the pictures that can't be read, with the reason; without `keep_broken` they are an error.
    """
    dtype: Literal["float16", "float32"] = "float32" if encoder.tail() is None else "float16"
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
    with _alone(folder, progress), progress.bar(f"Features ({view.kind})", "pictures") as bar:
        store = extract(
            encoder,
            spec,
            pairs.pictures,
            view,
            folder,
            dtype=dtype,
            crops=crops,
            keep_views=keep_views,
            skip_broken=keep_broken,
            progress=bar,
        )
    return store.attach(pairs, keep_broken=keep_broken), store.broken


@contextmanager
def _alone(folder: Path, progress: Progress) -> Iterator[None]:
    """One process at a time makes what is not whole yet; another waits, and finds it made."""
    if (read_marker(folder / MARKER) or {}).get("done"):
        yield
        return
    lock = cache_folder() / "locks" / f"{folder.name}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        try:
            held.enter_context(system.locked(lock))
        except OSError:
            progress.say("Another process is making the features of these pictures: waiting for it.")
            held.enter_context(system.locked(lock, wait=True))
        yield


class CachedFeatures:
    """What an encoder made of pictures under a view before, by what is in their files: `content_of` their bytes.

    Only whole stores that give the very vectors the encoder would: fixed crops, averaged, 32-bit floats, the same weights.
    They are those of the cache, and `named`: where a person says features are, and where others are a UserError.
    """

    def __init__(
        self, encoder: ImageEncoder, spec: dict[str, Any], view: ViewSettings, named: Path | None = None
    ) -> None:
        asked: dict[str, Any] = {"encoder": spec, "weights": weights_fingerprint(encoder)}
        asked |= {"view": view.model_dump(mode="json"), "dtype": "float32", "crops": 1, "done": True}
        self._rows: dict[int, tuple[FeatureStore, int]] = {}
        for marker in sorted((cache_folder() / "features").glob(f"*/{MARKER}")) if view.deterministic else []:
            header = read_marker(marker)
            if header and not any(differences(header, asked)) and _by_content(marker.parent, header):
                self._take(FeatureStore.open(marker.parent))
        if named is not None:
            store = FeatureStore.open(named)
            for name, was, now in differences(store.header, asked):
                raise other_features(named, name, was, now)
            if not _by_content(named, store.header):
                raise UserError(
                    "these features can't stand for pictures: their views are kept apart, or an old version made them",
                    file=named,
                    remedy="Extract them anew, without --keep-views, into a new folder.",
                )
            self._take(store)

    def _take(self, store: FeatureStore) -> None:
        known = store.array("contents").tolist()
        self._rows |= {content: (store, row) for row, content in enumerate(known) if content}

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, content: int) -> np.ndarray | None:
        """(N, d) float32 of the picture with these bytes; None where they are not in the cache."""
        if content not in self._rows:
            return None
        store, row = self._rows[content]
        features = np.atleast_2d(np.array(store.features[row], np.float32))
        if (store.folder / "lengths.npy").is_file():
            features = features[: int(store.array("lengths")[row])]
        return features


def _by_content(folder: Path, header: dict[str, Any]) -> bool:
    """Whether a store has one set of features for each picture, found by its bytes."""
    return (folder / "contents.npy").is_file() and "view" not in header["axes"]
