"""A feature store: what a frozen encoder makes of every picture, computed once and memory-mapped ever after.

    features.npy     (n, d) pooled; (n, N, d) grids and regions; (n, crops, d) or (n, crops, N, d) pools of random crops;
                     (n, views, d) or (n, views, N, d) fixed views kept apart
    boxes.npy        (n, N, 4) x0, y0, x1, y1 in 0…1 of the view, and
    lengths.npy      (n,) how many of the N are real: both for region encoders only
    ids.txt          the picture of each row, one id a line
    identities.npy   (n, 2) size of the file and CRC-32 of its first 64 KB, to notice a picture that has changed
    store.json       what made it: encoder, weights, view, seed; the axes; how many rows are done

A kill at any moment costs the last few seconds: the same call goes on where the marker in store.json stands, and ends
with the same bytes as an extraction that was never stopped. A store made by another encoder, view or set of pictures is
refused.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np
import torch
from torch import Tensor, nn

from vsekit.data.decoding import version_of
from vsekit.data.pairs import Pairs, Picture
from vsekit.data.pictures import PictureLoader
from vsekit.data.views import ViewSettings, normalised
from vsekit.errors import UserError
from vsekit.files import fingerprint, write_json, write_npy, write_text
from vsekit.parts import Sets

if TYPE_CHECKING:
    from vsekit.encoders.base import ImageEncoder

#: Seconds of work a kill may cost.
FLUSH_SECONDS = 5.0
_REDO = "Extract them anew: vse features … --out DIR, with an empty or new DIR."


@dataclass(frozen=True)
class FeatureStore:
    """A finished store. `header` is store.json; `axes` names the axes of `features`."""

    folder: Path
    header: dict[str, Any]
    ids: list[str]

    @classmethod
    def open(cls, folder: Path | str) -> FeatureStore:
        folder = Path(folder)
        header = _header(folder)
        if header is None:
            raise UserError("no features here", file=folder, remedy="Extract them with: vse features … --out DIR")
        if not header["done"]:
            rows, count, broken = header["rows"], header["pictures"]["count"], len(header["broken"])
            what = f"{broken} pictures could not be read" if rows == count else f"{rows} of {count} pictures are done"
            raise UserError(
                f"unfinished: {what}",
                file=folder,
                remedy="Run the same vse features command again: it goes on where it stopped (--skip-broken: without "
                "the pictures that cannot be read).",
            )
        return cls(folder, header, (folder / "ids.txt").read_bytes().decode().split("\n")[:-1])

    @property
    def axes(self) -> list[str]:
        """Of `features`: picture, then crop (of a random pool) or view (fixed), place (grid or regions), and feature."""
        return self.header["axes"]

    @property
    def broken(self) -> dict[str, str]:
        """The pictures that could not be read, and why; their rows are zero."""
        return self.header["broken"]

    @property
    def features(self) -> np.ndarray:
        return self.array("features")

    def array(self, name: str) -> np.ndarray:
        """The memory-mapped `features`, `boxes` or `lengths`."""
        return np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)

    def check(
        self,
        *,
        encoder: ImageEncoder | None = None,
        spec: dict[str, Any] | None = None,
        view: ViewSettings | None = None,
        pictures: Sequence[Picture] | None = None,
    ) -> None:
        """Raises UserError, which says what changed, unless the store was made by this encoder (its settings `spec`,
        its weights), from this view, and from these pictures or more."""
        asked: dict[str, Any] = {}
        if spec is not None:
            asked["encoder"] = spec
        if encoder is not None:
            asked["weights"] = weights_fingerprint(encoder)
        if view is not None:
            asked["view"] = view.model_dump(mode="json")
        _refuse_differences(self.folder, self.header, asked)
        if pictures is not None:
            rows = self._rows(pictures)
            stored = np.load(self.folder / "identities.npy", allow_pickle=False)[rows]
            changed = [p.id for p, was in zip(pictures, stored) if p.path is not None and _identity(p) != tuple(was)]
            if changed:
                raise UserError(
                    f"{_listed(changed)} changed since the features were extracted", file=self.folder, remedy=_REDO
                )

    def attach(self, pairs: Pairs, *, skip_broken: bool = False, keep_broken: bool = False) -> Pairs:
        """The same pairs with `features` and every picture's `row`.

        A picture that was broken at extraction is an error, or is left out with its captions (`skip_broken`), or stays
        with features of zero (`keep_broken`).
        """
        unreadable = [i for i, picture in enumerate(pairs.pictures) if picture.id in self.broken]
        if unreadable and not (skip_broken or keep_broken):
            raise UserError(
                f"{_listed([pairs.pictures[i].id for i in unreadable])} could not be read and has no features",
                file=self.folder,
                remedy="Mend the files and extract again, or leave these pictures out.",
            )
        if unreadable and skip_broken:
            pairs = pairs.take(sorted(set(range(len(pairs.pictures))) - set(unreadable)))
        pictures = [replace(picture, row=row) for picture, row in zip(pairs.pictures, self._rows(pairs.pictures))]
        lengths = self.array("lengths") if (self.folder / "lengths.npy").is_file() else None
        return replace(
            pairs,
            pictures=pictures,
            features=self.features,
            feature_crops="crop" in self.axes,
            feature_views="view" in self.axes,
            feature_lengths=lengths,
            feature_source={name: self.header[name] for name in ("encoder", "weights", "view")},
        )

    def _rows(self, pictures: Sequence[Picture]) -> list[int]:
        row = {id_: i for i, id_ in enumerate(self.ids)}
        missing = [picture.id for picture in pictures if picture.id not in row]
        if missing:
            raise UserError(f"{_listed(missing)} not in these features", file=self.folder, remedy=_REDO)
        return [row[picture.id] for picture in pictures]


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
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> FeatureStore:
    """Extracts the features of `pictures` into the folder `out`, or goes on with it, or finds it finished.

    Args:
        spec: the encoder's settings, for the stamp.
        batch_size: crops the encoder reads at once; small batches are the fastest on CPUs.
        crops: RC only: how many random crops of each picture to keep, to draw from when training.
        keep_views: keep the crops of a fixed view (10C, or 1C with its mirror image) apart instead of averaging them.
        skip_broken: finish without the pictures that cannot be read, instead of raising UserError with all of them.
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
        "encoder": _as_json(spec),
        "weights": weights_fingerprint(encoder),
        "view": view.model_dump(mode="json"),
        "dtype": dtype,
        "crops": crops,
        "seed": seed,
        "pictures": {"count": len(ids), "fingerprint": fingerprint(ids, identities)},
    }
    kept = keep_views and view.deterministic and view.count > 1
    made_by |= {"keep_views": True} if kept else {}
    header = _header(out)
    if header is not None:
        _refuse_differences(out, {"keep_views": False, **header}, made_by | {"keep_views": kept})
    else:
        _refuse_unusable(ids)
        write_text(out / "ids.txt", "".join(f"{id_}\n" for id_ in ids))
        write_npy(out / "identities.npy", identities)
        header = {"fingerprint": fingerprint(made_by), **made_by, "batch_size": batch_size}
        header |= {"axes": None, "rows": 0, "broken": {}, "done": False}
    _fill(encoder, pictures, view, out, header, workers, progress)
    if header["broken"] and not skip_broken:
        listed = "\n".join(f"    {id_}: {reason}" for id_, reason in header["broken"].items())
        raise UserError(
            f"{len(header['broken'])} of {len(ids)} pictures cannot be read:\n{listed}",
            file=out,
            remedy="Mend them or take them out and start afresh, or finish at once without them: --skip-broken.",
        )
    if not header["done"]:
        header["done"] = True
        write_json(out / "store.json", header)
    return FeatureStore.open(out)


