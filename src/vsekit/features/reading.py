"""How a collection is read: where it lies, in which format, and with which features in place of its pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vsekit.data.pairs import Pairs
from vsekit.data.readers import read
from vsekit.features.store import FeatureStore


@dataclass(frozen=True)
class Reading:
    """What --data, --format, --images, --columns and --features say.

    columns: which column of a table holds what, by role.
    features: a folder made by vse features.
    """

    data: Path
    format: str | None = None
    images: Path | None = None
    columns: dict[str, str] | None = None
    features: Path | None = None

    @property
    def store(self) -> FeatureStore | None:
        return FeatureStore.open(self.features) if self.features else None

    def pairs(self, *splits: str) -> Pairs:
        """The collection, or some splits of it, with the features attached and checked against the pictures."""
        store = self.store  # first: it may not be there
        pairs = read(self.data, format=self.format, columns=self.columns, images=self.images)
        if splits:
            pairs = pairs.split(*splits)
        if store is None:
            return pairs
        store.check(pictures=pairs.pictures)
        return store.attach(pairs)
