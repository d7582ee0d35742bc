from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vsekit.data.decoding import PictureError
from vsekit.search.items import Item
from vsekit.serve.decoder import thumbnail
from vsekit.serve.decoders import Decoders
from vsekit.serve.pictures import Opened, Thumbnails, open_indexed, refused
from vsekit.serve.problems import ProblemError


def saved(path: Path, size: tuple[int, int] = (40, 20), colour: str = "red", **options: object) -> Path:
    Image.new("RGB", size, colour).save(path, **options)
    return path


def opened(path: Path | str, *roots: Path, **known: object) -> Opened:
    item = Item("a", "image", str(path), **known)  # type: ignore[arg-type]
    return open_indexed(item, [root.resolve() for root in roots])


def status(path: Path | str, *roots: Path) -> int:
    with pytest.raises(ProblemError) as error:
        opened(path, *roots)
    return error.value.status_code


def test_a_file_in_an_indexed_folder_is_read(folder: Path) -> None:
    path = saved(folder / "a.png")
    with opened(path, folder).file as file:
        assert file.read() == path.read_bytes()


def test_a_link_that_leads_outside_is_refused(folder: Path) -> None:
    secret = saved(folder.parent / "outside" / "secret.png")
    (folder / "link.png").symlink_to(secret)
    (folder / "inner").symlink_to(secret.parent)
    assert status(folder / "link.png", folder) == 403
    assert status(folder / "inner" / "secret.png", folder) == 403


def test_a_link_that_stays_inside_is_read(folder: Path) -> None:
    saved(folder / "a.png")
    (folder / "link.png").symlink_to(folder / "a.png")
    opened(folder / "link.png", folder).file.close()


def test_an_indexed_folder_that_is_itself_a_link_is_read(folder: Path) -> None:
    saved(folder / "a.png")
    link = folder.parent / "linked"
    link.symlink_to(folder)
    opened(link / "a.png", link).file.close()


def test_a_path_that_climbs_out_is_refused(folder: Path) -> None:
    saved(folder.parent / "outside" / "secret.png")
    assert status(f"{folder}/../outside/secret.png", folder) == 403
    assert status("/etc/passwd", folder) == 403
    assert status("/etc/passwd") == 403


def test_a_folder_whose_name_goes_on_is_not_the_indexed_one(folder: Path) -> None:
    other = folder.parent / "photos-private"
    other.mkdir()
    assert status(saved(other / "a.png"), folder) == 403


@pytest.mark.parametrize("path", ["", "missing.png", "a\0b.png", "x" * 5000])
def test_what_is_not_there_is_not_found(path: str, folder: Path) -> None:
    assert status(f"{folder}/{path}" if path else "", folder) == 404


def test_what_is_no_file_is_not_found_and_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.png")
    assert status(folder / "pipe.png", folder) == 404
    assert status(folder, folder) == 404


def test_a_changed_file_has_another_version(folder: Path) -> None:
    path = saved(folder / "a.png")
    known = {"content": "abc", "size": path.stat().st_size, "mtime_ns": path.stat().st_mtime_ns}
    same = opened(path, folder, **known)
    same.file.close()
    assert (same.version, same.fixed) == ("abc", True)
    os.utime(path, ns=(0, 0))
    changed = opened(path, folder, **known)
    changed.file.close()
    assert changed.version != "abc"
    assert not changed.fixed


def test_a_picture_inside_a_shard_is_read_and_nothing_around_it(folder: Path) -> None:
    inner = saved(folder / "a.png").read_bytes()
    (folder / "shard.tar").write_bytes(b"before" + inner + b"after")
    with opened(f"{folder}/shard.tar#6+{len(inner)}", folder).file as file:
        assert file.read() == inner
    (folder.parent / "outside" / "shard.tar").write_bytes(inner)
    assert status(f"{folder.parent}/outside/shard.tar#0+{len(inner)}", folder) == 403
    assert status(f"{folder}/gone.tar#0+9", folder) == 404
    with opened(f"{folder}/shard.tar#{10**9}+{10**12}", folder).file as file:
        assert file.read() == b""


