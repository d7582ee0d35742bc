"""Errors written for the person who made the mistake: what is wrong, where, and what would be right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class UserError(Exception):
    """Bad input. The command line prints it without a traceback and exits with code 2.

    Args:
        what: the mistake, in one sentence, with the offending value.
        file: the file it stands in.
        line: the line in that file, counted from 1.
        field: the field, column or setting.
        remedy: what would be right, or the command that mends it.
    """

    def __init__(
        self,
        what: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        field: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.what, self.file, self.line, self.field, self.remedy = what, file, line, field, remedy
        where = f"{file}" if file is not None else ""
        if line is not None:
            where += f":{line}" if where else f"line {line}"
        if field is not None:
            where += f" [{field}]" if where else f"{field}"
        text = f"{where}: {what}" if where else what
        super().__init__(f"{text}\n  {remedy}" if remedy else text)

    def __reduce__(self) -> Any:
        """So that it is the same error in the process it is sent to, whatever a subclass is made of."""
        return _made_again, (type(self), self.args, self.__dict__)


def _made_again(kind: type[UserError], args: tuple[Any, ...], fields: dict[str, Any]) -> UserError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


def missing_extra(package: str, extra: str) -> UserError:
    """The error for an optional dependency that is not installed."""
    return UserError(
        f"this needs the package '{package}', which is not installed",
        remedy=f"Install it with: pip install 'vsekit[{extra}]'",
    )


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint to be put after a name that is not among `names`; nothing where none is like it.

    >>> nearest("optimizer", ["epochs", "optimiser"]), nearest("x", ["epochs"])
    ("; did you mean 'optimiser'?", '')
    """
    near = difflib.get_close_matches(name, [str(one) for one in names], n=1)
    return f"; did you mean '{near[0]}'?" if near else ""
