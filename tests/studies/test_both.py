"""Flickr8k and COCO as one collection, and the page that shows what came of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from studies import both, coco, starter
from vsekit import recipes
from vsekit.data.pairs import Caption, Pairs, Picture


def tiny(folder: Path, colours: list[int], splits: list[str]) -> Pairs:
    folder.mkdir()
    pictures = []
    for i, (colour, split) in enumerate(zip(colours, splits)):
        Image.new("RGB", (8, 8), (colour, 0, 0)).save(folder / f"{i}.png")
        pictures.append(Picture(f"{i}.png", folder / f"{i}.png", split, f"{i}.png"))
    return Pairs(pictures, [Caption(f"{folder.name} {i}", i) for i in range(len(pictures))], folder)


@pytest.fixture
def parts(tmp_path: Path) -> dict[str, Pairs]:
    return {
        "one": tiny(tmp_path / "one", [10, 20, 30], ["train", "train", "val"]),
        "two": tiny(tmp_path / "two", [30, 50], ["train", "val"]),
    }


def test_pictures_of_one_name_stay_apart_and_captions_with_their_own(parts):
    pairs = both.joined(parts)
    assert [p.id for p in pairs.pictures] == ["one/0.png", "one/1.png", "one/2.png", "two/0.png", "two/1.png"]
    assert len(set(pairs.picture_groups)) == 5
    for caption in pairs.captions:
        collection, number = caption.text.split()
        assert pairs.pictures[caption.picture].id == f"{collection}/{number}.png"
    assert [c.text for c in both.of(pairs, "two", "val").captions] == ["two 1"]


def test_a_training_picture_that_is_a_validation_picture_of_the_other_collection_is_left_out(parts):
    from dataclasses import replace

    pairs = both.joined(parts)
    vectors = np.random.default_rng(0).normal(size=(5, 16)).astype(np.float32)
    rows = [replace(picture, row=i) for i, picture in enumerate(pairs.pictures)]
    found = both.find_duplicates(replace(pairs, pictures=rows, features=vectors))
    assert found["pairs"] == {"one val = two train": 1}
    assert found["left_out"] == ["two/0.png"]
    assert found["between_splits"][0]["exact"]


def test_only_a_distilling_run_has_teachers():
    study = starter.runs()
    teachers = [Path("a/minilm"), Path("a/bow")]
    for name, run in study.items():
        stage = starter.settings_of(run, teachers).stages["heads"]
        assert (stage.teacher == tuple(teachers)) == (name in ("student", "clean"))


def test_the_starter_indexes_at_the_cost_of_flickr8ks():
    student = starter.settings_of(starter.runs()["student"], [Path("a/minilm")]).model
    before = recipes.load_settings("flickr8k:starter").model
    assert student.image == before.image
    assert student.dim == before.dim


def test_the_page_shows_the_results_as_they_are():
    assert coco.PAGE.read_text(encoding="utf-8") == coco.page()
