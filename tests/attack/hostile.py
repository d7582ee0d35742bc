"""Pictures that are made to harm: small files that unfold to gigabytes, headers that lie, animations and pages without end."""

from __future__ import annotations

import struct
import zlib

from PIL import Image
from tests.data.files import encoded

from vsekit.data.decoding import reads_heic


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, data: bytes = b"", *, depth: int = 8, colours: int = 2, before: bytes = b"") -> bytes:
    """colours: as PNG numbers them; 0 is grey, 2 RGB."""
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + before + _chunk(b"IDAT", zlib.compress(data, 9)) + _chunk(b"IEND", b"")


def gif(width: int, height: int) -> bytes:
    """One picture of that size in its header, and next to nothing in it."""
    screen = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    return screen + b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02\x4c\x01\x00;"


def jpeg_that_says(width: int, height: int) -> bytes:
    made = bytearray(encoded(Image.new("L", (64, 64)), "JPEG"))
    at = made.index(b"\xff\xc0")
    made[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(made)


def webp_that_says(width: int, height: int) -> bytes:
    made = bytearray(encoded(Image.new("RGB", (16, 16)), "WEBP", lossless=True))
    at = made.index(b"VP8L") + 9  # behind the chunk's size and a signature: 14 bits each
    made[at : at + 4] = struct.pack("<I", (width - 1) | (height - 1) << 14 | made[at + 3] >> 4 << 28)
    return bytes(made)


def heic_that_says(width: int, height: int) -> bytes:
    made = bytearray(encoded(Image.new("RGB", (64, 64)), "HEIF"))
    at = made.index(b"ispe") + 8
    made[at : at + 8] = struct.pack(">II", width, height)
    return bytes(made)


def scans(side: int, count: int) -> bytes:
    """A progressive JPEG whose last scan comes again and again: the decoder goes through the whole picture each time."""
    made = encoded(Image.new("L", (side, side)), "JPEG", progressive=True, quality=5)
    return made[:-2] + made[made.rindex(b"\xff\xda") : -2] * count + b"\xff\xd9"


def _frames(kind: str, count: int) -> bytes:
    frames = [Image.new("L", (40, 40), i % 256) for i in range(count)]
    return encoded(frames[0], kind, save_all=True, append_images=frames[1:])


def _small(before: bytes) -> bytes:
    return png(4, 4, b"\0" * 13 * 4, before=before)


def pictures() -> dict[str, bytes]:
    zeros = zlib.compress(b"\0" * 100_000_000)
    large = Image.new("1", (9999, 9999))
    found = {
        "png of 900 megapixels": png(30_000, 30_000, b"\0" * (3751 * 30_000), depth=1, colours=0),
        "png that fills its limit": png(9999, 9999, b"\0" * (1251 * 9999), depth=1, colours=0),
        "png of 4 exapixels": png(2**31 - 1, 2**31 - 1, b"\0" * 100),
        "png of nothing": png(0, 0),
        "png with a text of 100 MB": _small(_chunk(b"zTXt", b"a\0\0" + zeros)),
        "png with a profile of 100 MB": _small(_chunk(b"iCCP", b"a\0\0" + zeros)),
        "png with 200 texts of 1 MB": _small(
            b"".join(_chunk(b"iTXt", b"%d\0\1\0\0\0" % i + zlib.compress(b"\0" * 10**6)) for i in range(200))
        ),
        "webp that says 100 megapixels": webp_that_says(9999, 9999),
        "webp that says 268 megapixels": webp_that_says(16384, 16384),
        "webp of 200 pictures": _frames("WEBP", 200),
        "gif of 4 gigapixels": gif(65535, 65535),
        "gif of 100 megapixels": gif(9999, 9999),
        "gif of 2000 pictures": _frames("GIF", 2000),
        "tiff of 100 megapixels": encoded(large, "TIFF", compression="group4"),
        "tiff of 100 megapixels, deflated": encoded(large, "TIFF", compression="tiff_adobe_deflate"),
        "tiff of 500 pages": _frames("TIFF", 500),
        "tiff that goes round in circles": b"II*\0\x08\0\0\0" + struct.pack("<HI", 0, 8),
        "tiff of 65535 tags": b"II*\0\x08\0\0\0" + struct.pack("<H", 65535) + b"\xff" * 100,
        "jpeg that says 4 gigapixels": jpeg_that_says(65535, 65535),
        "jpeg that says 100 megapixels": jpeg_that_says(9999, 9999),
        "jpeg of 500 scans": scans(2000, 500),
        "bmp that says 100 megapixels": b"BM"
        + struct.pack("<IHHI", 100, 0, 0, 54)
        + struct.pack("<IiiHHIIiiII", 40, 9999, 9999, 1, 24, 0, 0, 0, 0, 0, 0),
        "ppm that says 100 megapixels": b"P6 9999 9999 255\n" + b"\0" * 100,
        "ppm with a number of a million digits": b"P3 " + b"9" * 10**6,
        "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n{loop} exec\n",
        "svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    }
    if reads_heic():
        found["heic that says 4 gigapixels"] = heic_that_says(65535, 65535)
        found["heic that says 100 megapixels"] = heic_that_says(9999, 9999)
    return found


#: What unfolds too far, or is no picture at all. The others may be read.
REFUSED = {
    "png of 900 megapixels", "png of 4 exapixels", "png of nothing", "webp that says 100 megapixels",
    "webp that says 268 megapixels", "gif of 4 gigapixels",
    "gif of 100 megapixels", "tiff of 100 megapixels", "tiff that goes round in circles", "tiff of 65535 tags",
    "jpeg that says 4 gigapixels", "jpeg that says 100 megapixels", "bmp that says 100 megapixels",
    "ppm that says 100 megapixels", "ppm with a number of a million digits", "postscript", "svg",
    "heic that says 4 gigapixels", "heic that says 100 megapixels",
}  # fmt: skip
