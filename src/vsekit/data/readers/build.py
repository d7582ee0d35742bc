"""From what a reader found to `Pairs`: where the image files are, and whether each entry is sound."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.data.readers.base import Options, hash_split, shown, split_name
from vsekit.data.readers.problems import Place, Problems

#: Folders in which collections keep their pictures, beside the annotations.
IMAGE_FOLDERS = (
    "",
    "images",
    "Images",
    "imgs",
    "Flicker8k_Dataset",
    "Flickr8k_Dataset",
    "flickr8k_images",
    "flickr30k-images",
    "flickr30k_images",
    "train2014",
    "val2014",
)


class Images:
    """Finds the folder that picture names are relative to, with one look at the disk per subfolder, not per picture.

    Args:
        beside: the annotations, or the folder they are in; pictures are looked for here, then one folder up.
    """

    def __init__(self, beside: Path, options: Options, problems: Problems) -> None:
        near = beside if beside.is_dir() else beside.parent
        usual = [base / folder for base in (near, near.parent) for folder in IMAGE_FOLDERS]
        self._bases = [options.images] if options.images else usual
        self._found: dict[str, Path] = {}
        self._missing: set[str] = set()
        self._problems = problems

    def __call__(self, name: str, at: Place, subfolder: str = "") -> Path:
        folder = self._found.get(subfolder)
        if folder is None:
            folders = [base / s for base in self._bases for s in dict.fromkeys((subfolder, ""))]
            folder = next((f for f in folders if os.path.isfile(f / name)), None)
            if folder is None:
                if name not in self._missing:
                    report_missing(self._problems, name, at, [f for f in dict.fromkeys(folders) if f.is_dir()])
                self._missing.add(name)
                return folders[0] / name
            self._found[subfolder] = folder
        return folder / name


def report_missing(problems: Problems, name: str, at: Place, looked: Iterable[Path]) -> None:
    places = ", ".join(str(folder) for folder in looked)
    problems.add(
        "missing-image",
        f"the picture '{name}' is not there",
        at,
        remedy=f"Looked in {places}. Put it there, or name the folder with --images." if places else "Put it there.",
    )


class Builder:
    """Gathers pictures and captions into `Pairs`, and reports what is wrong with each where it stands."""

    def __init__(self, root: Path, options: Options, problems: Problems) -> None:
        self._root, self._restval, self._problems = root, options.restval, problems
        self._pictures: list[Picture] = []
        self._captions: list[Caption] = []
        self._index: dict[str, int] = {}
        self._hashed: set[str] = set()

    def picture(
        self,
        id: str,
        path: Path | None,
        at: Place,
        *,
        split: str | None,
        group: str | None = None,
        again: bool = False,
        **more: Any,
    ) -> int:
        """Adds a picture and returns its index. Without a split it gets one by `hash_split` of its group.

        again: the picture may have been added before; then only its split and group must be the same.
        """
        group = id if group is None else group
        if split is None:
            self._hashed.add(id)
            split = hash_split(group)
        split = "train" if self._restval and split == "restval" else split_name(split)
        picture = Picture(id, path, split, group, **more)
        index = self._index.setdefault(id, len(self._pictures))
        if index == len(self._pictures):
            self._pictures.append(picture)
            self._problems.picture_places.append(at)
        else:
            self._repeated(picture, self._pictures[index], at, again)
        return index

    def _repeated(self, picture: Picture, first: Picture, at: Place, again: bool) -> None:
        where = self._problems.picture_places[self._index[picture.id]]
        if not again:
            what = f"the picture '{picture.id}' is there twice, first in {where}"
            self._problems.add("duplicate-picture", what, at, remedy="Remove one.")
        for role, here, there in (("split", picture.split, first.split), ("group", picture.group, first.group)):
            if again and here != there:
                what = f"the picture '{picture.id}' has the {role} '{here}' here and '{there}' in {where}"
                self._problems.add("conflict", what, at, remedy=f"Give a picture the same {role} everywhere.")

    def caption(self, text: Any, picture: int, at: Place, meta: dict[str, Any] | None = None) -> None:
        words = text.strip() if isinstance(text, str) else ""
        if not words:
            empty = text is None or isinstance(text, str)
            self._problems.add(
                "empty-caption" if empty else "bad-field",
                "the caption is empty" if empty else f"the caption is {shown(text)}",
                at,
                remedy="Write a text, or leave it out.",
            )
        elif words.startswith(("b'", 'b"')) and words.endswith(words[1]):
            self._problems.add(
                "bytes-caption",
                f"the caption is the Python literal {words[:40]}, bytes that were printed instead of decoded",
                at,
                remedy="Write the file again from text: line.decode('utf-8') instead of str(line).",
            )
        self._captions.append(Caption(words, picture, meta or {}))
        self._problems.caption_places.append(at)

    def pairs(self, features: Any = None) -> Pairs:
        captioned = np.zeros(len(self._pictures), dtype=bool)
        captioned[[c.picture for c in self._captions]] = True
        for i in np.flatnonzero(~captioned):
            self._problems.add(
                "no-caption",
                f"the picture '{self._pictures[i].id}' has no caption",
                self._problems.picture_places[i],
                remedy="Write one, or leave the picture out.",
            )
        if not self._pictures and not self._problems:
            self._problems.add("empty", "there are no pictures in this collection", Place(self._root))
        if self._hashed:
            self._problems.without_split.update(self._index[id] for id in self._hashed)
            self._problems.add(
                "hash-split",
                f"{len(self._hashed)} pictures name no split; a hash of their group gave train, val, test (80/10/10)",
                Place(self._root),
                severity="info",
            )
        return Pairs(self._pictures, self._captions, self._root, features)
