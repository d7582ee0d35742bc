from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from tests.serve.conftest import serving

from vsekit.search.searcher import Searcher
from vsekit.serve.gate import BODY, HEADERS, Gate
from vsekit.serve.limits import Limits
from vsekit.serve.metrics import Metrics
from vsekit.serve.sessions import Sessions

TOKEN = "correct horse battery staple"


def asked(client: httpx.Client, query: str = "red", **options: Any) -> int:
    return client.post("/api/search", json={"query": query}, **options).status_code


@pytest.fixture(scope="module")
def guarded(searcher: Searcher) -> Iterator[httpx.Client]:
    with serving(searcher, token=TOKEN) as client:
        yield client


def test_without_the_token_nothing_of_the_index_is_told(guarded: httpx.Client) -> None:
    paths = ["/api/status", "/api/items/p000000", "/api/items/p000000/thumbnail", "/api/items/p000000/picture",
             "/api/items/p000000/similar", "/api/items/none", "/api/nothing", "/metrics"]  # fmt: skip
    for path in paths:
        answer = guarded.get(path)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["remedy"]
    assert asked(guarded) == 401
    assert guarded.post("/api/why", json={"query": "red", "id": "p000000"}).status_code == 401


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN])
def test_a_wrong_token_is_refused(given: str, guarded: httpx.Client) -> None:
    assert asked(guarded, headers={"Authorization": given}) == 401
    assert asked(guarded, headers={"Cookie": f"vsekit_session={given}"}) == 401


def test_the_token_opens(guarded: httpx.Client) -> None:
    assert asked(guarded, headers={"Authorization": f"Bearer {TOKEN}"}) == 200
    assert asked(guarded, headers={"authorization": f"bearer {TOKEN}"}) == 200


def test_health_stays_open(guarded: httpx.Client) -> None:
    assert [guarded.get(path).status_code for path in ("/healthz", "/readyz", "/openapi.json")] == [200, 200, 200]


def test_the_token_is_exchanged_for_a_cookie_that_does_not_hold_it(guarded: httpx.Client) -> None:
    with httpx.Client(base_url=guarded.base_url) as browser:
        assert browser.post("/api/session", json={"token": "wrong"}).status_code == 401
        answer = browser.post("/api/session", json={"token": TOKEN})
        assert answer.status_code == 204
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        assert asked(browser) == 200
        assert browser.get("/api/items/p000000/thumbnail").status_code == 200
        browser.delete("/api/session")
        assert asked(browser) == 401


def test_a_closed_session_is_closed_for_every_copy_of_its_cookie(guarded: httpx.Client) -> None:
    with httpx.Client(base_url=guarded.base_url) as browser:
        browser.post("/api/session", json={"token": TOKEN})
        (value,) = browser.cookies.values()
        copy = {"Cookie": f"vsekit_session={value}"}
        assert asked(guarded, headers=copy) == 200
        browser.delete("/api/session")
        assert asked(guarded, headers=copy) == 401


@pytest.mark.parametrize(
    "foreign", ["{bad", "a[b]=c", 'theme="dark', "x=1; =; ;;", "vsekit_session=of-another-server", "ü=é", "a=b,c d"]
)
def test_cookies_of_other_servers_on_the_same_host_do_not_end_a_session(foreign: str, guarded: httpx.Client) -> None:
    with httpx.Client(base_url=guarded.base_url) as browser:
        browser.post("/api/session", json={"token": TOKEN})
        (value,) = browser.cookies.values()
    for header in (f"{foreign}; vsekit_session={value}", f"vsekit_session={value}; {foreign}"):
        assert asked(guarded, headers={"Cookie": header.encode()}) == 200


ELSEWHERE: list[dict[str, str]] = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:1"},
    {"Origin": "http://[half"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://HERE"},
]


@pytest.mark.parametrize("headers", ELSEWHERE)
def test_a_page_of_another_site_can_not_write(headers: dict[str, str], client: httpx.Client) -> None:
    here = f"{client.base_url.host}:{client.base_url.port}"
    headers = {name: value.replace("HERE", here) for name, value in headers.items()}
    answers = [
        client.post("/api/search", json={"query": "red"}, headers=headers),
        client.post("/api/search/picture", files={"file": ("x", b"x")}, headers=headers),
        client.post("/api/session", json={"token": ""}, headers=headers),
        client.delete("/api/session", headers=headers),
    ]
    assert [answer.status_code for answer in answers] == [403] * 4
    assert client.get("/api/status", headers=headers).status_code == 200


