from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vsekit.data.decoding import PictureError
from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.errors import UserError


@pytest.fixture
def persons() -> Pairs:
    """Ann on pictures 0 and 2, Bob on 1, Cleo on 3."""
    pictures = [
        Picture("0", None, "train", "ann", row=7),
        Picture("1", None, "test", "bob"),
        Picture("2", None, "train", "ann"),
        Picture("3", None, "val", "cleo"),
    ]
    captions = [Caption("a", 0), Caption("b", 1, {"n": 1}), Caption("a too", 2), Caption("c", 3), Caption("b again", 1)]
    return Pairs(pictures, captions, Path("here"), np.zeros((8, 2)))


def test_groups_are_numbered_by_first_appearance(persons):
    assert persons.picture_groups.tolist() == [0, 1, 0, 2]
    assert persons.caption_groups.tolist() == [0, 1, 0, 2, 1]


def test_a_split_keeps_order_captions_and_features(persons):
    part = persons.split("test", "val")
    assert [p.id for p in part.pictures] == ["1", "3"]
    assert part.captions == [Caption("b", 0, {"n": 1}), Caption("c", 1), Caption("b again", 0)]
    assert part.features is persons.features
    assert persons.splits == {"train": 2, "test": 1, "val": 1}


def test_taking_follows_the_order_asked_for(persons):
    part = persons.take([3, 0])
    assert [p.id for p in part.pictures] == ["3", "0"]
    assert [(c.text, c.picture) for c in part.captions] == [("a", 1), ("c", 0)]


def test_an_unknown_split_lists_those_there_are(persons):
    with pytest.raises(UserError, match=r"no split 'dev'.*\n.*train \(2 pictures\), test \(1 pictures\)"):
        persons.split("train", "dev")


def test_an_empty_collection_has_empty_arrays():
    empty = Pairs([], [], Path("here"))
    assert empty.caption_groups.shape == empty.picture_groups.shape == (0,)
    assert empty.splits == {}


def test_a_picture_without_a_file_says_so(persons):
    with pytest.raises(UserError, match="features only"):
        persons.pictures[0].read()


def test_a_picture_is_read_from_the_middle_of_a_file(tmp_path):
    (tmp_path / "archive").write_bytes(b"beforePICTUREafter")
    assert Picture("x", tmp_path / "archive", "train", "x", offset=6, size=7).read() == b"PICTURE"


def test_a_picture_opens_upright_and_in_rgb(tmp_path):
    image = Image.new("L", (40, 20))
    image.getexif()[0x0112] = 6  # turned by 90 degrees
    image.save(tmp_path / "a.jpg", exif=image.getexif())
    opened = Picture("a", tmp_path / "a.jpg", "train", "a").open()
    assert (opened.size, opened.mode) == ((20, 40), "RGB")


def test_a_truncated_picture_raises(tmp_path):
    Image.effect_noise((64, 64), 50).save(tmp_path / "a.jpg")
    (tmp_path / "a.jpg").write_bytes((tmp_path / "a.jpg").read_bytes()[:-500])
    with pytest.raises(PictureError, match="truncated"):
        Picture("a", tmp_path / "a.jpg", "train", "a").open()


def test_the_first_captions_of_each_picture_are_kept_in_their_order() -> None:
    pictures = [Picture(name, None, "train", name) for name in "abc"]
    said = [("one", 0), ("two", 1), ("three", 0), ("four", 0), ("five", 2)]
    pairs = Pairs(pictures, [Caption(text, picture) for text, picture in said], Path("nowhere"))
    kept = pairs.first_captions(2)
    assert [(c.text, c.picture) for c in kept.captions] == [("one", 0), ("two", 1), ("three", 0), ("five", 2)]
    assert kept.pictures == pictures
    assert pairs.first_captions(3).captions == pairs.captions
