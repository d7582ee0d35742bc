from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.requests import Request
from starlette.responses import Response

from vsekit.serve.items import json_answer
from vsekit.serve.problems import handle_problems
from vsekit.serve.routes import JsonRoute
from vsekit.serve.schemas import SearchIn

JSON = {"content-type": "application/json"}
BODIES: dict[str, tuple[bytes, dict[str, str]]] = {
    "plain": (b'{"query": "a dog", "top": 3, "filter": null, "stack": true}', JSON),
    "a whole number with a point": (b'{"query": "a", "top": 3.0}', JSON),
    "a number too many": (b'{"query": "a", "top": 0}', JSON),
    "a number in quotes": (b'{"query": "a", "top": "3"}', JSON),
    "true is no number": (b'{"query": "a", "top": true}', JSON),
    "a key that is not known": (b'{"query": "a", "lmit": 3}', JSON),
    "no query": (b"{}", JSON),
    "a list": (b"[]", JSON),
    "broken": (b'{"query": "a"', JSON),
    "nothing": (b"", JSON),
    "not UTF-8": (b'{"query": "\xff"}', JSON),
    "half a surrogate": (b'{"query": "\\ud800"}', JSON),
    "endless": (b'{"query": "a", "top": ' + b"9" * 5000 + b"}", JSON),
    "deep": (b"[" * 5000, JSON),
    "not a number": (b'{"query": "a", "top": NaN}', JSON),
    "with a charset": ('{"query": "ein Gürtel"}'.encode(), {"content-type": "application/json; charset=utf-8"}),
    "JSON of another kind": (b'{"query": "a"}', {"content-type": "application/vnd.dog+json"}),
    "text": (b'{"query": "a"}', {"content-type": "text/plain"}),
    "of no type": (b'{"query": "a"}', {}),
}


@pytest.fixture(scope="module")
def both() -> TestClient:
    """The same endpoint at /ours by `JsonRoute` and at /usual by FastAPI's own route."""
    app = FastAPI()
    handle_problems(app)

    async def echo(request: Request, body: SearchIn) -> Response:
        return json_answer(body.model_dump() | {"given": sorted(body.model_fields_set)})

    app.router.add_api_route("/ours", echo, methods=["POST"], route_class_override=JsonRoute)
    app.router.add_api_route("/usual", echo, methods=["POST"])
    return TestClient(app)


def asked(client: TestClient, path: str, name: str) -> httpx.Response:
    content, headers = BODIES[name]
    return client.post(path, content=content, headers=headers)


@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_read_or_refused_as_by_fastapi(both: TestClient, name: str) -> None:
    ours, usual = asked(both, "/ours", name), asked(both, "/usual", name)
    assert (ours.status_code, ours.json()) == (usual.status_code, usual.json())


def test_what_is_read_is_what_was_sent(both: TestClient) -> None:
    sent: dict[str, Any] = {"query": "a dog", "top": 7, "kind": "caption"}
    read = both.post("/ours", content=json.dumps(sent), headers=JSON).json()
    assert {name: read[name] for name in sent} == sent
    assert read["given"] == sorted(sent)
