"""The protocols tables are made with: which images and captions are ranked together, and what is averaged.

| protocol    | what is ranked                                                                                  |
|-------------|-------------------------------------------------------------------------------------------------|
| `full`      | everything with everything                                                                      |
| `5k`        | the first 5,000 images and their captions (COCO's 5K test)                                      |
| `1k`        | five sequential folds of 1,000 images and their captions, every number averaged over the folds; |
|             | of fewer than 5,000 images as many whole folds as there are                                     |
| `1k-single` | the first of these folds alone                                                                  |
| `person`    | everything; groups are persons, any image of the person is right (CUHK-PEDES)                   |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from vsekit.errors import UserError, nearest
from vsekit.evaluation.metrics import KS, Metrics, Ties, metrics
from vsekit.evaluation.positives import Positives
from vsekit.evaluation.ranks import BLOCK, count_ranks
from vsekit.evaluation.scorers import Scorer, Taken
from vsekit.progress import Update

Protocol = Literal["full", "5k", "1k", "1k-single", "person"]

#: Images in a fold, and the most folds.
_FOLDS: dict[str, tuple[int, int]] = {"5k": (5000, 1), "1k": (1000, 5), "1k-single": (1000, 1)}


def evaluate(
    scores: Scorer,
    image_groups: np.ndarray,
    caption_groups: np.ndarray,
    *,
    protocol: Protocol = "full",
    ks: Sequence[int] = KS,
    ties: Ties = "mean",
    block: int = BLOCK,
    progress: Update | None = None,
) -> Metrics:
    """Metrics of a scorer (a model, or an `Average` of models) under a protocol, positives by groups.

    Args:
        image_groups, caption_groups: (n_images,) and (n_captions,) integers; equal ones belong together.
        ks: the K of R@K; rsum is always that of 1, 5 and 10.
        ties: see `metrics`.
        progress: told how many scores of how many are done.
    """
    check_ties(ties)
    image_groups, caption_groups = np.asarray(image_groups), np.asarray(caption_groups)
    folds = _folds(protocol, image_groups, caption_groups)
    sizes = [len(images) * len(captions) for images, captions in folds]
    results: list[Metrics] = []
    for images, captions in folds:

        def tell(done: int, _: int, before: int = sum(sizes[: len(results)])) -> None:
            if progress is not None:
                progress(before + done, sum(sizes))

        whole = len(images) == scores.n_images and len(captions) == scores.n_captions
        positives = Positives.by_groups(image_groups[images], caption_groups[captions])
        found = count_ranks(scores if whole else Taken(scores, images, captions), positives, block=block, progress=tell)
        results.append(metrics(found, protocol=protocol, ks=ks, ties=ties))
    return average(results) if protocol == "1k" else results[0]


def average(folds: Sequence[Metrics]) -> Metrics:
    """Every number averaged over folds, as the 1K protocol has it (rsum, too, is the mean of the folds' rsums)."""
    i2t, t2i = (
        {k: float(np.mean([getattr(f, side)[k] for f in folds])) for k in folds[0].i2t} for side in ("i2t", "t2i")
    )
    return Metrics(
        i2t,
        t2i,
        float(np.mean([f.rsum for f in folds])),
        folds[0].protocol,
        sum(f.n_images for f in folds),
        sum(f.n_captions for f in folds),
        folds=list(folds),
        ranks=[r for f in folds for r in f.ranks],
        ties=folds[0].ties,
    )


def check_ties(ties: str) -> None:
    """UserError unless there is such a tie rule."""
    if ties not in get_args(Ties):
        raise UserError(
            f"no tie rule '{ties}'{nearest(ties, get_args(Ties))}",
            field="ties",
            remedy=f"There are: {', '.join(get_args(Ties))}.",
        )


def check_protocol(protocol: str, image_groups: np.ndarray | None = None) -> None:
    """UserError unless there is such a protocol, and it fits these images; cheap, to be asked before they are encoded."""
    if protocol not in get_args(Protocol):
        raise UserError(
            f"no protocol '{protocol}'{nearest(protocol, get_args(Protocol))}",
            field="protocol",
            remedy=f"There are: {', '.join(get_args(Protocol))}.",
        )
    if image_groups is None:
        return
    if protocol == "person" and len(np.unique(image_groups)) == len(image_groups):
        raise UserError(
            "every image is a person of its own",
            field="protocol",
            remedy="Person search needs groups: give all images and captions of a person the same one.",
        )
    if len(image_groups) < fewest_images(protocol):
        raise UserError(
            f"{len(image_groups)} images are too few for '{protocol}', which ranks {fewest_images(protocol)} at a time",
            field="protocol",
            remedy="Use 'full', which ranks everything with everything.",
        )


def fewest_images(protocol: str) -> int:
    """Images a protocol can't do without: those of one fold."""
    return _FOLDS.get(protocol, (1, 1))[0]


def _folds(protocol: str, image_groups: np.ndarray, caption_groups: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    check_protocol(protocol, image_groups)
    n = len(image_groups)
    if protocol not in _FOLDS:
        return [(np.arange(n), np.arange(len(caption_groups)))]
    size, most = _FOLDS[protocol]
    folds = [np.arange(f * size, (f + 1) * size) for f in range(min(most, n // size))]
    return [(images, np.flatnonzero(np.isin(caption_groups, image_groups[images]))) for images in folds]
