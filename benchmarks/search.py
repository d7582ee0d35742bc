"""Search over HTTP beside the bare encoder and bare faiss, on generated vectors of 256 in the embedded store.

| what                                                  | target                                  |
|-------------------------------------------------------|-----------------------------------------|
| a text query at 10,000 and at 1,000,000 vectors       | 1.5 × (bare encode + bare search), p50  |
| 32 clients at once                                    | more queries/s than one after the other |

The server is a process of its own, with the exported model; the client writes and reads bare sockets, so that it adds
little. Every query is new, lest the searcher remember it, and each is also encoded and searched here, in turn: with the
same model in torch, and with the faiss index that the store uses at that size (flat, or its inverted lists with as many
probes). `rest` is what HTTP and all else take, as the client sees it. `cpu_ratio` is the server's CPU time by that of the
bare two, which other work on the machine can't blur; `cpu_ratio_onnx` the same with the exported model in torch's place.
"""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from vsekit.search.models import SearchModel

DIM, TOP, CLIENTS = 256, 20, 32
ENCODERS: dict[str, dict[str, Any]] = {
    "bag of words": {"encoder": {"kind": "bag_of_words", "word_dim": 256, "min_count": 1}, "pooling": "single"},
    "GRU": {"encoder": {"kind": "gru", "word_dim": 256, "dim": 256, "min_count": 1}, "pooling": "last"},
    "MiniLM": {"encoder": {"kind": "transformer", "model": "minilm"}, "pooling": "mean"},
}
WORDS = [
    "red orange yellow green blue purple brown black white grey golden silver pale dark bright",
    "dog cat horse bird man woman child boy girl car truck boat tree house ball bicycle table chair hat book",
    "running sitting sleeping jumping standing waiting playing lying swimming falling turning walking",
    "sand grass snow water street beach field road mountain kitchen garden bridge river hill market roof",
    "old new wet dry warm cold happy tired hungry slow fast quiet",
]


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """Rows of the report. `scale` shrinks the larger index and the number of queries."""
    asked = max(40, int(300 * scale))
    rows, held = [], {}
    with tempfile.TemporaryDirectory() as folder:
        exported = {name: export(name, Path(folder) / name) for name in ENCODERS}
        for n in (10_000, max(20_000, int(1_000_000 * scale))):
            place = Path(folder) / str(n)
            seconds = fill(place, n)
            for name in ENCODERS:
                with served(place, exported[name]) as (port, process):
                    rows.append(one_by_one(place, exported[name], port, n, asked))
                    rows.append(together(name, port, n, 2 * asked, rows[-1]["bare_ms"]))
                    held[n] = memory(process)
            rows[-1]["fill_s"] = seconds
        small, large = sorted(held)
        per_million = {key: (held[large][key] - held[small][key]) / (large - small) for key in held[large]}
        rows.append(
            {"name": "memory per million items", **{f"{key}_mib": mib * 1e6 for key, mib in per_million.items()}}
        )
    return rows


def sentence(i: int) -> str:
    """The i-th of 691,200 different ones."""
    words = []
    for choices in map(str.split, WORDS):
        i, at = divmod(i, len(choices))
        words.append(choices[at])
    return "a {} {} is {} near the {}, and it is {}".format(*words)


def model(name: str) -> SearchModel:
    """A model with that text encoder. Its weights are not trained, which takes as long."""
    import torch

    from vsekit.data.views import ViewSettings
    from vsekit.models.model import VSE
    from vsekit.models.settings import ModelSettings
    from vsekit.search.models import VSEModel

    torch.manual_seed(0)
    torch.set_num_threads(1)
    image = {"encoder": {"kind": "small_cnn", "widths": [4], "pixels": 16}, "pooling": "single"}
    settings = ModelSettings.model_validate({"dim": DIM, "image": image, "text": ENCODERS[name]})
    tokenizer = settings.text.encoder.make_tokenizer(sentence(i) for i in range(0, 690_000, 500))
    return VSEModel(VSE(settings, tokenizer, ViewSettings(kind="1C", pixels=16, resize=20)), name)


