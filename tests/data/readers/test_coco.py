from __future__ import annotations

import pytest

from vsekit.data.readers import read
from vsekit.errors import UserError


def captions(*pairs):
    """(file name, caption), … as COCO has them; ids count from 10."""
    return {
        "info": {},
        "images": [{"id": 10 + i, "file_name": name, "height": 30} for i, (name, _) in enumerate(pairs)],
        "annotations": [{"image_id": 10 + i, "id": 70 + i, "caption": text} for i, (_, text) in enumerate(pairs)],
    }


def test_reads_all_splits_of_an_annotations_folder(tmp_path, photo, write):
    photo("train2014/a.jpg"), photo("val2014/b.jpg")
    write("annotations/captions_train2014.json", captions(("a.jpg", "A dog."), ("c.jpg", "A cow.\n")))
    write("annotations/captions_val2014.json", captions(("b.jpg", "A cat.")))
    write(
        "annotations/instances_val2014.json",
        {"images": [{"id": 1, "file_name": "b.jpg"}], "annotations": [{"image_id": 1}]},
    )
    pairs = read(tmp_path)
    assert [(p.split, p.path) for p in pairs.pictures] == [
        ("train", tmp_path / "train2014/a.jpg"),
        ("train", tmp_path / "train2014/c.jpg"),
        ("val", tmp_path / "val2014/b.jpg"),
    ]
    # Ids begin anew in each file here: captions must stay with the pictures of their own file.
    assert [(c.text, c.picture) for c in pairs.captions] == [("A dog.", 0), ("A cow.", 1), ("A cat.", 2)]
    assert pairs.pictures[1].meta == {"height": 30, "cocoid": 11}
    assert pairs.captions[1].meta == {"sentid": 71}


def test_one_file_is_one_split(photo, write):
    photo("val2017/b.jpg")
    assert read(write("captions_val2017.json", captions(("b.jpg", "A cat.")))).splits == {"val": 1}


def test_a_caption_of_no_picture_is_an_error(photo, write):
    photo("a.jpg")
    content = captions(("a.jpg", "A dog."))
    content["annotations"].append({"image_id": 99, "id": 5, "caption": "A ghost."})
    with pytest.raises(UserError, match=r"annotations\[1\]\.image_id\]: there is no picture with the id 99"):
        read(write("captions_val2014.json", content))


def test_a_caption_without_text_is_an_error(photo, write):
    photo("a.jpg")
    content = captions(("a.jpg", "A dog."))
    del content["annotations"][0]["caption"]
    content["annotations"].append({"image_id": 10, "caption": "A dog."})
    with pytest.raises(UserError, match=r"annotations\[0\]\.caption\]: the caption is empty"):
        read(write("captions_val2014.json", content))
