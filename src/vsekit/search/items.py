"""What an index holds: items, and what comes back from it: hits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Kind = Literal["image", "caption"]
Value = str | int | float | bool
"""What metadata may hold; filters compare these."""
Place = tuple[str, str]
"""Where a picture stands among the newest: its `dated` ("" without one) and its id."""
#: What people say of a picture, as metadata that is true or not there. Indexing leaves it as it is.
MARKS = ("favourite", "hidden")


@dataclass(frozen=True)
class Item:
    """A picture or a caption in an index.

    id: unique in the index; safe in a URL. Of a picture in a folder: made from its path at first sight, kept when it is
        renamed. Of a caption: that of its picture, then "#" and its number.
    kind: what it is.
    path: where the picture lies: absolute, with "/". Captions have that of their picture ("" where there is none).
    text: the caption; "" for a picture.
    picture: the id of the picture a caption belongs to; its own id for a picture.
    width, height: of the upright picture, in pixels; 0 where unknown.
    content: fingerprint of the file's bytes, by which a renamed file is recognised; "" for captions.
    size, mtime_ns: of the file when it was read; a file with the same two is taken to be unchanged.
    meta: what filters ask about: EXIF (year, camera …), date, folder, name, the collection's columns, and `MARKS`.
    """

    id: str
    kind: Kind
    path: str = ""
    text: str = ""
    picture: str = ""
    width: int = 0
    height: int = 0
    content: str = ""
    size: int = 0
    mtime_ns: int = 0
    meta: Mapping[str, Value] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        dated = self.meta.get("dated", "")
        return dated if isinstance(dated, str) else "", self.id

    @property
    def marks(self) -> dict[str, Value]:
        return {name: self.meta[name] for name in MARKS if name in self.meta}


class Said(NamedTuple):
    """Words of a query that a hit holds, and where: "file name", "text in the picture" …"""

    where: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Hit:
    """An answer. score: of the store, higher is closer. standing: how it stands against the model's known negatives:
    the share of them, 0…1, that score lower (None without calibration). match: what that means in a word; at least likely
    where its words were asked for. said: the words it was found by."""

    item: Item
    score: float
    standing: float | None = None
    match: Literal["strong", "likely", "weak", "none"] | None = None
    said: tuple[Said, ...] = ()
