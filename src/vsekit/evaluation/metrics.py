"""The numbers papers cite, from `Ranks`: R@K, median and mean rank, rsum, mAP@R and R-precision, both directions.

Positions count from 0. The best-placed right item of a query decides its rank and its hits:

    R@K      share of queries with a right item among the first K (a hit rate, not recall of all right items)
    medr     ⌊median of ranks⌋ + 1;   meanr   mean of ranks + 1
    rsum     R@1 + R@5 + R@10 of both directions
    R-precision    share of right items among the first R, R being the number of right items of the query
    mAP@R    (1/R) Σ_{k<R} [item k is right] · (right items among 0…k)/(k + 1)      (Musgrave et al., ECCV 2020)

**Ties.** A rank with ties is an interval: `best` counts the wrong items strictly above the best right one, `worst`
those that tie with it as well.

    "mean" (default)   ranks are (best + worst)/2; R@K, R-precision and mAP@R are their exact expectations when ties
                       are broken at random, so that a constant scorer gets chance level
    "optimistic"       right items come first among equals
    "pessimistic"      right items come last among equals
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from vsekit.errors import UserError, nearest
from vsekit.evaluation.positives import Positives, Relation
from vsekit.evaluation.ranks import DirectionRanks, Ranks

Ties = Literal["mean", "optimistic", "pessimistic"]
KS = (1, 5, 10)


@dataclass(frozen=True)
class Metrics:
    """What a protocol reports: percentages, and ranks counted from 1.

    i2t, t2i: "r1", "r5", …, "medr", "meanr", "map_at_r", "rprecision".
    folds: the metrics of each fold where the protocol averages folds.
    ci: 95 % intervals in the shape of the metrics (see `significance.confidence`).
    ranks: of each fold, or of the whole set; what intervals and paired tests resample.
    """

    i2t: dict[str, float]
    t2i: dict[str, float]
    rsum: float
    protocol: str
    n_images: int
    n_captions: int
    folds: list[Metrics] = field(default_factory=list)
    ci: dict[str, Any] | None = None
    ranks: list[Ranks] = field(default_factory=list, repr=False)
    ties: Ties = "mean"

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        result: dict[str, Any] = {"i2t": self.i2t, "t2i": self.t2i, "rsum": self.rsum, "protocol": self.protocol}
        result |= {"n_images": self.n_images, "n_captions": self.n_captions}
        if self.ties != "mean":
            result["ties"] = self.ties
        if self.folds:
            result["folds"] = [fold.to_dict() for fold in self.folds]
        if self.ci is not None:
            result["ci"] = self.ci
        return result

    def table(self) -> list[str]:
        """Lines of a plain table, one direction a line."""
        names = list(self.i2t)
        lines = ["".join([" " * 16, *(f"{_TITLES.get(n, 'R@' + n[1:]):>9}" for n in names)])]
        for title, key in (("image → text", "i2t"), ("text → image", "t2i")):
            lines.append("".join([f"{title:16}", *(f"{getattr(self, key)[n]:9.1f}" for n in names)]))
            if self.ci is not None:
                lines.append("".join([" " * 16, *(f"{_interval(self.ci[key][n]):>9}" for n in names)]))
        interval = "" if self.ci is None else f" ({_interval(self.ci['rsum'])})"
        sizes = f"{self.n_images} images × {self.n_captions} captions"
        return [*lines, f"rsum {self.rsum:.1f}{interval}, protocol {self.protocol}{self.of_folds}, {sizes}"]

    @property
    def of_folds(self) -> str:
        """How many folds were averaged, in words; nothing where the protocol has none."""
        number = len(self.folds)
        return f" ({number} fold{'s' * (number > 1)} of {self.folds[0].n_images})" if number else ""


_TITLES = {"medr": "Med r", "meanr": "Mean r", "map_at_r": "mAP@R", "rprecision": "R-Prec"}


def _interval(pair: Sequence[float]) -> str:
    return f"{pair[0]:.0f}–{pair[1]:.0f}"


def metrics(
    ranks: Ranks, *, protocol: str = "full", ks: Sequence[int] = KS, ties: Ties = "mean", keep: bool = True
) -> Metrics:
    """Metrics of one set of ranks. `keep` holds the ranks for intervals and tests."""
    if ties not in get_args(Ties):
        raise UserError(
            f"no rule '{ties}' for ties{nearest(ties, get_args(Ties))}",
            field="ties",
            remedy=f"There are: {', '.join(get_args(Ties))}.",
        )
    i2t, t2i = (direction_metrics(per_query(side, ks, ties)) for side in (ranks.i2t, ranks.t2i))
    rsum = sum(100 * float(hits(side, k, ties).mean()) for side in (ranks.i2t, ranks.t2i) for k in KS)
    n_images, n_captions = ranks.i2t.relation.n_queries, ranks.t2i.relation.n_queries
    return Metrics(i2t, t2i, rsum, protocol, n_images, n_captions, ranks=[ranks] if keep else [], ties=ties)


def direction_metrics(values: dict[str, np.ndarray]) -> dict[str, float]:
    """Means (of ranks also the median) of `per_query` values."""
    result: dict[str, float] = {}
    for name, value in values.items():
        if name == "rank":
            result |= {"medr": float(np.floor(np.median(value)) + 1), "meanr": float(value.mean() + 1)}
        else:
            result[name] = 100 * float(value.mean())
    return result


def per_query(direction: DirectionRanks, ks: Sequence[int] = KS, ties: Ties = "mean") -> dict[str, np.ndarray]:
    """For every query asked: "r{k}" (0…1), "rank" (from 0), "map_at_r" and "rprecision" (0…1)."""
    values = {f"r{k}": hits(direction, k, ties) for k in ks}
    return values | {
        "rank": query_ranks(direction, ties),
        "map_at_r": map_at_r(direction, ties),
        "rprecision": r_precision(direction, ties),
    }


def _best(direction: DirectionRanks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each query asked: items above its best right item, items tied with it, right items among those."""
    relation = direction.relation
    asked = relation.asked
    starts = relation.starts[asked]
    is_best = direction.scores == np.repeat(np.maximum.reduceat(direction.scores, starts), relation.counts[asked])
    above, tied = (np.maximum.reduceat(np.where(is_best, x, 0), starts) for x in (direction.above, direction.tied))
    return above, tied, np.add.reduceat(is_best.astype(np.int64), starts)


