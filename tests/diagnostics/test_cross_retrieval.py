from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from vsekit.diagnostics.cross_retrieval import cross_retrieval, cross_retrieval_ranks, draw_cross_retrieval


def loop(scores: np.ndarray, images: np.ndarray, captions: np.ndarray) -> list[float]:
    """max(c·r_i − (c − 1), r_t) pair by pair, by sorting the wrong pairs."""
    weight = len(captions) / len(images)
    ranks = []
    for i in range(len(images)):
        for c in range(len(captions)):
            if images[i] != captions[c]:
                continue
            same_text = [scores[j, c] for j in range(len(images)) if images[j] != captions[c]]
            same_image = [scores[i, d] for d in range(len(captions)) if captions[d] != images[i]]
            r = [1 + sum(x > scores[i, c] for x in side) for side in (same_text, same_image)]
            ranks.append(max(weight * r[0] - (weight - 1), r[1]))
    return ranks


def test_with_five_captions_a_picture_it_is_the_papers_formula() -> None:
    images, captions = np.arange(3), np.repeat(np.arange(3), 5)
    scores = np.zeros((3, 15), np.float32)
    scores[np.arange(3).repeat(5), np.arange(15)] = 1.0  # every right pair is ahead of every wrong one …
    scores[1, 0] = 2.0  # … but caption 0 prefers picture 1, which makes r_i = 2 for it and r_t = 2 for picture 1
    ranks = cross_retrieval_ranks(scores, images, captions)
    assert ranks.tolist() == [5 * 2 - 4, 1, 1, 1, 1, *[2] * 5, *[1] * 5]


def test_ranks_are_those_of_a_plain_loop_with_groups_of_several_pictures() -> None:
    rng = np.random.default_rng(1)
    images, captions = rng.integers(0, 4, 9), rng.integers(0, 4, 17)
    scores = rng.normal(size=(9, 17)).astype(np.float32)
    np.testing.assert_allclose(cross_retrieval_ranks(scores, images, captions), loop(scores, images, captions))


def test_ties_count_half() -> None:
    ranks = cross_retrieval_ranks(np.zeros((3, 3), np.float32), np.arange(3), np.arange(3))
    assert ranks.tolist() == [2, 2, 2]  # one plus half of the two wrong ones


def test_shares_sum_to_one_over_intervals_that_end_at_200() -> None:
    found = cross_retrieval(np.eye(4, dtype=np.float32), np.arange(4), np.arange(4))
    assert found.shares[0] == 1
    assert sum(found.shares) == pytest.approx(1)
    assert found.intervals[0] == "1"
    assert found.intervals[-1] == "> 200"
    ET.fromstring(draw_cross_retrieval(found))
