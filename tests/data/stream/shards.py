"""Shards for tests: pictures of one colour, whose captions say which sample they belong to."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

COLOURS = ("red", "green", "blue", "black", "white", "pink", "brown", "orange")


def jpeg(colour: str, comment: str = "", side: int = 24) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(file, "JPEG", comment=comment)
    return file.getvalue()


def write_members(path: Path, members: Sequence[tuple[str, bytes | str]], mode: str = "w") -> Path:
    """A tar file of these members, in this sequence."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:
        for name, content in members:
            data = content if isinstance(content, bytes) else content.encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def sample(key: str, number: int, captions: int = 2, **told: Any) -> list[tuple[str, bytes | str]]:
    """key.jpg and key.json; the captions name the key."""
    colour = COLOURS[number % len(COLOURS)]
    texts = [f"a {colour} thing called {key} {n}" for n in range(captions)]
    return [(f"{key}.jpg", jpeg(colour, key)), (f"{key}.json", json.dumps({"captions": texts, **told}))]


def write_shards(folder: Path, sizes: Sequence[int], captions: int = 2, name: str = "train") -> dict[str, list[str]]:
    """`name`-0.tar … with so many samples each; returns the captions of every shard."""
    said: dict[str, list[str]] = {}
    for shard, size in enumerate(sizes):
        path = folder / f"{name}-{shard}.tar"
        keys = [f"{name[0] if name != 'train' else 's'}{shard}k{n}" for n in range(size)]
        write_members(path, [m for n, key in enumerate(keys) for m in sample(key, n + shard, captions)])
        told = [json.loads(sample(key, n + shard, captions)[1][1]) for n, key in enumerate(keys)]
        said[str(path)] = [text for one in told for text in one["captions"]]
    return said
