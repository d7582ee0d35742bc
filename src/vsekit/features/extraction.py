"""Extraction: every picture through a frozen encoder, into a feature store.

A kill at any moment costs the last few seconds: the same call goes on where the marker in store.json stands, and ends
with the same bytes as an extraction that was never stopped. A store made by another encoder, view or set of pictures is
refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vsekit import threads
from vsekit.bulk.ray import Ray
from vsekit.bulk.work import Work
from vsekit.data.pairs import Picture
from vsekit.data.pictures import Loaded, PictureLoader
from vsekit.data.views import ViewSettings
from vsekit.encoders.weights import weights_fingerprint
from vsekit.engines.images import ImageEngine, TorchImages, evaluating, image_engine
from vsekit.errors import UserError
from vsekit.features.fingerprints import contents_of, identities_of
from vsekit.features.store import MARKER, FeatureStore, other_features
from vsekit.features.writer import ResumableWriter, as_json
from vsekit.files import fingerprint, write_npy, write_text

if TYPE_CHECKING:
    from vsekit.encoders.base import ImageEncoder

#: In a block of work for others: some seconds of it, and what is lost with a worker.
BATCHES = 8


def extract(
    encoder: ImageEncoder,
    spec: dict[str, Any],
    pictures: Sequence[Picture],
    view: ViewSettings,
    out: Path | str,
    *,
    batch_size: int = 8,
    dtype: Literal["float16", "float32"] = "float32",
    crops: int = 1,
    keep_views: bool = False,
    seed: int = 0,
    skip_broken: bool = False,
    engine: Ray | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FeatureStore:
    """Extracts the features of `pictures` into the folder `out`, or goes on with it, or finds it finished.

    Args:
        spec: the encoder's settings, for the stamp.
        batch_size: crops the encoder reads at once; small batches are the fastest on CPUs.
        crops: RC only: how many random crops of each picture to keep, to draw from when training.
        keep_views: keep the crops of a fixed view (10C, or 1C with its mirror image) apart instead of averaging them.
        skip_broken: finish without the pictures that cannot be read, instead of raising UserError with all of them.
        engine: spreads the work over the workers of Ray; the files are the same.
        progress: called with the rows done and their number.
    """
    out = Path(out)
    if view.pixels != encoder.pixels:
        raise UserError(
            f"the view has {view.pixels} px, the encoder reads {encoder.pixels} px",
            field="view.pixels",
            remedy=f"Set view.pixels to {encoder.pixels} (and view.resize to at least that), or the encoder's pixels.",
        )
    ids = [picture.id for picture in pictures]
    identities = identities_of(pictures)
    made_by: dict[str, Any] = {
        "encoder": as_json(spec),
        "weights": weights_fingerprint(encoder),
        "view": view.model_dump(mode="json"),
        "dtype": dtype,
        "crops": crops,
        "seed": seed,
        "pictures": {"count": len(ids), "fingerprint": fingerprint(ids, identities)},
    }
    kept = keep_views and view.deterministic and view.count > 1
    made_by |= {"keep_views": True} if kept else {}
    with ResumableWriter(out, MARKER, made_by, partial(other_features, out)) as writer:
        header = writer.state
        if header is not None and header.get("keep_views", False) != kept:
            raise other_features(out, "keep_views", not kept, kept)
        if header is None:
            _refuse_unusable(ids)
            write_text(out / "ids.txt", "".join(f"{id_}\n" for id_ in ids))
            write_npy(out / "identities.npy", identities)
            header = {"fingerprint": fingerprint(made_by), **made_by, "batch_size": batch_size}
            header |= {"axes": None, "rows": 0, "broken": {}, "done": False}
        _fill(encoder, pictures, view, writer, header, engine, progress)
        if not header["done"] and (skip_broken or not header["broken"]):
            header["done"] = True
            writer.mark(header, finished=True)
    if header["broken"] and not skip_broken:
        listed = "\n".join(f"    {id_}: {reason}" for id_, reason in header["broken"].items())
        raise UserError(
            f"{len(header['broken'])} of {len(ids)} pictures cannot be read:\n{listed}",
            file=out,
            remedy="Mend them or take them out and start afresh, or finish at once without them: --skip-broken.",
        )
    return FeatureStore.open(out)


def _fill(
    encoder: ImageEncoder,
    pictures: Sequence[Picture],
    view: ViewSettings,
    writer: ResumableWriter,
    header: dict[str, Any],
    engine: Ray | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Writes the rows from `header["rows"]` on, and moves that marker once they are safely on the disk."""
    total = len(pictures)
    if header["rows"] == total:
        return
    apart = ["crop"] if header["crops"] > 1 else ["view"] if header.get("keep_views") else []
    with evaluating(encoder):
        work = _Encoding(_engine(encoder, header, total * view.count), pictures, view, header, bool(apart))
        for start, rows, broken in (
            work.here() if engine is None else chain.from_iterable(engine.map(work, work.blocks))
        ):
            header["broken"] |= broken
            if header["axes"] is None:
                writer.reserve({name: (array.dtype, (total, *array.shape[1:])) for name, array in rows.items()})
                middle = {4: [*apart, "place"], 3: apart or ["place"], 2: []}
                header["axes"] = ["picture", *middle[rows["features"].ndim], "feature"]
            for name, array in rows.items():
                if name != "contents" or writer.has(name):  # one that an earlier version began has none
                    writer.write(name, start, array)
            header["rows"] = start + len(rows["features"])
            if header["rows"] == total or writer.due:
                writer.mark(header)
            if progress is not None:
                progress(header["rows"], total)


