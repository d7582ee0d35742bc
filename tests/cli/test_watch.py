"""vse index --watch as a person meets it: a real process, the system's notices, Ctrl-C, a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models.conftest import VIEW, WORDS, settings

from vsekit.models.model import VSE
from vsekit.search.stores import check_index

LIMIT = 120.0


def picture(path: Path, seed: int) -> None:
    noise = np.random.default_rng(seed).integers(0, 256, (24, 30, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)


def _heeds_ctrl_c() -> None:
    """What a shell starts in the background, these tests perhaps, ignores it, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Process:
    def __init__(self, *arguments: str | Path) -> None:
        paths = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-m", "vsekit", "index", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, env=paths, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_heeds_ctrl_c
        )

    def report(self) -> dict[str, object]:
        """The next line."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return json.loads(line)

    def end(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, err


@pytest.fixture
def place(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    VSE(settings(), WORDS, VIEW).save(tmp_path / "run" / "model")
    (tmp_path / "photos").mkdir()
    return tmp_path


@pytest.mark.slow
def test_changes_are_taken_in_until_ctrl_c_and_a_kill_loses_nothing(place: Path) -> None:
    photos, index = place / "photos", place / "index"
    picture(photos / "1.png", 1)
    watching = Process(place / "run", photos, "--out", index, "--watch", "--json")
    assert watching.report()["added"] == 1
    picture(photos / "2.png", 2)
    assert watching.report()["pictures"] == 2
    code, err = watching.end(signal.SIGINT)
    assert code == 0
    assert err.endswith("Stopped; what was indexed is kept.\n")

    watching = Process(place / "run", photos, "--out", index, "--watch", "--json", "-q")
    assert watching.report()["unchanged"] == 2
    (photos / "1.png").rename(photos / "3.png")
    assert watching.report()["renamed"] == 1
    assert watching.end(signal.SIGKILL)[0] == -signal.SIGKILL
    found = check_index(index)
    assert (found.pictures, found.damage) == (2, [])
    picture(photos / "4.png", 4)
    watching = Process(place / "run", photos, "--out", index, "--watch", "-q")
    assert watching.process.stdout is not None
    assert watching.process.stdout.readline() == "1 new, 2 unchanged\n"
    assert watching.end(signal.SIGTERM)[0] == 0
