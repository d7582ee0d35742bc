"""Results for other programs: CSV of the numbers, and TREC runs with qrels, which trec_eval, ranx and others read.

<folder>/i2t.run, t2i.run      query Q0 item rank score tag
<folder>/i2t.qrels, t2i.qrels  query 0 item 1
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from vsekit import files
from vsekit.errors import UserError
from vsekit.evaluation.metrics import Metrics
from vsekit.evaluation.positives import Positives, Relation
from vsekit.evaluation.scorers import Scorer
from vsekit.evaluation.topk import TopK, unpack

_PANEL, _BLOCK = 1024, 2048


def write_csv(path: Path | str, runs: Mapping[str, Metrics]) -> None:
    """One line a run and fold: run, protocol, fold, i2t_r1, …, t2i_…, rsum, n_images, n_captions."""
    text = io.StringIO()
    first = next(iter(runs.values()))
    names = [f"{side}_{name}" for side in ("i2t", "t2i") for name in getattr(first, side)]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", "protocol", "fold", *names, "rsum", "n_images", "n_captions"])
    for run, metrics in runs.items():
        for fold, part in [("", metrics), *((str(f + 1), m) for f, m in enumerate(metrics.folds))]:
            numbers = [*part.i2t.values(), *part.t2i.values(), part.rsum, part.n_images, part.n_captions]
            writer.writerow([run, part.protocol, fold, *numbers])
    files.write_text(path, text.getvalue())


def best_items(scores: Scorer, top: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The best captions of every image and their scores, the best images of every caption and theirs, best first."""
    captions_of, images_of = (
        TopK(scores.n_images, min(top, scores.n_captions)),
        TopK(scores.n_captions, min(top, scores.n_images)),
    )
    for i in range(0, scores.n_images, _PANEL):
        rows = slice(i, min(i + _PANEL, scores.n_images))
        for c in range(0, scores.n_captions, _BLOCK):
            columns = slice(c, min(c + _BLOCK, scores.n_captions))
            matrix = scores.block(rows, columns).cpu().numpy()
            captions_of.update(rows, matrix, np.arange(columns.start, columns.stop))
            images_of.update(columns, matrix.T, np.arange(rows.start, rows.stop))
    (caption_scores, captions), (image_scores, images) = unpack(captions_of.best()), unpack(images_of.best())
    return captions, caption_scores, images, image_scores


def write_trec(
    folder: Path | str,
    scores: Scorer,
    positives: Positives,
    *,
    top: int = 100,
    tag: str = "vsekit",
    image_ids: Sequence[str] | None = None,
    caption_ids: Sequence[str] | None = None,
) -> None:
    """Writes runs of the best `top` items a query, and qrels, for both directions. Ids are positions unless given."""
    image_names = _names(image_ids, scores.n_images, "image")
    caption_names = _names(caption_ids, scores.n_captions, "caption")
    captions, caption_scores, images, image_scores = best_items(scores, top)
    folder = Path(folder)
    for side, relation, queries, items, found, values in (
        ("i2t", positives.i2t, image_names, caption_names, captions, caption_scores),
        ("t2i", positives.t2i, caption_names, image_names, images, image_scores),
    ):
        files.write_text(folder / f"{side}.run", _run(relation, queries, items, found, values, tag))
        pairs = zip(relation.queries.tolist(), relation.items.tolist())
        files.write_text(folder / f"{side}.qrels", "".join(f"{queries[q]} 0 {items[x]} 1\n" for q, x in pairs))


def _run(
    relation: Relation, queries: Sequence[str], items: Sequence[str], found: np.ndarray, values: np.ndarray, tag: str
) -> str:
    return "".join(
        f"{queries[q]} Q0 {items[item]} {rank} {score:.7g} {tag}\n"
        for q in relation.asked.tolist()
        for rank, (item, score) in enumerate(zip(found[q].tolist(), values[q].tolist()), start=1)
    )


def _names(ids: Sequence[str] | None, n: int, what: str) -> Sequence[str]:
    """Ids without spaces, one an item and each once, as the format demands."""
    if ids is None:
        return [str(i) for i in range(n)]
    bad = next((name for name in ids if not name or name.split() != [name]), None)
    if bad is not None:
        raise UserError(f"'{bad}' cannot be an id in a TREC file", field=f"{what} id", remedy="Ids have no spaces.")
    if len(ids) != n or len(set(ids)) != n:
        raise UserError(f"{len(set(ids))} different ids for {n} items", field=f"{what} id")
    return ids
