from __future__ import annotations

import numpy as np
import pytest
from tests.evaluation.loops import ranking_metrics
from tests.evaluation.test_ranks import Table

from vsekit.evaluation.metrics import per_query
from vsekit.evaluation.positives import Positives
from vsekit.evaluation.ranks import count_ranks
from vsekit.evaluation.rerank import reranked

KS = (1, 3, 10)


@pytest.mark.parametrize("n", [1, 4, 15])
def test_the_best_n_follow_the_slow_model_and_the_rest_the_fast_one(n: int) -> None:
    rng = np.random.default_rng(0)
    fast, slow = (rng.permutation(20 * 45).reshape(20, 45).astype(np.float32) for _ in range(2))
    groups = np.arange(20) % 15, np.arange(45) % 15
    positives = Positives.by_groups(*groups)
    found = reranked(Table(fast), Table(slow), positives, n)
    right = groups[0][:, None] == groups[1]
    for side, a, b, is_right in ((found.i2t, fast, slow, right), (found.t2i, fast.T, slow.T, right.T)):
        values = per_query(side, KS)
        for query in range(len(a)):
            order = np.argsort(-a[query])
            order[:n] = order[:n][np.argsort(-b[query][order[:n]])]
            expected = ranking_metrics(order.tolist(), set(np.flatnonzero(is_right[query]).tolist()), KS)
            assert {name: value[query] for name, value in values.items()} == pytest.approx(expected)


def test_a_model_that_reranks_itself_changes_nothing_even_with_ties() -> None:
    scores = np.random.default_rng(1).integers(0, 5, (12, 24)).astype(np.float32)
    positives = Positives.by_groups(np.arange(12), np.repeat(np.arange(12), 2))
    plain, again = count_ranks(Table(scores), positives), reranked(Table(scores), Table(scores), positives, 24)
    for side in ("i2t", "t2i"):
        a, b = (per_query(getattr(found, side), KS) for found in (plain, again))
        assert all(np.array_equal(a[name], b[name]) for name in a)
