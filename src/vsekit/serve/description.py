"""What the description of the API (/openapi.json) says of errors, of the token and of this server's limits."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from vsekit.serve.limits import Limits
from vsekit.serve.schemas import TOP, Problem
from vsekit.serve.sessions import COOKIE

REASONS = {
    401: "The server has a token, and the request has not.",
    403: "The picture lies outside the indexed folders, or this server does not do that.",
    404: "There is no such item, or no such file.",
    413: "Too many bytes or pixels.",
    415: "No picture that can be read.",
    422: "The request says something that can't be.",
    429: "Too many requests; Retry-After says when to come back.",
    500: "A bug; the server's log says which.",
    503: "Loading, or too busy; Retry-After says when to come back.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {
        status: {"model": Problem, "description": REASONS[status]} for status in sorted({401, 429, 500, 503, *statuses})
    }


def describe(app: FastAPI, limits: Limits, *, token: bool) -> None:
    """Adds, for generated clients, what `Gate` and `limits` ask for to what FastAPI knows of the app.

    token: whether there is one.
    """
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = make()
            described["components"]["securitySchemes"] = {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            }
            for path, operations in described["paths"].items():
                for operation in operations.values():
                    if (path.startswith("/api/") and path != "/api/session") or path == "/metrics":
                        operation["security"] = [*([] if token else [{}]), {"token": []}, {"session": []}]
                    for parameter in operation.get("parameters", []):
                        _limit({parameter["name"]: parameter["schema"]}, limits)
            for schema in described["components"]["schemas"].values():
                _limit(schema.get("properties", {}), limits)
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]


def _limit(properties: dict[str, dict[str, Any]], limits: Limits) -> None:
    most: dict[str, dict[str, Any]] = {
        "query": {"maxLength": limits.query_chars},
        "top": {"maximum": limits.top, "default": min(TOP, limits.top)},
        "offset": {"maximum": limits.depth - 1, "description": f"With top, at most {limits.depth}."},
        "rerank": {"maximum": limits.rerank},
    }
    for name, limit in most.items():
        if name in properties:
            properties[name].update(limit)