def test_the_servers_own_page_and_programs_can_write(client: httpx.Client) -> None:
    here = f"{client.base_url.host}:{client.base_url.port}"
    for headers in ({}, {"Origin": f"http://{here}"}, {"Origin": f"http://{here}", "Sec-Fetch-Site": "same-origin"},
                    {"Sec-Fetch-Site": "none"}, {"Origin": f"http://{here}".upper()}):  # fmt: skip
        assert asked(client, headers=headers) == 200
    # Behind a proxy that speaks HTTPS, the port is the scheme's own on both sides.
    proxied = {"Origin": "https://photos.example", "Host": "photos.example"}
    assert asked(client, headers=proxied) == 200
    assert asked(client, headers={**proxied, "Host": "photos.example:443"}) == 200
    assert asked(client, headers={**proxied, "Host": "photos.example:80"}) == 403


def test_without_a_token_a_session_needs_none(client: httpx.Client) -> None:
    assert client.post("/api/session", json={"token": ""}).status_code == 204


def test_every_answer_forbids_whatever_is_elsewhere(client: httpx.Client) -> None:
    for answer in (client.get("/"), client.get("/healthz"), client.get("/nowhere"), client.get("/api/status")):
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "access-control-allow-origin" not in client.get("/api/status", headers={"Origin": "http://evil"}).headers


