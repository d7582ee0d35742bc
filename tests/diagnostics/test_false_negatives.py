from __future__ import annotations

import numpy as np
import pytest

from vsekit.diagnostics import false_negatives as module
from vsekit.diagnostics.false_negatives import false_negatives
from vsekit.diagnostics.scores import ScoreMatrix, own_scores
from vsekit.evaluation.positives import Positives


def test_a_planted_caption_is_found_with_both_scores() -> None:
    scores = np.full((4, 8), 0.1, np.float32)
    groups, captions = np.arange(4), np.repeat(np.arange(4), 2)
    scores[np.repeat(np.arange(4), 2), np.arange(8)] = 0.5
    scores[2, 1] = 0.9  # picture 2 prefers caption 1, of picture 0, to its own 4 and 5 …
    scores[2, 6] = 0.7  # … and 6, a little less
    scores[3, 0] = 0.52  # above, but not by the margin
    (found,) = false_negatives(ScoreMatrix(scores), groups, captions)
    assert (found.picture, found.caption, found.captions) == (2, 1, 2)
    assert (found.score, found.positive_score) == pytest.approx((0.9, 0.5))


@pytest.mark.parametrize("margin", [0.0, 0.3])
def test_it_is_a_plain_loop_whatever_the_blocks(margin: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 3)
    monkeypatch.setattr(module, "COLUMNS", 4)
    rng = np.random.default_rng(0)
    images, captions = rng.integers(0, 5, 11), rng.integers(0, 4, 13)  # group 4 has no captions
    scores = rng.normal(size=(11, 13)).astype(np.float32)
    expected = []
    for i in range(11):
        own = [scores[i, c] for c in range(13) if captions[c] == images[i]]
        foreign = [(scores[i, c], c) for c in range(13) if captions[c] != images[i]]
        if own and max(foreign)[0] > max(own) + np.float32(margin):
            expected.append((float(max(foreign)[0] - max(own)), i, max(foreign)[1]))
    found = false_negatives(ScoreMatrix(scores), images, captions, margin)
    assert [(f.picture, f.caption) for f in found] == [(i, c) for _, i, c in sorted(expected, reverse=True)]
    assert false_negatives(ScoreMatrix(scores), images, captions, margin, top=2) == found[:2]


def test_own_scores_come_picture_by_picture() -> None:
    rng = np.random.default_rng(2)
    images, captions = rng.integers(0, 60, 150), rng.integers(0, 60, 200)
    scores = rng.normal(size=(150, 200)).astype(np.float32)
    i2t = Positives.by_groups(images, captions).i2t
    expected = [scores[i, c] for i in range(150) for c in range(200) if images[i] == captions[c]]
    np.testing.assert_array_equal(own_scores(ScoreMatrix(scores), i2t), expected)
