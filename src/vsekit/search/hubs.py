"""Hubs in an index: an item's scores less what it owes to being near to just anything, by the model's querybank.

`models.querybank` has the equation, s'(i, c) = s(i, c) − w·h(i) − w·h(c). The query's own part is the same for all items and
changes no ranking, so an index needs one number an item, w·h. It stands in the vector, which keeps the inner product of
every store exact, at no cost for a search:

    item   [x, −w·h(x), 0, …]          query   [q, a, 0, …]

a is 1 where the query is of the other kind (words for pictures, a picture for captions) and 0 where it is of the same, of
which the bank knows nothing; for a sum, that of its terms with their weights. The zeros keep sizes multiples of eight.
An index whose vectors are as long as the model's is searched without this: it was made before, or the model has no bank.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vsekit.search.items import Kind

if TYPE_CHECKING:
    from vsekit.search.base import SearchModel
    from vsekit.search.stores.base import Store

#: Numbers behind those of the model: what is owed, and zeros.
EXTRA = 8
#: Items whose scores with the bank are computed at once.
AT_ONCE = 1024


class Owing(ABC):
    """What knows how much items owe."""

    @abstractmethod
    def owed(self, vectors: np.ndarray, kind: Kind) -> np.ndarray:
        """w·h of items of this kind: (n, D) → (n,)."""


@dataclass(frozen=True)
class Bank(Owing):
    """A querybank in numpy: images, captions (M, D), as long as the similarity makes them."""

    images: np.ndarray
    captions: np.ndarray
    temperature: float
    weight: float

    def owed(self, vectors: np.ndarray, kind: Kind) -> np.ndarray:
        others = self.captions if kind == "image" else self.images
        found = np.empty(len(vectors), np.float32)
        for at in range(0, len(vectors), AT_ONCE):
            scores = vectors[at : at + AT_ONCE] @ others.T / self.temperature
            top = scores.max(axis=1, keepdims=True)
            found[at : at + AT_ONCE] = top[:, 0] + np.log(np.exp(scores - top).mean(axis=1))
        return self.weight * self.temperature * found


def stored_dim(model: SearchModel) -> int:
    """How long the vectors of a new index of this model are."""
    return model.dim + EXTRA * model.has_bank


def fits(store: Store, model: SearchModel) -> bool:
    """Whether the model's vectors can be kept in this store, with what they owe or without."""
    return store.dim in (model.dim, stored_dim(model))


def item_vectors(model: SearchModel, vectors: np.ndarray, kind: Kind, dim: int) -> np.ndarray:
    """Vectors as the model makes them → as a store of size `dim` keeps them."""
    if dim == model.dim or not len(vectors):
        return np.asarray(vectors).reshape(len(vectors), -1) if len(vectors) else np.zeros((0, dim), np.float32)
    found = np.zeros((len(vectors), dim), np.float32)
    found[:, : model.dim] = vectors
    found[:, model.dim] = -model.bank.owed(np.asarray(vectors), kind)  # type: ignore[union-attr]
    return found


def query_vectors(vectors: np.ndarray, other: np.ndarray | float, model_dim: int, dim: int) -> np.ndarray:
    """(n, ≥ model_dim), of the model or of a store → (n, dim), to be compared with items of a store. other: a, see above."""
    if dim == model_dim:
        return vectors[:, :model_dim]
    found = np.zeros((len(vectors), dim), np.float32)
    found[:, :model_dim] = vectors[:, :model_dim]
    found[:, model_dim] = other
    return found


def plain(store: Store, vectors: np.ndarray) -> np.ndarray:
    """Vectors of a store as the model made them, to be compared with each other."""
    return vectors[:, : store.header.get("dim", store.dim)]
