"""Sessions of the page: the token is exchanged once for a cookie that says nothing of it.

A session lives in the server's memory: closing it ends it everywhere, and so does a restart, after which the page asks for
the token again.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Iterator

COOKIE = "vsekit_session"
MOST = 10_000


class Sessions:
    """The open ones; of more than `most`, the ones used longest ago are closed. Kept as hashes, so that looking one up
    takes the same time for every wrong guess."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._open: OrderedDict[bytes, None] = OrderedDict()

    def open(self) -> str:
        """A new session, as the cookie's value."""
        value = secrets.token_urlsafe(32)
        self._open[_hash(value)] = None
        if len(self._open) > self._most:
            self._open.popitem(last=False)
        return value

    def close(self, header: str) -> None:
        """Ends the sessions that a Cookie header names."""
        for value in _values(header):
            self._open.pop(_hash(value), None)

    def known(self, header: str) -> bool:
        """Whether a Cookie header names an open session."""
        for key in map(_hash, _values(header)):
            if key in self._open:
                self._open.move_to_end(key)
                return True
        return False


def _hash(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).digest()


def _values(header: str) -> Iterator[str]:
    """The values of our cookie. All servers on localhost share their cookies, and others' may be written in any way: what
    can't be read is theirs."""
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            yield value.strip().strip('"')
