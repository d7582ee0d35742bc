"""Moving copies to the trash, from where they can be brought back; the index follows.

Whatever a group says, a file goes only when it is a file of its own, nobody's favourite and not part of a collection, when its
bytes are those that were indexed, and when so are those of the one that is kept: read anew, for each, at that moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from vsekit.data.decoding import PictureError
from vsekit.errors import missing_extra
from vsekit.files import fingerprint
from vsekit.progress import QUIET, Progress
from vsekit.search.duplicates import Group
from vsekit.search.items import Item
from vsekit.search.pictures import read_bytes
from vsekit.search.stores.base import Store


@dataclass
class Trashed:
    """moved: what lies in the trash. left: what was to go and did not, by path, with the reason."""

    moved: list[Item] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(item.size for item in self.moved)


def trash_copies(
    store: Store,
    groups: Sequence[Group],
    *,
    progress: Progress = QUIET,
    send: Callable[[str], object] | None = None,
) -> Trashed:
    """Moves the copies of each group of copies to the trash, but for the best, and takes them out of the index.

    Args:
        groups: of `vsekit.search.duplicates.find_duplicates`; those of other kinds are passed over.
        send: moves a file to the trash; by default that of the system.
    """
    send = send or _system_trash()
    store.lock()
    done = Trashed()
    copies = [group for group in groups if group.kind == "copies"]
    try:
        with progress.bar("Trash", "groups") as bar:
            for number, group in enumerate(copies, start=1):
                for item, _ in group.others:
                    reason = _spared(item, group.keep)
                    if reason is None:
                        try:
                            send(os.path.normpath(item.path))
                            done.moved.append(item)
                        except OSError as error:
                            reason = f"can't be moved to the trash: {error.strerror or error}"
                    if reason is not None:
                        done.left[item.path] = reason
                bar(number, len(copies))
    finally:
        _forget(store, done.moved)
    return done


def _spared(item: Item, keep: Item) -> str | None:
    """Why a copy stays; None where it may go."""
    if item.id == keep.id or item.meta.get("favourite") is True:
        return "a favourite"
    if "collection" in item.meta:
        return "part of a collection"
    if not os.path.isfile(item.path):
        return "no file of its own, or gone"
    if os.path.islink(item.path):
        return "a link"
    if not _as_indexed(keep):
        return f"the one to keep has changed since it was indexed: {keep.path}"
    if os.path.samefile(item.path, keep.path):
        return f"the same file as {keep.path}"
    return None if _as_indexed(item) else "changed since it was indexed"


def _as_indexed(item: Item) -> bool:
    try:
        return fingerprint(read_bytes(item.path)) == item.content
    except (OSError, PictureError):
        return False


def _forget(store: Store, items: Sequence[Item]) -> None:
    """With their captions."""
    gone = {item.id for item in items}
    captions = (
        [one.id for one in store.all_items("caption") if one.picture in gone] if gone and store.count("caption") else []
    )
    if gone:
        store.write([], np.zeros((0, store.dim), np.float32), [*gone, *captions])


def _system_trash() -> Callable[[str], object]:
    try:
        from send2trash import send2trash
    except ModuleNotFoundError:
        raise missing_extra("send2trash", "photos") from None
    return send2trash
