"""The one door for pictures: whatever holds one becomes an upright picture in RGB, the same by every way in.

    rotation      as EXIF says; damaged EXIF is passed over
    transparency  on white
    depth         grey of 16 or 32 bits, whole or floating, is scaled to 8 bits and never clipped, see `eight_bits`
    colours       palettes, CMYK and YCCK (inverted in JPEGs, as Adobe writes them) and black and white become RGB
    animation     the first picture
    large JPEGs   are decoded at ½, ¼ or ⅛ of their size where that leaves twice what is asked for
    limits        `MAX_PIXELS`, `MAX_BYTES` and `FULLEST`, read from the header before anything is decoded

Nothing else in vsekit decodes pictures: training, features, indexing, re-ranking, uploads, thumbnails, checks and Python
all come through `decode`.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import numpy as np
from PIL import Image, ImageFile, UnidentifiedImageError

from vsekit.data.depth import eight_bits
from vsekit.data.pairs import Picture
from vsekit.errors import UserError, missing_extra

#: A picture with more is refused before it is decoded: a small file can unfold to any size. Just below Pillow's own limit.
MAX_PIXELS = 150_000_000
#: A file with more is refused before it is read.
MAX_BYTES = 2**30
#: Pixels a byte may stand for in pictures above ROOMY pixels. Nothing worth looking at is packed that tightly: a page with a
#: line of text on it has some 7,000, a photograph 10.
FULLEST, ROOMY = 20_000, 10_000_000
#: Changes whenever the pixels of some pictures do; see `version_of`.
VERSION = 1
#: By Pillow's names: no format whose decoder starts other programs (EPS), and none that is told by nearly any bytes (TGA).
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "PPM", "JPEG2000", "AVIF", "HEIF")

Source: TypeAlias = "Path | str | bytes | bytearray | memoryview | BinaryIO | Picture | Image.Image | np.ndarray"
Kind: TypeAlias = Literal["missing", "unsupported", "large", "memory", "broken"]

_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_HEIC = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"}
_AVIF = {b"avif", b"avis"}
_PNG = b"\x89PNG\r\n\x1a\n"
_REMEDIES: dict[Kind, str | None] = {
    "missing": "Check its name and whether it may be read.",
    "unsupported": None,
    "large": "Make it smaller.",
    "memory": "Make it smaller, or free some memory.",
    "broken": "Is it a whole image file?",
}


class PictureError(UserError):
    """A picture that can't be read.

    reason: why, in a few words.
    kind: "missing" (the file can't be opened), "unsupported" (another installation could read it), "large" (beyond a limit),
        "memory" (there was too little), or "broken".
    lasting: whether it stays so until the file changes.
    """

    def __init__(self, reason: str, kind: Kind = "broken", file: Path | str | None = None) -> None:
        what = "no such picture" if reason == "No such file or directory" else f"can't read this picture: {reason}"
        super().__init__(what, file=file, remedy=_REMEDIES[kind])
        self.reason, self.kind = reason, kind
        self.lasting = kind in ("large", "broken")


def decode(source: Source, side: int | None = None, *, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """The picture, upright and in RGB.

    Args:
        source: a path, the bytes of a file, a file open for reading (read from its beginning, and left open), a `Picture`, a
            PIL picture, or an array (H, W), (H, W, 1), (H, W, 3) or (H, W, 4) of any kind of number; what is not uint8 is
            scaled as `eight_bits` says. A PIL picture that was decoded already is taken as it is, at its full size; it may
            be what is returned.
        side: what the shorter side will be scaled to, or more; a JPEG whose sides are 2, 4 or 8 times twice that is decoded
            at that fraction of its size. None decodes at full size.
        max_pixels: the most it may have.

    Raises PictureError; UserError for a `Picture` without a file.
    """
    with open_picture(source, max_pixels=max_pixels) as image:
        return upright(image, side)


@contextmanager
def open_picture(source: Source, *, max_pixels: int = MAX_PIXELS) -> Iterator[Image.Image]:
    """The picture, not decoded yet, within limits; its size and metadata can be read, and `upright` makes pixels of it."""
    if isinstance(source, np.ndarray):
        yield _of_array(source)
        return
    if isinstance(source, Image.Image):
        data = _not_yet_decoded(source)
        if data is None:
            yield source
            return
        source = data
    name = source.path if isinstance(source, Picture) else source if isinstance(source, str | Path) else None
    try:
        with _file(source) as (file, size):
            check_bytes(size)
            yield _opened(file, size, max_pixels)
    except PictureError as error:
        raise PictureError(error.reason, error.kind, name) from error.__cause__


def upright(image: Image.Image, side: int | None = None) -> Image.Image:
    """What `open_picture` gave, decoded, upright and in RGB. side: see `decode`. May change what it is given."""
    with _decoding(image):
        if side:
            image.draft("RGB", (2 * side, 2 * side))
        image.load()
        turn = _TURNS.get(_orientation(image))  # asked now: Pillow turns TIFFs itself when they are loaded
        picture = _rgb(image)
        if turn is not None:
            picture = picture.transpose(turn)
    if picture is not image:
        picture.info = {}  # it says how to turn what is upright now
    return picture


def upright_size(image: Image.Image) -> tuple[int, int]:
    """Width and height of the upright picture, of one that is not decoded yet.

    PNGs are decoded, since their EXIF may stand behind the pixels: PictureError for a broken one.
    """
    if image.format == "PNG":
        with _decoding(image):  # or Pillow does it when asked for EXIF, and the error would be taken for one of EXIF
            image.load()
    turned = image.format != "TIFF" and _orientation(image) in (5, 6, 7, 8)  # Pillow gives the upright size of TIFFs
    return (image.height, image.width) if turned else image.size


def version_of(head: bytes) -> int:
    """For names of what was computed from pixels: 0 for pictures that were always read as they are now, else `VERSION`.

    head: the first bytes of the file, a few thousand or more. JPEGs, and PNGs of 8-bit grey or of RGB without
    transparency, have 0.
    """
    if head.startswith(b"\xff\xd8\xff"):
        return 0
    if head.startswith(_PNG) and len(head) > 25:
        depth, colours = head[24], head[25]
        if (colours == 2 or (colours == 0 and depth <= 8)) and b"tRNS" not in head.partition(b"IDAT")[0]:
            return 0
    return VERSION


def check_bytes(size: int, file: str | None = None) -> None:
    """Raises PictureError for a file that is not to be read."""
    if size > MAX_BYTES:
        raise PictureError(f"{size:,} bytes are more than {MAX_BYTES:,}, the limit", "large", file)


@cache
def reads_heic() -> bool:
    """Whether HEIC pictures can be opened here; from then on Pillow does."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return False
    register_heif_opener()
    return True


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN and name != "HEIF")


