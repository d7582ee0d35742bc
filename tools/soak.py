"""Mixed traffic on a server while its index is written again and again: errors, and how its memory grows.

    python -m tools.soak --minutes 10 --seed 1

Four clients search with words, sums, pictures, broken pictures and nonsense, look at items and thumbnails, and hang up in the
middle; meanwhile pictures are added, removed and indexed. Prints what came of it, writes it as "soak" into
docs/reliability.json with --write, and ends with exit code 1 where an answer was not among the expected ones, or a command
failed. The slope is that of a line through the second half of the samples, when caches are full.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image

from tools.reliability import commit, record

PICTURES, CLIENTS = 40, 4
WORDS = ("a red dog", "two people on a beach", '"sea" - 0.5*"sand"', "nothing of this kind", "1e3*", '"a" - "a"', "")


def vse(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "vsekit", *arguments]


def draw(folder: Path, number: int) -> None:
    noise = np.random.default_rng(number).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    Image.fromarray(noise).save(folder / f"{number:05d}.jpg")


@dataclass
class Soak:
    """What came of it so far. unexpected: answers that should not be, by what was asked. memory: seconds, MiB."""

    statuses: Counter[int] = field(default_factory=Counter)
    unexpected: Counter[str] = field(default_factory=Counter)
    indexed: int = 0
    failed: int = 0
    memory: list[tuple[float, float]] = field(default_factory=list)

    def counted(self, answer: httpx.Response, *expected: int) -> httpx.Response:
        self.statuses[answer.status_code] += 1
        if answer.status_code not in expected:
            self.unexpected[f"{answer.request.method} {answer.request.url.path}: {answer.status_code}"] += 1
        return answer

    @property
    def slope(self) -> float:
        """MiB an hour."""
        times, sizes = np.array(self.memory[len(self.memory) // 2 :]).T
        return float(np.polyfit(times - times[0], sizes, 1)[0] * 3600)


def ask(client: httpx.Client, rng: random.Random, picture: bytes, soak: Soak) -> None:
    """One request of many kinds."""
    kind = rng.randrange(8)
    if kind < 3:
        body = {
            "query": rng.choice(WORDS),
            "top": rng.choice([1, 5, 50, 9999]),
            "kind": rng.choice(["image", "caption"]),
        }
        found = soak.counted(client.post("/api/search", json=body), 200, 422)
        for hit in rng.sample(hits := found.json().get("hits", []), min(2, len(hits))):
            # What was found may have been removed since.
            soak.counted(client.get(f"{hit['thumbnail']}&size={rng.choice([64, 256, 900])}"), 200, 404)
            soak.counted(client.get(f"/api/items/{hit['id']}/similar", params={"top": 3}), 200, 404, 422)
            soak.counted(client.post("/api/why", json={"query": "a red dog", "id": hit["id"]}), 200, 404, 422)
    elif kind == 3:
        soak.counted(client.post("/api/search/picture", files={"file": picture}), 200)
    elif kind == 4:
        soak.counted(
            client.post("/api/search/picture", files={"file": picture[: rng.randrange(1, len(picture))]}), 200, 415
        )
    elif kind == 5:
        soak.counted(client.post("/api/search", content=rng.randbytes(50)), 422)
        soak.counted(client.get("/api/items/none"), 404)
    elif kind == 6:
        with socket.create_connection((client.base_url.host, client.base_url.port or 80)) as connection:
            connection.sendall(b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n{")
    else:
        soak.counted(client.get(rng.choice(["/api/status", "/readyz", "/metrics", "/", "/openapi.json"])), 200)


def traffic(url: str, seed: int, picture: bytes, soak: Soak, end: threading.Event) -> None:
    rng = random.Random(seed)
    with httpx.Client(base_url=url, timeout=60) as client:
        while not end.is_set():
            try:
                ask(client, rng, picture, soak)
            except httpx.HTTPError as error:
                soak.unexpected[repr(error)] += 1


@contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server and its address, when it is ready."""
    server = subprocess.Popen(
        vse("serve", str(folder), "--port", "0", "--rate", "0"), stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout
        url = server.stdout.readline().strip()
        while httpx.get(f"{url}readyz").status_code != 200:
            time.sleep(0.1)
        yield server, url
    finally:
        server.terminate()
        server.wait()


def run(minutes: float, seed: int) -> Soak:
    soak, end = Soak(), threading.Event()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(PICTURES):
            draw(folder, number)
        index = vse("index", name, "--quiet")
        subprocess.run(index, check=True, stdout=subprocess.DEVNULL)
        picture = (folder / "00000.jpg").read_bytes()
        with serving(folder) as (server, url):
            clients = [
                threading.Thread(target=traffic, args=(url, 1000 * seed + i, picture, soak, end))
                for i in range(CLIENTS)
            ]
            for client in clients:
                client.start()
            started, indexing = time.monotonic(), None
            while time.monotonic() < started + 60 * minutes:
                if indexing is None or indexing.poll() is not None:
                    soak.failed += bool(indexing and indexing.returncode)
                    draw(folder, PICTURES + soak.indexed)
                    (folder / f"{soak.indexed:05d}.jpg").unlink()
                    soak.indexed += 1
                    indexing = subprocess.Popen(index, stdout=subprocess.DEVNULL)
                pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
                soak.memory.append((time.monotonic() - started, pages * 4096 / 2**20))
                time.sleep(0.2)
            end.set()
            for client in clients:
                client.join()
            soak.failed += bool(indexing and indexing.wait())
        soak.failed += bool(server.returncode)
    return soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="into docs/reliability.json")
    options = parser.parse_args()
    soak = run(options.minutes, options.seed)
    found: dict[str, Any] = {
        "minutes": options.minutes,
        "requests": soak.statuses.total(),
        "statuses": {str(status): count for status, count in sorted(soak.statuses.items())},
        "unexpected": dict(soak.unexpected),
        "indexed": soak.indexed,
        "failed": soak.failed,
        "mib": round(soak.memory[-1][1]),
        "mib_an_hour": round(soak.slope, 1),
        "seed": options.seed,
        "commit": commit(),
    }
    print(json.dumps({"soak": found}))
    if options.write:
        record("soak", found)
    return int(bool(soak.unexpected or soak.failed))


if __name__ == "__main__":
    sys.exit(main())
