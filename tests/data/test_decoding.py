from __future__ import annotations

import io
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from tests.data.files import alpha, encoded, every_kind, photo, turned

import vsekit.data.decoding as decoding
from vsekit.data.decoding import PictureError, decode, open_picture, upright_size, version_of
from vsekit.data.pairs import Picture
from vsekit.errors import UserError

FILES = every_kind()


def pixels(image: Image.Image) -> np.ndarray:
    assert image.mode == "RGB"
    return np.asarray(image).astype(int)


def on_white(image: Image.Image, share: np.ndarray) -> np.ndarray:
    """α · colour + (1 − α) · 255"""
    colour = np.asarray(image.convert("RGB")).astype(float)
    return share[..., None] * colour + (1 - share[..., None]) * 255


RGB = photo()
GREY = RGB.convert("L")
SHARE = np.asarray(alpha(RGB)) / 255


@pytest.mark.parametrize("name", ["rgba.png", "rgba.tif", "rgba.webp", "la.png"])
def test_what_is_transparent_lies_on_white(name: str) -> None:
    expected = on_white(GREY if name.startswith("la") else RGB, SHARE)
    # WebP keeps no colour where nothing is to be seen.
    assert np.abs(pixels(decode(FILES[name])) - expected).max() <= 1


def test_one_clear_colour_is_white_in_every_kind_of_png() -> None:
    expected = np.full((44, 60, 3), 255)
    expected[:, :30] = (200, 30, 60)
    assert np.array_equal(pixels(decode(FILES["clear colour.png"])), expected)
    grey = np.asarray(Image.new("RGB", (1, 1), (200, 30, 60)).convert("L"))[0, 0]
    assert set(np.unique(pixels(decode(FILES["clear grey.png"])))) == {grey, 255}
    assert set(np.unique(pixels(decode(FILES["clear bit.png"])))) == {255}
    deep = np.asarray(GREY).astype(int)
    expected_deep = np.where(deep == 0, 255, deep)
    assert np.array_equal(pixels(decode(FILES["16 bits, clear.png"])), expected_deep[..., None].repeat(3, 2))


def test_clear_colours_of_a_palette_are_white() -> None:
    palette = RGB.quantize(32)
    numbers = np.asarray(palette)
    colours = np.array(palette.getpalette()).reshape(-1, 3)
    expected = colours[numbers]
    expected[numbers == 3] = 255
    assert np.array_equal(pixels(decode(FILES["palette with a clear colour.png"])), expected)
    share = (np.arange(0, 256, 8) / 255)[numbers]
    half = on_white(palette.convert("RGB"), share)
    assert np.abs(pixels(decode(FILES["palette with half clear colours.png"])) - half).max() <= 1


@pytest.mark.parametrize(
    "name",
    [
        "16 bits.png",
        "16 bits.tif",
        "12 of 16 bits.png",
        "32 bits.tif",
        "8 of 32 bits.tif",
        "unit float.tif",
        "float.tif",
    ],
)
def test_more_than_8_bits_look_as_8_bits_do(name: str) -> None:
    values = np.asarray(GREY).astype(float)
    if name.startswith("12") or name in ("32 bits.tif", "float.tif"):  # spread over the whole range
        values = 255 * (values - values.min()) / np.ptp(values)
    assert np.abs(pixels(decode(FILES[name])) - values[..., None]).max() <= 0.51


def test_ink_is_the_opposite_of_light() -> None:
    ink = np.zeros((8, 8, 4), np.uint8)
    ink[:, :4] = (255, 0, 0, 0)  # cyan
    for kind in ("JPEG", "TIFF"):
        shown = pixels(decode(encoded(Image.fromarray(ink, "CMYK"), kind)))
        assert np.abs(shown[:, :3] - (0, 255, 255)).max() < 8, kind
        assert np.abs(shown[:, 5:] - 255).max() < 8, kind


@pytest.mark.parametrize("name", ["moving.gif", "moving.png", "moving.webp", "pages.tif"])
def test_of_several_pictures_the_first_is_shown(name: str) -> None:
    expected = on_white(RGB, SHARE) if name == "moving.webp" else np.asarray(RGB)
    assert np.abs(pixels(decode(FILES[name])) - expected).mean() < 12  # and not black


