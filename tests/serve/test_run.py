from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from vsekit.errors import UserError
from vsekit.serve.run import address, bind, is_loopback

ROOT = Path(__file__).parents[2]


def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """The generated index served by a process of its own, and where."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "tests.serve.fake", "--port", "0", "--items", "12", *arguments]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    url = process.stdout.readline().strip()
    while httpx.get(f"{url}readyz").status_code != 200:
        time.sleep(0.02)
    return process, url


@pytest.fixture
def slow() -> Iterator[tuple[subprocess.Popen[str], str]]:
    process, url = start("--seconds", "1.5")
    yield process, url
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_finishes_what_it_is_doing(
    number: signal.Signals, slow: tuple[subprocess.Popen[str], str]
) -> None:
    process, url = slow
    answers: list[httpx.Response] = []

    def ask(query: str) -> None:
        answers.append(httpx.post(f"{url}api/search", json={"query": query}, timeout=30))

    # One is being worked on and the others wait for it when the signal comes.
    threads = [threading.Thread(target=ask, args=(query,)) for query in ("red", "green", "blue")]
    for thread in threads:
        thread.start()
    while "vsekit_requests_in_flight 4.0" not in httpx.get(f"{url}metrics").text:
        time.sleep(0.01)
    process.send_signal(number)
    for thread in threads:
        thread.join()
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert all(answer.json()["hits"] for answer in answers)
    assert process.wait(10) == 0
    assert process.stderr
    assert process.stderr.read() == ""
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}healthz")


def test_a_taken_port_is_an_error_with_a_remedy() -> None:
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UserError, match=rf"port {port} of 127.0.0.1 is taken\n.*--port 0 picks"):
            bind("127.0.0.1", port)


def test_an_address_that_is_not_this_machines_is_an_error() -> None:
    with pytest.raises(UserError, match=r"can't listen at 192\.0\.2\.1"):
        bind("192.0.2.1", 0)
    with pytest.raises(UserError, match="no such host"):
        bind("no such host", 0)


def test_the_address_is_one_to_click_on() -> None:
    with bind("127.0.0.1", 0) as listener:
        assert address(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}/"
    with bind("0.0.0.0", 0) as listener:
        assert address(listener) == f"http://{socket.gethostname()}:{listener.getsockname()[1]}/"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("localhost", True), ("0.0.0.0", False),
     ("::", False), ("192.168.0.2", False), ("photos.example", False)],
)  # fmt: skip
def test_loopback_is_told_from_the_world(host: str, loopback: bool) -> None:
    assert is_loopback(host) == loopback
