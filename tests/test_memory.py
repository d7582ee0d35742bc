from __future__ import annotations

import ctypes
import sys
from typing import Any

import pytest

from vsekit.memory import keep_freed_memory

# As glibc's malloc.h numbers them.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3


class Library:
    """A libc whose mallopt takes all but the `refused` settings."""

    def __init__(self, refused: int | None = None) -> None:
        self.told: dict[int, int] = {}
        self.refused = refused

    def mallopt(self, name: int, value: int) -> int:
        self.told[name] = value
        return int(name != self.refused)


def on(monkeypatch: pytest.MonkeyPatch, platform: str, library: Any) -> bool:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    return keep_freed_memory()


def test_glibc_is_told_to_keep_large_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    glibc = Library()
    assert on(monkeypatch, "linux", glibc)
    assert set(glibc.told) == {M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD}
    batch = 64 * 3 * 224 * 224 * 4  # the pixels of 64 pictures
    assert glibc.told[M_MMAP_THRESHOLD] > batch  # blocks of that size come from the heap, …
    assert batch < glibc.told[M_TRIM_THRESHOLD] < 2**31  # … which does not shrink when they are freed; a C int


def test_who_can_not_be_told_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not on(monkeypatch, "linux", Library(refused=M_MMAP_THRESHOLD))
    assert not on(monkeypatch, "linux", object())  # musl has no mallopt
    library = Library()
    assert not on(monkeypatch, "darwin", library)
    assert not library.told


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_the_library_of_this_machine_has_mallopt_or_answers_no() -> None:
    assert keep_freed_memory() is hasattr(ctypes.CDLL(None), "mallopt")
