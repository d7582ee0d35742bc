from __future__ import annotations

import os
from pathlib import Path

import pytest

from vsekit.data.readers import read
from vsekit.errors import UserError


def entry(name="a.jpg", split="train", captions=("A dog.",), **more):
    return {"filename": name, "split": split, "sentences": [{"raw": c} for c in captions], **more}


@pytest.fixture
def dataset(write):
    return lambda *images, name="dataset_flickr8k.json": write(name, {"dataset": "x", "images": list(images)})


def test_reads_pictures_captions_and_splits_from_a_folder(tmp_path, photo, dataset):
    photo("images/a.jpg")
    dataset(entry("a.jpg", captions=["A dog.", " Two dogs . "]), entry("b.jpg", "test", ["A cat."]))
    pairs = read(tmp_path)
    assert [(p.id, p.split, p.group, p.path) for p in pairs.pictures] == [
        ("a.jpg", "train", "a.jpg", tmp_path / "images/a.jpg"),
        ("b.jpg", "test", "b.jpg", tmp_path / "images/b.jpg"),
    ]
    assert [(c.text, c.picture) for c in pairs.captions] == [("A dog.", 0), ("Two dogs .", 0), ("A cat.", 1)]


def test_unknown_keys_become_meta(photo, dataset):
    photo("a.jpg")
    sentence = {"raw": "A dog.", "tokens": ["a", "dog"], "imgid": 0, "sentid": 7, "facts": {"dogs": 1}}
    pairs = read(
        dataset({"filename": "a.jpg", "split": "train", "cocoid": 9, "scene": {"x": 1}, "sentences": [sentence]})
    )
    assert pairs.pictures[0].meta == {"cocoid": 9, "scene": {"x": 1}}
    assert pairs.captions[0].meta == {"sentid": 7, "facts": {"dogs": 1}}


def test_tokens_stand_in_for_a_missing_raw_text(photo, dataset):
    photo("a.jpg")
    pairs = read(dataset({"filename": "a.jpg", "split": "val", "sentences": [{"tokens": ["two", "dogs"]}]}))
    assert pairs.captions[0].text == "two dogs"


def test_restval_is_train_only_on_request(photo, dataset):
    photo("a.jpg")
    path = dataset(entry("a.jpg", "train"), entry("b.jpg", "restval"), entry("c.jpg", "val"))
    assert read(path).splits == {"train": 1, "restval": 1, "val": 1}
    assert read(path, restval=True).splits == {"train": 2, "val": 1}


def test_equal_names_in_two_folders_are_two_pictures(tmp_path, photo, dataset):
    photo("train2014/1.jpg"), photo("val2014/1.jpg"), photo("val2014/2.jpg")
    pairs = read(
        dataset(
            *(
                entry(name, filepath=folder)
                for folder, name in [("train2014", "1.jpg"), ("val2014", "1.jpg"), ("val2014", "2.jpg")]
            )
        )
    )
    assert [p.id for p in pairs.pictures] == ["train2014/1.jpg", "val2014/1.jpg", "2.jpg"]
    assert [p.path for p in pairs.pictures] == [
        tmp_path / f for f in ("train2014/1.jpg", "val2014/1.jpg", "val2014/2.jpg")
    ]


def test_a_picture_listed_twice_is_an_error(photo, dataset):
    photo("a.jpg")
    with pytest.raises(UserError, match=r"images\[1\]\.filename.*'a\.jpg' is there twice"):
        read(dataset(entry("a.jpg"), entry("a.jpg")))


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"filename": "b.jpg", "split": "train"}, "images[1].sentences"),
        ({"filename": "b.jpg", "sentences": []}, "images[1].split"),
        ({"split": "train", "sentences": []}, "images[1].filename"),
        ("b.jpg", "images[1]"),
        (entry("b.jpg", captions=["A cat.", " "]), "images[1].sentences[1].raw"),
        (entry("b.jpg", captions=[3]), "images[1].sentences[0].raw"),
        (entry("b.jpg", captions=["b'a cat'"]), "images[1].sentences[0].raw"),
        (entry("b.jpg", captions=[]), "images[1].filename"),
    ],
)
def test_a_bad_entry_is_named_with_its_field(photo, dataset, bad, field):
    photo("a.jpg")
    path = dataset(entry("a.jpg"), bad)
    with pytest.raises(UserError) as error:
        read(path)
    assert (error.value.file, error.value.field) == (path, field)
    assert error.value.remedy


def test_a_cut_off_file_is_named_with_its_line(write):
    path = write("dataset.json", '{"images": [\n{"filename": "a.jpg", "sentences": [],\n')
    with pytest.raises(UserError, match="not valid JSON") as error:
        read(path)
    assert (error.value.file, error.value.line) == (path, 3)


def test_missing_pictures_say_where_they_were_looked_for(tmp_path, dataset, photo):
    path = dataset(entry("a.jpg"))
    (tmp_path / "images").mkdir()
    with pytest.raises(UserError, match=r"'a\.jpg' is not there") as error:
        read(path)
    assert str(tmp_path / "images") in error.value.remedy
    elsewhere = photo("elsewhere/deep/a.jpg")
    assert read(path, images=elsewhere.parent).pictures[0].path == elsewhere


def test_only_the_first_picture_is_looked_for_on_disk(photo, dataset, monkeypatch):
    photo("a.jpg")
    path = dataset(entry("a.jpg"), *(entry(f"{i}.jpg") for i in range(200)))
    looks = []
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **more: looks.append(Path(path)) or stat(path, **more))
    read(path)
    assert [p.name for p in looks if p.suffix == ".jpg"] == ["a.jpg"]


def test_flickr8k_has_the_counts_its_readme_states(flickr8k):
    pairs = read(flickr8k)
    assert pairs.splits == {"train": 6000, "val": 1000}
    assert len(pairs.split("train").captions) == 30000
    assert len(pairs.split("val").captions) == 5000
    assert all(p.path.is_file() for p in (pairs.pictures[0], pairs.pictures[-1]))
    assert pairs.captions[0].text == "A black dog is running after a white dog in the snow ."
