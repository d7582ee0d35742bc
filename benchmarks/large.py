"""The embedded store with hundreds of thousands to ten million vectors, beside faiss' own HNSW and IVF on the same, in one run.

    vse embed starter --data flickr8k --out vectors/flickr8k
    python -m benchmarks.large --vectors vectors/flickr8k --size 300000 --size 1000000 --folder DIR --json FILE

The vectors are a model's own, of pictures, on the 256 main directions of what it makes of pictures and sentences, turned at
random: a model's own coordinates have no order, either. There are some thousands of them, and they are spread to as many as
wanted: a new one is as far from a real one as a near neighbour of that is, in a random direction of those in which its near
neighbours lie. So neighbourhoods keep their extent and their few dimensions, which noise in all 256 would not leave them.
Queries are the model's own sentences, as they are; others of them tune the effort of each index.

One thread. Every measurement is a process of its own, and is written down when it ends: started again, it goes on.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.stores import anonymous_mib
from vsekit.files import write_json
from vsekit.search.items import Item
from vsekit.search.stores.approximate import TARGET
from vsekit.search.stores.embedded import EmbeddedStore
from vsekit.search.stores.exact import true_best

DIM, TOP, NEAR, BLOCK = 256, 10, 8, 16384
TUNING, QUERIES = 256, 300
ASKED = 2000  # pictures of a collection, whose first captions are the sentences
MEMORY = 6 * 2**30  # bytes that an index in memory may take


class Vectors:
    """pictures: (n, DIM), of unit length, of a model. tuning, queries: likewise of sentences, each of another picture."""

    def __init__(self, folders: Sequence[Path]) -> None:
        arrays = {name: [np.load(folder / f"{name}.npy", mmap_mode="r") for folder in folders] for name in FILES}
        pictures = _units(np.concatenate(arrays["images"]))
        first = [np.unique(groups, return_index=True)[1][:ASKED] for groups in arrays["caption_groups"]]
        sentences = _units(np.concatenate([one[rows] for one, rows in zip(arrays["captions"], first)]))
        _, directions = np.linalg.eigh(pictures.T @ pictures / len(pictures) + sentences.T @ sentences / len(sentences))
        turn, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((DIM, DIM)))
        main = (directions[:, ::-1][:, :DIM] @ turn).astype(np.float32)
        self.pictures, sentences = _units(pictures @ main), _units(sentences @ main)
        chosen = sentences[np.random.default_rng(0).permutation(len(sentences))[: TUNING + QUERIES]]
        self.tuning, self.queries = chosen[:TUNING], chosen[TUNING:]
        products = self.pictures @ self.pictures.T
        np.fill_diagonal(products, -2)
        self.near = np.argpartition(-products, NEAR, axis=1)[:, :NEAR]

    def blocks(self, count: int) -> Iterator[np.ndarray]:
        """The first `count` of the spread vectors."""
        for start in range(0, count, BLOCK):
            yield self._block(start // BLOCK)[: count - start]

    def _block(self, number: int) -> np.ndarray:
        rng = np.random.default_rng([7, number])
        chosen = rng.integers(0, len(self.pictures), BLOCK)
        origin = self.pictures[chosen]
        away = self.pictures[self.near[chosen]] - origin[:, None]
        direction = np.einsum("nk,nkd->nd", rng.standard_normal((BLOCK, NEAR), dtype=np.float32), away)
        far = np.linalg.norm(away[np.arange(BLOCK), rng.integers(0, NEAR, BLOCK)], axis=1)
        direction *= (far / np.linalg.norm(direction, axis=1))[:, None]
        return _units(origin + direction)


FILES = ("images", "captions", "caption_groups")


def _units(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / lengths)[lengths[:, 0] > 0].astype(np.float32)


def truth(vectors: Vectors, queries: np.ndarray, count: int) -> np.ndarray:
    """(q, TOP): the numbers of the best, exactly."""
    scores = np.full((len(queries), TOP), -np.inf, dtype=np.float32)
    best = np.zeros((len(queries), TOP), dtype=np.int64)
    for number, block in enumerate(vectors.blocks(count)):
        found = np.stack(true_best(block, queries, TOP, np.arange(len(block))))
        scores = np.concatenate([scores, np.take_along_axis(queries @ block.T, found, 1)], axis=1)
        best = np.concatenate([best, found + number * BLOCK], axis=1)
        order = np.argsort(-scores, axis=1)[:, :TOP]
        scores, best = np.take_along_axis(scores, order, 1), np.take_along_axis(best, order, 1)
    return best


def recall(found: Sequence[Sequence[int]], true: np.ndarray) -> float:
    return float(np.mean([len(set(one) & set(best.tolist())) / TOP for one, best in zip(found, true)]))


def cpu_ms(ask: Callable[[np.ndarray], object], queries: np.ndarray) -> dict[str, float]:
    times = []
    for query in queries:
        start = time.process_time()
        ask(query[None])
        times.append(1e3 * (time.process_time() - start))
    return {"cpu_ms_p50": float(np.median(times)), "cpu_ms_p95": float(np.percentile(times, 95))}


# The embedded store


def items(start: int, count: int) -> list[Item]:
    """As large as an item is whose fields nobody asks for."""
    return [
        Item(f"{i:08x}", "image", f"/pictures/{i // 1000:05d}/{i:08d}.jpg", "", f"{i:08x}", 640, 480, f"{i:016x}", i, i)
        for i in range(start, start + count)
    ]


def writing(vectors: Vectors, count: int, folder: Path, dtype: str) -> dict[str, Any]:
    shutil.rmtree(folder, ignore_errors=True)
    spent, start = 0.0, 0
    with EmbeddedStore(folder, DIM, approximate_above=2**62, dtype=dtype) as store:
        store.set_header({"sample_queries": vectors.tuning.tolist()})
        for block in vectors.blocks(count):
            began = time.process_time()
            store.write(items(start, len(block)), block)
            spent, start = spent + time.process_time() - began, start + len(block)
    return {"cpu_s": spent}


def building(vectors: Vectors, count: int, folder: Path, dtype: str) -> dict[str, Any]:
    """The approximate index alone: `writing` left it to whoever opens the store."""
    import faiss

    faiss.omp_set_num_threads(1)
    before, began, wall = anonymous_mib(), time.process_time(), time.monotonic()
    with EmbeddedStore(folder) as store:
        assert isinstance(store, EmbeddedStore)
        store._builder.join()
        sql = "select probes, depth, recall from kinds where kind = 'image'"
        probes, depth, found = store._database.connection().execute(sql).fetchone()
    took = {"cpu_s": time.process_time() - began, "wall_s": time.monotonic() - wall}
    sizes = {name: sum(file.stat().st_size for file in folder.glob(name)) for name in ("*.f??", "*.ivf", "index.db")}
    return {
        **took,
        "memory_mib": _peak_mib("VmHWM") - before,
        "probes": probes,
        "depth": depth,
        "recall_of_tuning": found,
        "lists": int(count**0.5),
        "vectors_bytes": sizes["*.f??"],
        "lists_bytes": sizes["*.ivf"],
        "database_bytes": sizes["index.db"],
        "disk_bytes": sum(sizes.values()),
    }


def searching(vectors: Vectors, count: int, folder: Path, dtype: str) -> dict[str, Any]:
    import faiss

    faiss.omp_set_num_threads(1)
    true = truth(vectors, vectors.queries, count)
    before = anonymous_mib()
    with EmbeddedStore(folder) as store:
        found = [store.search(query[None], TOP, kind="image")[0].ids for query in vectors.queries]
        took = cpu_ms(lambda query: store.search(query, TOP, kind="image"), vectors.queries)
        held = anonymous_mib() - before
    return {"recall@10": recall([[int(id, 16) for id in one] for one in found], true), **took, "memory_mib": held}


# faiss' own


def hnsw(faiss: Any, count: int) -> tuple[Any, str, Sequence[int]]:
    index = faiss.IndexHNSWFlat(DIM, 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = 100
    return index, "efSearch", (64, 128, 256, 512, 1024, 2048)


def ivf_flat(faiss: Any, count: int) -> tuple[Any, str, Sequence[int]]:
    lists = int(count**0.5)
    return faiss.index_factory(DIM, f"IVF{lists},Flat", faiss.METRIC_INNER_PRODUCT), "nprobe", _probes(lists)


def ivf_pq(faiss: Any, count: int) -> tuple[Any, str, Sequence[int]]:
    lists = int(count**0.5)
    return (
        faiss.index_factory(DIM, f"IVF{lists},PQ{DIM // 2}x4fs", faiss.METRIC_INNER_PRODUCT),
        "nprobe",
        _probes(lists),
    )


def _probes(lists: int) -> list[int]:
    return [max(1, round(share * lists)) for share in (0.004, 0.008, 0.015, 0.03, 0.06, 0.12, 0.25, 0.5)]


#: Name → how it is made, and the bytes it takes for a vector in memory.
BESIDE: dict[str, tuple[Callable[[Any, int], tuple[Any, str, Sequence[int]]], int]] = {
    "faiss HNSW32": (hnsw, 4 * DIM + 280),
    "faiss IVF, flat": (ivf_flat, 4 * DIM + 8),
    "faiss IVF, 4-bit PQ": (ivf_pq, 72),
}


def beside(vectors: Vectors, count: int, folder: Path, name: str) -> dict[str, Any]:
    """The least effort with which the tuning sentences find as much as the store wants of its own, or the greatest tried."""
    import faiss

    faiss.omp_set_num_threads(1)
    true, wanted = truth(vectors, vectors.queries, count), truth(vectors, vectors.tuning, count)
    before = anonymous_mib()
    index, effort, values = BESIDE[name][0](faiss, count)
    spent = 0.0
    if not index.is_trained:
        sample = np.concatenate(list(vectors.blocks(min(count, max(65536, 64 * int(count**0.5))))))
        began = time.process_time()
        index.train(sample)
        spent += time.process_time() - began
        del sample
    for block in vectors.blocks(count):
        began = time.process_time()
        index.add(block)
        spent += time.process_time() - began
    held = anonymous_mib() - before
    for value in values:
        setattr(index.hnsw if effort == "efSearch" else index, effort, value)
        reached = recall(index.search(vectors.tuning, TOP)[1].tolist(), wanted)
        if reached >= TARGET:
            break
    found = index.search(vectors.queries, TOP)[1].tolist()
    took = cpu_ms(lambda query: index.search(query, TOP), vectors.queries)
    path = folder.with_suffix(".faiss")
    faiss.write_index(index, str(path))
    size = path.stat().st_size
    path.unlink()
    return {
        "cpu_s": spent,
        "recall@10": recall(found, true),
        **took,
        effort: value,
        "recall_of_tuning": reached,
        "memory_mib": held,
        "disk_bytes": size,
    }


def _peak_mib(name: str) -> float:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(name)) / 1024


def measure(
    work: Callable[..., dict[str, Any]], folders: Sequence[Path], count: int, *arguments: object
) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, (work, folders, count, *arguments))


def _measured(
    work: Callable[..., dict[str, Any]], folders: Sequence[Path], count: int, *arguments: object
) -> dict[str, Any]:
    return work(Vectors(folders), count, *arguments)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__)
    parser.add_argument("--vectors", type=Path, action="append", required=True, help="a folder that vse embed wrote")
    parser.add_argument("--size", type=int, action="append", required=True)
    parser.add_argument("--folder", type=Path, required=True, help="where indexes are made, and removed when measured")
    parser.add_argument("--json", type=Path, required=True, help="results, to which new ones are added")
    parser.add_argument("--only", action="append", choices=["float16", "float32", *BESIDE], help="May repeat.")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.json.read_text()) if options.json.exists() else {}
    wanted = options.only or ["float16", *BESIDE]
    options.folder.mkdir(parents=True, exist_ok=True)
    for count in options.size:
        for name in wanted:
            steps = (
                {"writing": writing, "building": building, "searching": searching} if "float" in name else {"": beside}
            )
            if "" in steps and BESIDE[name][1] * count > MEMORY:
                continue
            folder = options.folder / f"{count}-{name.replace(' ', '-').replace(',', '')}"
            for step, work in steps.items():
                key = f"{name} {step}".strip()
                done = results.setdefault(str(count), {})
                if key not in done:
                    done[key] = measure(work, options.vectors, count, folder, name)
                    print(count, key, done[key], flush=True)
                    write_json(options.json, results)
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
