from __future__ import annotations

import numpy as np
import pytest

from vsekit.diagnostics.low_captions import low_captions
from vsekit.diagnostics.scores import ScoreMatrix


def test_the_odd_caption_is_found_and_of_two_neither_is() -> None:
    images, captions = np.arange(3), np.array([0, 0, 0, 0, 1, 1, 2, 2, 2])
    own = np.array([0.6, 0.7, 0.1, 0.8, 0.9, 0.0, 0.5, 0.45, 0.4], np.float32)
    scores = np.zeros((3, 9), np.float32)
    scores[captions, np.arange(9)] = own
    (found,) = low_captions(ScoreMatrix(scores), images, captions)
    assert (found.picture, found.caption) == (0, 2)
    assert (found.score, found.positive_score) == pytest.approx((0.1, 0.7))


def test_the_farthest_below_come_first_and_top_cuts() -> None:
    images, captions = np.arange(2), np.repeat(np.arange(2), 3)
    scores = np.zeros((2, 6), np.float32)
    scores[0, :3], scores[1, 3:] = (0.9, 0.9, 0.5), (0.9, 0.9, 0.1)
    assert [low.caption for low in low_captions(ScoreMatrix(scores), images, captions)] == [5, 2]
    assert [low.caption for low in low_captions(ScoreMatrix(scores), images, captions, top=1)] == [5]
