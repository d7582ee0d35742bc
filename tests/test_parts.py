"""Mistakes in settings are told with the nearest right name, and several at once."""

from __future__ import annotations

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError
from tests.training.conftest import TINY

from vsekit.encoders.image import ImageEncoderSettings, PictureEncoderSettings
from vsekit.encoders.image.precomputed import PrecomputedSettings
from vsekit.encoders.text import TextEncoderSettings
from vsekit.errors import UserError
from vsekit.heads import HeadSettings
from vsekit.losses import LossSettings
from vsekit.parts import kinds, merged
from vsekit.pooling import PoolingSettings
from vsekit.recipes import find, load_settings
from vsekit.similarity import SimilaritySettings
from vsekit.training.optimisers import OptimiserSettings
from vsekit.training.settings import RunSettings

FOLDERS = [
    HeadSettings,
    ImageEncoderSettings,
    LossSettings,
    OptimiserSettings,
    PoolingSettings,
    SimilaritySettings,
    TextEncoderSettings,
]

#: What parts that have no defaults must be told.
NEEDED = {
    "detector_regions": {"kind": "detector_regions", "detector": "some/detector"},
    "several": {"kind": "several", "members": ["small_cnn"]},
    "switch": {"kind": "switch", "first": "mvn", "then": "info_nce"},
    "timm_vision": {"kind": "timm_vision", "model": "resnet18"},
    "transformers_vision": {"kind": "transformers_vision", "model": "some/model"},
    "weighted_sum": {"kind": "weighted_sum", "terms": [{"loss": "mvn"}]},
}


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("stages.fixed.optimizer.lr=1", "stages.fixed.optimizer: no such setting; did you mean 'optimiser'?"),
        ("stages.fixed.loss=max_of_hinge", "stages.fixed.loss: no loss 'max_of_hinge'; did you mean 'max_of_hinges'?"),
        ("stages.fixed.loss.margn=1", "stages.fixed.loss.margn: no such setting; did you mean 'margin'?"),
        ("stages.fixed.captions=one_per_pic", "did you mean 'one_per_picture'?"),
        ("model.text.encoder=grus", "no text encoder 'grus'; did you mean 'gru'?"),
        ("stages.fixd.epochs=3", "--set stages.fixd.epochs=3: there was no 'fixd'; did you mean 'fixed'?"),
        ("modl.dim=3", "modl: no such setting; did you mean 'model'?"),
    ],
)
def test_a_wrong_set_is_told_with_the_nearest_right_one(assignment: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        load_settings("vsepp:1.7", [assignment])
    assert said in str(error.value)


def test_every_mistake_of_a_file_is_told_at_once() -> None:
    with pytest.raises(UserError) as error:
        load_settings("vsepp:1.7", ["seeed=1", "stages.fixed.epoch=1", "model.dim=none"])
    assert str(error.value).count("did you mean") >= 2
    assert "model.dim" in str(error.value)
    assert "3 wrong settings" in str(error.value)


def test_recipes_and_rows_are_told_with_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'vsepp'"):
        find("vsep:1.7")
    with pytest.raises(UserError, match=r"did you mean 'curriculum'"):
        find("vsepp:curiculum")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.__args__[0].__name__)
def test_every_part_is_found_by_its_own_name_and_says_how_it_is_called(folder: object) -> None:
    adapter = TypeAdapter(folder)
    for kind in kinds(folder):
        settings = adapter.validate_python(NEEDED.get(kind, kind))
        assert settings.kind == kind
        assert adapter.validate_python(adapter.dump_python(settings, mode="json")) == settings


def test_an_encoder_that_reads_features_is_no_member_of_others() -> None:
    adapter = TypeAdapter(PictureEncoderSettings)
    for wrong in ("precomputed", PrecomputedSettings()):
        with pytest.raises(ValidationError, match="precomputed"):
            adapter.validate_python(wrong)


def test_null_in_place_of_a_stage_that_is_not_there_is_no_stage() -> None:
    settings = RunSettings.model_validate(merged(TINY, {"stages": {"third": None, "second": None}}))
    assert list(settings.stages) == ["first"]
    assert merged({"clip": 2.0}, {"clip": None, "mine": None}) == {"clip": None, "mine": None}


def test_a_stages_wrong_change_of_the_model_is_refused_before_anything_is_trained() -> None:
    change = {"stages": {"second": {"model": {"image": {"heat": "mlp"}}}}}
    with pytest.raises(
        ValidationError, match=r"stages\.second\.model\.image\.heat: no such setting; did you mean 'head'"
    ):
        RunSettings.model_validate(merged(TINY, change))


def test_settings_survive_yaml() -> None:
    settings = load_settings("scenes:convsepp")
    again = yaml.safe_load(yaml.safe_dump(settings.model_dump(mode="json")))
    assert RunSettings.model_validate(again) == settings