def test_heic_and_avif_are_read() -> None:
    pytest.importorskip("pillow_heif")
    decoding.reads_heic()
    for kind in ("HEIF", "AVIF"):
        data = encoded(RGB, kind, quality=95)
        assert np.abs(pixels(decode(data)) - np.asarray(RGB)).mean() < 4


def test_heic_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pillow_heif").register_heif_opener()
    data = encoded(RGB, "HEIF")
    monkeypatch.setattr(decoding, "reads_heic", lambda: False)
    with pytest.raises(PictureError, match=r"pip install 'vsekit\[search\]'") as error:
        decode(data)
    assert (error.value.kind, error.value.lasting) == ("unsupported", False)


@pytest.mark.parametrize("tag", range(2, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_every_orientation_is_turned_upright_once(kind: str, tag: int) -> None:
    data = encoded(RGB, kind, exif=turned(tag), **({"lossless": True} if kind == "WEBP" else {}))
    plain = Image.open(io.BytesIO(encoded(RGB, kind, **({"lossless": True} if kind == "WEBP" else {})))).convert("RGB")
    # What stands where, by EXIF 2.32, table 6: the stored rows and columns that become the upper edge and the left.
    stored = np.asarray(plain)
    expected = {
        2: stored[:, ::-1],
        3: stored[::-1, ::-1],
        4: stored[::-1],
        5: stored.transpose(1, 0, 2),
        6: stored[::-1].transpose(1, 0, 2),
        7: stored[::-1, ::-1].transpose(1, 0, 2),
        8: stored[:, ::-1].transpose(1, 0, 2),
    }[tag]
    shown = decode(data)
    assert np.array_equal(np.asarray(shown), expected)
    assert np.array_equal(np.asarray(decode(shown)), expected)
    with open_picture(data) as image:
        assert upright_size(image) == shown.size


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("side", [None, 20])
def test_the_same_bytes_give_the_same_pixels_by_every_way_in(name: str, side: int | None, tmp_path: Path) -> None:
    data = FILES[name]
    (tmp_path / name).write_bytes(data)
    (tmp_path / "shard.tar").write_bytes(b"before" + data + b"after")
    expected = pixels(decode(data, side))
    ways: dict[str, object] = {
        "path": tmp_path / name,
        "text": str(tmp_path / name),
        "bytearray": bytearray(data),
        "memoryview": memoryview(data),
        "file": io.BytesIO(data),
        "picture": Picture("a", tmp_path / name, "", ""),
        "shard": Picture("a", tmp_path / "shard.tar", "", "", offset=6, size=len(data)),
        "opened by Pillow": Image.open(tmp_path / name),
        "again": decode(data, side),
        "array": np.asarray(decode(data, side)),
    }
    for way, source in ways.items():
        assert np.array_equal(pixels(decode(source, side)), expected), way  # type: ignore[arg-type]
    with (tmp_path / name).open("rb") as file:
        file.seek(7)
        assert np.array_equal(pixels(decode(file, side)), expected)
        assert not file.closed


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 90), st.integers(1, 70), st.integers(0, 99), st.sampled_from(sorted(FILES)), st.integers(1, 40))
def test_whatever_the_size_the_ways_agree(width: int, height: int, seed: int, name: str, side: int) -> None:
    data = every_kind(width, height, seed)[name]
    shown = decode(data, side)
    assert np.array_equal(pixels(shown), pixels(decode(Image.open(io.BytesIO(data)), side)))
    assert np.array_equal(pixels(shown), pixels(decode(shown, side)))
    whole = decode(data)
    assert min(shown.size) >= min(2 * side, min(whole.size))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "TIFF"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_ordinary_pictures_have_the_pixels_pillow_gives(kind: str, mode: str) -> None:
    data = encoded(photo(300, 200).convert(mode), kind)
    with Image.open(io.BytesIO(data)) as image:
        expected = ImageOps.exif_transpose(image).convert("RGB")
    assert np.array_equal(pixels(decode(data, 256)), pixels(expected))


