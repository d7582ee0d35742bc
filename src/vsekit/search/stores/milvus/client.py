"""Milvus' client, whose errors are told as what they are for whoever asked: a server that ends, or does not answer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from vsekit.search.stores.base import UnreachableError


class Client:
    """Every method of a `MilvusClient`; what Milvus and its transport raise becomes an UnreachableError."""

    def __init__(self, client: Any) -> None:
        # pymilvus writes every error to stderr with its traceback, before it raises what is told here.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        self._client = client

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return explained(found) if callable(found) else found


def explained(method: Callable[..., Any]) -> Callable[..., Any]:
    from grpc import RpcError
    from pymilvus.exceptions import MilvusException

    @wraps(method)
    def called(*arguments: Any, **options: Any) -> Any:
        try:
            return method(*arguments, **options)
        except (MilvusException, RpcError) as error:
            what = getattr(error, "message", None) or str(error)
            raise UnreachableError(
                f"Milvus does not answer as it should: {what}",
                remedy="Is the server running, and has it room? What was written before is whole; the same command goes on.",
            ) from error

    return called
