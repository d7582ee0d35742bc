"""Dirty collections from the command line: set aside and listed, or refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.cli.test_cli import vse

RECIPE = """
model:
  dim: 8
  image: {encoder: {kind: small_cnn, widths: [4, 4], pixels: 16}, pooling: mean}
  text: {encoder: {kind: bag_of_words, word_dim: 8, min_count: 1}, pooling: mean}
data:
  view: {kind: 1C, resize: 16, pixels: 16}
  eval_view: {kind: 1C, resize: 16, pixels: 16}
stages:
  main: {epochs: 1, batch_size: 8, loss: sum_of_hinges}
"""


@pytest.fixture
def dirty(tmp_path: Path) -> Path:
    """Forty sound rows, four that are not, and no split column."""
    rows = [["image", "caption"]]
    for n in range(40):
        coarse = np.random.default_rng(n).integers(0, 256, (4, 5, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((40, 32)).save(tmp_path / f"{n}.png")
        rows.append([f"{n}.png", f"thing number {n}"])
    rows += [["0.png", ""], ["1.png", "thing number 1"], ["gone.png", "nothing"], ["half.png", "half a thing"]]
    whole = (tmp_path / "2.png").read_bytes()
    (tmp_path / "half.png").write_bytes(whole[: len(whole) // 2])
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    (tmp_path / "small.yaml").write_text(RECIPE)
    return tmp_path / "t.csv"


def test_training_goes_on_without_dirt_and_lists_it_and_strict_stops(dirty: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    said = vse("train", tmp_path / "small.yaml", "--data", dirty, "--out", run, "--no-report").stderr
    assert "4 left out" in said
    assert "40 pictures name no split" in said
    with (run / "skipped.csv").open(newline="") as file:
        listed = {(row["line"], row["reason"]) for row in csv.DictReader(file)}
    assert listed == {
        ("42", "empty-caption"),
        ("43", "duplicate-caption"),
        ("44", "missing-image"),
        ("45", "broken-image"),
    }
    assert (run / "model" / "model.safetensors").is_file()
    # What measures reads the same collection.
    assert "rsum" in vse("evaluate", run, "--data", dirty, "--split", "val", "--json").stdout

    stopped = vse("train", tmp_path / "small.yaml", "--data", dirty, "--out", tmp_path / "no", "--strict", code=2)
    assert "t.csv:42" in stopped.stderr
    assert not (tmp_path / "no").exists()


def test_clean_writes_a_collection_that_passes_and_what_it_left_out(dirty: Path, tmp_path: Path) -> None:
    assert vse("data", "check", dirty, code=2)
    printed = json.loads(vse("data", "clean", dirty, "--out", tmp_path / "out", "--json").stdout)
    assert {problem["kind"] for problem in printed["set_aside"]} == {
        "empty-caption",
        "duplicate-caption",
        "missing-image",
        "broken-image",
    }
    assert (sum(printed["splits"].values()), printed["captions"], printed["splits_made"]) == (40, 40, 40)
    report = json.loads(vse("data", "check", printed["table"], "--json").stdout)
    assert report["problems"] == []
    assert {name: counts["pictures"] for name, counts in report["splits"].items()} == printed["splits"]
