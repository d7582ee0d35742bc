"""A store in memory and a model of word and colour counts: everything that searching needs, small enough to work by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vsekit.search.items import Item, Kind
from vsekit.search.stores.base import Found, Store

WORDS = ("red", "green", "blue", "a", "wall", "dog")


class MemoryStore(Store):
    """The slow and obvious store: one sort for every query. writes: how often something was written."""

    location = "memory"

    def __init__(self, dim: int, header: Mapping[str, Any] | None = None) -> None:
        self.dim, self._header = dim, dict(header or {})
        self.known: dict[str, Item] = {}
        self.placed: dict[str, np.ndarray] = {}
        self.writes = 0

    def lock(self) -> None:
        """Nobody else has this memory."""

    def rebuild(self, dim: int) -> None:
        self.dim, self._header, self.known, self.placed = dim, {}, {}, {}
        self.writes += 1

    @property
    def header(self) -> dict[str, Any]:
        return dict(self._header)

    def set_header(self, header: Mapping[str, Any]) -> None:
        self._header = dict(header)

    def write(self, items: Sequence[Item], vectors: np.ndarray, deleted: Sequence[str] = ()) -> None:
        assert vectors.shape == (len(items), self.dim)
        assert not {item.id for item in items} & set(deleted)
        self.writes += 1
        for id_ in deleted:
            self.known.pop(id_), self.placed.pop(id_)
        for item, vector in zip(items, vectors):
            self.known[item.id], self.placed[item.id] = item, np.array(vector, np.float32)

    def update(self, items: Sequence[Item]) -> None:
        assert {item.id for item in items} <= set(self.known)
        self.writes += 1
        self.known.update({item.id: item for item in items})

    def items(self, ids: Sequence[str]) -> list[Item]:
        return [self.known[id_] for id_ in ids]

    def vectors(self, ids: Sequence[str]) -> np.ndarray:
        return np.stack([self.placed[id_] for id_ in ids])

    def all_items(self, kind: Kind | None = None) -> Iterator[Item]:
        return (self.known[id_] for id_ in sorted(self.known) if kind in (None, self.known[id_].kind))

    def _passing(self, kind: Kind | None, filter: Any) -> list[Item]:
        return [item for item in self.all_items(kind) if filter is None or filter.matches(item.meta)]

    def count(self, kind: Kind | None = None, filter: Any = None) -> int:
        return len(self._passing(kind, filter))

    def search(self, queries: np.ndarray, top: int, *, kind: Kind, filter: Any = None) -> list[Found]:
        items = self._passing(kind, filter)
        founds = []
        for query in queries:
            scored = sorted((-float(self.placed[item.id] @ query), item.id) for item in items)[:top]
            founds.append(Found([id_ for _, id_ in scored], np.array([-score for score, _ in scored], np.float32)))
        return founds

    def fields(self) -> dict[str, dict[str, Any]]:
        return {name: {} for item in self.all_items("image") for name in item.meta}

    def close(self) -> None:
        pass


class CountingModel:
    """Three dimensions for how red, green and blue, three for other words; pictures are their mean colour."""

    name, fingerprint, dim, view = "counting", "one", len(WORDS), None
    folder: Path | None = None
    bank: Any = None

    def __init__(self) -> None:
        self.encoded: list[list[str]] = []

    def words(self, text: str) -> list[str]:
        return [word if word in WORDS else "<unk>" for word in text.lower().split()]

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        self.encoded.append(list(texts))
        counts = np.array([[self.words(text).count(word) for word in WORDS] for text in texts], np.float32)
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1)

    def encode_images(self, images: Sequence[Path | str | Image.Image]) -> np.ndarray:
        opened = [image if isinstance(image, Image.Image) else Image.open(image) for image in images]
        colours = np.stack([np.asarray(image.convert("RGB"), np.float32).mean((0, 1)) for image in opened])
        vectors = np.concatenate([colours, np.zeros((len(colours), len(WORDS) - 3), np.float32)], axis=1)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)


def store_of(
    model: Any, pictures: Mapping[str, Any], captions: Mapping[str, tuple[str, str]] | None = None
) -> MemoryStore:
    """An index of PIL pictures by id, and of (picture id, text) by caption id."""
    store = MemoryStore(model.dim, {"model": model.name, "fingerprint": model.fingerprint})
    store.write([Item(id_, "image", picture=id_) for id_ in pictures], model.encode_images(list(pictures.values())))
    if captions:
        items = [Item(id_, "caption", text=text, picture=owner) for id_, (owner, text) in captions.items()]
        store.write(items, model.encode_texts([text for _, text in captions.values()]))
    return store
