from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from vsekit import progress

PROGRAM = """
from vsekit.progress import Progress
with Progress().bar("Counting", "sheep") as bar:
    for n in range(1, 4):
        bar.update(n, 3, f"note {n}")
"""


def test_a_terminal_gets_a_live_bar() -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stderr=slave, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    assert process.wait() == 0
    assert b"Counting" in shown
    assert b"3/3" in shown
    assert b"note 3" in shown


def test_a_log_gets_a_line_now_and_then_with_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.Progress().bar("Counting", "sheep") as bar:
        for n in range(1, 5):  # ten seconds each; a line is due every fifteen
            bar.update(n, 4)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["Counting: 2/4 sheep (20 s left)", "Counting: 4/4 sheep (0 s left)"]


def test_work_of_unknown_length_shows_how_much_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.Progress().bar("Counting", "sheep") as bar:
        bar.update(1, None, "so far")
        bar.update(2, 4)
    assert capsys.readouterr().err.splitlines() == ["Counting: 1 sheep so far", "Counting: 2/4 sheep (40 s left)"]


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.QUIET.bar("Counting") as bar:
        bar.update(1, 1)
    progress.QUIET.say("hello")
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
