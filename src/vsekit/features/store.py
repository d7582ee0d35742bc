"""A feature store: what a frozen encoder makes of every picture, computed once and memory-mapped ever after.

    features.npy     (n, d) pooled; (n, N, d) grids and regions; (n, crops, d) or (n, crops, N, d) pools of random crops;
                     (n, views, d) or (n, views, N, d) fixed views kept apart
    boxes.npy        (n, N, 4) x0, y0, x1, y1 in 0…1 of the view, and
    lengths.npy      (n,) how many of the N are real: both for region encoders only
    contents.npy     (n,) 64 bits that name each picture by its bytes, to find its features wherever it lies
    ids.txt          the picture of each row, one id a line
    identities.npy   (n, 2) size of the file and CRC-32 of its first 64 KB, to notice a picture that has changed
    store.json       what made it: encoder, weights, view, seed; the axes; how many rows are done; checksums of all files

`extraction` writes it. Stores made before contents.npy or checksums came have none, and are read all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vsekit.data.pairs import Pairs, Picture
from vsekit.data.views import ViewSettings
from vsekit.encoders.weights import weights_fingerprint
from vsekit.errors import UserError
from vsekit.features.fingerprints import identity
from vsekit.features.writer import differences, load_array, read_marker
from vsekit.seals import CHECKED, KEY, check_files

if TYPE_CHECKING:
    from vsekit.encoders.base import ImageEncoder

MARKER = "store.json"
_REDO = "Extract them anew: vse features … --out DIR, with an empty or new DIR."


@dataclass(frozen=True)
class FeatureStore:
    """A finished store. `header` is store.json; `axes` names the axes of `features`."""

    folder: Path
    header: dict[str, Any]
    ids: list[str]

    @classmethod
    def open(cls, folder: Path | str) -> FeatureStore:
        folder = Path(folder)
        header = read_marker(folder / MARKER)
        if header is None:
            raise UserError("no features here", file=folder, remedy="Extract them with: vse features … --out DIR")
        if not {"done", "rows", "axes", "broken", "pictures"} <= header.keys():
            raise UserError("this is not the header of a feature store", file=folder / MARKER, remedy=_REDO)
        check_files(folder, header.get(KEY, {}), _REDO, most=CHECKED)
        if not header["done"]:
            rows, count, broken = header["rows"], header["pictures"]["count"], len(header["broken"])
            what = f"{broken} pictures could not be read" if rows == count else f"{rows} of {count} pictures are done"
            raise UserError(
                f"unfinished: {what}",
                file=folder,
                remedy="Run the same vse features command again: it goes on where it stopped (--skip-broken: without "
                "the pictures that cannot be read).",
            )
        return cls(folder, header, (folder / "ids.txt").read_bytes().decode(errors="replace").split("\n")[:-1])

    @property
    def axes(self) -> list[str]:
        """Of `features`: picture, then crop (of a random pool) or view (fixed), place (grid or regions), and feature."""
        return self.header["axes"]

    @property
    def broken(self) -> dict[str, str]:
        """The pictures that could not be read, and why; their rows are zero."""
        return self.header["broken"]

    @property
    def features(self) -> np.ndarray:
        return self.array("features")

    def array(self, name: str) -> np.ndarray:
        """The memory-mapped `features`, `boxes` or `lengths`."""
        return load_array(self.folder / f"{name}.npy")

    def check(
        self,
        *,
        encoder: ImageEncoder | None = None,
        spec: dict[str, Any] | None = None,
        view: ViewSettings | None = None,
        pictures: Sequence[Picture] | None = None,
    ) -> None:
        """Raises UserError, which says what changed, unless the store was made by this encoder (its settings `spec`,
        its weights), from this view, and from these pictures or more."""
        asked: dict[str, Any] = {}
        if spec is not None:
            asked["encoder"] = spec
        if encoder is not None:
            asked["weights"] = weights_fingerprint(encoder)
        if view is not None:
            asked["view"] = view.model_dump(mode="json")
        for name, was, now in differences(self.header, asked):
            raise other_features(self.folder, name, was, now)
        if pictures is not None:
            rows = self._rows(pictures)
            stored = self.array("identities")[rows]
            changed = [p.id for p, was in zip(pictures, stored) if p.path is not None and identity(p) != tuple(was)]
            if changed:
                raise UserError(
                    f"{_listed(changed)} changed since the features were extracted", file=self.folder, remedy=_REDO
                )

    def attach(self, pairs: Pairs, *, skip_broken: bool = False, keep_broken: bool = False) -> Pairs:
        """The same pairs with `features` and every picture's `row`.

        A picture that was broken at extraction is an error, or is left out with its captions (`skip_broken`), or stays
        with features of zero (`keep_broken`).
        """
        unreadable = [i for i, picture in enumerate(pairs.pictures) if picture.id in self.broken]
        if unreadable and not (skip_broken or keep_broken):
            raise UserError(
                f"{_listed([pairs.pictures[i].id for i in unreadable])} could not be read and has no features",
                file=self.folder,
                remedy="Mend the files and extract again, or leave these pictures out.",
            )
        if unreadable and skip_broken:
            pairs = pairs.take(sorted(set(range(len(pairs.pictures))) - set(unreadable)))
        pictures = [replace(picture, row=row) for picture, row in zip(pairs.pictures, self._rows(pairs.pictures))]
        lengths = self.array("lengths") if (self.folder / "lengths.npy").is_file() else None
        return replace(
            pairs,
            pictures=pictures,
            features=self.features,
            feature_crops="crop" in self.axes,
            feature_views="view" in self.axes,
            feature_lengths=lengths,
            feature_source={name: self.header[name] for name in ("encoder", "weights", "view")},
        )

    def _rows(self, pictures: Sequence[Picture]) -> list[int]:
        row = {id_: i for i, id_ in enumerate(self.ids)}
        missing = [picture.id for picture in pictures if picture.id not in row]
        if missing:
            raise UserError(f"{_listed(missing)} not in these features", file=self.folder, remedy=_REDO)
        return [row[picture.id] for picture in pictures]


def other_features(folder: Path, name: str, was: Any, now: Any) -> UserError:
    """The error of a store that was made with something else."""
    return UserError(f"these features were made with other {name}: {was}, not {now}", file=folder, remedy=_REDO)


def _listed(ids: list[str]) -> str:
    few = ", ".join(f"'{id_}'" for id_ in ids[:5])
    return f"{len(ids)} pictures ({few}{', …' if len(ids) > 5 else ''})" if len(ids) > 1 else f"picture {few}"
