"""Shards come from any address; what fails on the way is tried again, and what stays away is told with a remedy."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import fsspec
import pytest
from tests.data.stream.shards import write_shards

from vsekit.data.readers.problems import Problem
from vsekit.data.stream import fetching, reading
from vsekit.data.stream.reading import samples
from vsekit.data.stream.tar import Sample
from vsekit.errors import UserError


class Server(http.server.SimpleHTTPRequestHandler):
    """Files of a folder; `drops` says how many answers still end after half of the file, `silent` that none comes at all."""

    drops = 0
    silent = threading.Event()
    asked: list[str]

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        if self.silent.is_set():
            threading.Event().wait(2)
            return
        if type(self).drops > 0:
            type(self).drops -= 1
            data = Path(self.translate_path(self.path)).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
            return
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[type[Server], str]]:
    monkeypatch.setattr(reading, "WAITS", (0.0, 0.0))
    handler = type("Handler", (Server,), {"asked": [], "silent": threading.Event()})
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(tmp_path)))
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    yield handler, f"http://127.0.0.1:{web.server_port}"
    web.shutdown()
    web.server_close()


def keys(shard: str, start: int = 0) -> list[str]:
    return [item.key for item in samples(shard, start) if isinstance(item, Sample)]


EXPECTED = [f"s0k{n}" for n in range(40)]


def test_a_shard_comes_over_http(server: tuple[type[Server], str], tmp_path: Path) -> None:
    write_shards(tmp_path, [40])
    assert keys(f"{server[1]}/train-0.tar") == EXPECTED
    assert keys(f"{server[1]}/train-0.tar", 30) == EXPECTED[30:]


@pytest.mark.parametrize("drops", [1, 2])
def test_a_connection_that_drops_in_the_middle_costs_no_sample(
    server: tuple[type[Server], str], tmp_path: Path, drops: int
) -> None:
    write_shards(tmp_path, [40])
    server[0].drops = drops
    assert keys(f"{server[1]}/train-0.tar") == EXPECTED
    assert server[0].asked.count("/train-0.tar") >= drops + 1


def test_a_server_that_always_drops_is_told_with_the_shard_and_what_to_do(
    server: tuple[type[Server], str], tmp_path: Path
) -> None:
    write_shards(tmp_path, [40])
    server[0].drops = 1000
    with pytest.raises(UserError, match="can't be read, tried 3 times") as error:
        keys(f"{server[1]}/train-0.tar")
    assert f"{server[1]}/train-0.tar" in str(error.value)
    assert "--resume" in str(error.value)


def test_a_server_that_says_nothing_is_not_waited_for(
    server: tuple[type[Server], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shards(tmp_path, [2])
    monkeypatch.setattr(fetching, "SILENCE", 0.3)
    server[0].silent.set()
    with pytest.raises(UserError, match="no answer"):
        keys(f"{server[1]}/train-0.tar")


def test_all_tries_together_take_less_than_a_minute() -> None:
    assert (len(reading.WAITS) + 1) * fetching.SILENCE + sum(reading.WAITS) < 55


def test_a_shard_that_is_not_there_is_told(server: tuple[type[Server], str]) -> None:
    for address in (f"{server[1]}/gone.tar", "memory://gone.tar", "gone.tar"):
        with pytest.raises(UserError, match="no such file") as error:
            keys(address)
        assert address in str(error.value)


def test_any_file_system_of_fsspec_will_do(tmp_path: Path) -> None:
    write_shards(tmp_path, [5])
    with fsspec.open("memory://bucket/train-0.tar", "wb") as file:
        file.write((tmp_path / "train-0.tar").read_bytes())
    assert keys("memory://bucket/train-0.tar") == EXPECTED[:5]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.registry import known_implementations

    monkeypatch.setitem(known_implementations, "far", {"class": "farfs.Far", "err": "Install farfs to go far"})
    with pytest.raises(UserError, match="Install farfs"):
        keys("far://bucket/train-0.tar")
    with pytest.raises(UserError, match="nowhere"):
        keys("nowhere://bucket/train-0.tar")


def test_a_shard_cut_off_on_the_server_is_named_after_a_second_look(
    server: tuple[type[Server], str], tmp_path: Path
) -> None:
    write_shards(tmp_path, [40])
    path = tmp_path / "train-0.tar"
    path.write_bytes(path.read_bytes()[: 512 * 20])
    items = list(samples(f"{server[1]}/train-0.tar"))
    assert [item.key for item in items[:-1] if isinstance(item, Sample)] == EXPECTED[: len(items) - 1]
    assert isinstance(items[-1], Problem)
    assert (items[-1].kind, items[-1].at.file) == ("damaged-shard", f"{server[1]}/train-0.tar")
