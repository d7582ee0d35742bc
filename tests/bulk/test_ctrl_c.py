"""Ctrl-C while workers of Ray are at work, as a terminal gives it: to every process of the command at once. The command ends as
others do, leaves no process behind, and typed again it goes on and ends with the files of one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from tests.bulk.conftest import Machines
from tests.bulk.test_commands import files
from tests.features.test_store import make_pictures

#: vse, interrupted when the n-th block has come back; it writes down how many it asked for. What comes back is kept at once.
_VSE = """
import os, signal, sys
from vsekit.bulk.ray import Ray
from vsekit.features.writer import ResumableWriter
log, at = sys.argv[1], int(sys.argv[2])
del sys.argv[1:3]
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
ResumableWriter.due = property(lambda self: True)
whole = Ray.map
def counted(self, work, blocks):
    with open(log, "a") as file:
        print(len(blocks), file=file)
    for number, answer in enumerate(whole(self, work, blocks), 1):
        yield answer
        if number == at:
            os.killpg(0, signal.SIGINT)
Ray.map = counted
from vsekit.cli import main
main()
"""
LIMIT = 600.0
#: Seconds in which Ray's workers notice that their command has ended.
PATIENCE = 60.0


class Typed:
    """The log of one command: how many blocks it asked for each time."""

    def __init__(self, folder: Path, *arguments: str | Path) -> None:
        self.log, self.arguments = folder / "log", list(map(str, arguments))

    def __call__(self, at: int) -> tuple[int, str]:
        """Exit code, and what was said on stderr. at: of the block after which Ctrl-C comes; 0: never."""
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", _VSE, str(self.log), str(at), *self.arguments]
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            said = process.communicate(timeout=LIMIT)[1]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        until = time.monotonic() + PATIENCE
        while (left := _left_of(process.pid)) and time.monotonic() < until:
            time.sleep(0.2)
        assert not left
        return process.returncode, said

    @property
    def asked(self) -> list[int]:
        return list(map(int, self.log.read_text().split()))


def _left_of(session: int) -> list[str]:
    """The processes of a session that are still there."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except (ProcessLookupError, psutil.NoSuchProcess):
            pass
    return found


def features(folder: Path) -> list[str | Path]:
    """Four blocks of 8 pictures, the last of them short."""
    pictures = make_pictures(folder / "pictures", 30)
    names = [picture.path.name for picture in pictures if picture.path]
    table = "".join(f"pictures/{name},a picture,train\n" for name in names)
    (folder / "pictures.csv").write_text("image,caption,split\n" + table)
    return ["features", "efficientnet_lite", "--data", folder / "pictures.csv", "--batch-size", "1", "-q"]


def mine(folder: Path) -> list[str | Path]:
    """Four blocks of 4,096 pictures, the last of them short."""
    rng = np.random.default_rng(0)
    for name in ("images", "captions"):
        np.save(folder / f"{name}.npy", rng.standard_normal((13_000, 8)).astype(np.float32))
    given = ["--image-embeddings", folder / "images.npy", "--caption-embeddings", folder / "captions.npy"]
    return ["mine", *given, "--captions-per-image", "1", "--top-captions", "5", "--top-images", "5", "-q"]


@pytest.mark.slow
@pytest.mark.parametrize(("command", "where"), [(features, "cluster"), (features, "here"), (mine, "cluster")])
def test_ctrl_c_ends_a_command_on_ray_and_the_same_command_goes_on(
    command: object, where: str, tmp_path: Path, two_nodes: Machines
) -> None:
    arguments = command(tmp_path)  # type: ignore[operator]
    one = Typed(tmp_path, *arguments, "--out", tmp_path / "one")
    assert one(0)[0] == 0
    engine = [
        "--engine",
        "ray",
        *(["--ray-address", two_nodes.address] if where == "cluster" else ["--ray-workers", "1"]),
    ]
    typed = Typed(tmp_path, *arguments, "--out", tmp_path / "many", *engine)
    code, said = typed(2)
    assert (code, said) == (130, "vse: stopped\n")
    assert not (tmp_path / "many" / "mining.json").exists()
    assert typed(0) == (0, "")
    blocks = typed.asked
    assert blocks[0] >= 4
    assert blocks[1] == blocks[0] - 2  # those that had come are not done again
    assert files(tmp_path / "many") == files(tmp_path / "one")
