"""A run that is killed at any moment and resumed ends with the bits of one that never was."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = "import torch; torch.set_num_threads(1); from vsekit.cli import main; main()"


def command(recipe: Path, data: Path, out: Path, *more: str) -> list[str]:
    # A checkpoint after every step: kills fall into checkpoint writes as well as between them.
    options = ["--data", str(data), "--out", str(out), "--quiet", "--no-report", "--checkpoint-seconds", "0"]
    options += ["--set", "querybank.size=20", *more]
    return [sys.executable, "-c", PROGRAM, "train", str(recipe), *options]


def outcome(run: Path) -> dict[str, bytes]:
    names = ["metrics.jsonl", "model/model.safetensors", "model/config.json", "model/vocab.json", "model/README.md"]
    names += ["model/querybank.safetensors"]
    weights = next((run / "state").glob("step-*/weights.safetensors"))
    return {name: (run / name).read_bytes() for name in names} | {"last weights": weights.read_bytes()}


def test_a_run_killed_at_random_moments_ends_bit_identical(collection: Path, recipe: Path, tmp_path: Path) -> None:
    started = time.monotonic()
    subprocess.run(command(recipe, collection, tmp_path / "whole"), check=True)
    whole_run = time.monotonic() - started

    rng = random.Random(0)
    out, kills = tmp_path / "killed", 0
    for _ in range(40):
        process = subprocess.Popen(command(recipe, collection, out, "--resume"))
        # Start-up takes most of such a short run, so moments are drawn from when training has begun.
        reached = _wait_for_progress(process, out, steps=rng.randint(1, 8))
        time.sleep(rng.random() * 0.02)
        if not reached or process.poll() is not None:
            assert process.wait() == 0
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
    else:
        pytest.fail(f"not finished after {kills} kills")
    assert kills >= 3, f"only {kills} kills in a run of {whole_run:.0f} s"
    assert outcome(out) == outcome(tmp_path / "whole")
    assert not list(out.rglob("*.tmp"))


def _wait_for_progress(process: subprocess.Popen[bytes], out: Path, steps: int) -> bool:
    """Waits until the run has written `steps` new checkpoints; False when it ended before."""

    def newest() -> str:
        return (
            max((path.name for path in (out / "state").glob("step-*")), default="") if (out / "state").is_dir() else ""
        )

    seen = {newest()}
    while process.poll() is None:
        seen.add(newest())
        if len(seen) > steps:
            return True
        time.sleep(0.001)
    return False


def test_resuming_a_finished_run_changes_nothing(collection: Path, recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    subprocess.run(command(recipe, collection, out), check=True)
    before = outcome(out)
    subprocess.run(command(recipe, collection, out, "--resume"), check=True)
    assert outcome(out) == before


def test_a_run_folder_is_never_overwritten(collection: Path, recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / "thesis.txt").write_text("precious")
    again = subprocess.run(command(recipe, collection, out), capture_output=True, text=True)
    assert again.returncode == 2
    assert "not empty" in again.stderr
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


def test_resuming_with_other_settings_is_refused_by_name(collection: Path, recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    subprocess.run(command(recipe, collection, out), check=True)
    again = command(recipe, collection, out, "--resume", "--set", "stages.first.optimiser.lr=0.5")
    result = subprocess.run(again, capture_output=True, text=True)
    assert result.returncode == 2
    assert "stages.first.optimiser.lr" in result.stderr
