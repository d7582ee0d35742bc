"""The features of a study: extracted once by an encoder, or made of others; kept under WORK/features.

Regions are those of the detector of `studies.centernet`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studies.centernet import GET_DETECTOR, regions
from vsekit.data.pairs import Pairs
from vsekit.data.views import view_settings
from vsekit.encoders.base import ImageEncoder
from vsekit.encoders.image import encoder_settings
from vsekit.encoders.image.detector_regions import DetectorRegionsSettings
from vsekit.errors import UserError
from vsekit.features.extraction import extract
from vsekit.features.store import MARKER, FeatureStore
from vsekit.files import write_npy
from vsekit.progress import Progress
from vsekit.seals import sums_of, write_sealed


def features(
    content: dict[str, Any], work: Path, name: str, pairs: Pairs, progress: Progress, detector: Path | None = None
) -> FeatureStore:
    """Extracts features of a study, or opens them. content: its YAML; see `studies.matrix`. detector: its centernet.json."""
    spec = dict(content["features"][name])
    if "reduce" in spec:
        source = features(content, work, spec["reduce"], pairs, progress, detector)
        return reduced(source, pairs, spec.get("side"), spec["dim"], work / "features" / name)
    if "mean" in spec:
        return averaged(features(content, work, spec["mean"], pairs, progress), work / "features" / name)
    settings = encoder_settings(spec["encoder"])
    view = view_settings(spec.get("view", "1C"))
    if isinstance(settings, DetectorRegionsSettings):
        if detector is None:
            raise UserError(f"features '{name}' need a detector", field="--detector", remedy=GET_DETECTOR)
        encoder: ImageEncoder = regions(detector, settings)
    else:
        encoder = settings.build()
    with progress.bar(f"Features {name}", "pictures") as bar:
        return extract(
            encoder,
            settings.model_dump(mode="json"),
            pairs.pictures,
            view,
            work / "features" / name,
            crops=spec.get("crops", 1),
            dtype=spec.get("dtype", "float32"),
            progress=bar,
        )


def needs_detector(content: dict[str, Any], name: str) -> bool:
    """Whether features, or those they are made of, are of regions."""
    spec = content["features"][name]
    source = spec.get("reduce") or spec.get("mean")
    if source:
        return needs_detector(content, source)
    return isinstance(encoder_settings(spec["encoder"]), DetectorRegionsSettings)


def coarser(cells: np.ndarray, side: int | None) -> np.ndarray:
    """(n, S², d) grids of S × S cells → (n, side², d) float32, the means of neighbouring cells. None: as they are."""
    if side is None:
        return cells.astype(np.float32)
    n, places, width = cells.shape
    grid = torch.from_numpy(cells.astype(np.float32)).view(n, round(places**0.5), -1, width).permute(0, 3, 1, 2)
    return torch.nn.functional.adaptive_avg_pool2d(grid, side).permute(0, 2, 3, 1).reshape(n, -1, width).numpy()


def reduced(source: FeatureStore, pairs: Pairs, side: int | None, dim: int, out: Path) -> FeatureStore:
    """Grids of `side` × `side` cells (None: sets as they are), and of their vectors the first `dim` principal components over
    the training pictures, all scaled alike to a mean variance of 1."""
    if (out / MARKER).is_file():
        return FeatureStore.open(out)
    cells = source.features
    width = cells.shape[-1]
    rows = np.array([picture.row for picture in source.attach(pairs).split("train").pictures], np.int64)
    total, square, n = np.zeros(width), np.zeros((width, width)), 0
    for block in _blocks(np.sort(rows)):
        x = coarser(cells[block], side).reshape(-1, width)
        total, square, n = total + x.sum(0), square + x.T @ x, n + len(x)
    mean = total / n
    values, vectors = np.linalg.eigh(square / n - np.outer(mean, mean))
    axes = (vectors[:, -dim:] / values[-dim:].mean() ** 0.5).astype(np.float32)
    kept = round(float(values[-dim:].sum() / values.sum()), 4)
    change = {"reduced": {"side": side, "dim": dim, "variance_kept": kept}}
    return _derived(source, out, lambda x: (coarser(x, side) - mean.astype(np.float32)) @ axes, change)


def averaged(source: FeatureStore, out: Path) -> FeatureStore:
    """The mean over a picture's cells."""
    if (out / MARKER).is_file():
        return FeatureStore.open(out)
    return _derived(source, out, lambda x: x.mean(1), {"axes": ["picture", "feature"]})


def _blocks(rows: np.ndarray) -> list[np.ndarray]:
    return np.array_split(rows, min(64, len(rows)))


def _derived(source: FeatureStore, out: Path, function: Any, change: dict[str, Any]) -> FeatureStore:
    """A store of what `function` makes of the features of another, block by block."""
    blocks = (function(source.features[b].astype(np.float32)) for b in _blocks(np.arange(len(source.ids))))
    write_npy(out / "features.npy", np.concatenate([block.astype(np.float16) for block in blocks]))
    for name in ("ids.txt", "identities.npy"):
        shutil.copyfile(source.folder / name, out / name)
    sums = sums_of(out, [*out.glob("*.npy"), *out.glob("*.txt")])
    write_sealed(out / MARKER, source.header | {"dtype": "float16"} | change, sums)
    return FeatureStore.open(out)
