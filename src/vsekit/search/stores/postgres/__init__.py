"""The PostgreSQL store; see `store`."""

from vsekit.search.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
