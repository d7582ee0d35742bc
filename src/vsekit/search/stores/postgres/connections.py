"""The PostgreSQL store's connections: a pool for reading, and one of its own for the writer, whose lock goes with it.

A backend may end at any time: the server restarts, an administrator ends it, a firewall forgets it. Reading is tried once more
on a fresh connection. Writing is not: what was not committed is gone with the lock, and whoever writes begins again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from vsekit.errors import UserError
from vsekit.search.stores.base import UnreachableError
from vsekit.search.stores.postgres.statements import connect

if TYPE_CHECKING:
    from psycopg import Connection

Result = TypeVar("Result")

READERS = 4  # connections at a time
WAIT_SECONDS = 5.0  # for one of them


class Connections:
    """address: as libpq takes it. The tables, and pgvector, are there."""

    def __init__(self, address: str) -> None:
        from psycopg_pool import ConnectionPool

        self.address = address
        self.writer: Connection[Any] | None = None
        self._guard = threading.RLock()
        self._local = threading.local()  # .connection: of the transaction that this thread is in
        self._pool: ConnectionPool[Connection[Any]] = ConnectionPool(
            address, min_size=1, max_size=READERS, timeout=WAIT_SECONDS, configure=_prepare, open=True
        )

    def read(self, work: Callable[[Connection[Any]], Result]) -> Result:
        """Does work that sees one state, inside the transaction that this thread is in, or in one of its own."""
        import psycopg

        current: Connection[Any] | None = getattr(self._local, "connection", None)
        if current is not None:
            return work(current)
        with explained():
            try:
                return self._read(work)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                self._pool.check()  # others may have ended with it
                return self._read(work)

    def _read(self, work: Callable[[Connection[Any]], Result]) -> Result:
        with self._pool.connection() as connection, connection.transaction():
            connection.execute("set transaction isolation level repeatable read")
            with self._current(connection):
                return work(connection)

    @contextmanager
    def write(self) -> Iterator[Connection[Any]]:
        """A transaction of the writer. Threads take turns."""
        with self._guard, explained():
            writer = self.open_writer()
            with writer.transaction(), self._current(writer):
                yield writer

    @contextmanager
    def _current(self, connection: Connection[Any]) -> Iterator[None]:
        before = getattr(self._local, "connection", None)
        self._local.connection = connection
        try:
            yield
        finally:
            self._local.connection = before

    def open_writer(self) -> Connection[Any]:
        """The writer's connection. UnreachableError where it has ended, and its lock with it."""
        with self._guard:
            if self.writer is None:
                self.writer = connect(self.address)
                _prepare(self.writer)
            if self.writer.closed:
                raise _unreachable("the connection that held the writer's lock has ended")
            return self.writer

    @property
    def can_write(self) -> bool:
        return self.writer is not None and not self.writer.closed

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self._pool.close()


@contextmanager
def explained() -> Iterator[None]:
    """What a server does that ends, is full, or lets nobody write is told as a UserError."""
    import psycopg
    from psycopg import errors

    try:
        yield
    except (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction) as error:
        raise UserError(
            f"this index can't be written: {_first(error)}", remedy="Use a role that may write to its tables."
        ) from None
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise _unreachable(_first(error)) from None
    except errors.UndefinedTable:
        raise UnreachableError("the tables of this index are gone", remedy="Make them again with vse index.") from None


def _unreachable(why: str) -> UnreachableError:
    return UnreachableError(
        f"PostgreSQL does not answer: {why}",
        remedy="Is the server running, and has it room? What was written before is whole; the same command goes on.",
    )


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _prepare(connection: Connection[Any]) -> None:
    from pgvector.psycopg import register_vector

    register_vector(connection)
    connection.commit()
