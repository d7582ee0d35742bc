"""Where runs meet data: through the command line, too, since each command once did this by itself."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from tests.training.conftest import TINY, write_precomputed
from typer.testing import CliRunner, Result

import vsekit
from vsekit.cli import app, audit, compare, evaluate, report  # noqa: F401  (they register themselves)
from vsekit.cli import mine as _mine  # noqa: F401
from vsekit.data.readers import read
from vsekit.data.views import ViewSettings
from vsekit.diagnostics.audit import audit_run
from vsekit.encoders.image import encoder_settings
from vsekit.errors import UserError
from vsekit.evaluation.config import write_config
from vsekit.evaluation.measure import Question, compare_runs, measure
from vsekit.evaluation.meeting import RunsOnData, meet
from vsekit.features.extraction import extract
from vsekit.mining.mine import mine
from vsekit.models.model import load_model
from vsekit.parts import merged
from vsekit.training.loop import train
from vsekit.training.settings import RunSettings

CNN = {"kind": "small_cnn", "widths": [4, 8], "pixels": 16}
SMALL = ("--top-captions", "9", "--top-images", "4", "--quiet")


def vse(*arguments: str | Path) -> Result:
    """The command, in this process."""
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=True)
    if result.exception is not None:
        raise result.exception
    return result


@pytest.fixture(scope="module")
def banked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run whose model has a querybank, and its data."""
    folder = tmp_path_factory.mktemp("banked")
    data = write_precomputed(folder / "data")
    settings = RunSettings.model_validate(merged(TINY, {"querybank": {"weight": 3.0}}))
    train(settings, read(data), folder / "run")
    return folder / "run", data


