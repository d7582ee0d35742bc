"""Connections: who sends half a request or reads half an answer is cut off in time, and nobody keeps the others out.

uvicorn waits for ever for the rest of a request's head and for a client to take its answer, and takes connections until the
process has no files left. Here the head must come within `head_seconds`, something of the answer must be taken every
`read_seconds`, and there are at most so many connections, in all and for each client. Where there are too many, the oldest
that waits for its client makes room.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from vsekit import system
from vsekit.serve.limits import Limits, client_of

#: Files the process needs for anything but connections.
OTHER_FILES = 256
LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
AT_ONCE = struct.pack("ii", 1, 0)  # linger, for no second
FULL = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"


class Connections:
    """The connections of one server. `protocol` is what uvicorn takes as `http`.

    Args:
        shared: whether many clients come from one address, as they do behind a proxy: then only the total is bounded.
    """

    def __init__(self, limits: Limits, *, shared: bool = False) -> None:
        self.head_seconds, self.read_seconds = limits.head_seconds, limits.read_seconds
        self.most = min(limits.connections, _files() - OTHER_FILES)
        self.most_of_one = self.most if shared else limits.connections_per_client
        self.of: defaultdict[str, OrderedDict[Connection, None]] = defaultdict(OrderedDict)
        self.all: OrderedDict[Connection, None] = OrderedDict()

    def protocol(self, *args: Any, **options: Any) -> Connection:
        return Connection(self, *args, **options)

    def enter(self, connection: Connection) -> bool:
        """Counts it, and makes room for it; False where there is none."""
        mine = self.of[connection.peer]
        room = (len(mine) < self.most_of_one or _cut(mine)) and (len(self.all) < self.most or _cut(self.all))
        if room:
            mine[connection] = self.all[connection] = None
        return room

    def leave(self, connection: Connection) -> None:
        self.all.pop(connection, None)
        mine = self.of[connection.peer]
        mine.pop(connection, None)
        if not mine:
            del self.of[connection.peer]


def _cut(connections: OrderedDict[Connection, None]) -> bool:
    """Cuts off the oldest that waits for its client."""
    found = next((connection for connection in connections if connection.waits), None)
    if found is not None:
        found.late()
    return found is not None


class Connection(H11Protocol):
    """uvicorn's own, with a clock on the head of each request, and one on the reading of its answer."""

    def __init__(self, all: Connections, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.all, self.peer = all, ""
        self._clock: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._unread = 0

    @property
    def waits(self) -> bool:
        """Whether its client must send more of a request, or take more of an answer, before anything can be done."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY) or self._reading is not None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # what the kernel does not take at once, the client has yet to read
        self.peer = client_of(self.client[0]) if self.client else ""
        if self.all.enter(self):
            self._wind()
        else:
            transport.write(FULL)
            transport.close()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wind()
        else:
            self._stop()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unwatch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self._unwatch()
        self.all.leave(self)
        super().connection_lost(exc)

    def late(self) -> None:
        """Cuts it off."""
        self._stop()
        self.all.leave(self)
        if self.transport.get_write_buffer_size():  # closing would wait until it is read, here or in the kernel
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            self.transport.abort()
        elif not self.transport.is_closing():
            if self.conn.their_state is h11.IDLE and self.cycle is None:
                self.transport.write(LATE)
            self.transport.close()

    def _wind(self) -> None:
        if self._clock is None:
            self._clock = self.loop.call_later(self.all.head_seconds, self.late)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _watch(self) -> None:
        self._unread = self.transport.get_write_buffer_size()
        self._reading = self.loop.call_later(self.all.read_seconds, self._look)

    def _look(self) -> None:
        if self.transport.get_write_buffer_size() < self._unread:
            self._watch()
        else:
            self.late()

    def _unwatch(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None


def _files() -> int:
    """How many files the process may open, after asking for as many as it is allowed."""
    return max(OTHER_FILES + 16, system.most_files(65536))


class Seldom(logging.Filter):
    """Lets a message through once in `seconds`, and says next time how often it came: a log that doesn't repeat itself."""

    def __init__(self, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds, self._clock = seconds, clock
        self._seen: dict[object, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._clock()
        then, more = self._seen.get(record.msg, (now - self._seconds, 0))
        if now - then < self._seconds:
            self._seen[record.msg] = (then, more + 1)
            return False
        self._seen[record.msg] = (now, 0)
        if more:
            record.msg = f"{record.getMessage()} ({more} more like it in between)"
            record.args = ()
        return True
