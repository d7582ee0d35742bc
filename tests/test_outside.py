"""Parts of other packages: the docs' example, installed with pip, trains; code that only a model folder names is not run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image
from tests.training.conftest import TINY, write_precomputed

import vsekit
from vsekit import outside
from vsekit.data.readers import read
from vsekit.errors import UserError
from vsekit.models.model import load_model
from vsekit.outside import from_outside, trusting
from vsekit.parts import merged
from vsekit.recipes import load_settings
from vsekit.training.loop import train
from vsekit.training.run import read_metrics
from vsekit.training.settings import RunSettings

DOCS = Path(__file__).parents[1] / "docs" / "growing.md"
ONE = {"second": None, "first": {"epochs": 1}}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The docs' package, built and installed."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    for name, text in re.findall(r"^```\w+\n# (\S+)\n(.*?)^```", DOCS.read_text(encoding="utf-8"), re.M | re.S):
        if name != "my.yaml:":
            (source / name).parent.mkdir(exist_ok=True)
            (source / name).write_text(text, encoding="utf-8")
    (source / "soft_hinges" / "__init__.py").touch()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]
    subprocess.run([*pip, str(target), str(source)], check=True)
    return target


def vse(installed: Path | None, *arguments: Any) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([*([str(installed)] if installed else []), *sys.path])
    command = [sys.executable, "-m", "vsekit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path})


def test_the_docs_loss_trains_by_module_and_by_entry_point_with_the_same_numbers(
    installed: Path, tmp_path: Path
) -> None:
    data, recipe = write_precomputed(tmp_path / "data"), tmp_path / "tiny.yaml"
    recipe.write_text(yaml.safe_dump(merged(TINY, {"stages": ONE}), sort_keys=False))
    runs = {"module": "soft_hinges.losses:SoftHinges", "name": "soft_hinges"}
    for run, kind in runs.items():
        options = ["--data", data, "--out", tmp_path / run, "--no-report", "--quiet"]
        done = vse(installed, "train", recipe, *options, "--set", f"stages.first.loss={{kind: '{kind}', margin: 0.3}}")
        assert done.returncode == 0, done.stderr
        kept = yaml.safe_load((tmp_path / run / "config.yaml").read_text())["stages"]["first"]["loss"]
        assert kept == {"kind": kind, "margin": 0.3, "temperature": 0.1}
    assert read_metrics(tmp_path / "module") == read_metrics(tmp_path / "name")
    again = ["train", tmp_path / "name" / "config.yaml", "--data", data, "--no-report", "--quiet"]
    assert vse(installed, *again, "--out", tmp_path / "again").returncode == 0
    assert read_metrics(tmp_path / "again") == read_metrics(tmp_path / "name")
    without = vse(None, *again, "--out", tmp_path / "without")
    assert without.returncode == 2
    assert "stages.first.loss: no loss 'soft_hinges'" in without.stderr
    assert "vsekit.losses" in without.stderr


MODULE = """
from typing import ClassVar
from vsekit.data.readers.table import READER
from vsekit.heads.base import HeadPart
from vsekit.heads.linear import LinearSettings
from vsekit.pooling.base import PoolingPart
from vsekit.pooling.mean import MeanPoolSettings
from vsekit.similarity.base import SimilarityPart
from vsekit.similarity.cosine import CosineSettings
from vsekit.encoders.image.precomputed import Precomputed
from vsekit.encoders.base import ImageEncoderPart
from vsekit.encoders.text.gru import GRU
from vsekit.encoders.text.words import VocabularySettings
from vsekit.training.optimisers.base import OptimiserPart
import torch

class Middle(PoolingPart):
    def build(self, dim):
        return MeanPoolSettings().build(dim)

class Straight(HeadPart):
    def build(self, dim_in, dim_out):
        return LinearSettings().build(dim_in, dim_out)

class Near(SimilarityPart):
    def build(self):
        return CosineSettings().build()

class Given(ImageEncoderPart):
    reads_features: ClassVar[bool] = True
    def build(self, dim=None):
        return Precomputed(dim)

class Words(VocabularySettings):
    dim: int = 24
    def build(self, tokenizer, initialise=True):
        from vsekit.encoders.text.gru import GRUSettings
        return GRUSettings(dim=self.dim, word_dim=8, min_count=1).build(tokenizer, initialise)

class Plain(OptimiserPart):
    lr: float = 0.1
    def build(self, groups):
        return torch.optim.SGD(groups, lr=self.lr)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A module of one's own with a part of every kind, under a name no other test has."""
    name = re.sub(r"\W", "_", f"mine_{request.node.name}")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    return name


