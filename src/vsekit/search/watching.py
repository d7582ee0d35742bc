"""An index that stays current: folders and collections are watched, and what changes in them is taken in within seconds.

    notice ──► look ──► look again, until nothing moves ──► index what is steady ──► wait

A look lists what is there, as `vse index` does: everything at first and now and then, else only the folders of what notices
name. So all its rules hold here: a moved picture is recognised by its bytes, a
drive that is gone is no deletion. Only what two looks, `STILL_SECONDS` apart, saw alike is taken: a picture that is being
written, or a folder in the middle of its move, waits. Where a whole folder went, but was *seen* to be deleted, its pictures
leave the index. Between two runs the index is closed, so that others may write to it; who does so is waited for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

from vsekit.errors import UserError
from vsekit.progress import QUIET, Progress
from vsekit.search.base import SearchModel
from vsekit.search.book import Report
from vsekit.search.filters import Has
from vsekit.search.indexing import index
from vsekit.search.notices import Notices
from vsekit.search.stores.base import Store, UnreachableError, WritingError
from vsekit.search.walk import Seen, Source, again, relisted, source_of

STILL_SECONDS = 1.0
#: Without a notice: seconds between two looks, at least, and as many times as long as a look takes.
SELDOM = (30.0, 100)
#: The same where the system gives no notices.
OFTEN = (5.0, 20)
#: Until the next try, where another process writes, or a database is away.
RETRY_SECONDS = 5.0


class Followed:
    """A source at one look after another.

    now: as it is, but for what moves; None until the second look, and while it is away. taken: its pictures as the index
    took them last.
    """

    def __init__(self, source: Source, say: Callable[[str], object]) -> None:
        self.source, self._say = source, say
        self.now: Source | None = None
        self.taken: dict[str, Seen] | None = None
        self._before: dict[str, Seen] | None = None
        self._last: Source | None = None  # what the look before saw, once two have looked at everything
        self._moving: frozenset[str] = frozenset()
        self._trouble = ""

    @property
    def moves(self) -> bool:
        return not self._trouble and (self.now is None or bool(self.now.moving))

    @property
    def news(self) -> bool:
        """Whether the index is to take something."""
        if self.now is None or self.taken is None:
            return self.now is not None
        still = {path: seen for path, seen in self.taken.items() if path not in self.now.moving}
        return still != _by_path(self.now)

    def look(self, deleted: set[str], changed: set[str] | None = None) -> None:
        """deleted: see `Notices`. changed: all that changed since the last look, where that is known."""
        before, self._before, self.now = self._before, None, None
        last, self._last = self._last, None
        try:
            now = self._partly(last, changed) or again(self.source)
        except (UserError, OSError) as error:
            if str(error) != self._trouble:
                self._say(f"{error}\n  What the index holds of it is kept.")
            self._trouble = str(error)
            return
        self._trouble, self._before = "", _by_path(now)
        if before is None:
            return
        moving = {
            path
            for path in {*before, *self._before}
            if (old := before.get(path)) is not (new := self._before.get(path)) and old != new
        }
        self._last, self._moving = now, frozenset(moving)
        gone = [path for path in self.taken or () if path not in self._before and path not in moving]
        self.now = replace(
            now,
            pictures=[picture for picture in now.pictures if picture.path not in moving],
            moving=frozenset(moving),
            deleted=frozenset(path for path in gone if _within(path, deleted)),
        )

    def _partly(self, last: Source | None, changed: set[str] | None) -> Source | None:
        """The folders of what changed, and of what moved at the last look, listed anew; None where all must be."""
        if last is None or changed is None:
            return None
        here = {path for path in changed if path.startswith(f"{last.root}/")}
        return relisted(last, {path.rpartition("/")[0] for path in {*here, *self._moving}})

    def take(self) -> None:
        """The index has taken what is there now."""
        if self.now is not None:
            moving = {path: seen for path, seen in (self.taken or {}).items() if path in self.now.moving}
            self.taken = {**moving, **_by_path(self.now)}


def _by_path(source: Source) -> dict[str, Seen]:
    return {picture.path: picture for picture in source.pictures}


def _within(path: str, deleted: set[str]) -> bool:
    """Whether a path or a folder above it was deleted."""
    while path not in deleted and path.rpartition("/")[0]:
        path = path.rpartition("/")[0]
    return path in deleted


def watch(
    model: SearchModel,
    sources: Sequence[Source],
    place: str | Path,
    *,
    stop: Event | None = None,
    more: Callable[[], Sequence[Source]] = tuple,
    rebuild: bool = False,
    forget: bool = False,
    export: bool = False,
    dtype: str | None = None,
    progress: Progress = QUIET,
) -> Iterator[Report]:
    """Brings the index at `place` up to date and keeps it so; a report of each time something was done, the first always.

    >>> for report in watch(load_search_model("starter"), [source_of("photos")], "photos.index"):  # doctest: +SKIP
    ...     print(report.added, report.removed)

    Args:
        sources: what `vsekit.search.walk.source_of` gave.
        stop: ends it when set, as Ctrl-C does. Either may come at any moment: what was indexed is kept.
        more: asked now and then for further sources.
        rebuild, forget, export, dtype: of the first time, see `vsekit.search.indexing.index`.
    """
    stop = stop or Event()
    followed = [Followed(source, progress.say) for source in sources]
    options: dict[str, Any] = {"rebuild": rebuild, "forget": forget, "export": export, "dtype": dtype}
    notices = _notices(followed, place, progress)
    looked = due = all_due = 0.0  # the last look, the next one, the next one at everything
    trouble = ""
    try:
        while not stop.is_set():
            if added := more():
                followed += [Followed(source, progress.say) for source in added]
                notices.close()
                notices, due, all_due = _notices(followed, place, progress), 0.0, 0.0
            if notices.any():
                due = min(due, looked + STILL_SECONDS)
            if time.monotonic() < due:
                continue
            looked = time.monotonic()
            whole = looked >= all_due or notices.vague
            for one in followed:
                one.look(notices.deleted, None if whole else notices.changed)
            notices.forget()
            cost = time.monotonic() - looked
            if whole:
                least, times = SELDOM if notices.watches else OFTEN
                all_due = looked + cost + max(least, times * cost)
            if any(one.news for one in followed):
                try:
                    report = index(model, [one.now for one in followed if one.now], place, **options, progress=progress)
                except (WritingError, UnreachableError) as error:
                    if str(error) != trouble:
                        progress.say(f"{error}\n  Tried again every {RETRY_SECONDS:.0f} seconds.")
                    trouble, due = str(error), time.monotonic() + RETRY_SECONDS
                    continue
                for one in followed:
                    one.take()
                options, trouble = {}, ""
                yield report
            moves = any(one.moves for one in followed)
            if not moves:
                notices.deleted.clear()
            due = time.monotonic() + max(STILL_SECONDS, cost) if moves else max(all_due, time.monotonic())
    finally:
        notices.close()


def remembered(store: Store) -> list[Source]:
    """What an index was made of, to be watched; also what is not there now. UserError where the index does not know."""
    header = store.header
    known: dict[str, dict[str, Any]] = header.get("sources", {})
    if not known and header.get("roots"):  # of an earlier version, which did not write this down
        if store.count("image", Has("collection")):
            remedy = "Run vse index once more on the same folders and collections."
            raise UserError("this index does not know what it was made of", file=store.location, remedy=remedy)
        known = {root: {"path": root, "format": "photos"} for root in header["roots"]}
    found = []
    for root, how in known.items():
        try:
            found.append(source_of(**how))
        except UserError:  # it may come back
            folder = how.get("format") == "photos"
            found.append(Source(root, None if folder else "", [root] if folder else [], how=how))
    return found


def _notices(followed: Sequence[Followed], place: str | Path, progress: Progress) -> Notices:
    sources = [one.source for one in followed]
    folders = {folder for source in sources for folder in source.folders}
    files = {source.root for source in sources if source.collection is not None and os.path.isfile(source.root)}
    return Notices(sorted(folders), sorted(files), None if "://" in str(place) else str(place), progress.say)
