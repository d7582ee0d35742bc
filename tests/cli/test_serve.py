"""`vse serve` as a person meets it: a real process over a real index, made by a small real model."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import torch
from PIL import Image
from tests.models.conftest import VIEW, WORDS, settings

from vsekit.models.model import VSE
from vsekit.search.indexing import index

pytest.importorskip("faiss")
PROGRAM = "from vsekit.cli import main; main()"
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, an index of three pictures, and the pictures."""
    folder = tmp_path_factory.mktemp("serve")
    torch.manual_seed(0)
    VSE(settings(), WORDS, VIEW).save(folder / "model")
    (folder / "photos").mkdir()
    for name in ("red", "green", "blue"):
        Image.new("RGB", (30, 20), name).save(folder / "photos" / f"{name}.png")
    index(folder / "model", folder / "photos", folder / "index")
    return folder


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-c", PROGRAM, "serve", *map(str, arguments)]


@contextmanager
def serving(*arguments: str | Path, **environment: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    process = subprocess.Popen(
        command(*arguments, "--port", "0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ONE_THREAD, **environment},
    )
    try:
        assert process.stdout
        port = httpx.URL(process.stdout.readline().strip()).port
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            while client.get("/readyz").status_code != 200:
                assert process.poll() is None
                time.sleep(0.02)
            yield client, process
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


def refused(*arguments: str | Path) -> str:
    result = subprocess.run(command(*arguments), capture_output=True, text=True, env=ONE_THREAD)
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr


def names(client: httpx.Client) -> set[str]:
    answer = client.post("/api/search", json={"query": "a red dog"})
    assert answer.status_code == 200, answer.text
    return {hit["name"] for hit in answer.json()["hits"]}


def test_an_index_is_served_and_what_is_indexed_meanwhile_shows_up(made: Path) -> None:
    with serving(made / "index") as (client, _):
        assert names(client) == {"red.png", "green.png", "blue.png"}
        hit = client.post("/api/search", json={"query": "red wall", "top": 1}).json()["hits"][0]
        assert client.get(hit["picture_url"]).content == (made / "photos" / hit["name"]).read_bytes()
        assert client.get(hit["thumbnail"]).headers["content-type"] == "image/jpeg"
        assert client.post("/api/why", json={"query": "red wall", "id": hit["id"]}).status_code == 200
        files = {"file": (made / "photos" / "blue.png").read_bytes()}
        assert client.post("/api/search/picture", files=files).json()["hits"][0]["name"] == "blue.png"
        Image.new("RGB", (30, 20), "white").save(made / "photos" / "white.png")
        (made / "photos" / "red.png").unlink()
        index(made / "model", made / "photos", made / "index")
        assert names(client) == {"white.png", "green.png", "blue.png"}
        status = client.get("/api/status").json()
        assert (status["pictures"], status["store"], status["dim"]) == (3, "embedded", 12)


def test_the_token_comes_from_the_environment_and_requests_are_logged_without_words(made: Path) -> None:
    with serving(made / "index", "--log", "requests", VSEKIT_TOKEN="secret") as (client, process):
        assert client.get("/api/status").status_code == 401
        assert client.get("/api/status", headers={"Host": "evil.example"}).status_code == 421
        client.headers["Authorization"] = "Bearer secret"
        names(client)
        process.send_signal(signal.SIGINT)
        process.wait(20)
        assert process.stderr
        log = process.stderr.read()
    assert "POST /api/search 200" in log
    assert "dog" not in log


def test_a_taken_port_names_the_way_out(made: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        message = refused(made / "index", "--port", port)
    assert f"port {port} of 127.0.0.1 is taken" in message
    assert "--port 0" in message


def test_mistakes_are_told(made: Path, tmp_path: Path) -> None:
    assert "there is no index here" in refused(tmp_path, "--port", "0")
    assert "can't log 'all'" in refused(made / "index", "--log", "all")
    assert "the token is empty" in refused(made / "index", "--token", "")
    # Found only when loading, after the port is open.
    torch.manual_seed(1)
    VSE(settings(), WORDS, VIEW).save(tmp_path / "other")
    assert "made with another model" in refused(made / "index", "--model", tmp_path / "other", "--port", "0")


def test_a_server_for_everyone_without_a_token_is_warned_about(made: Path) -> None:
    with serving(made / "index", "--host", "0.0.0.0") as (client, process):
        assert client.get("/healthz").status_code == 200
        process.terminate()
        process.wait(20)
        assert process.stderr
        assert "--token" in process.stderr.read()
