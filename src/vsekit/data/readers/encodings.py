"""Text whose bytes are not all UTF-8: what they are instead.

ISO 8859-1 (latin1) has invisible control characters at 0x80 … 0x9f, where Windows' cp1252 has “quotes”, dashes and the euro
sign. Nobody writes the former into a caption, so a byte there is cp1252, unless it is one of the five that cp1252 leaves
undefined; all others mean the same in both. One line may hold UTF-8 and such bytes, as files joined from several sources do.
"""

from __future__ import annotations

import codecs
from typing import NamedTuple

_UNDEFINED = frozenset(b"\x81\x8d\x8f\x90\x9d")


class Foreign(NamedTuple):
    """A line that is not UTF-8. line: from 1. byte: the first that is not. encoding: what it was read as."""

    line: int
    byte: int
    encoding: str


def encoding_of(data: bytes) -> str:
    """cp1252 or latin1, of bytes that are not UTF-8.

    >>> encoding_of("Straße".encode("latin1")), encoding_of("“a dog”".encode("cp1252"))
    ('latin1', 'cp1252')
    """
    high = {byte for byte in data if 0x80 <= byte <= 0x9F}
    return "cp1252" if high and not high & _UNDEFINED else "latin1"


def decoded(data: bytes) -> tuple[str, list[Foreign]]:
    """The text of a file, and its lines that are not UTF-8, read as what they are."""
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        pass
    lines, foreign = [], []
    for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
        try:
            lines.append(line.decode())
        except UnicodeDecodeError as error:
            wrong = b"".join(_wrong_bytes(line))
            foreign.append(Foreign(number, line[error.start], encoding_of(wrong)))
            lines.append(_mixed(line, encoding_of(wrong)))
    return "\n".join(lines), foreign


def _wrong_bytes(line: bytes) -> list[bytes]:
    """The runs of bytes that are not UTF-8."""
    wrong = []
    while line:
        try:
            line.decode()
            break
        except UnicodeDecodeError as error:
            wrong.append(line[error.start : error.end])
            line = line[error.end :]
    return wrong


def _mixed(line: bytes, encoding: str) -> str:
    """What is UTF-8 as such, the rest in another encoding."""
    text = ""
    while line:
        try:
            return text + line.decode()
        except UnicodeDecodeError as error:
            text += line[: error.start].decode() + line[error.start : error.end].decode(encoding)
            line = line[error.end :]
    return text
