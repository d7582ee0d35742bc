from __future__ import annotations

import pytest

from vsekit.data.readers import read
from vsekit.errors import UserError


def test_subfolders_are_splits_and_lines_are_captions(tmp_path, photo, write):
    photo("train/beach/1.jpg"), photo("Validation/2.PNG")
    write("train/beach/1.txt", "A beach.\r\nThe sea.\u2028Blue.\n\n")
    write("Validation/2.txt", "A cat.")
    write("train/readme.txt", "About this folder.")
    pairs = read(tmp_path)
    assert [(p.id, p.split) for p in pairs.pictures] == [("Validation/2.PNG", "val"), ("train/beach/1.jpg", "train")]
    assert [(c.text, c.picture) for c in pairs.captions] == [("A cat.", 0), ("A beach.", 1), ("The sea.\u2028Blue.", 1)]
    assert all(p.path.is_file() for p in pairs.pictures)


def test_other_subfolders_are_split_by_hash(tmp_path, photo, write):
    for i in range(60):
        photo(f"cats/{i}.jpg")
        write(f"cats/{i}.txt", "A cat.")
    assert set(read(tmp_path).splits) == {"train", "val", "test"}


def test_a_picture_without_a_text_is_an_error(tmp_path, photo, write):
    photo("a.jpg"), photo("b.jpg")
    write("a.txt", "A dog.")
    with pytest.raises(UserError, match=r"b.jpg: the picture 'b.jpg' has no caption"):
        read(tmp_path)


def test_an_empty_line_is_an_error_with_its_number(tmp_path, photo, write):
    photo("a.jpg")
    write("a.txt", "A dog.\n\nTwo dogs.\n")
    with pytest.raises(UserError, match=r"a.txt:2: the caption is empty"):
        read(tmp_path)
