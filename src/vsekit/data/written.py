"""A collection written as a table: OUT/collection.csv, which every command reads with --data.

    image,caption,split,group,camera
    ../photos/1.jpg,A dog runs.,train,1.jpg,Leica

Pictures stay where they are and are named relative to the table; those inside archives are written to OUT/images.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

from vsekit.data.pairs import Pairs, Picture
from vsekit.errors import UserError
from vsekit.files import atomic_path

ROLES = ("image", "caption", "split", "group")


def write_collection(pairs: Pairs, out: Path) -> Path:
    """Writes the table and returns its path. Raises UserError for a collection of features, which has no pictures to name."""
    if any(picture.path is None for picture in pairs.pictures):
        raise UserError(
            "this collection holds features and no pictures, so a table can't name them",
            file=pairs.root,
            remedy="Clean the collection that the features were made of.",
        )
    out.mkdir(parents=True, exist_ok=True)
    names = [_name(picture, out) for picture in pairs.pictures]
    items = [*(picture.meta for picture in pairs.pictures), *(caption.meta for caption in pairs.captions)]
    more = list(dict.fromkeys(key for meta in items for key in meta if key not in ROLES))
    with atomic_path(out / "collection.csv") as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*ROLES, *more])
        for caption in pairs.captions:
            picture = pairs.pictures[caption.picture]
            meta = {**picture.meta, **caption.meta}
            row = [names[caption.picture], caption.text, picture.split, picture.group]
            writer.writerow([*row, *(meta.get(key, "") for key in more)])
    return out / "collection.csv"


def _name(picture: Picture, out: Path) -> str:
    assert picture.path is not None
    if picture.offset is not None:
        target = out / "images" / picture.id
        with atomic_path(target) as temporary:
            temporary.write_bytes(picture.read())
        return target.relative_to(out).as_posix()
    try:
        return Path(os.path.relpath(picture.path.resolve(), out.resolve())).as_posix()
    except ValueError:  # on another drive of Windows
        return picture.path.resolve().as_posix()
