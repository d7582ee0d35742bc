from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tools.weaknesses import NOT_CHECKED, reachable, report


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_database_is_one_that_knows_weaknesses() -> None:
    for status, body, known in (
        (200, {"vulnerabilities": []}, True),
        (200, {"info": {}}, False),
        (404, {"vulnerabilities": []}, False),
    ):
        with answering(status, json.dumps(body).encode()) as address:
            assert reachable(address) == known
    with answering(200, b"<html>") as address:
        assert not reachable(address)


def test_where_there_is_no_network_it_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # never answers
        assert not reachable(f"http://127.0.0.1:{silent.getsockname()[1]}/", seconds=0.5)
    assert not reachable("http://127.0.0.1:1/")


def test_without_a_database_lint_goes_on_and_says_so() -> None:
    assert report(None) == (0, [NOT_CHECKED])


def test_a_known_weakness_fails_lint_and_is_named() -> None:
    sound = {"name": "sound", "version": "1.0", "vulns": []}
    weak = {"name": "weak", "version": "2.0", "vulns": [{"id": "PYSEC-1"}]}
    unknown = {"name": "unknown", "skip_reason": "not there"}
    assert report([sound]) == (0, ["pip-audit: 1 packages checked, 0 known weaknesses."])
    code, said = report([sound, weak, unknown])
    assert code == 1
    assert "  weak 2.0: PYSEC-1" in said
    assert "NOT checked" in said[-1]
    assert said[-1].endswith("unknown.")
