"""What the description of the API (/openapi.json) says of errors and of the token."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from vsekit.serve.schemas import Problem
from vsekit.serve.sessions import COOKIE

REASONS = {
    401: "The server has a token, and the request has not.",
    403: "The picture lies outside the indexed folders.",
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


def describe_token(app: FastAPI) -> None:
    """The bearer token in the description, for generated clients; `Gate` is what asks for it."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = make()
            described["components"]["securitySchemes"] = {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            }
            for path, operations in described["paths"].items():
                if (path.startswith("/api/") and path != "/api/session") or path == "/metrics":
                    for operation in operations.values():
                        operation["security"] = [{}, {"token": []}, {"session": []}]
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]
