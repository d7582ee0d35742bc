"""A run that is killed at any moment and resumed ends with the bits of one that never was."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image
from tests.killing import killed_at
from tests.training.conftest import TINY, write_precomputed

from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.evaluation.config import CONFIG, read_config, write_config
from vsekit.training.collection import Collection
from vsekit.training.loop import train
from vsekit.training.settings import RunSettings

PROGRAM = "import torch; torch.set_num_threads(1); from vsekit.cli import main; main()"


def command(recipe: Path, data: Path, out: Path, *more: str) -> list[str]:
    # A checkpoint after every step: kills fall into checkpoint writes as well as between them.
    options = ["--data", str(data), "--out", str(out), "--quiet", "--no-report", "--checkpoint-seconds", "0"]
    options += ["--set", "querybank.size=20", "--set", "stages.first.average=0.9", *more]
    return [sys.executable, "-c", PROGRAM, "train", str(recipe), *options]


def outcome(run: Path) -> dict[str, bytes]:
    names = ["metrics.jsonl", "model/model.safetensors", "model/config.json", "model/vocab.json", "model/README.md"]
    names += ["model/querybank.safetensors"]
    weights = next((run / "state").glob("step-*/weights.safetensors"))
    return {name: (run / name).read_bytes() for name in names} | {"last weights": weights.read_bytes()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A recipe, a collection, and the run that was never stopped; a test that changes the run has a copy of its own."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "tiny.yaml").write_text(yaml.safe_dump(TINY, sort_keys=False))
    paths = folder / "tiny.yaml", write_precomputed(folder / "data"), folder / "run"
    subprocess.run(command(*paths), check=True)
    return paths


def test_a_run_killed_at_random_moments_ends_bit_identical(finished: tuple[Path, Path, Path], tmp_path: Path) -> None:
    recipe, collection, whole = finished
    rng, out, kills = random.Random(0), tmp_path / "killed", 0
    while killed_at(rng.randint(150, 300), out, PROGRAM, *command(recipe, collection, out, "--resume")[3:]):
        kills += 1
    assert kills >= 3  # of some 780 file operations
    assert outcome(out) == outcome(whole)
    assert not list(out.rglob("*.tmp"))


def test_resuming_a_finished_run_changes_nothing(finished: tuple[Path, Path, Path]) -> None:
    before = outcome(finished[-1])
    subprocess.run(command(*finished, "--resume"), check=True)
    assert outcome(finished[-1]) == before


def test_a_run_folder_is_never_overwritten(collection: Path, recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / "thesis.txt").write_text("precious")
    again = subprocess.run(command(recipe, collection, out), capture_output=True, text=True)
    assert again.returncode == 2
    assert "not empty" in again.stderr
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


def test_resuming_with_other_settings_is_refused_by_name(finished: tuple[Path, Path, Path]) -> None:
    again = command(*finished, "--resume", "--set", "stages.first.optimiser.lr=0.5")
    result = subprocess.run(again, capture_output=True, text=True)
    assert result.returncode == 2
    assert "stages.first.optimiser.lr" in result.stderr


def test_a_run_made_before_a_setting_existed_goes_on_with_its_default(
    finished: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    recipe, collection, whole = finished
    out = shutil.copytree(whole, tmp_path / "run")
    config = read_config(out / CONFIG)
    for stage in config["stages"].values():
        del stage["augment"]["crop"], stage["average"]
    config["stages"]["first"]["average"] = 0.9
    write_config(out / CONFIG, config)
    before = outcome(out)
    subprocess.run(command(recipe, collection, out, "--resume"), check=True)
    assert outcome(out) == before
    cropped = command(recipe, collection, out, "--resume", "--set", "stages.first.augment.crop=0.5")
    again = subprocess.run(cropped, capture_output=True, text=True)
    assert again.returncode == 2
    assert "stages.first.augment.crop = 1.0, not 0.5" in again.stderr


def test_an_encoder_that_an_earlier_stage_trained_is_the_same_after_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it makes of the pictures is computed before the checkpoint is put back as a whole."""
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    rng, pictures = np.random.default_rng(0), []
    for i in range(12):
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(tmp_path / f"{i}.png")
        pictures.append(Picture(f"{i}", tmp_path / f"{i}.png", "val" if i > 7 else "train", f"{i}"))
    pairs = Pairs(pictures, [Caption(f"a picture {i}", i) for i in range(12)], tmp_path)
    view = {"kind": "1C", "resize": 16, "pixels": 16}
    image = {"encoder": {"kind": "small_cnn", "widths": [4, 8], "pixels": 16}, "pooling": "single"}
    text = {"encoder": {"kind": "gru", "word_dim": 4, "dim": 8, "min_count": 1}, "pooling": "last"}
    stage = {"epochs": 2, "batch_size": 4, "loss": "info_nce"}
    stages = {"first": stage, "second": stage | {"freeze": ["image.encoder"]}}
    data = {"view": view, "eval_view": view}
    settings = RunSettings.model_validate(
        {"model": {"dim": 8, "image": image, "text": text}, "data": data, "stages": stages}
    )
    train(settings, pairs, tmp_path / "whole", checkpoint_seconds=0)
    measured, calls = Collection.validate, []

    def stopped(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return measured(*arguments)

    monkeypatch.setattr(Collection, "validate", stopped)
    with pytest.raises(KeyboardInterrupt):
        train(settings, pairs, tmp_path / "stopped", checkpoint_seconds=0)
    train(settings, pairs, tmp_path / "stopped", checkpoint_seconds=0, resume=True)
    metrics = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "stopped")]
    assert metrics[0] == metrics[1]
