"""How sure a number is: bootstrap intervals, paired tests between runs, and spread over seeds.

Queries are not independent: the five captions of an image stand or fall together. So what is resampled, or whose sign
is flipped, is a *cluster*: a group with all its image and caption queries, in both directions at once, which also gives
rsum an interval. Folds are resampled each within itself and averaged, as their metrics are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vsekit.errors import UserError
from vsekit.evaluation.metrics import KS, Metrics, Ties, hits, per_query
from vsekit.evaluation.ranks import Ranks

_CHUNK = 100  # resamples at a time


class _Queries:
    """Per-query values of one fold and the cluster, 0 … n_clusters − 1, of each query."""

    def __init__(self, ranks: Ranks, ks: Sequence[int], ties: Ties) -> None:
        clusters = (ranks.image_clusters, ranks.caption_clusters)
        names = np.unique(np.concatenate(clusters))
        self.n_clusters = len(names)
        self.values: dict[str, dict[str, np.ndarray]] = {}
        self.clusters: dict[str, np.ndarray] = {}
        self.hits: dict[str, np.ndarray] = {}
        for side, direction, cluster in zip(("i2t", "t2i"), (ranks.i2t, ranks.t2i), clusters):
            self.clusters[side] = np.searchsorted(names, cluster[direction.relation.asked])
            self.values[side] = per_query(direction, ks, ties)
            self.hits[side] = sum((hits(direction, k, ties) for k in KS), start=np.zeros(1))

    def sums(self, side: str, values: np.ndarray) -> np.ndarray:
        """(n_clusters,) sums of per-query values."""
        return np.bincount(self.clusters[side], values, minlength=self.n_clusters)


class _Resampled:
    """Every metric of one fold when clusters are drawn again; what needs no draw is made once."""

    def __init__(self, queries: _Queries) -> None:
        self.n_clusters = queries.n_clusters
        self.names = {side: ["count", "hits", *values] for side, values in queries.values.items()}
        columns = [
            queries.sums(side, value)
            for side, values in queries.values.items()
            for value in (np.ones(len(queries.clusters[side])), queries.hits[side], *values.values())
        ]
        self.columns = np.stack(columns, axis=1)
        self.medians = {side: _Medians(queries, side) for side in queries.values}

    def statistics(self, weights: np.ndarray) -> dict[tuple[str, ...], np.ndarray]:
        """Every metric when cluster c counts weights[r, c] times, (R,) each."""
        result: dict[tuple[str, ...], np.ndarray] = {("rsum",): np.zeros(len(weights))}
        sums = iter((weights @ self.columns).T)
        for side, names in self.names.items():
            drawn = dict(zip(names, sums))
            count = drawn.pop("count")
            result["rsum",] = result["rsum",] + 100 * drawn.pop("hits") / count
            for name, value in drawn.items():
                if name == "rank":
                    result[side, "medr"] = self.medians[side](weights)
                    result[side, "meanr"] = value / count + 1
                else:
                    result[side, name] = 100 * value / count
        return result


class _Medians:
    """Medians of one direction's ranks. Only ranks near the median can become it, so only those are counted one by one.

    With n_c queries in cluster c, the number of queries drawn below a place in the middle, less half of all drawn, has a
    variance of at most Σ n_c²/4. Eight standard deviations are looked at, and all ranks should that ever be too few.
    """

    def __init__(self, queries: _Queries, side: str) -> None:
        ranks, clusters = queries.values[side]["rank"], queries.clusters[side]
        order = np.argsort(ranks, kind="stable")
        self.ranks, self.clusters, self.n_clusters = ranks[order], clusters[order], queries.n_clusters
        self.sizes = np.bincount(clusters, minlength=queries.n_clusters).astype(np.float64)
        reach = 8 * math.sqrt(np.square(self.sizes).sum()) / 2 + 1
        self.near = max(0, int(len(ranks) / 2 - reach)), min(len(ranks), math.ceil(len(ranks) / 2 + reach))

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        n = weights @ self.sizes
        # The two middle ones of n, counted from 0: ⌊(n − 1)/2⌋ and ⌊n/2⌋.
        wanted = np.stack([(n - 1) // 2, n // 2])
        found = self._places(weights, wanted, *self.near)
        if found is None:
            found = self._places(weights, wanted, 0, len(self.ranks))
        assert found is not None
        low, high = self.ranks[found]
        return np.floor((low + high) / 2) + 1

    def _places(self, weights: np.ndarray, wanted: np.ndarray, first: int, last: int) -> np.ndarray | None:
        """(2, R): where in the order of ranks the wanted ones are; None if one is not in first … last − 1."""
        before = weights @ np.bincount(self.clusters[:first], minlength=self.n_clusters).astype(np.float64)
        below = before[:, None] + np.cumsum(weights[:, self.clusters[first:last]], axis=1)
        if (wanted[0] < before).any() or (wanted[1] >= below[:, -1]).any():
            return None
        return np.stack([first + (below <= w[:, None]).sum(axis=1) for w in wanted])


def confidence(metrics: Metrics, *, resamples: int = 1000, level: float = 0.95, seed: int = 0) -> dict[str, Any]:
    """Percentile intervals in the shape of the metrics: {"i2t": {"r1": [low, high], …}, "t2i": …, "rsum": […]}."""
    folds = [_Resampled(_Queries(ranks, _ks(metrics), metrics.ties)) for ranks in _ranks(metrics)]
    rng = np.random.default_rng(seed)
    chunks = []
    for size in _sizes(resamples):
        drawn = [fold.statistics(_resample(rng, size, fold.n_clusters)) for fold in folds]
        chunks.append({name: np.mean([d[name] for d in drawn], axis=0) for name in drawn[0]})
    tails = [(1 - level) / 2, (1 + level) / 2]
    return _nested({name: np.quantile(np.concatenate([c[name] for c in chunks]), tails).tolist() for name in chunks[0]})


def _resample(rng: np.random.Generator, size: int, n: int) -> np.ndarray:
    """(size, n) how often each of n clusters is drawn when n are drawn with replacement."""
    drawn = rng.integers(0, n, (size, n)) + np.arange(size)[:, None] * n
    return np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(np.float64)


def compare(
    a: Metrics, b: Metrics, *, permutations: int = 10_000, resamples: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """Is run b better than run a, on the same queries?

    For every metric that is a mean over queries, and rsum: {"difference": b − a, "p": …, "ci": [low, high]}. p is that
    of the two-sided sign-flip test: how often the runs differ at least as much when clusters exchange their results
    between them at random. The interval is the paired bootstrap's.
    """
    if a.protocol != b.protocol or [_shape(r) for r in _ranks(a)] != [_shape(r) for r in _ranks(b)]:
        raise UserError("the two runs were not measured on the same queries", remedy="Use one split and one protocol.")
    ks = sorted(set(_ks(a)) & set(_ks(b)))
    names: list[tuple[str, ...]] = []
    flipped: list[np.ndarray] = []
    resampled: list[np.ndarray] = []
    observed: list[np.ndarray] = []
    rng = np.random.default_rng(seed)
    for fold_a, fold_b in zip(_ranks(a), _ranks(b)):
        mine, theirs = _Queries(fold_a, ks, a.ties), _Queries(fold_b, ks, b.ties)
        names, difference, counts = _differences(mine, theirs)
        observed.append(difference.sum(0))
        n = mine.n_clusters
        signs = (rng.integers(0, 2, (size, n)) * 2.0 - 1 for size in _sizes(permutations))
        flipped.append(np.concatenate([s @ difference for s in signs]))
        weights = (_resample(rng, size, n) for size in _sizes(resamples))
        # The number of queries drawn varies a little where clusters differ in size.
        resampled.append(np.concatenate([(w @ difference) / (w @ counts) for w in weights]))
    mean, null, spread = (_with_rsum(np.mean(x, axis=0)) for x in (observed, flipped, resampled))
    # Flips that equal the observed difference in exact arithmetic must count in floats as well.
    p = (1 + (np.abs(null) >= np.abs(mean) - 1e-9).sum(0)) / (1 + permutations)
    low, high = np.quantile(spread, [0.025, 0.975], axis=0)
    found = zip(names, mean.tolist(), p.tolist(), low.tolist(), high.tolist())
    return _nested({name: {"difference": d, "p": q, "ci": [lo, hi]} for name, d, q, lo, hi in found})


def _differences(a: _Queries, b: _Queries) -> tuple[list[tuple[str, ...]], np.ndarray, np.ndarray]:
    """Names; (n_clusters, columns) what each cluster adds to b − a; (n_clusters, columns) its share of the queries.

    The last two columns are the directions' parts of rsum: each has its own number of queries (see `_with_rsum`).
    """
    names: list[tuple[str, ...]] = []
    columns, shares, parts = [], [], []
    for side in ("i2t", "t2i"):
        n = len(a.clusters[side])
        share = a.sums(side, np.ones(n)) / n
        parts.append((100 * a.sums(side, b.hits[side] - a.hits[side]) / n, share))
        for name, value in a.values[side].items():
            names.append((side, "meanr" if name == "rank" else name))
            columns.append((1 if name == "rank" else 100) * a.sums(side, b.values[side][name] - value) / n)
            shares.append(share)
    values, weights = zip(*parts)
    return [*names, ("rsum",)], np.stack([*columns, *values], axis=1), np.stack([*shares, *weights], axis=1)


def _with_rsum(values: np.ndarray) -> np.ndarray:
    """(…, columns) → (…, names): the two parts of rsum added."""
    return np.concatenate([values[..., :-2], values[..., -2:].sum(-1, keepdims=True)], axis=-1)


def over_seeds(runs: Sequence[Metrics]) -> dict[str, Any]:
    """{"mean": …, "std": …} of every number over runs that differ in the seed alone (std with n − 1)."""
    if len(runs) < 2:
        raise UserError(f"a spread needs at least two runs, not {len(runs)}")

    def spread(values: list[float]) -> dict[str, float]:
        return {"mean": float(np.mean(values)), "std": float(np.std(values, ddof=1))}

    result: dict[str, Any] = {
        side: {name: spread([getattr(run, side)[name] for run in runs]) for name in getattr(runs[0], side)}
        for side in ("i2t", "t2i")
    }
    return result | {"rsum": spread([run.rsum for run in runs]), "runs": len(runs)}


def _ks(metrics: Metrics) -> list[int]:
    return [int(name[1:]) for name in metrics.i2t if name[0] == "r" and name[1:].isdigit()]


def _ranks(metrics: Metrics) -> list[Ranks]:
    if not metrics.ranks:
        raise ValueError("these metrics were made without keeping their ranks")
    return metrics.ranks


def _shape(ranks: Ranks) -> list[Any]:
    return [(side.relation.starts.tolist(), side.relation.items.tolist()) for side in (ranks.i2t, ranks.t2i)]


def _sizes(total: int) -> Iterator[int]:
    for start in range(0, total, _CHUNK):
        yield min(_CHUNK, total - start)


def _nested(flat: dict[tuple[str, ...], Any]) -> dict[str, Any]:
    result: dict[str, Any] = {side: {n[1]: v for n, v in flat.items() if n[0] == side} for side in ("i2t", "t2i")}
    return result | {"rsum": flat["rsum",]}
