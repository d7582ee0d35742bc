from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from PIL.TiffImagePlugin import IFDRational

from vsekit.data.decoding import decode
from vsekit.search.metadata import FIELDS, file_meta, picture_meta, told_meta

ORIGINAL, LENS, EXIF, GPS = 0x9003, 0xA434, 0x8769, 0x8825


def with_exif(
    path: Path, tags: dict[int, Any], exif: dict[int, Any] | None = None, gps: dict[int, Any] | None = None
) -> Path:
    found = Image.Exif()
    found.update(tags)
    found.get_ifd(EXIF).update(exif or {})
    found.get_ifd(GPS).update(gps or {})
    Image.new("RGB", (40, 30)).save(path, exif=found)
    return path


def meta(path: Path) -> dict[str, Any]:
    with Image.open(path) as image:
        return picture_meta(image)


def test_what_a_camera_writes_is_read(tmp_path: Path) -> None:
    path = with_exif(
        tmp_path / "a.jpg",
        {0x010F: "FUJIFILM", 0x0110: "X100\0", 0x0132: "2022:01:01 00:00:00"},
        {ORIGINAL: "2021:07:04 15:30:00", LENS: " 23mm f/2 "},
        {1: "S", 2: (33.0, 52.0, 4.8), 3: "E", 4: (151.0, 12.0, 36.0)},
    )
    assert meta(path) == {
        "width": 40,
        "height": 30,
        "year": 2021,
        "month": 7,
        "taken": "2021-07-04 15:30:00",
        "camera": "X100",
        "lens": "23mm f/2",
        "lat": pytest.approx(-(33 + 52 / 60 + 4.8 / 3600), abs=1e-6),
        "lon": pytest.approx(151.21, abs=1e-6),
    }
    assert set(meta(path)) < set(FIELDS)


@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "tiff"])
@pytest.mark.parametrize(("orientation", "size"), [(1, (40, 30)), (3, (40, 30)), (6, (30, 40)), (8, (30, 40))])
def test_width_and_height_are_those_of_the_upright_picture(
    tmp_path: Path, ending: str, orientation: int, size: tuple[int, int]
) -> None:
    found = meta(with_exif(tmp_path / f"a.{ending}", {0x0112: orientation}))
    assert (found["width"], found["height"]) == size


def test_a_picture_without_exif_has_its_size(tmp_path: Path) -> None:
    Image.new("L", (5, 7)).save(tmp_path / "a.png")
    assert meta(tmp_path / "a.png") == {"width": 5, "height": 7}


@pytest.mark.parametrize(
    ("tags", "exif", "gps"),
    [
        ({0x0132: "0000:00:00 00:00:00"}, {ORIGINAL: "    :  :     :  :  "}, {}),
        ({0x0132: "2021:13:45 99:00:00", 0x0110: "\0\0"}, {LENS: ""}, {}),
        ({}, {}, {1: "N", 2: (91.0, 0.0, 0.0), 3: "E", 4: (10.0, 0.0, 0.0)}),
        ({}, {}, {2: (10.0, 0.0, 0.0)}),
        ({}, {}, {1: "N", 2: (IFDRational(0, 0), 0.0, 0.0), 3: "E", 4: (10.0, 0.0, 0.0)}),
    ],
)
def test_nonsense_is_left_out(tmp_path: Path, tags: dict[int, Any], exif: dict[int, Any], gps: dict[int, Any]) -> None:
    assert meta(with_exif(tmp_path / "a.jpg", tags, exif, gps)) == {"width": 40, "height": 30}


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 120))
def test_damaged_exif_never_stops_a_picture(noise: bytes, at: int) -> None:
    found = Image.Exif()
    found.update({0x0110: "X100", 0x0132: "2022:01:01 00:00:00"})
    found.get_ifd(EXIF).update({ORIGINAL: "2021:07:04 15:30:00"})
    whole = found.tobytes()
    image = Image.new("RGB", (40, 30))
    image.info["exif"] = whole[:at] + noise + whole[at + len(noise) :]
    result = picture_meta(image)
    assert sorted(decode(image).size) == [30, 40]
    assert sorted((result["width"], result["height"])) == [30, 40]
    assert all(isinstance(value, str | int | float) for value in result.values())


def test_a_file_is_known_by_folder_name_and_extension() -> None:
    expected = {"folder": "Photos/rome", "name": "A.JPEG", "extension": "jpg"}
    assert file_meta("/home/me/Photos/rome/A.JPEG", "Photos/rome") == expected


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (
            {"width": 40, "height": 30, "name": "a.jpg", "extension": "jpg"},
            {"orientation": "landscape", "type": "photo"},
        ),
        (
            {"width": 30, "height": 40, "name": "a.png", "extension": "png"},
            {"orientation": "portrait", "type": "graphic"},
        ),
        ({"width": 41, "height": 40, "extension": "png", "camera": "X100"}, {"orientation": "square", "type": "photo"}),
        ({"name": "Screenshot_2021.jpg", "extension": "jpg"}, {"type": "screenshot"}),
        ({"name": "Bildschirmfoto am 4. Juli.png", "extension": "png"}, {"type": "screenshot"}),
    ],
)
def test_orientation_and_type_follow_from_size_name_and_camera(found: dict[str, Any], told: dict[str, Any]) -> None:
    answer = told_meta(found, 0)
    del answer["dated"]
    assert answer == told


def test_a_picture_is_dated_by_its_camera_or_else_by_its_file() -> None:
    at = datetime(2022, 3, 4, 5, 6, 7)
    changed = int(at.timestamp()) * 10**9 + 123
    assert told_meta({}, changed)["dated"] == "2022-03-04 05:06:07"
    assert told_meta({"taken": "2021-07-04 15:30:00"}, changed)["dated"] == "2021-07-04 15:30:00"
