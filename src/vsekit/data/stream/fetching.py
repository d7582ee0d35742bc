"""The bytes of a shard, in sequence, from any address that fsspec knows; a thread reads ahead of who asks.

A file system may wait for ever for a server that says nothing, so whoever asks here waits `SILENCE` seconds and no longer.
"""

from __future__ import annotations

import queue
import threading
from typing import Any

from vsekit.errors import UserError

CHUNK, AHEAD = 2**20, 4
#: Seconds without a byte after which a shard counts as failed.
SILENCE = 15.0


class Failed(Exception):
    """A shard could not be opened, or not be read to its end; it says why. It may go better another time."""


class Bytes:
    """A shard opened for reading from its beginning.

    size: of the file, in bytes; None where the server does not say.
    taken: bytes that were asked for so far.
    """

    def __init__(self, address: str) -> None:
        self._queue: queue.Queue[Any] = queue.Queue(AHEAD)
        self._closed, self._ended, self._held = threading.Event(), False, b""
        self.taken = 0
        # A daemon: one that a server keeps waiting must not keep the program from ending.
        threading.Thread(target=self._fetch, args=(address,), daemon=True, name="shard").start()
        self.size: int | None = self._next()

    def read(self, count: int) -> bytes:
        """So many bytes; fewer only at the end."""
        pieces, missing = [self._held], count - len(self._held)
        while missing > 0 and not self._ended:
            pieces.append(self._next())
            self._ended = not pieces[-1]
            missing -= len(pieces[-1])
        whole = b"".join(pieces)
        self._held = whole[count:]
        self.taken += min(count, len(whole))
        return whole[:count]

    def close(self) -> None:
        self._closed.set()

    def _next(self) -> Any:
        try:
            item = self._queue.get(timeout=SILENCE)
        except queue.Empty:
            self.close()
            raise Failed(f"no answer for {SILENCE:.0f} seconds") from None
        if isinstance(item, Exception):
            raise item
        return item

    def _fetch(self, address: str) -> None:
        try:
            fs, path = _file_system(address)
            with fs.open(path, "rb") as file:
                size, count = getattr(file, "size", None), 0
                self._give(size)
                while not self._closed.is_set():
                    data = file.read(CHUNK)
                    count += len(data)
                    if not data and size is not None and count < size:
                        raise Failed(f"it ended after {count:,} of {size:,} bytes")
                    self._give(bytes(data))
                    if not data:
                        return
        except (Failed, UserError) as error:
            self._give(error)
        except FileNotFoundError:
            self._give(Failed("there is no such file"))
        except Exception as error:  # file systems raise what their libraries do
            what = str(error).strip().partition("\n")[0]
            self._give(Failed(f"{what} ({type(error).__name__})" if what else type(error).__name__))

    def _give(self, item: Any) -> None:
        while not self._closed.is_set():
            try:
                return self._queue.put(item, timeout=0.2)
            except queue.Full:
                pass


def _file_system(address: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    try:
        fs, path = url_to_fs(address)
    except ImportError as error:  # fsspec says what is to be installed
        raise UserError(f"this address needs another package: {error}", file=address) from None
    except ValueError as error:
        raise UserError(f"this is no address: {error}", file=address) from None
    return fs, path
