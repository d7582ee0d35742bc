"""Progress of long work, on stderr: live bars in a terminal, a line every few seconds in a log, nothing when quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Called with (done, total) as work goes on; what functions that take `progress=` expect.
Update = Callable[[int, int], None]

LOG_SECONDS = 15.0


class Bar:
    """One piece of work. `update` says how much is done in all, of how much if that is known, and what to show beside it."""

    def __init__(self, show: Callable[[int, int | None, str], None]) -> None:
        self._show = show

    def update(self, done: int, total: int | None, note: str = "") -> None:
        self._show(done, total, note)

    def __call__(self, done: int, total: int) -> None:
        self.update(done, total)


class Progress:
    """Makes bars. `quiet` shows nothing (Python users' default)."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    def say(self, text: str) -> None:
        """A line of its own."""
        if not self.quiet:
            from rich.console import Console

            Console(stderr=True, highlight=False).print(text, markup=False, soft_wrap=True)

    @contextmanager
    def bar(self, name: str, unit: str = "") -> Iterator[Bar]:
        if self.quiet:
            yield Bar(lambda done, total, note: None)
        elif sys.stderr.isatty():
            yield from self._live(name, unit)
        else:
            yield from self._lines(name, unit)

    def _live(self, name: str, unit: str) -> Iterator[Bar]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Rich

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[note]}"),
        )
        with Rich(*columns, console=Console(stderr=True)) as rich:
            task = rich.add_task(name, total=None, note="")
            yield Bar(lambda done, total, note: rich.update(task, completed=done, total=total, note=note))

    def _lines(self, name: str, unit: str) -> Iterator[Bar]:
        start = last = time.monotonic()

        def show(done: int, total: int | None, note: str) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last < LOG_SECONDS or not done:
                return
            last = now
            of = f"/{total}" if total else ""
            left = f" ({(now - start) / done * (total - done):.0f} s left)" if total else ""
            print(f"{name}: {done}{of} {unit} {note}{left}".replace("  ", " "), file=sys.stderr, flush=True)

        yield Bar(show)


QUIET = Progress(quiet=True)

_said: set[str] = set()


def say_once(text: str) -> None:
    """A line on stderr, the first time this process says it; for what a person must know, quiet or not."""
    if text not in _said:
        _said.add(text)
        print(text, file=sys.stderr, flush=True)