@contextmanager
def _decoding(image: Image.Image) -> Iterator[None]:
    """Makes every error of a decoder a PictureError."""
    try:
        yield
    except MemoryError:
        raise PictureError(f"not enough memory for {image.width} × {image.height} pixels", "memory") from None
    except Exception as error:  # on broken bytes decoders raise nearly anything: OSError, SyntaxError, struct.error …
        raise PictureError(str(error) or type(error).__name__) from error


@contextmanager
def _file(source: Any) -> Iterator[tuple[BinaryIO, int]]:
    """The source as a file that can be moved about in, and its size. Closed afterwards, if it was opened here."""
    with ExitStack() as stack:
        try:
            if isinstance(source, Picture):
                check_bytes(source.size or 0)
                source = source.path if source.path and source.offset is None else source.read()
            if isinstance(source, str | Path):
                source = stack.enter_context(Path(source).open("rb"))
        except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
            raise PictureError(getattr(error, "strerror", None) or str(error), "missing") from None
        if isinstance(source, bytes | bytearray | memoryview):
            source = io.BytesIO(source)
        if not hasattr(source, "read"):
            raise PictureError(f"{type(source).__name__} holds no picture")
        if not (hasattr(source, "seekable") and source.seekable()):
            source = io.BytesIO(source.read(MAX_BYTES + 1))
        yield source, source.seek(0, io.SEEK_END)


