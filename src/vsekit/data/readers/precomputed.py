"""The precomputed format of VSE++ and SCAN: `{split}_ims.npy` with features, `{split}_caps.txt` with a caption a line.

The array is (rows, d) or (rows, regions, d). VSE++ and SCAN publish five captions a picture in picture order, and
either one row a picture, or the picture's row written five times, one row a caption. "dev" is named "val" here.
COCO's "test" is the beginning of its "testall".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from vsekit.data.pairs import Pairs
from vsekit.data.readers.base import Options, Reader, read_lines, split_name
from vsekit.data.readers.build import Builder
from vsekit.data.readers.problems import Place, Problems
from vsekit.errors import UserError

CAPTIONS_A_PICTURE = 5


class Stacked:
    """Arrays of equal row shape, seen as one: read-only, rows are only copied (from the memory map) when indexed.

    >>> both = Stacked([np.zeros((2, 3)), np.ones((4, 3))])
    >>> both.shape, both[np.array([5, 0])][:, 0]
    ((6, 3), array([1., 0.]))
    """

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self._arrays = arrays
        self._starts = np.cumsum([0] + [len(a) for a in arrays])
        self._rows = np.arange(self._starts[-1])
        self.shape = (len(self._rows), *arrays[0].shape[1:])
        self.ndim = len(self.shape)
        self.dtype = np.result_type(*arrays)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        """What NumPy gives for the same rows: an integer, a slice, a mask or an array of integers."""
        chosen = self._rows[rows]
        flat = np.atleast_1d(chosen)
        out = np.empty((len(flat), *self.shape[1:]), self.dtype)
        owner = np.searchsorted(self._starts, flat, side="right") - 1
        for i in np.unique(owner):
            out[owner == i] = self._arrays[i][flat[owner == i] - self._starts[i]]
        return out if chosen.ndim else out[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or self.dtype, copy=False)


def find(path: Path, options: Options) -> list[Path]:
    files = [path] if path.is_file() else sorted(path.glob("*_ims.npy"))
    return [file for file in files if file.name.endswith("_ims.npy")]


def read(path: Path, files: list[Path], options: Options, problems: Problems) -> Pairs:
    builder = Builder(path, options, problems)
    arrays: list[np.ndarray] = []
    # Training first, however the alphabet has it.
    files = sorted(files, key=lambda f: (not f.name.startswith("train"), f.name))
    for file in files:
        with problems.catching():
            array = open_npy(file)
            if arrays and array.shape[1:] != arrays[0].shape[1:]:
                what = f"its rows have the shape {array.shape[1:]}, those of {files[0].name} {arrays[0].shape[1:]}"
                raise UserError(what, file=file, remedy="Extract all splits with the same encoder.")
            _add_split(file, array, sum(map(len, arrays)), builder, problems)
            arrays.append(array)
    return builder.pairs(arrays[0] if len(arrays) == 1 else Stacked(arrays) if arrays else None)


def _add_split(file: Path, array: np.ndarray, start: int, builder: Builder, problems: Problems) -> None:
    split = file.name.removesuffix("_ims.npy")
    captions_file = file.with_name(f"{split}_caps.txt")
    if not captions_file.is_file():
        raise UserError("there is no such file", file=captions_file, remedy=f"It holds the captions of {file.name}.")
    captions = read_lines(captions_file, problems)
    rows, each = layout(array, len(captions), file)
    for k, row in enumerate(rows):
        at = Place(file, field=f"[{row}]")
        picture = builder.picture(f"{split_name(split)}/{k}", None, at, split=split, row=start + row)
        for line in range(k * each, (k + 1) * each):
            builder.caption(captions[line], picture, Place(captions_file, line + 1))


def layout(array: np.ndarray, captions: int, file: Path) -> tuple[range, int]:
    """The row of each picture, and the captions a picture has."""
    rows = len(array)
    if rows and rows < captions and captions % rows == 0:
        return range(rows), captions // rows
    if rows == captions:
        repeated = [] if rows % CAPTIONS_A_PICTURE else _repeats(array)
        if repeated and all(repeated):
            return range(0, rows, CAPTIONS_A_PICTURE), CAPTIONS_A_PICTURE
        if not any(repeated):
            return range(rows), 1
        what = (
            f"{sum(repeated)} of {len(repeated)} pictures looked at have {CAPTIONS_A_PICTURE} equal rows, others don't"
        )
    else:
        what = f"{rows} rows and {captions} captions don't fit together"
    raise UserError(
        what, file=file, remedy=f"There must be a row a picture, or a row a caption (each {CAPTIONS_A_PICTURE} times)."
    )


def _repeats(array: np.ndarray, looks: int = 100) -> list[bool]:
    """Whether rows 5k and 5k+1 are equal, for pictures k spread over the array (all of SCAN's rows are 40 GB)."""
    pictures = len(array) // CAPTIONS_A_PICTURE
    chosen = np.unique(np.linspace(0, pictures - 1, min(looks, pictures)).astype(int)) * CAPTIONS_A_PICTURE
    return [bool(np.array_equal(array[k], array[k + 1], equal_nan=True)) for k in chosen]


def open_npy(file: Path) -> np.ndarray:
    """A memory map of a .npy file of numbers; nothing is unpickled."""
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # NumPy raises ValueError, OSError, SyntaxError, TokenError and more on broken headers.
        what = f"this is not a readable array of numbers: {error}"
    else:
        if array.dtype.kind in "fiu" and array.ndim in (2, 3):
            return array
        what = f"the array holds {array.dtype} in the shape {array.shape}"
    raise UserError(
        what,
        file=file,
        remedy="numpy.save (rows, d) or (rows, regions, d) as float32; Python objects are never loaded.",
    )


READER = Reader("precomputed", "{split}_ims.npy and {split}_caps.txt for each split", find, read)
