"""The writer's lock of the embedded store: one process writes to a folder, from its first look to its last write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO

from vsekit import system
from vsekit.errors import UserError
from vsekit.search.stores.base import WritingError


class WriterLock:
    """The system lets go of it when its process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "writer.lock"
        self._held: TextIO | None = None

    @property
    def held(self) -> bool:
        return self._held is not None

    def take(self) -> None:
        try:
            lock = self.path.open("a+", encoding="ascii")
        except OSError as error:
            raise UserError(
                f"this index can't be written: {error.strerror}", file=self.path, remedy="Is the folder yours?"
            ) from None
        try:
            system.lock(lock)
        except OSError:
            lock.seek(0)
            owner = lock.read().strip() or "?"
            lock.close()
            raise WritingError(
                f"another process (number {owner}) is writing to this index",
                file=self.folder,
                remedy="Wait until it has finished; searching goes on meanwhile.",
            ) from None
        self._held = lock
        try:
            os.truncate(lock.fileno(), 0)
            os.write(lock.fileno(), b"%d\n" % os.getpid())
        except OSError as error:
            self.release()
            remedy = "Make room and try again; what was written before is whole."
            raise UserError(f"this index can't be written: {error.strerror}", file=self.path, remedy=remedy) from None

    def check(self) -> None:
        """Refuses when the folder under the lock is another one by now: files are written to by name."""
        assert self._held is not None
        try:
            same = os.path.samestat(os.fstat(self._held.fileno()), self.path.stat())
        except FileNotFoundError:
            same = False
        if not same:
            raise UserError(
                "this index was removed while it was being written", file=self.folder, remedy="Index again."
            )

    def release(self) -> None:
        if self._held is not None:
            system.unlock(self._held)
            self._held.close()
            self._held = None
