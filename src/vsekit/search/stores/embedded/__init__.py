"""The embedded store: a folder, without a server; see `store`."""

from vsekit.search.stores.embedded.place import INSIDE
from vsekit.search.stores.embedded.store import EmbeddedStore

__all__ = ["INSIDE", "EmbeddedStore"]
