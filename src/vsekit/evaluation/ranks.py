"""Ranks by counting: how many items score above each right one, without a sort and without the whole score matrix.

For every query q and right item p, with s = S(q, p):

    above = |{x : S(q, x) > s}|      tied = |{x : S(q, x) = s}|, p among them

from which `metrics` derives everything else. Both directions come from one walk over the blocks of the score matrix.
Of a query's R right items, the best is counted to the end; the others only until R items are above them, since no
metric looks further (their `above` is then "R or more").

A count needs its threshold first, and the threshold must come from the same block as the scores it is compared with:
the same sum, added up by a product of another shape, differs in the last bits, and that alone moves many ranks. So
images and captions are ordered by group and cut where groups end; every positive then lies in a diagonal block. Those
are scored first: they fix the thresholds and are counted at once. All other blocks follow. Each score is computed
exactly once. Positives that lie anywhere (human judgements) keep their blocks from being counted at once; such blocks
are scored a second time by the very same call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vsekit.errors import UserError
from vsekit.evaluation.positives import Positives, Relation
from vsekit.evaluation.scorers import Scorer, as_slice, scorer
from vsekit.progress import Update

#: Scores in a block: what the caches hold, and enough rows and columns for a fast matrix product.
BLOCK = 2**20


@dataclass(frozen=True)
class DirectionRanks:
    """One direction. scores, above, tied: (n_pairs,), in the order of `relation.items`."""

    relation: Relation
    scores: np.ndarray
    above: np.ndarray
    tied: np.ndarray


@dataclass(frozen=True)
class Ranks:
    """Both directions, and the clusters of queries that are resampled together (see `Positives`)."""

    i2t: DirectionRanks
    t2i: DirectionRanks
    image_clusters: np.ndarray
    caption_clusters: np.ndarray


def ranks(
    images: Any,
    captions: Any,
    image_groups: np.ndarray,
    caption_groups: np.ndarray,
    *,
    score: Any = None,
    block: int = BLOCK,
    progress: Update | None = None,
) -> Ranks:
    """Ranks of embeddings or sets, positives by groups.

    Args:
        images, captions: (n_images, D) and (n_captions, D) arrays, memory maps or tensors; `Sets` for set similarities.
        image_groups, caption_groups: (n_images,) and (n_captions,) integers; equal ones belong together.
        score: a `Similarity`, or any callable on blocks; None is the inner product.
        block: scores in a block.
        progress: told how many scores of how many are done.
    """
    return count_ranks(
        scorer(images, captions, score),
        Positives.by_groups(image_groups, caption_groups),
        block=block,
        progress=progress,
    )


def count_ranks(
    scores: Scorer,
    positives: Positives,
    *,
    block: int = BLOCK,
    progress: Update | None = None,
) -> Ranks:
    """Ranks of any scorer and any positives, sparse and asymmetric ones included."""
    if (positives.i2t.n_queries, positives.t2i.n_queries) != (scores.n_images, scores.n_captions):
        raise UserError(
            f"positives are given for {positives.i2t.n_queries} images and {positives.t2i.n_queries} captions, "
            f"scores for {scores.n_images} and {scores.n_captions}"
        )
    image_chunks, caption_chunks = _chunks(positives.image_clusters, positives.caption_clusters, block)
    i2t = _Direction(positives.i2t, image_chunks, caption_chunks)
    t2i = _Direction(positives.t2i, caption_chunks, image_chunks)
    images, captions = [as_slice(c) for c in image_chunks], [as_slice(c) for c in caption_chunks]
    done, total = 0, scores.n_images * scores.n_captions

    def count(a: int, b: int, matrix: Tensor) -> None:
        nonlocal done
        i2t.count(a, matrix)
        t2i.count(b, matrix.T)
        done += matrix.numel()
        if progress is not None:
            progress(done, total)

    with_positives = sorted(set(i2t.pairs_of) | {(a, b) for b, a in t2i.pairs_of})
    counted = set()
    for a, b in with_positives:
        matrix = scores.block(images[a], captions[b])
        i2t.read_thresholds(a, b, matrix)
        t2i.read_thresholds(b, a, matrix.T)
        if i2t.is_whole(a, b) and t2i.is_whole(b, a):
            count(a, b, matrix)
            counted.add((a, b))
    for a in range(len(images)):
        for b in range(len(captions)):
            if (a, b) not in counted:
                count(a, b, scores.block(images[a], captions[b]))
    return Ranks(i2t.result(), t2i.result(), positives.image_clusters, positives.caption_clusters)


class _Direction:
    """The counts of one direction; matrices come with queries as rows."""

    def __init__(self, relation: Relation, query_chunks: list[np.ndarray], item_chunks: list[np.ndarray]) -> None:
        self.relation, self.query_chunks = relation, query_chunks
        pairs = len(relation.items)
        self.scores = np.zeros(pairs, np.float32)
        self.above, self.at_least = np.zeros(pairs, np.int64), np.zeros(pairs, np.int64)
        self.buffer = torch.empty(0)
        self.slots: dict[int, list[np.ndarray]] = {}
        query_chunk, self.row = _places(query_chunks, relation.n_queries)
        item_chunk, self.column = _places(item_chunks, relation.n_items)
        chunk_of_pair = query_chunk[relation.queries]
        blocks = chunk_of_pair * len(item_chunks) + item_chunk[relation.items]
        order = np.argsort(blocks, kind="stable")
        names, firsts = np.unique(blocks[order], return_index=True)
        cut = zip(names.tolist(), np.split(order, firsts[1:]))
        self.pairs_of = {divmod(name, len(item_chunks)): pairs for name, pairs in cut}
        self.pairs_in_chunk = np.bincount(chunk_of_pair, minlength=len(query_chunks))

    def read_thresholds(self, a: int, b: int, matrix: Tensor) -> None:
        pairs = self.pairs_of.get((a, b))
        if pairs is not None:
            rows, columns = self.row[self.relation.queries[pairs]], self.column[self.relation.items[pairs]]
            self.scores[pairs] = matrix[torch.from_numpy(rows), torch.from_numpy(columns)].cpu().numpy()

    def is_whole(self, a: int, b: int) -> bool:
        """All positives of chunk a's queries lie in the block (a, b)."""
        return len(self.pairs_of.get((a, b), ())) == self.pairs_in_chunk[a]

    def count(self, a: int, matrix: Tensor) -> None:
        """Adds what chunk a's queries find above and at their thresholds in this block of items."""
        queries = self.query_chunks[a]
        counts = self.relation.counts[queries]
        best = matrix.amax(1).cpu().numpy()
        if np.isnan(best).any():
            raise UserError("the scores contain NaN", remedy="Look for NaN or zero vectors in the embeddings.")
        for slot, pairs in enumerate(self._by_score(a)):
            # A row whose best score here is below its threshold adds nothing.
            open_ = (counts > slot) & (best >= self.scores[pairs])
            rows = np.flatnonzero(open_ & (self.above[pairs] < counts) if slot else open_)
            if not len(rows):
                continue
            if 8 * len(rows) > len(queries):
                above, at_least = (found[rows] for found in self._compare(matrix, self.scores[pairs]))
            else:
                few = matrix[torch.from_numpy(rows).to(matrix.device)]
                above, at_least = self._compare(few, self.scores[pairs[rows]])
            self.above[pairs[rows]] += above
            self.at_least[pairs[rows]] += at_least

    def _by_score(self, a: int) -> list[np.ndarray]:
        """For each slot, the pair of every query of chunk a that stands there: slot 0 holds the best right items.

        Queries with fewer right items have an arbitrary pair in the slots beyond.
        """
        if a not in self.slots:
            queries = self.query_chunks[a]
            counts, starts = self.relation.counts[queries], self.relation.starts[queries]
            slot = np.arange(counts.max(initial=0))
            pairs = np.minimum(starts[:, None] + slot, len(self.scores) - 1)
            scores = np.where(slot < counts[:, None], self.scores[pairs], -np.inf)
            order = np.argsort(-scores, axis=1, kind="stable")
            self.slots[a] = list(np.take_along_axis(pairs, order, axis=1).T)
        return self.slots[a]

    def _compare(self, matrix: Tensor, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Per row, how many scores are above and how many at least the threshold.

        Comparisons go into a float buffer of the matrix's own layout: that is several times faster than booleans, and
        sums of ones are exact in float32 up to 2²⁴ columns.
        """
        extent = 1 + sum((size - 1) * step for size, step in zip(matrix.shape, matrix.stride()))
        if self.buffer.numel() < extent or self.buffer.device != matrix.device:
            self.buffer = torch.empty(extent, device=matrix.device)
        hits = self.buffer.as_strided(matrix.shape, matrix.stride())
        limit = torch.from_numpy(thresholds).to(matrix.device)[:, None]
        above, at_least = (compare(matrix, limit, out=hits).sum(1).cpu().numpy() for compare in (torch.gt, torch.ge))
        return above.astype(np.int64), at_least.astype(np.int64)

    def result(self) -> DirectionRanks:
        # An item that was given up on before its own block came has not even met itself.
        return DirectionRanks(self.relation, self.scores, self.above, np.maximum(self.at_least - self.above, 1))


def _places(chunks: list[np.ndarray], n: int) -> tuple[np.ndarray, np.ndarray]:
    """For every index its chunk and its place in the chunk."""
    chunk_of, place = np.empty(n, np.int64), np.empty(n, np.int64)
    for number, chunk in enumerate(chunks):
        chunk_of[chunk], place[chunk] = number, np.arange(len(chunk))
    return chunk_of, place


def _chunks(
    image_groups: np.ndarray, caption_groups: np.ndarray, block: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Cuts both sides, ordered by group, at the same group borders, so that chunk k × chunk k has about `block` scores.

    A side with nothing in a range of groups gets no chunk there.
    """
    image_order, caption_order = np.argsort(image_groups, kind="stable"), np.argsort(caption_groups, kind="stable")
    groups = np.unique(np.concatenate([image_groups, caption_groups]))
    image_ends = np.searchsorted(image_groups[image_order], groups, side="right")
    caption_ends = np.searchsorted(caption_groups[caption_order], groups, side="right")
    n, m = len(image_groups), len(caption_groups)
    pieces = max(1, round((n * m / block) ** 0.5))
    # Equal shares of images + captions; the border of the group in which a share ends.
    share = np.arange(1, pieces) * ((n + m) / pieces)
    last = np.unique(np.append(np.searchsorted(image_ends + caption_ends, share), len(groups) - 1))
    images = _cut(image_order, image_ends[last], -(-2 * n // pieces))
    return images, _cut(caption_order, caption_ends[last], -(-2 * m // pieces))


def _cut(order: np.ndarray, ends: np.ndarray, longest: int) -> list[np.ndarray]:
    """The pieces of `order`; a huge group is cut inside, for the memory's sake."""
    pieces = [np.array_split(piece, -(-len(piece) // longest)) for piece in np.split(order, ends[:-1]) if len(piece)]
    return [part for piece in pieces for part in piece]