def query_ranks(direction: DirectionRanks, ties: Ties = "mean") -> np.ndarray:
    """Rank of the best right item of each query asked, from 0; halves under "mean"."""
    above, tied, right = _best(direction)
    return above + {"optimistic": 0.0, "mean": 0.5, "pessimistic": 1.0}[ties] * (tied - right)


def hits(direction: DirectionRanks, k: int, ties: Ties = "mean") -> np.ndarray:
    """Whether, or how probably, a right item of each query asked is among the first k.

    Of `tied` equals in random order, `right` of them right, the first j = k − above are all wrong with probability
    C(tied − right, j) / C(tied, j).
    """
    above, tied, right = _best(direction)
    if ties != "mean":
        return (query_ranks(direction, ties) < k).astype(np.float64)
    miss = np.ones(len(above))
    for j in range(k):
        inside = j < k - above
        miss *= np.where(inside, np.maximum(tied - right - j, 0) / np.maximum(tied - j, 1), 1.0)
    return np.where(above < k, 1 - miss, 0.0)


def r_precision(direction: DirectionRanks, ties: Ties = "mean") -> np.ndarray:
    """Share of right items among the first R, for each query asked."""
    size, first, right, _, query = _tie_blocks(direction)
    room = direction.relation.counts[query] - first
    if ties == "optimistic":
        found = np.clip(room, 0, right)
    elif ties == "pessimistic":
        found = np.clip(room - (size - right), 0, right)
    else:
        found = right * np.clip(room / size, 0, 1)
    return _sum_by_query(found, query, direction.relation) / direction.relation.counts[direction.relation.asked]


def map_at_r(direction: DirectionRanks, ties: Ties = "mean") -> np.ndarray:
    """mAP@R for each query asked.

    Place j of a block of `size` equals that starts at `first`, with `right` right items in it and `before` right items
    above it, is right with probability right/size, and then has before + 1 + j·(right − 1)/(size − 1) right items up
    to and with it on average.
    """
    size, first, right, before, query = _tie_blocks(direction)
    total = direction.relation.counts[query]
    if ties == "mean":
        places, chance = size, right / size
        more = (right - 1) / np.maximum(size - 1, 1)
    else:
        first = first + (size - right if ties == "pessimistic" else 0)
        places, chance, more = right, np.ones(len(size)), np.ones(len(size))
    value = np.zeros(len(size))
    for j in range(int(np.minimum(places, total - first).max(initial=0))):
        inside = (j < places) & (first + j < total)
        value += np.where(inside, chance * (before + 1 + j * more) / (first + j + 1), 0.0)
    return _sum_by_query(value, query, direction.relation) / direction.relation.counts[direction.relation.asked]


def _tie_blocks(direction: DirectionRanks) -> tuple[np.ndarray, ...]:
    """Blocks of equal scores that hold a right item: size, first place, right items in it, right items above, query."""
    relation = direction.relation
    order = np.lexsort((-direction.scores, relation.queries))
    query, scores = relation.queries[order], direction.scores[order]
    start = np.flatnonzero(np.append(True, (query[1:] != query[:-1]) | (scores[1:] != scores[:-1])))
    right = np.diff(np.append(start, len(order)))
    return (
        direction.tied[order][start],
        direction.above[order][start],
        right,
        start - relation.starts[query[start]],
        query[start],
    )


def _sum_by_query(values: np.ndarray, query: np.ndarray, relation: Relation) -> np.ndarray:
    return np.bincount(query, values, minlength=relation.n_queries)[relation.asked]


def _constant(relation: Relation) -> DirectionRanks:
    """What a scorer gets to whom all items are equal."""
    pairs = len(relation.items)
    nothing = np.zeros(pairs, np.int64)
    return DirectionRanks(relation, nothing.astype(np.float32), nothing, np.full(pairs, relation.n_items))


def chance_level(positives: Positives, ks: Sequence[int] = KS, protocol: str = "full") -> Metrics:
    """The exact expectation of every metric when items are ranked at random.

    R@K, mAP@R and R-precision are those of a constant scorer. The best of p right items among n stands on average at
    (n − p)/(p + 1), and at or before place r with probability 1 − C(n − p, r + 1)/C(n, r + 1), which gives the median.
    """
    sides = [_constant(positives.i2t), _constant(positives.t2i)]
    equal = Ranks(sides[0], sides[1], positives.image_clusters, positives.caption_clusters)
    result = metrics(equal, ks=ks, protocol=protocol, keep=False)
    for values, side in zip((result.i2t, result.t2i), sides):
        counts, how_many = np.unique(side.relation.counts[side.relation.asked], return_counts=True)
        n, weight = side.relation.n_items, how_many / how_many.sum()
        values["meanr"] = float(weight @ ((n - counts) / (counts + 1))) + 1
        miss = np.ones(len(counts))
        for place in range(n):
            miss *= np.maximum(n - counts - place, 0) / (n - place)
            if weight @ miss <= 0.5:
                values["medr"] = float(place + 1)
                break
    return result
