"""Searching with the exported starter: from a cold start, in a process that serves, and beside bare onnxruntime and faiss.

| what                                                       | target          |
|------------------------------------------------------------|-----------------|
| `vse search INDEX "words"`, 1,000 photographs, cold        | 1.0 CPU-second  |
| `vse serve` is ready                                       | 2 seconds       |
| memory of that process, words and a picture asked          | 400 MiB         |
| first thumbnail after the first answer, 100,000 items      | 100 ms          |

The index holds generated vectors; the photographs are 16 generated JPEGs of 12 megapixels, to which all items point.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.search import TOP, Connection, memory, ready, sentence

PHOTOGRAPHS = 16


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """Rows of the report. `scale` shrinks the large index and the number of queries."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["VSEKIT_CACHE"] = str(folder / "cache")
        photographs = _photographs(folder / "photographs")
        small, large = folder / "small", folder / "large"
        _fill(small, 1000, photographs)
        _fill(large, max(2000, int(100_000 * scale)), photographs)
        return [_cold(small), _served(small, photographs[0]), _thumbnail(large), _in_process(large, scale)]


def _photographs(folder: Path) -> list[Path]:
    """JPEGs of 4000 × 3000: slopes with some noise, about 3 MB each."""
    from PIL import Image

    folder.mkdir()
    rng, paths = np.random.default_rng(0), []
    for i in range(PHOTOGRAPHS):
        coarse = rng.integers(0, 256, (30, 40, 3), dtype=np.uint8)
        noise = rng.integers(0, 24, (3000, 4000, 1), dtype=np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize((4000, 3000), Image.Resampling.BICUBIC))
        paths.append(folder / f"{i}.jpg")
        Image.fromarray(smooth // 2 + noise + 50).save(paths[-1], quality=88)
    return paths


def _fill(place: Path, n: int, photographs: list[Path]) -> None:
    """An index of the starter: generated vectors, calibrated, with the model that `vse index` keeps."""
    from vsekit.search.calibration import calibrate
    from vsekit.search.exported import keep
    from vsekit.search.items import Item
    from vsekit.search.models import load_search_model
    from vsekit.search.stores import open_store

    model, rng = load_search_model("starter"), np.random.default_rng(0)
    directions = rng.standard_normal((48, model.dim), dtype=np.float32)
    states = [(path.stat().st_size, path.stat().st_mtime_ns) for path in photographs]
    with open_store(place, create=model.dim) as store:
        for first in range(0, n, 20_000):
            rows = range(first, min(first + 20_000, n))
            vectors = rng.standard_normal((len(rows), 48), dtype=np.float32) @ directions
            vectors += 4 * directions[0] + rng.standard_normal(vectors.shape, dtype=np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            items = []
            for i in rows:
                id_, at = f"{i:016x}", i % len(photographs)
                size, changed = states[at]
                items.append(
                    Item(id_, "image", str(photographs[at]), picture=id_, width=4000, height=3000, content=id_, size=size,
                         mtime_ns=changed, meta={"year": 2000 + i % 25})
                )  # fmt: skip
            store.write(items, vectors)
        keep(model, store)
        header = {"model": model.name, "fingerprint": model.fingerprint, "roots": [str(photographs[0].parent)]}
        store.set_header(header | {"calibration": calibrate(store, model), "complete": True})


def _cold(place: Path) -> dict[str, Any]:
    ours, seconds = _process(place)
    reference, _ = _process(place, VSEKIT_CACHE=str(place / "nothing"))
    return {
        "name": 'vse search INDEX "words", 1,000 photographs, from a cold start',
        "cpu_s": ours,
        "wall_s": seconds,
        "yardstick": f"the same with torch, {reference:.2f} CPU-s",
        "ratio": ours / reference,
        "target": 1.0,
    }


def _process(place: Path, **environment: str) -> tuple[float, float]:
    """CPU and wall seconds of the command, once to warm the disk's cache and once to count."""
    command = [sys.executable, "-m", "vsekit", "search", str(place), "a brown dog on sand", "--json", "--no-pictures"]
    for _ in range(2):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


@contextmanager
def _server(place: Path) -> Iterator[tuple[int, int, float]]:
    """`vse serve`, ready: its port, its number, and the seconds it took."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "vsekit", "serve", str(place), "--port", "0", "--rate", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        port = int(process.stdout.readline().strip().rstrip("/").rpartition(":")[2])
        try:
            while not ready(port):
                time.sleep(0.02)
            yield port, process.pid, time.perf_counter() - start
        finally:
            process.terminate()


def _served(place: Path, picture: Path) -> dict[str, Any]:
    import httpx

    with _server(place) as (port, process, seconds):
        ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
        with Connection(port) as connection:
            for i in range(100):
                connection.search(sentence(i))
        words = memory(process)
        with picture.open("rb") as file:
            url = f"http://127.0.0.1:{port}/api/search/picture"
            httpx.post(url, files={"file": file}, timeout=60).raise_for_status()
        both = memory(process)
    return {
        "name": "vse serve with the starter, 1,000 photographs",
        "ready_s": seconds,
        "cpu_s": sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"),
        "target": "2 s, 400 MiB",
        "words_mib": sum(words.values()),
        "words_and_picture_mib": sum(both.values()),
    }


def _thumbnail(place: Path) -> dict[str, Any]:
    """A server is started anew for each, and left alone for a second, as a person does who types."""
    firsts, rests = [], []
    for i in range(5):
        with _server(place) as (port, _, _), Connection(port) as connection:
            time.sleep(1)
            hits = connection.search(sentence(i))["hits"]
            for times, hit in ((firsts, hits[0]), (rests, hits[1])):
                start = time.perf_counter()
                assert connection.get(hit["thumbnail"]).status == 200
                times.append(1e3 * (time.perf_counter() - start))
    return {
        "name": "first thumbnail after the answer, 100,000 items, 12 megapixels",
        "p50_ms": statistics.median(firsts),
        "most_ms": max(firsts),
        "next_ms": statistics.median(rests),
        "target": 100,
    }


def _in_process(place: Path, scale: float) -> dict[str, Any]:
    """A search with words beside the bare text graph and a flat faiss index of the same vectors."""
    import faiss

    from vsekit.search.opening import load_searcher
    from vsekit.search.stores import open_store

    times: dict[str, list[float]] = {"ours": [], "bare": []}
    with open_store(place) as store:
        searcher = load_searcher(store)
        exported = searcher.model.exported  # type: ignore[attr-defined]
        session, reader = exported.text_session, exported.sentences
        index = faiss.IndexFlatIP(store.dim)
        index.add(np.concatenate([store.vectors([f"{i:016x}" for i in range(store.count("image"))])]))
        faiss.omp_set_num_threads(1)
        for i in range(-10, max(40, int(300 * scale))):
            start = time.perf_counter()
            searcher.search(sentence(i + 1000), top=TOP)
            middle = time.perf_counter()
            (ids,) = reader([sentence(i + 1000)])
            inputs = {"ids": ids[None].astype(np.int64), "lengths": np.array([len(ids)])}
            index.search(session.run(None, inputs)[0], TOP)
            if i >= 0:
                times["ours"].append(1e3 * (middle - start))
                times["bare"].append(1e3 * (time.perf_counter() - middle))
    p50 = {key: statistics.median(values) for key, values in times.items()}
    p95 = {key: float(np.quantile(values, 0.95)) for key, values in times.items()}
    return {
        "name": "encode and search, 100,000 vectors, the starter, in one process",
        "p50_ms": p50["ours"],
        "p95_ms": p95["ours"],
        "yardstick": f"bare onnxruntime and flat faiss: {p50['bare']:.2f} ms, p95 {p95['bare']:.2f}",
        "ratio": p50["ours"] / p50["bare"],
    }