@pytest.fixture(scope="module")
def on_features(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run trained on features that vsekit made, and the pictures they were made of."""
    folder = tmp_path_factory.mktemp("features")
    rng = np.random.default_rng(0)
    for split in ("train", "val", "test"):
        (folder / "data" / split).mkdir(parents=True)
        for i in range(8):
            Image.fromarray(rng.integers(0, 256, (25, 30, 3), dtype=np.uint8)).save(
                folder / "data" / split / f"{i}.png"
            )
            (folder / "data" / split / f"{i}.txt").write_text(f"a {'red' if i % 2 else 'blue'} dog {i}\n")
    pairs = read(folder / "data")
    torch.manual_seed(0)
    view = ViewSettings(kind="1C", resize=20, pixels=16)
    settings = encoder_settings(CNN)
    store = extract(settings.build(), settings.model_dump(mode="json"), pairs.pictures, view, folder / "store")
    train(RunSettings.model_validate(TINY), store.attach(pairs), folder / "run")
    return folder / "run", folder / "data"


def test_a_run_with_a_querybank_is_mined_without_it(banked: tuple[Path, Path], tmp_path: Path) -> None:
    run, data = banked
    vse("mine", run, "--data", data, "--out", tmp_path / "mined", *SMALL)
    model, pairs = load_model(run), read(data).split("train")
    assert model.querybank is not None
    met = meet(model, pairs)
    groups = pairs.picture_groups, pairs.caption_groups
    sizes = {"top_captions": 9, "top_images": 4}
    expected = mine(met.images, met.captions, *groups, tmp_path / "plain", score=model.similarity, **sizes)
    for name in ("captions", "images", "caption_scores"):
        assert np.array_equal(np.load(tmp_path / "mined" / f"{name}.npy"), getattr(expected, name)), name


def test_a_teachers_querybank_plays_no_part_in_training(banked: tuple[Path, Path], tmp_path: Path) -> None:
    run, data = banked
    stage = {"start": "scratch", "epochs": 1, "loss": "offline_triplet"}
    mining = {"teacher": str(run), "captions": 9, "images": 4}
    settings = merged(TINY, {"stages": {"first": stage | {"mine": mining}, "second": None}})
    train(RunSettings.model_validate(settings), read(data), tmp_path / "run")
    vse("mine", run, "--data", data, "--out", tmp_path / "mined", *SMALL)
    for name in ("captions", "images"):
        found = np.load(tmp_path / "run" / "mined" / "first" / f"{name}.npy")
        assert np.array_equal(found, np.load(tmp_path / "mined" / f"{name}.npy"))


def test_scores_have_the_bank_unless_they_are_plain(banked: tuple[Path, Path]) -> None:
    run, data = banked
    pairs, everything = read(data).split("test"), slice(None)
    source = RunsOnData([run], pairs)
    met, plain = source.meet(), source.meet(plain=True)
    torch.testing.assert_close(plain.scores.block(everything, everything), met.images @ met.captions.T)
    assert (met.scores.block(everything, everything) - met.images @ met.captions.T).abs().max() > 0.1
    ensemble = RunsOnData([run, run], pairs).meet()
    torch.testing.assert_close(
        ensemble.scores.block(everything, everything), met.scores.block(everything, everything).clone()
    )
    assert ensemble.vectors is None


def test_a_run_trained_on_features_is_measured_reported_and_audited_on_pictures(
    on_features: tuple[Path, Path], tmp_path: Path
) -> None:
    run, data = on_features
    measured = json.loads(vse("evaluate", run, "--data", data, "--quiet", "--json").stdout)
    page = tmp_path / "report.html"
    reported = json.loads(vse("report", run, "--data", data, "--out", page, "--quiet", "--json").stdout)
    assert reported["metrics"]["rsum"] == pytest.approx(measured["rsum"])
    vse("audit", run, "--data", data, "--out", tmp_path / "audit.html", "--quiet")
    vse("mine", run, "--data", data, "--out", tmp_path / "mined", "--top-captions", "3", "--top-images", "3", "--quiet")
    assert page.is_file()
    assert (tmp_path / "audit.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--protocol", "2k"], "no protocol '2k'"),
        (["--protocol", "1k"], "18 images are too few"),
        (["--protocol", "person"], "person of its own"),
        (["--ties", "lucky"], "no tie rule"),
        (["--positives", "mine"], "no judgements 'mine'"),
        (["--positives", "ecv"], "did you mean 'eccv'?"),
        (["--positives", "cxc"], "COCO's ids"),
        (["--rerank-with", "nowhere"], "no such folder: nowhere"),
        (["--rerank-with", "x", "--protocol", "1k"], "doesn't go with"),
        (["--rerank-with", "x", "--trec", "y"], "has two"),
        (["--trec", "y", "--protocol", "1k"], "ranks less"),
        (["--at", "1,x"], "can't read --at"),
        (["--split", "holiday"], "no split 'holiday'"),
    ],
)
def test_what_can_be_refused_is_refused_before_anything_is_encoded(
    banked: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.setattr("vsekit.evaluation.meeting.embed_images", lambda *_, **__: pytest.fail("encoded"))
    run, data = banked
    with pytest.raises(UserError, match=re.escape(message)):
        vse("evaluate", run, "--data", data, "--quiet", *arguments)


def test_compare_refuses_before_it_encodes(banked: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vsekit.evaluation.meeting.embed_images", lambda *_, **__: pytest.fail("encoded"))
    run, data = banked
    with pytest.raises(UserError, match="too few"):
        vse("compare", run, run, "--data", data, "--protocol", "1k")
    with pytest.raises(UserError, match="no such folder"):
        vse("compare", run, "nowhere", "--data", data)


def test_a_question_that_contradicts_itself_is_refused_in_python_too(banked: tuple[Path, Path]) -> None:
    run, data = banked
    with pytest.raises(UserError, match="too few"):
        measure(RunsOnData([run], read(data).split("test")), Question(protocol="5k"))


@pytest.fixture(scope="module")
def keeping_one(banked: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run with settings that keep one caption a picture, and data that have two."""
    run, data = banked
    kept = tmp_path_factory.mktemp("one") / "run"
    shutil.copytree(run, kept)
    settings = yaml.safe_load((kept / "config.yaml").read_text())
    settings["data"]["captions_per_picture"] = 1
    (kept / "config.yaml").write_text(yaml.safe_dump(settings))
    return kept, data


@pytest.mark.parametrize("damage", [b"\xf8", b"\0"])
def test_settings_that_were_damaged_are_named_before_anything_is_measured(
    damage: bytes, keeping_one: tuple[Path, Path], tmp_path: Path
) -> None:
    run, data = keeping_one
    shutil.copytree(run, tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    config.write_bytes(config.read_bytes()[:40] + damage + config.read_bytes()[41:])
    with pytest.raises(UserError, match=re.escape(str(config))):
        vsekit.evaluate(tmp_path / "run", data)
    write_config(config, {"data": {"captions_per_picture": 2}})
    config.write_text(config.read_text().replace("captions_per_picture: 2", "captions_per_picture: 1"))
    with pytest.raises(UserError, match="not what was written"):
        vsekit.evaluate(tmp_path / "run", data)


def test_a_run_that_keeps_one_caption_a_picture_is_measured_on_one_by_every_command(
    keeping_one: tuple[Path, Path], tmp_path: Path
) -> None:
    run, data = keeping_one
    pairs = read(data).split("test")
    first = [caption.text for caption in pairs.captions[::2]]
    expected = measure(RunsOnData([run / "model"], replace(pairs, captions=pairs.captions[::2])), Question()).rsum
    assert expected != measure(RunsOnData([run / "model"], pairs), Question()).rsum
    output = ("--data", data, "--quiet", "--json")
    assert json.loads(vse("evaluate", run, *output).stdout)["rsum"] == expected
    assert vsekit.evaluate(run, data).rsum == expected
    reported = json.loads(vse("report", run, *output, "--out", tmp_path / "report.html").stdout)
    assert reported["metrics"]["rsum"] == expected
    assert [caption.text for caption in audit_run(run, pairs).pairs.captions] == first
    vse("mine", run, "--data", data, "--out", tmp_path / "mined", *SMALL)
    assert len(np.load(tmp_path / "mined" / "images.npy")) == len(read(data).split("train").pictures)


def test_runs_side_by_side_rank_the_fewest_captions_that_one_of_them_keeps(
    banked: tuple[Path, Path], keeping_one: tuple[Path, Path]
) -> None:
    runs, pairs = [banked[0], keeping_one[0]], read(banked[1]).split("test")
    kept = replace(pairs, captions=pairs.captions[::2])
    assert RunsOnData.of(runs, pairs).pairs.captions == kept.captions
    for all_of_them in (runs[0], runs[1] / "model"):
        assert RunsOnData.of([all_of_them], pairs).pairs.captions == pairs.captions
    expected = measure(RunsOnData([runs[0]], kept), Question()).rsum
    assert [found.rsum for found in compare_runs(runs, pairs).metrics] == [expected, expected]


def test_an_ensemble_is_named_after_its_runs(banked: tuple[Path, Path]) -> None:
    assert RunsOnData(["runs/one", Path("runs/two")], read(banked[1])).name == "one+two"
