"""Who is right for whom: the positives of a collection, by groups or from human judgements.

The usual positives follow from groups: an image and a caption belong together when their groups are equal. Two
collections of judgements correct what COCO's 5K test set leaves out, and come with the package `eccv_caption`:

- Crisscrossed Captions: Parekh et al., EACL 2021 (positives for all 5,000 images and 24,972 captions);
- ECCV Caption: Chun et al., ECCV 2022 (1,261 image and 1,332 caption queries, verified by machines and humans;
  reported as R@1, R-precision and mAP@R).

Their two directions are not each other's transpose, so `Positives` holds one relation a direction.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from vsekit.errors import UserError, missing_extra


@dataclass(frozen=True)
class Relation:
    """The right items of every query, as sparse rows.

    starts: (n_queries + 1,) int64; items: (n_pairs,) int64; row q is items[starts[q] : starts[q + 1]].
    A query with an empty row is not asked: it stays among the distractors of the other direction.
    """

    starts: np.ndarray
    items: np.ndarray
    n_items: int

    @classmethod
    def of_pairs(cls, queries: np.ndarray, items: np.ndarray, n_queries: int, n_items: int) -> Relation:
        """From (query, item) pairs in any order; doubles count once."""
        keys = np.unique(np.asarray(queries, np.int64) * n_items + np.asarray(items, np.int64))
        starts = np.searchsorted(keys, np.arange(n_queries + 1, dtype=np.int64) * n_items)
        return cls(starts, keys % max(n_items, 1), n_items)

    @property
    def n_queries(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def counts(self) -> np.ndarray:
        """(n_queries,) right items a query."""
        return np.diff(self.starts)

    @cached_property
    def queries(self) -> np.ndarray:
        """(n_pairs,) the query of each pair."""
        return np.repeat(np.arange(self.n_queries), self.counts)

    @property
    def asked(self) -> np.ndarray:
        """The queries that have a right item."""
        return np.flatnonzero(self.counts)


@dataclass(frozen=True)
class Positives:
    """Both directions, and what hangs together.

    image_clusters, caption_clusters: queries with equal numbers are resampled together by the bootstrap, and counted
    fastest when they stand in one block; groups where there are groups.
    """

    i2t: Relation
    t2i: Relation
    image_clusters: np.ndarray
    caption_clusters: np.ndarray

    @classmethod
    def by_groups(cls, image_groups: np.ndarray, caption_groups: np.ndarray) -> Positives:
        """Equal groups belong together. (n_images,) and (n_captions,) integers, in any order."""
        image_groups, caption_groups = np.asarray(image_groups), np.asarray(caption_groups)
        order = np.argsort(caption_groups, kind="stable")
        left, right = (np.searchsorted(caption_groups[order], image_groups, side=side) for side in ("left", "right"))
        counts = right - left
        images = np.repeat(np.arange(len(image_groups)), counts)
        within = np.arange(len(images)) - np.repeat(np.cumsum(counts) - counts, counts)
        captions = order[np.repeat(left, counts) + within]
        return cls._of(images, captions, images, captions, image_groups, caption_groups)

    @classmethod
    def by_lists(
        cls,
        i2t: Mapping[int, Sequence[int]],
        t2i: Mapping[int, Sequence[int]],
        image_groups: np.ndarray,
        caption_groups: np.ndarray,
    ) -> Positives:
        """From the right captions of image i, `i2t[i]`, and the right images of caption c, `t2i[c]`; by position."""
        image_queries, right_captions = _flat(i2t)
        caption_queries, right_images = _flat(t2i)
        return cls._of(
            image_queries,
            right_captions,
            right_images,
            caption_queries,
            np.asarray(image_groups),
            np.asarray(caption_groups),
        )

    @classmethod
    def _of(
        cls,
        i2t_images: np.ndarray,
        i2t_captions: np.ndarray,
        t2i_images: np.ndarray,
        t2i_captions: np.ndarray,
        image_clusters: np.ndarray,
        caption_clusters: np.ndarray,
    ) -> Positives:
        if not len(i2t_images) or not len(t2i_images):
            raise UserError("no image and caption belong together", remedy="Give both sides the same group numbers.")
        n, m = len(image_clusters), len(caption_clusters)
        i2t = Relation.of_pairs(i2t_images, i2t_captions, n, m)
        return cls(i2t, Relation.of_pairs(t2i_captions, t2i_images, m, n), image_clusters, caption_clusters)


def _flat(lists: Mapping[int, Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    queries = np.repeat(np.fromiter(lists, np.int64, len(lists)), [len(row) for row in lists.values()])
    return queries, np.array([item for row in lists.values() for item in row], dtype=np.int64)


def coco_positives(
    kind: Literal["cxc", "eccv"], image_ids: np.ndarray, caption_ids: np.ndarray, folder: Path | None = None
) -> Positives:
    """Crisscrossed Captions ("cxc") or ECCV Caption ("eccv") for COCO's 5K test set of Karpathy's split.

    Args:
        image_ids: (n_images,) COCO image ids, in the order of the scores.
        caption_ids: (n_captions,) COCO annotation ids.
        folder: the folder with the package's JSON files, where the package itself is not installed.
    """
    if folder is None:
        package = importlib.util.find_spec("eccv_caption")
        if package is None or package.origin is None:
            raise missing_extra("eccv_caption", "eccv")
        folder = Path(package.origin).parent / "data"
    images = {int(name): i for i, name in enumerate(image_ids)}
    captions = {int(name): c for c, name in enumerate(caption_ids)}
    i2t = _read(folder / f"{kind}_image_to_caption.json", images, captions)
    t2i = _read(folder / f"{kind}_caption_to_image.json", captions, images)
    # The bootstrap resamples an image with its captions; who wrote a caption for which image is COCO's own relation.
    written_for = json.loads((folder / "original_caption_to_image.json").read_text(encoding="utf-8"))
    own = [written_for.get(str(name), [None])[0] for name in map(int, caption_ids)]
    clusters = [images.get(image, len(images) + c) for c, image in enumerate(own)]
    return Positives.by_lists(i2t, t2i, np.arange(len(image_ids)), np.array(clusters))


def _read(path: Path, queries: dict[int, int], items: dict[int, int]) -> dict[int, list[int]]:
    """The judgements by position.

    They name a few captions beyond the five an image that most collections keep; what is not there cannot be found, and
    is left out.
    """
    judged = {int(query): row for query, row in json.loads(path.read_text(encoding="utf-8")).items()}
    absent = sorted(set(judged) - set(queries))
    if absent:
        raise UserError(
            f"{len(absent)} of {len(judged)} judged queries are not in this collection (COCO id {absent[0]}, for one)",
            file=path,
            remedy="These positives are for the whole 5K test set of Karpathy's split, with COCO's ids.",
        )
    return {queries[query]: [items[int(x)] for x in row if int(x) in items] for query, row in judged.items()}
