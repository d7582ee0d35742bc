"""Every error as JSON: a reason, and a remedy where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from vsekit.errors import UserError
from vsekit.search.stores.base import UnreachableError
from vsekit.serve.batching import Busy


class ProblemError(HTTPException):
    """An error to answer with."""

    def __init__(
        self, status: int, error: str, remedy: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, error, dict(headers or {}))
        self.remedy = remedy

    def response(self) -> Response:
        return problem(self.status_code, self.detail, self.remedy, self.headers)


def problem(status: int, error: str, remedy: str | None = None, headers: Mapping[str, str] | None = None) -> Response:
    return Response(to_json({"error": error, "remedy": remedy}), status, headers, "application/json")


def busy() -> Response:
    return problem(503, "the server has as much to do as it can take", "Ask again in a second.", {"Retry-After": "1"})


def _allowed(request: Request) -> str:
    """The methods of all routes to this path; the router's own answer knows those of the first."""
    routes: list[Route] = [route for route in request.app.routes if isinstance(route, Route)]
    here = [route.methods or set() for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted(set().union(*here)))


def handle_problems(app: FastAPI) -> None:
    """Makes every exception of the app an answer of this shape."""

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 400:  # of FastAPI, for a body that is not what it says it is
            return problem(422, "the request's body can't be read", "Send JSON in UTF-8, or a form with a file.")
        remedy, headers = getattr(error, "remedy", None), dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = _allowed(request)
            remedy = f"Allowed here: {headers['Allow']}."
        elif error.status_code == 404 and type(error) is HTTPException:
            remedy = "GET /openapi.json lists what there is."
        return problem(error.status_code, error.detail or HTTPStatus(error.status_code).phrase, remedy, headers)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        wrong = [f"{'.'.join(str(part) for part in e['loc'][1:]) or e['loc'][0]}: {e['msg']}" for e in error.errors()]
        return problem(422, "; ".join(wrong), "GET /openapi.json describes what a request holds.")

    async def mistake(request: Request, error: Exception) -> Response:
        assert isinstance(error, UserError)
        if isinstance(error, UnreachableError):  # whose words name addresses that are not for everybody
            return problem(503, "the index can't be reached", "Ask again in a moment.", {"Retry-After": "5"})
        return problem(422, error.what, error.remedy)

    async def full(request: Request, error: Exception) -> Response:
        return busy()

    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(UserError, mistake)
    app.add_exception_handler(Busy, full)
