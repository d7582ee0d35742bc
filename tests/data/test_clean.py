from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from PIL import Image

from vsekit.data.check import check
from vsekit.data.clean import read_clean
from vsekit.data.readers import read
from vsekit.data.readers.base import hash_split
from vsekit.data.written import write_collection
from vsekit.errors import UserError


@pytest.fixture
def photo(tmp_path):
    """photo("a.jpg", seed) writes coarse noise: different seeds, different pictures."""

    def save(name, seed=0, quality=90, size=(64, 48)):
        coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(tmp_path / name, quality=quality)
        return tmp_path / name

    return save


@pytest.fixture
def table(tmp_path):
    def save(*rows, header="image,caption,split", name="t.csv", encoding="utf-8"):
        (tmp_path / name).write_bytes("\n".join([header, *rows]).encode(encoding))
        return tmp_path / name

    return save


def reasons(clean):
    return [(item.problem.kind, item.problem.at.line, item.done) for item in clean.skipped]


def test_a_sound_collection_stays_as_it_is(photo, table):
    photo("a.jpg", 1), photo("b.jpg", 2)
    clean = read_clean(table("a.jpg,A dog.,train", "a.jpg,Two dogs.,train", "b.jpg,A dog.,val"))
    assert clean.skipped == []
    assert clean.lines() == []
    assert [c.text for c in clean.pairs.captions] == ["A dog.", "Two dogs.", "A dog."]
    assert clean.pairs.splits == {"train": 1, "val": 1}