def test_a_large_jpeg_is_decoded_at_a_fraction_of_its_size() -> None:
    data = encoded(photo(900, 1300), "JPEG", exif=turned(6))
    assert decode(data).size == (1300, 900)
    assert decode(data, 450).size == (1300, 900)
    assert decode(data, 225).size == (650, 450)
    assert decode(data, 30).size == (163, 113)
    assert decode(encoded(photo(900, 1300), "PNG"), 30).size == (900, 1300)


def test_a_picture_that_was_given_is_not_changed() -> None:
    given_ = Image.open(io.BytesIO(FILES["large.jpg"]))
    decode(given_, 10)
    assert given_.size == (540, 396)
    rgba = Image.open(io.BytesIO(FILES["turned rgba.png"]))
    rgba.load()
    decode(rgba)
    assert (rgba.mode, rgba.size, rgba.getexif()[0x0112]) == ("RGBA", (60, 44), 6)


def test_a_later_picture_of_several_is_the_one_asked_for() -> None:
    image = Image.open(io.BytesIO(FILES["moving.gif"]))
    image.seek(1)
    assert pixels(decode(image)).max() < 10


def test_arrays_of_every_kind_are_pictures() -> None:
    colours, grey = np.asarray(RGB), np.asarray(GREY)
    for array in (colours, colours / 255, colours.astype(np.float32), colours.astype(np.int64), colours[::-1][::-1]):
        assert np.array_equal(pixels(decode(array)), colours)
    for array in (grey, grey[..., None], grey.astype(np.uint16) * 257, grey / 255):
        assert np.array_equal(pixels(decode(array)), grey[..., None].repeat(3, 2))
    rgba = np.dstack([colours, np.zeros((44, 60), np.uint8)])
    assert pixels(decode(rgba)).min() == 255
    for wrong in (np.zeros(3), np.zeros((2, 2, 5)), np.zeros((0, 3)), np.zeros((2, 2), complex), np.array([["a"]])):
        with pytest.raises(PictureError, match="is no picture"):
            decode(wrong)


