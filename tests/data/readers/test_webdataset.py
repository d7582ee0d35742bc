from __future__ import annotations

import gzip
import io
import json
import tarfile

import pytest
from PIL import Image

from vsekit.data.readers import read
from vsekit.errors import UserError


def jpeg(colour):
    file = io.BytesIO()
    Image.new("RGB", (40, 30), colour).save(file, "JPEG")
    return file.getvalue()


@pytest.fixture
def shard(tmp_path):
    def save(name, members, format=tarfile.PAX_FORMAT):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        with tarfile.open(path, "w", format=format) as archive:
            for member, content in members.items():
                data = content if isinstance(content, bytes) else content.encode()
                info = tarfile.TarInfo(member)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        return path

    return save


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_pictures_are_read_from_the_middle_of_the_archive(shard, format):
    red, blue = jpeg("red"), jpeg("blue")
    long = "x" * 90
    members = {f"{long}1.jpg": red, f"{long}1.txt": "Red.\nA red one.", "d/2.jpg": blue, "d/2.txt": "Blue."}
    path = shard("train-000.tar", members, format)
    pairs = read(path)
    assert [p.id for p in pairs.pictures] == [f"train-000/{long}1", "train-000/d/2"]
    assert [p.read() for p in pairs.pictures] == [red, blue]
    assert pairs.pictures[1].open().getpixel((5, 5))[2] > 200
    assert [(c.text, c.picture) for c in pairs.captions] == [("Red.", 0), ("A red one.", 0), ("Blue.", 1)]


def test_json_gives_captions_split_group_and_meta(tmp_path, shard):
    told = {"captions": ["Red.", "A red one."], "split": "test", "person_id": 4, "year": 1990}
    shard("shards/0.tar", {"1.json": json.dumps(told), "1.png": jpeg("red"), "1.txt": "unused", "1.seg.png": b"..."})
    pairs = read(tmp_path)
    (picture,) = pairs.pictures
    assert (picture.split, picture.group, picture.meta) == ("test", "4", {"year": 1990})
    assert [c.text for c in pairs.captions] == ["Red.", "A red one."]


def test_the_name_or_folder_of_a_shard_tells_the_split(tmp_path, shard):
    for name in ("val-0.tar", "train/0.tar", "train/1.tar"):
        shard(name, {"1.jpg": jpeg("red"), "1.json": '{"caption": "Red."}'})
    pairs = read(tmp_path)
    assert pairs.splits == {"train": 2, "val": 1}
    assert len({p.id for p in pairs.pictures}) == 3


def test_equal_shard_names_in_different_folders_stay_different_pictures(tmp_path, shard):
    for name in ("train/0.tar", "val/0.tar"):
        shard(name, {"1.jpg": jpeg("red"), "1.txt": "Red."})
    assert read(tmp_path).splits == {"train": 1, "val": 1}


def test_an_archive_of_pictures_beside_annotations_is_no_shard(tmp_path, shard):
    (tmp_path / "a.jpg").write_bytes(jpeg("red"))
    (tmp_path / "t.csv").write_text("image,caption\na.jpg,Red.\n")
    shard("flickr30k-images.tar", {"a.jpg": jpeg("red")})
    assert read(tmp_path).pictures[0].id == "a.jpg"


def test_a_broken_shard_among_good_ones_is_not_passed_over(tmp_path, shard):
    shard("train-0.tar", {"1.jpg": jpeg("red"), "1.txt": "Red."})
    (tmp_path / "train-1.tar").write_text("not a tar file")
    with pytest.raises(UserError, match=r"train-1.tar: this is not a whole tar file"):
        read(tmp_path)


def test_a_compressed_shard_is_an_error_with_the_remedy(tmp_path, shard):
    path = shard("train-0.tar", {"1.jpg": jpeg("red"), "1.txt": "Red."})
    packed = tmp_path / "packed.tar.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(UserError, match="compressed") as error:
        read(packed)
    assert "gunzip" in error.value.remedy


@pytest.mark.parametrize("keep", [700, 100])
def test_a_cut_off_shard_is_an_error(shard, keep):
    path = shard("train-0.tar", {"1.txt": "Red.", "1.jpg": jpeg("red")})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"not a whole tar file|no image"):
        read(path)


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"1.txt": "Red."}, "1"),
        ({"1.jpg": b"...", "1.txt": ""}, "1.txt"),
        ({"1.jpg": b"...", "1.json": '{"caption": 3}'}, "1.json:caption"),
        ({"1.jpg": b"...", "1.json": "{"}, "1.json"),
        ({"1.jpg": b"...", "1.json": "[]"}, "1.json"),
        ({"1.jpg": b"..."}, "1"),
        ({"1.jpg": b"...", "1.txt": b"\xff"}, "1.txt"),
    ],
)
def test_a_bad_sample_is_named_with_its_key(shard, members, field):
    with pytest.raises(UserError) as error:
        read(shard("train-0.tar", {"0.jpg": b"...", "0.txt": "Fine."} | members))
    assert error.value.field == field
