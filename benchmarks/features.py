"""Features and indexing beside bare ONNX Runtime and beside torch: what reading, cropping, storing and stamping cost on top.

| pictures                 | the yardstick: bare onnxruntime, batches of 8        | target                    |
|--------------------------|------------------------------------------------------|---------------------------|
| JPEGs of 256 × 256       | on crops in memory                                   | 0.9 of its pictures a second |
| JPEGs of 12 megapixels   | with decoding (at a quarter of the size) and resizing | 0.8                       |

torch: the same work with the encoder in torch, as a multiple of the time; target 2.5. By CPU time, which other programs on
the machine disturb least. EfficientNet-lite0, 1C, pooled; indexing is measured without the calibration at its end, which
takes the same whatever the number of pictures.
"""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vsekit import threads
from vsekit.data.decoding import decode
from vsekit.data.pairs import Picture
from vsekit.data.text import Vocabulary
from vsekit.data.views import ViewSettings, pieces, resized
from vsekit.encoders.image.efficientnet_lite import EfficientNetLiteSettings
from vsekit.engines import images
from vsekit.engines.session import start_session
from vsekit.features.extraction import extract
from vsekit.models.model import VSE
from vsekit.models.settings import ModelSettings
from vsekit.search.calibration import calibrate
from vsekit.search.indexing import index
from vsekit.search.models import VSEModel
from vsekit.search.stores import open_store

BATCH = 8
VIEW = ViewSettings.model_validate("1C")
#: Width, height, pictures, whether the yardstick decodes, and the target.
SIZES = {"256 px": (256, 256, 480, False, 0.9), "12 megapixels": (4000, 3000, 64, True, 0.8)}


def generated(folder: Path, count: int, width: int = 500, height: int = 375) -> list[Picture]:
    """JPEGs; coarse noise scaled up with a little grain compresses about like a photograph."""
    rng = np.random.default_rng(0)
    folder.mkdir(exist_ok=True)
    pictures: list[Picture] = []
    drawn: list[bytes] = []
    for i in range(count):
        if i < 16:
            coarse = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
            smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), np.int16)
            grain = rng.integers(-6, 7, (height, width, 1), dtype=np.int16)
            file = io.BytesIO()
            Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=90)
            drawn.append(file.getvalue())
        path = folder / f"{i:05d}.jpg"
        path.write_bytes(drawn[i % len(drawn)] + i.to_bytes(4, "big"))  # no two alike
        pictures.append(Picture(id=path.name, path=path, split="train", group=path.name))
    return pictures


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    images.WORTH = images.FEW = 0
    rows = []
    for name, (width, height, count, decoding, target) in SIZES.items():
        count = max(BATCH, int(count * scale) // BATCH * BATCH)
        with tempfile.TemporaryDirectory() as folder:
            pictures = generated(Path(folder) / "photos", count, width, height)
            generated(Path(folder) / "few", BATCH, 256, 256)
            half = pictures[: count // 2]
            for what, work in {"vse features": _features, "vse index": _index}.items():
                # The yardstick before and after: what else the machine does changes from minute to minute.
                bare = _bare(half, decoding)
                ours = work(Path(folder), pictures, "onnxruntime")
                bare += _bare(half, decoding)
                torch = work(Path(folder), pictures, "torch")
                rows.append(
                    {
                        "name": f"{what}, {count} JPEGs of {name}",
                        "cpu_s": ours,
                        "rate": count / ours,
                        "yardstick": f"bare onnxruntime{' and decoding' * decoding}, {count / bare:.1f} pictures/s",
                        "ratio": bare / ours,
                        "target": target,
                        "torch": torch / ours,
                    }
                )
    return rows


def _bare(pictures: list[Picture], decoding: bool) -> float:
    """CPU seconds of nothing but the graph, and of decoding where that counts."""
    encoder = EfficientNetLiteSettings().build().eval()
    images.compiled(encoder)
    session = start_session(images.graph_of(encoder), 1, "")
    ready = [_crops(picture) for picture in pictures[:BATCH]]
    session.run(None, {"pixels": np.stack(ready)})

    def work() -> None:
        for start in range(0, len(pictures), BATCH):
            batch = pictures[start : start + BATCH]
            session.run(None, {"pixels": np.stack([_crops(one) for one in batch] if decoding else ready)})

    return _cpu(work)


def _crops(picture: Picture) -> np.ndarray:
    assert picture.path is not None
    return pieces(resized(decode(picture.path, VIEW.resize), VIEW), VIEW)


def _features(folder: Path, pictures: list[Picture], engine: str) -> float:
    settings = EfficientNetLiteSettings()
    encoder = settings.build().eval()
    images.WORTH = 0.0 if engine == "onnxruntime" else 1e30

    def work(some: list[Picture], name: str) -> None:
        done = extract(encoder, settings.model_dump(), some, VIEW, folder / f"{name}-{engine}", batch_size=BATCH)
        assert done.header["engine"] == engine

    work(pictures[:BATCH], "few-features")
    return _cpu(lambda: work(pictures, "features"))


def _index(folder: Path, pictures: list[Picture], engine: str) -> float:
    model, place = search_model({"kind": "efficientnet_lite"}, 256, VIEW), folder / f"index-{engine}"
    images.WORTH = 0.0 if engine == "onnxruntime" else 1e30
    if engine == "torch":
        model.get_ready = lambda pictures: None  # type: ignore[method-assign]
    index(model, folder / "few", folder / f"few-index-{engine}")  # imports and the like
    taken = _cpu(lambda: index(model, folder / "photos", place))
    with open_store(place) as store:
        assert store.count("image") == len(pictures)
        return taken - _cpu(lambda: calibrate(store, model))


def search_model(encoder: dict[str, Any], dim: int, view: ViewSettings) -> VSEModel:
    text = {"encoder": {"kind": "gru", "word_dim": 16, "dim": 64}, "pooling": "last"}
    settings = {"dim": dim, "image": {"encoder": encoder, "pooling": "single"}, "text": text}
    return VSEModel(VSE(ModelSettings.model_validate(settings), Vocabulary(["a", "dog"]), view), "benchmark")


def _cpu(work: Callable[[], object]) -> float:
    """CPU seconds on one thread: threads that share a core count as work what is waiting for memory."""
    most, threads.most = threads.most, lambda: 1
    try:
        before = time.process_time()
        work()
        return time.process_time() - before
    finally:
        threads.most = most


if __name__ == "__main__":
    for row in run():
        print(row)
