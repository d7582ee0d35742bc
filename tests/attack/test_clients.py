"""Clients that send too little, too slowly, or nothing that is HTTP, and clients that don't read: many of each, from many
addresses, while others are answered as always."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest
from tests.attack.conftest import Attack
from tests.serve.test_run import start

pytestmark = pytest.mark.slow
LIMITS = {"head_seconds": 1, "body_seconds": 1, "read_seconds": 1, "connections": 60, "connections_per_client": 20}
GET = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
POST = b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"

Server = tuple[subprocess.Popen[str], httpx.URL]
#: By name: what is sent at once, and what is sent then, bit by bit.
CLIENTS: dict[str, tuple[bytes, bytes]] = {
    "says nothing": (b"", b""),
    "half a head": (POST, b""),
    "a head that drips": (POST, b"X-More: 1\r\n"),
    "a head without end": (POST + b"X-Long: ", b"a" * 4096),
    "half a body": (POST + b"Content-Length: 100\r\n\r\n{", b""),
    "a body that drips": (POST + b"Content-Length: 60000\r\n\r\n{", b" "),
    "a body without end": (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "half an upload": (
        b"POST /api/search/picture HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 19000000\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n",
        b"a",
    ),
    "does not read": (GET * 150, b""),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00"),
    "two lengths": (POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", b"{"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    process, url = start("--limits", json.dumps({**LIMITS, "rate": 0}))
    yield process, httpx.URL(url)
    assert process.poll() is None
    process.kill()
    said = process.communicate()[1]
    assert said.count("Traceback") <= said.count("out of system resource") <= 1  # asyncio says where no files are left
    assert len(said) < 5000, said[:2000]


def connect(url: httpx.URL, source: str) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(10)
    connection.bind((source, 0))
    connection.connect((url.host, url.port))
    return connection


def answered(url: httpx.URL, source: str = "127.0.0.1") -> int:
    with httpx.Client(transport=httpx.HTTPTransport(local_address=source), timeout=20) as client:
        return client.post(url.join("/api/search"), json={"query": "red"}).status_code


def until(condition: Callable[[], bool]) -> bool:
    """Whether it comes true. Who sends away for a moment (503) is asked again, as it says."""
    for _ in range(200):
        if condition():
            return True
        time.sleep(0.1)
    return False


def idle(url: httpx.URL) -> bool:
    return "\nvsekit_requests_in_flight 1.0" in httpx.get(url.join("/metrics")).text


@pytest.mark.parametrize("name", CLIENTS)
def test_slow_clients(name: str, server: Server, attack: Attack) -> None:
    _, url = server
    first, then = CLIENTS[name]
    with ExitStack() as stack:
        many = []
        for i in range(attack.some(30 if name == "does not read" else 100)):
            many.append(stack.enter_context(connect(url, f"127.0.0.{2 + i % 20}")))
            with suppress(OSError):  # one that was cut off already
                many[-1].sendall(first)
            attack.tried[name] += 1
        for _ in range(3):
            for source in ("127.0.0.1", "127.0.0.2"):  # one that nobody attacks from, and one that is shared
                if not until(lambda source=source: answered(url, source) == 200):  # type: ignore[misc]
                    attack.failed(f"{source} is not answered")
            for connection in many:
                with suppress(OSError):
                    connection.sendall(then)
        assert until(lambda: idle(url)), "a request is still waited for"
    attack.close()


def test_no_files_left(server: Server, attack: Attack) -> None:
    """The server goes on as soon as there are some again, and its log does not fill the disk meanwhile."""
    process, url = server
    before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        held = [stack.enter_context(connect(url, "127.0.0.30")) for _ in range(5)]
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
        for i in range(attack.some(100)):
            stack.enter_context(connect(url, f"127.0.0.{40 + i % 20}"))
            attack.tried["connections"] += 1
        time.sleep(3)  # asyncio tries again every second
        assert process.poll() is None
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
        assert held
    assert until(lambda: answered(url) == 200)
    attack.close()
