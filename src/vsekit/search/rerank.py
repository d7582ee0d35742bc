"""Retrieve fast, re-rank smart: a second model (SCAN, BFAN, or any other of vsekit) reads the best n answers again.

Its picture embeddings are made on demand and kept, in memory and, if wanted, in a folder. With f the scores of the first
model and s those of the second, each standardised over the n candidates, the new order is by

    (1 − w) · s + w · f,      w = ¼

since both together order better than the second alone (docs/search.md has the figures). The rest keep their places behind
them. `vsekit.evaluation.rerank` measures the same with w = 0 on whole test sets.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from vsekit.data.decoding import VERSION, PictureError, decode
from vsekit.errors import UserError
from vsekit.files import fingerprint, write_npy
from vsekit.models.embedder import Embedder
from vsekit.models.model import VSE, load_model
from vsekit.search.items import Item
from vsekit.search.pictures import source_of
from vsekit.search.query import Query

if TYPE_CHECKING:
    from PIL import Image

FIRST_WEIGHT = 0.25
CACHE_BYTES = 256 * 2**20


class Reranker:
    """Args:
    model: any vsekit model; one trained on features must know what made them.
    name: what to call it.
    folder: where to keep embeddings between runs, a file a picture; None keeps them in memory only.
    cache_bytes: how much memory they may take.
    batch_size: pictures encoded at a time.
    """

    def __init__(
        self,
        model: VSE,
        name: str = "",
        *,
        folder: Path | None = None,
        cache_bytes: int = CACHE_BYTES,
        batch_size: int = 16,
    ) -> None:
        self.embedder, self.name, self.batch_size = Embedder(model.read_pictures()), name, batch_size
        made_by = model.fingerprint(), model.view.model_dump(mode="json"), VERSION
        self.folder = folder / fingerprint(*made_by) if folder else None
        self._cache: OrderedDict[str, np.ndarray] = OrderedDict()
        self._bytes, self._room, self._lock = 0, cache_bytes, Lock()

    @classmethod
    def load(cls, run: str | Path, **options: Any) -> Reranker:
        """From a run or model folder; options are those of the class."""
        return cls(load_model(run), str(run), **options)

    def order(
        self, query: Query, items: Sequence[Item], first: np.ndarray, named: Mapping[str, Item] | None = None
    ) -> list[int]:
        """The new order of `items`, as places in it. Items whose picture can't be read come last, in their old order.

        Args:
            first: (n,) scores of the first model. named: the items that the query names, by id.
        """
        scores = self.scores(query, items, named)
        read = np.isfinite(scores)
        fused = np.full(len(items), -np.inf)
        fused[read] = (1 - FIRST_WEIGHT) * standardised(scores[read]) + FIRST_WEIGHT * standardised(first[read])
        return np.argsort(-fused, kind="stable").tolist()

    def scores(self, query: Query, items: Sequence[Item], named: Mapping[str, Item] | None = None) -> np.ndarray:
        """(n,) the second model's scores of pictures with the words of a query, or of captions with its pictures.

        A sum is scored term by term. −∞ for pictures that can't be read.
        """
        scores = np.full(len(items), -np.inf)
        if not items:
            return scores
        terms = [(named or {})[str(term.value)] if term.kind == "item" else term for term in query.terms]
        weights = np.array([term.weight for term in query.terms])
        for_pictures = items[0].kind == "image"
        if any((term.kind in ("picture", "image")) == for_pictures for term in terms):
            what, other = ("pictures", "words") if for_pictures else ("captions", "pictures")
            raise UserError(
                f"re-ranking compares words with pictures, so {what} are re-ranked by {other} alone",
                remedy=f"Ask with {other}, or without --rerank.",
            )
        if not for_pictures:
            asked = [self._one(term if isinstance(term, Item) else term.value) for term in terms]
            return weights @ self.similarity(asked, [item.text for item in items])
        texts = [term.text if isinstance(term, Item) else str(term.value) for term in terms]
        read = {i: vectors for i, vectors in enumerate(self.embedded(items)) if vectors is not None}
        if read:
            scores[list(read)] = self.similarity(list(read.values()), texts) @ weights
        return scores

    def _one(self, picture: Any) -> np.ndarray:
        """The embedding of a picture that asks: of an item, a path or a PIL picture."""
        if not isinstance(picture, Item):
            return self._encoded([picture])[0]
        (vectors,) = self.embedded([picture])
        if vectors is None:
            raise UserError(f"the picture of item {picture.id} can't be read", file=picture.path)
        return vectors

    def similarity(self, pictures: Sequence[np.ndarray], texts: Sequence[str]) -> np.ndarray:
        """(n_pictures, n_texts), of embeddings as `embedded` gives them."""
        return self.embedder.similarity(_padded(pictures), self.embedder.encode_texts(texts))

    def embedded(self, items: Sequence[Item]) -> list[np.ndarray | None]:
        """The items' pictures: (N, D) of a model of sets, else (D,); None where a picture can't be read."""
        found: dict[str, np.ndarray | None] = {}
        for item in items:
            found[_key(item)] = self._remembered(_key(item))
        new = [item for item in {_key(i): i for i in items}.values() if found[_key(item)] is None]
        side = self.embedder.model.view.resize
        for start in range(0, len(new), self.batch_size):
            batch = [
                (_key(item), image) for item in new[start : start + self.batch_size] if (image := opened(item, side))
            ]
            for (key, _), vectors in zip(batch, self._encoded([image for _, image in batch])):
                found[key] = vectors
                self._remember(key, vectors)
        return [found[_key(item)] for item in items]

    def _encoded(self, images: Sequence[Any]) -> list[np.ndarray]:
        if not images:
            return []
        arrays = self.embedder.encode_images(list(images))
        # Vectors of zeros are padding.
        return [array[array.any(-1)] if array.ndim == 2 else array for array in arrays]

    def _remembered(self, key: str) -> np.ndarray | None:
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        if self.folder is None:
            return None
        try:
            vectors = np.load(self.folder / f"{key}.npy", allow_pickle=False)
        except (OSError, ValueError):  # not there, or cut off
            return None
        self._keep(key, vectors)
        return vectors

    def _remember(self, key: str, vectors: np.ndarray) -> None:
        self._keep(key, vectors)
        if self.folder is not None:
            write_npy(self.folder / f"{key}.npy", vectors)

    def _keep(self, key: str, vectors: np.ndarray) -> None:
        with self._lock:
            if key not in self._cache:
                self._bytes += vectors.nbytes
            self._cache[key] = vectors
            while self._bytes > self._room and len(self._cache) > 1:
                self._bytes -= self._cache.popitem(last=False)[1].nbytes


def _key(item: Item) -> str:
    """By content where it is known, so that a changed file is read again; safe as a file name."""
    return fingerprint(item.content or f"{item.path} {item.size} {item.mtime_ns}")


def opened(item: Item, side: int | None = None) -> Image.Image | None:
    """The item's picture, upright and in RGB; None when it is gone or broken since it was indexed.

    side: what it will be scaled to; see `vsekit.data.decoding.decode`.
    """
    try:
        return decode(source_of(item.path), side)
    except (PictureError, OSError):  # OSError: of a shard
        return None


def standardised(scores: np.ndarray) -> np.ndarray:
    spread = scores.std() if len(scores) else 0.0
    return (scores - scores.mean()) / spread if spread > 0 else np.zeros_like(scores)


def _padded(pictures: Sequence[np.ndarray]) -> np.ndarray:
    """Sets of different sizes in one array, filled up with zeros."""
    if pictures[0].ndim == 1:
        return np.stack(pictures)
    longest = max(len(vectors) for vectors in pictures)
    return np.stack([np.pad(vectors, ((0, longest - len(vectors)), (0, 0))) for vectors in pictures])
