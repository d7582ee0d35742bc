from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from studies.matrix import Study, run_all, run_one
from studies.matrix_features import coarser, features

from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.errors import UserError
from vsekit.features.store import FeatureStore
from vsekit.mining.mine import MiningResult
from vsekit.progress import QUIET
from vsekit.training.settings import RunSettings

STUDIES = Path(__file__).parents[2] / "studies"
MATRIX = """
features:
  lite0: {encoder: efficientnet_lite}
  objects: {encoder: {kind: detector_regions, detector: centernet}}
base: {stages: {main: {epochs: 8, loss: a}}}
variants: {long: {stages: {main: {epochs: 20}}}}
runs:
  second: {about: x, needs: first, use: [long], set: {stages: {main: {start: $needs}}}, seeds: [0, 1]}
  first: {about: y, seeds: [0, 1]}
  other: {about: z}
"""


@pytest.fixture
def study(tmp_path: Path) -> Study:
    (tmp_path / "matrix.yaml").write_text(MATRIX)
    (tmp_path / "results").mkdir()
    return Study(tmp_path / "matrix.yaml", tmp_path / "results", tmp_path / "work")


def finish(study: Study, run: str) -> None:
    (study.results / f"{run}.json").write_text(
        json.dumps({"rsum": 1.0, "settings": study.runs[run].settings, "features": "lite0"})
    )


def test_what_a_run_needs_comes_before_it_and_finished_runs_are_skipped(study: Study) -> None:
    ids = [run.id for run in study.todo([])]
    assert sorted(ids) == ["first.0", "first.1", "other.0", "second.0", "second.1"]
    assert all(ids.index(f"first.{seed}") < ids.index(f"second.{seed}") for seed in (0, 1))
    finish(study, "second.0")
    finish(study, "other.0")
    assert [run.id for run in study.todo(["second", "other"])] == ["first.1", "second.1"]


def test_a_finished_run_whose_model_is_gone_is_run_again_for_one_that_needs_it(study: Study) -> None:
    finish(study, "first.1")
    assert "first.1" in [run.id for run in study.todo(["second"])]
    (study.folder(study.runs["first.1"]) / "model").mkdir(parents=True)
    assert "first.1" not in [run.id for run in study.todo(["second"])]
    assert study.wanted() == {"first.0", "first.1"}


def test_a_result_of_other_settings_or_features_is_no_result(study: Study) -> None:
    finish(study, "other.0")
    file = study.results / "other.0.json"
    found = json.loads(file.read_text())
    for change in ({"settings": {"seed": 7}}, {"features": "lite2"}):
        file.write_text(json.dumps(found | change))
        assert [run.id for run in study.todo(["other"])] == ["other.0"]
    file.write_text(json.dumps(found))
    assert study.todo(["other"]) == []


def test_variants_and_changes_are_laid_over_the_base(study: Study) -> None:
    settings = study.runs["second.1"].settings
    assert settings == {"seed": 1, "stages": {"main": {"epochs": 20, "loss": "a", "start": "$needs"}}}


def test_one_failed_run_stops_only_those_that_need_it(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import json, pathlib, sys\n"
        "run = sys.argv[sys.argv.index('--one') + 1]\n"
        "if run == 'first.0': sys.exit(1)\n"
        f"settings = json.loads(pathlib.Path({str(tmp_path / 'settings.json')!r}).read_text())[run]\n"
        "result = json.dumps({'rsum': 1.0, 'settings': settings, 'features': 'lite0'})\n"
        f"pathlib.Path({str(study.results)!r}, run + '.json').write_text(result)\n"
    )
    (tmp_path / "settings.json").write_text(json.dumps({run.id: run.settings for run in study.runs.values()}))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("studies.matrix.features", lambda *_: None)
    monkeypatch.setattr("studies.matrix.read", lambda _: None)
    (study.work / "runs").mkdir(parents=True)
    with pytest.raises(UserError, match=r"first\.0, second\.0"):
        run_all(study, [], tmp_path, 2, "worker", QUIET)
    assert sorted(path.stem for path in study.results.iterdir()) == ["first.1", "other.0", "second.1"]