def test_a_foreign_name_for_this_host_is_refused(searcher: Searcher) -> None:
    with serving(searcher, hosts=["localhost", "127.0.0.1", "::1", "Photos.example"]) as client:
        for host in ("localhost", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST:1", "photos.example"):
            assert client.get("/api/status", headers={"Host": host}).status_code == 200, host
        for host in ("evil.example", "localhost.evil.example", "evil.example:8000", "127.0.0.1.nip.io", "", "[::2]"):
            answer = client.get("/api/status", headers={"Host": host})
            assert answer.status_code == 421, host
            assert answer.json()["error"]
        assert client.get("/healthz", headers={"Host": "10.0.0.7"}).status_code == 200


def test_too_many_requests_are_told_when_to_come_back(searcher: Searcher) -> None:
    with serving(searcher, limits=Limits(rate=0.01, burst=3)) as client:
        assert [asked(client) for _ in range(4)] == [200, 200, 200, 429]
        answer = client.get("/api/status")
        assert 90 <= int(answer.headers["retry-after"]) <= 100
        assert "100 s" in answer.json()["remedy"] or "99 s" in answer.json()["remedy"]
        assert client.get("/healthz").status_code == 200
        assert client.get("/").status_code != 429


def test_a_page_full_of_thumbnails_counts_little(searcher: Searcher) -> None:
    with serving(searcher, limits=Limits(rate=0.01, burst=2)) as client:
        codes = [client.get("/api/items/p000000/thumbnail").status_code for _ in range(41)]
    assert codes == [200] * 40 + [429]


def test_a_wrong_token_is_not_guessed_at_any_speed(searcher: Searcher) -> None:
    with serving(searcher, token=TOKEN, limits=Limits(rate=0.01, burst=2)) as client:
        codes = [client.post("/api/session", json={"token": str(i)}).status_code for i in range(4)]
    assert codes == [401, 401, 429, 429]


def test_more_requests_than_fit_are_sent_away(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    started, gate = threading.Event(), threading.Event()
    encode = searcher.model.encode_texts

    def slow(texts: list[str]) -> Any:
        started.set()
        assert gate.wait(10)
        return encode(texts)

    monkeypatch.setattr(searcher.model, "encode_texts", slow)
    with serving(searcher, limits=Limits(concurrent=1)) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(asked, client, "a query not asked before")
        started.wait(10)
        answer = client.get("/api/status")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert client.get("/healthz").status_code == 200
        gate.set()
        assert first.result() == 200
        assert client.get("/api/status").status_code == 200


def upload(client: httpx.Client, *, announced: int | None, sent: int) -> tuple[int, int]:
    """Sends a body piece by piece until the server answers: the status, and the bytes that were sent."""
    length = f"Content-Length: {announced}" if announced is not None else "Transfer-Encoding: chunked"
    head = f"POST /api/search/picture HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=B\r\n{length}\r\n\r\n"
    part = b'--B\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    done = 0
    with socket.create_connection((client.base_url.host, client.base_url.port)) as connection:
        connection.sendall(head.encode())
        connection.settimeout(0.05)
        while True:
            try:
                if answer := connection.recv(65536):
                    return int(answer.split()[1]), done
            except TimeoutError:
                pass
            piece = part if not done else bytes(min(50_000, sent - done))
            if announced is None:
                connection.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            elif piece:
                connection.sendall(piece)
            done += len(piece)


def test_an_upload_is_cut_off_while_it_arrives(searcher: Searcher) -> None:
    with serving(searcher, limits=Limits(upload_bytes=100_000)) as client:
        assert upload(client, announced=10**9, sent=0) == (413, 0)
        status, sent = upload(client, announced=None, sent=10**7)
        assert status == 413
        assert sent <= 100_000 + BODY + 100_000
        assert asked(client) == 200


def test_the_body_of_a_query_is_small(client: httpx.Client) -> None:
    answer = client.post("/api/search", json={"query": "red", "more": "x" * BODY})
    assert (answer.status_code, set(answer.json())) == (413, {"error", "remedy"})


def test_a_body_that_does_not_come_is_not_waited_for(searcher: Searcher) -> None:
    with serving(searcher, limits=Limits(body_seconds=0.1)) as client:
        assert upload(client, announced=50_000, sent=100)[0] == 408


def test_a_body_that_drips_is_not_waited_for_either(searcher: Searcher) -> None:
    with serving(searcher, limits=Limits(body_seconds=0.3)) as client:
        address = (client.base_url.host, client.base_url.port)
        with socket.create_connection(address) as connection:
            connection.sendall(b"POST /api/search HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
            connection.settimeout(0.05)
            for _ in range(200):  # ten seconds, were it not cut off
                try:
                    answer = connection.recv(4096)
                    break
                except TimeoutError:
                    connection.sendall(b" ")
    assert answer.startswith(b"HTTP/1.1 408")


def test_who_still_sends_a_request_keeps_nobody_out(searcher: Searcher) -> None:
    with serving(searcher, limits=Limits(concurrent=2)) as client:
        address = (client.base_url.host, client.base_url.port)
        half = [socket.create_connection(address) for _ in range(10)]
        for connection in half:
            connection.sendall(b"POST /api/search HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        while "in_flight 11.0" not in client.get("/metrics").text:
            pass
        assert asked(client) == 200
        for connection in half:
            connection.close()


def test_who_still_reads_an_answer_keeps_nobody_out(searcher: Searcher) -> None:
    """Pipelined: more than the buffers of both sides hold."""
    with serving(searcher, limits=Limits(concurrent=2)) as client:
        address = (client.base_url.host, client.base_url.port)
        unread = [socket.create_connection(address) for _ in range(5)]
        for connection in unread:
            connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
            connection.shutdown(socket.SHUT_WR)
        while "in_flight 6.0" not in client.get("/metrics").text or asked(client) != 200:
            pass  # ends when all are stuck: until then some are worked on
        for connection in unread:
            connection.close()


def test_the_log_has_a_line_for_a_request_and_no_query_unless_told(
    searcher: Searcher, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "vsekit.serve")
    for log, lines, words in (("off", 0, False), ("requests", 1, False), ("queries", 1, True)):
        caplog.clear()
        with serving(searcher, log=log, wait=False) as client:
            while asked(client, "secret\nwish") != 200:
                caplog.clear()
        answered = [record.getMessage() for record in caplog.records if " 200 " in record.getMessage()]
        assert len(answered) == lines
        assert all("POST /api/search 200" in line and "\n" not in line for line in answered)
        assert any("secret" in line for line in answered) == words


def test_a_request_that_the_servers_end_cuts_off_is_told_so() -> None:
    async def cut_off(scope: Any, receive: Any, send: Any) -> None:
        raise asyncio.CancelledError

    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    gate = Gate(cut_off, limits=Limits(), metrics=Metrics(dict), sessions=Sessions())
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/status",
        "headers": [],
        "query_string": b"",
        "client": ("a", 1),
    }
    asyncio.run(gate(scope, receive, send))
    assert sent[0]["status"] == 503
    assert (b"retry-after", b"5") in sent[0]["headers"]
    assert "stopping" in json.loads(sent[1]["body"])["error"]
