"""The embedded store beside bare faiss on the same vectors: recall, CPU time of a query, memory, writing.

Generated vectors of 256, pictures and texts in two cones apart as trained models have them (the mean cosine is 0.5 between
pictures, 0.0 between a picture and a text, 0.3 between a picture and its text). Queries are texts that the store has never
seen; recall@10 is against exact search. One thread; CPU time is the median of single queries.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vsekit.search.filters import parse
from vsekit.search.items import Item
from vsekit.search.stores import approximate, exact
from vsekit.search.stores.embedded import EmbeddedStore

DIM, QUERIES, TOP = 256, 300, 10
COUNT, ABOVE, EXACT = 250_000, 200_000, 100_000


def cones(count: int, texts: int) -> tuple[np.ndarray, np.ndarray]:
    """(count, DIM) pictures and (texts, DIM) texts about some of them, of unit length."""
    rng = np.random.default_rng(0)
    topics = rng.standard_normal((1000, DIM), dtype=np.float32)
    inside = topics[rng.integers(0, 1000, count)]
    inside += 0.7 * rng.standard_normal((count, DIM), dtype=np.float32)
    about = inside[rng.integers(0, count, texts)] + 0.7 * rng.standard_normal((texts, DIM), dtype=np.float32)
    for side in (inside, about):
        side *= 0.6
        side += rng.standard_normal(DIM, dtype=np.float32)
        side += 0.6 * rng.standard_normal(side.shape, dtype=np.float32)
        side /= np.linalg.norm(side, axis=1, keepdims=True)
    return inside, about


def items(count: int) -> list[Item]:
    """With metadata as photographs have it."""
    return [
        Item(
            f"{i:07d}", "image", f"/photos/{i // 1000}/{i:07d}.jpg", "", f"{i:07d}", 4000, 3000, f"{i:016x}", i, i,
            {"year": 2000 + i % 25, "camera": f"camera {i % 40}", "folder": f"{i // 1000}", "name": f"{i:07d}.jpg",
             "iso": 100 * (i % 64), "flash": i % 3 == 0, "month": i % 12 + 1, "width": 4000},
        )
        for i in range(count)
    ]  # fmt: skip


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """Args: scale: of the numbers of vectors, and of the threshold above which search is approximate."""
    rows: list[dict[str, Any]] = []
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        for work, count in (
            (writing, COUNT),
            (searching, COUNT),
            (memory, COUNT),
            (writing, EXACT),
            (searching, EXACT),
        ):
            with context.Pool(1) as pool:
                rows += pool.apply(work, (Path(folder) / f"{count}", max(500, int(count * scale)), scale))
    return rows


def opened(folder: Path, scale: float, create: int | None = None) -> EmbeddedStore:
    import faiss

    faiss.omp_set_num_threads(1)
    return EmbeddedStore(folder, create, approximate_above=int(ABOVE * scale))


def cpu_ms(step: Callable[[int], object], repeats: int) -> float:
    """The median over queries."""
    times = []
    for i in range(repeats):
        start = time.process_time()
        step(i)
        times.append(time.process_time() - start)
    return 1e3 * float(np.median(times))


def writing(folder: Path, count: int, scale: float) -> list[dict[str, Any]]:
    vectors, _ = cones(count, QUERIES)  # the same as `searching` has
    new = items(count)
    store = opened(folder, scale, DIM)
    start = time.process_time()
    for first in range(0, count, 500):
        store.write(new[first : first + 500], vectors[first : first + 500])
    store.close()
    seconds = time.process_time() - start
    size = sum(file.stat().st_size for file in folder.iterdir())
    name = f"embedded store, writing {count:,} items with 8 fields, and its index where there is one"
    return [
        {"name": name, "rate": count / seconds, "cpu_s": seconds, "disk_mib_per_million": size / count * 1e6 / 2**20}
    ]


def searching(folder: Path, count: int, scale: float) -> list[dict[str, Any]]:
    import faiss

    vectors, texts = cones(count, QUERIES)
    flat = faiss.IndexFlatIP(DIM)
    flat.add(vectors)
    with opened(folder, scale) as store:
        bare = cpu_ms(lambda i: flat.search(texts[i : i + 1], TOP), 50)
        rows = []
        for filter in (None, "camera = 'camera 7'", "year >= 2010"):
            test = None if filter is None else parse(filter)
            found = [store.search(text[None], TOP, kind="image", filter=test)[0].ids for text in texts]
            took = cpu_ms(lambda i, test=test: store.search(texts[i : i + 1], TOP, kind="image", filter=test), 50)
            allowed = np.array([test is None or test.matches(item.meta) for item in items(count)])
            scores = np.where(allowed, texts @ vectors.T, -np.inf)
            best = np.argpartition(-scores, TOP, axis=1)[:, :TOP]
            hits = [len({f"{i:07d}" for i in row} & set(ids)) for row, ids in zip(best, found)]
            way = "exact" if count <= ABOVE * scale else "approximate"
            rows.append(
                {
                    "name": f"embedded store, text query on {count:,} pictures, {way}" + f", {filter}" * bool(filter),
                    "recall@10": sum(hits) / TOP / QUERIES,
                    "cpu_ms": took,
                    "yardstick_cpu_ms": bare,
                    "ratio": took / bare,
                    "target": "recall@10 0.99; yardstick: faiss.IndexFlatIP",
                }
            )
        if count > ABOVE * scale:
            rows.append(tuned_on_pictures(vectors, texts))
        start = time.process_time()
        store.fields()
        rows.append(
            {"name": f"fields of {count:,} pictures, first time", "cpu_ms": 1e3 * (time.process_time() - start)}
        )
        rows.append({"name": "… and again", "cpu_ms": cpu_ms(lambda i: store.fields(), 5)})
    return rows


def tuned_on_pictures(vectors: np.ndarray, texts: np.ndarray) -> dict[str, Any]:
    """What the same index would find for texts, had its effort been measured with pictures as queries."""
    ids = np.arange(len(vectors))
    with tempfile.TemporaryDirectory() as folder:
        index = approximate.build(vectors, ids, Path(folder) / "index.ivf")
    pictures = vectors[:: len(vectors) // approximate.SAMPLES][: approximate.SAMPLES]
    effort = approximate.effort(index, vectors, pictures, exact.true_best(vectors, pictures, TOP, ids))
    found = approximate.candidates(index, texts, effort.probes, effort.depth, None)
    true = exact.true_best(vectors, texts, TOP, ids)
    hits = sum(len(np.intersect1d(one, other)) for one, other in zip(true, found))
    return {
        "name": "the same index, tuned with pictures as queries",
        "recall@10": hits / TOP / len(texts),
        "recall@10 of pictures": effort.recall,
    }


def memory(folder: Path, count: int, scale: float) -> list[dict[str, Any]]:
    """What searching takes beside the vectors, which are mapped and which the system may drop at any time."""
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((50, DIM), dtype=np.float32)
    with tempfile.TemporaryDirectory() as other, opened(Path(other) / "small", scale, DIM) as small:
        small.write(items(100), queries[:1].repeat(100, axis=0))
        small.search(queries, TOP, kind="image")  # loads what any index takes
    before = anonymous_mib()
    with opened(folder, scale) as store:
        for query in queries:
            store.search(query[None], TOP, kind="image")
        grown = anonymous_mib() - before
    per_million = 1e6 / count
    return [
        {
            "name": f"memory of the embedded store, from {count:,} pictures",
            "mib_per_million": grown * per_million,
            "mapped_mib_per_million": 4 * DIM * 1e6 / 2**20,
        }
    ]


def anonymous_mib() -> float:
    """What the process holds that is not mapped from a file, once it has given back what it no longer needs."""
    ctypes.CDLL(None).malloc_trim(0)
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")) / 1024


if __name__ == "__main__":
    for row in run():
        print(row)
