from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evaluation.loops import all_ranks, ranking_metrics

from vsekit.errors import UserError
from vsekit.evaluation.metrics import per_query, query_ranks
from vsekit.evaluation.positives import Positives
from vsekit.evaluation.ranks import Ranks, count_ranks, ranks
from vsekit.similarity.base import Similarity
from vsekit.similarity.cosine import Cosine
from vsekit.similarity.inner_product import InnerProduct


class Table:
    """A scorer that reads a given matrix, and counts how often each score is asked for."""

    def __init__(self, scores: np.ndarray) -> None:
        self.scores = torch.from_numpy(scores.astype(np.float32))
        self.asked = torch.zeros(self.scores.shape, dtype=torch.int64)
        self.n_images, self.n_captions = scores.shape

    def block(self, images, captions):
        rows, columns = (torch.arange(n)[i] for n, i in ((self.n_images, images), (self.n_captions, captions)))
        self.asked[rows[:, None], columns] += 1
        return self.scores[rows[:, None], columns]


def both(found: Ranks) -> tuple[np.ndarray, np.ndarray]:
    return query_ranks(found.i2t), query_ranks(found.t2i)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_ranks_equal_a_plain_loop_for_any_groups_any_blocks_and_many_ties(data: st.DataObject) -> None:
    seed, block = data.draw(st.integers(0, 10**6)), data.draw(st.sampled_from([1, 7, 60, 10**6]))
    rng = np.random.default_rng(seed)
    n_groups = data.draw(st.integers(1, 9))
    image_groups = np.append(np.arange(n_groups), rng.integers(0, n_groups, rng.integers(0, 9)))
    caption_groups = np.append(np.arange(n_groups), rng.integers(0, n_groups, rng.integers(0, 20)))
    rng.shuffle(image_groups), rng.shuffle(caption_groups)
    scores = rng.integers(0, 6, (len(image_groups), len(caption_groups))).astype(np.float32)
    right = image_groups[:, None] == caption_groups
    found = count_ranks(Table(scores), Positives.by_groups(image_groups, caption_groups), block=block)
    i2t, t2i = both(found)
    assert np.array_equal(i2t, all_ranks(scores, right))
    assert np.array_equal(t2i, all_ranks(scores.T, right.T))


def test_every_score_is_computed_exactly_once_when_positives_come_in_groups() -> None:
    rng = np.random.default_rng(0)
    image_groups, caption_groups = rng.permutation(60), rng.permutation(np.repeat(np.arange(60), 5))
    table = Table(rng.standard_normal((60, 300)))
    count_ranks(table, Positives.by_groups(image_groups, caption_groups), block=1000)
    assert (table.asked == 1).all()


def test_sparse_and_asymmetric_positives_are_ranked_like_a_loop_does() -> None:
    rng = np.random.default_rng(1)
    scores = rng.integers(0, 30, (20, 50)).astype(np.float32)
    i2t = {3: [4, 5, 49], 0: [20], 19: [0, 1, 2, 3, 4, 5, 6]}
    t2i = {7: [0, 19, 3], 48: [2]}
    found = count_ranks(Table(scores), Positives.by_lists(i2t, t2i, np.arange(20), np.zeros(50, int)), block=64)
    for lists, matrix, side in ((i2t, scores, found.i2t), (t2i, scores.T, found.t2i)):
        asked = sorted(lists)
        right = np.zeros((len(asked), matrix.shape[1]), bool)
        for row, query in enumerate(asked):
            right[row, lists[query]] = True
        assert side.relation.asked.tolist() == asked
        assert np.array_equal(query_ranks(side), all_ranks(matrix[asked], right))


def test_all_metrics_of_sparse_positives_equal_those_of_a_full_sort() -> None:
    rng = np.random.default_rng(5)
    scores = rng.permutation(30 * 80).reshape(30, 80).astype(np.float32)
    i2t = {i: rng.choice(80, rng.integers(1, 20), replace=False).tolist() for i in range(0, 30, 2)}
    t2i = {c: rng.choice(30, rng.integers(1, 9), replace=False).tolist() for c in range(0, 80, 3)}
    found = count_ranks(Table(scores), Positives.by_lists(i2t, t2i, np.arange(30), np.arange(80)), block=50)
    for lists, matrix, side in ((i2t, scores, found.i2t), (t2i, scores.T, found.t2i)):
        values = per_query(side)
        for row, query in enumerate(sorted(lists)):
            expected = ranking_metrics(np.argsort(-matrix[query]).tolist(), set(lists[query]), (1, 5, 10))
            assert {name: value[row] for name, value in values.items()} == pytest.approx(expected)


