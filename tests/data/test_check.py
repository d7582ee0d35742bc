from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image

from vsekit.data.check import check
from vsekit.data.readers import read
from vsekit.errors import UserError
from vsekit.progress import Bar, Progress


@pytest.fixture
def photo(tmp_path):
    """photo("a.jpg", seed) writes a picture of noise: different seeds, different bytes."""

    def save(name, seed=0, size=(32, 24)):
        pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / name)
        return tmp_path / name

    return save


@pytest.fixture
def table(tmp_path):
    def save(*rows, header="image,caption,split"):
        (tmp_path / "t.csv").write_text("\n".join([header, *rows]))
        return tmp_path / "t.csv"

    return save


def found(report):
    return [(p.severity, p.kind, p.at.line) for p in report.problems]


def test_a_sound_collection_is_ok_and_counted(photo, table):
    photo("a.jpg", 1), photo("b.jpg", 2), photo("c.jpg", 3)
    report = check(table("a.jpg,A big dog.,train", "a.jpg,the DOG's bone,train", "b.jpg,cat,train", "c.jpg,A cow!,val"))
    assert report.ok
    assert report.problems == []
    assert report.format == "table"
    train = report.splits["train"]
    assert (train.pictures, train.captions, train.groups) == (2, 3, 2)
    spread = train.captions_per_picture
    assert (spread.min, spread.mean, spread.max) == (1, 1.5, 2)
    assert report.vocabulary == len({"a", "big", "dog", "the", "dog's", "bone", "cat", "cow"})
    assert (report.words.min, report.words.mean, report.words.max) == (1, 2.25, 3)


def test_all_problems_are_listed_at_once_where_reading_stops_at_the_first(photo, table):
    photo("a.jpg", 1), photo("b.jpg", 2)
    path = table(
        "a.jpg,A dog.,train",
        "b.jpg,,train",
        "gone.jpg,A cat.,train",
        "a.jpg,b'Two dogs.',train",
        "a.jpg,A dog.,val",
        "b.jpg,one,two,three",
        "b.jpg,Fine.,",
    )
    with pytest.raises(UserError, match=r"t.csv:7: 4 cells"):
        read(path)  # rows of the wrong width are met first
    assert Counter(found(check(path))) == Counter(
        [
            ("error", "empty-caption", 3),
            ("error", "missing-image", 4),
            ("error", "bytes-caption", 5),
            ("error", "conflict", 6),
            ("error", "bad-row", 7),
            ("error", "bad-field", 8),
            ("warning", "duplicate-caption", 6),
        ]
    )


def test_every_missing_picture_is_listed_once(photo, table):
    photo("b.jpg")
    report = check(table("gone.jpg,A dog.,train", "b.jpg,A cat.,train", "gone2.jpg,A cow.,train"))
    assert found(report) == [("error", "missing-image", 2), ("error", "missing-image", 4)]
    assert found(check(report.root, pictures=False)) == found(report)


