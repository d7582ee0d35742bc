from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from vsekit.errors import UserError
from vsekit.features import writer as module
from vsekit.features.writer import ResumableWriter, differences

MADE_BY = {"encoder": {"kind": "small", "sizes": (1, 2)}, "seed": 0}


def filled(folder: Path, stop: int = 10, seconds: float = 0.0) -> ResumableWriter:
    """Squares of 0 … 9, two rows at a time, and their running sum as the snapshot; goes on where it stopped."""
    with ResumableWriter(folder, "marker.json", MADE_BY, seconds=seconds) as writer:
        done = writer.state["done"] if writer.state else 0
        before = writer.snapshot()
        total = np.zeros(1) if before is None else before
        if not done:
            writer.reserve({"squares": (np.int32, (10, 3)), "halves": (np.float16, (10,))})
        for start in range(done, stop, 2):
            rows = np.arange(start, start + 2)
            writer.write("squares", start, np.repeat(rows[:, None] ** 2, 3, axis=1).astype(np.int32))
            writer.write("halves", start, (rows / 2).astype(np.float16))
            total = total + rows.sum()
            if writer.due or start + 2 == 10:
                writer.mark({**MADE_BY, "done": start + 2}, total)
        return writer


def test_arrays_are_what_was_written(tmp_path: Path) -> None:
    filled(tmp_path)
    assert np.load(tmp_path / "squares.npy").tolist() == [[n * n] * 3 for n in range(10)]
    assert np.load(tmp_path / "halves.npy").tolist() == [n / 2 for n in range(10)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "halves.npy",
        "marker.json",
        "snapshot-5.npy",
        "squares.npy",
    ]


@pytest.mark.parametrize("stop", [2, 4, 8])
def test_a_stopped_writer_goes_on_to_the_same_bytes(tmp_path: Path, stop: int) -> None:
    filled(tmp_path / "stopped", stop)
    continued = filled(tmp_path / "stopped")
    filled(tmp_path / "whole")
    assert continued.state is not None
    assert continued.snapshot() == [sum(range(10))]
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (tmp_path / "stopped" / path.name).read_bytes(), path.name


def test_rows_after_the_marker_are_written_again(tmp_path: Path) -> None:
    filled(tmp_path, 4)
    with ResumableWriter(tmp_path, "marker.json", MADE_BY) as lost:
        lost.write("squares", 4, np.full((4, 3), 99, np.int32))  # and no marker: as after a kill
    filled(tmp_path)
    assert np.load(tmp_path / "squares.npy").tolist() == [[n * n] * 3 for n in range(10)]


def test_files_have_the_bytes_numpy_would_write(tmp_path: Path) -> None:
    filled(tmp_path)
    np.save(tmp_path / "expected.npy", np.repeat(np.arange(10, dtype=np.int32)[:, None] ** 2, 3, axis=1))
    assert (tmp_path / "squares.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()


def test_room_is_on_the_disk_before_the_first_row(tmp_path: Path) -> None:
    ResumableWriter(tmp_path, "marker.json", {}).reserve({"large": (np.float32, (1000, 1000))})
    found = (tmp_path / "large.npy").stat()
    assert found.st_size == 4_000_000 + 128
    assert found.st_blocks * 512 >= found.st_size  # a sparse file would have next to none


def test_a_full_disk_is_an_error_before_the_work_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.posix_fallocate

    def full(handle: int, start: int, size: int) -> None:
        if size > 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle, start, size)

    monkeypatch.setattr(os, "posix_fallocate", full)
    arrays = {"small": (np.uint8, (10,)), "large": (np.uint8, (1000,))}
    with pytest.raises(OSError, match="No space left"):
        ResumableWriter(tmp_path, "marker.json", {}).reserve(arrays)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: type("", (), {"free": 500}))
    with pytest.raises(UserError, match="are free"):
        ResumableWriter(tmp_path, "marker.json", {}).reserve(arrays)
    assert not list(tmp_path.iterdir())


def test_without_fallocate_zeros_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    ResumableWriter(tmp_path, "marker.json", {}).reserve({"large": (np.uint8, (3_000_000,))})
    assert not np.load(tmp_path / "large.npy").any()
    assert (tmp_path / "large.npy").stat().st_size == 3_000_000 + 128


def test_what_another_wrote_is_refused_or_begun_anew(tmp_path: Path) -> None:
    filled(tmp_path, 4)
    other = {**MADE_BY, "seed": 1}
    with pytest.raises(UserError, match="seed: 0, not 1"):
        ResumableWriter(tmp_path, "marker.json", other, lambda *found: UserError("{}: {}, not {}".format(*found)))
    assert (tmp_path / "squares.npy").is_file()
    assert ResumableWriter(tmp_path, "marker.json", other).state is None
    assert not tmp_path.exists()


def test_differences_name_the_keys_that_differ() -> None:
    now = {"encoder": {"kind": "small", "sizes": (1, 3)}, "seed": 0}
    was = {"encoder": {"kind": "small", "sizes": [1, 2]}, "seed": 0, "rows": 7}
    assert list(differences(was, now)) == [("encoder", {"sizes": [1, 2]}, {"sizes": [1, 3]})]
    assert not list(differences(was, MADE_BY))


def test_a_damaged_marker_is_named(tmp_path: Path) -> None:
    (tmp_path / "marker.json").write_text("{half")
    with pytest.raises(UserError, match=r"damaged.*\n?.*") as raised:
        ResumableWriter(tmp_path, "marker.json", {})
    assert "marker.json" in str(raised.value)
