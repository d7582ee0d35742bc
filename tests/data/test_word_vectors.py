from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from vsekit.data.word_vectors import read_word_vectors
from vsekit.errors import UserError

VECTORS = {"the": [0.5, -0.25, 3.0], "dog": [1.0, 2.0, 4.0], "Dog": [9.0, 9.0, 9.0], "zebra": [0.0, 0.0, -1e-3]}
WORDS = ["zebra", "okapi", "dog"]


def text(header: bool = False) -> bytes:
    lines = [f"{word} {' '.join(map(str, vector))}\n" for word, vector in VECTORS.items()]
    return ("4 3\n" * header + "".join(lines)).encode()


def binary(line_ends: bool) -> bytes:
    entries = [
        word.encode() + b" " + np.array(vector, "<f4").tobytes() + b"\n" * line_ends for word, vector in VECTORS.items()
    ]
    return b"4 3\n" + b"".join(entries)


@pytest.mark.parametrize("data", [text(), text(True), binary(True), binary(False)], ids=["glove", "w2v", "bin", "bin0"])
@pytest.mark.parametrize("zipped", [False, True])
def test_every_format_gives_the_wanted_vectors_and_the_share_found(tmp_path: Path, data: bytes, zipped: bool) -> None:
    path = tmp_path / ("vectors.gz" if zipped else "vectors")
    path.write_bytes(gzip.compress(data) if zipped else data)
    found = read_word_vectors(path, WORDS)
    assert found.rows.tolist() == [0, 2]
    assert found.vectors.dtype == np.float32
    np.testing.assert_array_equal(found.vectors, np.array([VECTORS["zebra"], VECTORS["dog"]], np.float32))
    assert found.share == pytest.approx(2 / 3)
    assert found.dim == 3


def test_no_word_found_is_an_empty_answer_of_the_right_width(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_bytes(text())
    found = read_word_vectors(path, ["okapi"])
    assert (found.share, found.vectors.shape) == (0, (0, 3))


def test_the_first_of_two_entries_counts_and_words_with_spaces_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("a 1 2\n. . . 7 7\n. 3 4\n. 5 6\n")
    assert read_word_vectors(path, ["."]).vectors.tolist() == [[3, 4]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a 1 2\nb 1\n", ":2: the vector of 'b' is broken"),
        (b"2 2\na 1 2\nb 1 x\n", ":3: the vector of 'b' is broken"),
        (binary(True)[:-5], "ends within word 4 of 4"),
        (b"{}\n", "neither GloVe nor word2vec"),
        (b"", "neither GloVe nor word2vec"),
    ],
)
def test_a_broken_file_is_named_with_the_place(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(data)
    with pytest.raises(UserError, match=message):
        read_word_vectors(path, ["a", "b"])


def test_a_missing_file_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_word_vectors(tmp_path / "none.txt", ["a"])


def test_a_real_glove_file_holds_common_words_and_no_nonsense(glove: Path) -> None:
    found = read_word_vectors(glove, ["dog", "frisbee", "qwrtzpq", "man"])
    assert found.rows.tolist() == [0, 1, 3]
    assert found.vectors.shape == (3, 100)
