"""What of a stream can't be used: counted, named by shard and member, and listed in the run's skipped.csv."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vsekit.data.clean import SKIPPED, Clean, SetAside, read_skipped
from vsekit.data.pairs import Pairs
from vsekit.data.readers.problems import Place, Problem
from vsekit.errors import UserError

#: So many problems, and more of them than pairs: the shards are misread rather than dirty.
MISREAD = 500


class LeftOut:
    """Problems, each once, in the sequence they were met.

    Args:
        strict: the first is an error.
        before: what was set aside before the stream began.
    """

    def __init__(self, *, strict: bool, before: Iterable[SetAside] = ()) -> None:
        self.strict = strict
        self.before = list(before)
        self.items: dict[tuple[Any, ...], SetAside] = {}
        self._new: list[Problem] = []
        self._written = 0

    def __call__(self, problem: Problem) -> None:
        """Takes note of a problem; it may be told again."""
        if self.strict:
            raise UserError(problem.what, **problem.at._asdict(), remedy="Mend it, or leave out --strict.")
        if self._add(problem):
            self._new.append(problem)

    def _add(self, problem: Problem) -> bool:
        name = str(problem.at.file), problem.at.field, problem.kind
        return self.items.setdefault(name, item := SetAside(problem, "left out")) is item

    def news(self) -> list[dict[str, Any]]:
        """What was not told to other processes yet, as JSON."""
        new, self._new = self._new, []
        return [asdict(problem) for problem in new]

    def heard(self, news: Iterable[dict[str, Any]]) -> None:
        """What other processes told."""
        for one in news:
            self._add(Problem(**{**one, "at": Place(*one["at"])}))

    def read(self, folder: Path) -> None:
        """Of a run that goes on: what it has listed."""
        for item in read_skipped(folder):
            self._add(item.problem)
        for item in self.before:
            self.items.pop((str(item.problem.at.file), item.problem.at.field, item.problem.kind), None)

    def write(self, folder: Path) -> None:
        """Writes skipped.csv where there is something new to be listed."""
        everything = [*self.before, *self.items.values()]
        if len(everything) > self._written:
            Clean(Pairs([], [], folder), everything).write(folder)
            self._written = len(everything)

    def check(self, pairs: int) -> None:
        """UserError where more was left out than read: so many pairs."""
        if len(self.items) >= MISREAD and len(self.items) > pairs:
            raise self.error(f"{len(self.items)} samples can't be used, and only {pairs} pairs can")

    def error(self, what: str) -> UserError:
        first = next(iter(self.items.values()), None)
        example = f"The first: {first.problem.at}: {first.problem.what}. " if first else ""
        return UserError(
            f"{what}: these shards are misread rather than dirty",
            remedy=f"{example}A sample is key.jpg beside key.txt or key.json, one after the other in the tar file.",
        )

    def lines(self) -> list[str]:
        """For people: how many there were of each kind."""
        kinds = Counter(item.problem.kind for item in self.items.values())
        counts = ", ".join(f"{count} × {kind}" for kind, count in kinds.most_common())
        return [f"{len(self.items)} left out of the stream: {counts}. They are listed in {SKIPPED}."] if kinds else []
