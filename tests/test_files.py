from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from vsekit.errors import UserError
from vsekit.files import atomic_path, fingerprint, remove_left_over, write_json, write_npy, write_text


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_path(target) as temporary:
        temporary.write_text(f"half {1 / 0}")
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_files_come_back_as_written_and_readable_by_others(tmp_path: Path) -> None:
    write_text(tmp_path / "new" / "a.txt", "grün")
    write_json(tmp_path / "b.json", {"x": [1, 2]})
    write_npy(tmp_path / "c.npy", np.arange(3))
    assert (tmp_path / "new" / "a.txt").read_text(encoding="utf-8") == "grün"
    assert json.loads((tmp_path / "b.json").read_text()) == {"x": [1, 2]}
    assert np.load(tmp_path / "c.npy", allow_pickle=False).tolist() == [0, 1, 2]
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "b.json").stat().st_mode & 0o777 == 0o666 & ~umask


def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    kept = [tmp_path / "a.json", tmp_path / "model" / "notes.tmp", tmp_path / ".hidden"]
    gone = [tmp_path / "model" / ".vocab.json.x7.tmp", tmp_path / ".step-1.tmp" / ".state.json.y.tmp"]
    for path in [*kept, *gone, tmp_path / ".step-1.tmp" / "weights"]:
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    remove_left_over(tmp_path)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
    assert not (tmp_path / ".step-1.tmp").exists()


def test_json_with_nan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert not os.listdir(tmp_path)


def test_fingerprints_tell_parts_shapes_and_types_apart() -> None:
    values = [
        ("ab",),
        ("a", "b"),
        (b"ab",),
        (np.zeros(4),),
        (np.zeros((2, 2)),),
        (np.zeros(4, np.float32),),
        ({"a": 1},),
    ]
    assert len({fingerprint(*value) for value in values}) == len(values)
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


def test_an_error_names_file_line_field_and_remedy() -> None:
    error = UserError("no caption", file="shop.csv", line=7, field="title", remedy="Fill the cell.")
    assert str(error) == "shop.csv:7 [title]: no caption\n  Fill the cell."
