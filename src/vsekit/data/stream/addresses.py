"""The shards that an address with ranges names, in their order, without asking the place they are at.

shards/train-{0000..0127}.tar      ranges, with as many digits as the first number has
s3://bucket/{en,de}/{000..999}.tar  alternatives; several braces give every combination
shards/train-*.tar                 patterns, on disk alone: a server would have to be asked for a list
"""

from __future__ import annotations

import glob
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from vsekit.errors import UserError

#: More shards than any collection has: a slip of the hand, not a collection.
MOST_SHARDS = 1_000_000
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def names_stream(data: str | Path) -> bool:
    """Whether `data` names shards to be streamed: an address, or a pattern that is no file or folder by itself.

    >>> names_stream("s3://bucket/train-0001.tar"), names_stream("train-{00..31}.tar"), names_stream("catalogue.csv")
    (True, True, False)
    """
    text = str(data)
    return "://" in text or (bool(_BRACES.search(text) or glob.has_magic(text)) and not Path(text).exists())


def shards(data: str) -> list[str]:
    """The addresses of all shards. UserError where there is none, or one is named twice."""
    found: list[str] = []
    for address in itertools.islice(_expanded(data), MOST_SHARDS + 1):
        found += _on_disk(address) if glob.has_magic(address) else [address]
    if len(found) > MOST_SHARDS:
        raise UserError(f"this names more than {MOST_SHARDS:,} shards", field=data, remedy="Is a digit too many in it?")
    twice = next((one for one, after in itertools.pairwise(sorted(found)) if one == after), None)
    if twice:
        raise UserError(f"the shard {twice} is named twice", field=data, remedy="Name every shard once.")
    return found


def _expanded(text: str) -> Iterator[str]:
    """
    >>> list(_expanded("{a,b}-{08..10}.tar"))
    ['a-08.tar', 'a-09.tar', 'a-10.tar', 'b-08.tar', 'b-09.tar', 'b-10.tar']
    """
    brace = _BRACES.search(text)
    if brace is None:
        yield text
        return
    for choice in _choices(brace[1], text):
        for rest in _expanded(text[brace.end() :]):
            yield text[: brace.start()] + choice + rest


def _choices(inside: str, text: str) -> Iterator[str]:
    numbers = _RANGE.fullmatch(inside)
    if numbers is None and "," in inside:
        yield from inside.split(",")
        return
    if numbers is None or int(numbers[1]) > int(numbers[2]):
        raise UserError(
            f"can't read the range {{{inside}}}", field=text, remedy="Write {0000..0127}, or {a,b} for alternatives."
        )
    for number in range(int(numbers[1]), int(numbers[2]) + 1):
        yield f"{number:0{len(numbers[1])}}"


def _on_disk(pattern: str) -> list[str]:
    if "://" in pattern:
        raise UserError(
            "patterns are for shards on disk: elsewhere the collection would have to be listed first",
            field=pattern,
            remedy="Name the shards by a range: {0000..0127}.",
        )
    found = sorted(glob.glob(str(Path(pattern).expanduser()), recursive=True))
    if not found:
        raise UserError("no file on disk fits this pattern", field=pattern)
    return found
