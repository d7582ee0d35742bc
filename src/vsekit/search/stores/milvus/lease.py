"""The lock against a second writer: a lease among the collection's properties, that a writer renews while it writes.

Two could take it in the same few milliseconds: Milvus has nothing that only one of them could do.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from vsekit import system
from vsekit.search.stores.base import WritingError

if TYPE_CHECKING:
    from vsekit.search.stores.milvus.collection import Collection

WRITER = "vsekit.writer"
SECONDS = 120.0


class Lease:
    """Of one writer; nothing is held before `renew`."""

    def __init__(self) -> None:
        self._token, self._until = "", 0.0

    @property
    def held(self) -> bool:
        return bool(self._token)

    @property
    def properties(self) -> dict[str, str]:
        """As the collection has it."""
        return {WRITER: f"{self._token} {self._until}"}

    @property
    def due(self) -> bool:
        return not self._token or time.time() >= self._until - SECONDS / 2

    def renew(self, collection: Collection) -> bool:
        """Takes the lease, or renews it; whether it was taken. WritingError where another process has it."""
        other = writer(collection.properties())
        if other and other != self._token:
            host, _, process = other.partition(" ")
            raise WritingError(
                f"another process ({process.partition('-')[0]} on {host}) is writing to the index in '{collection.name}'",
                remedy="Wait until it has finished; searching goes on meanwhile.",
            )
        taken = not self._token
        self._token = self._token or f"{socket.gethostname()} {os.getpid()}-{os.urandom(4).hex()}"
        self._until = time.time() + SECONDS
        collection.client.alter_collection_properties(collection.name, self.properties)
        return taken

    def give_back(self, collection: Collection) -> None:
        collection.client.alter_collection_properties(collection.name, {WRITER: ""})
        self._token = ""


def writer(properties: Mapping[str, str]) -> str | None:
    """Who writes to the collection with these properties, "HOST PROCESS-…"; None where nobody does any more."""
    host, _, rest = properties.get(WRITER, "").partition(" ")
    process, _, until = rest.partition(" ")
    if not host or time.time() >= float(until) or _has_ended(host, process):
        return None
    return f"{host} {process}"


def _has_ended(host: str, process: str) -> bool:
    """Whether a process of this machine has ended."""
    return host == socket.gethostname() and not system.is_running(int(process.partition("-")[0]))
