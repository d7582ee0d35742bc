"""How a collection is read: where it lies, in which format, and with which features in place of its pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vsekit.data.clean import Clean, read_clean
from vsekit.data.pairs import Pairs
from vsekit.features.store import FeatureStore
from vsekit.files import cache_folder
from vsekit.progress import QUIET, Progress


@dataclass(frozen=True)
class Reading:
    """What --data, --format, --images, --columns and --features say.

    columns: which column of a table holds what, by role.
    features: a folder made by vse features.
    strict: the first problem of the collection is an error; otherwise what can't be used is set aside.
    notes: told how much was set aside, and how splits were made.
    """

    data: Path
    format: str | None = None
    images: Path | None = None
    columns: dict[str, str] | None = None
    features: Path | None = None
    strict: bool = False
    notes: Progress = QUIET

    @property
    def store(self) -> FeatureStore | None:
        return FeatureStore.open(self.features) if self.features else None

    def clean(self, bars: Progress = QUIET) -> Clean:
        """The collection, and what of it was set aside. bars: shows how far reading is."""
        found = read_clean(
            self.data,
            format=self.format,
            columns=self.columns,
            images=self.images,
            strict=self.strict,
            pictures=self.features is None,
            kept=cache_folder() / "looks",
            progress=bars,
        )
        for line in found.lines():
            self.notes.say(line)
        return found

    def pairs(self, *splits: str, clean: Clean | None = None) -> Pairs:
        """The collection, or some splits of it, with the features attached and checked against the pictures.

        clean: what `clean` gave, where the caller has it.
        """
        store = self.store  # first: it may not be there
        pairs = (clean or self.clean()).pairs
        if splits:
            pairs = pairs.split(*splits)
        if store is None:
            return pairs
        store.check(pictures=pairs.pictures)
        return store.attach(pairs)