def test_every_kind_of_dirt_is_set_aside_with_its_line_and_the_rest_is_kept(tmp_path, photo, table):
    for seed, name in enumerate("abcdefgh"):
        photo(f"{name}.jpg", seed)
    whole = (tmp_path / "c.jpg").read_bytes()
    (tmp_path / "c.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "d.jpg").write_text("<html>not found</html>")
    (tmp_path / "copy.jpg").write_bytes((tmp_path / "e.jpg").read_bytes())
    path = table(
        "a.jpg,A dog.,train",
        "a.jpg,A dog.,train",  # line 3: again
        "a.jpg,,train",  # line 4: empty
        "gone.jpg,A cat.,train",  # line 5: missing
        "c.jpg,Half a cow.,train",  # line 6: cut off
        "d.jpg,No cow.,train",  # line 7: not a picture
        "a.jpg,A dog in another split.,val",  # line 8: conflict
        "e.jpg,A horse.,test",
        "copy.jpg,A horse.,train",  # line 10: the test picture under another name
        "f.jpg,too,many,cells,here",  # line 11
        "f.jpg,A sheep.,train",
        "g.jpg,A goat.,val",
        "h.jpg,A pig.,train",
        "h.jpg,Two pigs.,train",
        "h.jpg,Three pigs.,train",
        "h.jpg,Four pigs.,train",
    )
    clean = read_clean(path)
    assert sorted(reasons(clean)) == sorted(
        [
            ("duplicate-caption", 3, "left out"),
            ("empty-caption", 4, "left out"),
            ("missing-image", 5, "left out"),
            ("broken-image", 6, "left out"),
            ("broken-image", 7, "left out"),
            ("conflict", 8, "left out"),
            ("leak", 10, "left out"),
            ("bad-row", 11, "left out"),
        ]
    )
    kept = [(clean.pairs.pictures[c.picture].id, c.text) for c in clean.pairs.captions]
    assert kept == [
        ("a.jpg", "A dog."),
        ("e.jpg", "A horse."),
        ("f.jpg", "A sheep."),
        ("g.jpg", "A goat."),
        *(("h.jpg", f"{n} pig{'s' * (n != 'A')}.") for n in ("A", "Two", "Three", "Four")),
    ]
    assert [p.id for p in clean.pairs.pictures] == ["a.jpg", "e.jpg", "f.jpg", "g.jpg", "h.jpg"]
    rows = list(csv.DictReader(io.StringIO(clean.table())))
    assert {row["line"] for row in rows} == {str(n) for n in (3, 4, 5, 6, 7, 8, 10, 11)}
    assert all(row["file"].endswith("t.csv") and row["what"] for row in rows)
    assert clean.lines()[0].startswith("8 left out: 2 × broken-image")
    assert (clean.write(tmp_path / "run") or path).read_text() == clean.table()


@pytest.mark.parametrize("row", ["a.jpg,,train", "gone.jpg,A cat.,train", "b.jpg,A dog.,val", "c.jpg,Text.,val"])
def test_strict_stops_at_the_first_problem(tmp_path, photo, table, row):
    photo("a.jpg", 1), photo("c.jpg", 3), photo("d.jpg", 4)
    (tmp_path / "c.jpg").write_bytes((tmp_path / "c.jpg").read_bytes()[:300])
    (tmp_path / "b.jpg").write_bytes((tmp_path / "a.jpg").read_bytes())
    path = table("a.jpg,A dog.,train", "d.jpg,A cat.,train", "d.jpg,Two cats.,train", row)
    assert len(read_clean(path).skipped) == 1
    with pytest.raises(UserError):
        read_clean(path, strict=True)


def test_a_line_in_cp1252_is_told_from_one_in_latin1_and_both_from_utf8(tmp_path, photo):
    for seed, name in enumerate("abcd"):
        photo(f"{name}.jpg", seed)
    lines = [
        b"image,caption,split",
        "a.jpg,“A dog” – 5 €,train".encode("cp1252"),
        "b.jpg,Straße für Hündchen,train".encode("latin1"),
        "c.jpg,“naïve” señor,train".encode(),
        "d.jpg,“UTF-8” and ".encode() + "“cp1252”".encode("cp1252") + b",val",
    ]
    (tmp_path / "t.csv").write_bytes(b"\r\n".join(lines))
    clean = read_clean(tmp_path / "t.csv")
    assert [c.text for c in clean.pairs.captions] == [
        "“A dog” – 5 €",
        "Straße für Hündchen",
        "“naïve” señor",
        "“UTF-8” and “cp1252”",
    ]
    assert reasons(clean) == [("encoding", line, "mended") for line in (2, 3, 5)]
    said = [item.problem.what for item in clean.skipped]
    assert [what.rpartition(" ")[2] for what in said] == ["cp1252", "latin1", "cp1252"]


def test_a_collection_that_would_lose_most_is_refused_with_an_example(photo, table):
    photo("a.jpg", 1)
    with pytest.raises(UserError, match=r"only 1 of 4 captions.*3 × missing-image.*'x.jpg'") as error:
        read_clean(table("x.jpg,One.,train", "a.jpg,A dog.,train", "y.jpg,Two.,train", "z.jpg,Three.,val"))
    assert error.value.line == 2


def test_a_table_without_the_needed_columns_is_refused(photo, table):
    with pytest.raises(UserError, match="no column for the image"):
        read_clean(table("a.jpg,A dog.", header="where,caption"))


def test_made_splits_follow_the_name_and_not_the_order(photo, table):
    names = [f"{n}.jpg" for n in range(30)]
    for n, name in enumerate(names):
        photo(name, n)
    rows = [f"{name},Caption {name}." for name in names]
    one = read_clean(table(*rows, header="image,caption"))
    other = read_clean(table(*rows[::-1], header="image,caption"))
    splits = {p.id: p.split for p in one.pairs.pictures}
    assert splits == {p.id: p.split for p in other.pairs.pictures} == {name: hash_split(name) for name in names}
    assert (one.splits_made, one.tied) == (30, 0)
    assert "30 pictures name no split" in one.lines()[0]


def test_made_splits_keep_groups_and_nearly_equal_pictures_together(tmp_path, photo, table):
    # Names that a hash alone would put apart.
    by_split = {}
    for n in range(60):
        by_split.setdefault(hash_split(f"{n}.jpg"), []).append(f"{n}.jpg")
    train, val, test = (by_split[name] for name in ("train", "val", "test"))
    same = [train[0], val[0], test[0]]
    for quality, name in zip((95, 60, 30), same):
        photo(name, seed=1000, quality=quality, size=(64 + quality, 48 + quality))
    others = [name for some in (train, val, test) for name in some if name not in same]
    for n, name in enumerate(others):
        photo(name, seed=n)
    assert len({(tmp_path / name).read_bytes() for name in same}) == 3
    clean = read_clean(table(*(f"{name},Caption {name}." for name in [*same, *others]), header="image,caption"))
    splits = {p.id: p.split for p in clean.pairs.pictures}
    assert {splits[name] for name in same} == {hash_split(min(same))}
    assert {name: splits[name] for name in others} == {name: hash_split(name) for name in others}
    assert clean.tied == 2

    grouped = [f"{name},Caption {name}.,{'pair' if name in (train[1], val[1]) else name}" for name in others]
    clean = read_clean(table(*grouped, header="image,caption,group"))
    assert {p.split for p in clean.pairs.pictures if p.group == "pair"} == {hash_split("pair")}


def test_looks_that_were_kept_are_read_again_until_a_picture_changes(tmp_path, photo, table):
    photo("a.jpg", 1), photo("b.jpg", 2)
    path = table("a.jpg,A dog.", "b.jpg,A cat.", header="image,caption")
    kept = tmp_path / "kept"
    first = read_clean(path, kept=kept)
    assert (len(list(kept.iterdir())), first.tied) == (1, 0)
    photo("b.jpg", 1, quality=70)
    assert read_clean(path, kept=kept).tied == 1
    assert len(list(kept.iterdir())) == 2


def test_a_caption_twice_in_a_published_file_is_kept(tmp_path, photo):
    photo("a.jpg", 1)
    sentences = [{"raw": "A dog."}, {"raw": "A dog."}]
    content = {"images": [{"filename": "a.jpg", "split": "val", "sentences": sentences}]}
    (tmp_path / "dataset.json").write_text(json.dumps(content))
    assert len(read_clean(tmp_path).pairs.captions) == 2


def test_a_written_collection_has_nothing_left_to_report(tmp_path, photo, table):
    for seed, name in enumerate("abcdef"):
        photo(f"{name}.jpg", seed)
    (tmp_path / "copy.jpg").write_bytes((tmp_path / "a.jpg").read_bytes())
    path = table(
        'a.jpg,"“A dog”, with a comma",test,Leica',
        "b.jpg,,train,Leica",
        "b.jpg,A cat.,train,Leica",
        "c.jpg,A cow.,val,Zeiss",
        "copy.jpg,The dog again.,train,Zeiss",
        "d.jpg,A hen.,train,Zeiss",
        "e.jpg,A hen that flies.,train,",
        header="image,caption,split,camera",
        encoding="cp1252",
    )
    assert not check(path).ok
    clean = read_clean(path)
    written = write_collection(clean.pairs, tmp_path / "out" / "deep")
    report = check(written)
    assert (report.ok, report.problems) == (True, [])
    again = read(written)
    assert [c.text for c in again.captions] == [c.text for c in clean.pairs.captions]
    assert [(p.split, p.group, p.meta) for p in again.pictures] == [
        (p.split, p.group, p.meta) for p in clean.pairs.pictures
    ]
    assert [p.path and p.path.resolve() for p in again.pictures] == [p.path for p in clean.pairs.pictures]