def png_header(width: int, height: int) -> bytes:
    """The beginning of a PNG of that size: all that is read before it is decoded."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return data + struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))


def webp_header(width: int, height: int) -> bytes:
    """A lossless WebP of 46 bytes that says it has that size."""
    bits = (width - 1) | (height - 1) << 14
    chunk = b"\x2f" + struct.pack("<I", bits) + b"\x07\x10\x11\x11\x88\x88\xfe\x07" + bytes(13)
    body = b"WEBPVP8L" + struct.pack("<I", len(chunk)) + chunk
    return b"RIFF" + struct.pack("<I", len(body)) + body


def never(*_: object) -> None:
    raise AssertionError("decoded")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (png_header(20_000, 8_000), "20000 × 8000 are more than 150 megapixels"),
        (png_header(30_000, 20_000), "more than 150 megapixels"),
        (webp_header(9_999, 9_999), "9999 × 9999 pixels in 46 bytes"),
        (png_header(5_000, 5_000), "5000 × 5000 pixels in 45 bytes"),
    ],
)
def test_what_unfolds_too_far_is_refused_by_its_header(
    data: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "upright", never)
    with pytest.raises(PictureError, match=reason) as error:
        decode(data)
    assert (error.value.kind, error.value.lasting) == ("large", True)


def test_plain_pictures_within_the_limits_are_read() -> None:
    assert decode(encoded(Image.new("RGB", (4000, 3000), "white"), "JPEG"), 100).size == (500, 375)
    assert decode(encoded(Image.new("RGB", (3000, 3000), "white"), "WEBP", lossless=True)).size == (3000, 3000)
    assert decode(FILES["rgb.png"], max_pixels=60 * 44).size == (60, 44)
    with pytest.raises(PictureError, match="60 × 44 are more than"):
        decode(FILES["rgb.png"], max_pixels=60 * 44 - 1)


def test_a_file_of_too_many_bytes_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MAX_BYTES", 100)
    monkeypatch.setattr(decoding, "_opened", never)
    monkeypatch.setattr(Picture, "read", never)
    (tmp_path / "a.png").write_bytes(FILES["rgb.png"])
    inside = Picture("a", tmp_path / "a.png", "", "", offset=0, size=101)
    for source in (tmp_path / "a.png", FILES["rgb.png"], io.BytesIO(FILES["rgb.png"]), inside):
        with pytest.raises(PictureError, match="bytes are more than 100") as error:
            decode(source)
        assert error.value.kind == "large"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no picture",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        b"\x89PNG\r\n\x1a\n" + b"\0" * 40,
        b"GIF89a",
        b"BM" + b"\xff" * 60,
        FILES["rgb.png"][:-200],
        FILES["large.jpg"][:-500],
        FILES["rgb.webp"][:100],
        FILES["16 bits.tif"][:200],
    ],
)
def test_broken_bytes_have_one_error_with_a_reason(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(data)
    with pytest.raises(PictureError) as error:
        decode(data, 20)
    assert error.value.reason
    assert "<" not in error.value.reason
    assert (error.value.kind, error.value.lasting) == ("broken", True)
    with pytest.raises(UserError, match=r"a\.jpg"):
        decode(tmp_path / "a.jpg", 20)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(FILES)), st.floats(0, 1), st.binary(min_size=1, max_size=40), st.booleans())
@pytest.mark.filterwarnings("ignore")
def test_whatever_stands_in_a_file_it_is_read_or_refused(name: str, place: float, noise: bytes, cut: bool) -> None:
    data = FILES[name]
    at = int(place * len(data))
    with suppress(PictureError):
        assert decode(data[:at] + noise + (b"" if cut else data[at + len(noise) :]), 20, max_pixels=10**6).mode == "RGB"


@pytest.mark.parametrize("name", ["gone.png", "", "a\0b.png"])
def test_what_is_not_there_is_missing(name: str, tmp_path: Path) -> None:
    with pytest.raises(PictureError) as error:
        decode(tmp_path / name)
    assert (error.value.kind, error.value.lasting) == ("missing", False)
    with pytest.raises(PictureError) as error:
        decode(Picture("a", tmp_path / "gone.tar", "", "", offset=3, size=4))
    assert (error.value.kind, error.value.reason) == ("missing", "No such file or directory")


@pytest.mark.parametrize("source", [None, 3, object(), [1, 2]])
def test_what_holds_no_picture_is_named(source: object) -> None:
    with pytest.raises(PictureError, match=f"{type(source).__name__} holds no picture"):
        decode(source)  # type: ignore[arg-type]


def test_too_little_memory_is_not_held_against_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(image: Image.Image) -> None:
        raise MemoryError

    monkeypatch.setattr(decoding, "_rgb", full)
    with pytest.raises(PictureError, match="not enough memory for 60 × 44 pixels") as error:
        decode(FILES["rgb.png"])
    assert (error.value.kind, error.value.lasting) == ("memory", False)


def old(data: bytes) -> np.ndarray:
    """As pictures were read for training before there was one way."""
    with Image.open(io.BytesIO(data)) as image:
        image.draft("RGB", (40, 40))
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


@pytest.mark.parametrize("name", sorted(FILES))
def test_what_is_read_otherwise_than_before_has_a_new_version(name: str) -> None:
    if not np.array_equal(old(FILES[name]), np.asarray(decode(FILES[name], 20))):
        assert version_of(FILES[name]) == decoding.VERSION


@pytest.mark.parametrize("name", ["rgb.jpg", "cmyk.jpg", "turned 6.jpg", "rgb.png", "grey.png", "bits.png"])
def test_what_is_read_as_before_keeps_its_version(name: str) -> None:
    assert version_of(FILES[name]) == 0


def test_decoding_is_done_nowhere_else() -> None:
    source = Path(decoding.__file__).parents[1]
    words = ("Image.open(", "exif_transpose", ".draft(", "pillow_heif")
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if any(word in line for word in words)
    }
    # The export's are programs for people who have no vsekit.
    assert found == {"data/decoding.py", "export/readme.py", "export/sentence_transformers.py"}
