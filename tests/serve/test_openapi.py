"""The description against what a generated client does with it: build every call from its operation id alone."""

from __future__ import annotations

import io
from typing import Any

import httpx
import pytest
from PIL import Image
from tests.serve.conftest import serving

from vsekit.search.searcher import Searcher
from vsekit.serve.limits import Limits
from vsekit.serve.schemas import Problem

OPERATIONS = {
    "search", "search_by_picture", "similar_items", "why", "item", "thumbnail", "picture", "status",
    "open_session", "close_session", "health", "ready", "metrics", "items", "facets", "places", "examples", "mark",
    "archive", "file", "indexing", "index",
}  # fmt: skip


class Client:
    """Knows nothing but the description."""

    def __init__(self, http: httpx.Client) -> None:
        self.http, self.described = http, http.get("/openapi.json").json()
        self.operations = {
            operation["operationId"]: (method, path, operation)
            for path, methods in self.described["paths"].items()
            for method, operation in methods.items()
        }

    def call(self, name: str, *, body: Any = None, files: Any = None, **parameters: Any) -> httpx.Response:
        method, path, operation = self.operations[name]
        known = {parameter["name"]: parameter["in"] for parameter in operation.get("parameters", [])}
        for key in [key for key in parameters if known[key] == "path"]:
            path = path.replace(f"{{{key}}}", parameters.pop(key).replace("#", "%23"))
        form = files or "application/x-www-form-urlencoded" in operation.get("requestBody", {}).get("content", {})
        content = {} if body is None else {"data": body} if form else {"json": body}
        answer = self.http.request(method, path, params=parameters, files=files, **content)
        assert str(answer.status_code) in operation["responses"], f"{name}: {answer.status_code} is not described"
        return answer

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        return (
            self.described["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        )


@pytest.fixture(scope="module")
def described(client: httpx.Client) -> Client:
    return Client(client)


def test_every_operation_has_a_name_a_tag_and_described_answers(described: Client) -> None:
    assert set(described.operations) == OPERATIONS
    for name, (_, path, operation) in described.operations.items():
        assert operation["tags"], name
        assert operation["summary"], name
        for status, response in operation["responses"].items():
            assert response["description"], (name, status)
            if status[0] in "45" and path != "/readyz":
                schema = response["content"]["application/json"]["schema"]
                assert schema["$ref"] == "#/components/schemas/Problem", (name, status)


def test_a_body_that_is_too_large_is_described_where_there_is_a_body(described: Client) -> None:
    for name, (_, path, operation) in described.operations.items():
        if "requestBody" in operation:
            assert "413" in operation["responses"], name
            assert described.http.post(path, content=b" " * 2**25).status_code == 413, name


def test_the_token_is_described_where_it_is_asked_for(described: Client) -> None:
    for _, path, operation in described.operations.values():
        asked = (path.startswith("/api/") and path != "/api/session") or path == "/metrics"
        assert ({"token": []} in operation.get("security", [])) == asked, path
        assert ({} in operation.get("security", [])) == asked, path  # this server has none
    assert described.described["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


def test_a_server_with_a_token_says_that_nothing_goes_without(searcher: Searcher) -> None:
    with serving(searcher, token="secret") as http:
        described = Client(http)
        _, _, search = described.operations["search"]
        assert search["security"] == [{"token": []}, {"session": []}]


def test_what_an_address_or_a_form_can_not_say_is_not_described(described: Client) -> None:
    """None: in an address or a form it would be the word null."""
    for name, (_, _, operation) in described.operations.items():
        schemas = [parameter["schema"] for parameter in operation.get("parameters", [])]
        if form := operation.get("requestBody", {}).get("content", {}).get("multipart/form-data"):
            schemas += described.resolved(form["schema"])["properties"].values()
        assert not any({"type": "null"} in schema.get("anyOf", []) for schema in schemas), name


def test_a_client_made_of_the_description_can_do_everything(described: Client) -> None:
    hits = described.call("search", body={"query": "red circle", "top": 2}).json()["hits"]
    id_ = hits[0]["id"]
    out = io.BytesIO()
    Image.new("RGB", (9, 9), "red").save(out, "PNG")
    assert described.call("search_by_picture", body={"top": "2"}, files={"file": out.getvalue()}).json()["hits"]
    assert described.call("similar_items", id=id_, top=3, kind="caption", filter="year > 2000").json()["hits"]
    assert described.call("item", id=f"{id_}#0").json()["kind"] == "caption"
    assert described.call("thumbnail", id=id_, size=100).headers["content-type"] == "image/jpeg"
    assert described.call("picture", id=id_).headers["content-type"] == "image/jpeg"
    assert described.call("why", body={"query": "red circle", "id": id_}).json()["words"]
    assert described.call("file", id=id_).headers["content-disposition"]
    assert described.call("items", top=3, filter="year > 2000").json()["items"]
    assert described.call("mark", body={"ids": [id_], "favourite": True}).json() == {"changed": [id_]}
    assert described.call("mark", body={"ids": [id_], "favourite": False}).json() == {"changed": [id_]}
    for name in ("facets", "places", "examples", "status", "health", "ready", "metrics", "close_session"):
        assert described.call(name).is_success
    assert described.call("open_session", body={"token": ""}).status_code == 204


def test_examples_work(described: Client) -> None:
    _, _, operation = described.operations["search"]
    examples = operation["requestBody"]["content"]["application/json"]["examples"]
    assert examples
    for example in examples.values():
        assert described.call("search", body=example["value"]).status_code == 200


def test_errors_are_the_described_ones(described: Client) -> None:
    for name, options in (
        ("search", {"body": {"query": ""}}),
        ("item", {"id": "none"}),
        ("thumbnail", {"id": "none"}),
        ("similar_items", {"id": "none"}),
        ("search_by_picture", {"files": {"file": b"x"}}),
        ("why", {"body": {"query": "red", "id": "none"}}),
        ("mark", {"body": {"ids": ["none"], "hidden": True}}),
        ("items", {"after": "nowhere"}),
        ("archive", {"body": {"ids": "none"}}),
    ):
        answer = described.call(name, **options)
        assert answer.status_code >= 400
        Problem.model_validate(answer.json())


def test_answers_hold_exactly_what_is_described(described: Client) -> None:
    for name, options in (
        ("search", {"body": {"query": "red"}}),
        ("status", {}),
        ("item", {"id": "p000001"}),
        ("items", {}),
    ):
        _, _, operation = described.operations[name]
        schema = described.resolved(operation["responses"]["200"]["content"]["application/json"]["schema"])
        answer = described.call(name, **options).json()
        assert set(answer) == set(schema["properties"])
        if name == "search":
            hit = described.resolved(schema["properties"]["hits"]["items"])
            assert set(answer["hits"][0]) == set(hit["properties"])


def test_the_description_states_the_limits_of_this_server(searcher: Searcher) -> None:
    with serving(searcher, limits=Limits(top=7, query_chars=50, rerank=9, depth=100)) as http:
        described = Client(http)
        schemas = described.described["components"]["schemas"]
        asked = schemas["SearchIn"]["properties"]
        assert (asked["top"]["minimum"], asked["top"]["maximum"], asked["top"]["default"]) == (1, 7, 7)
        assert (asked["offset"]["maximum"], asked["rerank"]["maximum"]) == (99, 9)
        assert asked["query"]["maxLength"] == schemas["WhyIn"]["properties"]["query"]["maxLength"] == 50
        _, _, similar = described.operations["similar_items"]
        assert next(p for p in similar["parameters"] if p["name"] == "top")["schema"]["maximum"] == 7
        _, _, upload = described.operations["search_by_picture"]
        form = described.resolved(upload["requestBody"]["content"]["multipart/form-data"]["schema"])
        assert form["properties"]["top"]["maximum"] == 7
        for body in ({"query": "red", "top": 7}, {"query": "r" * 50}, {"query": "red", "top": 1, "offset": 99}):
            assert http.post("/api/search", json=body).status_code == 200
        for body in ({"query": "red", "top": 8}, {"query": "r" * 51}, {"query": "red", "top": 1, "offset": 100}):
            assert http.post("/api/search", json=body).status_code == 422


@pytest.mark.parametrize(
    "wrong", [{"top": "5"}, {"top": True}, {"top": 5.5}, {"rerank": False}, {"offset": "0"}, {"offset": None}], ids=str
)
def test_what_is_no_whole_number_is_refused(wrong: dict[str, Any], client: httpx.Client) -> None:
    answer = client.post("/api/search", json={"query": "red", **wrong})
    assert answer.status_code == 422
    assert next(iter(wrong)) in answer.json()["error"]


@pytest.mark.parametrize("wrong", [0, 1, "true", "yes"])
def test_what_is_neither_true_nor_false_is_refused(wrong: object, client: httpx.Client) -> None:
    assert "stack" in client.post("/api/search", json={"query": "red", "stack": wrong}).json()["error"]
    body = {"ids": ["p000001"], "favourite": wrong}
    assert "favourite" in client.post("/api/marks", json=body).json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/api/session", "DELETE, POST"),
        ("PUT", "/api/search", "POST"),
        ("DELETE", "/api/items/p000001", "GET"),
        ("POST", "/", "GET, HEAD"),
    ],
)
def test_a_wrong_method_is_told_all_that_are_right(method: str, path: str, allowed: str, client: httpx.Client) -> None:
    answer = client.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == allowed
    assert allowed in answer.json()["remedy"]