def settings_with(mine: str) -> dict[str, Any]:
    model = {
        "image": {"encoder": f"{mine}:Given", "pooling": f"{mine}:Middle", "head": f"{mine}:Straight"},
        "text": {"encoder": {"kind": f"{mine}:Words", "min_count": 1}, "pooling": f"{mine}:Middle"},
        "similarity": f"{mine}:Near",
    }
    return merged(TINY, {"model": model, "stages": {**ONE, "first": {"epochs": 1, "optimiser": f"{mine}:Plain"}}})


def trained(mine: str, tmp_path: Path) -> Path:
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(settings_with(mine)))
    train(load_settings(str(tmp_path / "own.yaml")), read(write_precomputed(tmp_path / "data")), tmp_path / "run")
    return tmp_path / "run"


def test_a_model_of_parts_from_outside_is_not_loaded_from_a_folder_unless_trusted(
    mine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(mine, tmp_path)
    assert load_model(run).settings.image.pooling.kind == f"{mine}:Middle"  # named by the person, in this process
    monkeypatch.setattr(outside, "_named", set())
    monkeypatch.delitem(sys.modules, mine)
    with pytest.raises(UserError, match=rf"image\.encoder: '{mine}:Given' is code from outside.*--trust"):
        load_model(run)
    assert mine not in sys.modules
    vectors = vsekit.load(run, trust=True).encode_texts(["a red dog"])
    assert vectors.shape == (1, 24)
    monkeypatch.setattr(outside, "_named", set())
    monkeypatch.delitem(sys.modules, mine)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "code" not in Path(path).name])
    with pytest.raises(UserError, match=rf"image\.encoder: can't import {mine}.*Install the package"):
        load_model(run, trust=True)


def test_evaluate_asks_for_trust_and_goes_on_with_it(mine: str, tmp_path: Path) -> None:
    run, data = trained(mine, tmp_path), tmp_path / "data"
    code = tmp_path / "code"
    refused = vse(code, "evaluate", run, "--data", data, "--split", "test", "--json")
    assert refused.returncode == 2
    assert "--trust" in refused.stderr
    accepted = vse(code, "evaluate", run, "--data", data, "--split", "test", "--json", "--trust")
    assert accepted.returncode == 0, accepted.stderr
    assert json.loads(accepted.stdout)


def test_settings_that_no_person_wrote_import_nothing(mine: str) -> None:
    with pytest.raises(ValueError, match="code from outside"):
        RunSettings.model_validate(settings_with(mine))
    assert mine not in sys.modules
    with trusting():
        RunSettings.model_validate(settings_with(mine))


def test_a_part_made_in_python_needs_no_name(mine: str) -> None:
    with trusting():
        pooling = from_outside(f"{mine}:Middle", "poolings")()
    image = {**TINY["model"]["image"], "pooling": pooling}
    settings = RunSettings.model_validate(merged(TINY, {"model": {"image": image}}))
    assert settings.model_dump(mode="json")["model"]["image"]["pooling"] == {"kind": f"{mine}:Middle"}


@pytest.mark.parametrize(
    ("pooling", "said"),
    [
        ("{mine}:Midle", "did you mean 'Middle'"),
        ("{mine}:Straight", "is no pooling. It should be a subclass of vsekit.pooling.base.PoolingPart"),
        ("{mine}:READER", "is no pooling"),
        ("no_such_module:Middle", "can't import no_such_module"),
        ("{mine}:", "can't read"),
        ("meen", "did you mean 'mean'"),
    ],
)
def test_a_wrong_name_is_told_with_the_key_and_what_would_be_right(
    mine: str, tmp_path: Path, pooling: str, said: str
) -> None:
    wrong = merged(settings_with(mine), {"model": {"image": {"pooling": pooling.format(mine=mine)}}})
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(wrong))
    with pytest.raises(UserError) as error:
        load_settings(str(tmp_path / "own.yaml"))
    assert "model.image.pooling: " in str(error.value)
    assert said in str(error.value)


def test_a_stage_may_change_the_model_to_a_part_from_outside(mine: str, tmp_path: Path) -> None:
    change = {"stages": {"second": {"model": {"text": {"pooling": f"{mine}:Middle"}}, "freeze": [], "epochs": 1}}}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(merged(TINY, change)))
    train(load_settings(str(tmp_path / "own.yaml")), read(write_precomputed(tmp_path / "data")), tmp_path / "run")


def test_a_reader_is_named_with_format(mine: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("image,caption\nx.jpg,a dog\n")
    Image.new("RGB", (8, 8)).save(tmp_path / "x.jpg")
    assert len(read(tmp_path / "a.csv", format=f"{mine}:READER").captions) == 1
    with pytest.raises(UserError, match="is no reader"):
        read(tmp_path / "a.csv", format=f"{mine}:Middle")
    with pytest.raises(UserError, match="did you mean 'table'"):
        read(tmp_path / "a.csv", format="tabel")
