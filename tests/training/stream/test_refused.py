"""What a stream can't give is refused by name, before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.data.stream.shards import sample, write_members, write_shards
from tests.training.stream.conftest import STREAMED

import vsekit
from vsekit.data.pairs import Pairs
from vsekit.errors import UserError
from vsekit.features.streaming import open_stream
from vsekit.parts import merged
from vsekit.training.settings import RunSettings
from vsekit.training.stream.refused import streamed_settings


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model": {"image": {"encoder": "precomputed"}}}, "model.image.encoder"),
        ({"querybank": {"size": 10}}, "querybank"),
        ({"data": {"crops": 2}}, "data.crops"),
        ({"data": {"vocabulary": "all"}}, "data.vocabulary"),
        ({"stages": {"first": {"mine": {"captions": 4, "images": 2}}}}, "stages.first.mine"),
        ({"stages": {"first": {"teacher": ["runs/one"]}}}, "stages.first.teacher"),
        ({"stages": {"first": {"loss": {"kind": "instance"}}}}, "stages.first.loss"),
        (
            {
                "stages": {
                    "first": {"loss": {"kind": "weighted_sum", "terms": [{"loss": "info_nce"}, {"loss": "instance"}]}}
                }
            },
            "stages.first.loss",
        ),
    ],
)
def test_what_needs_the_whole_collection_is_refused_with_its_field(change: dict[str, Any], field: str) -> None:
    base = merged(STREAMED, {})
    if "loss" in change.get("stages", {}).get("first", {}):
        base["stages"]["first"].pop("loss")
    if field == "model.image.encoder":
        base["model"]["image"].pop("encoder")
    with pytest.raises(UserError) as error:
        streamed_settings(RunSettings.model_validate(merged(base, change)))
    assert error.value.field == field
    assert "as a whole" in str(error.value)


def test_settings_without_a_stream_section_get_its_defaults() -> None:
    settings = merged(STREAMED, {})
    del settings["data"]["stream"]
    data = streamed_settings(RunSettings.model_validate(settings)).data
    assert data.stream is not None
    assert data.stream.buffer == 2000


def test_a_stream_needs_a_recipe_and_a_collection_to_measure_with(tmp_path: Path) -> None:
    write_shards(tmp_path, [2])
    address = f"{tmp_path}/train-{{0..0}}.tar"
    with pytest.raises(UserError, match="whole collection"):
        vsekit.train(None, address, tmp_path / "run", val=tmp_path)
    with pytest.raises(UserError, match="needs a collection to measure with"):
        open_stream(address, None)
    with pytest.raises(UserError, match="splits of its own"):
        vsekit.train("scenes:vsepp", tmp_path / "train-0.tar", tmp_path / "run", val=tmp_path)
    assert not (tmp_path / "run").exists()


def test_a_collection_of_one_split_measures_whole_and_of_several_by_its_split(tmp_path: Path) -> None:
    write_shards(tmp_path, [2])
    write_shards(tmp_path, [3], name="val")
    address = f"{tmp_path}/train-{{0..0}}.tar"
    pairs = vsekit.read(tmp_path)
    assert {picture.split for picture in open_stream(address, pairs).val.pictures} == {"val"}
    only: Pairs = pairs.split("train")
    assert len(open_stream(address, only).val.pictures) == 2
    assert len(open_stream(address, f"{tmp_path}/val-{{0..0}}.tar", pictures=2).val.pictures) == 2
    write_members(tmp_path / "other-0.tar", sample("1", 0, split="test"))
    with pytest.raises(UserError, match="no sample of the split 'val'"):
        open_stream(address, f"{tmp_path}/other-{{0..0}}.tar")