def export(name: str, folder: Path) -> Path:
    """The same model as `vse index` leaves it, in a folder of the encoder's name."""
    from vsekit.export.folder import export_onnx
    from vsekit.export.sources import VSESource

    export_onnx(VSESource(model(name).model, name), folder)  # type: ignore[attr-defined]
    return folder


def exported_model(folder: Path) -> SearchModel:
    from vsekit.export.runtime import open_exported
    from vsekit.search.exported import ExportedModel

    return ExportedModel(open_exported(folder, threads=1), folder.name)


def fill(place: Path, n: int) -> float:
    """Makes the index: vectors in a cone and of few directions, as a trained model has them. The seconds it took."""
    from vsekit.search.items import Item
    from vsekit.search.stores import open_store

    rng = np.random.default_rng(0)
    directions = rng.standard_normal((48, DIM), dtype=np.float32)
    cone = 4 * rng.standard_normal(DIM, dtype=np.float32)
    start = time.perf_counter()
    with open_store(place, create=DIM) as store:
        for first in range(0, n, 50_000):
            rows = range(first, min(first + 50_000, n))
            vectors = rng.standard_normal((len(rows), 48), dtype=np.float32) @ directions + cone
            vectors += rng.standard_normal(vectors.shape, dtype=np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            items = [
                Item(f"{i:016x}", "image", f"/photos/{i % 100}/{i}.jpg", picture=f"{i:016x}", width=4000, height=3000,
                     content=f"{i:016x}", size=i, mtime_ns=i, meta={"year": 2000 + i % 25, "camera": f"camera {i % 9}"})
                for i in rows
            ]  # fmt: skip
            store.write(items, vectors)
    return time.perf_counter() - start


@contextmanager
def served(place: Path, exported: Path) -> Iterator[tuple[int, int]]:
    """The index served by a process of its own, with that exported model; its port and number."""
    command = [sys.executable, "-m", "benchmarks.search", str(place), str(exported)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        port = int(process.stdout.readline())
        try:
            while not ready(port):
                time.sleep(0.2)
            yield port, process.pid
        finally:
            process.terminate()


def ready(port: int) -> bool:
    with Connection(port) as connection:
        return connection.get("/readyz").status == 200


def main() -> None:
    from vsekit.memory import keep_freed_memory
    from vsekit.search.searcher import Searcher
    from vsekit.search.stores import open_store
    from vsekit.serve.limits import Limits
    from vsekit.serve.run import bind, serve

    keep_freed_memory()
    place, exported = sys.argv[1:]
    listener = bind("127.0.0.1", 0)
    print(listener.getsockname()[1], flush=True)
    serve(lambda: Searcher(open_store(place), exported_model(Path(exported))), listener, limits=Limits(rate=0))


class Reply(NamedTuple):
    status: int
    body: bytes


class Connection:
    """HTTP/1.1 over a socket that is kept."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.socket.close()

    def get(self, path: str) -> Reply:
        return self._ask(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def search(self, query: str) -> dict[str, Any]:
        body = json.dumps({"query": query, "top": TOP}).encode()
        head = "POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        reply = self._ask(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        if reply.status != 200:
            raise RuntimeError(reply.body.decode())
        return json.loads(reply.body)

    def _ask(self, request: bytes) -> Reply:
        self.socket.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._received()
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split()[0])
        while len(body) < length:
            body += self._received()
        return Reply(int(head.split()[1]), body)

    def _received(self) -> bytes:
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server has hung up")
        return data


def bare_search(place: Path) -> Any:
    """The faiss index that the store uses, as a function of queries; the query for more candidates is the store's own."""
    import faiss

    from vsekit.search.stores import approximate, open_store

    with open_store(place) as store:
        view = store._retrying(lambda connection: store._views.get(connection, "image"))  # type: ignore[attr-defined]
        if view.ann is None:
            index = faiss.IndexFlatIP(DIM)
            index.add(np.ascontiguousarray(view.vectors))
            return lambda query: index.search(query, TOP + 1)
        probes = round(view.probes * max(1.0, (TOP + 1) / approximate.TOP) ** 0.5)
    return lambda query: approximate.candidates(view.ann, query, TOP + 1, probes, None)


def one_by_one(place: Path, exported: Path, port: int, n: int, asked: int) -> dict[str, Any]:
    name, onnx = exported.name, exported_model(exported)
    encoder, search = model(name), bare_search(place)
    times: dict[str, list[float]] = {key: [] for key in ("http", "encode", "search", "bare_encode", "bare_search")}
    cpu = {"server": 0.0, "bare": 0.0, "onnx": 0.0}
    with Connection(port) as connection:
        for i in range(-20, asked):  # the first ones warm up
            if i == 0:
                times = {key: [] for key in times}
                cpu = {"server": -server_cpu(connection), "bare": 0.0, "onnx": 0.0}
            before, started = time.process_time(), time.perf_counter()
            vector = encoder.encode_texts([sentence(i + 1000)])
            encoded = time.perf_counter()
            search(vector)
            searched = time.perf_counter()
            cpu["bare"] += (after := time.process_time()) - before
            search(onnx.encode_texts([sentence(i + 1000)]))
            cpu["onnx"] += time.process_time() - after
            start = time.perf_counter()
            answer = connection.search(sentence(i + 1000))
            times["http"].append(1e3 * (time.perf_counter() - start))
            times["encode"].append(answer["timing"]["encode"])
            times["search"].append(answer["timing"]["search"])
            times["bare_encode"].append(1e3 * (encoded - started))
            times["bare_search"].append(1e3 * (searched - encoded))
        cpu["server"] += server_cpu(connection)
    p50 = {key: statistics.median(values) for key, values in times.items()}
    bare = p50["bare_encode"] + p50["bare_search"]
    return {
        "name": f"text query over HTTP, {n:,} vectors, {name}",
        "p50_ms": p50["http"],
        "p95_ms": float(np.quantile(times["http"], 0.95)),
        "encode_ms": p50["encode"],
        "search_ms": p50["search"],
        "rest_ms": p50["http"] - p50["encode"] - p50["search"],
        "yardstick": f"bare encode {p50['bare_encode']:.2f} ms + bare faiss {p50['bare_search']:.2f} ms",
        "bare_ms": bare,
        "ratio": p50["http"] / bare,
        "cpu_ms": 1e3 * cpu["server"] / asked,
        "cpu_ratio": cpu["server"] / cpu["bare"],
        "cpu_ratio_onnx": cpu["server"] / cpu["onnx"],
        "target": 1.5,
    }


def together(name: str, port: int, n: int, asked: int, bare_ms: float) -> dict[str, Any]:
    """Queries a second when `CLIENTS` ask at once, each its next query when it has the answer."""
    with Connection(port) as connection:
        before = [metric(connection, f"vsekit_batch_queries_{what}") for what in ("sum", "count")]
    queries = iter([sentence(i) for i in range(100_000, 100_000 + asked)])
    lock = threading.Lock()

    def client() -> None:
        with Connection(port) as connection:
            while True:
                with lock:
                    query = next(queries, None)
                if query is None:
                    return
                connection.search(query)

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = asked / (time.perf_counter() - start)
    with Connection(port) as connection:
        batched = [metric(connection, f"vsekit_batch_queries_{what}") for what in ("sum", "count")]
    return {
        "name": f"{CLIENTS} clients, {n:,} vectors, {name}",
        "rate": rate,
        "yardstick": f"bare encode and search, one after the other: {1e3 / bare_ms:.0f}/s",
        "ratio": rate * bare_ms / 1e3,
        "mean_batch": (batched[0] - before[0]) / (batched[1] - before[1]),
    }


def metric(connection: Connection, name: str) -> float:
    lines = connection.get("/metrics").body.decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.split()[0] == name)


def server_cpu(connection: Connection) -> float:
    return metric(connection, "process_cpu_seconds_total")


def memory(process: int) -> dict[str, float]:
    """MiB of the server: its own, and of mapped files, which the system may take back (Linux)."""
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return {}
    text = status.read_text()
    return {
        name: int(text.split(key)[1].split()[0]) / 1024 for name, key in (("own", "RssAnon:"), ("mapped", "RssFile:"))
    }


if __name__ == "__main__":
    main()