def _opened(file: BinaryIO, size: int, max_pixels: int) -> Image.Image:
    file.seek(0)
    head = file.read(64)
    file.seek(0)
    if not head:
        raise PictureError("the file is empty")
    too_many = f"more than {max_pixels / 1e6:g} megapixels, the limit"
    try:
        image = Image.open(file, formats=_format_of(head))
    except PictureError:
        raise
    except UnidentifiedImageError:
        raise PictureError("not a picture, or damaged at its beginning") from None
    except Image.DecompressionBombError:
        raise PictureError(too_many, "large") from None
    except Exception as error:  # as in `_decoding`
        raise PictureError(str(error) or type(error).__name__) from error
    pixels = image.width * image.height
    if pixels > max_pixels:
        raise PictureError(f"{image.width} × {image.height} are {too_many}", "large")
    if pixels > max(ROOMY, FULLEST * size):
        what = f"{image.width} × {image.height} pixels in {size:,} bytes: there can't be anything to see in it"
        raise PictureError(what, "large")
    return image


def _format_of(head: bytes) -> tuple[str, ...]:
    """The formats to try. HEIC and AVIF pictures name themselves in their first box, by one or several brands."""
    if head[4:8] == b"ftyp":
        (length,) = struct.unpack(">I", head[:4])
        box = head[8 : min(length, len(head))]
        brands = {box[at : at + 4] for at in range(0, len(box), 4)}
        if brands & _HEIC or (box[:4] in (b"mif1", b"msf1") and not brands & _AVIF):
            if not reads_heic():
                missing = missing_extra("pillow-heif", "search")
                raise PictureError(f"it is in HEIC; {missing.what}. {missing.remedy}", "unsupported")
            return ("HEIF",)
        if brands & _AVIF and "AVIF" not in _formats():
            raise PictureError("it is in AVIF, which this version of Pillow can't read", "unsupported")
    return _formats()


def _not_yet_decoded(image: Image.Image) -> bytes | None:
    """The bytes behind a PIL picture that was opened and not decoded, so that they are read as any others."""
    if not isinstance(image, ImageFile.ImageFile) or not image.tile or image.fp is None or image.tell():
        return None
    at = image.fp.tell()
    image.fp.seek(0)
    data = image.fp.read()
    image.fp.seek(at)
    return data


def _of_array(array: np.ndarray) -> Image.Image:
    """(H, W), (H, W, 1), (H, W, 3) or (H, W, 4)"""
    array = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    shown = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    if not shown or not array.size or array.dtype.kind not in "biuf":
        raise PictureError(f"an array {array.shape} of {array.dtype} is no picture", "broken")
    return Image.fromarray(np.ascontiguousarray(eight_bits(array)))


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged EXIF makes Pillow raise nearly anything; the picture itself is whole
        return 1


def _rgb(image: Image.Image) -> Image.Image:
    """A decoded picture in RGB, on white."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        values = np.asarray(image)
        grey = eight_bits(values)
        if isinstance(image.info.get("transparency"), int):
            grey[values == image.info["transparency"]] = 255
        return Image.fromarray(grey).convert("RGB")
    if not image.has_transparency_data:
        return image if image.mode == "RGB" else image.convert("RGB")
    if image.mode != "RGBA":
        image = _with_alpha(image)
    white = Image.new("RGB", image.size, "white")
    white.paste(image, mask=image)
    return white


def _with_alpha(image: Image.Image) -> Image.Image:
    """In RGBA."""
    if image.mode == "La":  # Pillow knows no direct way
        image = image.convert("LA")
    key = image.info.get("transparency")
    if isinstance(key, tuple) and max(key) > 255:  # of a 16-bit PNG, whose pixels Pillow brings to 8 bits
        image = image.copy()
        image.info["transparency"] = tuple(value >> 8 for value in key)
    return image.convert("RGBA")