def test_runs_on_regions_are_left_out_where_there_is_no_detector(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study.runs = {"other.0": replace(study.runs["other.0"], features="objects")}
    asked = []
    monkeypatch.setattr("studies.matrix.features", lambda content, work, name, *_: asked.append(name))
    monkeypatch.setattr("studies.matrix.read", lambda _: None)
    run_all(study, [], tmp_path, 1, "none", QUIET)
    assert asked == []


def test_grids_are_averaged_over_neighbours() -> None:
    grid = np.arange(49, dtype=np.float16).reshape(1, 49, 1)
    square = coarser(grid, 4)[0, :, 0].reshape(4, 4)
    whole = grid.reshape(7, 7).astype(np.float32)
    assert square[0, 0] == whole[:2, :2].mean()  # rows and columns 0-1, 1-3, 3-5, 5-6
    assert square[1, 2] == whole[1:4, 3:6].mean()


def test_features_made_of_others_are_a_store_that_opens_whole(tmp_path: Path) -> None:
    pictures = []
    for i, split in enumerate(["train"] * 6 + ["val"]):
        path = tmp_path / f"{i}.png"
        Image.fromarray(np.random.default_rng(i).integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(path)
        pictures.append(Picture(id=path.name, path=path, split=split, group=path.name))
    pairs = Pairs(pictures, [Caption("a dog", i) for i in range(7)], tmp_path)
    grid = {"kind": "small_cnn", "widths": [4, 8], "pixels": 16, "output": "grid"}
    view = {"kind": "1C", "resize": 16, "pixels": 16}
    specs = {"grid": {"encoder": grid, "view": view}, "mean": {"mean": "grid"}}
    content = {"features": specs | {"cells": {"reduce": "grid", "side": 2, "dim": 3}}}

    def made(name: str) -> FeatureStore:
        torch.manual_seed(0)  # of this encoder's weights
        return features(content, tmp_path / "work", name, pairs, QUIET)

    cells = made("cells")
    assert cells.features.shape == (7, 4, 3)
    assert cells.attach(pairs).pictures[6].row == 6
    np.testing.assert_allclose(cells.features[:6].reshape(24, 3).mean(0), 0, atol=1e-2)
    np.testing.assert_allclose(made("mean").features, made("grid").features.mean(1), atol=1e-3)
    file = cells.folder / "features.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(UserError, match="damaged"):
        made("cells")


#: A run on grids that learns from the lists of one that reads single vectors.
TAUGHT = """
features:
  grid: {encoder: {kind: small_cnn, widths: [4, 8], pixels: 16, output: grid}, view: {kind: 1C, resize: 16, pixels: 16}}
  mean: {mean: grid}
base:
  model:
    dim: 6
    similarity: cosine
    image: {encoder: precomputed, projection: linear, pooling: mean, head: identity}
    text: {encoder: {kind: bag_of_words, word_dim: 6, min_count: 1}, pooling: mean, head: identity}
  stages: {main: {epochs: 1, batch_size: 100, loss: {kind: max_of_hinges, margin: 0.2}}}
variants:
  taught: {stages: {main: {loss: {kind: offline_triplet, margin: 0.2, offline_margin: 0.0}, mine: {teacher: $needs}}}}
runs:
  teacher: {about: x, features: mean, set: {model: {image: {pooling: single}}}}
  same: {about: x, features: mean, needs: teacher, use: [taught], set: {model: {image: {pooling: single}}}}
  other: {about: x, features: grid, needs: teacher, use: [taught]}
"""


def test_a_run_learns_from_the_lists_of_one_that_reads_other_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures, captions = [], []
    for i in range(90):
        path = tmp_path / f"{i}.png"
        Image.fromarray(np.random.default_rng(i).integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(path)
        pictures.append(Picture(id=path.name, path=path, split="train" if i < 80 else "val", group=path.name))
        captions += [Caption(f"word{i} word{(i * 7 + j) % 13}", i) for j in range(5)]
    pairs = Pairs(pictures, captions, tmp_path)
    monkeypatch.setattr("studies.matrix.read", lambda _: pairs)
    (tmp_path / "matrix.yaml").write_text(TAUGHT)
    study = Study(tmp_path / "matrix.yaml", tmp_path / "results", tmp_path / "work")
    for name in ("grid", "mean"):
        torch.manual_seed(0)  # of the encoder's weights
        features(study.content, study.work, name, pairs, QUIET)
    mined = []
    monkeypatch.setattr("studies.matrix.shutil.rmtree", lambda folder, **_: mined.append(folder))
    for run in study.runs.values():
        run_one(study, run, tmp_path, None, QUIET)
    assert sorted(study.found()) == ["other", "same", "teacher"]
    assert mined[-1] == study.work / "lists" / "other.0"
    ours = MiningResult.load(mined[-1])
    theirs = MiningResult.load(study.folder(study.runs["same.0"]) / "mined" / "main")
    assert np.array_equal(ours.captions, theirs.captions)
    assert np.array_equal(ours.images, theirs.images)


def test_an_unknown_run_is_named(study: Study) -> None:
    with pytest.raises(UserError, match="no run 'third'"):
        study.todo(["third"])


def test_every_run_of_the_flickr8k_study_has_sound_settings_and_every_claim_names_runs(tmp_path: Path) -> None:
    study = Study(STUDIES / "flickr8k.yaml", tmp_path, tmp_path)
    for run in study.runs.values():
        assert set(run.needed) <= set(study.runs)
        if run.ensemble:
            continue
        RunSettings.model_validate(json.loads(json.dumps(run.settings).replace('"$needs"', '"runs/x"')))
        assert run.features in study.content["features"]
    for claim in study.content["claims"]:
        named = [claim[key] for key in ("better", "than", "overtakes", "first", "faster", "same", "as") if key in claim]
        assert set(named + claim.get("beyond", [])) <= set(study.content["runs"])


def test_the_plan_at_convergence_names_runs_that_exist_and_every_run_stops_when_it_no_longer_rises(tmp_path):
    folder = Path(__file__).parents[2] / "studies"
    study = Study(folder / "converged.yaml", tmp_path, tmp_path)
    for claim in study.content["claims"]:
        assert {claim["better"], claim["than"]} <= study.content["runs"].keys()
        smaller = claim
        while smaller := smaller.get("smaller"):
            size = smaller["at"].split(",")[0]
            for side in ("better", "than"):
                assert smaller[side] == f"{claim[side]}-{'cells' if size == '1024' else size}" in study.content["runs"]
    for run in study.runs.values():
        if run.ensemble:
            continue
        stage = RunSettings.model_validate(run.settings).stages["main"]
        assert stage.early_stop == 3
        if size := re.search(r"-(\d+)$", run.name):
            assert run.settings["model"]["dim"] == int(size[1])
            continue
        # VSE++, ConVSE and SCAN; dual-path's Stages I and II; VSRN; the second rounds of SCAN and BFAN; VSE+2AD.
        sizes = {(30, 1024), (240, 2048), (60, 2048), (20, 2048), (15, 1024), (25, 1024)}
        assert (stage.epochs, run.settings["model"]["dim"]) in sizes, run.id
