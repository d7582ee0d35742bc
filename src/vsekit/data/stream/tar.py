"""The samples of a tar file that is read once from front to end: neighbours that share a key, as WebDataset writes them.

Nothing in a shard is trusted. Members are kept in memory and never written anywhere; what can't be used is named as a
`Problem`, and the rest of the shard goes on. Python's tarfile takes a damaged header for the end of the archive, which would
drop samples without a word, and reads headers of any length: `_Header` tells both.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from vsekit.data.readers.base import IMAGE_SUFFIXES
from vsekit.data.readers.problems import Place, Problem
from vsekit.data.stream.fetching import Bytes, Failed

#: Larger members are passed over: a picture, and a text.
MOST_PICTURE, MOST_TEXT = 2**28, 2**20
_TEXTS = (".txt", ".json")
_LONG_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


@dataclass
class Sample:
    """The files of one key, by suffix.

    ordinal: counts the samples of its shard, sound or not.
    share: of the shard's bytes that lies before the next sample; 0 where the size is not known.
    """

    shard: str
    ordinal: int
    key: str
    members: dict[str, bytes] = field(default_factory=dict)
    share: float = 0.0

    def problem(self, kind: str, what: str, suffix: str = "", remedy: str | None = None) -> Problem:
        return Problem(kind, what, Place(self.shard, field=shown_name(self.key + suffix)), remedy)


class Damaged(Exception):
    """The shard can't be read further than this: it is cut off, or no tar file."""


class _Header(tarfile.TarInfo):
    @classmethod
    def frombuf(cls, buf: Any, encoding: Any, errors: Any) -> _Header:
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise  # the end, as it should be
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from None
        if header.size < 0 or (header.type in _LONG_HEADERS and header.size > MOST_TEXT):
            raise tarfile.ReadError(f"a header claims {header.size:,} bytes")
        return header


def samples_in(file: Bytes, shard: str, start: int = 0) -> Iterator[Sample | Problem]:
    """The samples from number `start` on, each as soon as the next one begins, and what can't be used.

    Raises Damaged where the shard ends too early, and Failed where it can't be fetched.
    """
    seen: set[str] = set()
    sample: Sample | None = None
    try:
        with tarfile.open(fileobj=file, mode="r|*", tarinfo=_Header, bufsize=2**18) as archive:  # type: ignore[call-overload]
            for member in archive:
                archive.members.clear()  # or it would keep the headers of the whole shard
                if member.isdir():
                    continue
                folder, slash, name = member.name.rpartition("/")
                stem, dot, suffix = name.partition(".")
                key, suffix = folder + slash + stem, dot + suffix.lower()
                if sample is None or sample.key != key:
                    if sample is not None and sample.ordinal >= start:
                        yield from _whole(sample, seen, file)
                    if sample is not None:
                        seen.add(sample.key)
                    sample = Sample(shard, 0 if sample is None else sample.ordinal + 1, key)
                problem = _take(archive, member, suffix, sample, read=sample.ordinal >= start)
                if problem is not None and sample.ordinal >= start:
                    yield problem
    except Failed:
        raise
    except Exception as error:  # tarfile and the decompressors raise nearly anything on damaged bytes
        behind = f", behind {shown_name(sample.key)}" if sample else ""
        raise Damaged(f"{error or type(error).__name__}{behind}") from None
    if sample is not None and sample.ordinal >= start:
        yield from _whole(sample, seen, file)


def _take(archive: Any, member: tarfile.TarInfo, suffix: str, sample: Sample, *, read: bool) -> Problem | None:
    """Puts a member into the sample, or says why not."""
    picture = suffix in IMAGE_SUFFIXES
    if _hostile(member.name):
        return sample.problem("bad-name", "no member should have such a name", suffix)
    if not member.isreg() or member.issparse():
        return sample.problem("not-a-file", "this is a link, a device or a sparse file", suffix)
    if not read or not (picture or suffix in _TEXTS):
        return None
    most = MOST_PICTURE if picture else MOST_TEXT
    if member.size > most:
        return sample.problem("too-large", f"{member.size:,} bytes are more than {most:,}, the limit", suffix)
    if suffix in sample.members:
        return sample.problem("duplicate-member", "this member is there twice; the first is used", suffix)
    file = archive.extractfile(member)
    assert file is not None
    sample.members[suffix] = file.read()
    return None


def _whole(sample: Sample, seen: set[str], file: Bytes) -> Iterator[Sample | Problem]:
    if sample.key in seen:
        yield sample.problem(
            "duplicate-key",
            "the key was there before, and other samples stood in between",
            remedy="Write shards with the members of a sample one after another, and every key once.",
        )
    elif sample.members:
        sample.share = file.taken / file.size if file.size else 0.0
        yield sample


def _hostile(name: str) -> bool:
    return name.startswith("/") or ".." in name.split("/") or not name.isprintable()


def shown_name(name: str) -> str:
    """A name from a shard, fit for a log: of one line and some length.

    >>> shown_name("a\\nb")
    'a\\\\nb'
    """
    safe = name if name.isprintable() else name.encode("unicode_escape").decode()
    return safe if len(safe) <= 200 else safe[:197] + "..."