def test_float32_ranks_differ_from_float64_only_at_near_ties_and_seldom() -> None:
    rng = np.random.default_rng(2)
    n, dim = 400, 256
    images = rng.standard_normal((n, dim))
    captions = np.repeat(images, 5, axis=0) * 0.3 + rng.standard_normal((5 * n, dim))
    images, captions = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (images, captions))
    groups = np.arange(n), np.repeat(np.arange(n), 5)
    found = both(ranks(images.astype(np.float32), captions.astype(np.float32), *groups, block=20_000))
    exact = images.astype(np.float32).astype(np.float64) @ captions.astype(np.float32).astype(np.float64).T
    right = groups[0][:, None] == groups[1]
    differing = 0
    for mine, matrix, is_right in ((found[0], exact, right), (found[1], exact.T, right.T)):
        theirs = all_ranks(matrix, is_right)
        best = np.where(is_right, matrix, -np.inf).max(1, keepdims=True)
        near_ties = (~is_right & (np.abs(matrix - best) < 1e-6)).sum(1)
        assert (np.abs(mine - theirs) <= near_ties).all()
        differing += int((mine != theirs).sum())
    assert differing <= 0.002 * 6 * n


def test_a_duplicate_of_the_positive_ties_with_it_bit_for_bit_within_a_block() -> None:
    rng = np.random.default_rng(3)
    images = rng.standard_normal((64, 100)).astype(np.float32)
    captions = np.concatenate([images[:32], images[:32]])
    image_groups = np.arange(64)
    found = ranks(images, captions, image_groups, image_groups)
    # Caption 32 + i is a copy of caption i and belongs to image 32 + i, so image i ties with one wrong caption.
    assert np.array_equal(found.i2t.tied[:32], np.full(32, 2))


def test_memory_maps_halves_doubles_and_tensors_give_the_ranks_of_float32_arrays(tmp_path) -> None:
    rng = np.random.default_rng(4)
    images, captions = (rng.integers(-8, 8, (n, 12)).astype(np.float32) for n in (30, 60))
    groups = np.arange(30), np.repeat(np.arange(30), 2)
    expected = both(ranks(images, captions, *groups))
    np.save(tmp_path / "c.npy", captions)
    for a, c in [
        (images.astype(np.float16), captions.astype(np.float64)),
        (torch.from_numpy(images), torch.from_numpy(captions)),
        (images, np.load(tmp_path / "c.npy", mmap_mode="r")),
    ]:
        assert all(np.array_equal(x, y) for x, y in zip(both(ranks(a, c, *groups)), expected))


def test_nan_scores_are_refused() -> None:
    scores = np.zeros((3, 3))
    scores[1, 2] = np.nan
    with pytest.raises(UserError, match="NaN"):
        count_ranks(Table(scores), Positives.by_groups(np.arange(3), np.arange(3)))


def test_progress_ends_with_the_whole_matrix() -> None:
    told: list[tuple[int, int]] = []
    groups = np.arange(10)
    ranks(np.eye(10), np.eye(10), groups, groups, block=9, progress=lambda *at: told.append(at))
    assert told == sorted(told)
    assert told[-1] == (100, 100)


@pytest.mark.parametrize("similarity", [Cosine(), InnerProduct(), None])
def test_arrays_memory_maps_and_tensors_rank_alike(tmp_path: Path, similarity: Similarity | None) -> None:
    rng = np.random.default_rng(0)
    images, captions = (rng.standard_normal((n, 4)) for n in (6, 12))
    groups = np.arange(6), np.repeat(np.arange(6), 2)
    np.save(tmp_path / "images.npy", images)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    scores = images @ captions.T
    if isinstance(similarity, Cosine):
        scores /= np.linalg.norm(images, axis=1)[:, None] * np.linalg.norm(captions, axis=1)
    expected = all_ranks(scores, groups[0][:, None] == groups[1])
    for side in (images, images.astype(np.float32), mapped, torch.from_numpy(images)):
        other = torch.from_numpy(captions) if isinstance(side, torch.Tensor) else captions
        assert np.array_equal(both(ranks(side, other, *groups, score=similarity))[0], expected)
