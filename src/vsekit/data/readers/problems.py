"""What is wrong with a collection, and where: raised at the first error, or gathered to be listed all at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from vsekit.errors import UserError

Severity = Literal["error", "warning", "info"]


class Place(NamedTuple):
    """Where something stands: a line counted from 1 (text, CSV, JSONL) or a path of keys as `field` (JSON)."""

    file: Path | str | None
    line: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        return f"{self.file}" + (f":{self.line}" if self.line else "") + (f" [{self.field}]" if self.field else "")


@dataclass(frozen=True)
class Problem:
    kind: str
    what: str
    at: Place
    remedy: str | None = None
    severity: Severity = "error"

    def error(self) -> UserError:
        remedy = f"{self.remedy or ''} All problems at once: vse data check".strip()
        return UserError(self.what, **self.at._asdict(), remedy=remedy)

    def to_dict(self) -> dict[str, Any]:
        return {
            "severity": self.severity,
            "kind": self.kind,
            "what": self.what,
            "file": str(self.at.file),
            "line": self.at.line,
            "field": self.at.field,
            "remedy": self.remedy,
        }


class Problems(list[Problem]):
    """Where readers report to.

    Args:
        strict: raise the first error as a `UserError`; otherwise gather everything.

    It also keeps where each picture and caption was read (in the order of `Pairs.pictures` and `.captions`), so that
    what only shows later, such as a missing file, can still be told with its line; and which pictures named no split.
    """

    def __init__(self, *, strict: bool = True) -> None:
        super().__init__()
        self.strict = strict
        self.picture_places: list[Place] = []
        self.caption_places: list[Place] = []
        self.without_split: set[int] = set()

    def add(self, kind: str, what: str, at: Place, *, remedy: str | None = None, severity: Severity = "error") -> None:
        problem = Problem(kind, what, at, remedy, severity)
        if self.strict and severity == "error":
            raise problem.error()
        self.append(problem)

    @contextmanager
    def catching(self, kind: str = "unreadable") -> Iterator[None]:
        """A `UserError` in the block is one more problem, so that the rest of the collection is still read."""
        try:
            yield
        except UserError as error:
            if self.strict:
                raise
            self.add(kind, error.what, Place(error.file, error.line, error.field), remedy=error.remedy)