def test_a_file_with_a_name_like_a_place_in_a_shard_is_itself(folder: Path) -> None:
    path = saved(folder / "a.png").rename(folder / "a.tar#0+3")
    with opened(path, folder).file as file:
        assert file.read() == path.read_bytes()


def png_header(width: int, height: int) -> bytes:
    """A PNG that says it is this large, and holds nearly nothing."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [2000, 60_000])
def test_a_decompression_bomb_is_refused_by_its_header(side: int) -> None:
    with pytest.raises(PictureError) as error:
        thumbnail(io.BytesIO(png_header(side, side)), 100, pixels=1_000_000)
    assert refused(error.value).status_code == 413


@pytest.mark.parametrize(
    "content", [b"", b"root:x:0:0", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"<svg/>"]
)
def test_what_is_no_picture_is_refused(content: bytes) -> None:
    with pytest.raises(PictureError) as error:
        thumbnail(io.BytesIO(content), 100, pixels=1_000_000)
    assert refused(error.value).status_code == 415


def test_a_cut_off_picture_is_refused(folder: Path) -> None:
    path = saved(folder / "a.jpg", (400, 400))
    half = io.BytesIO(path.read_bytes()[:1000])
    with pytest.raises(PictureError) as error:
        thumbnail(half, 100, 1_000_000)
    assert refused(error.value).status_code == 415


def test_a_picture_is_turned_upright_and_keeps_its_aspect(folder: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held on its side
    image = Image.new("RGB", (80, 40), "blue")
    image.paste("red", (0, 0, 40, 40))
    image.save(folder / "a.jpg", exif=exif, quality=95)
    with (folder / "a.jpg").open("rb") as file:
        shown = thumbnail(file, 20, 10_000)
    assert shown.size == (10, 20)
    top, bottom = np.asarray(shown)[3, 5], np.asarray(shown)[16, 5]
    assert top[0] > 200 > 60 > top[2]
    assert bottom[2] > 200 > 60 > bottom[0]


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_is_white(mode: str, folder: Path) -> None:
    image = Image.new("RGBA", (10, 10), (0, 0, 0, 0)).convert(mode)
    image.save(folder / "a.png", **({"transparency": 0} if mode == "P" else {}))
    with (folder / "a.png").open("rb") as file:
        assert thumbnail(file, 10, 10_000).getpixel((5, 5)) == (255, 255, 255)


@pytest.mark.parametrize("mode", ["L", "CMYK", "I;16", "1"])
def test_every_mode_becomes_a_jpeg(mode: str, folder: Path, decoders: Decoders) -> None:
    Image.new(mode, (10, 10)).save(folder / "a.tif")
    made = Thumbnails(10**6, decoders).get(opened(folder / "a.tif", folder), 128)
    assert Image.open(io.BytesIO(made)).format == "JPEG"


def test_thumbnails_are_kept_until_the_memory_is_full(folder: Path, decoders: Decoders) -> None:
    paths = [saved(folder / f"{i}.png", (256, 256), colour) for i, colour in enumerate(("red", "green", "blue"))]
    one = len(Thumbnails(0, decoders).get(opened(paths[0], folder), 100))
    thumbnails = Thumbnails(int(2.5 * one), decoders)
    first = [thumbnails.get(opened(path, folder), 100) for path in paths]
    assert thumbnails._held == sum(map(len, thumbnails._kept.values())) <= 2.5 * one
    assert len(thumbnails._kept) == 2
    assert [thumbnails.get(opened(path, folder), 100) for path in paths] == first


def test_a_kept_thumbnail_is_not_made_again_and_a_changed_file_is(folder: Path, decoders: Decoders) -> None:
    path = saved(folder / "a.png", colour="red")
    thumbnails = Thumbnails(10**6, decoders)
    made = thumbnails.get(opened(path, folder), 100)
    assert thumbnails.get(opened(path, folder), 120) is made  # the same step of sizes
    saved(path, (60, 20), colour="blue")
    assert Image.open(io.BytesIO(thumbnails.get(opened(path, folder), 100))).size == (60, 20)
