from __future__ import annotations

import json
import sys

import pytest

from vsekit.data.readers import read
from vsekit.errors import UserError


@pytest.fixture(autouse=True)
def first_picture(photo):
    photo("a.jpg")


def test_rows_of_one_picture_are_its_captions(write):
    pairs = read(
        write("t.csv", "image,caption,split\na.jpg,A dog.,train\nb.jpg,A cat.,validation\na.jpg,Two dogs.,train\n")
    )
    assert [(p.id, p.split) for p in pairs.pictures] == [("a.jpg", "train"), ("b.jpg", "val")]
    assert [(c.text, c.picture) for c in pairs.captions] == [("A dog.", 0), ("A cat.", 1), ("Two dogs.", 0)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", '\ufeffimage,caption\r\na.jpg,"Red, ""big"" dog"\r\n'),
        ("t.csv", 'image;caption\na.jpg;"Red, ""big"" dog"\n'),
        ("t.csv", 'filepath|title\na.jpg| "Red, ""big"" dog"\n'.replace("| ", "|")),
        ("t.tsv", 'path\tsentence\na.jpg\t"Red, ""big"" dog"\n'),
        ("t.jsonl", '{"file_name": "a.jpg", "text": "Red, \\"big\\" dog"}\n\n'),
        ("t.json", '[{"image": "a.jpg", "caption": ["Red, \\"big\\" dog"]}]'),
    ],
)
def test_every_kind_of_text_table_and_usual_column_name(write, name, text):
    pairs = read(write(name, text))
    assert [(p.id, c.text) for p, c in zip(pairs.pictures, pairs.captions)] == [("a.jpg", 'Red, "big" dog')]


def test_parquet_with_lists_of_captions(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table(
        {"image": ["a.jpg", "b.jpg"], "caption": [["A dog.", "Two dogs."], ["A cat."]], "year": [1, 2]}
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    pairs = read(tmp_path)
    assert [(c.text, c.picture) for c in pairs.captions] == [("A dog.", 0), ("Two dogs.", 0), ("A cat.", 1)]
    assert [p.meta for p in pairs.pictures] == [{"year": 1}, {"year": 2}]


def test_what_is_no_parquet_is_an_error(write):
    pytest.importorskip("pyarrow")
    with pytest.raises(UserError, match="not a whole Parquet file"):
        read(write("t.parquet", "image,caption\n"))


def test_parquet_without_pyarrow_says_what_to_install(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"'pyarrow'.*\n.*vsekit\[tables\]"):
        read(write("t.parquet", "…"))


def test_columns_can_be_named(tmp_path, write):
    write("t.csv", "foto,beschreibung,caption\na.jpg,Ein Hund.,unused\n")
    pairs = read(tmp_path, columns={"image": "foto", "caption": "beschreibung"})
    assert pairs.captions[0].text == "Ein Hund."
    assert pairs.pictures[0].meta == {"caption": "unused"}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, r"no column for the image; there are beschreibung, foto\n.*--columns image=COLUMN"),
        ({"image": "foto"}, "no column for the caption"),
        ({"image": "photo"}, r"no column 'photo'; did you mean 'foto'\?\n.*beschreibung, foto"),
        ({"picture": "foto"}, "no role 'picture'"),
    ],
)
def test_missing_columns_are_an_error_that_lists_those_there_are(write, columns, message):
    with pytest.raises(UserError, match=message):
        read(write("t.csv", "foto,beschreibung\na.jpg,Ein Hund.\n"), columns=columns)


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ('image,caption\na.jpg,"two\nlines"\nb.jpg,\n', 4, "caption"),
        ('image,caption\na.jpg,"two\nlines"\n,A cat.\n', 4, "image"),
        ("image,caption\na.jpg,A dog.\nb.jpg,A cat, sleeping.\n", 3, None),
        ("image,caption\na.jpg,b'A dog.'\n", 2, "caption"),
        ("image,caption,split\na.jpg,A dog.,train\na.jpg,Two dogs.,test\n", 3, "image"),
        ("image,caption,group\na.jpg,A dog.,1\na.jpg,Two dogs.,2\n", 3, "image"),
        ("image,caption,split\na.jpg,A dog.,train\nb.jpg,A cat.,\n", 3, "split"),
        ('image,caption\na.jpg,A dog.\nb.jpg,"A cat.\n', 3, None),
        ("image,caption,caption\na.jpg,A dog.,Two dogs.\n", 1, None),
    ],
)
def test_a_bad_row_is_named_with_its_line_and_column(write, text, line, field):
    path = write("t.csv", text)
    with pytest.raises(UserError) as error:
        read(path)
    assert (error.value.file, error.value.line, error.value.field) == (path, line, field)
    assert error.value.remedy


