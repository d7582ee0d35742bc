"""A small generated index in memory, for tests of the server and the page, and to look at the page by hand:

    python -m tests.serve.fake --items 500 --port 8000

The searcher is the real one. The store keeps everything in memory; the model knows colours and shapes by their names,
and of a picture the colour it is mostly made of.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from vsekit.data.decoding import decode
from vsekit.search.base import Prepared
from vsekit.search.items import Item, Kind
from vsekit.search.searcher import Searcher
from vsekit.search.stores.base import Found, Store

DIM = 64
COLOURS = {
    "red": "#c8322b",
    "green": "#2e8b57",
    "blue": "#2b5fc8",
    "yellow": "#e5c22b",
    "purple": "#7a3fa8",
    "grey": "#888",
}
SHAPES = ("circle", "square", "triangle")
SIZES = ((320, 240), (240, 320), (300, 300), (480, 200))


class MemoryStore(Store):
    """Everything in lists; slow and obvious."""

    location, dim = "memory", DIM

    def __init__(self) -> None:
        self.rows: dict[str, tuple[Item, np.ndarray]] = {}
        self._header: dict[str, Any] = {}
        self.closed = False

    def lock(self) -> None:
        """Nobody else has this memory."""

    def rebuild(self, dim: int) -> None:
        self.rows, self._header = {}, {}

    @property
    def header(self) -> dict[str, Any]:
        return self._header

    def set_header(self, header: Mapping[str, Any]) -> None:
        self._header = dict(header)

    def write(self, items: Sequence[Item], vectors: np.ndarray, deleted: Sequence[str] = ()) -> None:
        rows = {**self.rows, **{item.id: (item, vector) for item, vector in zip(items, vectors)}}
        self.rows = {id_: row for id_, row in rows.items() if id_ not in set(deleted)}

    def update(self, items: Sequence[Item]) -> None:
        self.write(items, self.vectors([item.id for item in items]))

    def items(self, ids: Sequence[str]) -> list[Item]:
        return [self.rows[id_][0] for id_ in ids]

    def vectors(self, ids: Sequence[str]) -> np.ndarray:
        return np.stack([self.rows[id_][1] for id_ in ids])

    def all_items(self, kind: Kind | None = None) -> Iterator[Item]:
        return iter(sorted((i for i, _ in self.rows.values() if kind in (None, i.kind)), key=lambda i: i.id))

    def count(self, kind: Kind | None = None, filter: Any = None) -> int:
        return sum(filter is None or filter.matches(item.meta) for item in self.all_items(kind))

    def search(self, queries: np.ndarray, top: int, *, kind: Kind, filter: Any = None) -> list[Found]:
        items = [item for item in self.all_items(kind) if filter is None or filter.matches(item.meta)]
        if not items:
            return [Found([], np.zeros(0, np.float32)) for _ in queries]
        # One by one: in a product of matrices equal vectors may get scores that differ in the last bit, on some processors.
        vectors = self.vectors([item.id for item in items])
        scores = np.array([[float(np.dot(query, vector)) for vector in vectors] for query in queries], np.float32)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
        return [Found([items[i].id for i in row], s[row]) for s, row in zip(scores, order)]

    def fields(self) -> dict[str, dict[str, Any]]:
        metas = [item.meta for item in self.all_items("image")]
        fields: dict[str, dict[str, Any]] = {}
        for name in sorted({name for meta in metas for name in meta}):
            values = [meta[name] for meta in metas if name in meta]
            if all(isinstance(value, int) for value in values):
                fields[name] = {"type": "number", "min": min(values), "max": max(values), "count": len(values)}
            else:
                commonest = [[value, n] for value, n in Counter(values).most_common(50)]
                fields[name] = {"type": "text", "values": commonest, "count": len(values)}
        return fields

    def close(self) -> None:
        self.closed = True


class ColourModel:
    """Every word has a direction; a picture that of its colour's name. calls: the sizes of the batches of texts.

    seconds: that a call takes.
    """

    name, fingerprint, dim, side, view, folder, bank = "colours", "c0ffee", DIM, None, None, None, None

    def __init__(self, seconds: float = 0.0) -> None:
        self.calls: list[int] = []
        self.seconds = seconds

    def words(self, text: str) -> list[str]:
        return text.lower().split()

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        self.calls.append(len(texts))
        time.sleep(self.seconds)
        return np.stack([_unit(sum(_direction(word) for word in self.words(text))) for text in texts])

    def read(self, image: Any, *, max_pixels: int) -> Prepared:
        return Prepared(np.asarray(decode(image, max_pixels=max_pixels)))

    def encode_images(self, pictures: Sequence[Any]) -> np.ndarray:
        time.sleep(self.seconds)
        return np.stack([_direction(_colour(picture)) for picture in pictures]).astype(np.float32)


def _direction(word: str) -> np.ndarray:
    return _unit(np.random.default_rng(zlib.crc32(word.encode())).standard_normal(DIM))


def _unit(vector: Any) -> np.ndarray:
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def _colour(picture: Any) -> str:
    image = decode(picture.array if isinstance(picture, Prepared) else picture)
    mean = np.asarray(image.resize((1, 1), Image.Resampling.BOX), float).reshape(3)
    named = {name: Image.new("RGB", (1, 1), colour).getpixel((0, 0)) for name, colour in COLOURS.items()}
    return min(named, key=lambda name: float(np.sum((mean - named[name]) ** 2)))


def generated(folder: Path, count: int, *, seconds: float = 0.0, files: int | None = None) -> Searcher:
    """A searcher over `count` pictures with a caption each; `files` of them are drawn (all, unless said), and shared."""
    store, model = MemoryStore(), ColourModel(seconds)
    items, texts = [], []
    files = min(count, files or count)
    for i in range(count):
        colour, shape = list(COLOURS)[i % len(COLOURS)], SHAPES[i // len(COLOURS) % len(SHAPES)]
        width, height = SIZES[i % files % len(SIZES)]
        path = folder / f"{i % files:05d}.jpg"
        if i < files:
            image = Image.new("RGB", (width, height), COLOURS[colour])
            box = (width // 3, height // 3, 2 * width // 3, 2 * height // 3)
            draw = ImageDraw.Draw(image)
            if shape == "circle":
                draw.ellipse(box, "white")
            elif shape == "square":
                draw.rectangle(box, "white")
            else:
                draw.polygon([(box[0], box[3]), (box[2], box[3]), (width // 2, box[1])], "white")
            image.save(path, quality=85)
        state = path.stat()
        meta = {"year": 2010 + i % 15, "camera": ("X100", "Pixel 8", "EOS R")[i % 3], "folder": f"trip {i % 4}"}
        id_, text = f"p{i:06d}", f"a white {shape} on {colour} ground"
        known = {"width": width, "height": height, "size": state.st_size, "mtime_ns": state.st_mtime_ns}
        items.append(Item(id_, "image", path.as_posix(), picture=id_, content=f"f{i % files:06d}", meta=meta, **known))
        items.append(Item(f"{id_}#0", "caption", path.as_posix(), text, picture=id_, meta=meta))
        texts += [f"{colour} {shape}", text]
    if items:
        store.write(items, model.encode_texts(texts))
    model.calls.clear()
    store.set_header(
        {
            "model": model.name,
            "fingerprint": model.fingerprint,
            "roots": [str(folder)],
            "indexed": "2026-01-01T00:00:00Z",
        }
    )
    return Searcher(store, model)  # type: ignore[arg-type]


def main() -> None:
    from vsekit.serve.limits import Limits
    from vsekit.serve.run import address, bind, serve

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--token")
    parser.add_argument("--rate", type=float, default=30.0)
    parser.add_argument("--log", default="off")
    parser.add_argument("--seconds", type=float, default=0.0, help="that a call of the encoder takes")
    parser.add_argument("--limits", default="{}", help="as JSON")
    options = parser.parse_args()
    listener = bind("127.0.0.1", options.port)
    print(address(listener), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        load = lambda: generated(Path(folder), options.items, seconds=options.seconds, files=500)  # noqa: E731
        limits = Limits(**{"rate": options.rate, **json.loads(options.limits)})
        serve(load, listener, token=options.token, log=options.log, limits=limits)


if __name__ == "__main__":
    main()
