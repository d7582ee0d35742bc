from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from vsekit.diagnostics.overlap import draw_overlap, similarity_overlap

GROUPS = np.array([0, 1])


def test_distributions_that_share_one_of_two_bins_overlap_by_half() -> None:
    # Right pairs: 0.15 and 0.25; wrong pairs: 0.25 and 0.35. In bins of 0.1, half of each lies in 0.2…0.3.
    found = similarity_overlap(np.array([[0.15, 0.35], [0.25, 0.25]], np.float32), GROUPS, GROUPS, width=0.1)
    assert found.overlap == pytest.approx(0.5)
    assert found.edges == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert found.positive == pytest.approx([5, 5, 0])
    assert found.negative == pytest.approx([0, 5, 5])
    assert found.positive_mean == pytest.approx(0.2)
    assert (found.n_positive, found.n_negative) == (2, 2)


def test_separated_pairs_have_no_overlap_and_equal_scores_overlap_fully() -> None:
    assert similarity_overlap(np.array([[0.9, -0.9], [-0.5, 0.4]], np.float32), GROUPS, GROUPS).overlap == 0
    assert similarity_overlap(np.full((2, 2), 0.3, np.float32), GROUPS, GROUPS).overlap == pytest.approx(1)


def test_the_histogram_is_that_of_a_plain_loop_for_negative_scores_and_groups_in_any_order() -> None:
    rng = np.random.default_rng(0)
    images, captions = rng.integers(0, 5, 300), rng.integers(0, 5, 7)
    scores = rng.normal(size=(300, 7)).astype(np.float32)
    found = similarity_overlap(scores, images, captions, width=0.25)
    loops: dict[bool, dict[int, int]] = {True: {}, False: {}}
    for i in range(300):
        for c in range(7):
            side = loops[bool(images[i] == captions[c])]
            number = int(np.floor(float(scores[i, c]) / 0.25))
            side[number] = side.get(number, 0) + 1
    totals = {own: sum(side.values()) for own, side in loops.items()}
    numbers = set(loops[True]) | set(loops[False])
    expected = sum(min(loops[own].get(n, 0) / totals[own] for own in (True, False)) for n in numbers)
    assert found.overlap == pytest.approx(expected)


def test_scores_of_any_size_get_a_bounded_number_of_bins() -> None:
    scores = np.array([[-5e3, 1e4], [0.0, 2e4]], np.float32)
    assert len(similarity_overlap(scores, GROUPS, GROUPS).positive) <= 402


def test_the_drawing_is_well_formed() -> None:
    ET.fromstring(draw_overlap(similarity_overlap(np.eye(2, dtype=np.float32), GROUPS, GROUPS)))
