"""Offline hard negatives: for every image the captions of other groups that score highest over the whole training set,
and for every caption the images (AOQ, Chen et al., ECCV 2020, Sec. 3.2), exactly, from one walk over the score matrix.

Images come in panels. Within a panel every caption block is scored once and shown to the running best of the panel's
images and to that of all captions (`evaluation.topk`). A finished panel's lists are final; the captions' state is saved
from time to time (`features.writer`), so that a killed run continues where it was. While it works, everything is in
`<out>.partial`; the finished folder takes its name in one step and holds

    captions.npy         (n_images, top_captions) int32, hardest first        caption_scores.npy   float32, same shape
    images.npy           (n_captions, top_images) int32, hardest first        image_scores.npy     float32, same shape
    positive_scores.npy  float32, of the pairs that belong together, image by image, captions ascending
    mining.json          fingerprint, sizes, settings, distribution of scores; checksums of all files
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from vsekit import files
from vsekit.bulk.ray import Ray
from vsekit.bulk.work import Work
from vsekit.errors import UserError
from vsekit.evaluation.positives import Positives, Relation
from vsekit.evaluation.scorers import Scorer, scorer
from vsekit.evaluation.topk import TopK, unpack
from vsekit.features.writer import ResumableWriter, load_array
from vsekit.progress import Update
from vsekit.seals import CHECKED, KEY, check_files, read_sealed, sums_of, write_sealed

ARRAYS = ("captions", "images", "caption_scores", "image_scores", "positive_scores")
REPAIR = "Remove the folder, and mine again: vse mine"
MARKER = "mining.json"
PANEL, BLOCK = 1024, 2048
#: In a block of work for others: each sends its best images of every caption.
PANELS = 4
SAMPLE = 64  # negatives remembered of each block, for the distribution
LAYOUT = 2  # of an unfinished folder; that of another version is begun anew
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True)
class MiningResult:
    """The files of a mining folder, memory-mapped; see the module."""

    folder: Path
    captions: np.ndarray
    images: np.ndarray
    caption_scores: np.ndarray
    image_scores: np.ndarray
    positive_scores: np.ndarray
    info: dict[str, Any]

    @classmethod
    def load(cls, folder: Path | str) -> MiningResult:
        folder = Path(folder)
        if not (folder / MARKER).is_file():
            raise UserError("not a folder of mined negatives", file=folder, remedy="Make one with: vse mine")
        info = read_sealed(folder / MARKER, REPAIR)
        check_files(folder, info.pop(KEY, {}), REPAIR, most=CHECKED)
        if not {"fingerprint", "distribution"} <= info.keys():
            raise UserError("this does not describe mined negatives", file=folder / MARKER, remedy=REPAIR)
        return cls(folder=folder, info=info, **{name: load_array(folder / f"{name}.npy") for name in ARRAYS})

    def summary(self) -> list[str]:
        """Lines with the distribution of positive and negative scores."""
        rows = self.info["distribution"]
        lines = [f"{'scores':28}" + "".join(f"{f'{q:.0%}':>9}" for q in QUANTILES)]
        return lines + [f"{name:28}" + "".join(f"{value:9.3f}" for value in values) for name, values in rows.items()]


def mine(
    images: Any,
    captions: Any,
    image_groups: np.ndarray,
    caption_groups: np.ndarray,
    out: Path | str,
    *,
    top_captions: int = 300,
    top_images: int = 60,
    score: Any = None,
    fingerprint: Any = None,
    resume: bool = True,
    progress: Update | None = None,
) -> MiningResult:
    """Mines embeddings or sets, of the model in training or of a teacher.

    Args:
        images, captions: (n, D) arrays, memory maps or tensors, or `Sets`; as `evaluation.ranks.ranks` takes them.
        image_groups, caption_groups: integers; equal ones belong together and are never negatives.
        out: the folder to make.
        score: a `Similarity` or any callable on blocks; None is the inner product.
        fingerprint: what names model and data; an unfinished run is continued only when it agrees.
        resume: False begins anew.
        progress: told how many images of how many are done.
    """
    return mine_scores(
        scorer(images, captions, score),
        Positives.by_groups(image_groups, caption_groups).i2t,
        out,
        top_captions=top_captions,
        top_images=top_images,
        fingerprint=fingerprint,
        resume=resume,
        progress=progress,
    )


def mine_scores(
    scores: Scorer,
    own: Relation,
    out: Path | str,
    *,
    top_captions: int = 300,
    top_images: int = 60,
    fingerprint: Any = None,
    collection: str | None = None,
    resume: bool = True,
    engine: Ray | None = None,
    progress: Update | None = None,
    panel: int = PANEL,
    block: int = BLOCK,
    save_seconds: float = 20.0,
) -> MiningResult:
    """Mines any scorer (also an `Average` of models).

    own: the captions that belong to each image.
    collection: names the pictures and captions; kept with the lists.
    engine: spreads panels over the workers of Ray; the files are the same.
    """
    out = Path(out)
    n, m = scores.n_images, scores.n_captions
    _check_lengths(own, n, m, top_captions, top_images)
    info: dict[str, Any] = {"n_images": n, "n_captions": m, "top_captions": top_captions, "top_images": top_images}
    # A few scores name the model where the caller gave no fingerprint.
    probe = [np.unique(np.linspace(0, size - 1, 64).astype(np.int64)) for size in (n, m)]
    sample = scores.block(probe[0], probe[1]).cpu().numpy().copy()
    info["fingerprint"] = files.fingerprint(fingerprint, info, own.starts, own.items, sample, panel, block)
    if collection is not None:
        info["collection"] = collection
    if out.exists() and not out.is_dir():
        raise UserError("this is a file, not a folder", file=out, remedy="Choose another --out.")
    if (out / MARKER).is_file() and resume:
        finished = MiningResult.load(out)
        if finished.info["fingerprint"] == info["fingerprint"]:
            _remove_spare(out)
            return finished
        raise UserError(
            "these negatives were mined with another model, other data or other sizes",
            file=out,
            remedy="Choose another --out.",
        )
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).is_file():
        raise UserError("the folder exists and holds other files", file=out, remedy="Choose another --out.")
    partial = out.with_name(out.name + ".partial")
    if not (resume and (partial / "started.json").is_file()):
        shutil.rmtree(partial, ignore_errors=True)
    with ResumableWriter(partial, "started.json", {**info, "layout": LAYOUT}, seconds=save_seconds) as writer:
        work = _Work(writer, info, len(own.items), -(-n // panel), -(-m // block))
        panels = _Panels(scores, own, info, panel, block, -(-work.done // panel))  # the last panel may be short
        for mined, images in panels.here(work.best_images) if engine is None else engine.map(panels, panels.blocks):
            work.take(mined, images)
            if writer.due:
                work.mark()
            if progress is not None:
                progress(work.done, n)
        work.finish()
    old = out.with_name(out.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if out.is_dir():
        out.rename(old)
    os.replace(partial, out)
    shutil.rmtree(old, ignore_errors=True)
    _remove_spare(out)
    return MiningResult.load(out)


def _remove_spare(out: Path) -> None:
    """What only an unfinished mining needs; a kill may have left it."""
    for spare in [out / "started.json", out / "sample.npy", *out.glob("snapshot-*.npy")]:
        spare.unlink(missing_ok=True)


def _check_lengths(own: Relation, n: int, m: int, top_captions: int, top_images: int) -> None:
    own_images = np.bincount(own.items, minlength=m)
    for what, wanted, there in (
        ("top_captions", top_captions, m - int(own.counts.max())),
        ("top_images", top_images, n - int(own_images.max())),
    ):
        if not 1 <= wanted <= there:
            raise UserError(
                f"{wanted} negatives are wanted, and an item has {there} of other groups",
                field=what,
                remedy=f"Choose 1 … {there}.",
            )


class _Mined(NamedTuple):
    """What a panel gives for its images, `rows`."""

    number: int
    rows: slice
    captions: np.ndarray
    caption_scores: np.ndarray
    first_pair: int
    positive_scores: np.ndarray
    sample: np.ndarray


class _Panels(Work):
    """The panels from `first` on. A block is `PANELS` of them, with its own best images of every caption, (m, k) packed."""

    def __init__(self, scores: Scorer, own: Relation, info: dict[str, Any], panel: int, block: int, first: int) -> None:
        self.scores, self.own, self.info, self.panel, self.block, self.first = scores, own, info, panel, block, first
        self.count = -(-scores.n_images // panel)

    def mine(self, number: int, best_images: TopK) -> _Mined:
        """One panel; what it has for captions goes into `best_images`."""
        scores, own, block = self.scores, self.own, self.block
        rows = slice(number * self.panel, min((number + 1) * self.panel, scores.n_images))
        best = TopK(rows.stop - rows.start, self.info["top_captions"])
        first_pair = int(own.starts[rows.start])
        pairs = np.arange(first_pair, own.starts[rows.stop])
        positive_scores = np.empty(len(pairs), np.float32)
        sample = np.empty((1, -(-scores.n_captions // block), SAMPLE), np.float32)
        pairs = pairs[np.argsort(own.items[pairs], kind="stable")]
        for place, start in enumerate(range(0, scores.n_captions, block)):
            columns = slice(start, min(start + block, scores.n_captions))
            tensor = scores.block(rows, columns)
            if not torch.isfinite(tensor.sum()):
                raise UserError("the scores contain NaN or infinity", remedy="Look for them in the embeddings.")
            matrix = tensor.cpu().numpy()
            first, last = np.searchsorted(own.items[pairs], [columns.start, columns.stop])
            here = pairs[first:last]
            positive = own.queries[here] - rows.start, own.items[here] - columns.start
            positive_scores[here - first_pair] = matrix[positive]
            matrix[positive] = -np.inf
            spread = np.arange(SAMPLE) * 7919 % matrix.size
            sample[0, place] = matrix[np.divmod(spread, matrix.shape[1])]
            best.update(slice(0, best.n), matrix, np.arange(columns.start, columns.stop))
            best_images.update(columns, matrix.T, np.arange(rows.start, rows.stop))
        caption_scores, captions = unpack(best.best())
        return _Mined(number, rows, captions, caption_scores, first_pair, positive_scores, sample)

    def here(self, best_images: TopK) -> Iterator[tuple[list[_Mined], None]]:
        for number in range(self.first, self.count):
            yield [self.mine(number, best_images)], None

    @property
    def blocks(self) -> range:
        return range(-(-(self.count - self.first) // PANELS))

    def __call__(self, block: int) -> tuple[list[_Mined], np.ndarray]:
        begin = self.first + block * PANELS
        best = TopK(self.scores.n_captions, self.info["top_images"])
        mined = [self.mine(number, best) for number in range(begin, min(begin + PANELS, self.count))]
        return mined, best.best()[:, : mined[-1].rows.stop - mined[0].rows.start].copy()


class _Work:
    """A mining under way. The lists of images before `done` are written; the best images so far are in the snapshot."""

    def __init__(self, writer: ResumableWriter, info: dict[str, Any], pairs: int, panels: int, blocks: int) -> None:
        self.writer, self.info, self.done = writer, info, 0
        n, m, captions, images = (info[key] for key in ("n_images", "n_captions", "top_captions", "top_images"))
        self.best_images = TopK(m, images)
        snapshot = writer.snapshot()
        if writer.state is not None and snapshot is not None:
            self.done = writer.state["done"]
            self.best_images.restore(snapshot)
            return
        writer.reserve(
            {
                "captions": (np.int32, (n, captions)),
                "caption_scores": (np.float32, (n, captions)),
                "images": (np.int32, (m, images)),
                "image_scores": (np.float32, (m, images)),
                "positive_scores": (np.float32, (pairs,)),
                "sample": (np.float32, (panels, blocks, SAMPLE)),
            }
        )

    def take(self, mined: list[_Mined], images: np.ndarray | None) -> None:
        """Writes what panels gave. images: their best for captions, where those have not been looked at."""
        for one in mined:
            self.writer.write("caption_scores", one.rows.start, one.caption_scores)
            self.writer.write("captions", one.rows.start, one.captions)
            self.writer.write("positive_scores", one.first_pair, one.positive_scores)
            self.writer.write("sample", one.number, one.sample)
        if images is not None:
            self.best_images.merge(images)
        self.done = mined[-1].rows.stop

    def mark(self) -> None:
        self.writer.mark({**self.info, "layout": LAYOUT, "done": self.done}, self.best_images.best())

    def finish(self) -> None:
        """Writes what only the whole walk can tell."""
        image_scores, images = unpack(self.best_images.best())
        self.writer.write("images", 0, images)
        self.writer.write("image_scores", 0, image_scores)
        sample = self.writer.array("sample")
        distribution = {
            "positive": self.writer.array("positive_scores"),
            "negative, any": sample[np.isfinite(sample)],
            "negative, hardest of image": self.writer.array("caption_scores")[:, 0],
            "negative, hardest of caption": image_scores[:, 0],
        }
        self.info["distribution"] = {name: np.quantile(v, QUANTILES).tolist() for name, v in distribution.items()}
        self.mark()
        folder = self.writer.folder
        sums = sums_of(folder, [folder / f"{name}.npy" for name in ARRAYS])
        write_sealed(folder / MARKER, self.info, sums)
