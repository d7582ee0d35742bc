"""What collections of any size take: a cost model whose constants are measured, and docs/scale.md.

    python -m studies.scale measure --flickr8k DIR                  # constants and checks, into studies/results/scale/work.json
    python -m studies.scale measure --flickr8k DIR --again features # one of them once more
    python -m studies.scale                                         # the page, from what was measured

Each kind of work has a form: features and a pass of training are a start and so much a picture or pair, mining goes with pictures ×
captions, building an index of n vectors with n and n√n (each is compared with √n centres). Of the sizes measured the smaller two
give the constants; the larger ones are what the model is checked with. The sizes of the index are those of `benchmarks.large`.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from vsekit.files import write_json, write_text

RESULTS = Path(__file__).parent / "results" / "scale"
PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
PER_PICTURE, DIM = 5, 1024
FIT = 2  # sizes that give the constants

Terms = Callable[[float, float], list[float]]


class Work(NamedTuple):
    """what: for the page. unit: of the sizes measured. terms: of the cost of so many pictures and captions, whose constants are
    measured; of memory, and of disk."""

    what: str
    unit: str
    sizes: tuple[int, ...]
    cpu_s: Terms
    memory_mib: Terms
    disk_mib: Terms


WORKS = {
    "features": Work(
        "`vse features efficientnet_lite`, photographs of 500 × 375",
        "pictures",
        (400, 800, 1600, 3200),  # fewer are encoded in torch: a graph for them is not worth writing
        lambda p, c: [1, p],
        lambda p, c: [1],
        lambda p, c: [p],
    ),
    "training": Work(
        "`vse train vsepp:1.6`, one pass over features, with a validation",
        "captions",
        (1000, 2000, 4000, 8000),
        lambda p, c: [1, c],
        lambda p, c: [1, c],
        lambda p, c: [1],
    ),
    "mining": Work(
        "`vse mine`, exact, 300 captions of each picture and 60 pictures of each caption",
        "pictures",
        (500, 1000, 2000, 4000),
        lambda p, c: [p, p * c],
        lambda p, c: [1, p + c],
        lambda p, c: [p, c],
    ),
    "index": Work(
        "`vse index --dtype float16`: 256-d vectors written, and the approximate index built once",
        "pictures",
        (),
        lambda p, c: [p, p**1.5],
        lambda p, c: [1, p],
        lambda p, c: [p],
    ),
}
QUANTITIES = ("cpu_s", "memory_mib", "disk_mib")

#: Pictures and captions.
COLLECTIONS = {
    "Flickr30K": (31_014, 155_070),
    "COCO": (123_287, 616_435),
    "CC3M": (3_300_000, 3_300_000),
    "CC12M": (12_400_000, 12_400_000),
    "LAION-400M": (413_000_000, 413_000_000),
}


# Measuring


def run(command: list[str], out: Path) -> dict[str, float]:
    """CPU time and memory of a command on one thread, and what it leaves in `out`."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "vsekit", *command], env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_s": spent, "memory_mib": after.ru_maxrss / 1024, "disk_mib": _mib(out)}


def features(count: int, folder: Path, flickr8k: Path) -> dict[str, float]:
    names = sorted(path.name for path in (flickr8k / "images").iterdir())[:count]
    table = folder / "pictures.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([("image", "caption"), *((name, "a picture") for name in names)])
    out = folder / "features"
    command = ["features", "efficientnet_lite", "--data", table, "--images", flickr8k / "images", "--out", out, "-q"]
    return {"pictures": count, "captions": count, **run(list(map(str, command)), out)}


def training(count: int, folder: Path, flickr8k: Path) -> dict[str, float]:
    from benchmarks.processes import _settings, _write

    settings = _settings()
    settings["stages"]["fixed"] |= {"epochs": 1, "validate_every": 1}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(settings))
    _write(folder / "data", count)
    captions = len((folder / "data" / "train_caps.txt").read_text().splitlines())
    out = folder / "run"
    command = ["train", folder / "recipe.yaml", "--data", folder / "data", "--out", out, "-q", "--no-report"]
    return {"pictures": count, "captions": captions, **run(list(map(str, command)), out)}


def mining(count: int, folder: Path, flickr8k: Path) -> dict[str, float]:
    import torch
    from benchmarks.evaluation import cpu, embeddings, peak_mib

    from vsekit.mining.mine import mine

    torch.set_num_threads(1)
    images, captions = embeddings(count)
    groups = np.arange(count), np.repeat(np.arange(count), PER_PICTURE)
    peak_mib(forget=True)
    spent = cpu(lambda: mine(images, captions, *groups, folder / "mined", top_captions=300, top_images=60) and None)
    memory = peak_mib()
    return {
        "pictures": count,
        "captions": len(captions),
        "cpu_s": spent,
        "memory_mib": memory,
        "disk_mib": _mib(folder / "mined"),
    }


