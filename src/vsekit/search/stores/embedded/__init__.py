"""The embedded store: a folder, without a server; see `store`."""

from vsekit.search.stores.embedded.store import INSIDE, EmbeddedStore

__all__ = ["INSIDE", "EmbeddedStore"]
