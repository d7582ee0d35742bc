from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vsekit.data.pairs import Picture
from vsekit.diagnostics.duplicates import _similar, duplicate_captions, duplicate_pictures

TEN = "one two three four five six seven eight nine ten"


def test_equal_captions_up_to_case_and_punctuation_come_first_and_those_of_one_group_do_not_count() -> None:
    texts = ["A dog runs.", "a dog  runs", "a DOG runs!", "runs a dog", TEN, f"{TEN} eleven", "something else", "", ""]
    groups = np.array([0, 0, 1, 2, 3, 4, 5, 6, 7])
    found = [(d.first, d.second, round(d.score, 3), d.exact) for d in duplicate_captions(texts, groups)]
    assert found == [(0, 2, 1.0, True), (0, 3, 1.0, False), (4, 5, round(10 / 11, 3), False)]


def test_a_pair_of_word_sets_is_listed_when_any_two_of_their_captions_are_of_different_groups() -> None:
    texts = [TEN, f"{TEN} eleven", f"{TEN} eleven"]
    assert [(d.first, d.second) for d in duplicate_captions(texts, np.array([0, 0, 1]))] == [(1, 2), (0, 2)]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.frozensets(st.sampled_from("abcdefghijkl"), min_size=1), unique=True, max_size=12),
    st.sampled_from([0.5, 0.6, 0.75, 0.9]),
)
def test_prefix_filtering_misses_no_pair(sets: list[frozenset[str]], threshold: float) -> None:
    found = {frozenset((a, b)) for a, b, _ in _similar(sets, threshold)}
    expected = {
        frozenset((a, b)) for i, a in enumerate(sets) for b in sets[:i] if len(a & b) / len(a | b) >= threshold - 1e-9
    }
    assert found == expected


def test_pictures_with_the_same_bytes_and_pictures_with_near_vectors_are_found(tmp_path: Path) -> None:
    pictures = []
    for i, content in enumerate((b"x", b"y", b"x", b"z", b"z")):
        path = tmp_path / f"{i}.jpg"
        path.write_bytes(content)
        pictures.append(Picture(f"{i}", path, "train", "same" if i > 2 else f"{i}"))
    vectors = np.array([[1, 0], [0, 1], [1, 0.001], [-1, -1], [0, 1.001]], np.float32)
    groups = np.array([0, 1, 2, 3, 3])
    found = duplicate_pictures(pictures, vectors, groups)
    # 3 and 4 have the same bytes, but belong together; 1 and 4 point the same way.
    assert [(d.first, d.second, d.exact) for d in found] == [(0, 2, True), (1, 4, False)]


def test_pictures_that_are_gone_are_compared_by_their_vectors(tmp_path: Path) -> None:
    pictures = [Picture(str(i), tmp_path / f"{i}.jpg", "train", str(i)) for i in range(3)]
    found = duplicate_pictures(pictures, np.array([[1, 0], [1, 0], [0, 1]], np.float32), np.arange(3))
    assert [(d.first, d.second, d.exact) for d in found] == [(0, 1, False)]


def test_what_all_pictures_share_makes_no_two_of_them_alike() -> None:
    vectors = 100 + np.eye(4, dtype=np.float32)
    pictures = [Picture(str(i), None, "train", str(i)) for i in range(4)]
    assert duplicate_pictures(pictures, vectors, np.arange(4)) == []
