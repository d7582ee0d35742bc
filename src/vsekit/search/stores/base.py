"""The interface of a store: items with a vector each, found by inner product.

Vectors are float32 of one size, unit length when the model's similarity is the cosine. A store is opened by one writer and
any number of readers; what a reader sees is always whole: the state before or after a `write`, never half of it. A writer
holds one lock from its first look to its last write: `lock` takes it, else the first write does, and `close` gives it back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import nlargest
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vsekit.errors import UserError
from vsekit.search.items import Item, Kind, Place, Value

if TYPE_CHECKING:
    from vsekit.search.filters import Filter
    from vsekit.search.words import Phrase

#: For `Store.lacks_words`.
MADE_BEFORE = (
    "this index was made before words were searched; vse index on the same folders adds them, and encodes nothing"
)


class Found(NamedTuple):
    """The best of a query, best first. Fewer than asked for where there are no more. What a store has at hand, it may add, which
    saves asking for it: the items, and how many they were found among."""

    ids: list[str]
    scores: np.ndarray
    items: Sequence[Item] | None = None
    among: int | None = None


class Checked(NamedTuple):
    """What a check found. damage: a sentence for each thing that is not as it was written. waiting: items that were put aside
    because their vectors were damaged, see `Store.repair`. notes: what can't be told, and why."""

    pictures: int
    captions: int
    damage: list[str]
    waiting: int = 0
    notes: Sequence[str] = ()


def with_marks(meta: Mapping[str, Value], marks: Mapping[str, bool]) -> dict[str, Value]:
    """Metadata with these marks; one that is taken away is not there."""
    others: dict[str, Value] = {name: value for name, value in meta.items() if name not in marks}
    return others | {name: True for name, on in marks.items() if on}


class UnreachableError(UserError):
    """The index is not there (any more), is damaged, or its database does not answer: no mistake of who asks."""


class WritingError(UserError):
    """Another process writes to the index; it can be waited for."""


class Store(ABC):
    """location: what `open_store` takes to open it again. dim: the size of the vectors. dtypes: in which it can keep them.
    batch: items that are well written at once."""

    location: str
    dim: int
    dtypes: tuple[str, ...] = ("float32",)
    batch: int = 1000

    @abstractmethod
    def lock(self) -> None:
        """Makes this the writer, for whoever looks before writing; UserError where another is."""

    @abstractmethod
    def rebuild(self, dim: int) -> None:
        """Forgets all items and the header, and holds vectors of this size from now on."""

    def identity(self) -> str:
        """Names the index that is at this place now: another one has another name, and one made anew for vectors of another
        size. UnreachableError where there is none, or where it does not answer."""
        return f"{self.location} {self.dim}"

    def repair(self) -> list[Item]:
        """Makes this the writer, and gives the items whose vectors are damaged. They are out of the index until a `write`
        brings them back, or deletes them for good. Databases look after themselves: none."""
        self.lock()
        return []

    @classmethod
    def check(cls, location: str) -> Checked:
        """Reads what the index at this place holds, without changing it."""
        with cls(location) as store:  # type: ignore[call-arg]
            return Checked(store.count("image"), store.count("caption"), [])

    @property
    @abstractmethod
    def header(self) -> dict[str, Any]:
        """What the index knows of itself: the model and its fingerprint, indexed folders, calibration."""

    @abstractmethod
    def set_header(self, header: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def write(self, items: Sequence[Item], vectors: np.ndarray, deleted: Sequence[str] = ()) -> None:
        """Adds items, or replaces those with the same id, and deletes others, all at once and durably."""

    @abstractmethod
    def update(self, items: Sequence[Item]) -> None:
        """Replaces what is known of items that are there; their vectors stay (a renamed file)."""

    @abstractmethod
    def items(self, ids: Sequence[str]) -> list[Item]:
        """In the order asked for; KeyError for an id that is not there."""

    @abstractmethod
    def vectors(self, ids: Sequence[str]) -> np.ndarray:
        """(len(ids), dim); KeyError for an id that is not there."""

    @abstractmethod
    def all_items(self, kind: Kind | None = None) -> Iterator[Item]:
        """Every item, in order of id, without holding them all in memory."""

    @abstractmethod
    def count(self, kind: Kind | None = None, filter: Filter | None = None) -> int: ...

    @abstractmethod
    def search(self, queries: np.ndarray, top: int, *, kind: Kind, filter: Filter | None = None) -> list[Found]:
        """The `top` items of a kind with the largest inner product with each of `queries` (q, dim) among those that pass
        the filter; ties by id."""

    def at_hand(self, kind: Kind) -> bool:
        """Whether the vectors of a kind are few and in this process, so that a search among all of them waits for nothing."""
        return False

    @abstractmethod
    def fields(self) -> dict[str, dict[str, Any]]:
        """The metadata of pictures, for filters: name → {"type": "number" | "text" | "boolean", and "min", "max" or
        "values": [[value, count], …] (the commonest 50), "count": items that have it}."""

    # Words; a store without them is searched by vectors alone.

    @property
    def lacks_words(self) -> str | None:
        """Why items can't be found by the words they hold (`vsekit.search.words`), for whoever asks; None where they can. Where
        they can, the store's filters know `Holds`."""
        return "this store does not search words"

    def holders(self, phrase: Phrase, most: int, *, kind: Kind) -> list[str]:
        """Ids of items of a kind that hold a phrase, or of pictures a caption of which does: of at most so many. In no order."""
        return []

    def held(self, phrases: Sequence[Phrase], most: int, *, kind: Kind) -> dict[Phrase, list[str]]:
        """The `holders` of several phrases; none where the store lacks words."""
        return {phrase: self.holders(phrase, most, kind=kind) for phrase in phrases}

    # Looking through pictures. These work with any store, by reading all of it.

    def version(self) -> str | None:
        """Another text after every change of what is stored; None where the store can't tell."""
        return None

    def latest(self, top: int, *, after: Place | None = None, filter: Filter | None = None) -> list[Item]:
        """The newest pictures that pass the filter: by falling `Item.place`, those without a date last. after: the place of
        the last one that is known already."""
        passing = (item for item in self._pictures(filter) if after is None or item.place < after)
        return nlargest(top, passing, key=lambda item: item.place)

    def tally(self, field: str, *, filter: Filter | None = None, cut: int | None = None) -> list[tuple[str, int]]:
        """The texts that a field has, in order, with how many pictures that pass the filter have each. Empty ones don't
        count. cut: only their first so many characters."""
        texts = (item.meta.get(field) for item in self._pictures(filter))
        return sorted(Counter(text[:cut] for text in texts if isinstance(text, str) and text).items())

    def mark(self, ids: Sequence[str], marks: Mapping[str, bool]) -> None:
        """Sets or takes away `MARKS` of pictures, all at once; KeyError for an id that is not there."""
        items = self.items(ids)
        self.update([replace(item, meta=with_marks(item.meta, marks)) for item in items])

    def _pictures(self, filter: Filter | None) -> Iterator[Item]:
        return (item for item in self.all_items("image") if filter is None or filter.matches(item.meta))

    @abstractmethod
    def close(self) -> None:
        """Lets go of files and connections."""

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
