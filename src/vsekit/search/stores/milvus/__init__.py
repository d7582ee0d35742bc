"""The Milvus store; see `store`."""

from vsekit.search.stores.milvus.store import MilvusStore

__all__ = ["MilvusStore"]