def test_broken_truncated_and_tiny_pictures_are_found_by_decoding(tmp_path, photo, table):
    photo("whole.jpg", 1)
    (tmp_path / "text.jpg").write_text("<html>404</html>")
    cut = photo("cut.jpg", 2)
    cut.write_bytes(cut.read_bytes()[:-200])
    flipped = photo("flipped.png", 3)
    data = bytearray(flipped.read_bytes())
    data[len(data) // 2] ^= 255
    flipped.write_bytes(data)
    photo("tiny.png", 4, size=(15, 16))
    photo("small.png", 5, size=(16, 16))
    (tmp_path / "empty.jpg").touch()
    names = ["whole.jpg", "text.jpg", "cut.jpg", "flipped.png", "tiny.png", "small.png", "empty.jpg"]
    path = table(*(f"{name},Caption of {name},train" for name in names))
    assert found(check(path)) == [
        ("error", "broken-image", 3),
        ("error", "broken-image", 4),
        ("error", "broken-image", 5),
        ("error", "broken-image", 8),
        ("warning", "tiny-image", 6),
    ]
    assert check(path, pictures=False).ok


def test_the_same_bytes_in_two_splits_are_a_leak_and_in_one_a_duplicate(photo, table):
    photo("a.jpg", 1), photo("copy.jpg", 1), photo("again.jpg", 1)
    report = check(table("a.jpg,A dog.,train", "copy.jpg,Two dogs.,test", "again.jpg,Three dogs.,train"))
    assert found(report) == [("error", "leak", 3), ("warning", "duplicate-image", 4)]
    assert not report.ok


def test_a_group_in_two_splits_is_a_leak(photo, table):
    photo("a.jpg", 1), photo("b.jpg", 2)
    path = table("a.jpg,A man.,train,7", "b.jpg,One man.,test,7", header="image,caption,split,person_id")
    assert found(check(path)) == [("error", "leak", 3)]


def test_captions_that_repeat_are_told_by_where_they_repeat(photo, table):
    for i in range(4):
        photo(f"{i}.jpg", i)
    report = check(
        table(
            "0.jpg,A dog.,train", "0.jpg,A dog.,train", "1.jpg,A dog.,train", "2.jpg,A cat.,train", "3.jpg,A cat.,val"
        )
    )
    assert found(report) == [
        ("warning", "duplicate-caption", 3),
        ("warning", "shared-caption", None),
        ("info", "caption-in-splits", None),
    ]
    assert report.ok
    assert report.problems[1].what.startswith("2 captions stand at pictures of different groups")
    assert report.problems[2].what == "1 captions are the same in train and val"


def test_a_made_up_split_is_told(photo, table):
    photo("a.jpg")
    (problem,) = check(table("a.jpg,A dog.", header="image,caption")).problems
    assert (problem.severity, problem.kind) == ("info", "hash-split")


@pytest.fixture
def precomputed(tmp_path):
    def save(**splits):
        for name, array in splits.items():
            np.save(tmp_path / f"{name}_ims.npy", array)
            lines = [f"{name} {i}" for i in range(5 * len(array))]
            (tmp_path / f"{name}_caps.txt").write_text("\n".join(lines))
        return tmp_path

    return save


def test_features_that_are_nan_zero_or_leak_are_found(precomputed):
    train, test = np.random.default_rng(0).normal(size=(2, 6, 3, 4)).astype(np.float32)
    train[1, 2, 3], train[2, 0, 0], train[3], test[4] = np.nan, np.inf, 0, train[5]
    report = check(precomputed(train=train, test=test))
    assert [(p.severity, p.kind, p.at.file.name, p.at.field) for p in report.problems] == [
        ("error", "bad-features", "train_ims.npy", "[1]"),
        ("error", "bad-features", "train_ims.npy", "[2]"),
        ("error", "leak", "test_ims.npy", "[4]"),
        ("warning", "zero-features", "train_ims.npy", "[3]"),
    ]


def test_testall_may_hold_test(precomputed):
    array = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    report = check(precomputed(test=array[:2], testall=array))
    assert report.ok
    assert (report.splits["test"].pictures, report.splits["testall"].pictures) == (2, 4)


def test_one_unreadable_file_does_not_hide_the_others(precomputed):
    array = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    folder = precomputed(train=array, dev=array, test=-array)
    (folder / "train_ims.npy").write_bytes(b"not numpy")
    (folder / "test_caps.txt").write_text("one\ntwo\nb'three'\nfour\n")
    report = check(folder)
    assert [(p.kind, p.at.file.name) for p in report.problems] == [
        ("unreadable", "train_ims.npy"),
        ("bytes-caption", "test_caps.txt"),
    ]
    assert set(report.splits) == {"val", "test"}


def test_a_file_that_can_not_be_parsed_is_one_problem(tmp_path):
    (tmp_path / "dataset.json").write_text('{"images": [{"filename": "a.jpg", "sentences": [}')
    report = check(tmp_path)
    assert [p.kind for p in report.problems] == ["unreadable"]
    assert report.splits == {}


def test_no_collection_is_an_error_and_not_a_report(tmp_path):
    with pytest.raises(UserError, match="no collection found"):
        check(tmp_path)


def test_the_report_is_json(photo, table):
    photo("a.jpg")
    report = check(table("a.jpg,,train"))
    told = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert told["ok"] is False
    assert told["splits"]["train"]["captions_per_picture"] == {"min": 1, "mean": 1.0, "max": 1}
    (problem,) = told["problems"]
    assert problem["severity"] == "error"
    assert (problem["file"], problem["line"], problem["field"]) == (str(report.root), 2, "caption")
    assert problem["remedy"]


def test_the_text_groups_repeated_problems(photo, table):
    photo("a.jpg")
    text = "\n".join(check(table("a.jpg,A dog.,train", *["a.jpg,,train"] * 9)).lines(examples=2))
    assert "train    1 pictures, 10 captions (10 a picture)" in text
    assert "error: empty-caption (9 times)" in text
    assert text.count("the caption is empty") == 2
    assert "… and 7 more" in text
    assert text.endswith("9 errors, 0 warnings")


class Told(Progress):
    """Keeps what is said and how far bars came, in order."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def say(self, text):
        self.calls.append(text)

    @contextmanager
    def bar(self, name, unit=""):
        yield Bar(lambda done, total, note: self.calls.append((done, total)))


def test_what_is_cheap_to_find_is_said_before_any_picture_is_decoded(tmp_path, photo, table):
    photo("a.jpg", 1), photo("b.jpg", 2)
    (tmp_path / "c.jpg").write_text("no picture")
    told = Told()
    check(table("a.jpg,A dog.,train", "b.jpg,,train", "c.jpg,A cow.,val"), workers=1, progress=told)
    first, *decoded = told.calls
    assert "1 × empty-caption, 1 × missing or broken pictures" in first
    assert decoded == [(1, 3), (2, 3), (3, 3)]


def test_nothing_is_said_of_a_sound_collection(photo, table):
    photo("a.jpg", 1), photo("b.jpg", 2)
    told = Told()
    check(table("a.jpg,A dog.,train", "b.jpg,A cat.,train"), workers=1, progress=told)
    assert told.calls == [(1, 2), (2, 2)]


def test_a_missing_picture_with_many_captions_is_listed_once(table):
    report = check(table("gone.jpg,A dog.,train", "gone.jpg,Two dogs.,train"))
    assert found(report) == [("error", "missing-image", 2)]
