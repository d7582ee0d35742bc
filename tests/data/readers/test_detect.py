from __future__ import annotations

from collections import Counter

import pytest

from vsekit.data.readers import FORMATS, detect, read
from vsekit.data.readers.base import hash_split, split_in
from vsekit.errors import UserError

KARPATHY = {"images": [{"filename": "a.jpg", "split": "train", "sentences": [{"raw": "A dog."}]}]}


def test_a_path_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(UserError, match="no such file or folder"):
        read(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"pictures: there is no such folder"):
        read(tmp_path, images=tmp_path / "pictures")


def test_nothing_readable_lists_what_each_format_looks_for(tmp_path, write):
    write("package.json", {"name": "not a collection"})
    with pytest.raises(UserError, match="no collection found here") as error:
        read(tmp_path)
    assert all(f"{name} " in error.value.remedy for name in FORMATS)


def test_an_unknown_format_lists_those_there_are(tmp_path):
    with pytest.raises(UserError, match=r"no format 'parquet'\n.*karpathy, coco"):
        read(tmp_path, format="parquet")


def test_two_formats_in_one_folder_need_a_choice(tmp_path, photo, write):
    photo("a.jpg")
    write("dataset.json", KARPATHY)
    write("t.csv", "image,caption\na.jpg,From the table.\n")
    with pytest.raises(UserError, match=r"karpathy \(dataset.json\); table \(t.csv\)\n.*--format"):
        read(tmp_path)
    assert read(tmp_path, format="table").captions[0].text == "From the table."
    assert read(tmp_path, format="karpathy").captions[0].text == "A dog."


def test_two_files_of_one_format_need_a_choice(tmp_path, photo, write):
    photo("a.jpg")
    write("dataset_flickr8k.json", KARPATHY)
    path = write("dataset_flickr30k.json", KARPATHY)
    with pytest.raises(UserError, match=r"more than one karpathy file here: dataset_flickr30k.json, dataset_flickr8k"):
        read(tmp_path)
    assert len(read(path).pictures) == 1


def test_a_list_of_persons_is_cuhk_pedes_and_not_a_table(write):
    persons = write("reid_raw.json", [{"id": 1, "file_path": "a.jpg", "captions": ["A man."]}])
    assert detect(persons)[0].name == "cuhk-pedes"
    table = write("records.json", [{"image": "a.jpg", "caption": "A man.", "image_id": "x"}])
    assert detect(table)[0].name == "table"


def test_text_files_beside_images_decide_only_when_nothing_else_does(tmp_path, photo, write):
    photo("a.jpg")
    write("a.txt", "From the text.")
    assert detect(tmp_path)[0].name == "folder"
    write("t.csv", "image,caption\na.jpg,From the table.\n")
    assert detect(tmp_path)[0].name == "table"


def test_a_file_bigger_than_what_is_sniffed_is_told_by_its_ends(photo, write):
    photo("a.jpg")
    many = [{"id": i, "file_name": f"{i}.jpg"} for i in range(5000)]
    captions = [{"image_id": i, "caption": "A dog."} for i in range(5000)]
    assert detect(write("captions_val2014.json", {"images": many, "annotations": captions}))[0].name == "coco"


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("captions_train2014", "train"),
        ("dev", "val"),
        ("cc3m-validation-0001", "val"),
        ("testall", "testall"),
        ("test_1", "test"),
        ("latest", None),
        ("trainers", None),
    ],
)
def test_the_split_in_a_name(name, split):
    assert split_in(name) == split


def test_the_hash_split_is_80_10_10():
    counts = Counter(hash_split(f"group {i}") for i in range(20000))
    assert {name: round(n / 2000, 1) for name, n in counts.items()} == pytest.approx(
        {"train": 8.0, "val": 1.0, "test": 1.0}, abs=0.15
    )
