"""What the system says of changes below folders, so that nothing need be looked at until something happens.

Systems differ in what they tell, and some tell nothing: of network drives, or when they watch as many folders as they will.
So a notice only says *look*; who looks now and then without one misses nothing, and is told when that is all there is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from vsekit.errors import missing_extra

if TYPE_CHECKING:
    from watchfiles import Change

#: Milliseconds: of a burst of changes that are told as one, of quiet that ends it, and of one wait.
BURST, QUIET, WAIT = 400, 50, 500


class Notices:
    """Of changes below `folders`, and of `files`. Folders that are not there now count from when they are.

    Args:
        ignored: a folder whose changes mean nothing: the index.
        say: told, once, why the system can't watch.

    deleted: what was seen to be deleted or moved away; whoever looks empties it. A drive that is taken away deletes nothing.
    changed: all that was told of, those too. vague: whether something else may have changed. `forget` empties both.
    """

    def __init__(
        self, folders: Sequence[str], files: Sequence[str], ignored: str | None, say: Callable[[str], object]
    ) -> None:
        try:
            import watchfiles  # noqa: F401
        except ModuleNotFoundError:
            raise missing_extra("watchfiles", "photos") from None
        self.folders, self.files, self.say = list(folders), list(files), say
        self.ignored = None if ignored is None else os.path.join(os.path.abspath(ignored), "")
        self.deleted: set[str] = set()
        self.changed: set[str] = set()
        self.vague = False
        self.watches = True
        self._changes: Iterator[set[tuple[Change, str]]] | None = None
        self._places: list[object] = []
        self._start()

    def any(self) -> bool:
        """Whether something changed; waits for it, half a second at most."""
        if self._identities() != self._places:  # a file was written, or a drive mounted
            self._start()
            self.vague = True
            return True
        if self._changes is None:
            time.sleep(WAIT / 1e3)
            return False
        try:
            found = {(change, path) for change, path in next(self._changes) if self._matters(path)}
        except (OSError, RuntimeError) as error:
            self._stop(error)
            self.vague = True
            return True
        self.deleted |= {path.replace(os.sep, "/") for change, path in found if change.name == "deleted"}
        self.changed |= {path.replace(os.sep, "/") for _, path in found}
        return bool(found)

    def forget(self) -> None:
        """What changed was looked at."""
        self.changed.clear()
        self.vague = False

    def close(self) -> None:
        if self._changes is not None:
            self._changes.close()  # type: ignore[attr-defined]
            self._changes = None

    def _start(self) -> None:
        """Changes are gathered from now on, also while nobody asks for them."""
        from watchfiles import watch

        self.close()
        self._places = self._identities()
        there = [folder for folder in self.folders if os.path.isdir(folder)]
        if not (there and self.watches):
            return
        timing = {"debounce": BURST, "step": QUIET, "rust_timeout": WAIT, "yield_on_timeout": True}
        self._changes = watch(*there, watch_filter=None, ignore_permission_denied=True, **timing)  # type: ignore[arg-type]
        try:
            next(self._changes)
        except (OSError, RuntimeError) as error:
            self._stop(error)

    def _stop(self, error: Exception) -> None:
        self.close()
        if all(map(os.path.isdir, self.folders)):
            self.watches = False
            self.say(
                f"This system can't watch the folders ({error}). They are looked through every few seconds instead; on Linux, "
                "a larger fs.inotify.max_user_watches or max_user_instances lets it."
            )

    def _identities(self) -> list[object]:
        found: list[object] = []
        for path in self.folders + self.files:
            try:
                status = os.stat(path)
            except OSError:
                found.append(None)
            else:
                written = (status.st_size, status.st_mtime_ns) if path in self.files else ()
                found.append((status.st_dev, status.st_ino, *written))
        return found

    def _matters(self, path: str) -> bool:
        """Names with a dot are not walked, see `vsekit.search.walk`."""
        if self.ignored is not None and (path + os.sep).startswith(self.ignored):
            return False
        folder = next((folder for folder in self.folders if path.startswith(folder)), "")
        return not any(part.startswith(".") for part in path[len(folder) :].split(os.sep))