def test_a_bad_line_of_jsonl_is_named(write):
    good = json.dumps({"image": "a.jpg", "caption": "A dog."})
    with pytest.raises(UserError, match="not valid JSON") as error:
        read(write("t.jsonl", f"{good}\n\n{{'image': 1}}\n"))
    assert error.value.line == 3
    with pytest.raises(UserError, match=r"t.jsonl:2 \[caption\[1\]\]: the caption is 5"):
        read(write("t.jsonl", f'{good}\n{{"image": "b.jpg", "caption": ["A cat.", 5]}}'))


def test_embedded_image_bytes_are_refused_in_words(write):
    with pytest.raises(UserError, match="not a file's name"):
        read(write("t.jsonl", '{"image": {"bytes": "…"}, "caption": "A dog."}'))


def test_another_encoding_is_an_error_with_its_line(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("image,caption\na.jpg,Ein Hund.\nb.jpg,Zwei Hündchen.\n".encode("latin-1"))
    with pytest.raises(UserError, match="0xfc is not UTF-8") as error:
        read(path)
    assert error.value.line == 3


def test_files_named_after_splits_are_the_splits(tmp_path, photo, write):
    photo("b.jpg")
    write("train.csv", "image,caption\na.jpg,A dog.\n")
    write("dev.csv", "image,caption\nb.jpg,A cat.\n")
    write("notes.csv", "when,what\n1,2\n")
    assert read(tmp_path).splits == {"val": 1, "train": 1}


def test_a_picture_in_two_split_files_is_an_error(tmp_path, write):
    write("train.csv", "image,caption\na.jpg,A dog.\n")
    write("test.csv", "image,caption\na.jpg,Two dogs.\n")
    with pytest.raises(UserError, match=r"'a.jpg' has the split 'train' here and 'test' in .*test.csv:2"):
        read(tmp_path)


def test_columns_that_differ_within_a_picture_belong_to_the_captions(write):
    pairs = read(write("t.csv", "image,caption,year,writer\na.jpg,A dog.,1990,Ann\na.jpg,Two dogs.,1990,Bob\n"))
    assert pairs.pictures[0].meta == {"year": "1990"}
    assert [c.meta for c in pairs.captions] == [{"writer": "Ann"}, {"writer": "Bob"}]


def test_id_is_the_group_unless_it_numbers_captions(write):
    rows = "a.jpg,A dog.,{}\nb.jpg,A dog again.,{}\na.jpg,Two dogs.,{}\n"
    people = read(write("t.csv", "image,caption,id\n" + rows.format(7, 7, 7)))
    assert [p.group for p in people.pictures] == ["7", "7"]
    numbered = read(write("t.csv", "image,caption,id\n" + rows.format(1, 2, 3)))
    assert [p.group for p in numbered.pictures] == ["a.jpg", "b.jpg"]
    assert [c.meta for c in numbered.captions] == [{"id": "1"}, {"id": "2"}, {"id": "3"}]


def test_without_a_split_groups_are_split_80_10_10_whatever_their_order(write):
    rows = [f"{'a' if i == 0 else i}.jpg,Caption {i},{i // 2}" for i in range(4000)]
    pairs = read(write("t.csv", "\n".join(["image,caption,group", *rows])))
    assert {name: round(n / 400) for name, n in pairs.splits.items()} == {"train": 8, "val": 1, "test": 1}
    assert len({(p.group, p.split) for p in pairs.pictures}) == 2000
    shuffled = read(write("t.csv", "\n".join(["image,caption,group", rows[0], *rows[:1000:-1]])))
    before = {p.id: p.split for p in pairs.pictures}
    assert all(before[p.id] == p.split for p in shuffled.pictures)