def weights_fingerprint(module: nn.Module) -> str:
    """A name for a module's weights."""
    state = module.state_dict().items()
    return fingerprint(*(part for name, tensor in state for part in (name, tensor.cpu().numpy())))


def _fill(
    encoder: ImageEncoder,
    pictures: Sequence[Picture],
    view: ViewSettings,
    out: Path,
    header: dict[str, Any],
    workers: int,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Writes the rows from `header["rows"]` on, and moves that marker once they are safely on the disk."""
    # A row's last bits can depend on the batch it was computed in: after a kill, the batches must be the same.
    size, crops, total = header["batch_size"], header["crops"], len(pictures)
    apart = ["crop"] if crops > 1 else ["view"] if header.get("keep_views") else []
    starts = range(header["rows"], total, size)
    loader = PictureLoader(pictures, view, broken="replace", workers=workers, crops=crops)
    batches = ((np.arange(s, min(s + size, total)), np.random.default_rng([header["seed"], s])) for s in starts)
    flushed = time.monotonic()
    with _evaluating(encoder), ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        for start, loaded in zip(starts, loader.prefetch(batches)):
            rows = _encoded(encoder, loaded.pixels, size, keep_crops=bool(apart))
            rows["features"] = rows["features"].astype(header["dtype"])
            for b in np.flatnonzero(loaded.shown != np.arange(start, start + len(loaded.shown))):
                id_ = pictures[start + int(b)].id
                header["broken"][id_] = loader.broken[id_]
                for array in rows.values():
                    array[b] = 0
            if header["axes"] is None:
                _create(out, rows, total)
                middle = {4: [*apart, "place"], 3: apart or ["place"], 2: []}
                header["axes"] = ["picture", *middle[rows["features"].ndim], "feature"]
            for name, array in rows.items():
                if name not in files:
                    files[name] = stack.enter_context((out / f"{name}.npy").open("r+b"))
                files[name].seek((start - total) * array[0].nbytes, os.SEEK_END)
                files[name].write(array.tobytes())
            header["rows"] = start + len(loaded.shown)
            if header["rows"] == total or time.monotonic() - flushed >= FLUSH_SECONDS:
                for file in files.values():
                    file.flush()
                    os.fsync(file.fileno())
                write_json(out / "store.json", header)
                flushed = time.monotonic()
            if progress is not None:
                progress(header["rows"], total)


@contextmanager
def _evaluating(encoder: ImageEncoder) -> Iterator[None]:
    training = encoder.training
    encoder.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        encoder.train(training)


def _encoded(encoder: ImageEncoder, pixels: Tensor, size: int, *, keep_crops: bool) -> dict[str, np.ndarray]:
    """(B, V, 3, P, P) uint8 → the rows of each array. Crops are kept apart or averaged."""
    device = next(encoder.parameters()).device
    found: list[tuple[Sets, Tensor | None]] = []
    for part in pixels.flatten(0, 1).split(size):
        prepared = normalised(part.to(device), encoder.mean, encoder.std)
        regions = getattr(encoder, "regions", None)
        found.append(regions(prepared) if regions is not None else (encoder(prepared), None))
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
    return {name: tensor.cpu().numpy() for name, tensor in rows.items()}


def _create(out: Path, rows: dict[str, np.ndarray], total: int) -> None:
    """The files at their final size, still sparse."""
    needed, free = sum(total * array[0].nbytes for array in rows.values()), shutil.disk_usage(out).free
    if needed > free:
        raise UserError(
            f"the features take {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free",
            file=out,
            remedy="Store them as float16, pool them, keep fewer crops, or choose another disk.",
        )
    for name, array in rows.items():
        np.lib.format.open_memmap(out / f"{name}.npy", mode="w+", dtype=array.dtype, shape=(total, *array.shape[1:]))


def identities_of(pictures: Sequence[Picture]) -> np.ndarray:
    """(n, 2) uint64: size and CRC-32 of the first 64 KB of every picture."""
    return np.array([_identity(picture) for picture in pictures], np.uint64).reshape(-1, 2)


def _identity(picture: Picture) -> tuple[int, int]:
    """Size, and CRC-32 of the first 64 KB, from the version of reading such pictures on; zeros for what cannot be read."""
    if picture.path is None:
        return 0, 0
    try:
        with picture.path.open("rb") as file:
            size = picture.size if picture.offset is not None else os.fstat(file.fileno()).st_size
            file.seek(picture.offset or 0)
            head = file.read(min(size or 0, 65536))
            return size or 0, zlib.crc32(head, version_of(head))
    except OSError:
        return 0, 0


def _header(folder: Path) -> dict[str, Any] | None:
    try:
        return json.loads((folder / "store.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UserError(f"this feature store is damaged: {error}", file=folder, remedy=_REDO) from None


def _refuse_differences(folder: Path, header: dict[str, Any], asked: dict[str, Any]) -> None:
    for name, value in asked.items():
        was, now = header[name], _as_json(value)
        if was == now:
            continue
        if isinstance(was, dict):
            keys = [key for key in {**was, **now} if was.get(key) != now.get(key)]
            was, now = ({key: side.get(key) for key in keys} for side in (was, now))
        raise UserError(f"these features were made with other {name}: {was}, not {now}", file=folder, remedy=_REDO)


def _refuse_unusable(ids: list[str]) -> None:
    if not ids:
        raise UserError("there are no pictures to extract features from")
    if len(set(ids)) < len(ids) or any("\n" in id_ for id_ in ids):
        raise UserError("picture ids must be unique and without line breaks")


def _as_json(value: Any) -> Any:
    """As it comes back from a JSON file: tuples are lists."""
    return json.loads(json.dumps(value))


def _listed(ids: list[str]) -> str:
    few = ", ".join(f"'{id_}'" for id_ in ids[:5])
    return f"{len(ids)} pictures ({few}{', …' if len(ids) > 5 else ''})" if len(ids) > 1 else f"picture {few}"
