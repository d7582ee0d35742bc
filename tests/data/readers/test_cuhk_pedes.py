from __future__ import annotations

import pytest

from vsekit.data.readers import read
from vsekit.errors import UserError


def person(id, name, *captions, **more):
    return {"id": id, "file_path": name, "captions": list(captions), **more}


def test_pictures_of_one_person_are_one_group(tmp_path, photo, write):
    photo("imgs/CUHK01/1.png")
    write(
        "reid_raw.json",
        [
            person(1, "CUHK01/1.png", "A man.", "A tall man.", split="train", processed_tokens=[["a"]]),
            person(1, "CUHK01/2.png", "A man in red.", split="train"),
            person(2, "Market/3.jpg", "A woman.", split="test", camera=4),
        ],
    )
    pairs = read(tmp_path)
    assert pairs.picture_groups.tolist() == [0, 0, 1]
    assert pairs.caption_groups.tolist() == [0, 0, 0, 1]
    assert pairs.splits == {"train": 2, "test": 1}
    assert pairs.pictures[2].path == tmp_path / "imgs/Market/3.jpg"
    assert [p.meta for p in pairs.pictures] == [{}, {}, {"camera": 4}]


def test_without_splits_a_person_is_never_in_two(photo, write):
    photo("imgs/0-0.png")
    people = [person(i, f"{i}-{j}.png", f"Person {i}.") for i in range(100) for j in range(3)]
    pairs = read(write("caption_all.json", people))
    assert {"train", "val", "test"} == set(pairs.splits)
    assert len({(p.group, p.split) for p in pairs.pictures}) == 100


def test_rstpreid_calls_the_path_img_path(photo, write):
    photo("imgs/1.jpg")
    path = write("data_captions.json", [{"id": 0, "img_path": "1.jpg", "captions": ["A man."], "split": "val"}])
    assert read(path).pictures[0].id == "1.jpg"


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"file_path": "b.png", "captions": ["A man."]}, "[1].id"),
        ({"id": 2, "file_path": "b.png", "captions": "A man."}, "[1].captions"),
        ({"id": 2, "file_path": "b.png", "captions": ["A man.", ""]}, "[1].captions[1]"),
        ({"id": 2, "captions": ["A man."]}, "[1].file_path"),
    ],
)
def test_a_bad_entry_is_named_with_its_field(photo, write, bad, field):
    photo("a.png")
    with pytest.raises(UserError) as error:
        read(write("reid_raw.json", [person(1, "a.png", "A man."), bad]))
    assert error.value.field == field
