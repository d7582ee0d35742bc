from __future__ import annotations

import numpy as np

from vsekit.diagnostics.galleries import gallery, spread


def test_queries_are_sorted_by_their_first_answer() -> None:
    scores = np.array([[0.9, 0.1, 0.0], [0.8, 0.7, 0.9], [0.1, 0.2, 0.3]])
    found = gallery(scores, np.arange(3), np.arange(3), shown=2)
    assert [r.query for r in found.right] == [0, 2]
    (wrong,) = found.wrong
    assert (wrong.query, wrong.found, wrong.right, wrong.rank) == (1, [2, 0], [False, False], 3)
    assert found.share == 2 / 3


def test_queries_without_a_right_item_are_not_asked() -> None:
    found = gallery(np.eye(2), np.array([0, 5]), np.array([0, 1]))
    assert found.share == 1
    assert [r.query for r in found.right] == [0]


def test_spread_takes_evenly_and_no_more_than_there_are() -> None:
    assert spread(np.arange(9), 3).tolist() == [1, 4, 7]
    assert spread(np.arange(2), 5).tolist() == [0, 1]
    assert spread(np.arange(0), 5).tolist() == []


def test_of_equal_scores_the_place_is_the_one_in_the_list() -> None:
    """Of a caption that stands twice in a collection, one is right; it must not be called the first where it is shown second."""
    (wrong,) = gallery(np.array([[0.5, 0.5, 0.1]]), np.array([1]), np.arange(3), shown=3).wrong
    assert (wrong.found, wrong.right, wrong.rank) == ([0, 1, 2], [False, True, False], 2)
