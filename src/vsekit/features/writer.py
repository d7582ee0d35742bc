"""Arrays that take long to compute, written so that a kill at any moment costs the last few seconds.

    NAME.npy             one file an array, at its final size from the start
    the marker (JSON)    what made them, and how far they are: the last thing written, with checksums of all files at the end
    snapshot-N.npy       what else is needed to go on, where that is an array too

The room is reserved on the disk first, so that a full one is an OSError before the work: a memory map of a sparse file
would end the process (SIGBUS) in the middle of it. Rows are written in place; the marker moves once they are safely on
the disk. Whoever goes on from the marker with the same batches ends with the same bytes as one who was never stopped.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from vsekit import system
from vsekit.errors import UserError
from vsekit.files import remove_left_over, sized, write_npy
from vsekit.seals import KEY, read_sealed, sums_of, write_sealed

#: Seconds of work a kill may cost.
FLUSH_SECONDS = 5.0
AGAIN = "Remove the folder, and run the command that made it again."
#: Makes the error for a folder that holds something else: by the name of what differs, what it was and what it is now.
Refusal = Callable[[str, Any, Any], UserError]


class ResumableWriter:
    """Writes arrays into a folder; `with` closes the files.

    Args:
        marker: name of the marker's file.
        made_by: what the marker must say, for the folder to be gone on with.
        refuse: makes the error where it says something else; None: the folder is emptied, and the work begins anew.
        seconds: between two moves of the marker; by default FLUSH_SECONDS.

    Attributes:
        state: what the marker says; None where nothing was begun.
    """

    def __init__(
        self,
        folder: Path,
        marker: str,
        made_by: Mapping[str, Any],
        refuse: Refusal | None = None,
        seconds: float | None = None,
    ) -> None:
        self.folder, self.marker = folder, folder / marker
        self.seconds = FLUSH_SECONDS if seconds is None else seconds
        if folder.is_dir():
            remove_left_over(folder)
        self.state: dict[str, Any] | None = read_marker(self.marker)
        if self.state is not None:
            different = next(differences(self.state, made_by), None)
            if different and refuse:
                raise refuse(*different)
            if different:
                shutil.rmtree(folder)
                self.state = None
        self._files: dict[str, BinaryIO] = {}
        self._rows: dict[str, int] = {}
        self._stack = ExitStack()
        self._marked = time.monotonic()

    def __enter__(self) -> ResumableWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def reserve(self, arrays: Mapping[str, tuple[Any, tuple[int, ...]]]) -> None:
        """Makes the files: (dtype, shape) by name. OSError where the disk has no room for them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        needed = sum(np.dtype(dtype).itemsize * int(np.prod(shape)) for dtype, shape in arrays.values())
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise UserError(
                f"this takes {sized(needed)}, and {sized(free)} are free",
                file=self.folder,
                remedy="Choose another disk, or keep less: float16, pooled features, fewer crops, shorter lists.",
            )
        try:
            for name, (dtype, shape) in arrays.items():
                _create(self.folder / f"{name}.npy", np.dtype(dtype), shape)
        except OSError:
            for name in arrays:
                (self.folder / f"{name}.npy").unlink(missing_ok=True)
            raise

    def has(self, name: str) -> bool:
        return (self.folder / f"{name}.npy").is_file()

    def write(self, name: str, start: int, rows: np.ndarray) -> None:
        """Rows from `start` on, in the array's own type."""
        if not len(rows):
            return
        if name not in self._files:
            path = self.folder / f"{name}.npy"
            self._rows[name] = len(load_array(path))
            self._files[name] = self._stack.enter_context(path.open("r+b"))
        file = self._files[name]
        file.seek((start - self._rows[name]) * rows[0].nbytes, os.SEEK_END)
        file.write(rows.tobytes())

    def array(self, name: str) -> np.ndarray:
        """What was written, memory-mapped; not to be changed."""
        if name in self._files:
            self._files[name].flush()
        return load_array(self.folder / f"{name}.npy")

    @property
    def due(self) -> bool:
        """Whether it is time to move the marker."""
        return time.monotonic() - self._marked >= self.seconds

    def mark(self, state: dict[str, Any], snapshot: np.ndarray | None = None, *, finished: bool = False) -> None:
        """Moves the marker to `state`, once all rows written so far, and the snapshot, are on the disk.

        finished: nothing follows; the marker gets the checksums of all arrays (.npy) and lists (.txt) here.
        """
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        old = list(self.folder.glob("snapshot-*.npy"))
        if snapshot is not None:
            name = f"snapshot-{1 + max([int(path.stem.partition('-')[2]) for path in old], default=0)}"
            write_npy(self.folder / f"{name}.npy", snapshot)
            state = {**state, "snapshot": name}
        state = {name: value for name, value in state.items() if name != KEY}
        whole = [path for path in sorted(self.folder.iterdir()) if path.suffix in (".npy", ".txt") and path not in old]
        write_sealed(self.marker, state, sums_of(self.folder, whole if finished else []))
        self.state = state
        for path in old:
            path.unlink()
        self._marked = time.monotonic()

    def snapshot(self) -> np.ndarray | None:
        """The snapshot the marker was moved with, where it was."""
        name = (self.state or {}).get("snapshot")
        return None if name is None else np.array(load_array(self.folder / f"{name}.npy"))


def read_marker(path: Path) -> dict[str, Any] | None:
    """What a marker says; None where there is none."""
    try:
        return read_sealed(path, AGAIN)
    except FileNotFoundError:
        return None


def load_array(path: Path) -> np.ndarray:
    """A memory-mapped .npy file; nothing is unpickled. UserError where there is none, or a damaged one."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise UserError("this file is missing", file=path, remedy=AGAIN) from None
    except (ValueError, TypeError, EOFError, SyntaxError, MemoryError, OverflowError) as error:
        raise UserError(f"this file is damaged: {error}", file=path, remedy=AGAIN) from None


def differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Name, old and new value of what `now` says otherwise than `was`; of mappings only the keys that differ."""
    for name, value in now.items():
        old, new = was.get(name), as_json(value)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
            old, new = ({key: side.get(key) for key in keys} for side in (old, new))
        yield name, old, new


def as_json(value: Any) -> Any:
    """As it comes back from a JSON file: tuples are lists."""
    return json.loads(json.dumps(value))


def _create(path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> None:
    """A file of zeros, for which the disk has room."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    left = dtype.itemsize * int(np.prod(shape))
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        system.reserve(file, left)
