"""Word vectors from files: GloVe text, word2vec text (fastText's .vec too) and word2vec binary, each plain or gzipped.

    GloVe text        the 0.04 -0.24 …            one word a line
    word2vec text     the same after a first line with the number of words and of dimensions
    word2vec binary   that first line, then for each word its name, a space and the float32 numbers

Which of the three it is, is read from the file. Only the wanted words are kept, so that a file of millions of words
costs time but no memory.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from gzip import GzipFile
from io import BufferedReader
from itertools import chain
from pathlib import Path

import numpy as np

from vsekit.errors import UserError

_FORMATS = "Wanted: 'word number number …' on each line (GloVe), or a first line 'words dimensions' (word2vec)."
_NUMERALS = frozenset(b"0123456789+-.eE \r\n")


@dataclass(frozen=True)
class WordVectors:
    """The vectors found for a list of words.

    rows: (k,) int64, positions in that list, ascending. vectors: (k, dim) float32. share: k over the list's length.
    """

    rows: np.ndarray
    vectors: np.ndarray
    share: float

    @property
    def dim(self) -> int:
        return self.vectors.shape[1]


def read_word_vectors(path: Path | str, words: Sequence[str]) -> WordVectors:
    """The vectors of `words` in the file at `path`; of a word that stands there twice, the first.

    Raises UserError when the file is missing, broken off, or none of the formats.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError("there is no such file of word vectors", file=path, field="word_vectors")
    wanted = {word.encode(): row for row, word in enumerate(words)}
    found: dict[int, np.ndarray] = {}
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        first = file.readline()
        header = first.split()
        dim = len(header) - 1
        if dim == 1 and header[0].isdigit() and header[1].isdigit():
            count, dim = map(int, header)
            # `dim` written numbers take at least 2·dim characters; the bytes of floats are hardly ever all numerals.
            text = _NUMERALS.issuperset(file.peek(512).partition(b" ")[2][: 2 * dim])
            vectors = _text(file, wanted, dim, path, 2) if text else _binary(file, wanted, count, dim, path)
        elif dim < 2:
            raise UserError("neither GloVe nor word2vec vectors", file=path, line=1, remedy=_FORMATS)
        else:
            vectors = _text(chain([first], file), wanted, dim, path, 1)
        for row, vector in vectors:
            found.setdefault(row, vector)
    rows = np.array(sorted(found), dtype=np.int64)
    stacked = np.stack([found[row] for row in rows]) if found else np.empty((0, dim), np.float32)
    return WordVectors(rows, stacked, len(found) / max(len(words), 1))


def _text(
    lines: Iterable[bytes], wanted: dict[bytes, int], dim: int, path: Path, start: int
) -> Iterator[tuple[int, np.ndarray]]:
    for line, text in enumerate(lines, start):
        word, _, numbers = text.partition(b" ")
        if word not in wanted:
            continue
        values = numbers.split()
        if len(values) > dim:  # a word with spaces in it; GloVe 840B has ". . ."
            continue
        try:
            if len(values) < dim:
                raise ValueError(f"{len(values)} numbers where the first line has {dim}")
            yield wanted[word], np.array(values, dtype=np.float32)
        except ValueError as error:
            raise UserError(f"the vector of '{word.decode()}' is broken: {error}", file=path, line=line) from None


def _binary(
    file: GzipFile | BufferedReader, wanted: dict[bytes, int], count: int, dim: int, path: Path
) -> Iterator[tuple[int, np.ndarray]]:
    for entry in range(count):
        word = bytearray()
        while (byte := file.read(1)) not in (b" ", b""):
            word += byte
        data = file.read(4 * dim)
        if len(data) < 4 * dim:
            raise UserError(f"the file ends within word {entry + 1} of {count}", file=path, remedy="Download it again.")
        row = wanted.get(bytes(word).lstrip(b"\n"))
        if row is not None:
            yield row, np.frombuffer(data, dtype="<f4").astype(np.float32)