def _engine(encoder: ImageEncoder, header: dict[str, Any], crops: int) -> ImageEngine:
    """The one that began, if one did: the last bits of features are its own. Stores of before it was noted are torch's."""
    begun_with = header.get("engine", TorchImages.name) if header["rows"] else None
    engine = image_engine(encoder, crops * header["crops"], begun_with)
    header["engine"] = engine.name
    return engine


class _Batch(NamedTuple):
    """The row it starts at, the rows of each array, and the reason by id of those that are zero."""

    start: int
    rows: dict[str, np.ndarray]
    broken: dict[str, str]


class _Encoding(Work):
    """The batches of an extraction that are still to be made. A block is `BATCHES` of them."""

    def __init__(
        self,
        engine: ImageEngine,
        pictures: Sequence[Picture],
        view: ViewSettings,
        header: dict[str, Any],
        keep_crops: bool,
    ) -> None:
        self.engine, self.pictures, self.view, self.keep_crops = engine, pictures, view, keep_crops
        # A row's last bits can depend on the batch it was computed in: after a kill, the batches must be the same.
        self.first, self.size = header["rows"], header["batch_size"]
        self.gpus = int(isinstance(engine, TorchImages) and engine.device.type == "cuda")
        self.crops, self.seed, self.dtype = header["crops"], header["seed"], header["dtype"]

    @cached_property
    def loader(self) -> PictureLoader:
        return PictureLoader(self.pictures, self.view, broken="replace", crops=self.crops)

    def read(self, start: int) -> Loaded:
        batch = np.arange(start, min(start + self.size, len(self.pictures)))
        return self.loader.read(batch, np.random.default_rng([self.seed, start]))

    def encode(self, start: int, loaded: Loaded) -> _Batch:
        pixels, shown = loaded
        rows = _rows(self.engine, pixels, self.size, self.keep_crops)
        rows["features"] = rows["features"].astype(self.dtype, copy=False)
        rows["contents"] = contents_of(self.pictures[start : start + len(shown)])
        broken = {}
        for b in np.flatnonzero(shown != np.arange(start, start + len(shown))):
            id_ = self.pictures[start + int(b)].id
            broken[id_] = self.loader.broken[id_]
            for array in rows.values():
                array[b] = 0
        return _Batch(start, rows, broken)

    def here(self) -> Iterator[_Batch]:
        """All batches: some threads decode, and as many encode as the engine has use for; each works on a batch of its own."""
        readers = threads.most()
        with threads.pool(readers) as reading, threads.pool(self.engine.at_once) as encoding:
            waiting: deque[Future[_Batch]] = deque()
            for start in range(self.first, len(self.pictures), self.size):
                loading = reading.submit(self.read, start)
                waiting.append(
                    encoding.submit(lambda start, loading: self.encode(start, loading.result()), start, loading)
                )
                if len(waiting) > readers + self.engine.at_once:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    @property
    def blocks(self) -> range:
        return range(-(-(len(self.pictures) - self.first) // (BATCHES * self.size)))

    def __call__(self, block: int) -> list[_Batch]:
        return [self.encode(start, self.read(start)) for start in self._rows_of(block)[:: self.size]]

    def paths(self, block: int) -> list[Path]:
        return [path for path in (self.pictures[row].path for row in self._rows_of(block)) if path is not None]

    def _rows_of(self, block: int) -> range:
        start = self.first + block * BATCHES * self.size
        return range(start, min(start + BATCHES * self.size, len(self.pictures)))


def _rows(engine: ImageEngine, pixels: Tensor, size: int, keep_crops: bool) -> dict[str, np.ndarray]:
    """(B, V, 3, P, P) uint8 → the rows of each array. Crops are kept apart or averaged."""
    crops = pixels.flatten(0, 1).permute(0, 2, 3, 1).numpy()
    found = [engine.with_boxes(crops[start : start + size]) for start in range(0, len(crops), size)]
    vectors = torch.cat([sets.vectors for sets, _ in found])
    mask = torch.cat([sets.mask for sets, _ in found])
    vectors = vectors.masked_fill(~mask[:, :, None], 0).unflatten(0, pixels.shape[:2])  # (B, V, N, d)
    vectors = vectors if keep_crops else vectors.mean(1)
    rows = {"features": vectors.squeeze(-2) if vectors.shape[-2] == 1 else vectors}
    boxes = [box for _, box in found if box is not None]
    if boxes:
        if pixels.shape[1] > 1:
            raise UserError("regions need one crop of each picture", field="view", remedy="Use 1C without flip.")
        rows |= {"boxes": torch.cat(boxes), "lengths": mask.sum(1).to(torch.int32)}
    return {name: tensor.numpy() for name, tensor in rows.items()}


def _refuse_unusable(ids: list[str]) -> None:
    if not ids:
        raise UserError("there are no pictures to extract features from")
    if len(set(ids)) < len(ids) or any("\n" in id_ for id_ in ids):
        raise UserError("picture ids must be unique and without line breaks")
