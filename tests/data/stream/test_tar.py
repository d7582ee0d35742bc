"""What in a shard can't be used is named, and everything else is used; nothing is dropped without a word."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from tests.data.stream.shards import jpeg, sample, write_members, write_shards

from vsekit.data.readers.problems import Problem
from vsekit.data.stream import tar
from vsekit.data.stream.reading import Described, described, samples
from vsekit.data.stream.tar import Sample


def read(path: Path, start: int = 0) -> tuple[list[Sample], list[tuple[str | None, str]]]:
    """The samples, and each problem's member and kind."""
    items = list(samples(str(path), start))
    problems = [item for item in items if isinstance(item, Problem)]
    return [item for item in items if isinstance(item, Sample)], [(p.at.field, p.kind) for p in problems]


def keys(found: list[Sample]) -> list[str]:
    return [one.key for one in found]


def test_neighbours_with_one_key_are_a_sample(tmp_path: Path) -> None:
    members = [("a/1.JPG", jpeg("red")), ("a/1.txt", "Red.\nA red one."), ("a/1.seg.png", b"-"), *sample("2", 1)]
    found, problems = read(write_members(tmp_path / "0.tar", members))
    assert [(one.ordinal, one.key, [*one.members]) for one in found] == [
        (0, "a/1", [".jpg", ".txt"]),
        (1, "2", [".jpg", ".json"]),
    ]
    assert found[0].members[".jpg"] == jpeg("red")
    assert problems == []
    told = described(found[0])
    assert isinstance(told, Described)
    assert (told.captions, told.split, told.group) == (["Red.", "A red one."], None, f"{tmp_path}/0.tar/a/1")


def test_groups_and_splits_are_those_of_the_json(tmp_path: Path) -> None:
    members = [*sample("1", 0, person_id=7, split="dev"), *sample("2", 1, shop="x")]
    (one, two), _ = read(write_members(tmp_path / "test" / "0.tar", members))
    first, second, by_shop = described(one), described(two), described(two, "shop")
    assert isinstance(first, Described)
    assert isinstance(second, Described)
    assert isinstance(by_shop, Described)
    assert (first.group, first.split) == ("7", "val")
    assert (second.split, by_shop.group) == (None, "x")


@pytest.mark.parametrize("start", [0, 1, 4, 5])
def test_a_shard_is_read_from_any_sample_on(tmp_path: Path, start: int) -> None:
    write_shards(tmp_path, [5])
    found, _ = read(tmp_path / "train-0.tar", start)
    assert [(one.ordinal, one.key) for one in found] == [(n, f"s0k{n}") for n in range(start, 5)]
    assert all(".jpg" in one.members for one in found)


def test_broken_members_are_named_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar, "MOST_TEXT", 5000)
    members = [
        *sample("good", 0),
        ("twice.jpg", jpeg("red")),
        ("twice.jpg", jpeg("blue")),
        ("twice.txt", "Twice."),
        *sample("../up", 1),
        *sample("/root", 2),
        *sample("new\nline", 3),
        ("long.jpg", jpeg("red")),
        ("long.txt", "x" * 6000),
        *sample("good", 4),
        *sample("last", 5),
    ]
    found, problems = read(write_members(tmp_path / "0.tar", members))
    assert keys(found) == ["good", "twice", "long", "last"]
    assert found[1].members[".jpg"] == jpeg("red")
    assert problems == [
        ("twice.jpg", "duplicate-member"),
        ("../up.jpg", "bad-name"),
        ("../up.json", "bad-name"),
        ("/root.jpg", "bad-name"),
        ("/root.json", "bad-name"),
        ("new\\nline.jpg", "bad-name"),
        ("new\\nline.json", "bad-name"),
        ("long.txt", "too-large"),
        ("good", "duplicate-key"),
    ]


def test_links_are_no_pictures(tmp_path: Path) -> None:
    path = write_members(tmp_path / "0.tar", sample("1", 0))
    with tarfile.open(path, "a") as archive:
        link = tarfile.TarInfo("2.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    found, problems = read(path)
    assert keys(found) == ["1"]
    assert problems == [("2.jpg", "not-a-file")]


def test_samples_without_picture_or_caption_are_told(tmp_path: Path) -> None:
    members = [("1.txt", "No picture."), ("2.jpg", jpeg("red")), ("3.jpg", jpeg("red")), ("3.json", "[1]")]
    members += [("4.jpg", jpeg("red")), ("4.json", '{"caption": '), ("5.jpg", jpeg("red")), ("5.txt", " \n ")]
    found, _ = read(write_members(tmp_path / "0.tar", members))
    told = [described(one) for one in found]
    assert [(p.at.field, p.kind) for p in told if isinstance(p, Problem)] == [
        ("1", "missing-image"),
        ("2", "no-caption"),
        ("3.json", "bad-field"),
        ("4.json", "bad-field"),
        ("5", "no-caption"),
    ]


@pytest.mark.parametrize("cut", [100, 700, 1500, 2600, 512 * 9])
def test_a_shard_that_is_cut_off_gives_what_is_whole_and_says_so(tmp_path: Path, cut: int) -> None:
    write_shards(tmp_path, [4])
    path = tmp_path / "train-0.tar"
    whole = path.read_bytes()
    with tarfile.open(path) as archive:
        ends = {m.name: m.offset_data + m.size for m in archive}
    path.write_bytes(whole[:cut])
    found, problems = read(path)
    # A sample is known to be whole when the next begins.
    sound = [f"s0k{n}" for n in range(4) if ends[f"s0k{n}.json"] + 512 < cut]
    assert keys(found) in (sound, sound[:-1])
    assert problems == [(None, "damaged-shard")]


def test_a_damaged_header_in_the_middle_is_no_silent_end(tmp_path: Path) -> None:
    write_shards(tmp_path, [4])
    path = tmp_path / "train-0.tar"
    with tarfile.open(path) as archive:
        at = archive.getmember("s0k2.jpg").offset
    data = bytearray(path.read_bytes())
    data[at : at + 512] = b"\xff" * 512
    path.write_bytes(data)
    found, problems = read(path)
    assert keys(found) == ["s0k0"]
    assert problems == [(None, "damaged-shard")]


def test_a_header_that_claims_gigabytes_is_not_read_into_memory(tmp_path: Path) -> None:
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 8 * 2**30
    path = tmp_path / "0.tar"
    path.write_bytes(header.tobuf(tarfile.GNU_FORMAT) + b"x" * 4096)
    assert read(path) == ([], [(None, "damaged-shard")])


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>" * 100, gzip.compress(b"no tar", mtime=0)])
def test_what_is_no_tar_file_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "0.tar"
    path.write_bytes(content)
    assert read(path) == ([], [(None, "damaged-shard")])


def test_compressed_shards_are_read(tmp_path: Path) -> None:
    path = write_members(tmp_path / "0.tar.gz", [*sample("1", 0), *sample("2", 1)], "w:gz")
    assert keys(read(path)[0]) == ["1", "2"]
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert read(path)[1] == [(None, "damaged-shard")]


def test_long_names_and_directories_do_no_harm(tmp_path: Path) -> None:
    long = "x" * 150
    path = tmp_path / "0.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in (("1.jpg", jpeg("red")), (f"folder/{long}.txt", b"Long.")):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    assert keys(read(path)[0]) == ["1", f"folder/{long}"]
