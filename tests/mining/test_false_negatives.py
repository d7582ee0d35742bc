from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vsekit.mining.false_negatives import (
    SAME_PICTURE,
    SAME_TEXT,
    SCORE,
    SIMILAR_TEXT,
    flag_false_negatives,
    near_duplicates,
    near_hashes,
)
from vsekit.mining.mine import MiningResult, mine
from vsekit.mining.sampler import OfflineSampler

GROUPS = np.arange(3), np.array([0, 0, 1, 1, 2, 2])
TEXTS = ["a red dog runs", "two men", "A red dog runs!", "one tall woman", "a red dog runs fast", "the sea"]
#               captions 0    1    2    3    4    5
SCORES = np.array([[0.5, 0.4, 0.9, 0.1, 0.2, 0.0], [0.1, 0.3, 0.6, 0.5, 0.2, 0.7], [0.0, 0.1, 0.1, 0.2, 0.9, 0.8]])


@pytest.fixture
def mined(tmp_path: Path) -> MiningResult:
    # Captions are unit vectors, so that an image's embedding is its row of scores.
    return mine(SCORES, np.eye(6), *GROUPS, tmp_path / "m", top_captions=4, top_images=2)


def flagged(found, bit: int) -> set[tuple[int, int]]:
    return {(int(i), int(c)) for (i, c), reason in zip(found.pairs, found.reasons) if reason & bit}


def test_negatives_above_the_best_positive_by_the_margin_are_flagged(mined: MiningResult) -> None:
    # Image 0's best positive has 0.5: caption 2 is above it, by 0.4. Image 1's has 0.6: caption 5 is above it, by 0.1.
    # Caption 2's positive has 0.6, image 0 is above it (known already); no caption else has a better wrong image.
    assert flagged(flag_false_negatives(mined, *GROUPS), SCORE) == {(0, 2), (1, 5)}
    assert flagged(flag_false_negatives(mined, *GROUPS, margin=0.2), SCORE) == {(0, 2)}
    found = flag_false_negatives(mined, *GROUPS, margin=0.2)
    assert found.margins == pytest.approx([0.4])
    assert found.scores == pytest.approx([0.9])


def test_captions_with_the_words_of_an_own_one_are_flagged(mined: MiningResult) -> None:
    found = flag_false_negatives(mined, *GROUPS, texts=TEXTS, jaccard=0.8)
    assert flagged(found, SAME_TEXT) == {(0, 2), (1, 0)}
    # 4 words of 5 in common: captions 0 and 4, 2 and 4.
    assert flagged(found, SIMILAR_TEXT) == {(0, 2), (1, 0), (0, 4), (1, 4), (2, 0), (2, 2)}
    assert flagged(flag_false_negatives(mined, *GROUPS, texts=TEXTS, jaccard=0.81), SIMILAR_TEXT) == {(0, 2), (1, 0)}


def test_captions_of_a_nearly_equal_picture_are_flagged(mined: MiningResult) -> None:
    found = flag_false_negatives(mined, *GROUPS, same_pictures=np.array([[0, 2]]))
    assert flagged(found, SAME_PICTURE) == {(0, 4), (0, 5), (2, 0), (2, 1)}


def test_the_sampler_takes_the_pairs_and_the_summary_counts_them(mined: MiningResult) -> None:
    found = flag_false_negatives(mined, *GROUPS)
    sampler = OfflineSampler(mined.captions, mined.images, GROUPS[1], GROUPS[0], h=4, h_images=2, skip=found.pairs)
    drawn = sampler.sample(np.zeros(50, int), np.zeros(50, int), np.random.default_rng(0))
    assert 2 not in drawn.caption
    assert found.summary()[:2] == ["2 likely false negatives", "  scores above: 2"]


def test_near_duplicates_are_the_pairs_a_loop_finds() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((60, 3))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = {(a, b) for a in range(60) for b in range(a + 1, 60) if unit[a] @ unit[b] >= 0.95}
    assert expected
    assert {tuple(pair) for pair in near_duplicates(vectors, 0.95, block=16).tolist()} == expected


def test_near_hashes_are_those_that_differ_in_few_bits() -> None:
    hashes = np.random.default_rng(0).integers(0, 256, (40, 8)).astype(np.uint8)
    hashes[7] = hashes[3] ^ np.array([1, 0, 0, 2, 0, 0, 128, 16], np.uint8)  # four bits
    hashes[9] = hashes[3] ^ np.array([255, 0, 0, 0, 0, 0, 0, 0], np.uint8)  # eight
    assert near_hashes(hashes, 4).tolist() == [[3, 7]]
    assert near_hashes(hashes, 3).tolist() == []
    assert near_hashes(hashes, 8).tolist() == [[3, 7], [3, 9]]
