"""A real server and clients that send too little, too slowly, too often."""

from __future__ import annotations

import json
import logging
import select
import socket
from collections.abc import Iterator

import httpx
import pytest
from tests.serve.test_run import start

from vsekit.serve.connections import Seldom


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, int]]:
    limits = {"head_seconds": 0.5, "read_seconds": 0.5, "connections_per_client": 8, "connections": 12, "rate": 0}
    process, url = start("--limits", json.dumps(limits))
    at = httpx.URL(url)
    yield at.host, at.port or 0
    process.kill()
    assert "Traceback" not in process.communicate()[1]


def connected(server: tuple[str, int], source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(server, timeout=10, source_address=(source, 0))


def answer(server: tuple[str, int], source: str = "127.0.0.1") -> int:
    with httpx.Client(transport=httpx.HTTPTransport(local_address=source), timeout=10) as client:
        return client.get(f"http://{server[0]}:{server[1]}/api/status").status_code


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_a_head_that_does_not_come_is_not_waited_for(sent: bytes, server: tuple[str, int]) -> None:
    with connected(server) as connection:
        connection.sendall(sent)
        assert connection.recv(100).startswith(b"HTTP/1.1 408")
        assert connection.recv(100) == b""


def test_a_head_that_drips_is_cut_off(server: tuple[str, int]) -> None:
    with connected(server) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        connection.settimeout(0.05)
        for _ in range(200):  # ten seconds, were it not cut off
            try:
                assert connection.recv(100).startswith(b"HTTP/1.1 408")
                break
            except TimeoutError:
                connection.sendall(b"X-Slow: 1\r\n")
        else:
            pytest.fail("still waited for")


def test_the_second_head_of_a_connection_is_timed_too(server: tuple[str, int]) -> None:
    with connected(server) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"200 OK" in connection.recv(4096)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        while connection.recv(4096):
            pass  # ends when the server cuts it off


def test_a_client_with_many_unfinished_requests_is_still_answered(server: tuple[str, int]) -> None:
    half = [connected(server) for _ in range(40)]
    for connection in half:
        connection.sendall(b"POST /api/search HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert answer(server) == 200
    assert answer(server, "127.0.0.2") == 200
    for connection in half:
        connection.close()


def test_many_clients_with_unfinished_requests_keep_nobody_out(server: tuple[str, int]) -> None:
    half = [connected(server, f"127.0.0.{2 + i}") for i in range(40)]
    assert answer(server) == 200
    for connection in half:
        connection.close()


def unread(server: tuple[str, int], source: str) -> socket.socket:
    """Asks for more than the buffers of both sides hold, and reads nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.bind((source, 0))
    connection.connect(server)
    connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000)
    return connection


def test_an_answer_that_is_not_read_is_not_kept_for_ever(server: tuple[str, int]) -> None:
    with unread(server, "127.0.0.1") as connection:
        ended = select.poll()
        ended.register(connection, select.POLLHUP)
        assert ended.poll(30_000)
        with pytest.raises(ConnectionResetError):
            list(iter(lambda: connection.recv(2**20), b""))


def test_clients_that_do_not_read_keep_nobody_out(server: tuple[str, int]) -> None:
    unheard = [unread(server, f"127.0.0.{2 + i}") for i in range(40)]
    for source in ("127.0.0.1", "127.0.0.2"):
        while (status := answer(server, source)) == 503:
            pass  # ends when their buffers are full: until then they are worked on
        assert status == 200
    for connection in unheard:
        connection.close()


def test_a_message_is_logged_once_and_then_counted() -> None:
    now = 0.0
    seldom = Seldom(60, lambda: now)

    def said(text: str, *args: object) -> str | None:
        record = logging.LogRecord("asyncio", logging.ERROR, "", 0, text, args, None)
        return record.getMessage() if seldom.filter(record) else None

    assert said("no file %d", 1) == "no file 1"
    assert [said("no file %d", i) for i in range(3)] == [None] * 3
    assert said("another") == "another"
    now = 61
    assert said("no file %d", 7) == "no file 7 (3 more like it in between)"
    assert said("no file %d", 8) is None
