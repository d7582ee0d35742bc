"""A life of photographs, generated: years, folders, cameras, places, copies, a burst and a screenshot, in a real index.

python -m tests.serve.album --pictures 400 --port 8000
"""

from __future__ import annotations

import argparse
import tempfile
import zlib
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from tests.serve.fake import COLOURS, DIM, SHAPES, SIZES, ColourModel

from vsekit.search.items import Item, Value
from vsekit.search.searcher import Searcher
from vsekit.search.stores.embedded import EmbeddedStore

FOLDERS = ("album", "album/2019 Rome", "album/2019 Rome/day 2", "album/garden")
CAMERAS = ("X100", "Pixel 8")
PLACES = ((41.9, 12.5), (48.2, 16.37), None)
#: The first picture, its copy, and three shots of one moment; then one picture every 9 days, backwards, or more often.
COPIES, BURST = (0, 1), (2, 3, 4)
NEWEST = datetime(2023, 7, 14, 12, 0, 0)


def album(folder: Path, count: int = 60, *, files: int | None = None, captions: bool = False) -> Searcher:
    """A searcher over an index of `count` pictures. Colour i % 6 and shape i // 6 % 3 are what picture i shows.

    files: how many are drawn; the rest share them.
    """
    model, root = ColourModel(), folder / "photos"
    root.mkdir(parents=True)
    drawn = min(count, files or count)
    for i in range(drawn):
        _draw(root / f"{i:06d}.jpg", i)
    vectors = np.stack([_vector(model, i) for i in range(count)])
    days = min(9.0, 15_000 / count)
    items = [_item(root, i, drawn, days) for i in range(count)]
    store = EmbeddedStore(folder / "index", DIM)
    store.write(items, vectors)
    if captions:
        said = [
            Item(f"{item.id}#0", "caption", item.path, f"a white {_shape(i)} on {_colour(i)} ground.", item.id)
            for i, item in enumerate(items)
        ]
        store.write(said, model.encode_texts([item.text for item in said]))
    header = {"model": model.name, "fingerprint": model.fingerprint, "roots": [str(root)]}
    store.set_header({**header, "indexed": "2026-01-01T00:00:00Z", "complete": True})
    store.close()
    return Searcher(EmbeddedStore(folder / "index"), model)  # type: ignore[arg-type]


def _colour(i: int) -> str:
    i = 0 if i in COPIES else BURST[0] if i in BURST else i
    return list(COLOURS)[i % len(COLOURS)]


def _shape(i: int) -> str:
    i = 0 if i in COPIES else BURST[0] if i in BURST else i
    return SHAPES[i // len(COLOURS) % len(SHAPES)]


def _draw(path: Path, i: int) -> None:
    width, height = SIZES[i % len(SIZES)]
    image = Image.new("RGB", (width, height), COLOURS[_colour(i)])
    box = (width // 3, height // 3, 2 * width // 3, 2 * height // 3)
    (ImageDraw.Draw(image).ellipse if _shape(i) == "circle" else ImageDraw.Draw(image).rectangle)(box, "white")
    image.save(path, quality=85)


def _vector(model: ColourModel, i: int) -> np.ndarray:
    """What it shows, and a little of its own; a copy's is nearly the same, a burst's not as near."""
    own = np.random.default_rng(0 if i in COPIES else i).standard_normal(DIM)
    vector = model.encode_texts([f"{_colour(i)} {_shape(i)}"])[0] + (0.5 if i not in BURST else 0.35) * own / 8
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def _item(root: Path, i: int, drawn: int, days: float) -> Item:
    path = root / f"{i % drawn:06d}.jpg"
    state = path.stat()
    width, height = SIZES[i % drawn % len(SIZES)]
    before = timedelta(days=days * i) if i not in BURST else timedelta(days=2 * days, seconds=i)
    taken = (NEWEST - before).replace(microsecond=0)
    name = "Screenshot 7.png" if i == 7 else f"IMG_{i:04d}.jpg"
    meta: dict[str, Value] = {
        "dated": taken.isoformat(" "), "taken": taken.isoformat(" "), "year": taken.year, "month": taken.month,
        "folder": FOLDERS[i % len(FOLDERS)], "name": name, "extension": "jpg", "camera": CAMERAS[i // 6 % 2],
        "orientation": "landscape" if width > height else "portrait" if width < height else "square",
        "type": "screenshot" if i == 7 else "photo", "width": width, "height": height,
    }  # fmt: skip
    if place := PLACES[i % 3]:
        meta |= {"lat": place[0] + i % 5 / 1000, "lon": place[1]}
    id_ = f"{zlib.crc32(b'%d' % i):08x}{i:06d}"
    return Item(
        id_,
        "image",
        path.as_posix(),
        "",
        id_,
        width,
        height,
        f"c{i % drawn:06d}",
        state.st_size,
        state.st_mtime_ns,
        meta,
    )


def main() -> None:
    from vsekit.serve.limits import Limits
    from vsekit.serve.run import address, bind, serve

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=400)
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    listener = bind("127.0.0.1", options.port)
    print(address(listener), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        serve(lambda: album(Path(folder), options.pictures, files=300), listener, limits=Limits(rate=0))


if __name__ == "__main__":
    main()
