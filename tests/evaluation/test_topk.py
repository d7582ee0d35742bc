from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vsekit.evaluation.topk import TopK, pack, unpack


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 80), st.integers(1, 150), st.sampled_from([2, 10, 10**6]), st.booleans())
def test_the_best_k_equal_a_stable_sort_in_any_layout(
    seed: int, k: int, width: int, values: int, by_column: bool
) -> None:
    rng = np.random.default_rng(seed)
    scores = (rng.integers(-values, values, (9, 400)) / 7).astype(np.float32)
    scores[rng.random(scores.shape) < 0.1] = -np.inf
    top = TopK(9, k)
    for start in range(0, 400, width):
        block = scores[:, start : start + width]
        block = np.asfortranarray(block) if by_column else np.ascontiguousarray(block)
        top.update(slice(0, 4), block[:4], np.arange(start, start + block.shape[1]))
        top.update(slice(4, 9), block[4:], np.arange(start, start + block.shape[1]))
    found, items = unpack(top.best())
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    assert np.array_equal(items, order)
    assert np.array_equal(found, np.take_along_axis(scores, order, axis=1))


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
def test_packed_scores_sort_like_scores_and_come_back(values: list[float]) -> None:
    scores = np.array(values, np.float32)
    items = np.arange(len(scores))
    keys = pack(scores, items)
    back, back_items = unpack(keys)
    assert np.array_equal(back, scores)
    assert np.array_equal(back_items, items)
    assert np.array_equal(np.argsort(-keys), np.lexsort((items, -scores)))


def test_an_interrupted_search_goes_on_from_its_best() -> None:
    scores = np.random.default_rng(0).standard_normal((5, 300)).astype(np.float32)
    whole, first, second = TopK(5, 10), TopK(5, 10), TopK(5, 10)
    whole.update(slice(0, 5), scores, np.arange(300))
    first.update(slice(0, 5), scores[:, :120], np.arange(120))
    second.restore(first.best().copy())
    second.update(slice(0, 5), scores[:, 120:], np.arange(120, 300))
    assert np.array_equal(whole.best(), second.best())


def test_fewer_items_than_k_leave_the_rest_empty() -> None:
    top = TopK(1, 3)
    top.update(slice(0, 1), np.array([[0.5, -np.inf]], np.float32), np.arange(2))
    scores, items = unpack(top.best())
    assert items.tolist() == [[0, -1, -1]]
    assert scores.tolist() == [[0.5, -np.inf, -np.inf]]