def _mib(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def measure(flickr8k: Path, path: Path, again: list[str]) -> None:
    """A process for every size, whose memory is its own. again: only these works, and nothing measured before is kept."""
    results: dict[str, list[dict[str, float]]] = json.loads(path.read_text()) if path.exists() else {}
    for name in again:
        results[name] = []
    for work in (features, training, mining):
        name = work.__name__
        if again and name not in again:
            continue
        if work is features and not results.get(name):
            _measured(work, WORKS[name].sizes[0], flickr8k)  # writes the encoder's graph, once for a machine
        for count in WORKS[name].sizes[len(results.get(name, [])) :]:
            found = _measured(work, count, flickr8k)
            results.setdefault(name, []).append(found)
            print(name, found, flush=True)
            write_json(path, results)


def _measured(work: Callable[[int, Path, Path], dict[str, float]], count: int, flickr8k: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, (count, Path(folder), flickr8k))


# The model


def measured(results: Path = RESULTS) -> dict[str, list[dict[str, float]]]:
    """Work → what was measured, by rising size."""
    found: dict[str, list[dict[str, float]]] = json.loads((results / "work.json").read_text())
    large = json.loads((results / "large.json").read_text())
    found["index"] = [
        {
            "pictures": int(count),
            "captions": 0,
            "cpu_s": one["float16 writing"]["cpu_s"] + one["float16 building"]["cpu_s"],
            "memory_mib": one["float16 building"]["memory_mib"],
            "disk_mib": one["float16 building"]["disk_bytes"] / 2**20,
        }
        for count, one in sorted(large.items(), key=lambda entry: int(entry[0]))
        if "float16 building" in one
    ]
    return found


def constants(terms: Terms, rows: list[dict[str, float]], quantity: str) -> np.ndarray:
    """What makes `terms` fit the smaller sizes, none below zero."""
    given = np.array([terms(row["pictures"], row["captions"]) for row in rows[:FIT]], dtype=float)
    wanted = np.array([row[quantity] for row in rows[:FIT]])
    scale = given.max(axis=0)
    solved: np.ndarray = np.linalg.lstsq(given / scale, wanted, rcond=None)[0] / scale
    if (solved < 0).any():  # a term that can't be told from noise
        kept = given[:, solved >= 0]
        solved[solved >= 0] = np.linalg.lstsq(kept, wanted, rcond=None)[0]
        solved = solved.clip(min=0)
    return solved


def predicted(name: str, quantity: str, rows: list[dict[str, float]], pictures: float, captions: float) -> float:
    terms: Terms = getattr(WORKS[name], quantity)
    return float(constants(terms, rows, quantity) @ np.array(terms(pictures, captions), dtype=float))


# The page


def hours(seconds: float) -> str:
    return f"{seconds / 3600:,.2f}" if seconds < 36000 else f"{seconds / 3600:,.0f}"


def gib(mib: float) -> str:
    return f"{mib / 1024:,.2f}" if mib < 10240 else f"{mib / 1024:,.0f}"


def _rows(found: dict[str, list[dict[str, float]]], quantity: str, shown: Callable[[float], str]) -> list[str]:
    lines = [f"| | {' | '.join(WORKS)} |", f"|---|{'---|' * len(WORKS)}"]
    for name, (pictures, captions) in COLLECTIONS.items():
        cells = [shown(predicted(work, quantity, found[work], pictures, captions)) for work in WORKS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _checks(found: dict[str, list[dict[str, float]]]) -> list[str]:
    lines = [
        "| | size | CPU-s measured | predicted | error | memory, error | disk, error |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, work in WORKS.items():
        for row in found[name][FIT:]:
            guesses = {q: predicted(name, q, found[name], row["pictures"], row["captions"]) for q in QUANTITIES}
            errors = [f"{100 * (guesses[q] / row[q] - 1):+.0f} %" for q in QUANTITIES]
            cells = [
                name,
                f"{row[work.unit]:,.0f} {work.unit}",
                f"{row['cpu_s']:,.1f}",
                f"{guesses['cpu_s']:,.1f}",
                *errors,
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _constants(found: dict[str, list[dict[str, float]]]) -> list[str]:
    lines = ["| | what | measured at | constants of CPU-s |", "|---|---|---|---|"]
    names = {"features": "start; picture", "training": "start; caption", "mining": "picture; picture × caption"}
    for name, work in WORKS.items():
        solved = "; ".join(f"{value:.3g}" for value in constants(work.cpu_s, found[name], "cpu_s"))
        sizes = ", ".join(f"{row[work.unit]:,.0f}" for row in found[name][:FIT])
        lines.append(f"| {name} | {work.what} | {sizes} {work.unit} | {solved} ({names.get(name, 'n; n√n')}) |")
    return lines


def render(results: Path = RESULTS) -> str:
    found = measured(results)
    template = (Path(__file__).parent / "scale.md").read_text()
    values = {
        "constants": _constants(found),
        "checks": _checks(found),
        "hours": _rows(found, "cpu_s", hours),
        "memory": _rows(found, "memory_mib", gib),
        "disk": _rows(found, "disk_mib", gib),
    }
    for name, lines in values.items():
        template = template.replace(f"{{{{ {name} }}}}", "\n".join(lines))
    return template


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.scale", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["measure"])
    parser.add_argument("--flickr8k", type=Path)
    parser.add_argument("--again", action="append", default=[], choices=["features", "training", "mining"])
    options = parser.parse_args()
    if options.what == "measure":
        if options.flickr8k is None:
            parser.error("measure wants --flickr8k, the folder with its pictures in images")
        measure(options.flickr8k, RESULTS / "work.json", options.again)
    write_text(PAGE, render())


if __name__ == "__main__":
    main()
